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
use capstan_wire::rows::form;
use minicbor::{Decode, Encode};

use super::lost::AgentLost;

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

/// Why a restore ends before all came.
#[derive(Debug, thiserror::Error)]
pub enum RestoreEnded {
    /// The target has no room left.
    #[error(transparent)]
    Full(#[from] TargetFull),
    /// Nobody answers any more.
    #[error(transparent)]
    Lost(#[from] AgentLost),
}

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
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Name {
    /// Its path in the backup. What is known of a file is kept by it.
    #[cbor(n(0), with = "form")]
    pub stored: Vec<u8>,
    /// The path in the backup under which it is restored, where that is not its own: that of a further name whose first name is not
    /// restored.
    #[cbor(n(1), with = "form")]
    pub shown: Option<Vec<u8>>,
    /// So many bytes of that path are left out in the target.
    #[cbor(n(2), with = "form")]
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
#[derive(Debug, Clone, Encode, Decode)]
pub struct FileRow {
    /// Its names.
    #[cbor(n(0), with = "form")]
    pub name: Name,
    /// Its row, with the owners of where it came from.
    #[cbor(n(1), with = "form")]
    pub entry: Entry,
    /// The owner's name there.
    #[cbor(n(2), with = "form")]
    pub user: Option<Arc<[u8]>>,
    /// The group's name there.
    #[cbor(n(3), with = "form")]
    pub group: Option<Arc<[u8]>>,
    /// The names there of whom its ACLs name.
    #[cbor(n(4), with = "form")]
    pub acl: Option<Arc<AclNames>>,
    /// The stream that has its contents.
    #[cbor(n(5), with = "form")]
    pub stream: StreamId,
    /// The logical byte of the stream at which they begin.
    #[cbor(n(6), with = "form")]
    pub start: u64,
    /// Its length, as far as media bear it out.
    #[cbor(n(7), with = "form")]
    pub believed_len: u64,
    /// Whether some of it could not be read when it was backed up.
    #[cbor(n(8), with = "form")]
    pub is_unreadable: bool,
    /// Only of a row whose metadata a later row replaces: the time at which its contents changed, by the later row.
    #[cbor(n(9), with = "form")]
    pub contents_time: Option<Timestamp>,
}

impl FileRow {
    /// Whether its metadata come with a later row.
    pub fn is_carrier(&self) -> bool {
        self.contents_time.is_some()
    }
}

/// Contents that belong at an offset of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Placed {
    /// Where in the file.
    #[cbor(n(0), with = "form")]
    pub offset: u64,
    /// The stream that has them.
    #[cbor(n(1), with = "form")]
    pub stream: StreamId,
    /// The logical byte of the stream at which they begin.
    #[cbor(n(2), with = "form")]
    pub at: u64,
    /// How many bytes.
    #[cbor(n(3), with = "form")]
    pub len: u64,
    /// Whether they come in the order of the stream that is read now; otherwise they are asked for by themselves.
    #[cbor(n(4), with = "form")]
    pub is_in_order: bool,
}

/// What a disk agent has to know before anything is written.
#[derive(Debug, Encode, Decode)]
pub enum ToPrepare {
    /// A file whose data are lost, and why.
    #[n(0)]
    Lost(#[cbor(n(0), with = "form")] Name, #[cbor(n(1), with = "form")] Cow<'static, str>),
    /// A further name of that file, by its path in the backup, is to be restored.
    #[n(1)]
    First(#[cbor(n(0), with = "form")] Vec<u8>),
    /// A further name whose first name is to be restored too. Asked for where the policy may keep what exists.
    #[n(2)]
    Link(#[cbor(n(0), with = "form")] LinkAsked),
    /// A file that is written in parts, so many bytes in all.
    #[n(3)]
    InParts(#[cbor(n(0), with = "form")] Box<FileRow>, #[cbor(n(1), with = "form")] u64),
}

/// A further name and its first one, as they are to be in the target.
#[derive(Debug, Encode, Decode)]
pub struct LinkAsked {
    /// The row of the further name; its target is the first name.
    #[cbor(n(0), with = "form")]
    pub link: Entry,
    /// Where the first name is to be.
    #[cbor(n(1), with = "form")]
    pub first_to: Vec<u8>,
    /// Where the further name is to be.
    #[cbor(n(2), with = "form")]
    pub to: Vec<u8>,
}

/// What is restored of what a stream has in a segment, in its order.
#[derive(Debug, Encode, Decode)]
pub enum Fed {
    /// A file that is not written in parts.
    #[n(0)]
    File {
        /// The file.
        #[cbor(n(0), with = "form")]
        row: FileRow,
        /// Whether all its contents are in the stream that is read now, though its row is elsewhere.
        #[cbor(n(1), with = "form")]
        is_lent: bool,
    },
    /// What has a name and no contents.
    #[n(1)]
    Node(#[cbor(n(0), with = "form")] FileRow),
    /// Contents of a file that is written in parts.
    #[n(2)]
    Parts(#[cbor(n(0), with = "form")] Name, #[cbor(n(1), with = "form")] Vec<Placed>),
    /// A file whose data are lost, and why.
    #[n(3)]
    Lost(#[cbor(n(0), with = "form")] Name, #[cbor(n(1), with = "form")] Cow<'static, str>),
    /// A file of that many bytes whose data cannot be had.
    #[n(4)]
    NotHad(
        #[cbor(n(0), with = "form")] Name,
        #[cbor(n(1), with = "form")] u64,
        #[cbor(n(2), with = "form")] Lack,
    ),
    /// What the backup found of a file.
    #[n(5)]
    Found(
        #[cbor(n(0), with = "form")] Name,
        #[cbor(n(1), with = "form")] Code,
        #[cbor(n(2), with = "form")] String,
    ),
}

/// A further name of a file.
#[derive(Debug, Encode, Decode)]
pub struct LinkRow {
    /// The row of the further name; its entry's target is the first name.
    #[cbor(n(0), with = "form")]
    pub row: FileRow,
    /// The name that has the contents, where that is not the first name, as that is not restored.
    #[cbor(n(1), with = "form")]
    pub instead: Option<Vec<u8>>,
    /// The name that has the contents, below the target; nothing where it has none there.
    #[cbor(n(2), with = "form")]
    pub first_to: Option<Vec<u8>>,
}

/// What is done when all contents are there, in this order.
#[derive(Debug, Encode, Decode)]
pub enum ToFinish {
    /// A file whose data are lost, and why, if it was not left as it was.
    #[n(0)]
    Lost(#[cbor(n(0), with = "form")] Name, #[cbor(n(1), with = "form")] Cow<'static, str>),
    /// A file that was written in parts, or whose contents are an earlier version's, gets its metadata.
    #[n(1)]
    File {
        /// The file.
        #[cbor(n(0), with = "form")]
        row: FileRow,
        /// Whether its contents are an earlier version's.
        #[cbor(n(1), with = "form")]
        is_as_in: bool,
    },
    /// A further name is made.
    #[n(2)]
    Link(#[cbor(n(0), with = "form")] LinkRow),
    /// A directory is made, also one that has no files. All are made before any gets its times.
    #[n(3)]
    MakeDir(#[cbor(n(0), with = "form")] Name),
    /// A directory gets its metadata.
    #[n(4)]
    Dir {
        /// The directory.
        #[cbor(n(0), with = "form")]
        row: FileRow,
        /// Only where this restore made it.
        #[cbor(n(1), with = "form")]
        if_made: bool,
    },
    /// What was restored gets its inode flags.
    #[n(5)]
    Flags {
        /// Its names.
        #[cbor(n(0), with = "form")]
        name: Name,
        /// Its row.
        #[cbor(n(1), with = "form")]
        entry: Entry,
        /// A directory only where this restore made it.
        #[cbor(n(2), with = "form")]
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
#[derive(Debug, Encode, Decode)]
pub struct ToForesee {
    /// Its row.
    #[cbor(n(0), with = "form")]
    pub entry: Entry,
    /// The owner's name where it came from.
    #[cbor(n(1), with = "form")]
    pub user: Option<Arc<[u8]>>,
    /// The group's name there.
    #[cbor(n(2), with = "form")]
    pub group: Option<Arc<[u8]>>,
    /// The names there of whom its ACLs name.
    #[cbor(n(3), with = "form")]
    pub acl: Option<Arc<AclNames>>,
    /// Where it would be, below the target; nothing where it has no place there.
    #[cbor(n(4), with = "form")]
    pub to: Option<Vec<u8>>,
    /// Of a further name: where its first one would be.
    #[cbor(n(5), with = "form")]
    pub first_to: Option<Vec<u8>>,
}

/// What would become of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Prospect {
    /// What is there stays.
    #[n(0)]
    Stays,
    /// It comes.
    #[n(1)]
    Comes {
        /// Whether the place of its first name has something else that stays.
        #[cbor(n(0), with = "form")]
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
    fn has(&self, names: &[Vec<u8>]) -> Result<Vec<bool>, AgentLost>;
    /// Says of names what would become of them, and counts that. Nothing is made.
    fn foresee(&self, rows: &[ToForesee]) -> Result<Vec<Prospect>, AgentLost>;
    /// What would be left alone.
    fn left_alone(&self) -> Result<LeftAlone, AgentLost>;
    /// Begins a restore into it.
    fn restore<'a>(self: Box<Self>, with: RestoreWith<'a>) -> Box<dyn RestoreRun + 'a>;
}

/// A restore.
pub trait RestoreRun: Send + Sync {
    /// Takes what it has to know before anything is written. What is wrong is said when more comes.
    fn prepare(&mut self, rows: &mut Vec<ToPrepare>);
    /// The first names whose places have something else that is kept, each with the further name that gets the contents or has them.
    fn kept_firsts(&mut self) -> Vec<(Vec<u8>, Vec<u8>)>;
    /// A worker, for one thread. `frames` gives frames of any stream out of order.
    fn worker<'w>(&'w self, frames: Box<dyn FramePort + 'w>) -> Box<dyn RestoreWorker + 'w>;
    /// Everything has come that will: the one who finishes.
    fn finish<'w>(&'w self) -> Box<dyn RestoreFinish + 'w>;
    /// Ends it: what was not finished is dated so that nobody takes it for whole, and what could not take its place is withdrawn.
    fn end(&self, how: Ending) -> Result<(), RestoreEnded>;
    /// What it did so far.
    fn counts(&self) -> RestoreCounts;
    /// What came of it. Says of an object what could not be restored, each in total.
    fn done(&self, object: &str) -> RestoreDone;
}

/// One thread's share of a restore.
pub trait RestoreWorker {
    /// Another stream comes, or the same one from elsewhere.
    fn begin_stream(&mut self);
    /// Takes rows of the stream that is read now; `frames` gives its frames. They may be written later.
    fn feed(&mut self, rows: &mut Vec<Fed>, frames: &mut dyn FramePort)
    -> Result<(), RestoreEnded>;
    /// Nothing more comes of the stream: what was taken of it is written.
    fn end_stream(&mut self, frames: &mut dyn FramePort) -> Result<(), RestoreEnded>;
}

/// The end of a restore, on one thread.
pub trait RestoreFinish {
    /// Takes rows.
    fn rows(&mut self, rows: &mut Vec<ToFinish>) -> Result<(), RestoreEnded>;
    /// Finishes the directories that their owner may not enter.
    fn end(self: Box<Self>) -> Result<(), RestoreEnded>;
}

capstan_wire::derived_form!(
    Name, FileRow, Placed, ToPrepare, LinkAsked, Fed, LinkRow, ToFinish, ToForesee, Prospect
);
