//! A restore into an archive, which a disk agent writes.
//!
//! The cell pushes members in the order of the archive. It says of each where its contents lie; the disk agent asks for their frames,
//! opens them, and writes the member.

use std::sync::Arc;

use capstan_engine::frames::{FramePort, Lack};
use capstan_engine::problem::Problem;
use capstan_format::acl::AclNames;
use capstan_format::entry::Entry;
use capstan_wire::restore::RestoreCounts;
use capstan_wire::rows::form;
use minicbor::{Decode, Encode};

use super::contents::Piece;
use super::lost::AgentLost;
use super::restore::RestoreWith;

/// The archive cannot be written.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct ArchiveFailed(pub Problem);

impl From<AgentLost> for ArchiveFailed {
    fn from(AgentLost(why): AgentLost) -> Self {
        Self(why)
    }
}

/// Why an archive is not opened. Its text is the sentence, without what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArchiveRefused {
    /// Its file cannot be made, and why.
    #[error("it cannot be made: {0}")]
    NotMade(String),
    /// Whoever started the disk agent closed its standard output.
    #[error("standard output is closed")]
    OutputClosed,
    /// Nobody answers.
    #[error(transparent)]
    Lost(#[from] AgentLost),
}

/// What can be had of a file.
#[derive(Debug, Encode, Decode)]
pub struct Planned {
    /// Its bytes; what is between them are zeros.
    #[cbor(n(0), with = "form")]
    pub pieces: Vec<Piece>,
    /// Its length, as far as it is believed.
    #[cbor(n(1), with = "form")]
    pub len: u64,
    /// Why some of it is lost, if it is.
    #[cbor(n(2), with = "form")]
    pub lost: Option<Lack>,
}

/// A row that is to become a member.
#[derive(Debug, Encode, Decode)]
pub struct Member {
    /// The row.
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
    /// What further names of its inode call it.
    #[cbor(n(4), with = "form")]
    pub first: Vec<u8>,
    /// Its name in the archive.
    #[cbor(n(5), with = "form")]
    pub name: Vec<u8>,
    /// Its path in messages.
    #[cbor(n(6), with = "form")]
    pub shown: String,
    /// Whether it was in the archive before: a directory whose times come again.
    #[cbor(n(7), with = "form")]
    pub is_again: bool,
    /// Its contents, where it has any; or why nothing of them can be had.
    #[cbor(n(8), with = "form")]
    pub contents: Option<Result<Planned, Lack>>,
}

/// Whether an archive goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GoesOn {
    /// More may come.
    Yes,
    /// It was ended within a member: this one, or one that was added before.
    No,
}

/// What an archive came to so far. On another host it is told by events.
pub trait ArchiveCounting: Send + Sync {
    /// What was done so far.
    fn counts(&self) -> RestoreCounts;
}

/// An archive that was opened, and of which nothing is written.
pub trait OpenArchive<'a> {
    /// What it comes to while it is written.
    fn counting(&self) -> Arc<dyn ArchiveCounting>;
    /// Begins to write it. `frames` gives frames of any stream.
    fn begin(
        self: Box<Self>,
        with: RestoreWith<'a>,
        frames: Box<dyn FramePort + 'a>,
    ) -> Result<Box<dyn ArchiveRun + 'a>, ArchiveFailed>;
}

/// An archive that is written.
pub trait ArchiveRun {
    /// How many bytes can be held at a time.
    fn room(&self) -> u64;
    /// Reads pieces of files that go on on another tape, and holds them until the files come. What cannot be read or kept is read when the
    /// file is written, and what is wrong is said then.
    fn hold(&mut self, pieces: &[Piece]);
    /// Says what members will need that come next, in their order. Without it, the frames of a member are asked for when it comes.
    fn expect(&mut self, _pieces: &[Piece]) {}
    /// Takes a member, to be written now or later: errors may come with a later one, or at the end. One that is left out is said to be.
    fn add(&mut self, member: Member) -> Result<GoesOn, ArchiveFailed>;
    /// Writes the archive's end; or, where it `is_cut`, only what is not written yet.
    fn end(self: Box<Self>, is_cut: bool) -> Result<(), ArchiveFailed>;
}

capstan_wire::derived_form!(Planned, Member);
