//! Names of a base that this home lacks, as after a recovery of its database. Those that lie on media that are away cannot be built on.

use std::collections::HashSet;

use capstan_address::Address;
use capstan_catalog::CatalogError;
use capstan_catalog::places::SegmentPlace;
use capstan_engine::message::shell_word;
use capstan_format::id::MediumId;
use capstan_idb::LogLevel;

use crate::Cell;
use crate::error::{BackupRefusal, CellError, Result};
use crate::media::exported;
use crate::reading::version::VersionView;

impl Cell {
    /// Reads the names of what was not looked at where the home has not all of them. What is damaged there counts as damaged from now
    /// on. An error where they are away with their media: it names all of these.
    pub(super) fn look_at_names(&self, view: &VersionView<'_>) -> Result<()> {
        let mut away: Vec<MediumId> = Vec::new();
        let mut known: HashSet<MediumId> = HashSet::new();
        for place in &view.segments {
            if !self.lacks_names(view, place)? {
                continue;
            }
            let media: Vec<MediumId> = place.places().into_iter().map(|at| at.1).collect();
            if !media.is_empty() && media.iter().all(|id| known.contains(id)) {
                continue;
            }
            // Nothing is loaded for a base that cannot be built on.
            if !away.is_empty() && view.is_on_tape_to_be_had(place)? {
                continue;
            }
            match view.contents(place) {
                Ok(_) => {}
                Err(CatalogError::NoCatalog { away: why, .. }) if why.is_passing => {
                    // Any one of them would do.
                    if !media.iter().any(|id| away.contains(id)) {
                        away.extend(media.first());
                    }
                    known.extend(media);
                }
                Err(e) => return Err(e.into()),
            }
        }
        match away.is_empty() {
            true => Ok(()),
            false => Err(self.names_away(&away)?),
        }
    }

    /// Whether names of a segment that was taken on trust are to be read from its media before anything is built on them. Where no
    /// catalog is kept, a tape at hand is read when it is the turn of its names.
    fn lacks_names(&self, view: &VersionView<'_>, place: &SegmentPlace) -> Result<bool> {
        if !view.is_taken_on_trust(place).unwrap_or(false) {
            return Ok(false);
        }
        if self.idb.log_level_of(place.segment, place.by)? != LogLevel::All
            && view.is_on_tape_to_be_had(place)?
        {
            return Ok(false);
        }
        Ok(!self.has_catalog(place.segment).unwrap_or(false))
    }

    /// The error for names that lie on these media only, which are away.
    fn names_away(&self, media: &[MediumId]) -> Result<CellError> {
        let (mut named, mut imports) = (Vec::new(), Vec::new());
        for id in media {
            let row = self.idb.medium(*id)?;
            let label = row.as_ref().map_or_else(|| id.short(), |row| row.label.clone());
            named.push(match exported(&self.idb, *id)? {
                Some(to) => format!("{label} {to}"),
                None => label,
            });
            let import = match row.map(|row| row.device) {
                Some(Address::Tape(tape)) => tape.library.to_string(),
                Some(device) => device.to_string(),
                None => continue,
            };
            let import = format!("`capstan import {}`", shell_word(&import));
            if !imports.contains(&import) {
                imports.push(import);
            }
        }
        let (named, imports) = (named.join(", "), imports.join(" and "));
        Ok(BackupRefusal::NamesAway { media: named, imports }.into())
    }
}
