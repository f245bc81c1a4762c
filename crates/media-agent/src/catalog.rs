//! The catalog of a segment: what lies where in it, as frames of a stream of its own whose id is the segment's.
//!
//! It holds, in this order, the segment's header record once more, copies of every label, names, batch and sums frame of the
//! segment, the frame index of each stream, and the segment's end record. The IDB keeps the same frames in a file, one after the other.

use capstan_format::block::{BLOCK_ALIGN, BlockKind, DaHeader, MaHeader, NO_FRAME, PAYLOAD_AT};
use capstan_format::codec::{Codec, Compressor, Method};
use capstan_format::crc::payload_crc;
use capstan_format::frame::{CopiedFrame, FRAME_HEADER_LEN, FrameHeader, FrameType, padded};
use capstan_format::id::{BlockIndex, SegmentId, StreamId};
use capstan_format::index::{FramePlace, INDEX_FRAMES_MAX, encode_index};
use capstan_format::record::{SegmentEnd, SegmentHeader};

use crate::reader::Contents;

/// The stream id of a segment's catalog.
pub fn catalog_stream(segment: SegmentId) -> StreamId {
    StreamId(segment.0)
}

/// Gathers the catalog of a segment while its blocks are written: all but its header and end, which differ on mirrors.
pub struct CatalogBuilder {
    stream: StreamId,
    frames: Frames,
    compressor: Compressor,
}

/// Frames of a catalog, one after the other.
#[derive(Default)]
struct Frames {
    bytes: Vec<u8>,
    /// Where each begins in `bytes`.
    starts: Vec<usize>,
}

/// Sequence of a catalog's first frame behind its header.
const BEHIND_HEADER: u64 = 1;

impl CatalogBuilder {
    /// An empty catalog.
    pub fn new(segment: SegmentId) -> Self {
        Self {
            stream: catalog_stream(segment),
            frames: Frames::default(),
            compressor: Compressor::default(),
        }
    }

    /// Adds a frame of a stream, verbatim.
    pub fn copy(&mut self, stream: StreamId, frame: &[u8]) {
        self.push(FrameType::Copy, &CopiedFrame::encode(stream, frame), Method::Store);
    }

    /// Adds the frame index of a stream.
    pub fn index(&mut self, stream: StreamId, places: &[FramePlace]) {
        for some in places.chunks(INDEX_FRAMES_MAX) {
            self.push(FrameType::Index, &encode_index(stream, some), Method::Zstd(1));
        }
    }

    fn push(&mut self, frame_type: FrameType, plain: &[u8], method: Method) {
        let sequence = BEHIND_HEADER + self.frames.starts.len() as u64;
        self.frames.push(self.stream, sequence, frame_type, plain, method, &mut self.compressor);
    }

    /// The catalog with the segment's header record and end record, as they are on one medium.
    pub fn finish(&self, header: &SegmentHeader, end: &SegmentEnd) -> serde_json::Result<Catalog> {
        let mut compressor = Compressor::default();
        let (header, end) = (serde_json::to_vec(header)?, serde_json::to_vec(end)?);
        let mut frames = Frames::default();
        let method = Method::Zstd(1);
        frames.push(self.stream, 0, FrameType::Header, &header, method, &mut compressor);
        let behind = frames.bytes.len();
        frames.bytes.extend_from_slice(&self.frames.bytes);
        frames.starts.extend(self.frames.starts.iter().map(|at| behind + at));
        let last = frames.starts.len() as u64;
        frames.push(self.stream, last, FrameType::Summary, &end, method, &mut compressor);
        Ok(Catalog { stream: self.stream, frames: frames.bytes, starts: frames.starts })
    }
}

