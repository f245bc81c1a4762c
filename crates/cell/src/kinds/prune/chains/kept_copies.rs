//! Copies of what was given up that stay for now. A new full has fewer copies at first than what it stands for: where versions that build
//! on it have a copy, the old chain stays until the full is there too. So a mirror or a copy alone still restores, as long as its disk has
//! room.

use std::collections::{HashMap, HashSet};

use capstan_engine::message::shell_word;
use capstan_format::id::{MediumId, VersionId};
use capstan_idb::{ExpiredSegment, PruneRow};

use super::outlook::{Outlook, Room};
use super::room::{needed_for, with_bases};
use crate::Cell;
use crate::error::Result;
use crate::kinds::prune::Sizes;

/// By medium, which of the versions that go stay there for now, and why.
#[derive(Default)]
pub(in crate::kinds::prune) struct KeptCopies(HashMap<MediumId, (HashSet<VersionId>, String)>);

impl KeptCopies {
    /// Why a segment stays, if it does.
    pub fn why(&self, of: &ExpiredSegment) -> Option<&str> {
        let (versions, why) = self.0.get(&of.medium)?;
        of.versions.iter().any(|version| versions.contains(version)).then_some(why)
    }
}

impl Cell {
    /// Which copies of what goes stay for now.
    pub(in crate::kinds::prune) fn kept_copies(
        &self,
        rows: &[PruneRow],
        gone: &HashSet<VersionId>,
        sizes: &Sizes,
    ) -> Result<KeptCopies> {
        let mut kept = KeptCopies::default();
        for full in rows.iter().filter(|row| !gone.contains(&row.version.id)) {
            let Some(of) = full.version.stands_for.filter(|of| gone.contains(of)) else { continue };
            let mut chain = with_bases(rows, [of].into_iter());
            chain.retain(|version| gone.contains(version));
            let full = full.version.id;
            let copies = self.copies_of(full)?;
            for child in rows.iter().filter(|row| row.version.base == Some(full)) {
                if gone.contains(&child.version.id) || self.copies_of(child.version.id)? <= copies {
                    continue;
                }
                for (medium, ..) in sizes.get(&child.version.id).into_iter().flatten() {
                    let is_on = |id: &VersionId| {
                        sizes.get(id).is_some_and(|on| on.iter().any(|(at, ..)| at == medium))
                    };
                    if is_on(&full) || !chain.iter().any(is_on) {
                        continue;
                    }
                    if self.is_short(*medium, (full, &chain), rows, gone, sizes)? {
                        continue;
                    }
                    let why = self.why_kept(child.version.id, *medium)?;
                    let (versions, _) = kept.0.entry(*medium).or_insert((HashSet::new(), why));
                    versions.extend(&chain);
                }
            }
        }
        Ok(kept)
    }

    /// Whether a disk has no room for a full beside the chain that it stands for, and soon none for backups.
    fn is_short(
        &self,
        medium: MediumId,
        (full, chain): (VersionId, &HashSet<VersionId>),
        rows: &[PruneRow],
        gone: &HashSet<VersionId>,
        sizes: &Sizes,
    ) -> Result<bool> {
        let Some(disks) = self.disks_with(medium)? else { return Ok(false) };
        let others: HashSet<VersionId> = gone.difference(chain).copied().collect();
        let outlook = Outlook::new(rows, sizes, &self.idb.used_segments()?, &others);
        let on = sizes.get(&full).into_iter().flatten().map(|(_, _, bytes)| *bytes);
        let needed = needed_for(on.max().unwrap_or(0));
        if outlook.room(&disks.media, disks.free, needed) == Room::Lacks {
            return Ok(true);
        }
        let object = rows.iter().find(|row| row.version.id == full).map(|row| row.version.object);
        let Some(object) = object else { return Ok(false) };
        let back = outlook.back(&disks.media);
        Ok(self.free_if_full(medium, object, (back, 0))?.is_some())
    }

    fn why_kept(&self, child: VersionId, medium: MediumId) -> Result<String> {
        let medium = self.idb.medium(medium)?;
        let device = medium.map_or_else(String::new, |medium| medium.device.to_string());
        Ok(format!(
            "versions that have a copy there need them, until the full in their place is there too: `capstan copy {} --to {}` brings it",
            shell_word(self.name_of_version(child)?),
            shell_word(device)
        ))
    }
}
