//! Reading a whole segment, trusting nothing: for segments whose catalog is damaged or missing, and to verify.
//!
//! Every byte is accounted for: a block header, a frame, padding. What does not fit is damage, with the stream and the
//! logical range it costs where that is known.

mod blocks;
mod finish;
mod frames;
mod orphans;

use std::collections::{HashMap, HashSet};

use capstan_format::FormatError;
use capstan_format::catalog::{CatalogFrames, Contents};
use capstan_format::frame::FrameHeader;
use capstan_format::id::{SegmentId, StreamId};
use capstan_format::index::FramePlace;
use capstan_format::record::SessionLabel;

use crate::read::frame_check::Frames;
use crate::read::scan::orphans::Orphan;
use crate::read::segment::SegmentReader;
use capstan_port::media::read::error::ReadError;
use capstan_port::media::read::findings::{Damage, Scan};
use capstan_port::media::read::segment::ReadSegment;
use capstan_wire::keys::FrameKey;

/// Reads a whole segment.
pub fn scan(segment: &SegmentReader) -> Result<Scan, ReadError> {
    scan_as(segment, None, &mut |_, _, _, _| Ok(()))
}

/// Reads all that is there of the segment that is recorded in that place. Of another one, or of a piece of another one, nothing is
/// taken; where no block is of the recorded one, that is an error.
pub fn scan_of(segment: &SegmentReader, recorded: SegmentId) -> Result<Scan, ReadError> {
    let found = scan_as(segment, Some(recorded), &mut |_, _, _, _| Ok(()))?;
    match found.contents.blocks {
        // Blocks that cannot say whose they are may be its.
        None => Err(segment.another(recorded)),
        Some(_) => Ok(found),
    }
}

/// Reads a whole segment and opens its streams' frames as far as there are keys.
pub fn scan_with(segment: &SegmentReader, keys: &[FrameKey]) -> Result<Scan, ReadError> {
    let mut frames = Frames::new(keys);
    let mut open = |label: Option<&SessionLabel>, stream, header: &FrameHeader, stored: &[u8]| {
        frames.check(label, stream, header, stored)
    };
    let found = scan_as(segment, None, &mut open)?;
    Ok(Scan { closed: frames.closed, ..found })
}

/// Opens a frame whose checksum is right, to see that it can be: its session, its stream, its header, its stored bytes.
type OpenFrame<'f> =
    dyn FnMut(Option<&SessionLabel>, StreamId, &FrameHeader, &[u8]) -> Result<(), FormatError> + 'f;

fn scan_as(
    segment: &SegmentReader,
    id: Option<SegmentId>,
    open: &mut OpenFrame<'_>,
) -> Result<Scan, ReadError> {
    let mut scanner = Scanner {
        segment,
        open,
        id,
        streams: HashMap::new(),
        catalog_frames: CatalogFrames::default(),
        catalog: Contents::default(),
        catalog_broken: false,
        scan: Scan::default(),
        next_index: 0,
        sparse: HashSet::new(),
        short: HashMap::new(),
        orphans: Vec::new(),
        data_lost: HashSet::new(),
        whole_until_catalog: None,
    };
    scanner.run()?;
    scanner.place_orphans();
    Ok(scanner.finish())
}

/// A stream while its blocks pass by.
#[derive(Default)]
struct Passing {
    position: u64,
    sequence: Option<u64>,
    logical: u64,
    /// A frame that spans blocks: its place, its bytes so far, its full length.
    partial: Option<(FramePlace, Vec<u8>, usize)>,
    /// Its last label came with the segment's begin.
    begun: bool,
    /// Something of it was damaged since its last frame.
    hurt: bool,
    /// Its last block so far.
    last_block: u32,
}

struct Scanner<'a, 'f> {
    segment: &'a SegmentReader,
    open: &'a mut OpenFrame<'f>,
    id: Option<SegmentId>,
    streams: HashMap<StreamId, Passing>,
    catalog_frames: CatalogFrames,
    catalog: Contents,
    /// Some of the catalog's frames are damaged or missing.
    catalog_broken: bool,
    scan: Scan,
    next_index: u32,
    /// Streams that lack what nobody needs, as the end record says.
    sparse: HashSet<StreamId>,
    /// Lengths of the blocks that do not have the block size, as the end record says.
    short: HashMap<u32, u32>,
    orphans: Vec<Orphan>,
    /// Frames that are damaged, and were no metadata.
    data_lost: HashSet<(StreamId, u64)>,
    /// Whether the catalog began, and all before it was whole: the streams are.
    whole_until_catalog: Option<bool>,
}

impl Scanner<'_, '_> {
    fn damage(&mut self, what: String, range: Option<(StreamId, u64, u64)>) {
        let what = format!("{}: {what}", self.segment.path);
        self.scan.damage.push(Damage { what, range, batch: None });
    }
}
