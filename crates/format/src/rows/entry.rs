//! What is known of one file: the row of a batch, independent of how batches are encoded.

use crate::id::StreamId;

/// What a row speaks of. The numbers are those on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// A regular file.
    File = 0,
    /// A directory.
    Dir = 1,
    /// A symbolic link; its text is in [`Entry::target`].
    Symlink = 2,
    /// A named pipe.
    Fifo = 3,
    /// A socket's name.
    Socket = 4,
    /// A character device.
    CharDevice = 5,
    /// A block device.
    BlockDevice = 6,
    /// A part of a regular file's contents: a piece read by this stream, or what continues from an earlier segment.
    Part = 7,
    /// What reading found of an earlier row of the same segment: see [`Outcome`].
    Outcome = 8,
    /// A name that is gone since the base.
    Tombstone = 9,
}

impl Kind {
    /// The kind of that number, if this version of the format knows it.
    pub const fn from_u8(n: u8) -> Option<Self> {
        Some(match n {
            0 => Self::File,
            1 => Self::Dir,
            2 => Self::Symlink,
            3 => Self::Fifo,
            4 => Self::Socket,
            5 => Self::CharDevice,
            6 => Self::BlockDevice,
            7 => Self::Part,
            8 => Self::Outcome,
            9 => Self::Tombstone,
            _ => return None,
        })
    }

    /// The word for it in what programs read.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::File => "file",
            Self::Dir => "dir",
            Self::Symlink => "symlink",
            Self::Fifo => "fifo",
            Self::Socket => "socket",
            Self::CharDevice => "chardev",
            Self::BlockDevice => "blockdev",
            Self::Part | Self::Outcome | Self::Tombstone => "other",
        }
    }

    /// Whether the row is a thing in the file system (not a part, an outcome or a tombstone).
    pub const fn is_inode(self) -> bool {
        (self as u8) <= Self::BlockDevice as u8
    }
}

/// One extent of a file's contents; extents follow each other from file offset 0 without gaps.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Extent {
    /// Length in bytes of the file.
    pub len: u64,
    /// Where those bytes are.
    pub kind: ExtentKind,
}

/// Where an extent's bytes are.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ExtentKind {
    /// In this stream, next in its logical byte space.
    Data,
    /// Nowhere: zeros that take no space.
    Hole,
    /// In part rows, of this or of other streams of the version.
    Parts,
    /// As in an earlier version of the object.
    AsIn([u8; 16]),
    /// In another stream, from that logical offset of it on: how a synthetic full has what earlier sessions saved.
    At(StreamId, u64),
    /// A kind that this version of the format does not know: the file cannot be restored, others can.
    Unknown(u64),
}

/// What reading found of a file whose row was already sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Outcome {
    /// What happened.
    pub code: OutcomeCode,
    /// The operating system's error number, 0 if none.
    pub errno: u32,
    /// The file offset at which it happened.
    pub offset: u64,
}

/// What happened to a file while it was read. The numbers are those on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum OutcomeCode {
    /// It changed while it was read; what is stored may mix two states.
    Changed = 1,
    /// It was shorter than its row says; the rest is filled.
    Short = 2,
    /// It could not be read from the offset on; the rest is filled.
    Unreadable = 3,
    /// Its row is replaced by a newer one (of a retry) and is not to be restored.
    Replaced = 4,
    /// It was open for writing or locked while it was read.
    InUse = 5,
    /// It vanished before it could be read; it is not to be restored.
    Vanished = 6,
}

impl OutcomeCode {
    /// The code of that number, if this version of the format knows it.
    pub const fn from_u8(n: u8) -> Option<Self> {
        Some(match n {
            1 => Self::Changed,
            2 => Self::Short,
            3 => Self::Unreadable,
            4 => Self::Replaced,
            5 => Self::InUse,
            6 => Self::Vanished,
            _ => return None,
        })
    }
}

/// A point in time as the file system keeps it: seconds since 1970 (may be negative) and nanoseconds (0 to 999,999,999).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Timestamp {
    /// Whole seconds since 1970-01-01 00:00 UTC.
    pub sec: i64,
    /// Nanoseconds of that second.
    pub nsec: u32,
}

/// An extended attribute: name (with its namespace, as `user.comment`) and value.
pub type Xattr = (Vec<u8>, Vec<u8>);

