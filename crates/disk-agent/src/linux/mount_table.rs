//! What is mounted, as the kernel's table has it.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;

use capstan_format::entry::is_inside;

/// The longest table of mounts that is read.
const LONGEST: u64 = 4 << 20;

/// Something that is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mount {
    /// Its number, and that of the mount that it lies in.
    pub id: u64,
    /// The number of the mount that it lies in.
    pub parent: u64,
    /// Where, without the leading slash.
    pub point: Vec<u8>,
    /// Whether it is all of its file system, and not a directory of it.
    pub is_whole: bool,
    /// The kind of its file system, by the kernel's name.
    pub kind: Vec<u8>,
    /// Its device, or whatever its file system is of.
    pub source: Vec<u8>,
}

impl Mount {
    /// Whether the kernel makes what is in it.
    pub fn is_of_kernel(&self) -> bool {
        const KERNEL: [&str; 18] = [
            "autofs",
            "binfmt_misc",
            "bpf",
            "cgroup",
            "cgroup2",
            "configfs",
            "debugfs",
            "devpts",
            "efivarfs",
            "fusectl",
            "mqueue",
            "nsfs",
            "proc",
            "pstore",
            "securityfs",
            "selinuxfs",
            "sysfs",
            "tracefs",
        ];
        KERNEL.iter().any(|kind| kind.as_bytes() == self.kind)
    }

    /// Whether nothing is lost when it is not mounted: it is in memory, or shows what lies elsewhere, or is the file of a package.
    fn is_no_disk(&self) -> bool {
        const NO_DISKS: [&str; 7] =
            ["devtmpfs", "erofs", "overlay", "ramfs", "rootfs", "squashfs", "tmpfs"];
        self.is_of_kernel() || NO_DISKS.iter().any(|kind| kind.as_bytes() == self.kind)
    }
}

/// What is mounted on this host, and what is to be, when a session begins. Paths are absolute, without the leading slash.
#[derive(Debug, Clone, Default)]
pub struct HostMounts {
    /// Mount points that the host has on record, and whether each is mounted without being asked for.
    pub on_record: BTreeMap<Vec<u8>, bool>,
    /// Where a disk is mounted: one that goes meanwhile is missed too.
    pub disks: HashSet<Vec<u8>>,
}

impl HostMounts {
    /// Those of now, where these are on record.
    pub fn now(on_record: BTreeMap<Vec<u8>, bool>) -> Self {
        Self { on_record, disks: disks(&now()) }
    }
}

/// What is mounted now; nothing where the kernel does not say.
pub fn now() -> Vec<Mount> {
    let mut bytes = Vec::new();
    let table = std::fs::File::open("/proc/self/mountinfo");
    match table.and_then(|f| f.take(LONGEST).read_to_end(&mut bytes)) {
        Ok(_) => mounts(&bytes),
        Err(_) => Vec::new(),
    }
}

/// Where disks are mounted that can be seen there, without the leading slash.
pub fn disks(mounts: &[Mount]) -> HashSet<Vec<u8>> {
    let lies_over = |mount: &Mount, other: &Mount| {
        let is_above = || other.point != mount.point && is_inside(&mount.point, &other.point);
        let over_it = other.parent == mount.id && other.point == mount.point;
        over_it || other.id != mount.id && other.parent == mount.parent && is_above()
    };
    let is_seen = |mount: &&Mount| !mounts.iter().any(|other| lies_over(mount, other));
    let disks = mounts.iter().filter(|mount| !mount.is_no_disk()).filter(is_seen);
    disks.map(|mount| mount.point.clone()).collect()
}

/// The lines of `/proc/self/mountinfo`, as proc(5) has them.
pub(super) fn mounts(table: &[u8]) -> Vec<Mount> {
    let number = |field: &[u8]| std::str::from_utf8(field).ok()?.parse().ok();
    let of = |line: &[u8]| {
        let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
        let (root, point) = (fields.get(3)?, unescaped(fields.get(4)?));
        let end = fields.iter().position(|field| *field == b"-")?;
        Some(Mount {
            id: number(fields.first()?)?,
            parent: number(fields.get(1)?)?,
            point: point.strip_prefix(b"/").unwrap_or(&point).to_vec(),
            is_whole: *root == b"/",
            kind: fields.get(end + 1)?.to_vec(),
            source: unescaped(fields.get(end + 2)?),
        })
    };
    table.split(|b| *b == b'\n').filter_map(of).collect()
}

/// A field whose blanks and backslashes are written as `\040`.
fn unescaped(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| *first == b'\\');
        let code = digits.and_then(|d| u8::from_str_radix(OsStr::from_bytes(d).to_str()?, 8).ok());
        match code {
            Some(code) => {
                plain.push(code);
                rest = &after[3..];
            }
            None => {
                plain.push(*first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_seen_unless_something_lies_over_them() {
        let table = "\
22 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw
24 22 0:20 / /proc rw - proc proc rw
26 22 8:2 / /home rw - xfs /dev/sdb1 rw
27 26 8:3 / /home/my\\040disk rw - ext4 /dev/sdc1 rw
28 22 8:4 / /mnt/under rw - ext4 /dev/sdd1 rw
29 22 0:71 / /mnt rw - tmpfs tmpfs rw
30 22 8:5 / /srv rw - ext4 /dev/sde1 rw
31 30 0:72 / /srv rw - tmpfs tmpfs rw
32 22 0:73 / /auto rw - autofs systemd-1 rw
33 32 8:6 / /auto rw - vfat /dev/sdf1 rw
a line that is none
";
        let found = disks(&mounts(table.as_bytes()));
        let mut found: Vec<_> =
            found.iter().map(|p| String::from_utf8_lossy(p).into_owned()).collect();
        found.sort();
        assert_eq!(found, ["", "auto", "home", "home/my disk"]);
        assert_eq!(unescaped(b"a\\040b\\134c\\9"), b"a b\\c\\9");
    }
}
