//! Places on a tape.

use serde::{Deserialize, Serialize};

/// A place on a tape: so many filemarks from its begin, so many blocks behind the last of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Spot {
    /// Filemarks before it.
    pub file: u64,
    /// Blocks between the last filemark and it.
    pub block: u64,
    /// Blocks and filemarks before it, by which a drive with LOCATE goes there without counting. A hint where it is known.
    pub object: Option<u64>,
}

impl Spot {
    /// The begin of the tape.
    pub const BEGIN: Self = Self { file: 0, block: 0, object: Some(0) };
}

impl std::fmt::Display for Spot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "block {} of file {}", self.block, self.file)
    }
}
