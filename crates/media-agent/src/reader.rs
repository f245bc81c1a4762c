//! Reading a segment back: its records, its catalog, and single frames by their place.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use capstan_devices::DeviceError;
use capstan_devices::file::FileMedium;
use capstan_devices::storage::ReadFile;
use capstan_engine::buffer::Buffer;
use capstan_format::FormatError;
use capstan_format::block::{
    BLOCK_ALIGN, BLOCK_SIZE_MAX, BlockKind, DaHeader, MaHeader, PAYLOAD_AT,
};
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader};
use capstan_format::id::{MediumId, SegmentId, SegmentNumber, StreamId};
use capstan_format::index::FramePlace;
use capstan_format::record::{SegmentEnd, SegmentHeader, decode_record};

use capstan_format::catalog::Contents;

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
    /// Another segment than the one that is recorded.
    #[error(
        "another segment lies in the place of segment {}: {path}; the medium was changed from outside, `capstan idb check` says \
         what is recorded and not there", .recorded.short()
    )]
    Another {
        /// Where.
        path: String,
        /// The one that is recorded there.
        recorded: SegmentId,
    },
    /// The process is to end.
    #[error("it was stopped before all of it was read; do it again")]
    Stopped,
}

/// A segment on a medium, open to read.
#[derive(Clone)]
pub struct SegmentReader {
    pub(crate) file: Arc<dyn ReadFile>,
    /// The medium that it is on.
    pub medium: MediumId,
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
        let medium = medium.header().medium;
        Ok(Self { file, medium, number, path, len: OnceLock::new(), block_size })
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

    /// Says that what follows that data block will be read: others who read the same tape do not go on without. Until this reader, and
    /// all that was made of it, is dropped.
    pub fn expect(&self, block: u32) {
        self.file.expect(block);
    }

    /// Blocks and filemarks before it on its tape, once that is known.
    pub fn object(&self) -> Option<u64> {
        self.file.object()
    }

    pub(crate) fn read(&self, out: &mut [u8], offset: u64) -> Result<usize, ReadError> {
        let result = self.file.read_at(out, offset);
        result.map_err(|source| ReadError::Io { path: self.path.clone(), source })
    }

    /// Where the next bytes from `offset` on lie that may be other than zeros; nothing, if all that comes is a hole.
    pub(crate) fn data_from(&self, offset: u64) -> Result<Option<u64>, ReadError> {
        let found = self.file.data_from(offset);
        found.map_err(|source| ReadError::Io { path: self.path.clone(), source })
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

    /// The catalog of the segment that is recorded here: what lies in its place must say itself that it is that one.
    pub fn catalog_of(&self, segment: SegmentId) -> Result<Contents, ReadError> {
        let is_it = |found: &Contents| {
            let header = found.header.as_ref().is_none_or(|h| h.segment == segment);
            header && found.end.as_ref().is_some_and(|end| end.segment == segment)
        };
        let end = self.end()?;
        if end.segment != segment {
            return Err(self.another(segment));
        }
        let found = self.catalog()?;
        if is_it(&found) { Ok(found) } else { Err(self.another(segment)) }
    }

    /// That another one is where a segment is recorded.
    pub fn another(&self, recorded: SegmentId) -> ReadError {
        ReadError::Another { path: self.path.clone(), recorded }
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

    /// The medium that is read.
    pub fn medium(&self) -> MediumId {
        self.segment.medium
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
