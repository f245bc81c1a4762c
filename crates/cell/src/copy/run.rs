//! Writing the copies of segments: which are lacking, and the thread that moves their frames.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::meter::Meters;
use capstan_format::id::{MediumId, SessionId};
use capstan_format::record::SessionEnd;
use capstan_idb::{LogLevel, Status};
use capstan_media_agent::mirror::Member;
use capstan_media_agent::transfer::Transfer;
use capstan_media_agent::writer::{Committed, WriteError, Written};
use capstan_tape::DriveSession;

use super::segment::Copier;
use crate::Cell;
use crate::backup::{record_commit, say_all_lost};
use crate::moves::Moves;
use crate::observe::Stop;
use crate::places::SegmentPlace;
use crate::session::Ears;
use crate::tapes::Supply;
use crate::transfers::watched;
use crate::version::{VersionKeys, VersionView};
use crate::watch::Seen;

/// A segment to copy.
pub(crate) struct Work<'a> {
    view: &'a VersionView<'a>,
    place: &'a SegmentPlace,
    /// How its session ended, if it is the session's last.
    session_end: Option<SessionEnd>,
}

impl Work<'_> {
    /// Whether it is of that version.
    pub fn is_of(&self, view: &VersionView<'_>) -> bool {
        std::ptr::eq(self.view, view)
    }

    fn bytes(&self) -> u64 {
        self.place.bytes
    }
}

/// What the database keeps of copies.
#[derive(Default)]
pub(crate) struct Kept {
    /// How much of their catalogs, by session.
    pub levels: HashMap<SessionId, LogLevel>,
    /// What opens the names where that is less than all.
    pub names: VersionKeys,
}

/// How the writing of copies went.
pub(crate) struct CopyRun {
    /// What was written, or why the target failed.
    pub finished: Result<Written, WriteError>,
    /// Frames that could be had nowhere.
    pub lost_frames: u64,
    /// The target took no more.
    pub closed: bool,
    /// Members of the target were lost.
    pub degraded: bool,
    /// The media on which it went on.
    pub moves: Arc<Moves>,
    /// What the tape drives did.
    pub drives: Vec<DriveSession>,
    /// What the watch saw.
    pub seen: Option<Seen>,
}

impl Cell {
    /// Writes copies of segments, which are recorded as they are committed.
    #[expect(clippy::too_many_arguments, reason = "what a session has in hand")]
    pub(crate) fn copy_works(
        &self,
        works: &[Work<'_>],
        member: Member,
        supply: Supply,
        kept: Kept,
        meters: &Arc<Meters>,
        ears: &Ears<'_>,
        stop: &Stop,
    ) -> CopyRun {
        let Kept { levels, names } = kept;
        let idb = self.idb.clone();
        let on_commit = Box::new(move |c: &Committed| {
            let level = levels.get(&c.header.session.session).copied().unwrap_or_default();
            record_commit(&idb, c, level, &names).map_err(Into::into)
        });
        let moves = Arc::new(Moves::default());
        let transfer = Transfer::start(
            vec![member],
            self.entropy.clone(),
            meters.clone(),
            crate::session::now_us,
            Some(self.changing(supply, &moves)),
            on_commit,
        );
        let total = works.iter().map(Work::bytes).sum();
        let ((lost_frames, closed), seen) = watched(meters, ears, total, || {
            let mut copier = Copier::new(self, &transfer, meters, ears);
            for work in works {
                if stop.0.load(Relaxed) || copier.closed {
                    break;
                }
                copier.segment(work.view, work.place, work.session_end.clone());
            }
            (copier.lost_frames, copier.closed)
        });
        // Without the media: what holds them would keep us from locking.
        let (lost_members, drives) = (transfer.lost_mirrors(), transfer.drives());
        let finished = transfer.finish().map(|(_, written)| written);
        let drives = std::mem::take(&mut *drives.lock());
        moves.say(ears);
        let degraded = say_all_lost(&lost_members, ears) > 0;
        CopyRun { finished, lost_frames, closed, degraded, moves, drives, seen }
    }
}

/// The segments on sources that are not on the target yet.
pub(crate) fn lacking<'a>(
    views: &'a [VersionView<'a>],
    is_source: &dyn Fn(MediumId) -> bool,
    is_target: &dyn Fn(MediumId) -> bool,
) -> Vec<Work<'a>> {
    let mut works = Vec::new();
    for view in views {
        for (at, place) in view.segments.iter().enumerate() {
            let places = place.places();
            if places.iter().any(|p| is_target(p.1)) || !places.iter().any(|p| is_source(p.1)) {
                continue;
            }
            let is_last = view.segments[at + 1..].iter().all(|s| s.session != place.session);
            let session_end = is_last.then(|| end_of_session(view, place)).flatten();
            works.push(Work { view, place, session_end });
        }
    }
    works
}

/// How the session that wrote a segment ended: what stands in a segment of its own, if that has no data.
fn end_of_session(view: &VersionView<'_>, place: &SegmentPlace) -> Option<SessionEnd> {
    let contents = view.contents(place).ok()?;
    let id = contents.header.as_ref()?.session.session;
    let session = view.idb.session(id).ok()??;
    let ended =
        matches!(session.status, Status::Completed | Status::CompletedWithErrors | Status::Failed);
    ended.then(|| SessionEnd {
        status: session.status.to_string(),
        ended_us: session.ended_us.unwrap_or(session.started_us),
        files: session.files,
        dirs: session.dirs,
        bytes_read: session.bytes_read,
        bytes_written: session.bytes_written,
    })
}
