//! A segment that is durable, as it is told to whoever records it; and what a whole session wrote.

use std::collections::HashMap;

use capstan_format::id::{MediumId, SegmentNumber, SessionId};
use capstan_format::record::{SegmentEnd, SegmentHeader};

/// A segment that is durable on its medium.
pub struct Committed {
    /// The segment's begin, as the first medium has it.
    pub header: SegmentHeader,
    /// Where it lies: one place, or one on each mirror.
    pub places: Vec<CommittedAt>,
    /// The segment's end.
    pub end: SegmentEnd,
    /// Its bytes on the medium.
    pub bytes: u64,
    /// The catalog's frames.
    pub catalog: Vec<u8>,
}

/// Where a segment lies on a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommittedAt {
    /// The medium.
    pub medium: MediumId,
    /// Its number there.
    pub number: SegmentNumber,
    /// Blocks and filemarks before it on a tape, where the drive said so.
    pub object: Option<u64>,
}

/// Records a commit where sessions are recorded. Called after the medium is durable and before anybody is told.
pub type OnCommit =
    dyn FnMut(&Committed) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send;

/// What was written.
#[derive(Debug, Default, Clone)]
pub struct Written {
    /// Bytes on the medium, all included.
    pub bytes: u64,
    /// Segments.
    pub segments: Vec<SegmentNumber>,
    /// Of these bytes, those of the blocks of each session that is not the one that segments name.
    pub of_others: HashMap<SessionId, u64>,
    /// The media that were written when it ended: of each mirror that was not lost the last one.
    pub media: Vec<MediumId>,
}
