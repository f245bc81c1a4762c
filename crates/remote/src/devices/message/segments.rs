//! What is asked of a media agent.

use capstan_format::id::{MediumId, SegmentId, SegmentNumber, StreamId};
use capstan_port::media::read::findings::Damage;
use capstan_wire::keys::FrameKey;
use serde::{Deserialize, Serialize};

/// What is asked of a media agent.
#[derive(Debug, Serialize, Deserialize)]
pub enum OfMediaAgent {
    /// A segment of a medium, which has that number here, is opened to read.
    Open(u64, SegmentNumber),
    /// Of a segment that was opened.
    Segment(u64, OfSegment),
}

/// A segment that was opened.
#[derive(Debug, Serialize, Deserialize)]
pub struct SegmentFound {
    /// Its number.
    pub number: u64,
    /// That of its file.
    pub file: u64,
    /// The medium that it is on.
    pub medium: MediumId,
    /// What it is, for messages.
    pub path: String,
    /// Bytes of its blocks.
    pub block_size: usize,
}

/// What is asked of a segment: the methods of [`capstan_port::media::read::segment::ReadSegment`].
#[derive(Debug, Serialize, Deserialize)]
pub enum OfSegment {
    /// Its length.
    Bytes,
    /// Where it lies on its tape.
    Object,
    /// What follows a block will be read.
    Expect(u32),
    /// Its header record.
    Header,
    /// Its end record.
    End,
    /// Its end record and its catalog, whose frames follow the answer.
    Catalog(Option<SegmentId>),
    /// All of it is read, whatever it says; or what is there of the segment that is recorded. What it holds follows the answer.
    Scan(Option<SegmentId>),
    /// All of it is read, and frames are opened.
    ScanWith(Vec<FrameKey>),
    /// Frames of a stream are read and opened. How they lie follows, and which.
    OpenFrames(StreamId, Vec<FrameKey>),
}

/// What a scan found, beside the contents that follow.
#[derive(Debug, Serialize, Deserialize)]
pub struct ScanFound {
    /// What is damaged.
    pub damage: Vec<Damage>,
    /// Frames of types that the host does not know.
    pub unknown_frames: u64,
    /// Encrypted frames whose keys were not given.
    pub closed: u64,
    /// Whether the catalog is whole.
    pub catalog_whole: bool,
    /// Whether what the catalog says follows.
    pub has_catalog: bool,
    /// Streams of which rows may be lost.
    pub poor: Vec<StreamId>,
}
