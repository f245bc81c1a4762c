//! What a segment holds, as its catalog says: its records, and of each of its streams frames and rows.

use std::collections::{BTreeMap, HashSet};
use std::io::Read;

use crate::FormatError;
use crate::frame::codec::Decompressor;
use crate::frame::index::{FramePlace, decode_index};
use crate::frame::{
    CopiedFrame, FRAME_ALIGN, FRAME_HEADER_LEN, FRAME_STORED_MAX, FrameHeader, FrameType,
};
use crate::id::{SegmentId, StreamId};
use crate::record::{SegmentEnd, SegmentHeader, StreamExtent, StreamLabel};

use super::catalog_stream;
use super::frames::{CopyPlace, RawFrame, ReadAt};
use super::packed::{PACKED, unpack};

/// Most bytes of a frame of a catalog.
const FRAME_COPY_MAX: usize = FRAME_HEADER_LEN + FRAME_STORED_MAX + FRAME_ALIGN;

/// Reads the copied frame at a place of a segment's catalog, as the IDB keeps it, with all that are packed with it.
pub fn read_copies(
    segment: SegmentId,
    catalog: ReadAt<'_>,
    place: CopyPlace,
) -> Result<Vec<RawFrame>, FormatError> {
    const CUT: FormatError = FormatError::Truncated("catalog");
    let stream = catalog_stream(segment);
    let mut bytes = vec![0; (place.len as usize).min(FRAME_COPY_MAX)];
    catalog(&mut bytes, place.at).map_err(|_| CUT)?;
    let header = FrameHeader::decode(stream, &bytes)?;
    let stored = bytes.get(FRAME_HEADER_LEN..FRAME_HEADER_LEN + header.stored as usize);
    let stored = stored.ok_or(CUT)?;
    header.check_payload(stream, stored)?;
    if !matches!(header.frame_type, FrameType::Copy | PACKED) {
        return Err(FormatError::Invalid("catalog"));
    }
    let mut plain = Vec::new();
    header.open(stored, None, &mut Decompressor::default(), &mut Vec::new(), &mut plain)?;
    if header.frame_type == PACKED {
        return Ok(unpack(&plain)?.1);
    }
    let copy = CopiedFrame::decode(&plain)?;
    Ok(vec![RawFrame { header: copy.header, stored: copy.stored.to_vec() }])
}

/// What a segment holds of one stream.
#[derive(Debug, Clone)]
pub struct StreamContents {
    /// The stream.
    pub stream: StreamId,
    /// Whose it is.
    pub label: Option<StreamLabel>,
    /// Its label, as it is stored.
    pub label_frame: Option<RawFrame>,
    /// Names, as they are stored.
    pub names: Option<RawFrame>,
    /// Batches, as they are stored, in order.
    pub batches: Vec<RawFrame>,
    /// Where the copy of each batch lies in the catalog, if this was read from one by itself.
    pub places: Vec<CopyPlace>,
    /// Checksums of contents, as they are stored, in order.
    pub sums: Vec<RawFrame>,
    /// Where the copy of each of them lies in the catalog.
    pub sum_places: Vec<CopyPlace>,
    /// Where all its frames lie, in order.
    pub index: Vec<FramePlace>,
    /// Its logical offset at the segment's end.
    pub logical_end: u64,
}

impl StreamContents {
    pub(crate) fn new(stream: StreamId) -> Self {
        Self {
            stream,
            label: None,
            label_frame: None,
            names: None,
            batches: Vec::new(),
            places: Vec::new(),
            sums: Vec::new(),
            sum_places: Vec::new(),
            index: Vec::new(),
            logical_end: 0,
        }
    }

    /// Adds the place of its next frame; `false` if that does not lie behind the last one.
    pub fn add_place(&mut self, place: FramePlace) -> bool {
        let behind = self.index.last().is_none_or(|last| {
            last.sequence < place.sequence
                && last.logical <= place.logical
                && last.block <= place.block
        });
        if behind {
            self.index.push(place);
        }
        behind
    }

    /// Takes batches or checksums that were packed in one frame of a catalog, at `at`.
    fn take_packed(&mut self, frames: Vec<RawFrame>, at: Option<CopyPlace>) {
        for (number, raw) in frames.into_iter().enumerate() {
            let (all, places) = match raw.header.frame_type {
                FrameType::Sums => (&mut self.sums, &mut self.sum_places),
                _ => (&mut self.batches, &mut self.places),
            };
            all.push(raw);
            places.extend(at.map(|at| CopyPlace { number: number as u32, ..at }));
        }
    }

