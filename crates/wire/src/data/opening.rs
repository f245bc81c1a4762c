//! What is said first on a data connection, in JSON.

use capstan_format::id::StreamId;
use serde::{Deserialize, Serialize};

use super::Ticket;

/// The newest version of data connections that this program speaks.
pub const DATA_PROTOCOL: u32 = 1;

/// The first message of who dials.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// The newest version of data connections that it speaks.
    pub protocol: u32,
    /// What it shows.
    pub ticket: Ticket,
    /// What it comes for.
    pub of: Of,
}

/// What a data connection is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Of {
    /// The blocks of a stream.
    Blocks {
        /// The stream.
        stream: StreamId,
        /// Bytes of a block, as it was told.
        block_size: u32,
    },
    /// Stored frames.
    Frames,
}

/// The answer: the connection is what it was opened for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The version that is spoken: the newest one that both know.
    pub protocol: u32,
}

/// The answer: it is not. Or, later: nothing is taken, or served, any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Why not, in a sentence.
    pub why: String,
}
