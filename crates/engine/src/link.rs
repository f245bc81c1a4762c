//! The link between disk agents and a media agent: blocks go one way, empty buffers the other.
//!
//! The media agent grants each stream buffers of a numbered segment. The last grant of a segment says so, and the disk
//! agent ends its frame there: no round trip, and no frame crosses a segment.

use std::thread;
use std::time::Duration;

use capstan_format::id::StreamId;

use crate::buffer::Buffer;
use crate::reach::Reach;

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

/// What who serves a stream from elsewhere waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attention {
    /// A buffer for it.
    pub grant: bool,
    /// That this segment is to end.
    pub closing: Option<SegmentOrdinal>,
    /// No longer than that.
    pub limit: Duration,
}

/// What came of waiting for it.
pub enum Attended {
    /// A buffer for the stream.
    Grant(Grant),
    /// The segment is to end.
    Closing,
    /// Nothing within the time, or the wait was ended by [`BlockPort::nudge`].
    Nothing,
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
    /// Whether the stream is to end its part of the segment: a stream without data ends its block early when it sees this.
    fn is_closing(&self, stream: StreamId, segment: SegmentOrdinal) -> bool;
    /// Whether nothing can be written any more: a stream that waits for what it reads need not wait longer.
    fn is_closed(&self) -> bool;
    /// The stream holds no grant of the segment and has nothing more for it.
    fn leave_segment(&self, stream: StreamId, segment: SegmentOrdinal);
    /// The stream has ended. An error where it is not known that all its blocks were taken.
    fn close_stream(&self, stream: StreamId) -> Result<(), LinkClosed>;
    /// Where a disk agent on another host finds the port, if it can: there it dials, and speaks to it without this process.
    fn reach(&self) -> Option<Reach> {
        None
    }
    /// For who serves a stream that is filled elsewhere: waits for a buffer, and for the end of a segment, beside each other. A stream
    /// that is served so may hold several grants.
    fn attend(&self, stream: StreamId, to: Attention) -> Result<Attended, LinkClosed> {
        const NAP: Duration = Duration::from_millis(10);
        if to.closing.is_some_and(|segment| self.is_closing(stream, segment)) {
            return Ok(Attended::Closing);
        }
        if to.grant {
            return self.grant(stream).map(Attended::Grant);
        }
        if self.is_closed() {
            return Err(LinkClosed);
        }
        thread::sleep(to.limit.min(NAP));
        Ok(Attended::Nothing)
    }
    /// Ends the wait of who attends the stream.
    fn nudge(&self, _stream: StreamId) {}
}