/// One row of a batch: a file with its metadata, or a part, an outcome or a tombstone.
///
/// Paths are absolute without the leading slash, components joined by `/`; the root directory itself has an empty
/// `dir` and an empty `name`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Entry {
    /// What the row speaks of.
    pub kind: Kind,
    /// The directory's path.
    pub dir: Vec<u8>,
    /// The name in it.
    pub name: Vec<u8>,
    /// Permission bits with setuid, setgid and sticky: 0 to 0o7777.
    pub mode: u16,
    /// Owner's number.
    pub uid: u32,
    /// Group's number.
    pub gid: u32,
    /// Bytes: of a file its length, of a part the part's length, else 0.
    pub size: u64,
    /// Time of last change of the contents.
    pub mtime: Timestamp,
    /// Time of last change of the inode; not restorable, kept to detect change.
    pub ctime: Timestamp,
    /// Inode number, kept to detect change.
    pub ino: u64,
    /// The file system's device number (as `st_dev`).
    pub dev: u64,
    /// A further name of an inode; `target` is the path of its first name in this stream.
    pub link: bool,
    /// The row takes the place of one in an earlier session of the same version.
    pub replaces: bool,
    /// Symbolic link's text, or of a further name the first name's path.
    pub target: Vec<u8>,
    /// Major and minor number of a device node.
    pub rdev: (u32, u32),
    /// Inode flags as `chattr` sets them (`FS_IOC_GETFLAGS`), 0 if none.
    pub inode_flags: u32,
    /// Extended attributes, ACLs and file capabilities among them, sorted by name.
    pub xattrs: Vec<Xattr>,
    /// Extents, empty where the file is one extent of data.
    pub extents: Vec<Extent>,
    /// Of a part: the file offset where it begins.
    pub part_offset: u64,
    /// Of an outcome: what it says.
    pub outcome: Option<Outcome>,
}

impl Default for Entry {
    fn default() -> Self {
        Self {
            kind: Kind::File,
            dir: Vec::new(),
            name: Vec::new(),
            mode: 0,
            uid: 0,
            gid: 0,
            size: 0,
            mtime: Timestamp::default(),
            ctime: Timestamp::default(),
            ino: 0,
            dev: 0,
            link: false,
            replaces: false,
            target: Vec::new(),
            rdev: (0, 0),
            inode_flags: 0,
            xattrs: Vec::new(),
            extents: Vec::new(),
            part_offset: 0,
            outcome: None,
        }
    }
}

impl Entry {
    /// The full path: `dir/name`, without a leading slash.
    pub fn path(&self) -> Vec<u8> {
        join(&self.dir, &self.name)
    }

    /// Where a file has data, as offset and length, ascending and apart; between them are holes.
    pub fn data_ranges(&self) -> Vec<(u64, u64)> {
        if self.extents.is_empty() {
            return vec![(0, self.size)];
        }
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let mut offset: u64 = 0;
        for x in &self.extents {
            match ranges.last_mut() {
                _ if x.kind == ExtentKind::Hole => {}
                Some((from, len)) if from.saturating_add(*len) == offset => {
                    *len = len.saturating_add(x.len);
                }
                _ => ranges.push((offset, x.len)),
            }
            offset = offset.saturating_add(x.len);
        }
        ranges
    }

    /// Bytes that follow this row in the stream's logical byte space.
    pub fn logical_len(&self) -> u64 {
        match self.kind {
            Kind::Part => self.size,
            Kind::File if self.link => 0,
            Kind::File if self.extents.is_empty() => self.size,
            Kind::File => self
                .extents
                .iter()
                .filter(|e| e.kind == ExtentKind::Data)
                .fold(0u64, |a, e| a.saturating_add(e.len)),
            _ => 0,
        }
    }
}

/// Whether a path is another's, or below it.
pub fn is_inside(path: &[u8], dir: &[u8]) -> bool {
    let rest = path.strip_prefix(dir);
    dir.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

/// `dir/name`, or `name` where `dir` is empty.
pub fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(dir.len() + 1 + name.len());
    path.extend_from_slice(dir);
    if !dir.is_empty() && !name.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// Whether a stored path is one of these, or below one; any is, where there are none.
pub fn selected(paths: &[Vec<u8>], path: &[u8]) -> bool {
    paths.is_empty() || paths.iter().any(|p| is_below(path, p))
}

/// Whether a stored path is another, or below it.
pub fn is_below(path: &[u8], root: &[u8]) -> bool {
    root.is_empty()
        || path == root
        || path.strip_prefix(root).is_some_and(|rest| rest.starts_with(b"/"))
}

/// A path split into its directory and its name.
pub fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|b| *b == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// The order of rows: directory path by component, then name, bytewise.
pub fn path_order(a: (&[u8], &[u8]), b: (&[u8], &[u8])) -> std::cmp::Ordering {
    // Neighbours are mostly in one directory.
    if a.0 == b.0 {
        return a.1.cmp(b.1);
    }
    // A path compares by component when its separator sorts below every other byte.
    let key = |c: &u8| if *c == b'/' { 0u16 } else { u16::from(*c) + 1 };
    a.0.iter().map(key).cmp(b.0.iter().map(key)).then_with(|| a.1.cmp(b.1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cmp::Ordering::Less;

    #[test]
    fn order_is_by_component_then_name() {
        assert_eq!(path_order((b"a", b"z"), (b"a/b", b"a")), Less);
        assert_eq!(path_order((b"a/b", b""), (b"a!", b"")), Less);
        assert_eq!(path_order((b"", b"z"), (b"a", b"a")), Less);
    }
}
