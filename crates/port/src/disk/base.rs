//! What a backup builds on: its rows in the order of the walk, and its files for those that have other names now. Both are streams,
//! read beside the walk. Of rows nothing is asked back; of files one question is left, for those whose contents lie in several places.

use capstan_format::entry::{Entry, Kind, Timestamp, Xattr};
use capstan_format::id::StreamId;
use capstan_wire::rows::form;
use minicbor::{Decode, Encode};

use super::ctime;

/// What a base says of a name: enough to see whether it changed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct BaseRow {
    /// Whether all of it can be restored from the base. If not, it is to be saved again.
    #[cbor(n(0), with = "form")]
    pub complete: bool,
    /// The checksum of its contents, holes left out, where that is known.
    #[cbor(n(1), with = "form")]
    pub sum: Option<u64>,
    /// Its kind.
    #[cbor(n(2), with = "form")]
    pub kind: Kind,
    /// Its permissions and owners, and of a device node its numbers; unknown of a [file known by its
    /// inode](BaseFiles).
    #[cbor(n(3), with = "form")]
    pub access: Option<Access>,
    /// What else its row says, where its ctime would not tell that it changed; unknown of a file known by its inode.
    #[cbor(n(4), with = "form")]
    pub details: Option<Box<Details>>,
    /// Its length in bytes.
    #[cbor(n(5), with = "form")]
    pub size: u64,
    /// Its times.
    #[cbor(n(6), with = "form")]
    pub mtime: Timestamp,
    /// Its inode's time.
    #[cbor(n(7), with = "form")]
    pub ctime: Timestamp,
    /// Its inode number.
    #[cbor(n(8), with = "form")]
    pub ino: u64,
    /// The number of the device that its inode was on.
    #[cbor(n(9), with = "form")]
    pub dev: u64,
    /// Of a file with holes: where it has data, as offset and length, ascending and apart.
    #[cbor(n(10), with = "form")]
    pub data: Option<Vec<(u64, u64)>>,
    /// The first name of the same file, where this is a further one.
    #[cbor(n(11), with = "form")]
    pub link_to: Option<Vec<u8>>,
    /// What of its contents can be referred to where it is, ascending and apart: of a file that is not complete what an earlier run
    /// of the same version has, of a [file known by its inode](BaseFiles) all.
    #[cbor(n(12), with = "form")]
    pub saved: Vec<Saved>,
}

/// What stat does not say of a name, beside its contents.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Details {
    /// A symbolic link's text.
    #[cbor(n(0), with = "form")]
    pub target: Vec<u8>,
    /// Its extended attributes.
    #[cbor(n(1), with = "form")]
    pub xattrs: Vec<Xattr>,
    /// Its inode flags.
    #[cbor(n(2), with = "form")]
    pub flags: u32,
}

impl Details {
    /// Of a row of a base, if ctime [proves nothing](ctime::proves_contents) there.
    pub fn needed_of(entry: &Entry) -> Option<Box<Self>> {
        let is_needed = !entry.link && !ctime::proves_contents(entry.mtime, entry.ctime);
        is_needed.then(|| {
            let Entry { target, xattrs, inode_flags, .. } = entry;
            Box::new(Self { target: target.clone(), xattrs: xattrs.clone(), flags: *inode_flags })
        })
    }

    /// Whether a row that was made says the same.
    pub fn are_of(&self, entry: &Entry) -> bool {
        (&self.target, &self.xattrs, self.flags)
            == (&entry.target, &entry.xattrs, entry.inode_flags)
    }
}

/// A range of a file's contents that is on media already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Saved {
    /// Where in the file it begins.
    #[cbor(n(0), with = "form")]
    pub offset: u64,
    /// Its length in bytes.
    #[cbor(n(1), with = "form")]
    pub len: u64,
    /// The stream that has it.
    #[cbor(n(2), with = "form")]
    pub stream: StreamId,
    /// The stream's logical offset at which it begins.
    #[cbor(n(3), with = "form")]
    pub logical: u64,
}

