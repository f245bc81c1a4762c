//! What a disk agent is told to hold against its file systems: a comparison, and the proof of a drill.

use serde::{Deserialize, Serialize};

use crate::as_text;
use crate::backup::Rules;
use crate::keys::SessionKey;

/// A comparison of a version with the file system.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CompareJob {
    /// What the version is of: absolute paths without leading slash, none inside another. Directories above belong to others, and are
    /// not compared.
    #[serde(with = "as_text::list")]
    pub roots: Vec<Vec<u8>>,
    /// Only these paths and what is below them; all if empty.
    #[serde(with = "as_text::list")]
    pub paths: Vec<Vec<u8>>,
    /// What the backup left out.
    pub rules: Rules,
    /// What opens contents, where these are compared.
    pub keys: Vec<SessionKey>,
}

/// Asks for a directory that nobody else may enter, to restore into and remove again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScratchAsked {
    /// In which directory.
    #[serde(with = "as_text")]
    pub parent: Vec<u8>,
    /// What it is called there.
    pub name: String,
    /// So many bytes are to have room.
    pub bytes: u64,
}

/// The proof of what was restored into a scratch directory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProofJob {
    /// The directory.
    #[serde(with = "as_text")]
    pub scratch: Vec<u8>,
}
