//! Clocks that were wrong: which version a time means all the same, and what is said of it. What is newer the order of commits says.

use std::collections::HashMap;

use capstan_engine::message::shell_word;
use capstan_format::id::{ObjectId, VersionId};
use capstan_idb::{Version, credible};

use crate::Cell;
use crate::error::Result;
use crate::session::{now_us, rfc3339};

/// Clocks of hosts differ, and are set right by so much now and then: that is no fault.
const TOLERANCE_US: i64 = 60_000_000;

/// Whether a time is after now.
pub(crate) fn is_ahead(time_us: i64, now_us: i64) -> bool {
    time_us.saturating_sub(TOLERANCE_US) > now_us
}

/// The newest complete version of an object (its versions come newest first) that was begun by a time. Where clocks were wrong, one
/// whose time agrees with those of the others is taken first.
pub(crate) fn newest_by(versions: &[Version], at_us: i64) -> Option<&Version> {
    let complete: Vec<&Version> =
        versions.iter().rev().filter(|v| v.is_complete_by(None) && !v.null_device).collect();
    let times: Vec<i64> = complete.iter().map(|v| v.created_us).collect();
    let believed = credible(&times, now_us());
    let by = |v: &&Version| v.is_complete_by(Some(at_us));
    let mut of_those =
        complete.iter().zip(believed).filter(|(_, believed)| *believed).map(|(v, _)| *v);
    of_those.rfind(by).or_else(|| complete.iter().copied().rfind(by))
}

/// What clocks say of an object's versions that cannot be.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    /// These were begun after now.
    Ahead(Vec<usize>),
    /// The newest was begun before the one that was committed before it.
    Behind,
}

/// The same as a sentence, with the versions that it is of.
pub(crate) struct ClockFault {
    pub versions: Vec<VersionId>,
    pub text: String,
}

/// What clocks say of an object's versions, newest first, that cannot be. Where some are dated after now, the rest follows from it.
fn fault_of(times: &[i64], now_us: i64) -> Option<Fault> {
    let ahead: Vec<usize> =
        times.iter().enumerate().filter(|(_, t)| is_ahead(**t, now_us)).map(|(at, _)| at).collect();
    if !ahead.is_empty() {
        return Some(Fault::Ahead(ahead));
    }
    match times {
        [newest, before, ..] if is_ahead(*before, *newest) => Some(Fault::Behind),
        _ => None,
    }
}

impl Cell {
    /// What clocks say of an object's versions that cannot be, in one sentence.
    pub(crate) fn clock_fault(&self, object: ObjectId) -> Result<Option<ClockFault>> {
        let versions = self.kept_versions(object)?;
        let times: Vec<i64> = versions.iter().map(|v| v.created_us).collect();
        let now = now_us();
        Ok(match fault_of(&times, now) {
            None => None,
            Some(Fault::Ahead(ahead)) => {
                let ahead: Vec<&Version> = ahead.into_iter().map(|at| &versions[at]).collect();
                let text = self.ahead_text(&ahead, now)?;
                Some(ClockFault { versions: ahead.iter().map(|v| v.id).collect(), text })
            }
            Some(Fault::Behind) => {
                let text = format!(
                    "{}, the last one committed, was begun at {}, before {}, which was committed before it ({}): a clock was \
                     wrong at one of them; set the clock, and the next backup ends this",
                    self.called(&versions[0])?,
                    rfc3339(times[0]),
                    self.called(&versions[1])?,
                    rfc3339(times[1])
                );
                Some(ClockFault { versions: vec![versions[0].id], text })
            }
        })
    }

    /// What is said of an object's versions that were begun after now, and what to do about them.
    fn ahead_text(&self, ahead: &[&Version], now: i64) -> Result<String> {
        let [newest, older @ ..] = ahead else { return Ok(String::new()) };
        let called = self.called(newest)?;
        let name = called.rsplit_once('@').map_or(called.as_str(), |(name, _)| name);
        let (at, now, name) = (rfc3339(newest.created_us), rfc3339(now), shell_word(name));
        if older.is_empty() {
            return Ok(format!(
                "{called} was begun at {at}, which is after now ({now}): a clock was ahead then, or is behind now; set the clock if it \
                 is behind; if that date is wrong, `capstan protect {} --none` and `capstan prune {name}` remove this version once a \
                 later one is there",
                shell_word(&called)
            ));
        }
        Ok(format!(
            "{} versions were begun after now ({now}), the newest of them, {called}, at {at}: a clock was ahead then, or is behind \
             now; set the clock if it is behind; if these dates are wrong, `capstan protect NAME@SESSION --none` of each that \
             `capstan versions {name}` shows, and `capstan prune {name}`, remove them once a later one is there",
            ahead.len()
        ))
    }

