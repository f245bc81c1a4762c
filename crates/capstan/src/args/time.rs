//! Times and spans of time as people write them: one reading for all options.

use std::time::Duration;

use capstan_cell::Cell;
use capstan_engine::problem::Problem;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp, Zoned};

use crate::exit::Failure;

/// What to write for a time.
const TIMES: &str =
    "write yesterday, 2d, 90min, 2026-11-20, '2026-11-20 14:30', 2026-11-20T14:30:00Z or @SESSION";
/// What to write for a time to come.
const ENDS: &str = "write tomorrow, 30d, 8w, 6m, 10y, 2030-12-31 or '2030-12-31 18:00'";

/// What is no time; `ways` is what to write.
fn no_time(ways: &str) -> Problem {
    Problem::new("it is no time").hint(ways)
}

/// What is no span of time; `ways` is what to write.
fn no_span_but(ways: &str) -> Problem {
    Problem::new("it is no span of time").hint(ways)
}

/// What is no span of time.
fn no_span() -> Problem {
    no_span_but("write 45s, 90min, 26h, 7d, 2w, 6mo or 1y, or several: 1d12h")
}

/// A time, as far as it is known without the database.
#[derive(Debug, Clone)]
pub enum When {
    /// A moment, in microseconds since 1970.
    At(i64),
    /// So long before it is asked for.
    Ago(Span),
    /// A day without a time of day: the moment at which it begins here.
    Day(Date),
    /// The begin of the session whose id begins so.
    Session(String),
}

impl When {
    /// Microseconds since 1970. Fails where there is no such session, or more than one.
    pub fn us(&self, cell: &Cell) -> Result<i64, Failure> {
        self.us_at(cell, &now())
    }

    fn us_at(&self, cell: &Cell, now: &Zoned) -> Result<i64, Failure> {
        match self {
            Self::At(us) => Ok(*us),
            Self::Ago(span) => {
                let then = now.checked_sub(*span);
                then.map(|then| then.timestamp().as_microsecond()).map_err(|_| {
                    Failure::bad_input("that long ago is beyond the calendar", "name a nearer time")
                })
            }
            Self::Day(date) => begin_of(*date, &TimeZone::system()).ok_or_else(|| {
                Failure::bad_input(format!("{date} is beyond the calendar"), "name a nearer day")
            }),
            Self::Session(prefix) => Ok(cell.session(prefix)?.started_us),
        }
    }

    /// How long ago it is. Fails for what is to come.
    pub fn age(&self, cell: &Cell) -> Result<Duration, Failure> {
        let now = now();
        let then = self.us_at(cell, &now)?;
        let ago = now.timestamp().as_microsecond().saturating_sub(then);
        u64::try_from(ago).map(Duration::from_micros).map_err(|_| {
            Failure::bad_input(
                "that time is yet to come",
                "write an age as 26h, or an earlier time",
            )
        })
    }
}

/// What the clock says, here.
fn now() -> Zoned {
    let now = Timestamp::from_microsecond(capstan_engine::clock::now_us());
    now.unwrap_or_default().to_zoned(TimeZone::system())
}

/// Reads a time of an option that looks back: a span of time is so long ago.
pub fn parse_when(text: &str) -> Result<When, Problem> {
    let text = text.trim();
    if let Some(session) = text.strip_prefix('@') {
        let is_id = !session.is_empty() && session.bytes().all(|b| b.is_ascii_hexdigit());
        return match is_id {
            true => Ok(When::Session(session.to_ascii_lowercase())),
            false => Err(Problem::new(format!(
                "'{session}' is no session's id, which is hexadecimal digits"
            ))
            .hint("`capstan sessions` lists them")),
        };
    }
    let now = now();
    if let Some(when) = moment(text, &now) {
        return Ok(when);
    }
    let span = parse_span(not_minutes(text)?).map_err(|_| no_time(TIMES))?;
    now.checked_sub(span).map_err(|_| no_time(TIMES))?;
    Ok(When::Ago(span))
}

/// Reads a time to come: a span of time is so long from now. Microseconds since 1970.
pub fn parse_until(text: &str) -> Result<i64, Problem> {
    let text = text.trim();
    let now = now();
    let beyond = || Problem::new("it is beyond the calendar").hint("write permanent, or less");
    let over =
        || Problem::new("protection in the past: that time is over").hint("name a later one");
    let until = match moment(text, &now) {
        Some(When::At(us)) => us,
        Some(When::Day(date)) => begin_of(date, now.time_zone()).ok_or_else(beyond)?,
        _ if text.starts_with('@') => return Err(over()),
        _ => {
            let span = parse_span(text).map_err(|_| no_time(ENDS))?;
            now.checked_add(span).map_err(|_| beyond())?.timestamp().as_microsecond()
        }
    };
    if until <= now.timestamp().as_microsecond() {
        return Err(over());
    }
    Ok(until)
}

/// Reads how long something is, or is waited for.
pub fn parse_age(text: &str) -> Result<Duration, Problem> {
    let span = not_minutes(text.trim()).and_then(parse_span)?;
    let now = now();
    let later = now.checked_add(span).map_err(|_| no_span())?;
    Duration::try_from(now.duration_until(&later)).map_err(|_| no_span())
}

