//! Copies of versions onto media of which the next one goes on where one fails.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use capstan_catalog::places::SegmentPlace;
use capstan_engine::message::Code;
use capstan_engine::meter::{Meters, Stage};
use capstan_format::id::MediumId;
use capstan_format::record::{Follows, MediumHeader};
use capstan_idb::{LogLevel, Version};
use capstan_medium::tape::DriveSession;
use capstan_port::media::write::members::Member;

use super::run::{CopyRun, add_ends, is_to_copy, lacking};
use crate::Cell;
use crate::error::{Result, chain};
use crate::media::WriteFailure;
use crate::observe::Stop;
use crate::reading::version::VersionView;
use crate::report::{AwayReport, Replica, Report};
use crate::session::SessionLog;
use crate::session::transfers::Moved;
use crate::supply::tapes::Supply;
use crate::supply::unfit::{PassedOver, Why};

/// So many media that fail are not the media's fault.
const FAILURES: usize = 3;

/// Opens a medium, none of those that were passed over.
pub(crate) type NextMember<'a> = &'a dyn Fn(&[PassedOver]) -> Result<Member>;

/// What is copied from where to where.
pub(crate) struct Route<'a> {
    /// What it is called in messages.
    pub name: &'a str,
    /// The versions.
    pub versions: &'a [Version],
    /// Whether what lies on a medium is to be copied.
    pub is_source: &'a dyn Fn(MediumId) -> bool,
    /// Whether what lies on a medium is copied already.
    pub is_target: &'a dyn Fn(MediumId) -> bool,
    /// How much of the copies' catalogs is kept.
    pub log_level: Option<LogLevel>,
    /// Where it goes on when a medium ends.
    pub supply: Supply,
    /// Where it goes on when one fails, if anywhere.
    pub next: Option<NextMember<'a>>,
}

/// What was copied.
#[derive(Default)]
pub(crate) struct Copied {
    pub meters: Arc<Meters>,
    /// Labels of the media, in the order in which they were written.
    pub media: Vec<String>,
    /// Bytes written, and committed.
    pub written: u64,
    pub copying_s: f64,
    pub media_change_s: f64,
    /// Something of a session failed beside what was said as an error.
    pub degraded: bool,
    pub failed: bool,
    /// All media, in the order in which they were written.
    pub written_to: Vec<MediumId>,
    /// The medium that was written last, unless it failed.
    pub last: Option<MediumId>,
    /// What the tape drives did.
    pub drives: Vec<DriveSession>,
    /// Of what other places stood in for the first ones.
    pub replicas: Vec<Replica>,
    /// The media that are away of which something was to be copied.
    pub away: Vec<AwayReport>,
    /// The last run.
    pub run: Option<CopyRun>,
}

impl Copied {
    /// Takes over what a run to a medium, and those on which it went on, did.
    fn add(&mut self, run: &mut CopyRun, medium: &MediumHeader) -> Result<()> {
        // What a medium that failed took and did not commit is written again.
        self.written += run.finished.as_ref().map_or(run.committed, |written| written.bytes);
        self.media.extend(run.moves.with(vec![medium.label.clone()]));
        self.media_change_s += run.moves.seconds();
        self.drives.append(&mut run.drives);
        self.replicas.append(&mut run.replicas);
        // What was away before is so still.
        self.away = std::mem::replace(&mut run.away, Ok(Vec::new()))?;
        self.degraded |= run.degraded || run.lost_frames > 0;
        self.written_to.push(medium.medium);
        self.written_to.extend(run.moves.ids());
        Ok(())
    }

    /// Puts into a report what was copied and where to, and what drives and stages did in so many seconds.
    pub fn fill(&mut self, cell: &Cell, report: &mut Report, elapsed_s: f64, log: &SessionLog<'_>) {
        report.media = std::mem::take(&mut self.media);
        report.media_change_s = self.media_change_s;
        report.replicas.append(&mut self.replicas);
        report.set_drives(&self.drives);
        cell.clean_drives(&self.drives, report, log);
        if let Some(run) = self.run.take() {
            let read = self.meters.of(Stage::Source).read().bytes;
            let moved = Moved { read, written: self.written, elapsed_s };
            moved.fill(report, &self.meters, run.seen);
        }
    }
}