    /// The same where a backup of the object begins: its own time is held against the last version's.
    pub(crate) fn clock_fault_at(
        &self,
        object: ObjectId,
        started_us: i64,
    ) -> Result<Option<String>> {
        let versions = self.kept_versions(object)?;
        let now = now_us();
        let ahead: Vec<&Version> =
            versions.iter().filter(|v| is_ahead(v.created_us, now)).collect();
        let mut said = Vec::new();
        // Whether the last one came before the one before it is its own affair: what is made now is newer than both.
        if !ahead.is_empty() {
            said.push(self.ahead_text(&ahead, now)?);
        }
        if is_ahead(started_us, now) {
            said.push(format!(
                "this backup counts as begun at {}, after what it goes on with, which is after now ({})",
                rfc3339(started_us),
                rfc3339(now)
            ));
        }
        if let Some(last) = versions.first()
            && is_ahead(last.created_us, started_us)
            && !is_ahead(last.created_us, now)
        {
            said.push(format!(
                "this backup begins at {}, before {}, which was committed before it ({}): a clock is wrong, or was",
                rfc3339(started_us),
                self.called(last)?,
                rfc3339(last.created_us)
            ));
        }
        Ok(Some(said.join("; ")).filter(|text| !text.is_empty()))
    }

    /// When the complete versions of the objects of a name were begun that were begun from one time to before another, in
    /// microseconds since 1970; the latest first.
    pub fn begun_within(&self, name: &str, from_us: i64, to_us: i64) -> Result<Vec<i64>> {
        let mut times = Vec::new();
        for object in self.idb.objects_by_name(name)? {
            let versions = self.kept_versions(object.id)?;
            let complete = versions.iter().filter(|v| v.is_complete_by(None));
            times.extend(complete.map(|v| v.created_us));
        }
        // What began at the very time is meant by it.
        times.retain(|time| (from_us + 1..to_us).contains(time));
        times.sort_unstable_by(|a, b| b.cmp(a));
        Ok(times)
    }

    /// An object's versions that something can be read of, newest first.
    fn kept_versions(&self, object: ObjectId) -> Result<Vec<Version>> {
        let mut versions = self.idb.versions_of(object)?;
        versions.retain(|v| !v.null_device);
        Ok(versions)
    }

    /// Puts versions into the order in which they were committed, the oldest first.
    pub(crate) fn sort_by_commit<T>(
        &self,
        list: &mut [T],
        version: impl Fn(&T) -> &Version,
    ) -> Result<()> {
        let orders: HashMap<VersionId, i64> = self.idb.commit_orders()?;
        list.sort_by_key(|of| {
            let version = version(of);
            (orders.get(&version.id).copied().unwrap_or(0), version.created_us, version.id)
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Fault::{Ahead, Behind};

    const MINUTE: i64 = 60_000_000;

    #[test]
    fn what_cannot_be_is_seen() {
        let found = |minutes: &[i64]| {
            let times: Vec<i64> = minutes.iter().map(|m| m * MINUTE).collect();
            fault_of(&times, 100 * MINUTE)
        };
        assert_eq!(found(&[]), None);
        assert_eq!(found(&[100, 90, 80]), None);
        assert_eq!(found(&[500, 90]), Some(Ahead(vec![0])));
        assert_eq!(found(&[98, 500, 90]), Some(Ahead(vec![1])));
        assert_eq!(found(&[99, 98, 500, 97, 400]), Some(Ahead(vec![2, 4])));
        // The clock was set back, and is right again.
        assert_eq!(found(&[5, 90]), Some(Behind));
        assert_eq!(found(&[99, 5, 90]), None);
        // A clock that is set right by a little.
        assert_eq!(found(&[101, 100]), None);
        assert_eq!(found(&[99, 100]), None);
    }
}
