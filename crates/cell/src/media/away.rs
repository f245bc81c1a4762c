//! Media that are not where they were last seen, though nobody is on record as having taken them away.
//!
//! What they hold may come back any day, so nothing is decided without them: the keep rules of their objects stand still
//! ([`crate::prune`]), and `status` alarms. A medium that was exported is away on purpose, one that was retired was given up, and one
//! of another cell is that cell's to watch over.

use std::collections::{HashMap, HashSet};

use capstan_devices::DeviceError;
use capstan_devices::address::{Address, LibraryName, TapeAddress};
use capstan_format::id::{MediumId, ObjectId, SegmentId, VersionId};
use capstan_idb::{Claim, Medium, Object, torn};

use super::changed::ways;
use super::gone::Gone;
use super::shown;
use crate::Cell;
use crate::error::{Result, chain};

/// A medium that is not where it was last seen, though nobody is on record as having taken it away; or that lacks something of what
/// was written to it.
#[derive(Debug, Clone)]
pub struct AwayMedium {
    /// What the database has of it, with its place.
    pub medium: Medium,
    /// What is found there.
    pub why: String,
    /// Whether it is there and not as it was last written.
    pub changed: bool,
    /// The objects of which it has, or lacks, something that was not given up.
    pub objects: Vec<Object>,
    /// Those of which what it lacks is nowhere else at hand: their keep rules stand still.
    pub still: Vec<Object>,
    /// The segments that it lacks; all of them, where none are named.
    segments: Option<HashSet<SegmentId>>,
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
        let Medium { label, device, .. } = &self.medium;
        if self.changed && self.still.is_empty() {
            return format!(
                "other media have what it lacks: `capstan media repair '{label}'` writes it anew, or bring back the one that was \
                 written; `capstan import '{device}'` takes it as it is"
            );
        }
        if self.changed
            && let Ok(address) = device.parse()
        {
            return ways(&self.medium, &address, &self.why);
        }
        format!(
            "mount it there or import it from where it is now; `capstan media export '{label}'` records that it was taken away, \
             `capstan media forget '{label}'` gives it up"
        )
    }

    /// Whether a segment that is recorded of a medium is to be had there, as far as it is this one.
    fn lacks(&self, medium: MediumId, segment: SegmentId) -> bool {
        self.medium.id == medium && self.segments.as_ref().is_none_or(|of| of.contains(&segment))
    }
}

/// Barcodes of the tapes in libraries, or why a library cannot be asked; each is asked once.
type Libraries = HashMap<LibraryName, std::result::Result<HashSet<String>, Option<String>>>;

impl Cell {
    /// The media that are away so, or lack something, of which objects still need something.
    pub fn media_away(&self) -> Result<Vec<AwayMedium>> {
        let mut libraries = Libraries::new();
        let mut gone: HashMap<MediumId, Gone> = HashMap::new();
        let mut media = self.idb.media()?;
        for medium in &media {
            let management = self.idb.management(medium.id)?;
            let on_purpose = management.exported_us.is_some() || management.retired_us.is_some();
            if !on_purpose && !management.is_other_cells() {
                let of =
                    self.gone(medium, &management, &mut |tape| tape_away(tape, &mut libraries))?;
                gone.extend(of.map(|of| (medium.id, of)));
            }
        }
        media.retain(|medium| gone.contains_key(&medium.id));
        if media.is_empty() {
            return Ok(Vec::new());
        }
        let needed = self.needed()?;
        let mut claims = match gone.values().any(|of| of.changed) {
            true => self.all_claims()?,
            false => Vec::new(),
        };
        let is_gone = |c: &Claim| gone.get(&c.medium).is_some_and(|of| of.has(c.segment));
        claims.retain(|c| needed.contains_key(&c.version));
        // What is damaged elsewhere does not make up for it.
        let damaged = self.idb.damaged_places()?;
        let torn = torn(&claims, |c| is_gone(c) || damaged.contains(&(c.medium, c.segment)));
        claims.retain(is_gone);
        let all = self.idb.objects()?;
        let mut away = Vec::new();
        for medium in media {
            let Some(of) = gone.get(&medium.id) else { continue };
            let lacking = || claims.iter().filter(|c| c.medium == medium.id);
            let objects: HashSet<ObjectId> = match of.changed && !of.is_marked {
                true => lacking().map(|c| needed[&c.version]).collect(),
                false => {
                    let versions = self.idb.versions_on_medium(medium.id)?;
                    versions.iter().filter_map(|id| needed.get(id).copied()).collect()
                }
            };
            let is_torn = |c: &&Claim| torn.contains(&(c.version, c.origin));
            let still: HashSet<ObjectId> = match of.changed {
                true => lacking().filter(is_torn).map(|c| needed[&c.version]).collect(),
                false => objects.clone(),
            };
            if objects.is_empty() || of.is_moved && still.is_empty() {
                continue;
            }
            let named = |ids: &HashSet<ObjectId>| -> Vec<Object> {
                all.iter().filter(|object| ids.contains(&object.id)).cloned().collect()
            };
            let (objects, still) = (named(&objects), named(&still));
            let (why, changed, segments) = (of.why.clone(), of.changed, of.segments.clone());
            away.push(AwayMedium { medium, why, changed, objects, still, segments });
        }
        Ok(away)
    }

    /// Whether a version cannot be restored without media that are away.
    pub(crate) fn needs(&self, version: VersionId, away: &[AwayMedium]) -> Result<bool> {
        if away.is_empty() {
            return Ok(false);
        }
        for version in crate::version::chain(&self.idb, version)? {
            let origins = self.idb.copies_of_version(version.id)?;
            let mut is_there: HashMap<SegmentId, bool> = HashMap::new();
            for (segment, _) in self.idb.segments_of_version(version.id)? {
                let origin = origins.get(&segment.id).copied().unwrap_or(segment.id);
                *is_there.entry(origin).or_default() |=
                    !away.iter().any(|of| of.lacks(segment.medium, segment.id));
            }
            if is_there.values().any(|is_there| !is_there) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Why a tape is not in its library, if it is not.
fn tape_away(tape: &Address, libraries: &mut Libraries) -> Option<String> {
    match tape {
        Address::Tape(TapeAddress { tape: Some(barcode), library, .. }) => {
            match libraries.entry(library.clone()).or_insert_with(|| barcodes_in(library)) {
                Ok(held) if held.contains(barcode) => None,
                Ok(_) => Some("it is not in the library".to_owned()),
                Err(why) => why.clone(),
            }
        }
        // The tapes of a drive that stands alone lie on a shelf.
        _ => None,
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
