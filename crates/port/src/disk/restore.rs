//! A restore that a disk agent writes.
//!
//! The cell decides which rows come, in which order, and from where. Before anything is written it pushes what the disk agent has to know
//! ([`ToPrepare`]). Each worker of it then pushes rows of what a stream has in a segment, in their order ([`Fed`]), with the port that
//! has the frames; the disk agent asks for frames, opens them and writes files. When all contents are there, rows are pushed once more
//! for metadata, further names and directories ([`ToFinish`]). Rows are pushed several at a time. What does not come is said to a
//! [`RestoreListener`].

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capstan_engine::frames::{FramePort, Lack};
use capstan_engine::message::Code;
use capstan_engine::meter::Meters;
use capstan_engine::problem::{Explain, Problem};
use capstan_format::acl::AclNames;
use capstan_format::entry::{Entry, Timestamp};
use capstan_format::id::{MediumId, StreamId};
use capstan_wire::keys::SessionKey;
use capstan_wire::restore::{LeftAlone, RestoreCounts, RestoreDone};

/// The target cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TargetRefused(pub Problem);

impl Explain for TargetRefused {
    fn hint(&self) -> Option<String> {
        self.0.hint.clone()
    }
}

/// The target has no room left: the restore ends.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TargetFull(pub Problem);

/// Who takes what a restore says. Called from several threads.
pub trait RestoreListener: Sync {
    /// Takes a message about something: its path as it is shown.
    fn say(&self, code: Code, agent: &'static str, path: &str, text: String);
    /// Takes a file of that many bytes which lies on a medium that is away; `why` follows the medium's name.
    fn away(&self, medium: MediumId, why: &str, bytes: u64);
    /// Takes a range of a stream that cannot be read: it may cost other files too.
    fn lost(&self, stream: StreamId, from: u64, to: u64);
}

/// A file by its names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Name {
    /// Its path in the backup. What is known of a file is kept by it.
    pub stored: Vec<u8>,
    /// The path in the backup under which it is restored, where that is not its own: that of a further name whose first name is not
    /// restored.
    pub shown: Option<Vec<u8>>,
    /// So many bytes of that path are left out in the target.
    pub stripped: usize,
}

impl Name {
    /// Its path in the backup.
    pub fn stored(&self) -> &[u8] {
        &self.stored
    }

    /// The path in the backup under which it is restored.
    pub fn shown(&self) -> &[u8] {
        self.shown.as_deref().unwrap_or(&self.stored)
    }

    /// That path below the target.
    pub fn to(&self) -> &[u8] {
        self.shown().get(self.stripped..).unwrap_or_default()
    }
}

