//! How long the room on a medium lasts: what a prune gives back there, what each further backup takes, and whether there will be
//! room for a new full later.

use std::collections::{BTreeSet, HashMap, HashSet};

use capstan_format::id::{MediumId, ObjectId, VersionId};
use capstan_idb::{ExpiredSegment, PruneRow};

use super::room::with_bases;
use crate::kinds::prune::Sizes;

/// Backups of an object that are looked back on for what the next one takes.
const LOOKED_BACK: usize = 8;
/// Backups for which there is to be room beside a full, until the next prune has to make it: one may be larger, or its prune fail.
const AHEAD: u64 = 2;
/// A lack of room is said when what is free lasts for no more backups than this.
const SAID_BEFORE: u64 = 30;

/// What versions and their sizes say of the room to come.
pub(in crate::kinds::prune) struct Outlook<'a> {
    rows: &'a [PruneRow],
    sizes: &'a Sizes,
    /// Bytes that this prune gives back without any consolidation.
    back: HashMap<MediumId, u64>,
}

/// What there is room for on a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds::prune) enum Room {
    /// A full has room now and will have it later; or it has none, and what is free lasts long.
    Lasts,
    /// A full has room now, and may have none after the next backups.
    LastChance,
    /// A full has no room, and what is free lasts for a few backups only.
    Lacks,
}

impl<'a> Outlook<'a> {
    /// With what goes now, by the segments that versions have something in.
    pub fn new(
        rows: &'a [PruneRow],
        sizes: &'a Sizes,
        used: &[ExpiredSegment],
        gone: &HashSet<VersionId>,
    ) -> Self {
        let mut back = HashMap::new();
        for s in used.iter().filter(|s| s.versions.iter().all(|v| gone.contains(v))) {
            *back.entry(s.medium).or_default() += s.bytes;
        }
        Self { rows, sizes, back }
    }

    /// Bytes that this prune gives back on media without any consolidation.
    pub fn back(&self, media: &[MediumId]) -> u64 {
        media.iter().filter_map(|medium| self.back.get(medium)).sum()
    }

    /// Whether the next backup of the object builds on a version: a chain on which only older ones build goes by itself.
    pub fn is_growing(&self, version: VersionId, object: ObjectId) -> bool {
        let newest = self.rows.iter().find(|row| row.version.object == object);
        newest.is_some_and(|newest| {
            with_bases(self.rows, [newest.version.id].into_iter()).contains(&version)
        })
    }

    /// Bytes that the next backup of an object takes on media: as many as the largest of the last ones. The first of all is none
    /// of them, and neither are synthetic fulls.
    pub fn growth_of(&self, object: ObjectId, media: &[MediumId]) -> u64 {
        let of = self.rows.iter().filter(|row| row.version.object == object);
        let written: Vec<&PruneRow> = of.filter(|row| row.version.stands_for.is_none()).collect();
        let is_first = |at: usize| at + 1 == written.len() && written[at].version.base.is_none();
        let last = (0..written.len().min(LOOKED_BACK)).filter(|at| !is_first(*at));
        last.map(|at| self.bytes(written[at].version.id, media)).max().unwrap_or(0)
    }

    /// Bytes that the next backups of all objects take on media, one of each.
    pub fn growth(&self, media: &[MediumId]) -> u64 {
        let mut objects: Vec<ObjectId> = self.rows.iter().map(|row| row.version.object).collect();
        objects.dedup();
        objects.into_iter().map(|object| self.growth_of(object, media)).sum()
    }

    /// Bytes that a version has on media.
    pub fn bytes(&self, version: VersionId, media: &[MediumId]) -> u64 {
        let of = self.sizes.get(&version).into_iter().flatten();
        of.filter(|(id, ..)| media.contains(id)).map(|(_, _, bytes)| bytes).sum()
    }

    /// The media on which versions have anything.
    pub fn media(&self, versions: impl Iterator<Item = VersionId>) -> BTreeSet<MediumId> {
        let sizes = versions.filter_map(|version| self.sizes.get(&version)).flatten();
        sizes.map(|(medium, ..)| *medium).collect()
    }

    /// What there is room for on media that have so many bytes free, where a full needs so many.
    pub fn room(&self, media: &[MediumId], free: u64, needed: u64) -> Room {
        room(free.saturating_add(self.back(media)), needed, self.growth(media))
    }

    /// For how many backups so many free bytes last, where that is to be said of media on which prune makes no room.
    pub fn lasts_for(&self, media: &[MediumId], free: u64) -> Option<u64> {
        lasts_for(free.saturating_add(self.back(media)), self.growth(media))
    }
}

fn room(free: u64, needed: u64, growth: u64) -> Room {
    let (ahead, said) = (growth.saturating_mul(AHEAD), growth.saturating_mul(SAID_BEFORE));
    match free >= needed {
        true if free < needed.saturating_add(ahead) => Room::LastChance,
        false if free < said => Room::Lacks,
        _ => Room::Lasts,
    }
}

fn lasts_for(free: u64, growth: u64) -> Option<u64> {
    free.checked_div(growth).filter(|backups| *backups <= SAID_BEFORE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lasts_for_few_backups_is_said() {
        assert_eq!(lasts_for(300, 10), Some(30));
        assert_eq!(lasts_for(310, 10), None);
        assert_eq!(lasts_for(9, 10), Some(0));
        // Nothing is known of what comes.
        assert_eq!(lasts_for(0, 0), None);
    }

    #[test]
    fn a_full_is_made_while_it_has_room() {
        assert_eq!(room(200, 100, 10), Room::Lasts);
        assert_eq!(room(120, 100, 10), Room::Lasts);
        assert_eq!(room(119, 100, 10), Room::LastChance);
        assert_eq!(room(100, 100, 10), Room::LastChance);
        assert_eq!(room(99, 100, 10), Room::Lacks);
        // It has none, and what is free lasts for a year.
        assert_eq!(room(99, 100, 1), Room::Lasts);
        assert_eq!(room(29, 100, 1), Room::Lacks);
        // Nothing is known of what comes.
        assert_eq!(room(99, 100, 0), Room::Lasts);
    }
}
