//! What a cell says to a disk agent.

use capstan_engine::reach::Reach;
use serde::{Deserialize, Serialize};

use crate::as_text;
use crate::backup::{BackupJob, Trees};
use crate::check::{CompareJob, ProofJob, ScratchAsked};
use crate::keys::SessionKey;
use crate::probe::Work;
use crate::restore::{ArchiveSpec, TargetSpec};
use crate::source::{PathsAsked, RootsAsked};

/// The first message on a channel.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DiskAsk {
    /// What the processors did.
    Processors,
    /// Where paths lead.
    Paths(PathsAsked),
    /// What roots are.
    Roots(RootsAsked),
    /// How fast a source is read.
    Probe {
        /// What is read.
        trees: Box<Trees>,
        /// What is done with it.
        work: Option<Work>,
    },
    /// To make a backup job ready.
    Ready(Box<BackupJob>),
    /// To compare.
    Compare {
        /// What, and how.
        job: Box<CompareJob>,
        /// Whether contents are compared.
        has_frames: bool,
    },
    /// To prove what a drill restored.
    Prove(ProofJob),
    /// To open a target.
    OpenTarget(TargetSpec),
    /// To open an archive.
    OpenArchive(ArchiveSpec),
    /// To make a scratch directory. It is removed when the channel ends.
    MakeScratch(ScratchAsked),
    /// The channel belongs to a conversation that was begun.
    Part {
        /// What the other side called it.
        of: u64,
        /// What for.
        part: Part,
    },
}

/// What a further channel of a conversation is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// Rows of a backup's base.
    Base,
    /// Files of a backup's base.
    Files,
    /// A worker of a restore, by its number.
    Worker(u32),
    /// The end of a restore.
    Finish,
}

/// What a job that is ready is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobAsk {
    /// To run.
    Run {
        /// Where blocks are taken.
        blocks: Reach,
        /// Bytes of a block.
        block_size: u32,
        /// What it builds on.
        base: OnBase,
    },
    /// To say what it would do.
    Foresee(OnBase),
    /// The step of the ladder of compression.
    Step(u32),
}

/// What a job builds on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct OnBase {
    /// What the conversation is called on further channels.
    pub of: u64,
    /// Whether rows come, on a channel of their own.
    pub has_rows: bool,
    /// Whether files can be asked for, and when the last of them had been saved: seconds and nanoseconds.
    pub saved_by: Option<(i64, u32)>,
}

/// What is said on the channel of a base's rows when no more come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RowsEnd {
    /// All came.
    Whole,
    /// The others cannot be read.
    Broken,
}

/// What is asked about a base's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FilesAsk {
    /// All of them: they come as rows.
    Each,
    /// No more of them.
    Enough,
    /// Where the contents lie of those of which the places follow as rows.
    Pieces,
}

/// What an opened target is asked, and told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetAsk {
    /// Why no names can be made in it.
    NotWritable,
    /// Whether it has something of these names.
    Has(Names),
    /// What would become of the rows that follow.
    Foresee,
    /// What would be left alone.
    LeftAlone,
    /// To begin a restore.
    Restore(RestoreBegin),
    /// Which first names are kept.
    KeptFirsts,
    /// That a worker's channel comes.
    Worker(u32),
    /// That the channel for the end comes.
    Finish,
    /// To end.
    End(How),
    /// What came of it, for messages about an object of that name.
    Done(String),
}

/// Names of files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Names(#[serde(with = "as_text::list")] pub Vec<Vec<u8>>);

/// What a restore begins with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreBegin {
    /// What the conversation is called on further channels.
    pub of: u64,
    /// What opens contents.
    pub keys: Vec<SessionKey>,
    /// Whether any file has further names.
    pub has_links: bool,
    /// Whether any file has inode flags.
    pub has_flags: bool,
}

/// How the writing of contents ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// All came.
    Done,
    /// It was stopped.
    Stopped,
    /// It failed.
    Failed,
}

/// What a worker of a restore is told, between rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerAsk {
    /// Another stream comes.
    BeginStream,
    /// Nothing more comes of the stream.
    EndStream,
    /// All rows came, and what is left is to be done.
    End,
}

/// What an opened archive is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArchiveAsk {
    /// To begin.
    Begin(RestoreBegin),
    /// To hold the pieces that follow as rows.
    Hold,
    /// To end.
    End {
        /// Only what is not written yet.
        is_cut: bool,
    },
}
