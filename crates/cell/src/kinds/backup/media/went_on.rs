//! Sessions of which one goes on with what the other could not end, as its medium was full or failed: what is on record of both, and their
//! report, which is one.

use capstan_engine::message::Code;
use capstan_format::id::{MediumId, SessionId, VersionId};
use capstan_format::record::Follows;
use capstan_idb::Status;
use capstan_medium::host::DeviceHost;
use serde_json::{Map, Value};

use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::observe::Observer;
use crate::report::{NOTHING_COMMITTED, Report};
use crate::session::SessionLog;

impl Cell {
    /// The medium that has the last segment of a version that is gone on with, where it is none of those that are written now.
    pub(in crate::kinds::backup) fn left_behind(
        &self,
        version: VersionId,
        now: &[MediumId],
    ) -> Result<Option<Follows>> {
        let segments = self.idb.segments_of_version(version)?;
        let places = || segments.iter().map(|(segment, _)| segment);
        let Some(last) = places().max_by_key(|s| s.committed_us) else { return Ok(None) };
        if places().any(|s| s.id == last.id && now.contains(&s.medium)) {
            return Ok(None);
        }
        let medium = self.idb.medium(last.medium)?;
        Ok(medium.map(|medium| Follows { medium: medium.id, label: medium.label }))
    }

    /// Says of a session whose medium took no more, and of the one that came after it, which the other is: the first stays on
    /// record, as incomplete where its medium was full, else as failed, though nothing is missing.
    pub(crate) fn record_went_on(&self, earlier: &Report, now: &mut Report) -> Result<()> {
        let goes_on = now.base_session.as_ref() == Some(&earlier.session);
        let was = match earlier.device_full {
            true => "was full",
            false if earlier.device_lost => "could not be reached",
            false => "failed",
        };
        let on = if earlier.device_lost { "" } else { " on another medium" };
        let nothing = earlier.notes.iter().any(|note| note == NOTHING_COMMITTED);
        let yet = if nothing { " before anything was committed" } else { "" };
        let (of, by) = (&earlier.session, &now.session);
        let (before, after) = match goes_on {
            true => (
                format!("session {by} goes on with this one{on}"),
                format!("it goes on with session {of}, whose medium {was}"),
            ),
            false => (
                format!(
                    "session {by} was begun instead of this one{}",
                    if on.is_empty() { "" } else { ", on another medium" }
                ),
                format!("it was begun instead of session {of}, whose medium {was}{yet}"),
            ),
        };
        self.add_note(of, before)?;
        // That a medium is full is no failure.
        if earlier.device_full
            && let Ok(id) = of.parse()
        {
            self.idb.set_incomplete(id)?;
        }
        self.add_note(by, after.clone())?;
        now.notes.push(after);
        Ok(())
    }

    /// One report of a session whose medium took no more, and of the one that came after it.
    pub(super) fn went_on(&self, earlier: Report, mut now: Report) -> Result<Report> {
        let own = now.status.clone();
        let is_one = self.forget_unwritten(&earlier)?;
        if !is_one {
            self.record_went_on(&earlier, &mut now)?;
        }
        let now = joined(Some(earlier), now);
        if is_one && let Ok(id) = now.session.parse() {
            let json = serde_json::to_string(&now).unwrap_or_default();
            self.idb.set_session_report(id, &json)?;
        }
        if now.status != own {
            self.record_errors(&now)?;
        }
        Ok(now)
    }

    /// Forgets a session whose medium was full before anything was committed, as another one was begun in its place: it is one backup.
    fn forget_unwritten(&self, earlier: &Report) -> Result<bool> {
        let nothing = earlier.notes.iter().any(|note| note == NOTHING_COMMITTED);
        match earlier.session.parse() {
            Ok(id) if earlier.device_full && nothing => Ok(self.idb.drop_unwritten(id)?),
            _ => Ok(false),
        }
    }

    /// Puts on record what a backup's report says of the sessions before the last one: who asks later is told the same.
    fn record_errors(&self, all: &Report) -> Result<()> {
        let Some((id, mut report)) = self.recorded_report(&all.session)? else { return Ok(()) };
        report.insert("status".to_owned(), all.status.clone().into());
        report.insert("error_count".to_owned(), all.error_count.into());
        let errors = serde_json::to_value(&all.errors).unwrap_or_default();
        report.insert("errors".to_owned(), errors);
        Ok(self.idb.set_session_with_errors(id, &Value::Object(report).to_string())?)
    }

    /// The report of a session that ended, as it is on record.
    fn recorded_report(&self, session: &str) -> Result<Option<(SessionId, Map<String, Value>)>> {
        let Ok(id) = session.parse() else { return Ok(None) };
        let recorded = self.idb.session(id)?.and_then(|s| s.report);
        let report = recorded.and_then(|json| serde_json::from_str(&json).ok());
        Ok(match report {
            Some(Value::Object(report)) => Some((id, report)),
            _ => None,
        })
    }

    /// Adds a note to the recorded report of a session that ended.
    fn add_note(&self, session: &str, note: String) -> Result<()> {
        let Some((id, mut report)) = self.recorded_report(session)? else { return Ok(()) };
        if let Value::Array(notes) =
            report.entry("notes").or_insert_with(|| Vec::<Value>::new().into())
        {
            notes.push(note.into());
        }
        Ok(self.idb.set_session_report(id, &Value::Object(report).to_string())?)
    }
}

/// A report of all sessions that one backup took: what was read for nothing is read again, and counts once.
pub(crate) fn joined(earlier: Option<Report>, mut report: Report) -> Report {
    if let Some(earlier) = earlier {
        let mut media = earlier.media;
        media.retain(|label| !report.media.contains(label));
        media.append(&mut report.media);
        report.media = media;
        report.drives.splice(0..0, earlier.drives);
        let notes = earlier.notes.into_iter().filter(|note| note != NOTHING_COMMITTED);
        report.notes.splice(0..0, notes.collect::<Vec<_>>());
        // A mirror that was left lacks what was written without it, and a drive that failed is failed.
        let mirrors = [Code::MirrorFailed, Code::MirrorBehind].map(Code::name);
        let drives = [Code::DriveFailed, Code::DriveSuspect].map(Code::name);
        let is_kept = |code: &str| mirrors.contains(&code) || drives.contains(&code);
        let errors: Vec<_> = earlier.errors.into_iter().filter(|e| is_kept(e.code)).collect();
        let lost = errors.iter().filter(|e| mirrors.contains(&e.code)).count();
        report.errors.splice(0..0, errors);
        if lost > 0 {
            report.error_count += lost as u64;
            if report.status == Status::Completed.to_string() {
                report.status = Status::CompletedWithErrors.to_string();
            }
        }
        report.faults.splice(0..0, earlier.faults);
        report.start = earlier.start;
        report.bytes_written = report.bytes_written.saturating_add(earlier.bytes_written);
        report.elapsed_s += earlier.elapsed_s;
        report.tape_wait_s += earlier.tape_wait_s;
    }
    report
}

/// A report, and what happened after it.
pub(super) fn with_error(
    devices: &dyn DeviceHost,
    mut report: Report,
    code: Code,
    why: &CellError,
    observer: &dyn Observer,
) -> Report {
    let log = SessionLog::new(observer);
    log.say(code, "cell", &report.name, chain(why));
    let (count, mut errors) = (report.error_count, std::mem::take(&mut report.errors));
    log.fill(devices, &mut report);
    report.error_count += count;
    errors.append(&mut report.errors);
    report.errors = errors;
    report
}
