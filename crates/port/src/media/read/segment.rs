//! A segment on a medium that is read.

use std::sync::Arc;

use capstan_format::FormatError;
use capstan_format::catalog::Contents;
use capstan_format::frame::FrameHeader;
use capstan_format::id::{MediumId, SegmentId, StreamId};
use capstan_format::index::FramePlace;
use capstan_format::record::{SegmentEnd, SegmentHeader, SessionLabel};
use capstan_medium::storage::ReadFile;

use super::error::ReadError;
use super::findings::Scan;

/// Opens a frame whose checksum is right, to see that it can be: its session, its stream, its header, its stored bytes.
pub type OpenFrame<'f> =
    dyn FnMut(Option<&SessionLabel>, StreamId, &FrameHeader, &[u8]) -> Result<(), FormatError> + 'f;

/// Takes the number of a frame, and where it ends or why it cannot be had. Returns whether to go on.
pub type EachEnd<'e> = dyn FnMut(usize, Result<u64, ReadError>) -> bool + 'e;

/// A segment on a medium, open to read. All but [`Self::file`] is one question and one answer.
pub trait ReadSegment: Send + Sync {
    /// The medium that it is on.
    fn medium(&self) -> MediumId;
    /// What it is, for messages.
    fn path(&self) -> &str;
    /// Bytes of its blocks.
    fn block_size(&self) -> usize;
    /// Its bytes, for the media agent that reads frames of it.
    fn file(&self) -> &Arc<dyn ReadFile>;
    /// Its length in bytes: on tape that is found out by going to its end.
    fn bytes(&self) -> Result<u64, ReadError>;
    /// Blocks and filemarks before it on its tape, once that is known.
    fn object(&self) -> Option<u64>;
    /// Says that what follows that data block will be read: others who read the same tape do not go on without. Until this reader, and
    /// all that was made of it, is dropped.
    fn expect(&self, block: u32);
    /// The segment's header record.
    fn header(&self) -> Result<SegmentHeader, ReadError>;
    /// The segment's end record, looked for from the end of the file.
    fn end(&self) -> Result<SegmentEnd, ReadError>;
    /// The segment's contents as its catalog says; an error if any of it is damaged.
    fn catalog(&self) -> Result<Contents, ReadError>;
    /// The catalog of the segment that is recorded here: what lies in its place must say itself that it is that one.
    fn catalog_of(&self, segment: SegmentId) -> Result<Contents, ReadError>;
    /// Reads all of it, trusting nothing.
    fn scan(&self) -> Result<Scan, ReadError>;
    /// Reads all that is there of the segment that is recorded in that place. Of another one, or of a piece of another one, nothing is
    /// taken; where no block is of the recorded one, that is an error.
    fn scan_of(&self, recorded: SegmentId) -> Result<Scan, ReadError>;
    /// Reads all of it, and has its streams' frames opened.
    fn scan_with(&self, open: &mut OpenFrame<'_>) -> Result<Scan, ReadError>;
    /// Reads frames of a stream, of which `layout` says how they lie, and has them opened. Calls with the number of each among `places`
    /// and the logical byte where it ends, or why it cannot be had; goes on as long as that returns `true`.
    fn open_frames(
        &self,
        layout: &Contents,
        stream: StreamId,
        places: &[FramePlace],
        open: &mut OpenFrame<'_>,
        each: &mut EachEnd<'_>,
    );

    /// That another one is where a segment is recorded.
    fn another(&self, recorded: SegmentId) -> ReadError {
        ReadError::Another { path: self.path().to_owned(), recorded }
    }
}
