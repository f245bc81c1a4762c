//! What somebody removes from a medium while it is imported: a prune, of this home or of the medium's own.

use std::collections::HashSet;

use capstan_format::id::{SegmentId, SegmentNumber, VersionId};
use capstan_idb::IdbError;
use capstan_medium::OpenMedium;

use crate::Cell;
use crate::error::Result;
use crate::kinds::import::found::Imported;
use crate::session::now_us;

/// Whether a segment that was listed is not there any more.
pub(super) fn is_removed(medium: &OpenMedium, number: SegmentNumber) -> bool {
    medium.segments().is_ok_and(|there| !there.contains(&number))
}

impl Cell {
    /// Forgets what an import recorded of segments that are gone since they were listed. Who removed them had forgotten them before the
    /// import recorded them anew. Whoever removes more from now on forgets it after that.
    pub(super) fn forget_removed_beside(
        &self,
        medium: &OpenMedium,
        listed: &[SegmentNumber],
        sessions: &[Imported],
    ) -> Result<()> {
        let there: HashSet<SegmentNumber> = medium.segments()?.into_iter().collect();
        let is_gone = |number: &SegmentNumber| !there.contains(number);
        if !listed.iter().any(is_gone) {
            return Ok(());
        }
        let id = medium.header().medium;
        let recorded = self.idb.segments_of_medium(id)?.into_iter();
        let gone: Vec<SegmentId> = recorded
            .filter(|segment| listed.contains(&segment.number) && is_gone(&segment.number))
            .map(|segment| segment.id)
            .collect();
        match self.idb.forget_segments_of_medium(id, &gone, now_us()) {
            // Who reads it says what it lacks.
            Err(IdbError::IsRead { .. }) => return Ok(()),
            forgotten => forgotten?,
        }
        let is_bare = |session: &&Imported| {
            !session.found_in.is_empty() && session.found_in.iter().all(is_gone)
        };
        let bare: Vec<VersionId> =
            sessions.iter().filter(is_bare).map(|session| session.label.version).collect();
        Ok(self.idb.forget_bare(&bare)?)
    }
}
