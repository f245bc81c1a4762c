//! A row of a version: what is known of a path, where in the version it stands, and where its data are.

use std::cmp::Ordering;
use std::sync::Arc;

use capstan_format::acl::AclNames;
use capstan_format::entry::{Entry, ExtentKind, Kind, join, path_order};
use capstan_format::id::StreamId;

/// The order of rows in a version: session, segment, then place in its stream there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ordinal {
    /// Which of the version's sessions wrote it, from 0.
    pub session: u32,
    /// Which of the version's segments has it, from 0.
    pub segment: u32,
    /// Its number in its stream's part of the segment, see [`row_number`].
    pub row: u32,
    /// The stream.
    pub stream: StreamId,
}

impl Ordinal {
    /// Whether a row here speaks of a newer state of its file than one there. Rows of one stream are in order; those of
    /// different streams in one session are of one state: pieces of a huge file may lie before its own row.
    #[inline]
    pub fn is_newer_than(&self, other: &Self) -> bool {
        if self.stream == other.stream { self > other } else { self.session > other.session }
    }
}

/// A row with the place of its data.
#[derive(Clone)]
pub struct Row {
    /// The row itself.
    pub entry: Entry,
    /// Its place in the version.
    pub ordinal: Ordinal,
    /// The stream's logical offset at which its data begin.
    pub start: u64,
    /// Where its data are: itself, or the row of an earlier version of which only the metadata changed since.
    pub data: Ordinal,
    /// The checksum of its data in this segment, where that was asked for and is known.
    pub sum: Option<u64>,
    /// The owner's name where it came from.
    pub user: Option<Arc<[u8]>>,
    /// The group's name where it came from.
    pub group: Option<Arc<[u8]>>,
    /// The names of whom its ACLs name, where it came from; `None` if they name nobody who had one.
    pub acl: Option<Arc<AclNames>>,
}

impl Row {
    /// Whether its contents are those of an earlier version's row.
    #[inline]
    pub fn is_as_in(&self) -> bool {
        self.entry.extents.iter().any(|x| matches!(x.kind, ExtentKind::AsIn(_)))
    }
}

/// `dir/name`, for messages.
#[inline]
pub fn path_of(row: &Row) -> Vec<u8> {
    join(&row.entry.dir, &row.entry.name)
}

/// A directory's path and a name in it: what rows are ordered by.
pub type PathKey = (Vec<u8>, Vec<u8>);

/// Whether a row has its place in the order of paths.
#[inline]
pub fn is_ordered(kind: Kind) -> bool {
    kind.is_inode() || kind == Kind::Tombstone
}

/// Whether a path comes after the last one.
#[inline]
pub fn is_after(last: Option<&PathKey>, entry: &Entry) -> bool {
    last.is_none_or(|(dir, name)| {
        path_order((dir, name), (&entry.dir, &entry.name)) == Ordering::Less
    })
}

/// A row's number in its stream's part of a segment: a batch has at most 2^16 rows.
#[inline]
pub fn row_number(batch: usize, at: usize) -> u32 {
    (batch as u32) << 16 | at as u32
}

/// The batch that a row of that number is in.
#[inline]
pub fn batch_of(row: u32) -> usize {
    (row >> 16) as usize
}
