//! What file systems say is used on them: about what a first backup of all of them has to expect.

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use capstan_format::entry::is_inside;
use capstan_wire::source::Used;

use super::mount_table::{self, Mount};

/// File systems on disks of this machine, and in its memory: what they say is used is what a walk finds. It is not of what others
/// share, nor of layers above other file systems.
const LOCAL: [&str; 16] = [
    "bcachefs", "btrfs", "erofs", "exfat", "ext2", "ext3", "ext4", "f2fs", "iso9660", "jfs",
    "ntfs3", "squashfs", "tmpfs", "vfat", "xfs", "zfs",
];
/// What is used on the file systems that roots are, where each is all of a file system of this machine; with those below, unless
/// other file systems are not entered. `None` where that says nothing: a root is but a directory of one, or what others share is
/// below it, or one of `aside`, which are not backed up, lies on one of them.
pub fn used(roots: &[Vec<u8>], one_file_system: bool, aside: &[Vec<u8>]) -> Option<Used> {
    let mounts = mount_table::now();
    let counted = counted(&mounts, roots, one_file_system)?;
    let mut devices = HashSet::new();
    let mut used = Used::default();
    for point in counted {
        let path = PathBuf::from(OsString::from_vec([b"/", point].concat()));
        devices.insert(std::fs::metadata(&path).ok()?.dev());
        let stat = rustix::fs::statvfs(&path).ok()?;
        let blocks = stat.f_blocks.saturating_sub(stat.f_bfree);
        used.bytes = used.bytes.saturating_add(blocks.saturating_mul(stat.f_frsize));
        used.inodes = used.inodes.saturating_add(stat.f_files.saturating_sub(stat.f_ffree));
    }
    // A medium that lies there has bytes that are not walked.
    let lies_there = |path: &Vec<u8>| {
        let path = Path::new(OsStr::from_bytes(path));
        let there = path.ancestors().find_map(|path| std::fs::metadata(path).ok());
        there.is_some_and(|there| devices.contains(&there.dev()))
    };
    (!aside.iter().any(lies_there)).then_some(used)
}

/// The mount points whose file systems are walked, each file system once; `None` where what they say is not what is walked.
fn counted<'a>(
    mounts: &'a [Mount],
    roots: &[Vec<u8>],
    one_file_system: bool,
) -> Option<Vec<&'a [u8]>> {
    let mut points: Vec<&[u8]> = Vec::new();
    let mut sources = HashSet::new();
    let is_local = |m: &Mount| LOCAL.iter().any(|kind| kind.as_bytes() == m.kind);
    // Of several that are mounted in one place the last one is seen.
    let seen = |at: usize| !mounts[at + 1..].iter().any(|later| later.point == mounts[at].point);
    for root in roots {
        let own = (0..mounts.len()).find(|at| mounts[*at].point == *root && seen(*at))?;
        let below = (0..mounts.len())
            .filter(|at| *at != own && is_inside(&mounts[*at].point, root) && seen(*at))
            .filter(|_| !one_file_system);
        for at in std::iter::once(own).chain(below) {
            let mount = &mounts[at];
            if at != own && is_left_out(mount, root.is_empty()) {
                continue;
            }
            // Subvolumes are directories of a file system whose table of blocks is one.
            let is_subvolume = mount.kind == b"btrfs";
            if !is_local(mount) || !(mount.is_whole || is_subvolume) {
                return None;
            }
            let source = (mount.kind == b"tmpfs").then_some(at);
            if sources.insert((source, &mount.source)) {
                points.push(&mount.point);
            }
        }
    }
    (!points.is_empty()).then_some(points)
}

/// Whether a walk does not enter it: what the kernel makes, and of the root directory what is lost at boot.
fn is_left_out(mount: &Mount, of_all: bool) -> bool {
    let volatile = ["dev", "proc", "run", "sys"];
    mount.is_of_kernel()
        || of_all && volatile.iter().any(|dir| is_inside(&mount.point, dir.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:5 / /dev rw - devtmpfs udev rw
24 22 0:20 / /proc rw - proc proc rw
25 22 0:21 / /run rw - tmpfs tmpfs rw
26 22 8:2 / /home rw - xfs /dev/sdb1 rw
27 22 8:2 / /srv/again rw - xfs /dev/sdb1 rw
28 22 8:3 /sub /bound rw - ext4 /dev/sdc1 rw
29 22 0:50 / /mnt/my\\040share rw - nfs4 server:/x rw
30 22 0:60 /@ /sub1 rw - btrfs /dev/sdd rw
31 22 0:61 /@home /sub1/home rw - btrfs /dev/sdd rw
32 22 0:70 / /merged rw - overlay overlay rw
33 22 0:71 / /sub1/tmp rw - tmpfs tmpfs rw
34 22 0:72 / /sub1/tmp2 rw - tmpfs tmpfs rw
";

    fn found(roots: &[&str], one_file_system: bool) -> Option<Vec<String>> {
        let mounts = mount_table::mounts(TABLE.as_bytes());
        let roots: Vec<Vec<u8>> = roots.iter().map(|root| root.as_bytes().to_vec()).collect();
        let points = counted(&mounts, &roots, one_file_system)?;
        Some(points.iter().map(|p| String::from_utf8_lossy(p).into_owned()).collect())
    }

    #[test]
    fn whole_file_systems_of_this_machine_are_counted_once() {
        let some = |points: &[&str]| Some(points.iter().map(|&p| p.to_owned()).collect());
        assert_eq!(found(&["home"], false), some(&["home"]));
        assert_eq!(found(&["", "home"], true), some(&["", "home"]));
        assert_eq!(found(&["home", "srv/again"], false), some(&["home"]));
        assert_eq!(found(&["sub1"], false), some(&["sub1", "sub1/tmp", "sub1/tmp2"]));
        // A directory, a part of a file system, what is shared, a layer, and all, which has these below.
        for roots in [&["home/ann"][..], &["bound"], &["mnt/my share"], &["merged"], &[""]] {
            assert_eq!(found(roots, false), None, "{roots:?}");
        }
        assert_eq!(found(&["home", "etc"], true), None, "one of them is but a directory");
    }

    #[test]
    fn what_is_mounted_later_hides_what_was() {
        let table = "1 0 8:1 / /a rw - ext4 /dev/a rw\n2 0 0:9 / /a rw - overlay o rw\n";
        assert_eq!(counted(&mount_table::mounts(table.as_bytes()), &[b"a".to_vec()], true), None);
    }
}
