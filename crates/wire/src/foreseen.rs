//! What a backup would do with each name.

use serde::{Deserialize, Serialize};

use crate::as_text;

/// What becomes of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// The last version does not have it.
    New,
    /// It is something else than in the last version.
    Changed,
    /// It changed, and its contents are those that the last version has.
    Metadata,
    /// It is as in the last version.
    Unchanged,
    /// The last version has it, and it is gone.
    Removed,
    /// It is left out.
    LeftOut,
    /// It cannot be backed up, which a message says.
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foreseen {
    /// Its path, without leading slash.
    #[serde(with = "as_text")]
    pub path: Vec<u8>,
    /// What becomes of it.
    pub fate: Fate,
    /// Bytes of contents that would be read.
    pub bytes: u64,
    /// Why it is left out, if it is: the rule, in words.
    pub rule: Option<String>,
    /// Whether only what is in it is left out, and the directory itself is not.
    pub contents: bool,
}
