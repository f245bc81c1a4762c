//! Reading a segment back: its records, its catalog, and single frames by their place.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::{Arc, OnceLock};

use capstan_devices::DeviceError;
use capstan_devices::file::FileMedium;
use capstan_devices::storage::ReadFile;
use capstan_engine::buffer::Buffer;
use capstan_format::FormatError;
use capstan_format::block::{
    BLOCK_ALIGN, BLOCK_SIZE_MAX, BlockKind, DaHeader, MaHeader, PAYLOAD_AT,
};
use capstan_format::codec::Decompressor;
use capstan_format::frame::{
    CopiedFrame, FRAME_ALIGN, FRAME_HEADER_LEN, FRAME_STORED_MAX, FrameHeader, FrameType,
};
use capstan_format::id::{SegmentId, SegmentNumber, StreamId};
use capstan_format::index::{FramePlace, decode_index};
use capstan_format::record::{SegmentEnd, SegmentHeader, StreamLabel, decode_record};

use crate::catalog::catalog_stream;
use crate::packed::{PACKED, unpack};

/// Most bytes of a frame of a catalog.
const FRAME_COPY_MAX: usize = FRAME_HEADER_LEN + FRAME_STORED_MAX + FRAME_ALIGN;

/// Why something of a segment cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The device.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The operating system.
    #[error("cannot read {path}: {source}")]
    Io {
        /// Of what.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The bytes.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// The process is to end.
    #[error("it was stopped before all of it was read; do it again")]
    Stopped,
}

/// A frame as it is stored, its checksum checked.
#[derive(Debug, Clone)]
pub struct RawFrame {
    /// Its header.
    pub header: FrameHeader,
    /// Its stored payload.
    pub stored: Vec<u8>,
}

/// Where a copied frame lies in a catalog, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyPlace {
    /// Its begin, or that of what it is packed in.
    pub at: u64,
    /// Its length, or that of what it is packed in, with header and padding.
    pub len: u32,
    /// Which of the frames there it is, from 0.
    pub number: u32,
}

