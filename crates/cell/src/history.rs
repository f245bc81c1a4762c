//! What an object's earlier sessions did, by their reports.

use capstan_format::id::{ObjectId, SessionId};
use capstan_idb::{Session, Status};
use serde::Deserialize;

use crate::Cell;
use crate::error::Result;

/// Sessions of an object that are looked back on.
const LOOKED_BACK: usize = 200;

/// A session that came to an end.
#[derive(Debug, Clone)]
pub(crate) struct Past {
    pub id: SessionId,
    /// `backup`, `restore`, `drill`.
    pub kind: String,
    pub report: PastReport,
}

/// What is read of its report; what an older version did not write is empty.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PastReport {
    pub method: String,
    pub files: u64,
    pub kept: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub elapsed_s: f64,
    pub drill: Option<crate::report::DrillReport>,
}

impl Cell {
    /// The object's latest sessions that completed, with errors or without, newest first.
    pub(crate) fn past(&self, object: ObjectId) -> Result<Vec<Past>> {
        let sessions = self.idb.sessions_of_object(object, None, LOOKED_BACK)?;
        Ok(sessions.iter().filter_map(Past::of).collect())
    }

    /// The same of one kind of session.
    pub(crate) fn past_of(&self, object: ObjectId, kind: &str) -> Result<Vec<Past>> {
        let sessions = self.idb.sessions_of_object(object, Some(kind), LOOKED_BACK)?;
        Ok(sessions.iter().filter_map(Past::of).collect())
    }
}

impl Past {
    fn of(s: &Session) -> Option<Self> {
        let ended = matches!(s.status, Status::Completed | Status::CompletedWithErrors);
        let json = s.report.as_deref().filter(|_| ended)?;
        let report = serde_json::from_str(json).ok()?;
        Some(Self { id: s.id, kind: s.kind.clone(), report })
    }
}
