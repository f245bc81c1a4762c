//! What a disk agent holds against its file systems: the rows of a version for a comparison, what a drill restored for its proof.
//!
//! Rows are pushed in their order, several at a time; what is found of them comes back in the same order. Nothing is waited for.

use std::sync::Arc;

use capstan_engine::frames::Lack;
use capstan_engine::problem::Explain;
use capstan_engine::threads::NoThread;
use capstan_format::acl::AclNames;
use capstan_format::entry::Entry;
use capstan_select::BadPattern;
use capstan_wire::rows::form;
use minicbor::{Decode, Encode};

use super::contents::Piece;
use super::lost::AgentLost;

/// No more rows can be read. Who gives them knows why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsBroken;

/// Rows, and what is found of each.
pub trait Inquiry<R, F> {
    /// The next rows; none at the end.
    fn rows(&mut self) -> Result<Vec<R>, RowsBroken>;
    /// Takes what was found.
    fn found(&mut self, found: F);
}

/// Why a check cannot be made, or go on.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// What is left out is not understood.
    #[error(transparent)]
    Pattern(#[from] BadPattern),
    /// No thread could be started.
    #[error(transparent)]
    NoThread(#[from] NoThread),
    /// The rows cannot be read to their end.
    #[error("the rows cannot be read to their end")]
    Rows,
    /// The operating system.
    #[error("cannot open {path}: {source}")]
    Open {
        /// What could not be opened.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// Nobody answers any more.
    #[error(transparent)]
    Lost(#[from] AgentLost),
}

/// Why no scratch directory is made. Its text is the sentence, without what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScratchError {
    /// Nothing can be made there.
    #[error("cannot restore into {dir}: {why}")]
    NotWritable {
        /// The directory in which it was to be.
        dir: String,
        /// Why not.
        why: String,
    },
    /// There is too little room.
    #[error("{dir} has no room for the sample of {megabytes} MB")]
    NoRoom {
        /// The directory in which it was to be.
        dir: String,
        /// What the sample takes.
        megabytes: u64,
    },
    /// Nobody answers.
    #[error(transparent)]
    Lost(#[from] AgentLost),
}

impl Explain for ScratchError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NotWritable { .. } => {
                "name a directory in which you may write with --scratch".to_owned()
            }
            Self::NoRoom { .. } => {
                "take a smaller --sample, or another place with --scratch".to_owned()
            }
            Self::Lost(lost) => return lost.hint(),
        })
    }
}

impl From<RowsBroken> for CheckError {
    fn from(RowsBroken: RowsBroken) -> Self {
        Self::Rows
    }
}

/// A row of a version that is compared.
#[derive(Debug, Clone, Encode, Decode)]
pub struct ComparedRow {
    /// The row.
    #[cbor(n(0), with = "form")]
    pub entry: Entry,
    /// Where its contents lie that are to be compared, ascending.
    #[cbor(n(1), with = "form")]
    pub pieces: Option<Vec<Piece>>,
}

/// A name as it is in the file system.
#[derive(Debug, Clone, Encode, Decode)]
pub struct Looked {
    /// Its row.
    #[cbor(n(0), with = "form")]
    pub entry: Entry,
    /// The owner's name.
    #[cbor(n(1), with = "form")]
    pub user: Option<Vec<u8>>,
    /// The group's name.
    #[cbor(n(2), with = "form")]
    pub group: Option<Vec<u8>>,
    /// The names of whom its ACLs name.
    #[cbor(n(3), with = "form")]
    pub acl: Option<Arc<AclNames>>,
}

/// What a comparison found, in the order of the walk.
#[derive(Debug, Encode, Decode)]
pub enum Met {
    /// A name that is asked for, and that the version does not have.
    #[n(0)]
    New(#[cbor(n(0), with = "form")] Box<Looked>),
    /// A file that is asked for, by its path, and that the backup left out by its size.
    #[n(1)]
    OtherSize(#[cbor(n(0), with = "form")] Vec<u8>),
    /// What the next row says is gone.
    #[n(2)]
    Gone,
    /// The next row is not asked for.
    #[n(3)]
    NotAsked,
    /// The next row is asked for, and lies in a directory that was not entered.
    #[n(4)]
    Closed,
    /// What the next row says is there.
    #[n(5)]
    Both(#[cbor(n(0), with = "form")] Box<Both>),
}

/// A name that both sides have.
#[derive(Debug, Encode, Decode)]
pub struct Both {
    /// What it is now. A further name is one still where it is a name of its first one.
    #[cbor(n(0), with = "form")]
    pub now: Looked,
    /// Whether it came into being after the row: then its time of change is no sign of anything else.
    #[cbor(n(1), with = "form")]
    pub is_new_inode: bool,
    /// What came of comparing contents.
    #[cbor(n(2), with = "form")]
    pub contents: Contents,
}

/// What came of comparing the contents of a file.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Contents {
    /// They were not to be compared, or cannot be the same.
    #[n(0)]
    NotCompared,
    /// Every byte is the same.
    #[n(1)]
    Same,
    /// Some byte differs.
    #[n(2)]
    Other,
    /// The file could not be read, and why.
    #[n(3)]
    Unreadable(#[cbor(n(0), with = "form")] String),
    /// What the version has could not be read.
    #[n(4)]
    Lacking(#[cbor(n(0), with = "form")] Lack),
    /// The comparison was stopped.
    #[n(5)]
    Stopped,
}

/// A file that was restored by a drill.
#[derive(Debug, Clone, Encode, Decode)]
pub struct ProofRow {
    /// Its path, without leading slash.
    #[cbor(n(0), with = "form")]
    pub path: Vec<u8>,
    /// The row that has its data.
    #[cbor(n(1), with = "form")]
    pub entry: Entry,
    /// The checksum of its contents, holes left out, where that is known.
    #[cbor(n(2), with = "form")]
    pub sum: Option<u64>,
}

/// What a proof found of a file.
#[derive(Debug, Encode, Decode)]
pub struct Proven {
    /// What was restored, if anything; or why it cannot be read.
    #[cbor(n(0), with = "form")]
    pub restored: Result<Option<Looked>, String>,
    /// The checksum of that, where there is one to hold it against; or why it cannot be read.
    #[cbor(n(1), with = "form")]
    pub sum: Option<Result<u64, String>>,
    /// Whether the live file is as it was backed up by its times, and has the very bytes; nothing where it is no witness. An error says
    /// why what was restored cannot be read.
    #[cbor(n(2), with = "form")]
    pub is_as_live: Result<Option<bool>, String>,
}

capstan_wire::derived_form!(ComparedRow, Looked, Met, Both, Contents, ProofRow, Proven);