/// A catalog to read: fills a buffer with what lies at an offset.
pub type ReadAt<'a> = &'a dyn Fn(&mut [u8], u64) -> std::io::Result<()>;

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
    pub(crate) fn add_place(&mut self, place: FramePlace) -> bool {
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
    pub(crate) fn take_missing(&mut self, other: &Self) {
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

    /// Takes a frame of metadata.
    pub(crate) fn take(
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
    pub(crate) fn stream(&mut self, id: StreamId) -> &mut StreamContents {
        let at = self.streams.iter().position(|s| s.stream == id).unwrap_or_else(|| {
            self.streams.push(StreamContents::new(id));
            self.streams.len() - 1
        });
        &mut self.streams[at]
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
pub(crate) struct CatalogFrames {
    pub decompressor: Decompressor,
    plain: Vec<u8>,
    scratch: Vec<u8>,
    /// Where the frame at hand lies in the catalog, where that is known.
    at: Option<CopyPlace>,
    /// The summary, which is the last, was seen.
    pub complete: bool,
}

impl CatalogFrames {
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

/// A segment on a medium, open to read.
#[derive(Clone)]
pub struct SegmentReader {
    pub(crate) file: Arc<dyn ReadFile>,
    /// The segment's number on its medium.
    pub number: SegmentNumber,
    pub(crate) path: String,
    /// Its length, once it was asked for: on tape that is found out by going there.
    len: OnceLock<u64>,
    pub(crate) block_size: usize,
}

impl SegmentReader {
    /// Opens a segment.
    pub fn open(medium: &FileMedium, number: SegmentNumber) -> Result<Self, ReadError> {
        let path = format!("segment {} of {}", number.0, medium.path());
        let file: Arc<dyn ReadFile> = medium.open_segment(number)?.into();
        let block_size = medium.header().block_size as usize;
        Ok(Self { file, number, path, len: OnceLock::new(), block_size })
    }

    /// What it is, for messages.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its length in bytes.
    pub fn len(&self) -> Result<u64, ReadError> {
        if let Some(len) = self.len.get() {
            return Ok(*len);
        }
        let len = self.file.len();
        let len = len.map_err(|source| ReadError::Io { path: self.path.clone(), source })?;
        Ok(*self.len.get_or_init(|| len))
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> Result<bool, ReadError> {
        Ok(self.len()? == 0)
    }

    /// Blocks and filemarks before it on its tape, once that is known.
    pub fn object(&self) -> Option<u64> {
        self.file.object()
    }

    pub(crate) fn read(&self, out: &mut [u8], offset: u64) -> Result<usize, ReadError> {
        let result = self.file.read_at(out, offset);
        result.map_err(|source| ReadError::Io { path: self.path.clone(), source })
    }

    /// The segment's header record.
    pub fn header(&self) -> Result<SegmentHeader, ReadError> {
        let mut bytes = vec![0; BLOCK_ALIGN];
        let n = self.read(&mut bytes, 0)?;
        let length = MaHeader::decode(&bytes[..n])?.length as usize;
        bytes.resize(length, 0);
        let n = self.read(&mut bytes, 0)?;
        Ok(decode_record(BlockKind::SegmentHeader, &bytes[..n])?.1)
    }

    /// The segment's end record, looked for from the end of the file.
    pub fn end(&self) -> Result<SegmentEnd, ReadError> {
        let len = self.len()?;
        let mut window = (64 << 10).min(len);
        loop {
            let from = (len - window) / BLOCK_ALIGN as u64 * BLOCK_ALIGN as u64;
            let mut bytes = vec![0; (len - from) as usize];
            let n = self.read(&mut bytes, from)?;
            bytes.truncate(n);
            for at in (0..bytes.len()).step_by(BLOCK_ALIGN).rev() {
                // It is the very last block: an end record inside is of a medium that was backed up.
                let last = |h: MaHeader| {
                    h.kind == BlockKind::SegmentEnd && h.length as usize == bytes.len() - at
                };
                if MaHeader::decode(&bytes[at..]).is_ok_and(last) {
                    return Ok(decode_record(BlockKind::SegmentEnd, &bytes[at..])?.1);
                }
            }
            if window >= len.min(2 * u64::from(BLOCK_SIZE_MAX)) {
                return Err(FormatError::NotA("segment end record").into());
            }
            window = (window * 16).min(len);
        }
    }

    /// The segment's contents as its catalog says; an error if any of it is damaged.
    pub fn catalog(&self) -> Result<Contents, ReadError> {
        let end = self.end()?;
        let mut frames = Vec::new();
        let mut at = end.catalog_at;
        let mut block = Vec::new();
        let len = self.len()?;
        while at < len {
            block.resize(self.block_size.max(BLOCK_ALIGN), 0);
            let n = self.read(&mut block, at)?;
            let ma = MaHeader::decode(&block[..n])?;
            if ma.segment != end.segment {
                return Err(FormatError::Invalid("catalog").into());
            }
            if ma.kind != BlockKind::Catalog {
                break;
            }
            let decoded = capstan_format::block::Block::decode(&block[..n])?;
            if decoded.da.position != frames.len() as u64 {
                return Err(FormatError::Truncated("catalog").into());
            }
            frames.extend_from_slice(decoded.payload);
            at += u64::from(ma.length);
        }
        let mut contents = Contents::from_catalog(end.segment, &frames[..])?;
        contents.end = Some(end);
        Ok(contents)
    }

    /// Reads frames of one of its streams by their places.
    pub fn frames(&self, contents: &Contents, stream: StreamId) -> FrameReader {
        /// More blocks than a segment has where it is not damaged: of others no note is kept.
        const MOST: usize = 1 << 24;
        let mut owner: Vec<Option<bool>> = Vec::new();
        for s in &contents.streams {
            for place in &s.index {
                let at = place.block.0 as usize;
                if at <= MOST {
                    if owner.len() <= at {
                        owner.resize(at + 1, None);
                    }
                    owner[at] = Some(s.stream == stream);
                }
            }
        }
        let (data_blocks, other_lengths) = contents
            .end
            .as_ref()
            .map_or((u32::MAX, Vec::new()), |e| (e.data_blocks, e.short_blocks.clone()));
        FrameReader {
            segment: self.clone(),
            stream,
            owner,
            data_blocks,
            other_lengths,
            blocks: contents.blocks.clone(),
            block: Buffer::new(self.block_size.max(BLOCK_ALIGN)),
            current: None,
            spanned: Vec::new(),
        }
    }
}

/// So many blocks of unknown streams are tried with and without, where a frame goes on behind them.
const UNKNOWN_MOST: usize = 4;

/// Whose a block is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Ours,
    Others,
    /// Its header is damaged.
    Unknown,
}

/// Reads frames of one stream of a segment. Frames asked for in order read every block once.
pub struct FrameReader {
    segment: SegmentReader,
    stream: StreamId,
    /// Of each block, whether it is known to be this stream's (or another's).
    owner: Vec<Option<bool>>,
    data_blocks: u32,
    other_lengths: Vec<(u32, u32)>,
    blocks: Option<BTreeMap<u32, (u64, u32)>>,
    block: Buffer,
    /// The block in `block`: its index, its bytes in use, whose it is.
    current: Option<(u32, usize, Whose)>,
    spanned: Vec<u8>,
}

impl FrameReader {
    /// Where a data block begins in the segment's file, in bytes, and its length.
    fn place_of(&self, index: u32) -> Option<(u64, usize)> {
        if let Some(blocks) = &self.blocks {
            return blocks
                .get(&index)
                .map(|(at, len)| (*at, (*len as usize).min(self.block.len())));
        }
        let full = self.segment.block_size as u64;
        let mut at = u64::from(index) * full;
        let mut len = full;
        for (other, length) in &self.other_lengths {
            let length = u64::from(*length);
            if *other < index {
                at = (at + length).saturating_sub(full);
            } else if *other == index {
                len = length;
            }
        }
        Some((at, (len as usize).min(self.block.len())))
    }

    /// Loads a block; says whose it is. Damage of its headers is left to the frames' own checks.
    fn load(&mut self, index: u32) -> Result<Whose, ReadError> {
        if let Some((at, _, whose)) = self.current
            && at == index
        {
            return Ok(whose);
        }
        self.current = None;
        let Some((at, len)) = self.place_of(index) else {
            return Err(FormatError::Truncated("segment").into());
        };
        let n = self.segment.file.read_block(index, at, &mut self.block[..len]);
        let failed = |source| ReadError::Io { path: self.segment.path.clone(), source };
        let n = n.map_err(failed)?;
        if n < PAYLOAD_AT {
            return Err(FormatError::Truncated("segment").into());
        }
        let (used, whose) = match DaHeader::decode(&self.block[..n]) {
            Ok(da) if da.stream != self.stream => (0, Whose::Others),
            Ok(da) => (da.used as usize, Whose::Ours),
            Err(_) => (n - PAYLOAD_AT, Whose::Unknown),
        };
        self.current = Some((index, used, whose));
        Ok(whose)
    }

    /// Bytes of the stream before the frame at a place, of all its segments.
    pub fn position_of(&mut self, place: &FramePlace) -> Option<u64> {
        let there = self.load(place.block.0).unwrap_or(Whose::Others);
        let da = (there == Whose::Ours).then(|| DaHeader::decode(&self.block).ok()).flatten()?;
        da.position.checked_add(place.byte.into())
    }

    /// The frame at a place: its header, and its stored bytes, checked.
    pub fn frame(&mut self, place: &FramePlace) -> Result<(FrameHeader, &[u8]), ReadError> {
        let truncated = || ReadError::from(FormatError::Truncated("frame"));
        if self.load(place.block.0)? == Whose::Others {
            return Err(FormatError::Invalid("frame index").into());
        }
        let used = self.current.map_or(0, |c| c.1);
        let payload = &self.block[PAYLOAD_AT..PAYLOAD_AT + used];
        let bytes = payload.get(place.byte as usize..).ok_or_else(truncated)?;
        let header = FrameHeader::decode(self.stream, bytes)?;
        if header.sequence != place.sequence || header.logical != place.logical {
            return Err(FormatError::Invalid("frame index").into());
        }
        let need = header.stored as usize;
        let here = bytes.len() - FRAME_HEADER_LEN;
        if here >= need {
            let at = PAYLOAD_AT + place.byte as usize + FRAME_HEADER_LEN;
            let stored = &self.block[at..at + need];
            header.check_payload(self.stream, stored)?;
            return Ok((header, stored));
        }
        let begin = bytes[FRAME_HEADER_LEN..].to_vec();
        let mut unknown = Vec::new();
        self.join(place.block.0, &begin, need, &mut unknown, 0)?;
        let mut checked = header.check_payload(self.stream, &self.spanned);
        // Blocks that do not say whose they are may be another stream's.
        let tries = 1u32 << unknown.len().min(UNKNOWN_MOST);
        for left_out in 1..tries {
            if checked.is_ok() {
                break;
            }
            if self.join(place.block.0, &begin, need, &mut Vec::new(), left_out).is_ok() {
                checked = header.check_payload(self.stream, &self.spanned);
            }
        }
        checked?;
        Ok((header, &self.spanned))
    }

    /// Joins what follows a frame's begin in the blocks behind the one that has it. Those that do not say whose they are are told in
    /// `unknown`, and taken, but the n-th not where `left_out` has the n-th bit.
    fn join(
        &mut self,
        block: u32,
        begin: &[u8],
        need: usize,
        unknown: &mut Vec<u32>,
        left_out: u32,
    ) -> Result<(), ReadError> {
        self.spanned.clear();
        self.spanned.extend_from_slice(begin);
        let mut index = block;
        let mut met = 0;
        while self.spanned.len() < need {
            index += 1;
            if index > self.data_blocks {
                return Err(FormatError::Truncated("frame").into());
            }
            let owner = self.owner.get(index as usize).copied().flatten();
            if owner == Some(false) {
                continue;
            }
            match self.load(index)? {
                Whose::Others => continue,
                Whose::Unknown if owner.is_none() => {
                    unknown.push(index);
                    met += 1;
                    if met <= UNKNOWN_MOST && left_out & (1 << (met - 1)) != 0 {
                        continue;
                    }
                }
                _ => {}
            }
            let used = self.current.map_or(0, |c| c.1);
            let take = used.min(need - self.spanned.len());
            self.spanned.extend_from_slice(&self.block[PAYLOAD_AT..PAYLOAD_AT + take]);
        }
        Ok(())
    }
}
