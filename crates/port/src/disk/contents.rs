//! Where contents of files lie.

use capstan_engine::frames::Expected;
use capstan_format::id::StreamId;
use capstan_wire::rows::form;
use minicbor::{Decode, Encode};

/// A range of a file's data: where its bytes are; nowhere if no part has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Piece {
    /// Where in the file.
    #[cbor(n(0), with = "form")]
    pub offset: u64,
    /// How many bytes.
    #[cbor(n(1), with = "form")]
    pub len: u64,
    /// The stream that has them, and its logical byte at which they begin.
    #[cbor(n(2), with = "form")]
    pub at: Option<(StreamId, u64)>,
}

capstan_wire::derived_form!(Piece);

impl Piece {
    /// What will be asked for to read it.
    pub fn expected(&self) -> Option<Expected> {
        let (stream, from) = self.at?;
        Some(Expected { stream, from, to: from.saturating_add(self.len) })
    }
}
