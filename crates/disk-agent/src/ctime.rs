//! Which time of change is recorded: file systems' clocks tick, and what changes twice in one tick has one time.

use std::time::{Duration, SystemTime};

use capstan_format::entry::Timestamp;

/// By how much a file system's clock may stand behind the system's: a tick of the kernel's, at most 100 a second.
const TICK: Duration = Duration::from_millis(12);
/// The same where times have no fractions: whole seconds (ext3, ext4 with small inodes), or two (FAT).
const COARSE_TICK: Duration = Duration::from_secs(2);

/// By how much the clock of a file server, or of a program that is a file system, may stand behind this machine's.
const SKEW: Duration = Duration::from_secs(24 * 3600);

/// Whether whatever changes the inode from `now` on gives it another time.
pub(crate) fn is_settled(ctime: Timestamp, now: SystemTime) -> bool {
    let changed = u64::try_from(ctime.sec).ok().map(|sec| Duration::new(sec, ctime.nsec));
    let tick = if ctime.nsec == 0 { COARSE_TICK } else { TICK };
    let Some(changed) = changed.map(|changed| SystemTime::UNIX_EPOCH + changed) else {
        return true;
    };
    now.duration_since(changed).is_ok_and(|age| age > tick)
}

/// The time of change that is recorded of what is read from now on, whatever its kind. One that is so new that the next change may have
/// the same is recorded as a nanosecond earlier: the next incremental does not trust it, and reads what it is of.
///
/// Where the times are not of this kernel's clock, nobody knows what that other clock says now: there a day counts as a tick.
pub(crate) fn recorded(ctime: Timestamp, now: SystemTime, is_kernels: bool) -> Timestamp {
    let now = if is_kernels { now } else { now.checked_sub(SKEW).unwrap_or(now) };
    if is_settled(ctime, now) { ctime } else { earlier(ctime) }
}

/// A nanosecond before.
pub(crate) fn earlier(ctime: Timestamp) -> Timestamp {
    match ctime.nsec.checked_sub(1) {
        Some(nsec) => Timestamp { nsec, ..ctime },
        None => Timestamp { sec: ctime.sec - 1, nsec: 999_999_999 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_the_next_change_may_have_is_not_trusted() {
        let at = |sec, nsec| SystemTime::UNIX_EPOCH + Duration::new(sec, nsec);
        let time = |sec, nsec| Timestamp { sec, nsec };
        let of = |ctime, now| recorded(ctime, now, true);
        assert_eq!(of(time(100, 5), at(100, 12_000_006)), time(100, 5));
        assert_eq!(of(time(100, 5), at(100, 12_000_005)), time(100, 4));
        assert_eq!(of(time(100, 0), at(101, 900_000_000)), time(99, 999_999_999));
        assert_eq!(of(time(100, 0), at(102, 1)), time(100, 0));
        // The clock of a server may be ahead.
        assert_eq!(of(time(200, 7), at(100, 0)), time(200, 6));
        assert_eq!(of(time(-5, 7), at(100, 0)), time(-5, 7));
        // It may be behind as well.
        let of = |ctime, now| recorded(ctime, now, false);
        assert_eq!(of(time(100, 0), at(86_400 + 102, 0)), time(99, 999_999_999));
        assert_eq!(of(time(100, 0), at(86_400 + 103, 0)), time(100, 0));
        assert_eq!(of(time(100, 5), at(86_400 + 101, 0)), time(100, 5));
    }
}
