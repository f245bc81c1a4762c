//! Values as people read and write them: sizes, times, numbers of things, tables.

pub mod kept;
pub mod sizes;
pub mod table;

use std::ffi::OsStr;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use self::sizes::grouped;

/// A path argument's bytes.
pub fn bytes_of(text: &OsStr) -> Vec<u8> {
    std::os::unix::ffi::OsStrExt::as_bytes(text).to_vec()
}

/// A time in the machine's time zone, by the second.
pub fn local_time(us: i64) -> String {
    match Timestamp::from_microsecond(us) {
        Ok(time) => time.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => format!("{us} µs since 1970"),
    }
}

/// `3 segments`.
pub fn count(n: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(n), if n == 1 { "" } else { "s" })
}
