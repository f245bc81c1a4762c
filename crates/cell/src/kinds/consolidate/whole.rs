//! Whether all of a synthetic full is recorded. The frames that were passed on leave gaps in their streams, so gaps say nothing: its
//! rows are counted, and what they name is looked for.

use capstan_format::entry::Kind;
use capstan_idb::Session;

use super::frames::{Frames, elsewhere};
use crate::error::{Damage, Result};
use crate::reading::version::VersionView;

/// Refuses a full of which rows are missing, or something that they name. `last` is its last session, which wrote all rows; keys of
/// encrypted names must be in the view.
pub(crate) fn refuse_lacking(view: &VersionView<'_>, last: &Session) -> Result<()> {
    let mut frames = Frames::new(view, view.spans());
    let (mut rows, mut lacking) = (0_u64, 0_u64);
    view.all_rows(&mut |s, row| -> Result<()> {
        let e = &row.entry;
        // What begins in the next segment comes again there.
        let is_first = e.logical_len() == 0 || row.start < s.logical_end;
        let is_last = s.label.as_ref().is_some_and(|label| label.session.session == last.id);
        if !is_first || !is_last {
            return Ok(());
        }
        rows += u64::from(e.kind.is_inode());
        if !e.link && matches!(e.kind, Kind::File | Kind::Part) {
            let own = (s.stream, row.start, e.logical_len());
            for (stream, from, len) in elsewhere(e).chain([own]).filter(|p| p.2 > 0) {
                frames.each(stream, from, len, &mut |frame, from, to| {
                    lacking += if frame.is_none() { to.saturating_sub(from) } else { 0 };
                })?;
            }
        }
        Ok(())
    })?;
    let counted = last.files.saturating_add(last.dirs);
    if rows < counted || lacking > 0 {
        return Err(Damage::SegmentsMissing { rows, counted, lacking }.into());
    }
    Ok(())
}
