//! Why a session's writing ended early.

use capstan_engine::problem::{Explain, then};
use capstan_engine::threads::NoThread;
use capstan_format::FormatError;
use capstan_format::id::MediumId;
use capstan_medium::DeviceError;

/// Why a session's writing ended early.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Some of the media that a session writes to are full, and others may take their places: the segment that was open, which
    /// the other media had room for, is to be written anew on all.
    #[error("{why}")]
    Full {
        /// Those that are full.
        media: Vec<MediumId>,
        /// What the first of them said.
        why: String,
    },
    /// A record could not be encoded.
    #[error("cannot encode a record of the segment: {0}")]
    Format(#[from] FormatError),
    /// The catalog's end record could not be encoded.
    #[error("cannot encode the segment's end record: {0}")]
    Json(#[from] serde_json::Error),
    /// The operating system gave no randomness.
    #[error("cannot draw a segment's id: {0}")]
    Entropy(#[source] std::io::Error),
    /// The internal database did not take a commit.
    #[error("{0}")]
    Commit(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// What was kept of the session cannot be read again.
    #[error("what was not committed cannot be read again from {path}: {source}")]
    Kept {
        /// The directory in which it was kept.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// There is no further medium to go on on.
    #[error("{0}")]
    Media(String),
    /// There is no thread to write in.
    #[error(transparent)]
    NoThread(#[from] NoThread),
    /// The writing thread ended without a word.
    #[error("the media agent's thread ended unexpectedly{then}", then = then(self.hint()))]
    Thread,
}

impl Explain for WriteError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Thread => "this is a fault of capstan, please report it".to_owned(),
            Self::Device(e) => return e.hint(),
            Self::Format(e) => return e.hint(),
            Self::NoThread(e) => return e.hint(),
            Self::Full { .. }
            | Self::Json(_)
            | Self::Entropy(_)
            | Self::Commit(_)
            | Self::Kept { .. }
            | Self::Media(_) => return None,
        })
    }
}

impl WriteError {
    /// Whether a medium is full.
    pub fn is_full(&self) -> bool {
        match self {
            Self::Device(e) => e.is_full(),
            Self::Full { .. } => true,
            _ => false,
        }
    }

    /// Whether it is the media that failed, so that others may do.
    pub fn is_of_media(&self) -> bool {
        match self {
            Self::Device(e) => !e.is_of_spool(),
            Self::Full { .. } => true,
            _ => false,
        }
    }
}
