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

/// A version of which a clock says what cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fault {
    /// It was begun after now.
    Ahead(usize),
    /// The newest was begun before the one that was committed before it.
    Behind,
}

/// What clocks say of an object's versions, newest first, that cannot be.
fn faults_of(times: &[i64], now_us: i64) -> Vec<Fault> {
    let ahead = times.iter().enumerate().filter(|(_, time)| is_ahead(**time, now_us));
    let mut faults: Vec<Fault> = ahead.map(|(at, _)| Fault::Ahead(at)).collect();
    if let [newest, before, ..] = times
        && is_ahead(*before, *newest)
    {
        faults.push(Fault::Behind);
    }
    faults
}

impl Cell {
    /// What clocks say of an object's versions that cannot be, one sentence each, with the version that it is said of.
    pub(crate) fn clock_faults(&self, object: ObjectId) -> Result<Vec<(VersionId, String)>> {
        self.faults_that(object, |_| true)
    }

    fn faults_that(
        &self,
        object: ObjectId,
        is_asked: impl Fn(&Fault) -> bool,
    ) -> Result<Vec<(VersionId, String)>> {
        let versions = self.kept_versions(object)?;
        let times: Vec<i64> = versions.iter().map(|v| v.created_us).collect();
        let now = now_us();
        let mut said = Vec::new();
        for fault in faults_of(&times, now).into_iter().filter(is_asked) {
            said.push(match fault {
                Fault::Ahead(at) => (
                    versions[at].id,
                    format!(
                        "{} was begun at {}, which is after now ({}): a clock was ahead then, or is behind now; {}",
                        self.called(&versions[at])?,
                        rfc3339(times[at]),
                        rfc3339(now),
                        self.way_out_of_date(&versions[at])?
                    ),
                ),
                Fault::Behind => (
                    versions[0].id,
                    format!(
                        "{}, the last one committed, was begun at {}, before {}, which was committed before it ({}): a clock was \
                         wrong at one of them; set the clock, and the next backup ends this",
                        self.called(&versions[0])?,
                        rfc3339(times[0]),
                        self.called(&versions[1])?,
                        rfc3339(times[1])
                    ),
                ),
            });
        }
        Ok(said)
    }

    /// What to do about a version that is dated after now.
    fn way_out_of_date(&self, version: &Version) -> Result<String> {
        let called = self.called(version)?;
        let name = called.rsplit_once('@').map_or(called.as_str(), |(name, _)| name);
        Ok(format!(
            "set the clock if it is behind; if that date is wrong, `capstan protect {} --none` and `capstan prune {}` remove this version \
             once a later one is there",
            shell_word(&called),
            shell_word(name)
        ))
    }

    /// The same where a backup of the object begins: its own time is held against the last version's.
    pub(crate) fn clock_faults_at(&self, object: ObjectId, started_us: i64) -> Result<Vec<String>> {
        // Whether the last one came before the one before it is its own affair: what is made now is newer than both.
        let faults = self.faults_that(object, |fault| *fault != Fault::Behind)?;
        let mut said: Vec<String> = faults.into_iter().map(|(_, text)| text).collect();
        let now = now_us();
        if is_ahead(started_us, now) {
            said.push(format!(
                "this backup counts as begun at {}, after what it goes on with, which is after now ({})",
                rfc3339(started_us),
                rfc3339(now)
            ));
        }
        if let Some(last) = self.kept_versions(object)?.first()
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
        Ok(said)
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
            faults_of(&times, 100 * MINUTE)
        };
        assert_eq!(found(&[]), []);
        assert_eq!(found(&[100, 90, 80]), []);
        assert_eq!(found(&[500, 90]), [Ahead(0)]);
        assert_eq!(found(&[98, 500, 90]), [Ahead(1), Behind]);
        assert_eq!(found(&[99, 98, 500]), [Ahead(2)]);
        // The clock was set back, and is right again.
        assert_eq!(found(&[5, 90]), [Behind]);
        assert_eq!(found(&[99, 5, 90]), []);
        // A clock that is set right by a little.
        assert_eq!(found(&[101, 100]), []);
        assert_eq!(found(&[99, 100]), []);
    }
}
