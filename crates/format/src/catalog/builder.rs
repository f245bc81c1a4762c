//! Making a catalog: while a segment is written, anew from what was read, and packed for the internal database.

use crate::block::{BLOCK_ALIGN, BlockKind, DaHeader, MaHeader, NO_FRAME, PAYLOAD_AT};
use crate::crc::payload_crc;
use crate::frame::codec::{Codec, Compressor, Decompressor, Method};
use crate::frame::index::{FramePlace, INDEX_FRAMES_MAX, encode_index};
use crate::frame::{CopiedFrame, FRAME_HEADER_LEN, FrameHeader, FrameType, padded};
use crate::id::{BlockIndex, SegmentId, StreamId};
use crate::record::{SegmentEnd, SegmentHeader, StreamLabel};

use super::catalog_stream;
use super::contents::{Contents, read_copies};
use super::frames::{CopyPlace, RawFrame, ReadAt};
use super::packed::{Opened, PACKED, TOGETHER, pack_batches, pack_sums};

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

    fn copy_raw(&mut self, stream: StreamId, raw: &RawFrame) {
        let mut frame = vec![0; FRAME_HEADER_LEN];
        raw.header.encode(stream, &mut frame);
        frame.extend_from_slice(&raw.stored);
        self.copy(stream, &frame);
    }

    /// Adds frames of a stream, packed as far as they can be opened; whether any was.
    fn pack(
        &mut self,
        stream: StreamId,
        frames: &[RawFrame],
        pack: fn(StreamId, &[Opened<'_>], &mut Compressor) -> Option<Vec<u8>>,
    ) -> bool {
        let mut any = false;
        for some in frames.chunks(TOGETHER) {
            match opened(some).and_then(|opened| {
                let opened: Vec<_> = opened
                    .iter()
                    .map(|(header, plain)| Opened { header: *header, plain })
                    .collect();
                pack(stream, &opened, &mut self.compressor)
            }) {
                Some(packed) => {
                    self.push(PACKED, &packed, Method::Store);
                    any = true;
                }
                None => some.iter().for_each(|raw| self.copy_raw(stream, raw)),
            }
        }
        any
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

/// The opened payloads of frames; `None` if one is sealed or damaged.
fn opened(frames: &[RawFrame]) -> Option<Vec<(FrameHeader, Vec<u8>)>> {
    let (mut decompressor, mut scratch) = (Decompressor::default(), Vec::new());
    let open = |raw: &RawFrame| {
        let mut plain = Vec::new();
        let opened =
            raw.header.open(&raw.stored, None, &mut decompressor, &mut scratch, &mut plain);
        opened.ok().map(|()| (raw.header, plain))
    };
    frames.iter().map(open).collect()
}

/// Makes a segment's catalog anew from what was read of it: for the IDB, when the medium's own is damaged.
pub fn rebuild(contents: &Contents) -> Option<Vec<u8>> {
    let (header, end) = (contents.header.as_ref()?, contents.end.as_ref()?);
    let mut builder = CatalogBuilder::new(header.segment);
    for s in &contents.streams {
        for raw in s.label_frame.iter().chain(&s.names).chain(&s.batches).chain(&s.sums) {
            builder.copy_raw(s.stream, raw);
        }
    }
    for s in &contents.streams {
        builder.index(s.stream, &s.index);
    }
    Some(builder.finish(header, end).ok()?.into_frames())
}

/// Makes a segment's catalog anew with its batches packed, as it may rest in the IDB. `None` if there are none that can be.
pub fn packed(contents: &Contents) -> Option<Vec<u8>> {
    let (header, end) = (contents.header.as_ref()?, contents.end.as_ref()?);
    let mut builder = CatalogBuilder::new(header.segment);
    let mut any = false;
    // First of all, so that it shows at the catalog's begin.
    for s in &contents.streams {
        any |= builder.pack(s.stream, &s.batches, pack_batches);
        any |= builder.pack(s.stream, &s.sums, pack_sums);
    }
    if !any {
        return None;
    }
    for s in &contents.streams {
        s.label_frame.iter().chain(&s.names).for_each(|raw| builder.copy_raw(s.stream, raw));
    }
    for s in &contents.streams {
        builder.index(s.stream, &s.index);
    }
    Some(builder.finish(header, end).ok()?.into_frames())
}

/// Whether a catalog, as the IDB keeps it, has batches that were never packed and can be: those of encrypted sessions cannot.
pub fn can_be_packed(segment: SegmentId, catalog: ReadAt<'_>) -> bool {
    is_open_copy(segment, catalog).unwrap_or(false)
}

/// Whether the frame behind the header is the copy of a label without a key.
fn is_open_copy(segment: SegmentId, catalog: ReadAt<'_>) -> Option<bool> {
    let stream = catalog_stream(segment);
    let mut bytes = [0; FRAME_HEADER_LEN];
    catalog(&mut bytes, 0).ok()?;
    let at = FrameHeader::decode(stream, &bytes).ok()?.total_len() as u64;
    catalog(&mut bytes, at).ok()?;
    let header = FrameHeader::decode(stream, &bytes).ok()?;
    if header.frame_type != FrameType::Copy {
        return Some(false);
    }
    let place = CopyPlace { at, len: header.total_len() as u32, number: 0 };
    let label = read_copies(segment, catalog, place).ok()?.pop()?;
    let mut plain = Vec::new();
    let (mut decompressor, mut scratch) = (Decompressor::default(), Vec::new());
    label.header.open(&label.stored, None, &mut decompressor, &mut scratch, &mut plain).ok()?;
    let is_label = label.header.frame_type == FrameType::Label;
    let label: StreamLabel = serde_json::from_slice(&plain).ok().filter(|_| is_label)?;
    Some(label.session.key.is_none())
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