/// Reads seconds, with a fraction if need be, or a span of time; up to an hour.
pub fn parse_pause(text: &str) -> Result<Duration, Problem> {
    let seconds = text.parse::<f64>().ok().filter(|s| (0.0..=3600.0).contains(s));
    let pause = seconds.map(Duration::from_secs_f64).or_else(|| parse_age(text).ok());
    pause.filter(|pause| *pause <= Duration::from_secs(3600)).ok_or_else(|| {
        Problem::new(format!("'{text}' is no pause of at most an hour"))
            .hint("write 0 to 3600 for seconds, as 0.5, or 10s, 2min")
    })
}

/// Reads a span of time: numbers, each with `s`, `min`, `h`, `d`, `w`, `m` or `mo` (months) or `y`.
pub fn parse_span(text: &str) -> Result<Span, Problem> {
    let mut span = Span::new();
    let mut rest = text;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let n: i64 = rest[..digits].parse().map_err(|_| no_span())?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, after) = rest.split_at(letters);
        let set = match unit {
            "s" if span.get_seconds() == 0 => span.try_seconds(n),
            "min" if span.get_minutes() == 0 => span.try_minutes(n),
            "h" if span.get_hours() == 0 => span.try_hours(n),
            "d" if span.get_days() == 0 => span.try_days(n),
            "w" if span.get_weeks() == 0 => span.try_weeks(n),
            "m" | "mo" if span.get_months() == 0 => span.try_months(n),
            "y" if span.get_years() == 0 => span.try_years(n),
            _ => return Err(no_span()),
        };
        span = set.map_err(|_| no_span())?;
        rest = after;
    }
    if text.is_empty() { Err(no_span()) } else { Ok(span) }
}

/// Refuses an `m` alone of what may be minutes as well as months.
fn not_minutes(text: &str) -> Result<&str, Problem> {
    match text.strip_suffix('m') {
        Some(n) if !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()) => {
            Err(Problem::new(format!("'{text}' could be minutes or months"))
                .hint(format!("write {n}min or {n}mo")))
        }
        _ => Ok(text),
    }
}

/// A moment that does not depend on whether its option looks back.
fn moment(text: &str, now: &Zoned) -> Option<When> {
    let at = |time: Timestamp| Some(When::At(time.as_microsecond()));
    if text == "now" {
        return at(now.timestamp());
    }
    let (day, time) = text.split_once(' ').map_or((text, None), |(day, time)| (day, Some(time)));
    let known = match day {
        "today" => Some(now.date()),
        "yesterday" => now.date().yesterday().ok(),
        "tomorrow" => now.date().tomorrow().ok(),
        _ => None,
    };
    // A day is a date and time as well, of midnight: it is tried first.
    let known = known.or_else(|| day.parse::<Date>().ok().filter(|_| day.len() <= 10));
    if let Some(date) = known {
        let Some(time) = time else { return Some(When::Day(date)) };
        let time = time.trim().parse::<Time>().ok()?;
        let here = date.to_datetime(time).to_zoned(now.time_zone().clone()).ok()?;
        return at(here.timestamp());
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return at(time);
    }
    if let Ok(time) = text.parse::<Zoned>() {
        return at(time.timestamp());
    }
    at(text.parse::<DateTime>().ok()?.to_zoned(now.time_zone().clone()).ok()?.timestamp())
}

/// Microseconds since 1970 of the begin of a day.
fn begin_of(date: Date, here: &TimeZone) -> Option<i64> {
    Some(date.to_zoned(here.clone()).ok()?.timestamp().as_microsecond())
}

/// How long something is waited for that others have; `None` for as long as it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait(pub Option<Duration>);

/// What stands for `--wait` without a time.
pub const FOREVER: &str = "forever";

/// A span of time, or 0, or for ever.
pub fn parse_wait(text: &str) -> Result<Wait, Problem> {
    match text.trim() {
        FOREVER => Ok(Wait(None)),
        "0" => Ok(Wait(Some(Duration::ZERO))),
        span => parse_age(span).map(|most| Wait(Some(most))).map_err(|_| {
            no_span_but(
                "write --wait 30min or --wait 2h, 0 for not at all, and --wait alone behind all else",
            )
        }),
    }
}

