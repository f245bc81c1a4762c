//! What an object's earlier sessions did, by their reports.

use std::collections::HashMap;

use capstan_address::Address;
use capstan_format::id::{ObjectId, SessionId};
use capstan_idb::{Session, Status};
use serde::Deserialize;

use crate::Cell;
use crate::error::Result;
use crate::report::StageReport;

/// Sessions of an object that are looked back on.
const LOOKED_BACK: usize = 200;

/// A session that came to an end.
#[derive(Debug, Clone)]
pub(crate) struct Past {
    pub id: SessionId,
    /// `backup`, `restore`, `drill`.
    pub kind: String,
    /// The kind of its first medium; empty where none is known.
    pub medium: String,
    pub report: PastReport,
}

/// What is read of its report; what an older version did not write is empty.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PastReport {
    pub method: String,
    pub files: u64,
    pub kept: u64,
    pub skipped: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    pub elapsed_s: f64,
    pub tape_wait_s: f64,
    /// Labels.
    pub media: Vec<String>,
    pub drill: Option<crate::report::DrillReport>,
    pub moved: u64,
    /// Nothing in reports of earlier programs, which have `moved` alone.
    pub no_contents: Option<u64>,
    pub selection: Option<Taken>,
    pub stages: Vec<PastStage>,
}

/// What is read of a stage.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PastStage {
    pub name: String,
    pub bytes: u64,
}

impl PastStage {
    pub fn of(stage: &StageReport) -> Self {
        Self { name: stage.name.to_owned(), bytes: stage.bytes }
    }
}

/// What is read of the selection.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Taken {
    pub paths: Option<Vec<String>>,
}

impl Cell {
    /// The object's latest sessions that completed, with errors or without, newest first.
    pub(crate) fn past(&self, object: ObjectId) -> Result<Vec<Past>> {
        self.past_sessions(object, None)
    }

    /// The same of one kind of session.
    pub(crate) fn past_of(&self, object: ObjectId, kind: &str) -> Result<Vec<Past>> {
        self.past_sessions(object, Some(kind))
    }

    fn past_sessions(&self, object: ObjectId, kind: Option<&str>) -> Result<Vec<Past>> {
        let sessions = self.idb.sessions_of_object(object, kind, LOOKED_BACK)?;
        let kinds = self.kinds_of_media()?;
        Ok(sessions.iter().filter_map(|session| Past::of(session, &kinds)).collect())
    }

    /// The kind of each medium that is known, by its label.
    pub(crate) fn kinds_of_media(&self) -> Result<HashMap<String, String>> {
        let media = self.idb.media()?;
        Ok(media.into_iter().map(|m| (m.label, kind_of_medium(&m.device))).collect())
    }
}

impl Past {
    fn of(s: &Session, kinds: &HashMap<String, String>) -> Option<Self> {
        let ended = matches!(s.status, Status::Completed | Status::CompletedWithErrors);
        let json = s.report.as_deref().filter(|_| ended)?;
        let report: PastReport = serde_json::from_str(json).ok()?;
        let medium = report.medium(kinds);
        Some(Self { id: s.id, kind: s.kind.clone(), medium, report })
    }
}

impl PastReport {
    /// Files of which contents were stored.
    pub fn stored_anew(&self) -> u64 {
        let as_before = self.kept.saturating_add(self.no_contents.unwrap_or(self.moved));
        self.files.saturating_sub(as_before)
    }

    /// Whether it is of standard input or a command.
    pub fn is_of_input(&self) -> bool {
        let paths = self.selection.as_ref().and_then(|taken| taken.paths.as_ref());
        paths.is_some_and(Vec::is_empty)
    }

    /// The kind of its first medium.
    pub fn medium(&self, kinds: &HashMap<String, String>) -> String {
        self.media.first().and_then(|label| kinds.get(label)).cloned().unwrap_or_default()
    }
}

/// What is alike in speed: a directory is a `disk`, a tape is of the generation that its barcode ends with, an array is of its
/// scheme and the kind of its members.
fn kind_of_medium(address: &Address) -> String {
    if address.known().is_err() {
        return String::new();
    }
    let scheme = address.scheme();
    let array = if scheme.starts_with("rait") { format!("{scheme} of ") } else { String::new() };
    let Some(tape) = address.tapes().into_iter().next() else { return format!("{array}disk") };
    let barcode = tape.tape.as_deref().unwrap_or_default();
    // Six characters are the volume's own, the two after them say what kind of tape it is.
    let generation = barcode.get(6..8).filter(|_| barcode.len() == 8);
    format!("{array}tape{}", generation.map_or(String::new(), |g| format!(" {g}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn media_are_alike_that_are_of_a_kind() {
        for (device, kind) in [
            ("file:/mnt/backup", "disk"),
            ("/mnt/backup", "disk"),
            ("vtape:/vtl?tape=V00001L9", "tape L9"),
            ("vtape:/vtl", "tape"),
            ("rait5:/a,/b,/c", "rait5 of disk"),
            ("s3://bucket", ""),
        ] {
            assert_eq!(kind_of_medium(&Address::of_record(device.to_owned())), kind, "{device}");
        }
    }
}
