//! Forgetting segments that were removed from media, and the damage that went with them.

use std::collections::HashSet;

use capstan_format::id::{MediumId, SegmentId, VersionId};
use capstan_idb::Forgotten;
use capstan_medium::HeldMedium;

use crate::Cell;
use crate::error::Result;

impl Cell {
    /// Forgets segments that were removed from media, which are held, and `versions` of which nothing is left. A disk of which all
    /// segments that were found damaged went counts as damaged no more.
    pub(crate) fn forget_removed<'a>(
        &self,
        removed: &[(SegmentId, MediumId)],
        versions: &[VersionId],
        history_from_us: i64,
        held: impl Fn(MediumId) -> Option<&'a HeldMedium>,
    ) -> Result<Forgotten> {
        let known = self.idb.damaged_places()?;
        let hurt = removed.iter().filter(|(segment, medium)| known.contains(&(*medium, *segment)));
        let hurt: HashSet<MediumId> = hurt.map(|(_, medium)| *medium).collect();
        let forgotten = self.idb.forget(removed, versions, history_from_us)?;
        for id in hurt {
            // A tape was not written since, and is not written for that.
            let is_sound = |held: &HeldMedium| {
                let medium = held.medium();
                !medium.is_on_tape() && medium.header_problem().is_none()
            };
            if held(id).is_some_and(is_sound) {
                self.idb.clear_damage_without_segments(id)?;
            }
        }
        Ok(forgotten)
    }
}
