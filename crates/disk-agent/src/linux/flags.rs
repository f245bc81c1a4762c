//! Inode flags, as `chattr` sets them.

use std::os::fd::AsFd;

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
use rustix::io::Errno;

/// The flags a user may set: `FS_FL_USER_MODIFIABLE` of the kernel, which are secure removal,
/// undelete, compress, synchronous, immutable, append-only, no dump, no atime, no tail merging,
/// synchronous directory, top of directories; and those that single file systems take besides.
/// What describes the layout (extents, index, inline data) belongs to the file system.
const SETTABLE: u32 = 0x0003_80FF | LAYOUT | 0x4000 | PROJECT_INHERIT | DAX;
const PROJECT_INHERIT: u32 = 0x2000_0000;
const DAX: u32 = 0x0200_0000;
/// No compression, no copy on write: these say how contents will be written.
const LAYOUT: u32 = 0x400 | 0x0080_0000 | 0x4;
/// Immutable and append-only: these keep everything else from being set.
const LOCKING: u32 = 0x30;

/// The flags of a row that can be restored at all.
pub fn settable(flags: u32) -> u32 {
    flags & SETTABLE
}

/// Sets those flags that have an effect only while the file is empty. Whether that succeeded
/// shows when [`set`] sets all of them.
pub fn set_before_writing(file: impl AsFd, flags: u32) {
    let wanted = flags & LAYOUT;
    if wanted != 0 {
        let _ = set(file, wanted);
    }
}

/// What came of [`set`].
#[derive(Debug, Clone, Copy, Default)]
pub struct FlagsSet {
    /// All are as they should be.
    pub are_complete: bool,
    /// Some are not as they were.
    pub have_changed: bool,
}

/// Sets the settable ones among `flags`, clears the others; where not all can be had, as many as
/// the file system and our rights allow.
pub fn set(file: impl AsFd, flags: u32) -> Result<FlagsSet, Errno> {
    let file = file.as_fd();
    let old = match ioctl_getflags(file) {
        Ok(flags) => flags.bits(),
        // The file system has no flags.
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => {
            return Ok(FlagsSet { are_complete: settable(flags) == 0, have_changed: false });
        }
        Err(e) => return Err(e),
    };
    let wanted = (old & !SETTABLE) | settable(flags);
    if wanted == old {
        return Ok(FlagsSet { are_complete: true, have_changed: false });
    }
    match ioctl_setflags(file, IFlags::from_bits_retain(wanted)) {
        Ok(()) => return Ok(FlagsSet { are_complete: true, have_changed: true }),
        Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOTTY) => {}
        Err(e) => return Err(e),
    }
    // One refused flag refuses all: go one by one, the locking ones last.
    let (mut now, mut are_complete) = (old, true);
    let differing = wanted ^ old;
    for group in [differing & !LOCKING, differing & LOCKING] {
        for bit in (0..u32::BITS).map(|n| 1u32 << n).filter(|bit| group & bit != 0) {
            match ioctl_setflags(file, IFlags::from_bits_retain(now ^ bit)) {
                Ok(()) => now ^= bit,
                Err(_) => are_complete = false,
            }
        }
    }
    Ok(FlagsSet { are_complete, have_changed: now != old })
}
