//! Times as people write them.

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
        for bad in ["", "yesterday", "2026-13-01", "12:00"] {
            assert!(at(bad).is_err(), "{bad}");
        }
    }
}
