//! How an object stands, by what its last sessions did.

use std::time::Duration;

use capstan_idb::{Session, Status};
use serde::Deserialize;

use crate::queries::status::{Health, LastSession, ObjectStatus};
use crate::report::DrillReport;
use crate::report::{INPUT_SIZE, NO_FILES};
use crate::session::refused::{RefusedNow, age_text};
use crate::session::{now_us, rfc3339};

/// What of a report status asks for.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct OfReport {
    pub anomalies: Vec<serde_json::Value>,
    pub drill: Option<DrillReport>,
}

pub(super) fn of_report(session: &Session) -> OfReport {
    let report = session.report.as_deref().map(serde_json::from_str);
    report.and_then(std::result::Result::ok).unwrap_or_default()
}

/// What is out of line in a session.
pub(super) fn anomaly(session: &Session) -> Option<&'static str> {
    let found = of_report(session).anomalies;
    match found.first()? {
        first if first["what"] == INPUT_SIZE => {
            Some("the input of its last backup gave far less than those before")
        }
        first if first["what"] == NO_FILES => {
            Some("its last backup found no file, and the one before many")
        }
        _ => Some(
            "its last backup is out of line with those before, a sign of encryption by malware",
        ),
    }
}

pub(super) fn last(s: &Session) -> LastSession {
    LastSession {
        id: s.id.to_string(),
        status: s.status,
        started_us: s.started_us,
        drill: of_report(s).drill,
    }
}

/// A version is as old as its begin: what changed since then is not in it.
pub(super) fn age_of(created_us: i64) -> Duration {
    Duration::from_micros(u64::try_from(now_us() - created_us).unwrap_or(0))
}

pub(super) fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
}

impl ObjectStatus {
    /// One of a name by which nothing was ever backed up.
    pub(super) fn never_begun(of: &RefusedNow) -> Self {
        let age = age_text(of.age);
        let why = format!("nothing was backed up; refused {age} ago: {}", of.refusal.reason);
        Self {
            name: of.refusal.name.clone(),
            host: of.refusal.host.clone(),
            health: Health::Warning,
            why: vec![why],
            complete_us: None,
            age: None,
            last_backup: None,
            last_drill: None,
        }
    }

    pub(super) fn judge(
        &mut self,
        max_age: Duration,
        anomaly: Option<&str>,
        refused: Option<&RefusedNow>,
    ) {
        match self.age {
            None => self.say(Health::Critical, "it has no complete version".to_owned()),
            Some(age) if age > max_age => {
                let at = self.complete_us.map(rfc3339).unwrap_or_default();
                let text = format!("its last complete version is of {at}, older than allowed");
                self.say(Health::Critical, text);
            }
            Some(_) => {}
        }
        if let Some(of) = refused {
            let age = age_text(of.age);
            let why = format!("its last backup was refused {age} ago: {}", of.refusal.reason);
            self.say(Health::Warning, why);
        }
        let last = self.last_backup.as_ref().filter(|_| refused.is_none());
        match last.map(|b| (b.status, b.id.clone())) {
            Some((Status::Failed | Status::Incomplete, id)) => {
                self.say(
                    Health::Warning,
                    format!("its last backup, {}, did not complete", short(&id)),
                );
            }
            Some((Status::CompletedWithErrors, id)) => {
                self.say(Health::Warning, format!("its last backup, {}, had errors", short(&id)));
            }
            _ => {}
        }
        if let Some(text) = anomaly {
            self.say(Health::Warning, text.to_owned());
        }
        if let Some(drill) = &self.last_drill {
            let id = short(&drill.id).to_owned();
            let failed = drill.drill.as_ref().map_or(0, |d| d.failed);
            match drill.status {
                _ if failed > 0 => {
                    let text = format!("its last drill, {id}, could not prove {failed} files");
                    self.say(Health::Critical, text);
                }
                Status::Completed | Status::Running => {}
                _ => self.say(
                    Health::Warning,
                    format!("its last drill, {id}, did not complete without errors"),
                ),
            }
        }
    }

    pub(crate) fn say(&mut self, health: Health, why: String) {
        self.health = self.health.max(health);
        self.why.push(why);
    }
}

#[cfg(test)]
mod tests {
    use capstan_address::HostName;

    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn session(status: Status, failed: u64) -> LastSession {
        let drill = Some(DrillReport { failed, ..DrillReport::default() });
        LastSession { id: "0123456789".to_owned(), status, started_us: 0, drill }
    }

    fn judged(
        age: Option<Duration>,
        backup: Status,
        drill: Option<LastSession>,
        is_odd: bool,
    ) -> (Health, usize) {
        let mut status = ObjectStatus {
            name: "t".to_owned(),
            host: HostName::recorded("h"),
            health: Health::Good,
            why: Vec::new(),
            complete_us: None,
            age,
            last_backup: Some(session(backup, 0)),
            last_drill: drill,
        };
        status.judge(2 * HOUR, is_odd.then_some("it is odd"), None);
        (status.health, status.why.len())
    }

    #[test]
    fn silence_and_failed_proof_are_critical_all_else_is_a_warning() {
        use Health::{Critical, Good, Warning};
        use Status as S;
        assert_eq!(judged(Some(HOUR), S::Completed, None, false), (Good, 0));
        assert_eq!(judged(Some(HOUR), S::Running, None, false), (Good, 0));
        assert_eq!(judged(Some(3 * HOUR), S::Completed, None, false), (Critical, 1));
        assert_eq!(judged(None, S::Failed, None, false), (Critical, 2));
        for bad in [S::Failed, S::Incomplete, S::CompletedWithErrors] {
            assert_eq!(judged(Some(HOUR), bad, None, false), (Warning, 1), "{bad}");
        }
        assert_eq!(judged(Some(HOUR), S::Completed, None, true), (Warning, 1));
        let drilled =
            |status, failed| judged(Some(HOUR), S::Completed, Some(session(status, failed)), false);
        assert_eq!(drilled(S::Completed, 0), (Good, 0));
        assert_eq!(drilled(S::CompletedWithErrors, 0), (Warning, 1));
        assert_eq!(drilled(S::CompletedWithErrors, 2), (Critical, 1));
    }
}
