//! Reading frames of one stream of a segment by their places: frames that are asked for in order read every block once.

use std::collections::BTreeMap;
use std::sync::Arc;

use capstan_engine::buffer::Buffer;
use capstan_engine::leaving::has_left;
use capstan_format::FormatError;
use capstan_format::block::{BLOCK_ALIGN, DaHeader, PAYLOAD_AT};
use capstan_format::catalog::Contents;
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader};
use capstan_format::id::{MediumId, StreamId};
use capstan_format::index::FramePlace;

use capstan_medium::storage::ReadFile;
use capstan_port::media::read::error::ReadError;
use capstan_port::media::read::segment::ReadSegment;
use capstan_wire::keys::FrameKey;

use super::frame_check::Frames;

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
    file: Arc<dyn ReadFile>,
    medium: MediumId,
    path: String,
    block_size: usize,
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
    /// Of one of a segment's streams.
    pub fn of(segment: &dyn ReadSegment, contents: &Contents, stream: StreamId) -> Self {
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
        Self {
            file: segment.file().clone(),
            medium: segment.medium(),
            path: segment.path().to_owned(),
            block_size: segment.block_size(),
            stream,
            owner,
            data_blocks,
            other_lengths,
            blocks: contents.blocks.clone(),
            block: Buffer::new(segment.block_size().max(BLOCK_ALIGN)),
            current: None,
            spanned: Vec::new(),
        }
    }

    /// Where a data block begins in the segment's file, in bytes, and its length.
    fn place_of(&self, index: u32) -> Option<(u64, usize)> {
        if let Some(blocks) = &self.blocks {
            return blocks
                .get(&index)
                .map(|(at, len)| (*at, (*len as usize).min(self.block.len())));
        }
        let full = self.block_size as u64;
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
        let n = self.file.read_block(index, at, &mut self.block[..len]);
        let failed = |source| ReadError::Io { path: self.path.clone(), source };
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
        self.medium
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

/// Reads frames of a stream, and opens them as far as there are keys. Gives where each ends, or why it cannot be had.
pub fn open_frames(
    segment: &dyn ReadSegment,
    layout: &Contents,
    (stream, places): (StreamId, &[FramePlace]),
    keys: &[FrameKey],
) -> Vec<Result<u64, ReadError>> {
    let label = layout.streams.iter().find(|s| s.stream == stream);
    let label = label.and_then(|s| s.label.as_ref()).map(|l| &l.session);
    let mut frames = FrameReader::of(segment, layout, stream);
    let mut opening = Frames::new(keys);
    let mut ends = Vec::new();
    for place in places {
        let end = frames.frame(place).and_then(|(header, stored)| {
            opening.check(label, stream, &header, stored)?;
            Ok(header.logical.saturating_add(header.length))
        });
        let is_last = end.as_ref().is_err_and(ReadError::spares_segment) || has_left();
        ends.push(end);
        if is_last {
            break;
        }
    }
    ends
}
