//! What an inode's time of change proves.

use capstan_format::entry::Timestamp;

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
}