/// A span of time, in seconds too, or 0.
pub fn parse_reconnect(text: &str) -> Result<Duration, Problem> {
    let text = text.trim();
    let seconds = text.strip_suffix('s').and_then(|n| n.parse().ok()).map(Duration::from_secs);
    match seconds {
        Some(seconds) => Ok(seconds),
        None if text == "0" => Ok(Duration::ZERO),
        None => {
            parse_age(text).map_err(|_| no_span_but("write 30s, 2min or 1h, or 0 for not at all"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000;

    fn now_us() -> i64 {
        Timestamp::now().as_microsecond()
    }

    /// How long ago, in whole minutes.
    fn minutes(text: &str) -> Result<i64, Problem> {
        match parse_when(text)? {
            When::Ago(span) => {
                let then = Zoned::now().checked_sub(span).unwrap();
                Ok((now_us() - then.timestamp().as_microsecond()) / 60_000_000)
            }
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn waits_may_be_none_and_may_have_no_end() {
        let minutes = |n: u64| Ok(Wait(Some(Duration::from_secs(60 * n))));
        assert_eq!(
            (parse_wait("90min"), parse_wait("0"), parse_wait("0s")),
            (minutes(90), minutes(0), minutes(0))
        );
        assert_eq!(parse_wait(FOREVER), Ok(Wait(None)));
        // What stood behind `--wait`, and was to be a path.
        assert!(parse_wait("/etc").unwrap_err().to_string().contains("behind all else"));
    }

    #[test]
    fn times_as_people_write_them() {
        let berlin = TimeZone::fixed(jiff::tz::offset(1));
        let now: Zoned = "2026-11-24T10:00:00+01:00[+01:00]".parse().unwrap();
        let at = |text: &str| match moment(text, &now) {
            Some(When::At(us)) => Some(us / 1_000_000),
            Some(When::Day(date)) => begin_of(date, &berlin).map(|us| us / 1_000_000),
            _ => None,
        };
        assert_eq!(at("1970-01-02T00:00:00Z"), Some(86_400));
        assert_eq!(at("1970-01-02T00:00:00+02:00"), Some(79_200));
        assert_eq!(at("1970-01-02 00:00"), Some(82_800));
        assert_eq!(at("1970-01-02T00:00:05"), Some(82_805));
        // A day alone is its begin, whatever it is called.
        assert_eq!(at("1970-01-02"), Some(82_800));
        assert_eq!(at("today"), at("2026-11-24 00:00"));
        assert_eq!(at("yesterday"), at("2026-11-23"));
        assert_eq!(at("tomorrow"), at("2026-11-25T00:00:00"));
        assert_eq!(at("yesterday 18:30"), at("2026-11-23 18:30"));
        assert_eq!(at("now"), at("2026-11-24T10:00"));
        for bad in ["", "2026-13-01", "12:00", "yesterday noon", "last week", "2026-11-24 25:00"] {
            assert_eq!(at(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_span_is_so_long_ago_or_from_now() {
        assert_eq!((minutes("90min"), minutes("26h")), (Ok(90), Ok(1560)));
        assert_eq!(minutes("1h30min"), Ok(90));
        let days = |text: &str| minutes(text).unwrap() / 1440;
        assert!((13..=14).contains(&days("2w")) && (360..=366).contains(&days("1y")));
        let in_days = |text: &str| parse_until(text).map(|us| (us - now_us() + DAY / 2) / DAY);
        assert_eq!((in_days("30d"), in_days("2w")), (Ok(30), Ok(14)));
        assert!((360..370).contains(&in_days("1y").unwrap()));
        assert!((180..186).contains(&in_days("6m").unwrap()));
        assert!(in_days("2999-12-31").unwrap() > 300_000 && in_days("tomorrow").is_ok());
        for bad in ["7", "d", "-7d", "1.5h", "99999999999d", "3d4d", "30 d", "3é", "whenever"] {
            assert!(parse_when(bad).unwrap_err().sentence.starts_with("it is no time"), "{bad}");
            assert!(parse_until(bad).is_err() && parse_age(bad).is_err(), "{bad}");
        }
        assert!(parse_when("7m").unwrap_err().to_string().contains("7min or 7mo"));
        assert!(parse_age("7m").is_err() && parse_age("1y7m").is_ok());
    }

    #[test]
    fn sessions_are_named_by_the_begin_of_their_ids() {
        assert!(matches!(parse_when("@1F2e"), Ok(When::Session(id)) if id == "1f2e"));
        assert!(parse_when("@").is_err() && parse_when("@desk").is_err());
    }

    #[test]
    fn until_is_in_the_future() {
        let over =
            ["2001-01-01", "1970-01-01T00:00:00Z", "0d", "@1f2e", "yesterday", "today", "now"];
        for past in over {
            assert!(
                parse_until(past).unwrap_err().sentence.starts_with("protection in the past"),
                "{past}"
            );
        }
        for bad in ["9000y", "", "none"] {
            assert!(parse_until(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn spans_have_their_units_once_each() {
        let fields = |text: &str| parse_span(text).map(|s| s.fieldwise());
        assert_eq!(fields("30d"), Ok(Span::new().days(30).fieldwise()));
        let all = Span::new().years(1).months(6).weeks(2).days(3).hours(4);
        assert_eq!(fields("1y6m2w3d4h"), Ok(all.fieldwise()));
        assert_eq!(fields("1y6mo2w3d4h"), Ok(all.fieldwise()));
        for bad in ["", "d", "30", "30x", "3d4d", "-3d", "9999999y", "30 d", "3é", "6m1mo"] {
            assert!(parse_span(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn pauses_are_seconds_or_spans() {
        assert_eq!(parse_pause("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_pause("0"), Ok(Duration::ZERO));
        assert_eq!(parse_pause("3600"), parse_pause("60min"));
        for bad in ["-1", "3601", "2h", "NaN", "", "soon"] {
            assert!(parse_pause(bad).is_err(), "{bad}");
        }
    }
}
