//! Backups and runs that were refused: on record until one goes well, and shown by `status`.

use std::path::Path;
use std::time::Duration;

use capstan_idb::{Object, Refusal, Refused};

use crate::Cell;
use crate::error::Result;
use crate::names::{NAME_MAX, bounded};
use crate::session::now_us;

/// A name of which nothing was ever backed up may have been a mistake in writing: it is shown for so long, in microseconds.
const UNKNOWN_US: i64 = 7 * 86_400_000_000;

/// How far a run has come, in its setting: before a time in microseconds since 1970.
const BEGUN: &str = "begun";
const ENDED: &str = "ended";

/// The setting that says how far the last run of a specification has come on this host.
fn run_setting(spec: &str, host: &str) -> String {
    format!("run of {} on {host}", bounded(spec.to_owned(), NAME_MAX))
}

/// What was refused, and what has not gone well since.
#[derive(Debug, Clone)]
pub struct RefusedNow {
    /// What, when and why.
    pub refusal: Refusal,
    /// How long ago.
    pub age: Duration,
}

impl RefusedNow {
    /// `backup of 'home' on ann refused 12 min ago: no such path: /hom; check its spelling`
    pub fn text(&self) -> String {
        let Refusal { kind, name, host, reason, .. } = &self.refusal;
        let age = age_text(self.age);
        match kind {
            Refused::Backup => format!("backup of '{name}' on {host} refused {age} ago: {reason}"),
            Refused::Run => format!("run of {name} on {host} went wrong {age} ago: {reason}"),
            Refused::Prune => {
                format!("prune of '{name}' on {host} left what was given up {age} ago: {reason}")
            }
        }
    }
}

/// An age in a few letters: `12 min`, `26 h`, `8 d`.
pub fn age_text(age: Duration) -> String {
    match age.as_secs() / 60 {
        minutes @ ..120 => format!("{minutes} min"),
        minutes @ ..2880 => format!("{} h", minutes / 60),
        minutes => format!("{} d", minutes / 1440),
    }
}

/// How an object is called: one whose name is not known, by its id.
pub(crate) fn called(object: &Object) -> String {
    if object.name.is_empty() { object.id.to_string() } else { object.name.clone() }
}

impl Cell {
    /// Records that a run of a specification was refused, or that something of it went wrong beside its backups.
    pub fn record_run_refused(&self, spec: &str, code: u8, reason: &str) -> Result<()> {
        self.record_refused(Refused::Run, spec, code, reason)
    }

    /// Records that a run of a specification began its backups.
    pub fn record_run_begun(&self, spec: &str) -> Result<()> {
        Ok(self
            .idb
            .put_setting(&run_setting(spec, self.host()), &format!("{BEGUN} {}", now_us()))?)
    }

    /// Records that a run of a specification came to its end, and has told of it.
    pub fn record_run_ended(&self, spec: &str) -> Result<()> {
        Ok(self
            .idb
            .put_setting(&run_setting(spec, self.host()), &format!("{ENDED} {}", now_us()))?)
    }

    /// Whether the last run of a specification came to its end, and did so at most so long ago.
    pub fn has_run_ended(&self, spec: &str, within: Duration) -> Result<bool> {
        let last = self.idb.setting(&run_setting(spec, self.host()))?.unwrap_or_default();
        let ended_us = last.split_once(' ').filter(|(what, _)| *what == ENDED);
        let ended_us = ended_us.and_then(|(_, us)| us.parse::<i64>().ok());
        let age_us = ended_us.map(|us| now_us().abs_diff(us));
        Ok(age_us.is_some_and(|us| Duration::from_micros(us) <= within))
    }

    /// Records that a run of a specification went well, whatever became of its backups.
    pub fn record_run_well(&self, spec: &str) -> Result<()> {
        Ok(self.idb.end_refusal(Refused::Run, spec, self.host())?)
    }

    pub(crate) fn record_refused(
        &self,
        kind: Refused,
        name: &str,
        code: u8,
        reason: &str,
    ) -> Result<()> {
        let refusal = Refusal {
            kind,
            // Lists and letters show it.
            name: bounded(name.to_owned(), NAME_MAX),
            host: self.host().to_owned(),
            refused_us: now_us(),
            code,
            reason: reason.to_owned(),
        };
        Ok(self.idb.put_refusal(&refusal)?)
    }

    /// What was refused and has not gone well since: runs, and backups of objects.
    pub fn refused_now(&self) -> Result<Vec<RefusedNow>> {
        let now_us = now_us();
        let mut found = Vec::new();
        for refusal in self.idb.refusals()? {
            let stands = match refusal.kind {
                // One that is gone or has another name will not go well any more.
                Refused::Run => {
                    let is_there = refusal.host != self.host() || Path::new(&refusal.name).exists();
                    is_there || now_us - refusal.refused_us < UNKNOWN_US
                }
                Refused::Backup => self.stands(&refusal, now_us)?,
                // Until a prune went well, or the object is gone with all that is known of it.
                Refused::Prune => self.has_versions(&refusal)?,
            };
            if stands {
                let age = u64::try_from(now_us - refusal.refused_us).unwrap_or(0);
                found.push(RefusedNow { refusal, age: Duration::from_micros(age) });
            }
        }
        Ok(found)
    }

    fn has_versions(&self, refusal: &Refusal) -> Result<bool> {
        let is_it = |o: &Object| o.host == refusal.host && called(o) == refusal.name;
        match self.idb.objects()?.iter().find(|o| is_it(o)) {
            Some(object) => Ok(!self.idb.versions_of(object.id)?.is_empty()),
            None => Ok(false),
        }
    }

    /// Whether no backup of the object began since it was refused.
    fn stands(&self, refusal: &Refusal, now_us: i64) -> Result<bool> {
        let objects = self.idb.objects_by_name(&refusal.name)?;
        let Some(object) = objects.into_iter().find(|object| object.host == refusal.host) else {
            return Ok(now_us - refusal.refused_us < UNKNOWN_US);
        };
        let later = self.idb.sessions_of_object(object.id, Some("backup"), 1)?;
        // The refusal itself is on record as a session that began before it was refused.
        Ok(later.first().is_none_or(|session| session.started_us <= refusal.refused_us))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_short() {
        let of = |minutes: u64| age_text(Duration::from_secs(minutes * 60));
        assert_eq!(
            [of(0), of(119), of(120), of(26 * 60), of(2880)],
            ["0 min", "119 min", "2 h", "26 h", "2 d"]
        );
    }
}
