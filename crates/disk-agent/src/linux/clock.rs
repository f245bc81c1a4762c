//! Whose clock gives the files of a file system their times.

use std::collections::HashMap;

use super::source::{self, DirHandle};

/// File systems whose times are those of this kernel's clock: they are on its own disks, or in its memory. Those of all others may come
/// from a file server, or from a program (FUSE). From linux/magic.h and the file systems' own headers.
const OF_KERNEL: [u64; 19] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // xfs
    0x9123_683e, // btrfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0x794c_7630, // overlayfs
    0xf2f5_2010, // f2fs
    0x2fc1_2fc1, // zfs
    0xca45_1a4e, // bcachefs
    0x5265_4973, // reiserfs
    0x3153_464a, // jfs
    0x3434,      // nilfs2
    0x4d44,      // FAT
    0x2011_bab0, // exFAT
    0x7366_746e, // NTFS (ntfs3)
    0x7371_7368, // squashfs
    0xe0f5_e1e2, // erofs
    0x9660,      // ISO 9660
    0x1501_3346, // UDF
];

/// Whose clocks the file systems have that were met.
#[derive(Default)]
pub struct Clocks {
    of: HashMap<u64, bool>,
    /// The device that was asked for last.
    last: Option<(u64, bool)>,
}

impl Clocks {
    /// Whether the times of what lies in a directory, on that device, are of this kernel's clock.
    pub fn is_kernels(&mut self, dir: &DirHandle, device: u64) -> bool {
        if let Some((last, is_kernels)) = self.last
            && last == device
        {
            return is_kernels;
        }
        let Some(is_kernels) = self.of.get(&device).copied().or_else(|| ask(dir, device)) else {
            // A file system is mounted at this name: what lies in it tells.
            return false;
        };
        self.of.insert(device, is_kernels);
        self.last = Some((device, is_kernels));
        is_kernels
    }
}

/// Whether a device on which a directory lies has the kernel's clock; nothing where it lies on another one.
fn ask(dir: &DirHandle, device: u64) -> Option<bool> {
    source::stat(&dir.fd).ok().filter(|stat| stat.st_dev == device)?;
    let found = rustix::fs::fstatfs(&dir.fd).ok()?;
    Some(OF_KERNEL.contains(&(found.f_type as u64)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_of_the_kernel_and_what_the_kernel_makes_is_of_nobody_known() {
        let mut clocks = Clocks::default();
        let dir = |path: &str| DirHandle {
            fd: std::fs::File::open(path).unwrap().into(),
            path: path.as_bytes().to_vec(),
        };
        let device = |dir: &DirHandle| source::stat(&dir.fd).unwrap().st_dev;
        let (shm, proc) = (dir("/dev/shm"), dir("/proc"));
        assert!(clocks.is_kernels(&shm, device(&shm)), "tmpfs");
        assert!(!clocks.is_kernels(&proc, device(&proc)));
        assert!(clocks.is_kernels(&shm, device(&shm)));
        // The mount point is met first, in the directory above it.
        let (mut clocks, dev) = (Clocks::default(), dir("/dev"));
        assert!(!clocks.is_kernels(&dev, device(&shm)), "a mount point");
        assert!(clocks.is_kernels(&shm, device(&shm)), "what lies in it");
    }
}