    /// Takes metadata that are missing here from another reading of the same stream.
    pub fn take_missing(&mut self, other: &Self) {
        fn add(all: &mut Vec<RawFrame>, others: &[RawFrame]) {
            let had = all.len();
            let is_new = |raw: &&RawFrame| {
                all[..had]
                    .binary_search_by_key(&raw.header.sequence, |r| r.header.sequence)
                    .is_err()
            };
            let new: Vec<RawFrame> = others.iter().filter(is_new).cloned().collect();
            if !new.is_empty() {
                all.extend(new);
                all.sort_by_key(|raw| raw.header.sequence);
            }
        }
        if self.label.is_none() {
            self.label = other.label.clone();
            self.label_frame = other.label_frame.clone();
        }
        self.names = self.names.take().or_else(|| other.names.clone());
        add(&mut self.batches, &other.batches);
        add(&mut self.sums, &other.sums);
    }

    /// Its metadata, as they are stored.
    pub fn metadata(&self) -> impl Iterator<Item = &RawFrame> {
        let first = self.label_frame.iter().chain(&self.names);
        first.chain(&self.batches).chain(&self.sums)
    }

    /// Takes a frame of metadata.
    pub fn take(
        &mut self,
        header: FrameHeader,
        stored: &[u8],
        decompressor: &mut Decompressor,
    ) -> Result<(), FormatError> {
        match header.frame_type {
            FrameType::Label => {
                let mut plain = Vec::new();
                header.open(stored, None, decompressor, &mut Vec::new(), &mut plain)?;
                let label = serde_json::from_slice(&plain);
                self.label = Some(label.map_err(|_| FormatError::Invalid("stream label"))?);
                self.label_frame = Some(RawFrame { header, stored: stored.to_vec() });
            }
            FrameType::Names => self.names = Some(RawFrame { header, stored: stored.to_vec() }),
            FrameType::Batch => self.batches.push(RawFrame { header, stored: stored.to_vec() }),
            FrameType::Sums => self.sums.push(RawFrame { header, stored: stored.to_vec() }),
            _ => {}
        }
        Ok(())
    }
}

/// What a segment holds, as its catalog says or as was found by reading all of it.
#[derive(Debug, Clone, Default)]
pub struct Contents {
    /// The segment, where its blocks were read.
    pub segment: Option<SegmentId>,
    /// The segment's begin.
    pub header: Option<SegmentHeader>,
    /// The segment's end.
    pub end: Option<SegmentEnd>,
    /// Its streams.
    pub streams: Vec<StreamContents>,
    /// Where its blocks were found (index to offset and length in bytes), if it was read as a whole.
    pub blocks: Option<BTreeMap<u32, (u64, u32)>>,
}

impl Contents {
    /// Takes what is missing here from a reading of the same segment on another medium: a mirror has the same blocks.
    pub fn take_mirror(&mut self, other: Self) {
        self.header = self.header.take().or(other.header);
        self.end = self.end.take().or(other.end);
        for found in &other.streams {
            let stream = self.stream(found.stream);
            stream.take_missing(found);
            stream.index.extend(&found.index);
            stream.index.sort_by_key(|place| place.sequence);
            stream.index.dedup_by_key(|place| place.sequence);
            stream.logical_end = stream.logical_end.max(found.logical_end);
        }
        // By the end record it is known where each block lies.
        self.blocks = match (&self.end, self.blocks.take(), other.blocks) {
            (Some(_), ..) => None,
            (None, Some(here), Some(there)) => Some(there.into_iter().chain(here).collect()),
            (None, here, there) => here.or(there),
        };
    }

    /// What it holds of that stream; nothing yet, if it was not seen.
    pub fn stream(&mut self, id: StreamId) -> &mut StreamContents {
        let at = self.streams.iter().position(|s| s.stream == id).unwrap_or_else(|| {
            self.streams.push(StreamContents::new(id));
            self.streams.len() - 1
        });
        &mut self.streams[at]
    }

    /// How many of the frames that its end record counts are not known here: neither where they lie, nor what they hold. `None` without
    /// an end record.
    pub fn lacks_frames(&self) -> Option<u64> {
        let end = self.end.as_ref()?;
        let lacks = |extent: &StreamExtent| {
            let Some(s) = self.streams.iter().find(|s| s.stream == extent.stream) else {
                return extent.frames;
            };
            let places = s.index.iter().map(|p| p.sequence);
            let metadata = s.metadata().map(|raw| raw.header.sequence);
            let known: HashSet<u64> = places.chain(metadata).collect();
            extent.frames.saturating_sub(known.len() as u64)
        };
        Some(end.streams.iter().map(lacks).fold(0, u64::saturating_add))
    }

