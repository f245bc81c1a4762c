//! The skeleton of a session: when it began, how it ended, what its report says of itself, and its record.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use capstan_format::id::{ObjectId, SessionId};
use capstan_idb::{Session, Status, Totals};
use capstan_medium::tape::DriveSession;

use crate::Cell;
use crate::error::Result;
use crate::observe::Stop;
use crate::report::Report;
use crate::session::watch::Seen;
use crate::session::{SessionLog, now_us, peak_rss, rfc3339};

/// A session under way.
pub(crate) struct SessionRun<'a> {
    cell: &'a Cell,
    kind: &'static str,
    stop: &'a Stop,
    begun: Instant,
    /// When it began, in microseconds since 1970.
    pub started_us: i64,
    /// Its identity.
    pub id: SessionId,
}

impl<'a> SessionRun<'a> {
    /// A session of that kind begins now. It is not on record yet.
    pub fn begin(cell: &'a Cell, kind: &'static str, stop: &'a Stop) -> Result<Self> {
        let id = SessionId(cell.new_id()?);
        Ok(Self { cell, kind, stop, begun: Instant::now(), started_us: now_us(), id })
    }

    /// Puts on record that it runs, on which device or into which place; of which object; and the session that it reads or goes on
    /// with.
    pub fn record_begin(
        &self,
        place: String,
        object: Option<ObjectId>,
        parent: Option<SessionId>,
    ) -> Result<()> {
        let begun = self.cell.begun(self.id, self.kind, place, self.started_us);
        self.cell.begin_session(&Session { object, parent, ..begun }, None)
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.stop.0.load(Relaxed)
    }

    /// How it ended: `failed` says that it could not go on, `degraded` that it has errors which were not said as such.
    pub fn status(&self, failed: bool, degraded: bool, log: &SessionLog<'_>) -> Status {
        match (failed, self.is_stopped()) {
            (true, _) => Status::Failed,
            (_, true) => Status::Incomplete,
            _ if log.error_count() > 0 || degraded => Status::CompletedWithErrors,
            _ => Status::Completed,
        }
    }

    /// Seconds since it began.
    pub fn elapsed_s(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// What it says of itself when it ends so.
    pub fn report(&self, name: &str, status: Status) -> Report {
        Report {
            session: self.id.to_string(),
            name: name.to_owned(),
            host: self.cell.host().to_owned(),
            method: self.kind.to_owned(),
            status: status.to_string(),
            start: rfc3339(self.started_us),
            end: rfc3339(now_us()),
            elapsed_s: self.elapsed_s(),
            peak_rss_bytes: peak_rss(),
            ..Report::default()
        }
    }

    /// Adds the drives that it read, and sees to those that want to be cleaned.
    pub fn add_drives_read(
        &self,
        report: &mut Report,
        drives: &[DriveSession],
        sees_to_them: bool,
        log: &SessionLog<'_>,
    ) {
        report.set_drives_read(drives);
        if sees_to_them {
            self.cell.clean_drives(drives, report, log);
        }
    }

    /// Puts on record how it ended. Its begin is on record.
    pub fn record_end(&self, status: Status, report: &Report) -> Result<()> {
        self.cell.record_end(self.id, status, report, None)
    }

    /// Puts on record a session that had no begin of its own to record.
    pub fn record_whole(
        &self,
        status: Status,
        object: Option<ObjectId>,
        report: &Report,
    ) -> Result<()> {
        self.record_begin(report.media.join(", "), object, None)?;
        self.record_end(status, report)
    }
}

/// Adds bytes in a second: those in all, and the median while data came.
pub(crate) fn add_rates(report: &mut Report, bytes: u64, seen: Option<&Seen>) {
    report.rate_mb_s = bytes as f64 / 1e6 / report.elapsed_s.max(1e-9);
    report.rate_sustained_mb_s = seen.map_or(0.0, |seen| seen.sustained / 1e6);
}

impl Cell {
    /// Puts on record how a session ended, and its version, if it wrote one.
    pub(crate) fn record_end(
        &self,
        session: SessionId,
        status: Status,
        report: &Report,
        version_status: Option<Status>,
    ) -> Result<()> {
        let totals = Totals {
            files: report.files,
            dirs: report.dirs,
            bytes_read: report.bytes_read,
            bytes_written: report.bytes_written,
        };
        let json = serde_json::to_string(report).unwrap_or_default();
        self.idb.end_session(session, status, now_us(), &totals, &json, version_status)?;
        self.forgive_written()
    }

    /// Puts on record a session that was not on record while it ran, and gives it its identity.
    pub(crate) fn record(
        &self,
        report: &mut Report,
        kind: &str,
        started_us: i64,
        status: Status,
    ) -> Result<()> {
        let id = SessionId(self.new_id()?);
        report.session = id.to_string();
        self.begin_session(&self.begun(id, kind, report.media.join(", "), started_us), None)?;
        self.record_end(id, status, report, None)
    }
}
