//! Which of its places a segment is copied from: the first that has all of it, else the one that lacks least.

use capstan_format::record::Lacks;
use capstan_port::media::read::known::Opened;

use crate::Cell;
use crate::error::{CellError, Result};
use crate::reading::names_there::rows_lacking_in_copy;
use crate::reading::version::VersionView;

/// A segment that is copied, where it was opened.
pub(super) struct Source<'a> {
    pub view: &'a VersionView<'a>,
    pub segment: u32,
    pub opened: Opened,
    /// What lacks there, and so will in the copy: as is recorded of it, and as it was read.
    pub lacks: Lacks,
    /// How many frames of these are recorded: it is a copy.
    recorded: u64,
    /// Rows that a copy has fewer than it should.
    rows: u64,
}

impl<'a> Source<'a> {
    /// Opens a segment where it lacks least. An error where it lacks something and may be whole on a medium that is away.
    pub fn find(cell: &Cell, view: &'a VersionView<'a>, segment: u32) -> Result<Self> {
        let place = &view.segments[segment as usize];
        let at = |opened| Self::at(cell, view, segment, opened);
        let mut best = at(view.open_data(place)?);
        let mut away: Option<CellError> = None;
        let first = best.opened.at;
        let is_recorded_only = best.lacks.frames == best.recorded;
        for other in place.places().into_iter().filter(|of| *of != first) {
            // Those with less are tried first.
            if is_recorded_only || place.lacks_at(other) >= best.lacks.frames {
                break;
            }
            match view.open_place(place, other).map_err(|e| view.media.unread_or(other.1, e)) {
                Ok(opened) => {
                    let found = at(opened);
                    if found.lacks.frames < best.lacks.frames {
                        view.media.note_replica(place, other, &|| best.said(), 0);
                        best = found;
                    }
                }
                Err(e) if e.away().is_some() => away = away.or(Some(e)),
                Err(_) => {}
            }
        }
        match away.filter(|_| best.lacks.frames > best.recorded) {
            // It may be whole there.
            Some(e) => Err(e),
            None => Ok(best),
        }
    }

    fn at(cell: &Cell, view: &'a VersionView<'a>, segment: u32, opened: Opened) -> Self {
        let place = &view.segments[segment as usize];
        let layout = &opened.layout;
        let recorded = place.lacks_at(opened.at);
        let is_poor = view.lacks_names_at(opened.at, layout);
        let frames = recorded.saturating_add(layout.lacks_frames().unwrap_or(0));
        let rows = match frames == 0 && !is_poor {
            true => rows_lacking_in_copy(layout, || cell.keys_of_names(view, "copy")),
            false => 0,
        };
        let names = is_poor || rows > 0;
        // Where names lack, nobody may know how many frames they were in.
        let lacks = Lacks { frames: frames.max(u64::from(names)), names };
        Self { view, segment, opened, lacks, recorded, rows }
    }

    /// What is said of it where it lacks something, for an administrator.
    pub fn say_lacks(&self) -> Option<String> {
        (self.lacks.frames > 0).then(|| self.said())
    }

    fn said(&self) -> String {
        let frames = self.lacks.frames;
        match self.lacks.names {
            _ if self.lacks.frames == self.recorded => format!(
                "the copy lacks {frames} frames, as what it was copied from is a copy that lacks them"
            ),
            true if self.rows > 0 => format!(
                "the copy lacks the names of {} files and directories, as what it was copied from is a copy that lacks them",
                self.rows
            ),
            true => format!(
                "the copy lacks names: {frames} frames or more are damaged in what it was copied from, and whole nowhere at hand; \
                 files whose names are lost cannot be named"
            ),
            false => format!(
                "the copy lacks {frames} frames: they are damaged in what it was copied from, and whole nowhere at hand"
            ),
        }
    }
}
