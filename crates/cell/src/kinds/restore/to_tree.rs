//! A restore into a directory, or in place.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use capstan_catalog::version::Overview;
use capstan_engine::message::Code;
use capstan_engine::meter::{Meters, Stage};
use capstan_engine::problem::Problem;
use capstan_engine::verdict::{Flow, Lanes};
use capstan_idb::Status;
use capstan_port::disk::restore::{RestoreRun, RestoreTarget, RestoreWith, TargetRefused};
use capstan_wire::restore::{RestoreCounts, RestoreDone, TargetSpec};

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
use crate::reading::contents::session_keys;
use crate::reading::version::VersionView;
use crate::report::Report;
use crate::request::{RestoreRequest, RestoreTo};
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
        let target = self.restore_target(&of, run)?;
        let (arc, turn, view) = (of.arc, of.turn, of.view);
        if arc.is_none() {
            run.record_begin()?;
        }
        let (meters, heard) = (Meters::default(), Heard::new(log));
        let mut agent = target.restore(RestoreWith {
            listener: &heard,
            meters: &meters,
            stop: &stop.0,
            keys: session_keys(&view.keys),
            has_links: of.overview.links > 0,
            has_flags: of.overview.flagged > 0,
        });
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
            in_parts: HashSet::new(),
            heard: &heard,
            meters: &meters,
            stop,
        };
        let (result, seen) =
            self.run_watched(&mut restore, &mut *agent, run.client.agent.processors().number);
        if !run.session.is_stopped() {
            Self::note_damage(view);
        }
        say_failure(&result, run, log);
        let name = &run.request.version.name;
        let done = agent.done(name);
        if run.session.is_stopped() {
            log.stopped(name);
        }
        view.say_names_lost(name, log);
        let away = heard.away.say(self, log)?;
        let status = run.session.status(result.is_err(), false, log);
        let mut report = report_of(&restore, run, status, (agent.counts(), &done), seen.as_ref());
        report.set_away(away);
        if status == Status::Completed && view.media.hurt_segments.lock().is_empty() {
            report.notes.extend(self.note_read_soundly(view, &restore.scope)?);
        }
        report.notes.extend(leftovers_text(done.leftovers_removed));
        view.media.say_problems(log);
        view.media.say_replicas(log, &mut report);
        let alone = || (self.devices.take_sessions(), true);
        let (drives, sees_to_them) = turn.map_or_else(alone, |turn| turn.drives(&*self.devices));
        run.session.add_drives_read(&mut report, &drives, sees_to_them, log);
        log.fill(&*self.devices, &mut report);
        if arc.is_none() {
            run.session.record_end(status, &report)?;
        }
        let (unchecked, away) = (done.is_unchecked, done.away.into_iter().collect());
        Ok(Sampled { report, unchecked, away })
    }

    /// Restores, while a watch tells how far it is and what limits.
    fn run_watched(
        &self,
        restore: &mut Restore<'_>,
        agent: &mut dyn RestoreRun,
        processors: u32,
    ) -> (Result<()>, Option<Seen>) {
        let workers = processors.clamp(1, 8) as usize;
        let prepared = restore.prepare(agent);
        let total = prepared.as_ref().map_or((0, 0), |total| *total);
        let (restore, agent) = (&*restore, &*agent);
        let watched = Watched {
            waits: self.devices.waits(),
            meters: restore.meters,
            lanes: Lanes { streams: workers as u32, processors },
            ladder: None,
            stages: (Stage::Device, Stage::Source),
            progress: &|p| {
                let counts = agent.counts();
                (p.files, p.bytes) = (counts.files, counts.bytes);
                (p.files_expected, p.bytes_expected) = total;
                p.files_found = total.0;
            },
            each: &|p| restore.heard.log.progress(p),
        };
        watch::watched(&watched, || prepared.and_then(|_| restore.run(agent, workers)))
    }
}

impl Cell {
    /// Opens the directory that takes the files, and refuses one that has no room or cannot hold them.
    fn restore_target(&self, of: &TreeOf<'_>, run: &RunOf<'_>) -> Result<Box<dyn RestoreTarget>> {
        let request = run.request;
        // What killed restores wrote beside files that they were to replace may lie there still.
        let killed = self.idb.killed_restores()?;
        let mut spec = target_spec(request);
        (spec.session, spec.killed) = (Some(run.session.id), killed);
        let target = run.client.agent.open_target(&spec)?;
        let target = target.ok_or_else(|| TargetRefused(not_open()))?;
        if let RestoreTo::Into(dir) = &request.to {
            let TreeOf { view, overview, chosen, scope, .. } = of;
            Check { view, overview, request, chosen, scope }.target(&*target, dir)?;
        }
        Ok(target)
    }
}

/// A target that is written to is always opened, or an error says why not.
fn not_open() -> Problem {
    Problem::new("the target was not opened").hint("try again")
}

/// The target of a restore into a directory, or in place.
pub(super) fn target_spec(request: &RestoreRequest) -> TargetSpec {
    let directory = match &request.to {
        RestoreTo::Into(dir) => dir.as_path(),
        RestoreTo::InPlace | RestoreTo::Tar(_) => Path::new("/"),
    };
    TargetSpec {
        directory: directory.as_os_str().as_bytes().to_vec(),
        overwrite: request.overwrite,
        numeric_ids: request.numeric_ids,
        only_looked_at: false,
        session: None,
        killed: Vec::new(),
    }
}

/// What a report says of files of killed restores that were removed.
fn leftovers_text(n: u64) -> Option<String> {
    let files = if n == 1 { "file" } else { "files" };
    (n > 0).then(|| {
        format!("{n} {files} that a killed restore left beside what it was to replace (.capstan-…) were removed")
    })
}

fn say_failure(result: &Result<()>, run: &RunOf<'_>, log: &SessionLog<'_>) {
    match result {
        Err(CellError::TargetFull(text)) => {
            log.say(Code::NotWritten, "disk agent", &run.destination(), text.to_string());
        }
        Err(e) => log.say(Code::DeviceFailed, "cell", &run.request.version.name, chain(e)),
        Ok(()) => {}
    }
}

fn report_of(
    restore: &Restore<'_>,
    run: &RunOf<'_>,
    status: Status,
    (counts, done): (RestoreCounts, &RestoreDone),
    seen: Option<&Seen>,
) -> Report {
    let bytes = counts.bytes;
    let mut report = Report {
        files: counts.files,
        dirs: counts.dirs,
        corrupt: counts.lost,
        bytes_read: counts.bytes_read,
        bytes_written: bytes,
        media: restore.view.media.used_media(),
        ..run.report(status)
    };
    left_alone(&done.left_alone, &mut report);
    add_rates(&mut report, bytes, seen);
    if let Some(seen) = seen {
        report.set_stages(restore.meters, seen.verdict, Flow::Restore);
    }
    report
}
