//! What follows when jobs were written: their statuses, locks and reports, and the backup of the IDB behind them.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use capstan_address::Address;
use capstan_engine::message::Code;
use capstan_engine::meter::Stage;
use capstan_engine::problem::Explain;
use capstan_engine::verdict::Flow;
use capstan_format::id::MediumId;
use capstan_format::record::{MediumHeader, SessionEnds};
use capstan_idb::Status;
use capstan_medium::tape::DriveSession;
use capstan_medium::{HeldMedium, WAYS_TO_ROOM};
use capstan_port::media::write::committed;
use capstan_port::media::write::error::WriteError;
use capstan_port::media::write::session::SessionWriter;

use crate::Cell;
use crate::error::Result;
use crate::kinds::backup::job::{Ending, Job, Written};
use crate::kinds::backup::media::write::Writing;
use crate::kinds::backup::supply_of;
use crate::media::WriteFailure;
use crate::report::Report;
use crate::request::{BackupRequest, Encrypt, Source};
use crate::session::SessionLog;
use crate::session::watch::Seen;
use crate::versions::protect::say_not_locked;

/// Catalog files that no commit refers to are removed after a day.
const CATALOG_GRACE: Duration = Duration::from_secs(24 * 3600);

/// What the writer did.
struct Outcome {
    written: committed::Written,
    failure: Option<WriteError>,
    drives: Vec<DriveSession>,
    /// Whether not all media have all of it.
    is_degraded: bool,
}

impl Outcome {
    /// What kind of failure it was.
    fn of(&self) -> Option<WriteFailure> {
        self.failure.as_ref().map(WriteFailure::of)
    }

    fn is_full(&self) -> bool {
        self.of() == Some(WriteFailure::Full)
    }

    /// Of several media those that were full.
    fn full_media(&self) -> &[MediumId] {
        match &self.failure {
            Some(WriteError::Full { media, .. }) => media,
            _ => &[],
        }
    }

    /// How a job ended, with what became of its media.
    fn status(&self, status: Status) -> Status {
        match status {
            _ if self.failure.is_some() => Status::Failed,
            Status::Completed if self.is_degraded => Status::CompletedWithErrors,
            other => other,
        }
    }
}

impl Writing<'_, '_> {
    /// Ends the writing: gives the media the ends of the sessions, and puts these on record. `labels` are the media's at the begin,
    /// `held` those that are to be locked.
    pub fn ended(
        &self,
        writer: Box<dyn SessionWriter>,
        mut endings: Vec<Ending>,
        seen: Option<Seen>,
        labels: Vec<String>,
        held: Vec<HeldMedium>,
    ) -> Result<Vec<Report>> {
        let outcome = self.outcome(writer, &endings);
        if let Some(e) = &outcome.failure {
            let medium = self.moves.last(&self.medium);
            self.cell.say_device_failed(self.request, &medium, e, self.log)?;
        }
        for ending in &mut endings {
            ending.status = outcome.status(ending.status);
        }
        self.cell.lock_jobs(self.jobs, &mut endings, held);
        let media = self.moves.with(labels);
        let mut reports = self.reports(&outcome, &endings, seen.as_ref(), &media)?;
        if let Some(report) = reports.first_mut().filter(|_| !outcome.is_full()) {
            // Those of a mirror that failed are none of them.
            let last = match outcome.of() {
                None => outcome.written.media.clone(),
                Some(WriteFailure::Other) => vec![self.moves.last(&self.medium).medium],
                Some(_) => Vec::new(),
            };
            self.cell.back_up_idb(&self.request.device, &last, self.log, report);
        }
        // Catalog files of commits that a kill cut short; one that is just being written is left alone.
        self.cell.idb.reconcile_catalogs(CATALOG_GRACE)?;
        Ok(reports)
    }

    /// Lets the writer end.
    fn outcome(&self, writer: Box<dyn SessionWriter>, endings: &[Ending]) -> Outcome {
        let (drives, lost_mirrors) = (writer.drives(), writer.lost_mirrors());
        let written = writer.finish(ends(self.jobs, endings));
        let drives = std::mem::take(&mut *drives.lock());
        self.say_lost_mirrors(&lost_mirrors);
        self.moves.say(self.log);
        let passed_over = self.cell.say_changed(self.log);
        let is_degraded = self.mirrors_lost.load(Relaxed) + passed_over > 0;
        let (written, failure) = match written {
            Ok(written) => (written, None),
            Err(e) => {
                let bytes = self.meters.of(Stage::Device).read().bytes;
                // Who wrote how much of it is not known.
                let share = bytes / self.jobs.len().max(1) as u64;
                let others = self.jobs.iter().skip(1);
                let of_others = others.map(|job| (job.label.session, share)).collect();
                (committed::Written { bytes, of_others, ..committed::Written::default() }, Some(e))
            }
        };
        Outcome { written, failure, drives, is_degraded }
    }

