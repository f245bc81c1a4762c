//! What a prune would do: the same segments that it would remove, found without a mark.

use std::collections::BTreeMap;

use capstan_format::id::MediumId;
use capstan_idb::PruneRow;
use capstan_medium::FoundLock;

use super::chains::plan::Bases;
use super::decide::Decision;
use super::gone;
use super::report::Pruned;
use super::sweep::{Media, is_locked, why_not};
use crate::Cell;
use crate::error::Result;

impl Cell {
    /// What a prune would give back, by removing and by consolidating, and what not yet.
    pub(super) fn foresee(
        &self,
        rows: &[PruneRow],
        decisions: &[Decision],
        bases: &mut Bases,
        media: &Media,
        now_us: i64,
        pruned: &mut Pruned,
    ) -> Result<()> {
        let used = self.idb.used_segments()?;
        let mut gone = gone(rows, decisions);
        self.foresee_bases(bases, &mut gone, &used)?;
        Self::say_foreseen(bases, &gone, rows, &mut pruned.versions);
        let kept = self.kept_copies(rows, &gone, &self.sizes()?)?;
        let mut waiting: BTreeMap<MediumId, (u64, u64, String)> = BTreeMap::new();
        let mut stays = std::collections::HashSet::new();
        for segments in used.chunk_by(|a, b| a.medium == b.medium) {
            let Some(id) = segments.first().map(|s| s.medium) else { continue };
            let locks: Vec<FoundLock> = match media.get(&id) {
                Some(Ok(at_hand)) => at_hand.medium().version_locks()?,
                _ => Vec::new(),
            };
            for segment in segments.iter().filter(|s| s.versions.iter().all(|v| gone.contains(v))) {
                // The medium of a chain that is consolidated is at hand: its catalogs alone do not say so, and it is seen then.
                let why = match media.get(&id) {
                    Some(Err(_)) => Some(why_not(media.get(&id))),
                    _ if let Some(why) = kept.why(segment) => Some(why.to_owned()),
                    _ if is_locked(&locks, segment.number, now_us) => {
                        Some("a lock covers them".to_owned())
                    }
                    _ => None,
                };
                let Some(why) = why else {
                    pruned.removed_segments += 1;
                    pruned.freed_bytes += segment.bytes;
                    continue;
                };
                let of = waiting.entry(id).or_insert((0, 0, why));
                (of.0, of.1) = (of.0 + 1, of.1 + segment.bytes);
                stays.extend(segment.versions.iter().copied());
            }
        }
        pruned.removed_versions = gone.difference(&stays).count() as u64;
        for (id, (segments, bytes, why)) in waiting {
            pruned.pending.push(self.pending(id, segments, bytes, why, false)?);
        }
        Ok(())
    }
}
