//! Hosts that share one database, each with media that the others cannot see: a medium is of the host that wrote it last, or took it
//! in.
//!
//! Of another host's medium nobody knows here whether it is where it should be: that host says so. A path is a place of the hosts that
//! had the medium there. Where a medium is at hand all the same, as on a network's file system, it is at hand. A database in a file
//! has one host, whatever that is called.

use std::collections::HashMap;

use capstan_engine::problem::Problem;
use capstan_format::id::ObjectId;
use capstan_idb::{Idb, Medium, Object};

use super::{AtHand, look, shown};
use crate::Cell;
use crate::error::{CellError, Result};

/// The host that has a medium, if it is another one than this.
pub(crate) fn other_host<'m>(idb: &Idb, medium: &'m Medium) -> Option<&'m str> {
    let last = medium.hosts.last().filter(|_| idb.is_on_server())?;
    (*last != *idb.host()).then_some(last)
}

/// Whether the place that is recorded of a medium is one of this host's.
pub(crate) fn is_place_here(idb: &Idb, medium: &Medium) -> bool {
    !idb.is_on_server() || medium.hosts.is_empty() || medium.hosts.iter().any(|of| of == idb.host())
}

/// Why a medium is not at hand, if another host has it; for who did not find it here.
pub(crate) fn has_it(idb: &Idb, medium: &Medium) -> Option<String> {
    other_host(idb, medium).map(|other| format!("host '{other}' has it"))
}

/// The error for a medium that was not found here, if another host has it.
pub(crate) fn at_other_host(idb: &Idb, medium: &Medium) -> Option<CellError> {
    let has_it = has_it(idb, medium)?;
    let text = Problem::new(format!(
        "{} is not at hand here: {has_it} in {}",
        shown(medium.id, &medium.label),
        medium.device
    ))
    .hint("do it there, or import it from where it is here");
    let why = format!("which is not at hand here: {has_it} in {}", medium.device);
    Some(CellError::Away { medium: medium.id, why, text })
}

/// Whether another host has a medium, and it is not at hand here.
pub(crate) fn is_elsewhere(cell: &Cell, medium: &Medium) -> bool {
    other_host(&cell.idb, medium).is_some() && look_here(cell, medium).absent.is_some()
}

/// Looks whether a medium is where it was last seen. What is in the place that another host's has there says nothing of it.
pub(crate) fn look_here(cell: &Cell, medium: &Medium) -> AtHand {
    let found = look(&*cell.devices, medium);
    match has_it(&cell.idb, medium) {
        Some(why) if found.absent.is_some() || found.problem.is_some() && found.there.is_none() => {
            AtHand { absent: Some(why), ..AtHand::default() }
        }
        _ => found,
    }
}

impl Cell {
    /// Of these objects those that other hosts decide on, and why: they are not this host's, and have something on a medium that another
    /// host has and that is not at hand here. Whether it is there that host knows, and it may have stood still for that.
    pub(crate) fn decided_elsewhere(
        &self,
        objects: &[Object],
    ) -> Result<HashMap<ObjectId, String>> {
        let mut elsewhere = HashMap::new();
        let here = self.host();
        if !self.idb.is_on_server() || objects.iter().all(|object| object.host == here) {
            return Ok(elsewhere);
        }
        let needed = self.needed()?;
        for medium in self.idb.media()? {
            let Some(other) = other_host(&self.idb, &medium) else { continue };
            // What is out of the house no host has at hand.
            if self.idb.management(medium.id)?.exported_us.is_some() || !is_elsewhere(self, &medium)
            {
                continue;
            }
            let versions = self.idb.versions_on_medium(medium.id)?;
            for object in versions.iter().filter_map(|version| needed.get(version)) {
                let is_of_others = |of: &&Object| of.id == *object && of.host != here;
                if objects.iter().any(|of| is_of_others(&of)) {
                    elsewhere.entry(*object).or_insert_with(|| {
                        format!("host '{other}' decides on it: it has medium '{}'", medium.label)
                    });
                }
            }
        }
        Ok(elsewhere)
    }
}
