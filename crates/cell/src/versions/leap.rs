//! Leaps of the clock: where now, or the newest backups, are dated far later than the rhythm of the backups before explains, the
//! clock may have been set ahead. Until it proved right nothing ends by time.

use crate::Cell;
use crate::error::Result;
use crate::session::{now_us, rfc3339};
use crate::versions::clock::is_ahead;

const DAY_US: i64 = 86_400_000_000;
/// A time without backups that is as long as this, or shorter, is none to wonder at: some back up once a month.
const PAUSE_US: i64 = 40 * DAY_US;
/// A longer one neither, up to so many times what was usual before.
const USUAL_TIMES: i64 = 3;
/// Backups over so long a time after a leap prove that it was none.
const PROOF_US: i64 = 7 * DAY_US;
/// Backups within that time are those of one night.
const NIGHT_US: i64 = DAY_US / 2;
/// The setting that has when somebody said that the clock is right.
const BELIEVED: &str = "clock_right_us";

/// A leap of the clock that is not proved to be none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leap {
    /// The newest backup before it, in microseconds since 1970: until then times are believed.
    pub from_us: i64,
    /// The first one after it, or now.
    pub to_us: i64,
}

impl Leap {
    /// What is said of it.
    pub fn text(&self) -> String {
        format!(
            "no backup is of the {} days from {} to {}, and the clock may have been set ahead: rules by time neither count nor remove \
             what is dated later, and no protection or lock ends, until backups were made for {} days since then; set the clock, or, \
             if it is right, say so with `capstan prune --clock-is-right`",
            (self.to_us - self.from_us) / DAY_US,
            rfc3339(self.from_us),
            rfc3339(self.to_us),
            PROOF_US / DAY_US
        )
    }
}

/// The first leap in these times of backups, in their order, up to now, that is not proved to be none. At `right_us`
/// somebody said that the clock is right.
fn leap(mut times: Vec<i64>, right_us: Option<i64>, now_us: i64) -> Option<Leap> {
    let right_us = right_us.filter(|right| !is_ahead(*right, now_us));
    times.retain(|time| *time > 0 && !is_ahead(*time, now_us));
    // One that is dated before what was begun earlier is of a clock that was set back.
    let mut newest = i64::MIN;
    times.retain(|time| {
        newest = newest.max(*time);
        *time == newest
    });
    let last = *times.last()?;
    times.extend(right_us);
    times.push(now_us.max(last));
    times.sort_unstable();
    let mut gaps: Vec<i64> = Vec::new();
    for pair in times.windows(2) {
        let (from_us, to_us) = (pair[0], pair[1]);
        let gap = to_us - from_us;
        let pause = PAUSE_US.max(median(&mut gaps).saturating_mul(USUAL_TIMES));
        let is_proved = last - to_us >= PROOF_US || right_us.is_some_and(|right| to_us <= right);
        if gap > pause && !is_proved {
            return Some(Leap { from_us, to_us });
        }
        if gap >= NIGHT_US {
            gaps.push(gap);
        }
    }
    None
}

fn median(gaps: &mut [i64]) -> i64 {
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied().unwrap_or(0)
}

impl Cell {
    /// A leap of the clock that is not proved to be none, by the backups of all objects.
    pub(crate) fn leap(&self) -> Result<Option<Leap>> {
        // Also those whose versions are gone: keep rules leave gaps.
        let times = self.idb.backup_times()?;
        let right_us = self.idb.setting(BELIEVED)?.and_then(|us| us.parse().ok());
        Ok(leap(times, right_us, now_us()))
    }

    /// Records that somebody says that the clock is right. Returns what it says, in microseconds since 1970.
    pub fn believe_clock(&self) -> Result<i64> {
        let now = now_us();
        self.idb.put_setting(BELIEVED, &now.to_string())?;
        Ok(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2026-11-01.
    const FIRST: i64 = 1_793_534_400_000_000;

    fn at(days: &[i64]) -> Vec<i64> {
        days.iter().map(|day| FIRST + day * DAY_US).collect()
    }

    /// From which day to which the leap goes.
    fn found(days: &[i64], right: Option<i64>, now: i64) -> Option<(i64, i64)> {
        let day = |us: i64| (us - FIRST) / DAY_US;
        let right = right.map(|day| FIRST + day * DAY_US);
        let leap = leap(at(days), right, FIRST + now * DAY_US)?;
        Some((day(leap.from_us), day(leap.to_us)))
    }

    #[test]
    fn a_leap_is_doubted_until_backups_prove_it_none() {
        assert_eq!(found(&[], None, 900), None);
        assert_eq!(found(&[0, 1, 2], None, 2), None);
        assert_eq!(found(&[0, 1, 2], None, 32), None, "four weeks of holiday");
        assert_eq!(found(&[0, 1, 2], None, 402), Some((2, 402)));
        assert_eq!(found(&[0, 1, 2, 402], None, 402), Some((2, 402)));
        assert_eq!(found(&[0, 1, 2, 402, 403, 408], None, 408), Some((2, 402)));
        assert_eq!(found(&[0, 1, 2, 402, 403, 409], None, 409), None, "it is right");
        assert_eq!(found(&[400, 401, 0, 402], None, 402), None, "it was set back for a night");
        // The clock was set right: what is dated after now says nothing.
        assert_eq!(found(&[0, 1, 2, 402, 403], None, 4), None);
    }

    #[test]
    fn who_says_that_the_clock_is_right_is_believed_from_then_on() {
        assert_eq!(found(&[0, 1, 2], Some(402), 402), None);
        assert_eq!(found(&[0, 1, 2, 402], Some(402), 403), None);
        assert_eq!(found(&[0, 1, 2, 403], Some(402), 404), None);
        assert_eq!(found(&[0, 1, 2, 403], Some(402), 804), Some((403, 804)), "it leaps again");
        assert_eq!(found(&[0, 1, 2], Some(1), 402), Some((2, 402)), "that was before");
        assert_eq!(found(&[0, 1, 2, 402], Some(9000), 402), Some((2, 402)), "after now");
    }

    #[test]
    fn what_is_seldom_backed_up_has_a_rhythm_of_its_own() {
        // Once a year: the first one after a year is doubted, the next proves it.
        assert_eq!(found(&[0, 31], None, 31), None, "once a month");
        assert_eq!(found(&[0, 365], None, 365), Some((0, 365)));
        assert_eq!(found(&[0, 365, 730], None, 730), None);
        assert_eq!(found(&[0, 365, 730], None, 1500), None);
        assert_eq!(found(&[0, 40, 80, 120], None, 230), None);
        assert_eq!(found(&[0, 40, 80, 120], None, 250), Some((120, 250)));
        // Several objects in one night are one.
        assert_eq!(found(&[0, 0, 0, 40, 40, 40, 80, 80, 80], None, 190), None);
    }
}
