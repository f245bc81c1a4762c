//! A drill: proof that a version restores. A sample of its files is restored to scratch space on the path that every restore
//! takes, and what came back is held against what is recorded, and against the live file where that is unchanged.

mod proof;

use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use capstan_catalog::diff::LiveRows;
use capstan_catalog::version::Merged;
use capstan_disk_agent::target::Overwrite;
use capstan_engine::message::Code;
use capstan_format::entry::Kind;
use capstan_format::id::SessionId;
use capstan_idb::{Session, Status, Totals, Version};

use self::proof::Proof;
use crate::Cell;
use crate::error::{CellError, Result, plain};
use crate::kinds::restore::Sampled;
use crate::kinds::restore::sample_arc::SampleArc;
use crate::observe::{Observer, Stop};
use crate::report::{DrillReport, Report, ReportError};
use crate::request::{DrillRequest, RestoreRequest, RestoreTo};
use crate::session::{Ears, begun, host, now_us, peak_rss, rfc3339};

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
        let (begun, started_us) = (Instant::now(), now_us());
        let ears = Ears::new(observer);
        if !(request.sample > 0.0 && request.sample <= 1.0) {
            return Err(CellError::BadInput(
                "the sample is out of range; it is more than 0 % and at most 100 %".to_owned(),
            ));
        }
        let version = self.version(&request.version)?;
        let last = self.last_drill(&version)?;
        let arc = SampleArc::of_share(last.as_ref().map_or(0, |d| d.to), request.sample);
        let taken = self.taken(request, arc)?;
        let scratch = Scratch::make(request.scratch.as_deref(), taken.bytes)?;
        let id = SessionId(self.new_id()?);
        self.begin_drill(id, &version, &scratch, started_us)?;
        let restore = RestoreRequest {
            version: request.version.clone(),
            paths: Vec::new(),
            exclude: Vec::new(),
            include: Vec::new(),
            to: RestoreTo::Into(scratch.0.clone()),
            strip: 0,
            overwrite: Overwrite::Never,
            dry_run: false,
            numeric_ids: false,
            spool: None,
        };
        let restored = self.restore_sample(&restore, taken.arc, &ears, stop);
        let Sampled { mut report, unchecked, away } = match restored {
            Ok(restored) => restored,
            // Such as a secret that is not at hand: it is said as a restore says it.
            Err(e) if e.exit_code() == 2 => {
                self.end_refused_drill(id, request, started_us, &e)?;
                return Err(e);
            }
            Err(e) => {
                ears.say(
                    Code::DeviceFailed,
                    "cell",
                    &request.version.name,
                    crate::error::chain(&e),
                );
                Report { status: Status::Failed.to_string(), ..Report::default() }.into()
            }
        };
        let mut drill = DrillReport {
            sample: request.sample,
            from: taken.arc.from,
            to: taken.arc.end(),
            files: taken.files,
            restore_s: report.elapsed_s,
            scratch: scratch.0.parent().unwrap_or(Path::new("/")).display().to_string(),
            ..DrillReport::default()
        };
        let round = last.filter(|d| !d.round_complete).map_or(0.0, |d| d.round);
        // What rounding leaves of the circle is less than one path in all there are.
        drill.round = (round + taken.arc.share()).min(1.0);
        drill.round_complete = drill.round > 1.0 - 1e-9;
        if report.status != Status::Failed.as_str() && !stop.0.load(Relaxed) {
            let limited = report.errors.iter().any(|e| e.code == Code::NotRestored.name());
            let proof = Proof::new(&scratch.0, taken.arc, limited, unchecked, away)?;
            let view = self.merged(&version)?.view;
            view.settle_links()?;
            let rows = Merged::with_sums(view)?;
            proof.run(LiveRows::new(rows), &ears, stop, &mut drill)?;
        }
        drop(scratch);
        let status = match (report.status.as_str(), stop.0.load(Relaxed)) {
            ("failed", _) => Status::Failed,
            (_, true) => Status::Incomplete,
            _ if ears.error_count() > 0 => Status::CompletedWithErrors,
            _ => Status::Completed,
        };
        let of_restore = std::mem::take(&mut report.errors);
        ears.fill(&self.devices, &mut report);
        report.errors.splice(0..0, of_restore);
        let ended_us = now_us();
        let report = Report {
            session: id.to_string(),
            name: request.version.name.clone(),
            host: host(),
            method: "drill".to_owned(),
            status: status.to_string(),
            start: rfc3339(started_us),
            end: rfc3339(ended_us),
            elapsed_s: begun.elapsed().as_secs_f64(),
            peak_rss_bytes: peak_rss(),
            corrupt: report.corrupt + drill.failed,
            drill: Some(drill),
            ..report
        };
        let totals = Totals {
            files: report.files,
            dirs: report.dirs,
            bytes_read: report.bytes_read,
            bytes_written: report.bytes_written,
        };
        let json = serde_json::to_string(&report).unwrap_or_default();
        self.idb.end_session(id, status, ended_us, &totals, &json, None)?;
        Ok(report)
    }

    /// Puts on record that a drill could not be made, and why.
    fn end_refused_drill(
        &self,
        id: SessionId,
        request: &DrillRequest,
        started_us: i64,
        why: &CellError,
    ) -> Result<()> {
        let ended_us = now_us();
        let report = Report {
            session: id.to_string(),
            name: request.version.name.clone(),
            host: host(),
            method: "drill".to_owned(),
            status: Status::Failed.to_string(),
            start: rfc3339(started_us),
            end: rfc3339(ended_us),
            error_count: 1,
            errors: vec![ReportError {
                path: String::new(),
                error: crate::error::chain(why),
                code: "bad-input",
            }],
            ..Report::default()
        };
        let json = serde_json::to_string(&report).unwrap_or_default();
        self.idb.end_session(id, Status::Failed, ended_us, &Totals::default(), &json, None)?;
        Ok(())
    }

    /// What the object's last drill that came to an end said.
    fn last_drill(&self, version: &Version) -> Result<Option<DrillReport>> {
        let drills = self.past_of(version.object, "drill")?;
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
            (0, None) => Err(CellError::BadInput(format!(
                "'{}' has no files: there is nothing to restore; `capstan ls` shows what it has",
                request.version.name
            ))),
            _ => Ok(taken),
        }
    }

    fn begin_drill(
        &self,
        id: SessionId,
        version: &Version,
        scratch: &Scratch,
        started_us: i64,
    ) -> Result<()> {
        let session = Session {
            object: Some(version.object),
            parent: self.writer_of(version.id)?.map(|s| s.id),
            ..begun(id, "drill", scratch.0.display().to_string(), started_us)
        };
        self.begin_session(&session, None)
    }
}

/// A directory that nobody else may enter, removed with all that is in it.
struct Scratch(PathBuf);

impl Scratch {
    fn make(parent: Option<&Path>, bytes: u64) -> Result<Self> {
        use std::os::unix::fs::DirBuilderExt;
        let parent = parent.unwrap_or(Path::new(SCRATCH));
        let refused = |e: &std::io::Error| {
            CellError::BadInput(format!(
                "cannot restore into {}: {}; name a directory in which you may write with --scratch",
                parent.display(),
                plain(e)
            ))
        };
        let parent = std::fs::canonicalize(parent).map_err(|e| refused(&e))?;
        if let Ok(stat) = rustix::fs::statvfs(&parent)
            && stat.f_bavail.saturating_mul(stat.f_frsize) < bytes
        {
            return Err(CellError::BadInput(format!(
                "{} has no room for the sample of {} MB; take a smaller --sample, or another place with --scratch",
                parent.display(),
                bytes.div_ceil(1_000_000)
            )));
        }
        let dir = parent.join(format!("capstan-drill-{}-{}", std::process::id(), now_us()));
        std::fs::DirBuilder::new().mode(0o700).create(&dir).map_err(|e| refused(&e))?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind is of no use to anybody but takes room; there is nobody left to tell.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
