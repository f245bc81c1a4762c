//! The media that a copy reads from, and those on which its versions count as copied.

use capstan_format::id::MediumId;
use capstan_idb::Version;

use super::Plan;
use super::staged_on::Target;
use crate::Cell;
use crate::error::Result;
use crate::request::CopyRequest;
use crate::supply::tapes::Supply;
use crate::supply::unfit::{IS_READ, PassedOver};

/// The media on both sides of a copy.
pub(super) struct Sides<'a> {
    cell: &'a Cell,
    /// Only what lies on this one is copied.
    only_on: Option<MediumId>,
    /// Those that have an original. Never copy to a medium that already holds the original.
    originals: Vec<MediumId>,
    /// The library on whose tapes an earlier copy counts.
    library: Option<Target>,
    /// Whether the target names its medium.
    pub is_named: bool,
}

impl<'a> Sides<'a> {
    /// Those of a request.
    pub fn of(cell: &'a Cell, request: &CopyRequest, plan: &Plan) -> Result<Self> {
        let is_named = Supply::of(None, [&request.device]).is_none();
        // What an earlier copy brought to other tapes of a library is there, unless it is asked how or of what it is a copy.
        let library = (!is_named && plan.only_on.is_none() && request.encrypt.is_none())
            .then(|| Target::Library(request.device.clone()));
        let originals = cell.media_of_originals(&plan.versions)?;
        Ok(Self { cell, only_on: plan.only_on, originals, library, is_named })
    }

    /// Whether what lies on a medium is to be copied.
    pub fn is_source(&self, medium: MediumId) -> bool {
        self.only_on.is_none_or(|source| medium == source)
    }

    /// Whether an earlier copy on a medium counts.
    pub fn has_copy(&self, medium: MediumId) -> bool {
        let is_there = |library: &Target| library.has(self.cell, medium);
        self.library.as_ref().is_some_and(is_there) && !self.originals.contains(&medium)
    }

    /// Whether an earlier copy on any tape of the library counts.
    pub fn is_library(&self) -> bool {
        self.library.is_some()
    }

    /// The media that the copy is not written to.
    pub fn passed(&self) -> impl Iterator<Item = PassedOver> {
        self.originals.iter().map(|id| (*id, IS_READ.into()))
    }
}

impl Cell {
    /// The media that have originals of versions, not copies alone.
    fn media_of_originals(&self, versions: &[Version]) -> Result<Vec<MediumId>> {
        let mut media: Vec<MediumId> = Vec::new();
        for version in versions {
            let copies = self.idb.copies_of_version(version.id)?;
            for (segment, medium, _) in self.idb.places_of_version(version.id)? {
                if !copies.contains_key(&segment) && !media.contains(&medium) {
                    media.push(medium);
                }
            }
        }
        Ok(media)
    }
}
