//! Keep rules, as users of other backup programs know them.
//!
//! Each rule looks at an object's versions from the newest on. A rule for days keeps the newest version of each of the last
//! N days that have one; hours, weeks (from Monday), months and years likewise. Where there are fewer than N, the oldest
//! version is kept too. A version stays if any rule keeps it.

use capstan_idb::credible;
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

use crate::versions::clock::is_ahead;

/// How many a rule keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// That many.
    Last(u32),
    /// All of them.
    Unlimited,
}

/// Which versions of each object are kept. Without any rule nothing is said.
#[derive(Debug, Clone, Default)]
pub struct KeepRules {
    /// The last versions.
    pub last: Option<Count>,
    /// One of each hour.
    pub hourly: Option<Count>,
    /// One of each day.
    pub daily: Option<Count>,
    /// One of each week.
    pub weekly: Option<Count>,
    /// One of each month.
    pub monthly: Option<Count>,
    /// One of each year.
    pub yearly: Option<Count>,
    /// All that are at most so much older than the newest.
    pub within: Option<Span>,
    /// Those that have all tags of one of these lists.
    pub tags: Vec<Vec<String>>,
}

/// A version, as rules see it.
#[derive(Debug, Clone)]
pub(crate) struct Seen<'a> {
    pub created_us: i64,
    pub tags: &'a [String],
}

/// Until when dates are believed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now {
    pub us: i64,
    /// Whether that is earlier than now by the clock, which may have leapt.
    pub has_leapt: bool,
}

impl Now {
    fn why_ahead(self) -> &'static str {
        match self.has_leapt {
            true => "its date is doubted, as the clock may have leapt",
            false => "it is dated after now",
        }
    }
}

type Period = fn(&Zoned) -> (i64, i64);

impl KeepRules {
    /// Whether there is no rule at all.
    pub fn is_empty(&self) -> bool {
        self.counts().iter().all(|(_, count, _)| count.is_none())
            && self.within.is_none()
            && self.tags.is_empty()
    }

    /// Whether any rule goes by time.
    pub(crate) fn go_by_time(&self) -> bool {
        let counts = self.counts().into_iter();
        self.within.is_some()
            || counts.filter(|(.., period)| period.is_some()).any(|(_, count, _)| count.is_some())
    }

