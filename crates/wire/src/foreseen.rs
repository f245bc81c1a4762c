//! What a backup would do with each name.

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::as_text;

/// What becomes of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
#[serde(rename_all = "snake_case")]
#[cbor(index_only)]
pub enum Fate {
    /// The last version does not have it.
    #[n(0)]
    New,
    /// It is something else than in the last version.
    #[n(1)]
    Changed,
    /// It changed, and its contents are those that the last version has.
    #[n(2)]
    Metadata,
    /// It is as in the last version.
    #[n(3)]
    Unchanged,
    /// The last version has it, and it is gone.
    #[n(4)]
    Removed,
    /// It is left out.
    #[n(5)]
    LeftOut,
    /// It cannot be backed up, which a message says.
    #[n(6)]
    Failed,
}

impl Fate {
    /// Its word, in text and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::New => "new",
            Self::Changed => "changed",
            Self::Metadata => "metadata",
            Self::Unchanged => "unchanged",
            Self::Removed => "removed",
            Self::LeftOut => "left out",
            Self::Failed => "failed",
        }
    }
}

/// A name, and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Encode, Decode)]
pub struct Foreseen {
    /// Its path, without leading slash.
    #[serde(with = "as_text")]
    #[cbor(n(0), with = "crate::rows::form")]
    pub path: Vec<u8>,
    /// What becomes of it.
    #[n(1)]
    pub fate: Fate,
    /// Bytes of contents that would be read.
    #[n(2)]
    pub bytes: u64,
    /// Why it is left out, if it is: the rule, in words.
    #[n(3)]
    pub rule: Option<String>,
    /// Whether only what is in it is left out, and the directory itself is not.
    #[n(4)]
    pub contents: bool,
}
