//! The clock, by its narrow door: what compares times asks here.

use std::time::SystemTime;

/// Now by this machine's clock, in microseconds since 1970.
///
/// Where the program is built with debug assertions, the variable [`TEST_CLOCK`] sets the clock ahead by so many seconds, or back by
/// so many: tests need clocks that are wrong. In a program that is delivered it does nothing.
pub fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_micros()).unwrap_or(i64::MAX).saturating_add(ahead_us())
}

/// The variable that sets the clock of a program under test.
pub const TEST_CLOCK: &str = "CAPSTAN_TEST_CLOCK_AHEAD_S";

fn ahead_us() -> i64 {
    if !cfg!(debug_assertions) {
        return 0;
    }
    let seconds = std::env::var(TEST_CLOCK).ok().and_then(|text| text.parse::<i64>().ok());
    seconds.unwrap_or(0).saturating_mul(1_000_000)
}
