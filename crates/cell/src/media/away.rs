//! Media that are not where they were last seen, though nobody is on record as having taken them away.
//!
//! What they hold may come back any day, so nothing is decided without them: the keep rules of their objects stand still
//! ([`crate::prune`]), and `status` alarms. A medium that was exported is away on purpose, one that was retired was given up, and one
//! of another cell is that cell's to watch over.

use std::collections::{HashMap, HashSet};

use capstan_devices::DeviceError;
use capstan_devices::address::{Address, LibraryName, TapeAddress};
use capstan_format::id::{MediumId, ObjectId, SegmentId, VersionId};
use capstan_idb::{Medium, Object};

use super::changed::ways;
use super::{look, shown};
use crate::Cell;
use crate::error::{Result, chain};

/// A medium that is not where it was last seen, though nobody is on record as having taken it away.
#[derive(Debug, Clone)]
pub struct AwayMedium {
    /// What the database has of it, with its place.
    pub medium: Medium,
    /// What is found there.
    pub why: String,
    /// Whether it is there and not as it was last written.
    pub changed: bool,
    /// The objects of which it has something that was not given up.
    pub objects: Vec<Object>,
}

impl AwayMedium {
    /// In a sentence, without what to do.
    pub fn text(&self) -> String {
        let name = shown(self.medium.id, &self.medium.label);
        if self.changed {
            return format!(
                "{name} in {} is not as it was last written: {}",
                self.medium.device, self.why
            );
        }
        format!(
            "{name} is not in {} ({}), though nobody is on record as having taken it away",
            self.medium.device, self.why
        )
    }

    /// What to do about it.
    pub fn hint(&self) -> String {
        let label = &self.medium.label;
        if self.changed
            && let Ok(address) = self.medium.device.parse()
        {
            return ways(&self.medium, &address, &self.why);
        }
        format!(
            "mount it there or import it from where it is now; `capstan media export '{label}'` records that it was taken away, \
             `capstan media forget '{label}'` gives it up"
        )
    }
}

/// Barcodes of the tapes in libraries, or why a library cannot be asked; each is asked once.
type Libraries = HashMap<LibraryName, std::result::Result<HashSet<String>, Option<String>>>;

impl Cell {
    /// The media that are away so, of which objects still need something.
    pub fn media_away(&self) -> Result<Vec<AwayMedium>> {
        let mut libraries = Libraries::new();
        let mut away = Vec::new();
        for medium in self.idb.media()? {
            let management = self.idb.management(medium.id)?;
            let on_purpose = management.exported_us.is_some() || management.retired_us.is_some();
            if on_purpose || management.is_other_cells() {
                continue;
            }
            let changed = management.changed_us.is_some();
            let found = management.changed_why.filter(|_| changed);
            let Some(why) = found.or_else(|| why_away(&medium, &mut libraries)) else { continue };
            let objects = self.objects_on(medium.id)?;
            if !objects.is_empty() {
                away.push(AwayMedium { medium, why, changed, objects });
            }
        }
        Ok(away)
    }

    /// The objects of which something on a medium was not given up, or is needed by what was not.
    fn objects_on(&self, medium: MediumId) -> Result<Vec<Object>> {
        let mut ids: Vec<ObjectId> = Vec::new();
        for id in self.idb.versions_on_medium(medium)? {
            let Some(version) = self.idb.version(id)? else { continue };
            if !ids.contains(&version.object) && self.is_needed(id)? {
                ids.push(version.object);
            }
        }
        let objects = ids.into_iter().filter_map(|id| self.idb.object(id).transpose());
        Ok(objects.collect::<std::result::Result<_, capstan_idb::IdbError>>()?)
    }

    fn is_needed(&self, version: VersionId) -> Result<bool> {
        for dependant in self.idb.with_dependants(&[version])? {
            if self.idb.keeping(dependant)?.expired_us.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether a version cannot be restored without media that are away.
    pub(crate) fn needs(&self, version: VersionId, away: &[AwayMedium]) -> Result<bool> {
        if away.is_empty() {
            return Ok(false);
        }
        let is_away = |id: &MediumId| away.iter().any(|a| a.medium.id == *id);
        for version in crate::version::chain(&self.idb, version)? {
            let origins = self.idb.copies_of_version(version.id)?;
            let mut media: HashMap<SegmentId, Vec<MediumId>> = HashMap::new();
            for (segment, _) in self.idb.segments_of_version(version.id)? {
                let origin = origins.get(&segment.id).copied().unwrap_or(segment.id);
                media.entry(origin).or_default().push(segment.medium);
            }
            if media.values().any(|of| of.iter().all(is_away)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// What is found where a medium was last seen, if it is not there.
fn why_away(medium: &Medium, libraries: &mut Libraries) -> Option<String> {
    match medium.device.parse() {
        Ok(Address::Null { .. }) => None,
        // The tapes of a drive that stands alone lie on a shelf.
        Ok(Address::Tape(TapeAddress { tape: None, .. })) => None,
        Ok(Address::Tape(TapeAddress { tape: Some(barcode), library, .. })) => {
            match libraries.entry(library.clone()).or_insert_with(|| barcodes_in(&library)) {
                Ok(held) if held.contains(&barcode) => None,
                Ok(_) => Some("it is not in the library".to_owned()),
                Err(why) => why.clone(),
            }
        }
        _ => look(medium).absent,
    }
}

/// What is in a library; of one that others have nothing is said.
fn barcodes_in(library: &LibraryName) -> std::result::Result<HashSet<String>, Option<String>> {
    match capstan_devices::tape::inventory(library) {
        Ok(held) => Ok(held.into_iter().map(|h| h.barcode).collect()),
        Err(e) => {
            let e = DeviceError::from(e);
            Err((!e.is_busy()).then(|| chain(&e)))
        }
    }
}
