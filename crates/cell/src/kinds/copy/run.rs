//! Writing the copies of segments: which are lacking, and the thread that moves their frames.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::keys::VersionKeys;
use capstan_catalog::places::SegmentPlace;
use capstan_engine::frames::Place;
use capstan_engine::meter::Meters;
use capstan_format::id::{MediumId, SegmentId, SessionId};
use capstan_format::record::{OtherEnd, SessionEnd};
use capstan_idb::{LogLevel, Session, Status, Version};
use capstan_medium::tape::DriveSession;
use capstan_port::media::transfer::TransferOptions;
use capstan_port::media::write::committed::{Committed, Written};
use capstan_port::media::write::error::WriteError;
use capstan_port::media::write::members::Member;

use super::segment::Copier;
use crate::Cell;
use crate::error::Result;
use crate::kinds::backup::{record_commit, say_all_lost};
use crate::observe::Stop;
use crate::reading::version::VersionView;
use crate::report::{AwayReport, Replica};
use crate::session::SessionLog;
use crate::session::transfers::watched;
use crate::session::watch::Seen;
use crate::supply::media_changes::Moves;
use crate::supply::tapes::Supply;

/// A segment to copy.
pub(crate) struct Work<'a> {
    view: &'a VersionView<'a>,
    /// Its number in that version.
    segment: u32,
    /// Where the target has a copy already that lacks something: how many frames.
    lacks_there: Option<u64>,
    /// How sessions ended that it makes whole on the target.
    ends: Vec<OtherEnd>,
}

impl<'a> Work<'a> {
    /// A segment of a version.
    pub fn of(view: &'a VersionView<'a>, segment: u32) -> Self {
        Self { view, segment, lacks_there: None, ends: Vec::new() }
    }
}

impl Work<'_> {
    /// Whether it is of that version.
    pub fn is_of(&self, view: &VersionView<'_>) -> bool {
        std::ptr::eq(self.view, view)
    }

    /// Whether it is that segment of that version.
    pub fn is(&self, view: &VersionView<'_>, segment: usize) -> bool {
        self.is_of(view) && self.segment as usize == segment
    }

    fn place(&self) -> &SegmentPlace {
        &self.view.segments[self.segment as usize]
    }

    /// Where it can be read.
    pub fn places(&self) -> Vec<Place> {
        self.place().places()
    }

    fn bytes(&self) -> u64 {
        self.place().bytes
    }
}

/// What the database keeps of copies.
#[derive(Default)]
pub(crate) struct Kept {
    /// How much of their catalogs, where that was asked for.
    pub asked: Option<LogLevel>,
    /// How much of their catalogs, by session.
    pub levels: HashMap<SessionId, LogLevel>,
    /// What opens the names where that is less than all.
    pub names: VersionKeys,
}

/// How the writing of copies went.
pub(crate) struct CopyRun {
    /// What was written, or why the target failed.
    pub finished: std::result::Result<Written, WriteError>,
    /// Bytes of the segments that were committed.
    pub committed: u64,
    /// Frames that could be had nowhere.
    pub lost_frames: u64,
    /// The target took no more.
    pub closed: bool,
    /// Of what other places stood in for the first ones.
    pub replicas: Vec<Replica>,
    /// The media that are away of which something was to be copied.
    pub away: Result<Vec<AwayReport>>,
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
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> CopyRun {
        let Kept { asked, levels, names } = kept;
        let (idb, committed) = (self.idb.clone(), Arc::<AtomicU64>::default());
        let count = committed.clone();
        let on_commit = Box::new(move |c: &Committed| {
            let writer = c.header.session.session;
            let level = levels.get(&writer).copied().or(asked);
            let level = level.map_or_else(|| idb.log_level(writer), Ok)?;
            record_commit(&idb, c, level, &names)?;
            count.fetch_add(c.bytes, Relaxed);
            Ok(())
        });
        let moves = Arc::new(Moves::default());
        let options = TransferOptions {
            meters: meters.clone(),
            now_us: crate::session::now_us,
            next_media: Some(self.changing(supply, &moves)),
            on_commit,
        };
        let transfer = self.agents.media.transfer(vec![member], options);
        let total = works.iter().map(Work::bytes).sum();
        // The last work that may read each medium.
        let of = |(at, work): (usize, &Work<'_>)| work.places().into_iter().map(move |p| (p.1, at));
        let last: HashMap<MediumId, usize> = works.iter().enumerate().flat_map(of).collect();
        let ((lost_frames, closed, away), seen) =
            watched(self.devices.waits(), meters, log, total, || {
                let mut copier = Copier::new(self, &*transfer, log, stop);
                for (at, work) in works.iter().enumerate() {
                    if stop.0.load(Relaxed) || copier.closed {
                        break;
                    }
                    copier.segment(work.view, work.segment, &work.ends, work.lacks_there);
                    let done = last.iter().filter(|(_, last)| **last == at);
                    done.for_each(|(medium, _)| self.done_reading(*medium));
                }
                (copier.lost_frames, copier.closed, copier.away)
            });
        let away = away.say(self, log);
        // Without the media: what holds them would keep us from locking.
        let (lost_members, drives) = (transfer.lost_mirrors(), transfer.drives());
        let finished = transfer.finish().map(|(_, written)| written);
        let drives = std::mem::take(&mut *drives.lock());
        moves.say(log);
        self.say_changed(log);
        let degraded = say_all_lost(self, &lost_members, log) > 0;
        let committed = committed.load(Relaxed);
        let mut replicas = Vec::new();
        for work in works {
            replicas.append(&mut work.view.media.take_replicas(log));
        }
        CopyRun {
            finished,
            committed,
            lost_frames,
            closed,
            replicas,
            away,
            degraded,
            moves,
            drives,
            seen,
        }
    }
}

/// Whether a segment lies on a source, and not on the target.
pub(crate) fn is_to_copy(
    place: &SegmentPlace,
    is_source: &dyn Fn(MediumId) -> bool,
    is_target: &dyn Fn(MediumId) -> bool,
) -> bool {
    let places = place.places();
    places.iter().any(|at| is_source(at.1)) && !places.iter().any(|at| is_target(at.1))
}

/// The segments on sources that are not on the target yet as a whole, each once, though several versions may have something in it.
pub(crate) fn lacking<'a>(
    views: &'a [VersionView<'a>],
    is_source: &dyn Fn(MediumId) -> bool,
    is_target: &dyn Fn(MediumId) -> bool,
) -> Vec<Work<'a>> {
    let mut works: Vec<Work<'a>> = Vec::new();
    for view in views {
        for (segment, place) in (0..).zip(&view.segments) {
            let places = place.places();
            let there = places.iter().filter(|p| is_target(p.1)).map(|p| place.lacks_at(*p)).min();
            let lacks = there != Some(0);
            let known = works.iter().any(|w: &Work<'_>| w.place().segment == place.segment);
            if lacks && !known && places.iter().any(|p| is_source(p.1)) {
                works.push(Work { lacks_there: there, ..Work::of(view, segment) });
            }
        }
    }
    works
}

