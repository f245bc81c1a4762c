//! The session of a restore, as it is recorded.
use capstan_format::id::SessionId;
use capstan_idb::{Session, Status, Totals, Version};

use crate::Cell;
use crate::error::Result;
use crate::report::Report;
use crate::request::{RestoreRequest, RestoreTo};
use crate::session::{begun, host, now_us, rfc3339};

/// The session of a restore, for the record.
pub(super) struct RunOf<'a> {
    pub cell: &'a Cell,
    pub request: &'a RestoreRequest,
    pub version: &'a Version,
    pub session: SessionId,
    pub from: Option<SessionId>,
    pub started_us: i64,
}

impl RunOf<'_> {
    /// Where it restores to, for people.
    pub fn destination(&self) -> String {
        match &self.request.to {
            RestoreTo::Into(dir) => dir.display().to_string(),
            RestoreTo::InPlace => "/".to_owned(),
            RestoreTo::Tar(_) => "tar".to_owned(),
        }
    }

    pub fn record_begin(&self) -> Result<()> {
        let session = Session {
            object: Some(self.version.object),
            parent: self.from,
            ..begun(self.session, "restore", self.destination(), self.started_us)
        };
        self.cell.begin_session(&session, None)
    }

    pub fn report(&self) -> Report {
        Report {
            session: self.session.to_string(),
            name: self.request.version.name.clone(),
            host: host(),
            method: "restore".to_owned(),
            base_session: self.from.map(|s| s.to_string()),
            start: rfc3339(self.started_us),
            end: rfc3339(now_us()),
            ..Report::default()
        }
    }

    pub fn record_end(&self, status: Status, report: &Report) -> Result<()> {
        let totals = Totals {
            files: report.files,
            dirs: report.dirs,
            bytes_read: report.bytes_read,
            bytes_written: report.bytes_written,
        };
        let json = serde_json::to_string(report).unwrap_or_default();
        Ok(self.cell.idb.end_session(self.session, status, now_us(), &totals, &json, None)?)
    }
}