/// A file, or whatever has a name.
#[derive(Debug, Clone)]
pub struct FileRow {
    /// Its names.
    pub name: Name,
    /// Its row, with the owners of where it came from.
    pub entry: Entry,
    /// The owner's name there.
    pub user: Option<Arc<[u8]>>,
    /// The group's name there.
    pub group: Option<Arc<[u8]>>,
    /// The names there of whom its ACLs name.
    pub acl: Option<Arc<AclNames>>,
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

impl FileRow {
    /// Whether its metadata come with a later row.
    pub fn is_carrier(&self) -> bool {
        self.contents_time.is_some()
    }
}

/// Contents that belong at an offset of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Placed {
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

/// What a disk agent has to know before anything is written.
#[derive(Debug)]
pub enum ToPrepare {
    /// A file whose data are lost, and why.
    Lost(Name, Cow<'static, str>),
    /// A further name of that file, by its path in the backup, is to be restored.
    First(Vec<u8>),
    /// A further name whose first name is to be restored too. Asked for where the policy may keep what exists.
    Link(LinkAsked),
    /// A file that is written in parts, so many bytes in all.
    InParts(Box<FileRow>, u64),
}

/// A further name and its first one, as they are to be in the target.
#[derive(Debug)]
pub struct LinkAsked {
    /// The row of the further name; its target is the first name.
    pub link: Entry,
    /// Where the first name is to be.
    pub first_to: Vec<u8>,
    /// Where the further name is to be.
    pub to: Vec<u8>,
}

/// What is restored of what a stream has in a segment, in its order.
#[derive(Debug)]
pub enum Fed {
    /// A file that is not written in parts.
    File {
        /// The file.
        row: FileRow,
        /// Whether all its contents are in the stream that is read now, though its row is elsewhere.
        is_lent: bool,
    },
    /// What has a name and no contents.
    Node(FileRow),
    /// Contents of a file that is written in parts.
    Parts(Name, Vec<Placed>),
    /// A file whose data are lost, and why.
    Lost(Name, Cow<'static, str>),
    /// A file of that many bytes whose data cannot be had.
    NotHad(Name, u64, Lack),
    /// What the backup found of a file.
    Found(Name, Code, String),
}

/// A further name of a file.
#[derive(Debug)]
pub struct LinkRow {
    /// The row of the further name; its entry's target is the first name.
    pub row: FileRow,
    /// The name that has the contents, where that is not the first name, as that is not restored.
    pub instead: Option<Vec<u8>>,
    /// The name that has the contents, below the target; nothing where it has none there.
    pub first_to: Option<Vec<u8>>,
}

/// What is done when all contents are there, in this order.
#[derive(Debug)]
pub enum ToFinish {
    /// A file whose data are lost, and why, if it was not left as it was.
    Lost(Name, Cow<'static, str>),
    /// A file that was written in parts, or whose contents are an earlier version's, gets its metadata.
    File {
        /// The file.
        row: FileRow,
        /// Whether its contents are an earlier version's.
        is_as_in: bool,
    },
    /// A further name is made.
    Link(LinkRow),
    /// A directory is made, also one that has no files. All are made before any gets its times.
    MakeDir(Name),
    /// A directory gets its metadata.
    Dir {
        /// The directory.
        row: FileRow,
        /// Only where this restore made it.
        if_made: bool,
    },
    /// What was restored gets its inode flags.
    Flags {
        /// Its names.
        name: Name,
        /// Its row.
        entry: Entry,
        /// A directory only where this restore made it.
        if_made: bool,
    },
}

/// How the writing of contents ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// All came that was to come, and was finished.
    Done,
    /// It was stopped.
    Stopped,
    /// It failed, which is said.
    Failed,
}

/// A name that would be restored.
#[derive(Debug)]
pub struct ToForesee {
    /// Its row.
    pub entry: Entry,
    /// The owner's name where it came from.
    pub user: Option<Arc<[u8]>>,
    /// The group's name there.
    pub group: Option<Arc<[u8]>>,
    /// The names there of whom its ACLs name.
    pub acl: Option<Arc<AclNames>>,
    /// Where it would be, below the target; nothing where it has no place there.
    pub to: Option<Vec<u8>>,
    /// Of a further name: where its first one would be.
    pub first_to: Option<Vec<u8>>,
}

/// What would become of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prospect {
    /// What is there stays.
    Stays,
    /// It comes.
    Comes {
        /// Whether the place of its first name has something else that stays.
        is_first_kept: bool,
    },
}

/// What a restore is connected to.
pub struct RestoreWith<'a> {
    /// Who takes what it says.
    pub listener: &'a dyn RestoreListener,
    /// Where the time goes.
    pub meters: &'a Meters,
    /// Set to end early.
    pub stop: &'a AtomicBool,
    /// What opens contents.
    pub keys: Vec<SessionKey>,
    /// Whether any file has further names.
    pub has_links: bool,
    /// Whether any file has inode flags.
    pub has_flags: bool,
}

/// A directory tree that is restored into.
pub trait RestoreTarget: Send {
    /// Why no names can be made in it, if that is so.
    fn not_writable(&self) -> Option<String>;
    /// Whether it has something of each of these names.
    fn has(&self, names: &[Vec<u8>]) -> Vec<bool>;
    /// Says of names what would become of them, and counts that. Nothing is made.
    fn foresee(&self, rows: &[ToForesee]) -> Vec<Prospect>;
    /// What would be left alone.
    fn left_alone(&self) -> LeftAlone;
    /// Begins a restore into it.
    fn restore<'a>(self: Box<Self>, with: RestoreWith<'a>) -> Box<dyn RestoreRun + 'a>;
}

/// A restore.
pub trait RestoreRun: Send + Sync {
    /// Takes what it has to know before anything is written.
    fn prepare(&mut self, rows: &mut Vec<ToPrepare>);
    /// The first names whose places have something else that is kept, each with the further name that gets the contents or has them.
    fn kept_firsts(&mut self) -> Vec<(Vec<u8>, Vec<u8>)>;
    /// A worker, for one thread. `frames` gives frames of any stream out of order.
    fn worker<'w>(&'w self, frames: Box<dyn FramePort + 'w>) -> Box<dyn RestoreWorker + 'w>;
    /// Everything has come that will: the one who finishes.
    fn finish<'w>(&'w self) -> Box<dyn RestoreFinish + 'w>;
    /// Ends it: what was not finished is dated so that nobody takes it for whole, and what could not take its place is withdrawn.
    fn end(&self, how: Ending) -> Result<(), TargetFull>;
    /// What it did so far.
    fn counts(&self) -> RestoreCounts;
    /// What came of it. Says of an object what could not be restored, each in total.
    fn done(&self, object: &str) -> RestoreDone;
}

/// One thread's share of a restore.
pub trait RestoreWorker {
    /// Another stream comes, or the same one from elsewhere.
    fn begin_stream(&mut self);
    /// Takes rows of the stream that is read now; `frames` gives its frames.
    fn feed(&mut self, rows: &mut Vec<Fed>, frames: &mut dyn FramePort) -> Result<(), TargetFull>;
}

/// The end of a restore, on one thread.
pub trait RestoreFinish {
    /// Takes rows.
    fn rows(&mut self, rows: &mut Vec<ToFinish>) -> Result<(), TargetFull>;
    /// Finishes the directories that their owner may not enter.
    fn end(self: Box<Self>) -> Result<(), TargetFull>;
}
