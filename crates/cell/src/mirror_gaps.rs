//! Places that have a version and lack what it builds on, which others have: a mirror that was away some nights and came back. Each
//! night on it is complete, and it restores nothing of them by itself.
//!
//! A place is a medium; of tapes their library, whichever of them has what.

use std::collections::{BTreeSet, HashMap, HashSet};

use capstan_devices::address::Address;
use capstan_engine::message::{Code, shell_word};
use capstan_format::id::{MediumId, SegmentId, VersionId};

use crate::Cell;
use crate::error::Result;
use crate::session::Ears;
use crate::tape_arrays::libraries_for;

/// What has all of a version or not.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Place {
    Medium(MediumId),
    /// A library, or the libraries of arrays of tapes, as a device.
    Library(String),
}

/// Where a segment of a version lies.
#[derive(Default)]
struct Lies {
    places: HashSet<Place>,
    /// Whether the segment itself lies there, and not copies alone.
    is_original: bool,
}

impl Cell {
    /// The places that have all of a version and lack something of what it builds on: a sentence each, with the command that brings it
    /// there. Where what it builds on has as many places, whichever they are, nothing is lacking; where its original was given back
    /// after a copy, somebody wanted it so. Retired media count for nothing.
    pub(crate) fn mirrors_behind(&self, version: VersionId) -> Result<Vec<String>> {
        let chain = capstan_catalog::version::chain(&self.idb, version)?;
        let Some((_, below)) = chain.split_first().filter(|(_, below)| !below.is_empty()) else {
            return Ok(Vec::new());
        };
        let retired: HashSet<MediumId> = self.idb.retired_media()?.into_iter().collect();
        let own = self.lies_of(version, &retired)?;
        let mut all = own.values().map(|of| &of.places);
        let Some(first) = all.next() else { return Ok(Vec::new()) };
        let shared: HashSet<Place> =
            all.fold(first.clone(), |shared, of| shared.intersection(of).cloned().collect());
        if shared.len() < 2 {
            return Ok(Vec::new());
        }
        let mut behind: BTreeSet<Place> = BTreeSet::new();
        for version in below {
            for of in self.lies_of(version.id, &retired)?.values() {
                if of.is_original && of.places.len() < shared.len() {
                    behind.extend(shared.difference(&of.places).cloned());
                }
            }
        }
        let name = self.name_of_version(version)?;
        let mut said = Vec::new();
        for place in behind {
            let (what, device) = match place {
                Place::Library(library) => (library.clone(), library),
                Place::Medium(id) => {
                    let Some(medium) = self.idb.medium(id)? else { continue };
                    (format!("medium '{}'", medium.label), medium.device)
                }
            };
            said.push(format!(
                "{what} has {name} and not all that it builds on, so it is not enough by itself: `capstan copy {} --to {}` brings \
                 it there",
                shell_word(&name),
                shell_word(&device)
            ));
        }
        Ok(said)
    }

    /// Says of a version that was just written to mirrors which of them lack what it builds on.
    pub(crate) fn say_mirrors_behind(
        &self,
        version: VersionId,
        name: &str,
        ears: &Ears<'_>,
    ) -> Result<()> {
        for text in self.mirrors_behind(version)? {
            ears.say(Code::MirrorBehind, "cell", name, text);
        }
        Ok(())
    }

    /// Where a version's own segments lie, by original.
    fn lies_of(
        &self,
        version: VersionId,
        but: &HashSet<MediumId>,
    ) -> Result<HashMap<SegmentId, Lies>> {
        let copies = self.idb.copies_of_version(version)?;
        let mut lies: HashMap<SegmentId, Lies> = HashMap::new();
        for (segment, _) in self.idb.segments_of_version(version)? {
            let copy = copies.get(&segment.id);
            let (origin, lacks) = copy.map_or((segment.id, 0), |of| (of.origin, of.lacks));
            if lacks > 0 || but.contains(&segment.medium) {
                continue;
            }
            let of = lies.entry(origin).or_default();
            of.places.insert(self.side_place(segment.medium)?);
            of.is_original |= copy.is_none();
        }
        Ok(lies)
    }

    fn side_place(&self, medium: MediumId) -> Result<Place> {
        let device = self.idb.medium(medium)?.map(|row| row.device);
        let device = device.and_then(|device| device.parse::<Address>().ok());
        let libraries = device.as_ref().and_then(libraries_for);
        Ok(libraries.map_or(Place::Medium(medium), |of| Place::Library(of.to_string())))
    }
}