    /// Makes the jobs' reports, and puts their ends on record.
    fn reports(
        &self,
        outcome: &Outcome,
        endings: &[Ending],
        seen: Option<&Seen>,
        media: &[String],
    ) -> Result<Vec<Report>> {
        let request = self.request;
        let blocks = self.meters.of(Stage::Device).read().bytes;
        let mut common = Report::default();
        common.set_drives(&outcome.drives);
        self.cell.clean_drives(&outcome.drives, &mut common, self.log);
        if let Some(seen) = seen {
            common.set_stages(&self.meters, seen.verdict, Flow::Backup);
        }
        // Beside a directory it is what lies there that counts.
        let all_on_tape = (request.pool.is_some() || request.device.is_tape())
            && request.mirrors.iter().all(Address::is_tape);
        let of = outcome.of();
        let failure = outcome.failure.as_ref().map(|e| crate::error::chain(e));
        let written = Written {
            media,
            media_change_s: self.moves.seconds(),
            elapsed_s: self.begun.elapsed().as_secs_f64(),
            rate_sustained: seen.map_or(0.0, |s| s.sustained),
            bytes: 0,
            device_full: outcome.is_full(),
            // Another medium would be written through the same spool.
            device_failed: outcome.is_full() || of.is_some_and(WriteFailure::is_of_medium),
            failure: failure.as_deref(),
            full_media: outcome.full_media(),
            device_lost: of == Some(WriteFailure::Connection),
            encryption: match request.encrypt {
                Some(Encrypt::Drive) => Some(Encrypt::Drive),
                _ => self.is_encrypted.then_some(Encrypt::Software),
            },
        };
        let mut reports = Vec::new();
        for (job, ending) in self.jobs.iter().zip(endings) {
            let bytes = match bytes_of(job, self.jobs, &outcome.written, blocks) {
                bytes if all_on_tape => common.on_tape(bytes),
                bytes => bytes,
            };
            let mut report = job.report(ending, &Written { bytes, ..written });
            report.bottleneck.clone_from(&common.bottleneck);
            report.stages.clone_from(&common.stages);
            report.drives.clone_from(&common.drives);
            report.notes.extend(common.notes.iter().cloned());
            job.log.also(self.log);
            job.record_end(self.cell, ending, &mut report)?;
            reports.push(report);
        }
        Ok(reports)
    }
}

impl Cell {
    /// Locks what was completed, where that is asked for. The media are `held` until the first is locked.
    fn lock_jobs(&self, jobs: &[Job<'_>], endings: &mut [Ending], mut held: Vec<HeldMedium>) {
        for (job, ending) in jobs.iter().zip(endings) {
            let done = matches!(ending.status, Status::Completed | Status::CompletedWithErrors);
            let Some(until_us) = job.request.keep.lock_until_us.filter(|_| done) else { continue };
            let (version, name) = (job.label.version, &job.plan.name);
            if let Err(e) = self.lock_new(version, name, until_us, std::mem::take(&mut held)) {
                ending.status = Status::CompletedWithErrors;
                say_not_locked(&job.log, name, &e);
            }
        }
    }

    /// Says and records why a device took no more. Where there are further media, these go on, and it is no error of the
    /// backup.
    fn say_device_failed(
        &self,
        request: &BackupRequest,
        medium: &MediumHeader,
        why: &WriteError,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let device = request.device.to_string();
        let of = WriteFailure::of(why);
        let mut label = medium.label.clone();
        match why {
            WriteError::Full { media, .. } => {
                media.iter().try_for_each(|full| self.note_write_failure(*full, of))?;
                label = self.labels(media.iter())?.join("', '");
            }
            _ => self.note_write_failure(medium.medium, of)?,
        }
        let full = of == WriteFailure::Full;
        let more = !supply_of(request).is_none();
        if (full || of.is_of_medium()) && more && matches!(request.source, Source::Paths(_)) {
            let (code, text) = match full {
                true => (Code::Adapted, format!("medium '{label}' is full: another goes on")),
                false => {
                    let (why, goes_on) = (crate::error::chain(why), goes_on(of));
                    let place = self.failed_in(medium.medium);
                    let text =
                        format!("writing to medium '{label}'{place} failed, and {goes_on}: {why}");
                    (Code::MediumFailed, text)
                }
            };
            log.say(code, "media agent", &device, text);
            return Ok(());
        }
        let mut text = crate::error::chain(why);
        if full && !request.device.is_sequential() {
            // What is said of any device that is full leaves out what this one is.
            let what = why.sentence();
            text = format!(
                "the disk of medium '{label}' is full, what was committed is kept: {what}; {WAYS_TO_ROOM}"
            );
        }
        log.say(Code::DeviceFailed, "media agent", &device, text);
        Ok(())
    }
}

/// What follows a failure to write to a medium, where there are others.
const fn goes_on(of: WriteFailure) -> &'static str {
    match of {
        WriteFailure::Connection => "the backup goes on with what can be reached",
        _ => "another goes on",
    }
}

/// The ends of sessions that are written together; segments name the first one's.
fn ends(jobs: &[Job<'_>], endings: &[Ending]) -> SessionEnds {
    let others = jobs.iter().zip(endings).skip(1);
    SessionEnds {
        own: endings.first().and_then(|first| first.end.clone()),
        others: others.filter_map(|(job, ending)| ending.beside(&job.label)).collect(),
    }
}

/// The bytes that a job wrote, of which so many are `blocks` of data: its own blocks, and its share of what is around them.
fn bytes_of(job: &Job<'_>, jobs: &[Job<'_>], written: &committed::Written, blocks: u64) -> u64 {
    let around = written.bytes.saturating_sub(blocks) / jobs.len().max(1) as u64;
    let other = |job: &Job<'_>| written.of_others.get(&job.label.session).copied();
    match other(job) {
        Some(own) => own + around,
        // The one that segments name has the rest.
        None => {
            let others = jobs.iter().filter_map(other).map(|own| own + around);
            written.bytes.saturating_sub(others.sum())
        }
    }
}