    /// Whether it is a copy that says itself that names lack in it.
    pub fn says_names_lack(&self) -> bool {
        self.end.as_ref().is_some_and(|end| end.lacks_names)
    }

    /// Reads a catalog's frames, as the IDB keeps them, one by one: all must be whole.
    pub fn from_catalog(segment: SegmentId, mut frames: impl Read) -> Result<Self, FormatError> {
        const CUT: FormatError = FormatError::Truncated("catalog");
        let stream = catalog_stream(segment);
        let mut contents = Self::default();
        let mut reader = CatalogFrames::default();
        let mut stored = Vec::new();
        let (mut sequence, mut at) = (0, 0);
        loop {
            let mut bytes = [0; FRAME_HEADER_LEN];
            match fill(&mut frames, &mut bytes).map_err(|_| CUT)? {
                0 => break,
                FRAME_HEADER_LEN => {}
                _ => return Err(CUT),
            }
            let header = FrameHeader::decode(stream, &bytes)?;
            stored.resize(header.stored as usize, 0);
            frames.read_exact(&mut stored).map_err(|_| CUT)?;
            header.check_payload(stream, &stored)?;
            if header.sequence != sequence {
                return Err(FormatError::Invalid("catalog"));
            }
            reader.at = Some(CopyPlace { at, len: header.total_len() as u32, number: 0 });
            reader.take(&header, &stored, &mut contents)?;
            at += header.total_len() as u64;
            sequence += 1;
            let padding = header.total_len() - FRAME_HEADER_LEN - stored.len();
            let mut pad = [0; FRAME_ALIGN];
            fill(&mut frames, &mut pad[..padding]).map_err(|_| CUT)?;
            if pad != [0; FRAME_ALIGN] {
                return Err(FormatError::Invalid("padding"));
            }
        }
        if !reader.complete {
            return Err(FormatError::Truncated("catalog"));
        }
        let ends: Vec<_> = contents.end.iter().flat_map(|e| &e.streams).cloned().collect();
        for extent in ends {
            contents.stream(extent.stream).logical_end = extent.logical_end;
        }
        Ok(contents)
    }
}

/// Reads until `out` is full or nothing is left; returns how much that was.
fn fill(from: &mut impl Read, out: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < out.len() {
        match from.read(&mut out[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}

/// Takes the frames of a catalog one by one.
#[derive(Default)]
pub struct CatalogFrames {
    /// Opens frames.
    pub decompressor: Decompressor,
    plain: Vec<u8>,
    scratch: Vec<u8>,
    /// Where the frame at hand lies in the catalog, where that is known.
    at: Option<CopyPlace>,
    /// The summary, which is the last, was seen.
    pub complete: bool,
}

impl CatalogFrames {
    /// Takes a frame of the catalog: what it says goes into `contents`.
    ///
    /// # Errors
    ///
    /// The frame does not open, or is not what its type says.
    pub fn take(
        &mut self,
        header: &FrameHeader,
        stored: &[u8],
        contents: &mut Contents,
    ) -> Result<(), FormatError> {
        const WHAT: &str = "catalog";
        header.open(stored, None, &mut self.decompressor, &mut self.scratch, &mut self.plain)?;
        match header.frame_type {
            FrameType::Header => {
                let header = serde_json::from_slice(&self.plain);
                contents.header = Some(header.map_err(|_| FormatError::Invalid(WHAT))?);
            }
            FrameType::Summary => {
                let end = serde_json::from_slice(&self.plain);
                contents.end = Some(end.map_err(|_| FormatError::Invalid(WHAT))?);
                self.complete = true;
            }
            FrameType::Copy => {
                let copy = CopiedFrame::decode(&self.plain)?;
                let stream = contents.stream(copy.stream);
                stream.take(copy.header, copy.stored, &mut self.decompressor)?;
                match copy.header.frame_type {
                    FrameType::Batch => stream.places.extend(self.at),
                    FrameType::Sums => stream.sum_places.extend(self.at),
                    _ => {}
                }
            }
            PACKED => {
                let (stream, frames) = unpack(&self.plain)?;
                contents.stream(stream).take_packed(frames, self.at);
            }
            FrameType::Index => {
                let (stream, places) = decode_index(&self.plain)?;
                let stream = contents.stream(stream);
                if !places.into_iter().all(|p| stream.add_place(p)) {
                    return Err(FormatError::Invalid("frame index"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
