//! Tapes in poor condition: found by sessions, and retired when these are done.

use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::message::Code;
use capstan_format::id::SessionId;
use capstan_idb::{Medium, Status};
use serde::Deserialize;

use super::retire::{RETIRE, RetireRequest};
use crate::Cell;
use crate::error::{Result, StageRefusal, chain};
use crate::media::{Condition, ways_out_of_poor};
use crate::observe::{Observer, Stop};
use crate::report::{Report, Retired};
use crate::session::{SessionLog, now_us};

/// A tape whose copy failed is left alone by sessions for so long: each try reads all of it.
const RETRY_US: i64 = 24 * 3_600_000_000;
/// Sessions that are looked through for such a try.
const LOOKED_BACK: usize = 500;

/// A medium in poor condition.
#[derive(Debug, Clone)]
pub struct PoorMedium {
    /// The medium.
    pub medium: Medium,
    /// Why.
    pub reasons: Vec<String>,
    /// What can be done about it.
    pub ways_out: String,
}

impl Cell {
    /// The media in poor condition that are in use still.
    pub fn poor_media(&self) -> Result<Vec<PoorMedium>> {
        let mut poor = Vec::new();
        for medium in self.idb.media()? {
            let management = self.idb.management(medium.id)?;
            if management.retired_us.is_some() || management.exported_us.is_some() {
                continue;
            }
            let (condition, reasons) = self.condition_of(&medium, &management)?;
            if condition == Condition::Poor {
                let ways_out = ways_out_of_poor(&medium, management.errors);
                poor.push(PoorMedium { medium, reasons, ways_out });
            }
        }
        Ok(poor)
    }

    /// Retires the tapes in poor condition when a session that wrote to tapes is done, and says in its report what came of it. What
    /// goes wrong is a warning: the session's data are on their media.
    pub(crate) fn retire_poor_tapes(
        &self,
        report: &mut Report,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Vec<Retired> {
        let mut retired = Vec::new();
        if report.drives.is_empty() || stop.0.load(Relaxed) {
            return retired;
        }
        let log = SessionLog::new(observer);
        let poor = self.poor_media().unwrap_or_else(|e| {
            log.say(Code::TapePoor, "cell", &report.name, chain(&e));
            Vec::new()
        });
        for PoorMedium { medium, reasons, .. } in poor {
            if self.tape_of(medium.id).is_none() {
                continue;
            }
            let label = &medium.label;
            let why = reasons.join(", ");
            match self.retire_poor(&medium, observer, stop) {
                Ok(done) => {
                    let ids: String = done.session.chars().take(8).collect();
                    let to = match done.media.is_empty() {
                        true => "nothing on it must stay".to_owned(),
                        false => {
                            format!("what must stay on it is on '{}' too", done.media.join("', '"))
                        }
                    };
                    report.notes.push(format!(
                        "tape '{label}' is poor ({why}): {to}, and it is retired (session {ids})"
                    ));
                    retired.push(Retired { label: label.clone(), copies: done.media });
                }
                Err(e) => {
                    let text = format!("it is poor ({why}), and was not retired: {}", chain(&e));
                    log.say(Code::TapePoor, "cell", label, text);
                }
            }
        }
        let mut said = Report::default();
        log.fill(&*self.devices, &mut said);
        report.errors.append(&mut said.errors);
        report.faults.append(&mut said.faults);
        retired
    }

    fn retire_poor(&self, medium: &Medium, observer: &dyn Observer, stop: &Stop) -> Result<Report> {
        if self.tape_of(medium.id).is_none_or(|tape| tape.tape.is_none()) {
            return Err(StageRefusal::NoRobot.into());
        }
        if let Some(session) = self.failed_lately(&medium.label)? {
            return Err(StageRefusal::TriedLately(session).into());
        }
        let request = RetireRequest { medium: medium.id.to_string(), ..RetireRequest::default() };
        let done = self.media_retire(&request, observer, stop)?;
        // The session's drives are free for others.
        self.devices.release_idle();
        match self.idb.management(medium.id)?.retired_us {
            Some(_) => Ok(done),
            None => Err(StageRefusal::NotRetired {
                session: done.session.get(..8).unwrap_or(&done.session).to_owned(),
                status: done.status.replace('_', " "),
            }
            .into()),
        }
    }

    /// The last session that tried to retire a medium today, if it failed.
    fn failed_lately(&self, label: &str) -> Result<Option<SessionId>> {
        #[derive(Deserialize)]
        struct Named {
            name: String,
        }
        let since_us = now_us().saturating_sub(RETRY_US);
        let sessions = self.idb.sessions(LOOKED_BACK)?;
        let failed = sessions.iter().find(|s| {
            let report = s.report.as_deref().and_then(|r| serde_json::from_str::<Named>(r).ok());
            s.kind == RETIRE
                && s.started_us > since_us
                && matches!(s.status, Status::Failed | Status::CompletedWithErrors)
                && report.is_some_and(|report| report.name == label)
        });
        Ok(failed.map(|s| s.id))
    }
}
