//! What an inode's time of change tells: file systems' clocks tick, and what changes twice in one tick has one time.

use std::time::{Duration, SystemTime};

use capstan_format::entry::Timestamp;

/// By how much a file system's clock may stand behind the system's: a tick of the kernel's, at most 100 a second.
const TICK: Duration = Duration::from_millis(12);
/// The same where times have no fractions: whole seconds (ext3, ext4 with small inodes), or two (FAT).
const COARSE_TICK: Duration = Duration::from_secs(2);

/// By how much the clock of a file server, or of a program that is a file system, may stand behind this machine's.
const SKEW: Duration = Duration::from_secs(24 * 3600);

/// The steps of the times of file systems that have fractions of a second and no time of change: 10 ms (exFAT).
const COARSE_STEP: u32 = 10_000_000;

/// Whether a file that has size, mtime and ctime of before has the contents of before, too.
///
/// Where the kernel keeps ctime it does: each write sets it, and nobody can put it back. File systems that store none (sshfs, exFAT, FAT,
/// squashfs, erofs, ISO 9660) show mtime in its place, which anybody can put back. Their times are whole seconds or steps of 10 ms. So
/// where both times are the same, and such a step, ctime proves nothing. On a file system with nanoseconds one file in 10 million that
/// was only written, never touched, looks like that by chance.
pub const fn proves_contents(mtime: Timestamp, ctime: Timestamp) -> bool {
    let is_same = mtime.sec == ctime.sec && mtime.nsec == ctime.nsec;
    !is_same || !ctime.nsec.is_multiple_of(COARSE_STEP)
}

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
    fn a_ctime_that_may_be_the_mtime_proves_nothing() {
        let time = |sec, nsec| Timestamp { sec, nsec };
        let of = |mtime, ctime| proves_contents(mtime, ctime);
        // Whole seconds, the two of FAT, the epoch of images, exFAT's hundredths.
        for at in [time(1_700_000_000, 0), time(0, 0), time(-2, 0), time(7, 480_000_000)] {
            assert!(!of(at, at), "{at:?}");
        }
        // The kernel's clock, as ext4, xfs and btrfs have it.
        assert!(of(time(7, 480_000_001), time(7, 480_000_001)));
        assert!(of(time(7, 1_000_000), time(7, 1_000_000)));
        // Somebody set mtime, and ctime tells so; also in whole seconds (ext3).
        assert!(of(time(7, 0), time(8, 0)) && of(time(7, 0), time(7, 10_000_000)));
        assert!(of(time(9, 0), time(8, 0)));
    }

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
