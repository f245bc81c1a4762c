//! A drill: proof that a version restores. A sample of its files is restored to scratch space on the path that every restore
//! takes, and what came back is held against what is recorded, and against the live file where that is unchanged.

mod proof;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use capstan_catalog::diff::LiveRows;
use capstan_catalog::version::Merged;
use capstan_engine::message::Code;
use capstan_engine::problem::Explain;
use capstan_format::entry::Kind;
use capstan_idb::{Status, Version};
use capstan_port::disk::DiskAgent;
use capstan_wire::check::{ProofJob, ScratchAsked};
use capstan_wire::restore::Overwrite;

use self::proof::{Proof, Restored};
use crate::Cell;
use crate::clients::Client;
use crate::error::{CellError, DrillRefusal, Result, chain};
use crate::kinds::restore::Sampled;
use crate::kinds::restore::wanted::sample_arc::SampleArc;
use crate::kinds::skeleton::SessionRun;
use crate::observe::{Observer, Stop};
use crate::report::{DrillReport, Report, ReportError};
use crate::request::{DrillRequest, RestoreRequest, RestoreTo};
use crate::session::{SessionLog, now_us};

/// The kind of session.
const DRILL: &str = "drill";

/// Where drills restore to where nothing else is said: there is room, and it is on a disk.
const SCRATCH: &str = "/var/tmp";

/// What a drill takes.
struct Taken {
    arc: SampleArc,
    files: u64,
    bytes: u64,
}

impl Cell {
    /// Restores a sample and proves it.
    pub fn drill(
        &self,
        request: &DrillRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let session = SessionRun::begin(self, DRILL, stop)?;
        let log = SessionLog::new(observer);
        if !(request.sample > 0.0 && request.sample <= 1.0) {
            return Err(DrillRefusal::SampleOutOfRange.into());
        }
        let version = self.version(&request.version)?;
        let last = self.last_drill(&version)?;
        let arc = SampleArc::of_share(last.as_ref().map_or(0, |d| d.to), request.sample);
        let taken = self.taken(request, arc)?;
        let client = self.client_of(&self.host_of(version.object)?)?;
        let scratch = Scratch::make(&*client.agent, request.scratch.as_deref(), taken.bytes)?;
        let writer = self.writer_of(version.id)?.map(|s| s.id);
        session.record_begin(scratch.path.display().to_string(), Some(version.object), writer)?;
        let restore = restore_of(request, &client, &scratch);
        let restored = self.restore_sample(&restore, taken.arc, &log, stop);
        let Sampled { report, unchecked, away } = match restored {
            Ok(restored) => restored,
            // Such as a secret that is not at hand: it is said as a restore says it.
            Err(e) if e.exit_code() == 2 => {
                self.end_refused_drill(&session, request, &e)?;
                return Err(e);
            }
            Err(e) => {
                log.say(Code::DeviceFailed, "cell", &request.version.name, chain(&e));
                Report { status: Status::Failed.to_string(), ..Report::default() }.into()
            }
        };
        let mut drill = DrillReport {
            sample: request.sample,
            from: taken.arc.from,
            to: taken.arc.end(),
            files: taken.files,
            restore_s: report.elapsed_s,
            scratch: scratch.path.parent().unwrap_or(Path::new("/")).display().to_string(),
            ..DrillReport::default()
        };
        let round = last.filter(|d| !d.round_complete).map_or(0.0, |d| d.round);
        // What rounding leaves of the circle is less than one path in all there are.
        drill.round = (round + taken.arc.share()).min(1.0);
        drill.round_complete = drill.round > 1.0 - 1e-9;
        let failed = report.status == Status::Failed.as_str();
        if !failed && !session.is_stopped() {
            let limited = report.errors.iter().any(|e| e.code == Code::NotRestored.name());
            let restored = Restored { arc: taken.arc, limited, unchecked, away };
            let view = self.merged(&version)?.view;
            view.settle_links()?;
            let rows = Merged::with_sums(view)?;
            let proof = Proof::new(restored, LiveRows::new(rows), &log, stop, &mut drill);
            let job = ProofJob { scratch: scratch.path.as_os_str().as_bytes().to_vec() };
            proof.run(&*client.agent, &job)?;
        }
        drop(scratch);
        let status = session.status(failed, false, &log);
        let report = self.drill_report(&session, request, status, drill, report, &log);
        session.record_end(status, &report)?;
        Ok(report)
    }