/// Lets the end of each session go with its last segment; or with the one that makes it whole on the target, where the last is there
/// already or its version is not among those that are copied: of such a one parts may go along, and it is not said to have ended.
pub(crate) fn add_ends(
    cell: &Cell,
    versions: &[Version],
    works: &mut [Work<'_>],
    is_target: &dyn Fn(MediumId) -> bool,
) -> Result<()> {
    let at: HashMap<SegmentId, usize> =
        works.iter().enumerate().map(|(at, work)| (work.place().segment, at)).collect();
    let segments: Vec<SegmentId> = at.keys().copied().collect();
    for version in cell.idb.versions_in_segments(&segments)? {
        let Some(version) = cell.idb.version(version)? else { continue };
        let is_copied = versions.iter().any(|v| v.id == version.id);
        let view = VersionView::open_alone(cell, version)?;
        for session in view.segments.chunk_by(|a, b| a.session == b.session) {
            let work = |place: &SegmentPlace| at.get(&place.segment).copied();
            let is_there = |place: &SegmentPlace| {
                work(place).is_some() || place.places().iter().any(|p| is_target(p.1))
            };
            let is_whole = || session.iter().all(is_there);
            let last =
                session.last().filter(|_| is_copied).and_then(|place| Some((work(place)?, place)));
            let latest = || {
                let works = session.iter().filter_map(|place| Some((work(place)?, place)));
                works.max_by_key(|(at, _)| *at).filter(|_| is_whole())
            };
            if let Some((at, place)) = last.or_else(latest) {
                works[at].ends.extend(end_of_session(&view, place));
            }
        }
    }
    Ok(())
}

/// How the version's session ended that wrote a segment: as it stands there, or as it is recorded where it stands in a later one,
/// which has nothing of the version.
fn end_of_session(view: &VersionView<'_>, place: &SegmentPlace) -> Option<OtherEnd> {
    let contents = view.contents(place).ok()?;
    let streams = contents.streams.iter().filter_map(|s| s.label.as_ref()).map(|l| &l.session);
    // The header's first: of what a consolidation passed on the streams have labels of other versions.
    let mut labels = contents.header.iter().map(|h| &h.session).chain(streams);
    let label = labels.find(|label| label.version == view.version)?;
    let here = contents.end.as_ref().and_then(|end| end.end_of(label.session)).cloned();
    let recorded = || view.idb.session(label.session).ok().flatten().filter(has_ended);
    let mut end = here.or_else(|| recorded().map(end_as_recorded))?;
    if end.segments.is_empty() {
        end.segments = view.idb.segments_belonging_to(view.version).ok()?;
    }
    if end.lacks.is_none() {
        end.lacks = view.idb.lacks_of(view.version).ok()?.map(|paths| paths.len() as u64);
    }
    Some(OtherEnd { session: label.clone(), end })
}

fn has_ended(session: &Session) -> bool {
    matches!(session.status, Status::Completed | Status::CompletedWithErrors | Status::Failed)
}

fn end_as_recorded(session: Session) -> SessionEnd {
    SessionEnd {
        status: session.status.to_string(),
        ended_us: session.ended_us.unwrap_or(session.started_us),
        files: session.files,
        dirs: session.dirs,
        bytes_read: session.bytes_read,
        bytes_written: session.bytes_written,
        segments: Vec::new(),
        lacks: None,
    }
}