impl Frames {
    fn push(
        &mut self,
        stream: StreamId,
        sequence: u64,
        frame_type: FrameType,
        plain: &[u8],
        method: Method,
        compressor: &mut Compressor,
    ) {
        let mut packed = Vec::new();
        let codec = compressor.compress(method, plain, &mut packed);
        let stored = if codec.is_some() { &packed[..] } else { plain };
        let header = FrameHeader {
            frame_type,
            codec: codec.unwrap_or(Codec::None),
            sealed: false,
            sequence,
            logical: 0,
            length: plain.len() as u64,
            stored: stored.len() as u32,
            payload_crc: Some(payload_crc(stream, sequence, stored)),
        };
        let at = self.bytes.len();
        self.starts.push(at);
        self.bytes.resize(at + FRAME_HEADER_LEN, 0);
        header.encode(stream, &mut self.bytes[at..]);
        self.bytes.extend_from_slice(stored);
        self.bytes.resize(padded(self.bytes.len()), 0);
    }
}

/// Makes a segment's catalog anew from what was read of it: for the IDB, when the medium's own is damaged.
pub fn rebuild(contents: &Contents) -> Option<Vec<u8>> {
    let (header, end) = (contents.header.as_ref()?, contents.end.as_ref()?);
    let mut builder = CatalogBuilder::new(header.segment);
    for s in &contents.streams {
        for raw in s.label_frame.iter().chain(&s.names).chain(&s.batches).chain(&s.sums) {
            let mut frame = vec![0; FRAME_HEADER_LEN];
            raw.header.encode(s.stream, &mut frame);
            frame.extend_from_slice(&raw.stored);
            builder.copy(s.stream, &frame);
        }
    }
    for s in &contents.streams {
        builder.index(s.stream, &s.index);
    }
    Some(builder.finish(header, end).ok()?.into_frames())
}

/// A finished catalog.
pub struct Catalog {
    stream: StreamId,
    frames: Vec<u8>,
    starts: Vec<usize>,
}

impl Catalog {
    /// Its frames, one after the other: what the IDB keeps.
    pub fn frames(&self) -> &[u8] {
        &self.frames
    }

    /// Its frames, without the catalog around them.
    pub fn into_frames(self) -> Vec<u8> {
        self.frames
    }

    /// Cuts it into blocks of `block_size`, numbered from `first`; the last may be short if `short`. Calls `write` with
    /// each.
    pub fn write_blocks<E>(
        &self,
        segment: SegmentId,
        first: BlockIndex,
        block_size: usize,
        short: bool,
        mut write: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let room = block_size - PAYLOAD_AT;
        let mut block = vec![0; block_size];
        let mut index = first;
        let (mut at, mut next_start) = (0, 0);
        while at < self.frames.len() {
            while self.starts.get(next_start).is_some_and(|s| *s < at) {
                next_start += 1;
            }
            let mut used = room.min(self.frames.len() - at);
            // A frame's header never lies across two blocks.
            let split = self.starts[next_start..]
                .iter()
                .take_while(|s| **s < at + used)
                .last()
                .filter(|s| **s + FRAME_HEADER_LEN > at + used);
            if let Some(start) = split {
                used = start - at;
            }
            let first_frame = match self.starts.get(next_start) {
                Some(s) if *s < at + used => (s - at) as u32,
                _ => NO_FRAME,
            };
            block[PAYLOAD_AT..PAYLOAD_AT + used].copy_from_slice(&self.frames[at..at + used]);
            block[PAYLOAD_AT + used..].fill(0);
            let is_last = at + used == self.frames.len();
            let length = if short && is_last {
                (PAYLOAD_AT + used).next_multiple_of(BLOCK_ALIGN)
            } else {
                block_size
            };
            let da = DaHeader {
                stream: self.stream,
                position: at as u64,
                used: used as u32,
                first_frame,
            };
            da.encode(&mut block);
            MaHeader { kind: BlockKind::Catalog, segment, index, length: length as u32 }
                .encode(&mut block);
            write(&block[..length])?;
            at += used;
            index.0 += 1;
        }
        Ok(())
    }
}