/// What stat says of a name beside its times, its length and its inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Access {
    /// Permission bits.
    #[cbor(n(0), with = "form")]
    pub mode: u16,
    /// Its owner.
    #[cbor(n(1), with = "form")]
    pub uid: u32,
    /// Its group.
    #[cbor(n(2), with = "form")]
    pub gid: u32,
    /// Major and minor number of a device node, else zeros.
    #[cbor(n(3), with = "form")]
    pub rdev: (u32, u32),
}

impl From<&Entry> for Access {
    fn from(entry: &Entry) -> Self {
        let Entry { mode, uid, gid, rdev, .. } = *entry;
        Self { mode, uid, gid, rdev }
    }
}

impl BaseRow {
    /// Whether it has data in these ranges of a file, and in no others.
    pub fn has_data_in(&self, ranges: &[(u64, u64)]) -> bool {
        match &self.data {
            Some(data) => data == ranges,
            None => ranges == [(0, self.size)],
        }
    }
}

/// A row of a base, with its name.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct NamedRow {
    /// Its directory, without leading slash.
    #[cbor(n(0), with = "form")]
    pub dir: Vec<u8>,
    /// Its name there.
    #[cbor(n(1), with = "form")]
    pub name: Vec<u8>,
    /// What the base says of it; a tombstone where it says that the name was removed.
    #[cbor(n(2), with = "form")]
    pub row: BaseRow,
}

/// The base cannot be read any further. Who gives its rows knows why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BaseBroken;

/// The rows of a base in the order of the walk ([`path_order`]), each once: a stream, of which nothing is asked back.
pub trait BaseRows: Send {
    /// The next row; nothing at the end.
    fn next(&mut self) -> Result<Option<NamedRow>, BaseBroken>;
}

/// A file of a base that can be referred to: all of its contents are on media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct BaseFile {
    /// Its inode number.
    #[cbor(n(0), with = "form")]
    pub ino: u64,
    /// The number of the device that its inode was on.
    #[cbor(n(1), with = "form")]
    pub dev: u64,
    /// Its length in bytes.
    #[cbor(n(2), with = "form")]
    pub size: u64,
    /// The time of the last change of its contents.
    #[cbor(n(3), with = "form")]
    pub mtime: Timestamp,
    /// Its inode's time.
    #[cbor(n(4), with = "form")]
    pub ctime: Timestamp,
    /// The checksum of its contents, holes left out, where that is known.
    #[cbor(n(5), with = "form")]
    pub sum: Option<u64>,
    /// The stream that has it, or its row.
    #[cbor(n(6), with = "form")]
    pub stream: StreamId,
    /// Where its contents are.
    #[cbor(n(7), with = "form")]
    pub place: FilePlace,
}

/// Where a file's contents are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum FilePlace {
    /// All in the stream, from a logical offset on.
    #[n(0)]
    Run(#[cbor(n(0), with = "form")] u64),
    /// As its row says.
    #[n(1)]
    Row(#[cbor(n(0), with = "form")] RowPlace),
}

/// Where a row of a stream is. Only who gave it knows what the numbers mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct RowPlace {
    /// The segment, by a number.
    #[cbor(n(0), with = "form")]
    pub segment: u32,
    /// The row, by its number there.
    #[cbor(n(1), with = "form")]
    pub row: u32,
}

/// The contents of a file that lie in several places.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Pieces {
    /// Of a file with holes: where it has data, as offset and length, ascending and apart.
    #[cbor(n(0), with = "form")]
    pub data: Option<Vec<(u64, u64)>>,
    /// All of its contents, ascending and apart.
    #[cbor(n(1), with = "form")]
    pub saved: Vec<Saved>,
}

/// The files of a base, as a stream that is read once, if at all.
pub trait BaseFiles: Sync {
    /// When the last of them had been saved: what came into being later is none of them.
    fn saved_by(&self) -> Timestamp;
    /// Calls with each file, in any order, until that says `false`. An error says why not all can be read.
    fn each(&self, each: &mut dyn FnMut(BaseFile) -> bool) -> Result<(), String>;
    /// Where the contents of a file are that [`each`](Self::each) gave; nothing if not all of them are on media.
    fn pieces(&self, stream: StreamId, at: RowPlace) -> Result<Option<Pieces>, String>;
}

capstan_wire::derived_form!(
    BaseRow, Details, Saved, Access, NamedRow, BaseFile, FilePlace, RowPlace, Pieces
);
