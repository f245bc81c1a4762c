//! The link between disk agents and a media agent: blocks go one way, empty buffers the other.
//!
//! The media agent grants each stream buffers of a numbered segment. The last grant of a segment says so, and the disk
//! agent ends its frame there: no round trip, and no frame crosses a segment.

use capstan_format::id::StreamId;

use crate::buffer::Buffer;

/// The ordinal of a segment within its session, from 0. (Its number on the medium is the media agent's affair.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentOrdinal(pub u32);

/// The media agent takes no more blocks: its device failed or the session was stopped. The session has the reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the media agent takes no more blocks")]
pub struct LinkClosed;

/// An empty buffer, granted to a stream for a block of a segment.
pub struct Grant {
    /// The buffer; the first 64 bytes are the media agent's to fill.
    pub buffer: Buffer,
    /// The segment that the block will belong to.
    pub segment: SegmentOrdinal,
    /// Whether it is the stream's last in that segment: its last frame must end in it.
    pub last: bool,
}

/// Where a frame begins in its block: an entry of the frame index, but for the block's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameNote {
    /// Whether it is a data or fill frame.
    pub logical_frame: bool,
    /// Its sequence in the stream.
    pub sequence: u64,
    /// The stream's logical offset at which it begins.
    pub logical: u64,
    /// The byte of the block's payload at which it begins.
    pub byte: u32,
}

/// What the media agent must know of a block's contents to write the catalog; it never looks into frames.
#[derive(Debug, Default)]
pub struct BlockNotes {
    /// The frames that begin in the block.
    pub frames: Vec<FrameNote>,
    /// Label, names and batch frames that end in the block, verbatim: they go into the catalog as they are.
    pub copies: Vec<Vec<u8>>,
    /// Rows of those batches.
    pub rows: u64,
    /// The stream's logical offset at the block's end.
    pub logical_end: u64,
}

/// A block ready to be written but for the media agent's header.
pub struct FilledBlock {
    /// The memory; disk agent's header, payload and padding are in place.
    pub buffer: Buffer,
    /// Bytes of it that may go to the medium if the block may be short: a multiple of 4096.
    pub short_len: u32,
    /// The stream.
    pub stream: StreamId,
    /// The segment it was granted for.
    pub segment: SegmentOrdinal,
    /// Whether the stream has nothing more for that segment.
    pub ends_segment: bool,
    /// What is in it.
    pub notes: BlockNotes,
}

/// The disk agent's end of the link.
pub trait BlockPort: Send + Sync {
    /// Bytes of a block.
    fn block_size(&self) -> usize;
    /// Announces a stream; it must be closed again.
    fn open_stream(&self, stream: StreamId);
    /// Waits for a buffer. The segment is that of the stream's previous grant unless that was the last of its segment.
    fn grant(&self, stream: StreamId) -> Result<Grant, LinkClosed>;
    /// Asks for one more buffer of the segment, although the last was granted: for outcomes that must not be lost.
    fn grant_more(&self, stream: StreamId, segment: SegmentOrdinal) -> Result<Grant, LinkClosed>;
    /// Gives a block to be written.
    fn submit(&self, block: FilledBlock) -> Result<(), LinkClosed>;
    /// Gives a grant back unused; the stream has nothing more for its segment.
    fn give_back(&self, stream: StreamId, grant: Grant);
    /// Whether the segment is to end: a stream without data ends its block early when it sees this.
    fn is_closing(&self, segment: SegmentOrdinal) -> bool;
    /// Whether nothing can be written any more: a stream that waits for what it reads need not wait longer.
    fn is_closed(&self) -> bool;
    /// The stream holds no grant and has nothing more for the segment it was in.
    fn leave_segment(&self, stream: StreamId);
    /// The stream has ended.
    fn close_stream(&self, stream: StreamId);
}
