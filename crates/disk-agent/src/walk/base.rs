//! What a walk is told of the version that a backup builds on, or goes on with: name by name, in the order of the walk.

use capstan_format::entry::{Entry, Kind, Timestamp, Xattr};
use capstan_format::id::StreamId;
use rustix::fs::Stat;

use crate::ctime;
use crate::linux::source;
use crate::linux::source::Access;

/// What a base says of a name: enough to see whether it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BaseRow {
    /// Whether all of it can be restored from the base. If not, it is to be saved again.
    pub complete: bool,
    /// The checksum of its contents, holes left out, where that is known.
    pub sum: Option<u64>,
    /// Its kind.
    pub kind: Kind,
    /// Its permissions and owners, and of a device node its numbers; unknown of a [file known by its
    /// inode](crate::backup::KnownFiles).
    pub access: Option<Access>,
    /// What else its row says, where its ctime would not tell that it changed; unknown of a file known by its inode.
    pub details: Option<Box<Details>>,
    /// Its length in bytes.
    pub size: u64,
    /// Its times.
    pub mtime: Timestamp,
    /// Its inode's time.
    pub ctime: Timestamp,
    /// Its inode number.
    pub ino: u64,
    /// The number of the device that its inode was on.
    pub dev: u64,
    /// Of a file with holes: where it has data, as offset and length, ascending and apart.
    pub data: Option<Vec<(u64, u64)>>,
    /// The first name of the same file, where this is a further one.
    pub link_to: Option<Vec<u8>>,
    /// What of its contents can be referred to where it is, ascending and apart: of a file that is not complete what an earlier run
    /// of the same version has, of a [file known by its inode](crate::backup::KnownFiles) all.
    pub saved: Vec<Saved>,
}

/// What stat does not say of a name, beside its contents.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Details {
    /// A symbolic link's text.
    pub target: Vec<u8>,
    /// Its extended attributes.
    pub xattrs: Vec<Xattr>,
    /// Its inode flags.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Saved {
    /// Where in the file it begins.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The stream that has it.
    pub stream: StreamId,
    /// The stream's logical offset at which it begins.
    pub logical: u64,
}

impl BaseRow {
    /// Whether it describes what stat says, apart from whose link it is.
    pub fn is_of(&self, stat: &Stat) -> bool {
        let kind = source::kind_of_mode(stat.st_mode);
        kind == Some(self.kind)
            && self.size == source::size_of(self.kind, stat)
            && self.mtime == source::mtime_of(stat)
            && self.ctime == source::ctime_of(stat)
            && self.ino == stat.st_ino
            && self.access.is_none_or(|access| access == source::access_of(self.kind, stat))
    }

    /// Whether it describes what stat says, and stat proves that nothing else changed. A further name has nothing else.
    pub fn is_certainly_of(&self, stat: &Stat) -> bool {
        let is_proof = ctime::proves_contents(source::mtime_of(stat), source::ctime_of(stat));
        self.is_of(stat) && (is_proof || self.link_to.is_some())
    }

    /// Whether it has data in these ranges of a file, and in no others.
    pub fn has_data_in(&self, ranges: &[(u64, u64)]) -> bool {
        match &self.data {
            Some(data) => data == ranges,
            None => ranges == [(0, self.size)],
        }
    }
}

/// Looks names up in a base. Asked in the order of the walk, so that memory stays flat.
pub trait BaseCursor: Send {
    /// What the base has under that name. What it has before that name and was not asked for is `passed`.
    fn find(
        &mut self,
        dir: &[u8],
        name: &[u8],
        passed: &mut Vec<(Vec<u8>, Vec<u8>)>,
    ) -> Option<BaseRow>;
    /// What is left after the last name asked for.
    fn rest(&mut self, passed: &mut Vec<(Vec<u8>, Vec<u8>)>);
    /// Whether it cannot be read any further. The walk ends then: it would take what the base has for what it lacks.
    fn is_broken(&self) -> bool {
        false
    }
}