    fn counts(&self) -> [(&'static str, Option<Count>, Option<Period>); 6] {
        let day: Period = |t| (day_number(t), 0);
        let hour: Period = |t| (day_number(t), t.hour().into());
        let week: Period = |t| {
            let week = t.date().iso_week_date();
            (week.year().into(), week.week().into())
        };
        let month: Period = |t| (t.year().into(), t.month().into());
        let year: Period = |t| (t.year().into(), 0);
        [
            ("last", self.last, None),
            ("hourly", self.hourly, Some(hour)),
            ("daily", self.daily, Some(day)),
            ("weekly", self.weekly, Some(week)),
            ("monthly", self.monthly, Some(month)),
            ("yearly", self.yearly, Some(year)),
        ]
    }

    /// Why each of these versions, newest first, is kept: by no rule where nothing is said. What is newer the order says, not
    /// the clock. Rules that go by time neither count nor give up a version that is dated after now, or later than is believed.
    /// Nor do they count one whose date contradicts those of the others: it stays as long as the one before it does.
    pub(crate) fn apply(
        &self,
        versions: &[Seen<'_>],
        here: &TimeZone,
        now: Now,
    ) -> Vec<Vec<String>> {
        let times: Vec<Zoned> = versions.iter().map(|v| zoned(v.created_us, here)).collect();
        let ages = ages(versions, now.us);
        let dated: Vec<usize> = (0..versions.len()).filter(|i| ages[*i] == Age::Dated).collect();
        let all: Vec<usize> = (0..versions.len()).collect();
        let mut why = vec![Vec::new(); versions.len()];
        let mut by_time = vec![false; versions.len()];
        for (name, count, period) in self.counts() {
            let Some(count) = count else { continue };
            let of = if period.is_some() { &dated } else { &all };
            let times: Vec<&Zoned> = of.iter().map(|i| &times[*i]).collect();
            for index in chosen(&times, count, period) {
                why[of[index]].push(name.to_owned());
                by_time[of[index]] |= period.is_some();
            }
        }
        for i in self.within(&ages, versions, here) {
            why[i].push("within".to_owned());
            by_time[i] = true;
        }
        if self.go_by_time() {
            for (i, age) in ages.iter().enumerate() {
                match age {
                    Age::Dated => {}
                    Age::Ahead => why[i].push(now.why_ahead().to_owned()),
                    Age::Wrong { with } if by_time[*with] => {
                        why[i].push("its date is wrong, and the one before it is kept".to_owned());
                    }
                    Age::Wrong { .. } => {}
                }
            }
        }
        for (version, why) in versions.iter().zip(&mut why) {
            let has = |list: &&Vec<String>| list.iter().all(|tag| version.tags.contains(tag));
            if let Some(list) = self.tags.iter().find(has) {
                why.push(format!("tag {}", list.join(",")));
            }
        }
        why
    }

    /// Those of these versions, which come newest first, that are at most so much older than the newest. One whose date is wrong
    /// is as old as the next one after it at least, or as old as it says.
    fn within(&self, ages: &[Age], versions: &[Seen<'_>], here: &TimeZone) -> Vec<usize> {
        let newest = ages.iter().position(|age| *age == Age::Dated);
        let (Some(within), Some(newest)) = (self.within, newest) else { return Vec::new() };
        // Beyond the calendar is before all versions.
        let since = zoned(versions[newest].created_us, here).checked_sub(within);
        let since = since.map_or(i64::MIN, |t| t.timestamp().as_microsecond());
        let mut is_next_within = false;
        let mut found = Vec::new();
        for (i, (age, version)) in ages.iter().zip(versions).enumerate() {
            let is_within = version.created_us > since;
            if *age == Age::Dated {
                is_next_within = is_within;
            }
            if *age != Age::Ahead && (is_within || is_next_within) {
                found.push(i);
            }
        }
        found
    }
}

/// What a version's date is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    /// It agrees with those of the others.
    Dated,
    /// It is after now, or later than is believed.
    Ahead,
    /// It contradicts the others: a clock was ahead or set back. `with` is the version before it whose date agrees, or the one after it.
    Wrong { with: usize },
}

/// What the dates of these versions, newest first, are worth.
fn ages(versions: &[Seen<'_>], now_us: i64) -> Vec<Age> {
    let mut ages = vec![Age::Dated; versions.len()];
    let mut oldest_first: Vec<usize> = Vec::with_capacity(versions.len());
    for (i, version) in versions.iter().enumerate().rev() {
        match is_ahead(version.created_us, now_us) {
            true => ages[i] = Age::Ahead,
            false => oldest_first.push(i),
        }
    }
    let times: Vec<i64> =
        oldest_first.iter().map(|i| versions[*i].created_us.min(now_us)).collect();
    let believed = credible(&times, now_us);
    // Where no clock was ever set, there is nothing better to go by.
    let Some(first) = believed.iter().position(|believed| *believed) else { return ages };
    let mut with = oldest_first[first];
    for (i, believed) in oldest_first.into_iter().zip(believed) {
        match believed {
            true => with = i,
            false => ages[i] = Age::Wrong { with },
        }
    }
    ages
}

/// The versions that one rule keeps.
fn chosen(times: &[&Zoned], count: Count, period: Option<Period>) -> Vec<usize> {
    let mut left = match count {
        Count::Last(n) => n as usize,
        Count::Unlimited => usize::MAX,
    };
    let mut chosen = Vec::new();
    let mut before = None;
    for (index, time) in times.iter().enumerate() {
        let this = period.map(|period| period(time));
        let is_new = this.is_none() || this != before;
        let is_oldest = index + 1 == times.len();
        if left > 0 && (is_new || is_oldest) {
            chosen.push(index);
            left = left.saturating_sub(1);
            before = this;
        }
    }
    chosen
}

fn day_number(time: &Zoned) -> i64 {
    i64::from(time.year()) * 1000 + i64::from(time.day_of_year())
}

fn zoned(us: i64, here: &TimeZone) -> Zoned {
    // What is beyond the calendar is at its end.
    let end = if us < 0 { Timestamp::MIN } else { Timestamp::MAX };
    Timestamp::from_microsecond(us).unwrap_or(end).to_zoned(here.clone())
}

#[cfg(test)]
mod leaps;

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000;
    /// Sunday 2026-11-01, noon, UTC.
    const NOON: i64 = 1_793_534_400_000_000;
    const NOW: Now = Now { us: NOON, has_leapt: false };

    /// The indices that rules keep of versions, newest first.
    fn kept(rules: &KeepRules, times: &[i64]) -> Vec<usize> {
        let seen: Vec<_> = times.iter().map(|t| Seen { created_us: *t, tags: &[] }).collect();
        let why = rules.apply(&seen, &TimeZone::UTC, NOW);
        why.iter().enumerate().filter(|(_, why)| !why.is_empty()).map(|(i, _)| i).collect()
    }

    fn daily(days: i64) -> Vec<i64> {
        (0..days).map(|n| NOON - n * DAY).collect()
    }

    #[test]
    fn noon_is_a_sunday() {
        let time = zoned(NOON, &TimeZone::UTC);
        assert_eq!(time.strftime("%F %T %A").to_string(), "2026-11-01 12:00:00 Sunday");
    }

    #[test]
    fn days_weeks_months_years() {
        let rules = |text: &str| {
            let mut rules = KeepRules::default();
            for rule in text.split(' ') {
                let (what, n) = rule.split_at(1);
                let n = Some(Count::Last(n.parse().unwrap()));
                match what {
                    "l" => rules.last = n,
                    "h" => rules.hourly = n,
                    "d" => rules.daily = n,
                    "w" => rules.weekly = n,
                    "m" => rules.monthly = n,
                    _ => rules.yearly = n,
                }
            }
            rules
        };
        let times = daily(800);
        assert_eq!(kept(&rules("l3"), &times), [0, 1, 2]);
        assert_eq!(kept(&rules("h2"), &times), [0, 1]);
        assert_eq!(kept(&rules("d4"), &times), [0, 1, 2, 3]);
        // Today is a Sunday: the last days of three weeks.
        assert_eq!(kept(&rules("w3"), &times), [0, 7, 14]);
        // 1 November, 31 October, 30 September.
        assert_eq!(kept(&rules("m3"), &times), [0, 1, 32]);
        assert_eq!(kept(&rules("y2"), &times), [0, 305]);
        assert_eq!(kept(&rules("d7 w2"), &times), [0, 1, 2, 3, 4, 5, 6, 7]);
        // There are not nine years: the oldest is kept in their place.
        assert_eq!(kept(&rules("y9"), &times), [0, 305, 670, 799]);
        assert_eq!(kept(&rules("d1"), &[]), [0; 0]);
    }

    #[test]
    fn of_one_day_the_newest_is_kept() {
        let hour = DAY / 24;
        let times: Vec<_> = (0..48).map(|n| NOON - n * hour).collect();
        let rules = KeepRules { daily: Some(Count::Last(2)), ..KeepRules::default() };
        // 12:00 today, 23:00 yesterday.
        assert_eq!(kept(&rules, &times), [0, 13]);
        // A day ends where its people are.
        let seen: Vec<_> = times.iter().map(|t| Seen { created_us: *t, tags: &[] }).collect();
        let why = rules.apply(&seen, &TimeZone::fixed(jiff::tz::offset(5)), NOW);
        assert_eq!(why.iter().position(|w| !w.is_empty()), Some(0));
        assert!(!why[18].is_empty() && why[13].is_empty(), "{why:?}");
    }

    #[test]
    fn within_counts_from_the_newest() {
        let rules = |span| KeepRules { within: Some(span), ..KeepRules::default() };
        assert_eq!(kept(&rules(Span::new().days(3)), &daily(9)), [0, 1, 2]);
        assert_eq!(kept(&rules(Span::new().months(1)), &daily(40)).len(), 31);
        assert_eq!(kept(&rules(Span::new().hours(1)), &daily(3)), [0]);
        assert_eq!(kept(&rules(Span::new().years(19_000)), &daily(9)).len(), 9);
    }

    #[test]
    fn what_is_dated_after_now_is_neither_counted_nor_given_up_by_time() {
        let ahead = NOON + 3650 * DAY;
        let times = [NOON, ahead, NOON - DAY, NOON - 2 * DAY, NOON - 3 * DAY];
        let daily = KeepRules { daily: Some(Count::Last(2)), ..KeepRules::default() };
        assert_eq!(kept(&daily, &times), [0, 1, 2]);
        let last = KeepRules { last: Some(Count::Last(2)), ..KeepRules::default() };
        assert_eq!(kept(&last, &times), [0, 1], "it is the last but one");
        let within = KeepRules { within: Some(Span::new().days(2)), ..KeepRules::default() };
        assert_eq!(kept(&within, &times), [0, 1, 2]);
        let alone = [ahead];
        assert_eq!((kept(&daily, &alone), kept(&within, &alone)), (vec![0], vec![0]));
    }

    #[test]
    fn a_clock_set_back_makes_nothing_older_than_what_was_before() {
        let times = [NOON, NOON - 9000 * DAY, NOON - DAY, NOON - 2 * DAY];
        let within = KeepRules { within: Some(Span::new().hours(36)), ..KeepRules::default() };
        assert_eq!(kept(&within, &times), [0, 1, 2]);
        let back = [NOON - 9000 * DAY, NOON, NOON - DAY];
        assert_eq!(kept(&within, &back), [0, 1, 2]);
        let alone = [NOON - 9000 * DAY; 3];
        assert_eq!(kept(&within, &alone), [0, 1, 2]);
        let last = KeepRules { last: Some(Count::Last(1)), ..KeepRules::default() };
        assert_eq!(kept(&last, &back), [0]);
    }

    /// A version whose clock was wrong costs no other one its place, and goes when its neighbour goes.
    #[test]
    fn a_wrong_date_takes_no_place_in_any_period() {
        let of = |daily, monthly, yearly| KeepRules {
            daily: Some(Count::Last(daily)),
            monthly: Some(Count::Last(monthly)),
            yearly: Some(Count::Last(yearly)),
            ..KeepRules::default()
        };
        let right: Vec<i64> =
            [0, 1, 2, 31, 61, 330, 365, 700].iter().map(|day| NOON - day * DAY).collect();
        let rules = of(2, 3, 3);
        let before = kept(&rules, &right);
        // One night the clock had its zero, or was ahead by a time that is over by now, or was behind.
        for wrong in [DAY, NOON - 10 * DAY, NOON - 400 * DAY] {
            for at in 1..right.len() {
                let mut times = right.clone();
                times.insert(at, wrong);
                if times.is_sorted_by(|a, b| a >= b) {
                    continue;
                }
                let now = kept(&rules, &times);
                let stays = |i: &usize| now.contains(&(i + usize::from(*i >= at)));
                assert!(before.iter().all(stays), "{wrong} at {at}: {now:?}, before: {before:?}");
                // Which of two neighbours is wrong may be open. Then both stay.
                assert!(
                    now.len() <= before.len() + 1,
                    "{wrong} at {at}: {now:?}, before: {before:?}"
                );
            }
        }
        // Clocks that were never set: the order is all there is.
        let never: Vec<i64> = (0..9).rev().map(|n| n * DAY).collect();
        assert_eq!(kept(&of(2, 1, 1), &never), [0, 1]);
    }

    #[test]
    fn a_list_of_tags_wants_all_of_them() {
        let tags = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let rules = KeepRules { tags: vec![tags("a,b"), tags("c")], ..KeepRules::default() };
        let of = [tags("a"), tags("b,a,x"), tags("c"), vec![]];
        let seen: Vec<_> = of.iter().map(|tags| Seen { created_us: NOON, tags }).collect();
        let why = rules.apply(&seen, &TimeZone::UTC, NOW);
        let none: Vec<String> = vec![];
        assert_eq!(why, [none.clone(), vec!["tag a,b".into()], vec!["tag c".into()], none]);
    }

    #[test]
    fn all_may_be_kept() {
        let rules = KeepRules { monthly: Some(Count::Unlimited), ..KeepRules::default() };
        // November, October, September, August, the end of July, and the oldest.
        assert_eq!(kept(&rules, &daily(100)), [0, 1, 32, 62, 93, 99]);
        assert!(KeepRules::default().is_empty() && !rules.is_empty());
    }
}
