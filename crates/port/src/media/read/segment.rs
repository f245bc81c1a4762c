//! A segment on a medium that is read.

use std::sync::Arc;

use capstan_format::catalog::Contents;
use capstan_format::id::{MediumId, SegmentId, StreamId};
use capstan_format::index::FramePlace;
use capstan_format::record::{SegmentEnd, SegmentHeader};
use capstan_medium::storage::{Handle, ReadFile};
use capstan_wire::keys::FrameKey;

use super::error::ReadError;
use super::findings::Scan;

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
    /// What stands for it, where it is at another host.
    fn handle(&self) -> Option<Handle> {
        None
    }
    /// Blocks and filemarks before it on its tape, once that is known.
    fn object(&self) -> Option<u64>;
    /// Says that what follows that data block will be read: others who read the same tape do not go on without. Until this reader, and
    /// all that was made of it, is dropped.
    fn expect(&self, block: u32);
    /// The segment's header record.
    fn header(&self) -> Result<SegmentHeader, ReadError>;
    /// The segment's end record, looked for from the end of the file.
    fn end(&self) -> Result<SegmentEnd, ReadError>;
    /// The segment's end record, and the frames of its catalog as they lie there. Where one is recorded, what lies in its place must say
    /// at its end that it is that one.
    fn catalog_frames(
        &self,
        recorded: Option<SegmentId>,
    ) -> Result<(SegmentEnd, Vec<u8>), ReadError>;

    /// The segment's contents as its catalog says; an error if any of it is damaged.
    fn catalog(&self) -> Result<Contents, ReadError> {
        contents(self.catalog_frames(None)?)
    }

    /// The catalog of the segment that is recorded here: what lies in its place must say itself that it is that one.
    fn catalog_of(&self, segment: SegmentId) -> Result<Contents, ReadError> {
        let found = contents(self.catalog_frames(Some(segment))?)?;
        let header = found.header.as_ref().is_none_or(|h| h.segment == segment);
        let is_it = header && found.end.as_ref().is_some_and(|end| end.segment == segment);
        if is_it { Ok(found) } else { Err(self.another(segment)) }
    }
    /// Reads all of it, trusting nothing.
    fn scan(&self) -> Result<Scan, ReadError>;
    /// Reads all that is there of the segment that is recorded in that place. Of another one, or of a piece of another one, nothing is
    /// taken; where no block is of the recorded one, that is an error.
    fn scan_of(&self, recorded: SegmentId) -> Result<Scan, ReadError>;
    /// Reads all of it, and opens its streams' frames as far as there are keys.
    fn scan_with(&self, keys: &[FrameKey]) -> Result<Scan, ReadError>;
    /// Reads frames of a stream, of which `layout` says how they lie, and opens them as far as there are keys. Of each of `places` the
    /// logical byte where it ends, or why it cannot be had. Behind an error that says nothing of the segment, or where the process is to
    /// end, no more are read.
    fn open_frames(
        &self,
        layout: &Contents,
        stream: StreamId,
        places: &[FramePlace],
        keys: &[FrameKey],
    ) -> Vec<Result<u64, ReadError>>;

    /// That another one is where a segment is recorded.
    fn another(&self, recorded: SegmentId) -> ReadError {
        ReadError::Another { path: self.path().to_owned(), recorded }
    }
}

/// What a segment holds by its end record and the frames of its catalog.
fn contents((end, frames): (SegmentEnd, Vec<u8>)) -> Result<Contents, ReadError> {
    let mut contents = Contents::from_catalog(end.segment, &frames[..])?;
    contents.end = Some(end);
    Ok(contents)
}
