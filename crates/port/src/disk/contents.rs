//! Where contents of files lie.

use capstan_format::id::StreamId;

/// A range of a file's data: where its bytes are; nowhere if no part has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Where in the file.
    pub offset: u64,
    /// How many bytes.
    pub len: u64,
    /// The stream that has them, and its logical byte at which they begin.
    pub at: Option<(StreamId, u64)>,
}
