//! Times as people write them.

use std::time::Duration;

use jiff::civil::{Date, DateTime};
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};

/// Microseconds since 1970 of a time: RFC 3339, or a date with or without a time of day, here. A date alone is its last
/// moment.
pub fn parse_time(text: &str) -> Result<i64, String> {
    parse_in(text, &TimeZone::system())
}

fn parse_in(text: &str, here: &TimeZone) -> Result<i64, String> {
    let text = text.trim();
    let known = text.parse::<Timestamp>().ok();
    let known = known.or_else(|| text.parse::<Zoned>().ok().map(|z| z.timestamp()));
    let civil = || {
        // A date is a date and time as well, of midnight: it is tried first.
        let date = text.parse::<Date>().ok().filter(|_| text.len() <= 10);
        let civil = match date {
            Some(date) => date.at(23, 59, 59, 999_999_999),
            None => text.parse::<DateTime>().ok()?,
        };
        civil.to_zoned(here.clone()).ok().map(|z| z.timestamp())
    };
    known.or_else(civil).map(Timestamp::as_microsecond).ok_or_else(|| {
        "it is no time; write 2026-11-20, '2026-11-20 14:30' or 2026-11-20T14:30:00Z".to_owned()
    })
}

/// Microseconds since 1970 of a time in the past: an age (`7d`), or a time as [`parse_time`] has it, where a date alone is
/// its first moment.
pub fn parse_since(text: &str) -> Result<i64, String> {
    if let Ok(age) = parse_age(text) {
        let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
        return Ok(capstan_engine::clock::now_us().saturating_sub(age));
    }
    let text = text.trim();
    let midnight = || {
        let date = text.parse::<Date>().ok().filter(|_| text.len() <= 10)?;
        date.to_zoned(TimeZone::system()).ok().map(|z| z.timestamp().as_microsecond())
    };
    midnight().map_or_else(|| parse_time(text), Ok).map_err(|_| {
        "it is no time; write an age as 90min, 26h, 7d, 2w or 1y, or 2026-11-20, '2026-11-20 14:30'".to_owned()
    })
}

/// A span of time: a number and `s`, `min`, `h`, `d`, `w` or `y` (365 days). An `m` alone could be either of two.
pub fn parse_age(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "s" => 1,
        "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        "y" => 365 * 86_400,
        _ => 0,
    };
    let age = number.parse::<u32>().ok().filter(|_| seconds > 0);
    age.map(|n| Duration::from_secs(u64::from(n) * seconds))
        .ok_or_else(|| "it is no span of time; write 45s, 90min, 26h, 7d, 2w or 1y".to_owned())
}

/// How long something is waited for that others have; `None` for as long as it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait(pub Option<Duration>);

/// What stands for `--wait` without a time.
pub const FOREVER: &str = "forever";

/// A span of time, or 0, or for ever.
pub fn parse_wait(text: &str) -> Result<Wait, String> {
    match text.trim() {
        FOREVER => Ok(Wait(None)),
        "0" => Ok(Wait(Some(Duration::ZERO))),
        span => parse_age(span).map(|most| Wait(Some(most))).map_err(|_| {
            "it is no span of time; write --wait 30min or --wait 2h, 0 for not at all, and --wait alone behind all else".to_owned()
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_write_them() {
        let berlin = TimeZone::fixed(jiff::tz::offset(1));
        let at = |text: &str| parse_in(text, &berlin).map(|us| us / 1_000_000);
        assert_eq!(at("1970-01-02T00:00:00Z"), Ok(86_400));
        assert_eq!(at("1970-01-02 00:00"), Ok(82_800));
        assert_eq!(at("1970-01-02T00:00:05"), Ok(82_805));
        assert_eq!(at("1970-01-01"), Ok(82_799));
        assert_eq!(parse_since("1970-01-02T00:00:00Z"), Ok(86_400_000_000));
        let (day, hour) = (parse_since("1970-01-02").unwrap(), parse_time("1970-01-02").unwrap());
        assert_eq!((hour - day) / 1_000_000, 86_399);
        for bad in ["", "yesterday", "2026-13-01", "12:00"] {
            assert!(at(bad).is_err() && parse_since(bad).is_err(), "{bad}");
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
        assert!(parse_wait("/etc").unwrap_err().contains("behind all else"));
    }

    #[test]
    fn spans_of_time_have_one_unit() {
        let hours = |text: &str| parse_age(text).map(|age| age.as_secs() / 3600);
        assert_eq!((hours("26h"), hours("7d"), hours("90min")), (Ok(26), Ok(168), Ok(1)));
        for bad in ["", "7", "d", "-7d", "7m", "1.5h", "7d2h", "99999999999d"] {
            assert!(parse_age(bad).is_err(), "{bad}");
        }
        let since = parse_since("2h").unwrap();
        let ago = Timestamp::now().as_microsecond() - since;
        assert!((7_200_000_000..7_260_000_000).contains(&ago), "{ago}");
    }
}
