//! A restore into a directory, or in place.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::version::Overview;
use capstan_disk_agent::restore::Files;
use capstan_disk_agent::target::{Mark, Target, TargetOptions};
use capstan_engine::message::Code;
use capstan_engine::meter::{Meters, Stage};
use capstan_engine::verdict::{Flow, Lanes};
use capstan_idb::Status;

use super::Sampled;
use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::kinds::restore::check::Check;
use crate::kinds::restore::pace::Turn;
use crate::kinds::restore::session::{RunOf, left_alone};
use crate::kinds::restore::tree::Restore;
use crate::kinds::restore::tree::losses::Heard;
use crate::kinds::restore::tree::referred::Referred;
use crate::kinds::restore::tree::route::Tapes;
use crate::kinds::restore::wanted::chosen::Chosen;
use crate::kinds::restore::wanted::sample_arc::SampleArc;
use crate::kinds::restore::wanted::scope::Scope;
use crate::kinds::skeleton::add_rates;
use crate::observe::Stop;
use crate::reading::version::VersionView;
use crate::report::Report;
use crate::request::RestoreTo;
use crate::session::SessionLog;
use crate::session::watch::{self, Seen, Watched};

/// What is restored of a version, and how.
pub(super) struct TreeOf<'a> {
    pub view: &'a VersionView<'a>,
    pub overview: &'a Overview,
    pub chosen: Chosen,
    pub scope: Scope,
    /// Of a drill: the sample.
    pub arc: Option<SampleArc>,
    /// Among others that read the same tapes.
    pub turn: Option<&'a Turn<'a>>,
}

impl Cell {
    pub(super) fn restore_to_tree(
        &self,
        of: TreeOf<'_>,
        run: &RunOf<'_>,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> Result<Sampled> {
        let target = open_target(&of, run)?
            .marked(Mark::of_session(run.session.id.0), self.dead_restores()?);
        let (arc, turn, view) = (of.arc, of.turn, of.view);
        if arc.is_none() {
            run.record_begin()?;
        }
        let (meters, heard) = (Meters::default(), Heard::new(log));
        let has = (of.overview.links > 0, of.overview.flagged > 0);
        let mut restore = Restore {
            arc,
            turn,
            view,
            overview: of.overview,
            spans: view.spans(),
            tapes: Tapes::of(view.segments.len()),
            referred: Referred::default(),
            request: run.request,
            chosen: of.chosen,
            scope: of.scope,
            instead: HashMap::new(),
            files: Files::new(&target, &heard, &meters, &stop.0, has),
            heard: &heard,
            meters: &meters,
            stop,
        };
        let (result, seen) = self.run_watched(&mut restore);
        if !run.session.is_stopped() {
            Self::note_damage(view);
        }
        say_failure(&result, run, log);
        let name = &run.request.version.name;
        restore.files.say_tally(name);
        if run.session.is_stopped() {
            log.stopped(name);
        }
        view.say_names_lost(name, log);
        let away = heard.away.say(self, log)?;
        let status = run.session.status(result.is_err(), false, log);
        let mut report = report_of(&restore, run, status, seen.as_ref());
        report.set_away(away);
        if status == Status::Completed && view.media.hurt_segments.lock().is_empty() {
            report.notes.extend(self.note_read_soundly(view, &restore.scope)?);
        }
        report.notes.extend(leftovers_text(target.leftovers_removed()));
        view.media.say_problems(log);
        view.media.say_replicas(log, &mut report);
        let alone = || (self.devices.take_sessions(), true);
        let (drives, sees_to_them) = turn.map_or_else(alone, |turn| turn.drives(&*self.devices));
        run.session.add_drives_read(&mut report, &drives, sees_to_them, log);
        log.fill(&*self.devices, &mut report);
        if arc.is_none() {
            run.session.record_end(status, &report)?;
        }
        let (unchecked, away) = (restore.files.is_unchecked(), restore.files.away());
        Ok(Sampled { report, unchecked, away })
    }

    /// Restores, while a watch tells how far it is and what limits.
    fn run_watched(&self, restore: &mut Restore<'_>) -> (Result<()>, Option<Seen>) {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let workers = processors.clamp(1, 8);
        let prepared = restore.prepare();
        let total = prepared.as_ref().map_or((0, 0), |total| *total);
        let restore = &*restore;
        let watched = Watched {
            waits: self.devices.waits(),
            meters: restore.meters,
            lanes: Lanes { streams: workers as u32, processors: processors as u32 },
            ladder: None,
            stages: (Stage::Device, Stage::Source),
            progress: &|p| {
                p.files = restore.files.counts.files.load(Relaxed);
                p.bytes = restore.files.counts.bytes.load(Relaxed);
                (p.files_expected, p.bytes_expected) = total;
                p.files_found = total.0;
            },
            each: &|p| restore.heard.log.progress(p),
        };
        watch::watched(&watched, || prepared.and_then(|_| restore.run(workers)))
    }
}

impl Cell {
    /// Marks of the restores of this home that were killed: what they wrote beside files that they were to replace may lie there still.
    fn dead_restores(&self) -> Result<HashSet<Mark>> {
        Ok(self.idb.killed_restores()?.into_iter().map(|id| Mark::of_session(id.0)).collect())
    }
}

/// What a report says of files of killed restores that were removed.
fn leftovers_text(n: u64) -> Option<String> {
    let files = if n == 1 { "file" } else { "files" };
    (n > 0).then(|| {
        format!("{n} {files} that a killed restore left beside what it was to replace (.capstan-…) were removed")
    })
}

/// Opens the directory that takes the files, and refuses one that has no room or cannot hold them.
fn open_target(of: &TreeOf<'_>, run: &RunOf<'_>) -> Result<Target> {
    let request = run.request;
    let options = TargetOptions { overwrite: request.overwrite, numeric_ids: request.numeric_ids };
    let RestoreTo::Into(dir) = &request.to else { return Ok(Target::in_place(options)?) };
    let target = Target::open(dir, options)?;
    let TreeOf { view, overview, chosen, scope, .. } = of;
    Check { view, overview, request, chosen, scope }.target(&target, dir)?;
    Ok(target)
}

fn say_failure(result: &Result<()>, run: &RunOf<'_>, log: &SessionLog<'_>) {
    match result {
        Err(CellError::TargetFull(text)) => {
            log.say(Code::NotWritten, "disk agent", &run.destination(), text.clone());
        }
        Err(e) => log.say(Code::DeviceFailed, "cell", &run.request.version.name, chain(e)),
        Ok(()) => {}
    }
}

fn report_of(
    restore: &Restore<'_>,
    run: &RunOf<'_>,
    status: Status,
    seen: Option<&Seen>,
) -> Report {
    let bytes = restore.files.counts.bytes.load(Relaxed);
    let mut report = Report {
        files: restore.files.counts.files.load(Relaxed),
        dirs: restore.files.counts.dirs.load(Relaxed),
        corrupt: restore.files.counts.lost.load(Relaxed),
        bytes_read: restore.files.counts.bytes_read.load(Relaxed),
        bytes_written: bytes,
        media: restore.view.media.used_media(),
        ..run.report(status)
    };
    left_alone(restore.files.target(), &mut report);
    add_rates(&mut report, bytes, seen);
    if let Some(seen) = seen {
        report.set_stages(restore.meters, seen.verdict, Flow::Restore);
    }
    report
}
