//! What a restore is told of the files that it makes.

use capstan_format::acl::AclNames;
use capstan_format::entry::{Entry, Timestamp};
use capstan_format::id::StreamId;

/// A file by its names.
#[derive(Debug, Clone, Copy)]
pub struct Named<'n> {
    /// Its path in the backup. What is known of a file is kept by it.
    pub stored: &'n [u8],
    /// The path in the backup under which it is restored: its own, or that of a further name whose first name is not restored.
    pub shown: &'n [u8],
    /// That path below the target.
    pub to: &'n [u8],
}

/// A file, or whatever has a name and is no directory.
#[derive(Debug, Clone, Copy)]
pub struct FileRow<'r> {
    /// Its names.
    pub name: Named<'r>,
    /// Its row, with the owners of where it came from.
    pub entry: &'r Entry,
    /// The owner's name there.
    pub user: Option<&'r [u8]>,
    /// The group's name there.
    pub group: Option<&'r [u8]>,
    /// The names there of whom its ACLs name.
    pub acl: Option<&'r AclNames>,
    /// The stream that has its contents.
    pub stream: StreamId,
    /// The logical byte of the stream at which they begin.
    pub start: u64,
    /// Its length, as far as media bear it out.
    pub believed_len: u64,
    /// Whether some of it could not be read when it was backed up.
    pub is_unreadable: bool,
    /// Only of a row whose metadata a later row replaces: the time at which its contents changed, by the later row.
    pub contents_time: Option<Timestamp>,
}

impl FileRow<'_> {
    /// Whether its metadata come with a later row.
    pub fn is_carrier(&self) -> bool {
        self.contents_time.is_some()
    }
}

/// Contents that belong at an offset of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where in the file.
    pub offset: u64,
    /// The stream that has them.
    pub stream: StreamId,
    /// The logical byte of the stream at which they begin.
    pub at: u64,
    /// How many bytes.
    pub len: u64,
    /// Whether they come in the order of the stream that is read now; otherwise they are asked for by themselves.
    pub is_in_order: bool,
}

/// A further name of a file.
#[derive(Debug, Clone, Copy)]
pub struct LinkRow<'r> {
    /// The row of the further name; its entry's target is the first name.
    pub row: FileRow<'r>,
    /// The name that has the contents, where that is not the first name, as that is not restored.
    pub instead: Option<&'r [u8]>,
    /// The name that has the contents, below the target; nothing where it has none there.
    pub first_to: Option<&'r [u8]>,
}
