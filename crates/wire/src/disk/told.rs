//! What a disk agent says in a long conversation.

use capstan_format::id::{MediumId, StreamId};
use serde::{Deserialize, Serialize};

use super::said::EndedSaid;
use crate::backup::{Counts, Noted};
use crate::host::Processors;
use crate::restore::{LeftAlone, RestoreCounts, RestoreDone};

/// One message. `D` is what the conversation comes to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FromAgent<D> {
    /// How far it is.
    Told(Box<Told>),
    /// A message about something.
    Message(MessageTold),
    /// A file of that many bytes lies on a medium that is away.
    Away {
        /// The medium.
        medium: MediumId,
        /// Where it is.
        why: String,
        /// The file's length.
        bytes: u64,
    },
    /// A range of a stream cannot be read.
    Lost {
        /// The stream.
        stream: StreamId,
        /// Its first byte.
        from: u64,
        /// The byte behind it.
        to: u64,
    },
    /// There is room for so many more messages of rows.
    More(u32),
    /// A frame is asked for.
    Frame {
        /// Whether it is of any stream, out of order.
        anywhere: bool,
        /// The stream.
        stream: StreamId,
        /// The logical byte that it has.
        at: u64,
    },
    /// An answer, or the end.
    Done(D),
}

/// How far a conversation is: what is not said has not changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Told {
    /// What stages did since it was told last.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub meters: Vec<Metered>,
    /// What the processors did.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub processors: Option<Processors>,
    /// What a backup counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counts: Option<Counts>,
    /// What it noted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub noted: Option<Noted>,
    /// What a restore counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub restored: Option<RestoreCounts>,
}

/// What a stage did since it was told last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Metered {
    /// The stage, by its name in reports.
    pub stage: String,
    /// Nanoseconds at work.
    pub busy: u64,
    /// Nanoseconds waiting for input.
    pub wait_in: u64,
    /// Nanoseconds waiting to hand output on.
    pub wait_out: u64,
    /// Bytes.
    pub bytes: u64,
}

/// A message about something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageTold {
    /// The number of its code.
    pub code: u16,
    /// Who says it.
    pub agent: String,
    /// What it is about, as it is shown.
    pub path: String,
    /// What happened.
    pub text: String,
    /// When, in microseconds since 1970, by the agent's clock.
    pub time_us: i64,
}

/// What a target answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TargetAnswer {
    /// Why no names can be made.
    NotWritable(Option<String>),
    /// Of which names there is something.
    Has(Vec<bool>),
    /// What was asked comes as rows.
    Rows,
    /// What would be left alone.
    LeftAlone(LeftAlone),
    /// How it ended.
    Ended(Result<(), EndedSaid>),
    /// What came of it.
    Done(RestoreDone),
}

/// What a worker of a restore answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkerAnswer {
    /// One message of rows was written.
    Fed,
    /// All that came was written.
    All,
    /// Nothing more is.
    Ended(EndedSaid),
}

/// What an archive answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ArchiveAnswer {
    /// It begins, with so much room for what is held.
    Begun(u64),
    /// One message of rows was taken. Whether it goes on.
    Taken(bool),
    /// It ended; or cannot be written.
    Ended(Result<(), super::said::ProblemSaid>),
}
