//! The catalog of a segment: what lies where in it, as frames of a stream of its own whose id is the segment's.
//!
//! It holds, in this order, the segment's header record once more, copies of every label, names, batch and sums frame of the
//! segment, the frame index of each stream, and the segment's end record. The IDB keeps the same frames in a file, one after the
//! other; there batches and checksums may be packed (`packed`).
//!
//! [`CatalogBuilder`] makes one while a segment is written; [`Contents`] is what one says.

mod builder;
mod contents;
mod frames;
mod packed;

use crate::id::{SegmentId, StreamId};

pub use builder::{Catalog, CatalogBuilder, can_be_packed, packed, rebuild};
pub use contents::{CatalogFrames, Contents, StreamContents, read_copies};
pub use frames::{CopyPlace, RawFrame, ReadAt};

/// The stream id of a segment's catalog.
pub fn catalog_stream(segment: SegmentId) -> StreamId {
    StreamId(segment.0)
}