    /// The report of the restore becomes that of the drill.
    fn drill_report(
        &self,
        session: &SessionRun<'_>,
        request: &DrillRequest,
        status: Status,
        drill: DrillReport,
        mut of_restore: Report,
        log: &SessionLog<'_>,
    ) -> Report {
        let errors = std::mem::take(&mut of_restore.errors);
        log.fill(&*self.devices, &mut of_restore);
        of_restore.errors.splice(0..0, errors);
        let own = session.report(&request.version.name, status);
        Report {
            session: own.session,
            name: own.name,
            host: own.host,
            method: own.method,
            status: own.status,
            start: own.start,
            end: own.end,
            elapsed_s: own.elapsed_s,
            peak_rss_bytes: own.peak_rss_bytes,
            corrupt: of_restore.corrupt + drill.failed,
            drill: Some(drill),
            ..of_restore
        }
    }

    /// Puts on record that a drill could not be made, and why.
    fn end_refused_drill(
        &self,
        session: &SessionRun<'_>,
        request: &DrillRequest,
        why: &CellError,
    ) -> Result<()> {
        let error = ReportError {
            path: String::new(),
            error: chain(why),
            code: "bad-input",
            refused: Some(why.problem()),
        };
        let report = Report {
            error_count: 1,
            errors: vec![error],
            ..session.report(&request.version.name, Status::Failed)
        };
        session.record_end(Status::Failed, &report)
    }

    /// What the object's last drill that came to an end said.
    fn last_drill(&self, version: &Version) -> Result<Option<DrillReport>> {
        let drills = self.past_of(version.object, DRILL)?;
        Ok(drills.into_iter().find_map(|p| p.report.drill))
    }

    /// The files in the arc; where there is none, the arc goes on to the next.
    fn taken(&self, request: &DrillRequest, arc: SampleArc) -> Result<Taken> {
        let mut rows = self.live_rows(&request.version)?;
        let mut taken = Taken { arc, files: 0, bytes: 0 };
        let mut next: Option<(u64, u64)> = None;
        while let Some((row, _)) = rows.next()? {
            let e = &row.entry;
            if e.kind != Kind::File {
                continue;
            }
            let path = e.path();
            if arc.has(&path) {
                taken.files += 1;
                taken.bytes = taken.bytes.saturating_add(e.size);
            } else {
                let this = (arc.distance(&path), e.size);
                next = Some(next.map_or(this, |n| n.min(this)));
            }
        }
        match (taken.files, next) {
            (0, Some((distance, size))) => {
                Ok(Taken { arc: arc.up_to(distance), files: 1, bytes: size })
            }
            (0, None) => Err(DrillRefusal::NoFiles { name: request.version.name.clone() }.into()),
            _ => Ok(taken),
        }
    }
}

/// The restore of a drill, into scratch space.
fn restore_of(request: &DrillRequest, client: &Client, scratch: &Scratch<'_>) -> RestoreRequest {
    RestoreRequest {
        version: request.version.clone(),
        client: (!client.is_here).then(|| client.host.clone()),
        paths: Vec::new(),
        exclude: Vec::new(),
        include: Vec::new(),
        to: RestoreTo::Into(scratch.path.clone()),
        strip: 0,
        overwrite: Overwrite::Never,
        dry_run: false,
        numeric_ids: false,
        spool: None,
    }
}

/// A directory at the disk agent that nobody else may enter, removed with all that is in it.
struct Scratch<'a> {
    path: PathBuf,
    agent: &'a dyn DiskAgent,
}

impl<'a> Scratch<'a> {
    fn make(agent: &'a dyn DiskAgent, parent: Option<&Path>, bytes: u64) -> Result<Self> {
        let parent = parent.unwrap_or(Path::new(SCRATCH)).as_os_str().as_bytes().to_vec();
        let name = format!("capstan-drill-{}-{}", std::process::id(), now_us());
        let made = agent.make_scratch(&ScratchAsked { parent, name, bytes });
        let path = OsString::from_vec(made.map_err(DrillRefusal::from)?).into();
        Ok(Self { path, agent })
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        self.agent.remove_scratch(self.path.as_os_str().as_bytes());
    }
}
