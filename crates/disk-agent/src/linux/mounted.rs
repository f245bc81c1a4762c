//! What is mounted at a directory.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::{AtFlags, StatxAttributes, StatxFlags};
use rustix::io::Errno;

/// The kind of file system that btrfs is, by linux/magic.h.
const BTRFS: u64 = 0x9123_683e;

/// The inode number of the root of each btrfs subvolume: BTRFS_FIRST_FREE_OBJECTID of linux/btrfs_tree.h.
pub const SUBVOLUME_ROOT: u64 = 256;

/// What is mounted at a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mounted {
    /// Nothing, or what mounts a disk as soon as somebody looks and has not done it.
    Nothing,
    /// A file system of which nothing is lost when it is not mounted.
    NoDisk,
    /// Another file system, or a directory of another place.
    Disk,
}

/// Where an open directory lies.
#[derive(Debug, Clone, Copy)]
pub struct Place {
    /// Its device.
    pub dev: u64,
    /// Its inode number.
    pub ino: u64,
    /// Whether it is the root of a mount, where the kernel says so (Linux 5.8).
    is_root: Option<bool>,
}

impl Place {
    /// Looks at an open directory.
    pub fn of(fd: impl AsFd) -> Result<Self, Errno> {
        let fd = fd.as_fd();
        let Ok(found) = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::INO) else {
            let (dev, ino) = super::source::identity(fd)?;
            return Ok(Self { dev, ino, is_root: None });
        };
        let says = found.stx_attributes_mask.contains(StatxAttributes::MOUNT_ROOT);
        Ok(Self {
            dev: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
            ino: found.stx_ino,
            is_root: says.then(|| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)),
        })
    }

    /// What is mounted there; the directory that it lies in is on that device.
    pub fn mounted(&self, fd: impl AsFd, parent_dev: u64) -> Mounted {
        // Another device without a mount is a subvolume of btrfs: that is said where the kernel can say it.
        match self.is_root.unwrap_or(self.dev != parent_dev) {
            true => kind(fd.as_fd()),
            false => Mounted::Nothing,
        }
    }

    /// Whether it is the root of a btrfs subvolume that lies in a directory on that device.
    pub fn is_subvolume(&self, fd: impl AsFd, parent_dev: u64) -> bool {
        self.dev != parent_dev && self.ino == SUBVOLUME_ROOT && is_btrfs(fd.as_fd())
    }

    /// Whether it is the empty directory that a snapshot has where its original has a subvolume.
    pub fn is_empty_subvolume(&self, fd: impl AsFd) -> bool {
        // BTRFS_EMPTY_SUBVOL_DIR_OBJECTID of linux/btrfs_tree.h: no other directory has it.
        self.ino == 2 && is_btrfs(fd.as_fd())
    }
}

fn is_btrfs(fd: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(fd).is_ok_and(|found| found.f_type as u64 == BTRFS)
}

fn kind(fd: BorrowedFd<'_>) -> Mounted {
    // linux/magic.h.
    const AUTOFS: u64 = 0x187;
    // tmpfs and ramfs are lost with their mount. overlayfs shows directories that lie elsewhere, squashfs and erofs a file: those of
    // packages come and go with each of their versions.
    const NO_DISKS: [u64; 5] = [0x0102_1994, 0x8584_58f6, 0x794c_7630, 0x7371_7368, 0xe0f5_e1e2];
    match rustix::fs::fstatfs(fd).map(|found| found.f_type as u64) {
        Ok(AUTOFS) => Mounted::Nothing,
        Ok(kind) if NO_DISKS.contains(&kind) => Mounted::NoDisk,
        _ => Mounted::Disk,
    }
}