impl Cell {
    /// Copies what is not on the target yet, and says what is damaged of what is there.
    pub(crate) fn copy_along(
        &self,
        route: &Route<'_>,
        member: Member,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> Result<Copied> {
        let copied = self.copy_lacking(route, member, log, stop)?;
        let is_target = |id| copied.written_to.contains(&id) || (route.is_target)(id);
        self.say_damaged_there(route.versions, &is_target, log)?;
        Ok(copied)
    }

    /// Copies what is not on the target yet. Where a medium fails, or is full without a warning, the next one goes on: what was
    /// committed is not copied again.
    fn copy_lacking(
        &self,
        route: &Route<'_>,
        mut member: Member,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> Result<Copied> {
        let mut copied = Copied::default();
        let mut passed: Vec<PassedOver> = Vec::new();
        let mut failures = 0;
        loop {
            let begun = Instant::now();
            let medium = member.medium.clone();
            let done = copied.written_to.clone();
            let is_target = |id| id == medium.medium || done.contains(&id) || (route.is_target)(id);
            let mut views = self.views_to_copy(route, medium.medium, &is_target)?;
            let kept = self.levels_of_copies(&mut views, route.log_level)?;
            let mut works = lacking(&views, route.is_source, &is_target);
            add_ends(self, route.versions, &mut works, &is_target)?;
            let supply = route.supply.clone().but(passed.clone());
            let mut run = self.copy_works(&works, member, supply, kept, &copied.meters, log, stop);
            copied.copying_s += begun.elapsed().as_secs_f64();
            copied.add(&mut run, &medium)?;
            let last = run.moves.last(&medium);
            copied.last = run.finished.is_ok().then_some(last.medium);
            let failure = run.finished.as_ref().err().map(|e| (chain(e), WriteFailure::of(e)));
            copied.failed = failure.is_some() || run.closed;
            let took = run.committed > 0;
            copied.run = Some(run);
            let Some((failure, of)) = failure else { return Ok(copied) };
            let full = of == WriteFailure::Full;
            if full && !took && self.idb.holdings(last.medium)?.segments == 0 {
                // No other would have room for it, and this one has all of its room yet.
                log.say(Code::DeviceFailed, "media agent", &last.label, too_small(&failure));
                return Ok(copied);
            }
            self.note_write_failure(last.medium, of)?;
            passed.push((last.medium, Why::ended(full, &failure)));
            // A tape that got full is no failure, unless it took nothing at all.
            failures += usize::from(!(full && took));
            let spool_failed = of == WriteFailure::Spool;
            let goes_on = failures < FAILURES && !spool_failed && !stop.0.load(Relaxed);
            let next = route.next.filter(|_| goes_on);
            match next.map(|next| next(&passed)) {
                Some(Ok(mut next)) => {
                    let label = &next.medium.label;
                    let (code, text) = self.gone_on(full, last.medium, label, &failure);
                    log.say(code, "media agent", &last.label, text);
                    next.follows = Some(Follows { medium: last.medium, label: last.label });
                    member = next;
                }
                no_next => {
                    log.say(Code::DeviceFailed, "media agent", &last.label, failure);
                    if let Some(Err(e)) = no_next {
                        log.say(Code::DeviceFailed, "cell", route.name, chain(&e));
                    }
                    return Ok(copied);
                }
            }
        }
    }

    /// The versions of which something is to be copied to a medium. Tapes of the libraries that it is written in are read last.
    fn views_to_copy(
        &self,
        route: &Route<'_>,
        medium: MediumId,
        is_target: &dyn Fn(MediumId) -> bool,
    ) -> Result<Vec<VersionView<'_>>> {
        let mut views = Vec::new();
        for version in route.versions {
            let view = VersionView::open_alone(self, version.clone())?;
            if !lacking(std::slice::from_ref(&view), route.is_source, is_target).is_empty() {
                views.push(view);
            }
        }
        let is_needed =
            |_: usize, place: &SegmentPlace| is_to_copy(place, route.is_source, is_target);
        let tapes = self.tapes_of(medium);
        let written: Vec<_> = tapes.iter().map(|tape| tape.library.resolved()).collect();
        VersionView::bring_beside(&mut views, &written, &is_needed)?;
        Ok(views)
    }
}

fn too_small(failure: &str) -> String {
    format!(
        "{failure}, though nothing was on it: a segment that is to be copied is larger than the tape, and copies have the segments \
         of their originals; take larger tapes, or back up again with a smaller --segment-size"
    )
}
