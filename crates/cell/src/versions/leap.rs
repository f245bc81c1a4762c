//! Leaps of the clock: where now, or the newest backups, are dated far later than the rhythm of the backups before explains, the
//! clock may have been set ahead. Until it proved right nothing ends by time.

use capstan_idb::credible;

use crate::Cell;
use crate::error::Result;
use crate::session::{local, now_us, rfc3339};
use crate::versions::clock::is_ahead;

const DAY_US: i64 = 86_400_000_000;
/// A time without backups that is as long as this, or shorter, is none to wonder at: some back up once a month.
const PAUSE_US: i64 = 40 * DAY_US;
/// A longer one neither, up to so many times what was usual before.
const USUAL_TIMES: i64 = 3;
/// Backups over so long a time after a leap prove that it was none, without a longer pause, or one that is not usual.
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
    /// Whether what is dated then is dated after the leap, so that the date is doubted.
    pub(crate) fn doubts(&self, time_us: i64) -> bool {
        is_ahead(time_us, self.from_us)
    }

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
pub(crate) fn leap_in(times: &[i64], right_us: Option<i64>, now_us: i64) -> Option<Leap> {
    let right_us = right_us.filter(|right| !is_ahead(*right, now_us));
    let known = times.iter().copied().enumerate().filter(|(_, at)| !is_ahead(*at, now_us));
    let known: Vec<Begun> = known.map(|(order, at)| Begun { order, at: at.min(now_us) }).collect();
    let mut course = Vec::new();
    // What is dated before somebody confirmed the clock contradicts nothing that is dated after it.
    let is_before = |begun: &&Begun| right_us.is_some_and(|right| begun.at <= right);
    let (before, after): (Vec<&Begun>, Vec<&Begun>) = known.iter().partition(is_before);
    course.extend(agreeing(&before, now_us));
    course.extend(right_us.map(|at| Begun { order: 0, at }));
    course.extend(agreeing(&after, now_us));
    if course.len() == usize::from(right_us.is_some()) {
        return None;
    }
    course.push(Begun { order: usize::MAX, at: now_us });
    let pauses = pauses(&course);
    let doubted = pauses.iter().enumerate().find(|(at, pause)| {
        let to = course[at + 1];
        let is_believed = right_us.is_some_and(|right| to.at <= right);
        pause.is_long && !is_believed && !is_proved(*at, &course, &pauses, &known)
    });
    doubted.map(|(at, _)| Leap { from_us: course[at].at, to_us: course[at + 1].at })
}

/// When a backup was begun, or the clock confirmed.
#[derive(Debug, Clone, Copy)]
struct Begun {
    /// Its place in the order in which backups began.
    order: usize,
    at: i64,
}

/// The time between two backups.
struct Pause {
    /// Whether it is longer than a home of this rhythm explains.
    is_long: bool,
    /// Whether backups go on after it as before, so that they prove the time that passed.
    goes_on: bool,
}

/// Those whose dates do not contradict each other: where a clock was set, most are right.
fn agreeing(begun: &[&Begun], now_us: i64) -> Vec<Begun> {
    let times: Vec<i64> = begun.iter().map(|of| of.at).collect();
    let mut believed = credible(&times, now_us);
    if !believed.contains(&true) {
        // Of clocks that were never set, the highest so far.
        let mut newest = 0;
        believed.clear();
        for at in &times {
            believed.push(*at > 0 && *at >= newest);
            newest = newest.max(*at);
        }
    }
    begun.iter().zip(believed).filter(|(_, believed)| *believed).map(|(of, _)| **of).collect()
}

/// The pauses between each two of these.
fn pauses(course: &[Begun]) -> Vec<Pause> {
    let mut gaps: Vec<i64> = Vec::new();
    let mut pauses: Vec<Pause> = Vec::new();
    let mut any_short = false;
    for pair in course.windows(2) {
        let gap = pair[1].at - pair[0].at;
        // One long pause may be a leap of the clock, and makes no rhythm; two of them do.
        let is_rhythm = any_short || gaps.len() > 1;
        let usual = if is_rhythm && gap > PROOF_US { median(&mut gaps) } else { 0 };
        let most = |floor: i64| floor.max(usual.saturating_mul(USUAL_TIMES));
        let pause = Pause { is_long: gap > most(PAUSE_US), goes_on: gap <= most(PROOF_US) };
        if gap >= NIGHT_US {
            gaps.push(gap);
            any_short |= !pause.is_long;
        }
        pauses.push(pause);
    }
    pauses
}

/// Whether backups prove that a long pause was none of the clock: they went on for long enough after it, and none was dated
/// before its end again. Another leap is no proof.
fn is_proved(at: usize, course: &[Begun], pauses: &[Pause], known: &[Begun]) -> bool {
    let (from, to) = (course[at], course[at + 1]);
    let is_between = |of: &&Begun| !is_ahead(from.at, of.at) && is_ahead(to.at, of.at);
    let contradicted = known.iter().filter(|of| of.order > to.order).filter(is_between);
    let since = contradicted.map(|of| of.order).max().unwrap_or(to.order);
    let mut first = None;
    // Now is no backup.
    for i in at + 1..course.len() - 1 {
        let goes_on = i > at + 1 && pauses[i - 1].goes_on;
        if course[i].order < since {
            continue;
        }
        let begun_us = *first.get_or_insert(course[i].at);
        match goes_on {
            true if course[i].at - begun_us >= PROOF_US => return true,
            true => {}
            false => first = Some(course[i].at),
        }
    }
    false
}

/// The lower one of the two in the middle: a single long one is not usual.
fn median(gaps: &mut [i64]) -> i64 {
    gaps.sort_unstable();
    gaps.get(gaps.len().saturating_sub(1) / 2).copied().unwrap_or(0)
}

impl Cell {
    /// A leap of the clock that is not proved to be none, by the backups of all objects.
    pub(crate) fn leap(&self) -> Result<Option<Leap>> {
        // Also those whose versions are gone: keep rules leave gaps.
        let times = self.idb.backup_times()?;
        let right_us = self.idb.setting(BELIEVED)?.and_then(|us| us.parse().ok());
        Ok(leap_in(&times, right_us, now_us()))
    }

    /// Until when times are believed, by the backups of all objects: what a date holds then is held still.
    pub(crate) fn believed_us(&self) -> Result<i64> {
        Ok(believed_by(self.leap()?))
    }

    /// Records that somebody says that the clock is right. Returns what it says, in microseconds since 1970.
    pub fn believe_clock(&self) -> Result<i64> {
        let now = now_us();
        self.idb.put_setting(BELIEVED, &now.to_string())?;
        Ok(now)
    }
}

/// Until when times are believed, in microseconds since 1970: now, or the last backup before a leap of the clock.
pub(crate) fn believed_by(leap: Option<Leap>) -> i64 {
    leap.map_or_else(now_us, |leap| leap.from_us)
}

/// Until when a lock holds that is not over as far as times are believed.
pub(crate) fn until_text(until_us: i64) -> String {
    let until = local(until_us);
    match is_ahead(until_us, now_us()) {
        true => format!("until {until}"),
        false => format!(
            "until {until}, and the clock, which says that this is past, may have leapt (set it, or, if it is right, say so with \
             `capstan prune --clock-is-right`)"
        ),
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
        let leap = leap_in(&at(days), right, FIRST + now * DAY_US)?;
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
    fn a_leap_is_no_proof_of_another() {
        // Set right after the first leap.
        assert_eq!(found(&[1, 2, 365, 3, 4, 5, 6, 7, 8, 463], None, 463), Some((8, 463)));
        // More backups are of the wrong time than of the right one after it.
        assert_eq!(found(&[1, 2, 365, 366, 367, 3, 463], None, 463), Some((2, 365)));
        // Never set right, and the second leap may be short.
        assert_eq!(found(&[1, 2, 365, 463], None, 463), Some((2, 365)));
        assert_eq!(found(&[1, 365, 463], None, 463), Some((1, 365)));
        assert_eq!(found(&[1, 2, 3, 365, 385], None, 385), Some((3, 365)));
        assert_eq!(found(&[1, 2, 365, 366, 463, 470], None, 470), None, "a week after the second");
        // It proved right, and then somebody set it right: that contradicts it.
        let long: Vec<i64> = [1, 2].into_iter().chain(365..376).chain([3, 4, 5]).collect();
        assert_eq!(found(&long, None, 5), None);
        assert_eq!(found(&[&long[..], &[463]].concat(), None, 463), Some((2, 365)));
        assert_eq!(found(&[&long[..], &[463, 466, 470]].concat(), None, 470), None);
        // Another host's clock is a year behind: who says that this one is right is believed.
        let hosts: Vec<i64> = (0..60).flat_map(|day| [day - 365, day]).collect();
        assert_eq!(found(&hosts, Some(10), 59), None);
        assert_eq!(found(&[1, 2, 365, 3, 4], None, 4), None, "it is right again");
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
        // Once a year: the first one after a year is doubted, and the second; then that is the rhythm.
        assert_eq!(found(&[0, 31], None, 31), None, "once a month");
        assert_eq!(found(&[0, 365], None, 365), Some((0, 365)));
        assert_eq!(found(&[0, 365, 730], None, 730), Some((0, 365)));
        assert_eq!(found(&[0, 365, 730, 1095], None, 1095), None);
        assert_eq!(found(&[0, 365, 730, 1095], None, 1900), None);
        assert_eq!(found(&[0, 40, 80, 120], None, 230), None);
        assert_eq!(found(&[0, 40, 80, 120], None, 250), Some((120, 250)));
        // Several objects in one night are one.
        assert_eq!(found(&[0, 0, 0, 40, 40, 40, 80, 80, 80], None, 190), None);
    }
}
