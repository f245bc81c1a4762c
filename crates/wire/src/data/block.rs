//! What a block says of itself, and what is checked of that.
//!
//! The body of a block, in this order: its number in the stream, from 0; the segment; flags; `short_len`; the stream's logical end; rows;
//! the notes of the frames that begin in it; what goes into the catalog. Of the catalog only what is not in the block comes apart: of
//! the rest it is said where in the block it lies. What follows is of a later version and is left alone.
//!
//! The payload is the block from the disk agent's header on, as far as it is used ([`crossing`]).

use std::ops::Range;

use capstan_engine::link::{BlockNotes, FilledBlock, FrameNote, SegmentOrdinal};
use capstan_format::block::{BLOCK_ALIGN, DaHeader, HEADER_LEN, NO_FRAME, PAYLOAD_AT};
use capstan_format::bytes::{Cursor, put_bytes, put_varint};
use capstan_format::frame::{
    FRAME_ALIGN, FRAME_HEADER_LEN, FRAME_PLAIN_MAX, FRAME_STORED_MAX, padded,
};
use capstan_format::id::StreamId;

use super::DataError;

const WHAT: &str = "head of a block";
const ENDS_SEGMENT: u8 = 1;
const IS_MORE: u8 = 2;

/// What of the catalog comes with a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Copied<'b> {
    /// So many bytes of the block, from the begin of one of its frames on.
    InBlock(FrameNote, usize),
    /// A frame that began in the block before.
    Apart(&'b [u8]),
}

/// What a block says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlockHead<'b> {
    /// Its number in the stream, from 0.
    pub number: u64,
    /// The segment that it was granted for.
    pub segment: SegmentOrdinal,
    /// Whether the stream has nothing more for that segment.
    pub ends_segment: bool,
    /// Whether it has no credit: it follows the last block that was granted of its segment.
    pub is_more: bool,
    /// Bytes of it that may go to the medium.
    pub short_len: u32,
    frames: Vec<FrameNote>,
    copies: Vec<Copied<'b>>,
    rows: u64,
    logical_end: u64,
}

/// The bytes of a block that cross a connection: not the media agent's header, which that fills in, and none of the zeros behind
/// `short_len`.
pub fn crossing(short_len: u32) -> Range<usize> {
    HEADER_LEN..(short_len as usize).max(HEADER_LEN)
}

/// Writes what a block says of itself.
pub fn encode(block: &FilledBlock, number: u64, is_more: bool, out: &mut Vec<u8>) {
    out.clear();
    put_varint(out, number);
    put_varint(out, block.segment.0.into());
    let ends = if block.ends_segment { ENDS_SEGMENT } else { 0 };
    out.push(ends | if is_more { IS_MORE } else { 0 });
    put_varint(out, block.short_len.into());
    let BlockNotes { frames, copies, rows, logical_end } = &block.notes;
    put_varint(out, *logical_end);
    put_varint(out, *rows);
    put_varint(out, frames.len() as u64);
    let (mut byte, mut sequence, mut logical) = (0_u32, 0_u64, 0_u64);
    for note in frames {
        // They ascend: what does not comes out as a number that the other side refuses.
        let step = note.byte.wrapping_sub(byte);
        put_varint(out, u64::from(step) << 1 | u64::from(note.logical_frame));
        put_varint(out, note.sequence.wrapping_sub(sequence));
        put_varint(out, note.logical.wrapping_sub(logical));
        (byte, sequence, logical) = (note.byte, note.sequence.wrapping_add(1), note.logical);
    }
    put_varint(out, copies.len() as u64);
    let payload = &block.buffer[PAYLOAD_AT..];
    let mut from = 0;
    for copy in copies {
        let is_here = |note: &FrameNote| {
            let rest = payload.get(note.byte as usize..);
            !note.logical_frame && rest.is_some_and(|rest| rest.starts_with(copy))
        };
        let found = frames.get(from..).and_then(|rest| rest.iter().position(is_here));
        if let Some(found) = found {
            put_varint(out, (from + found) as u64 + 1);
            put_varint(out, copy.len() as u64);
            from += found + 1;
        } else {
            put_varint(out, 0);
            put_bytes(out, copy);
        }
    }
}

impl<'b> BlockHead<'b> {
    /// Reads what a block of at most `block_size` bytes says of itself.
    pub fn decode(body: &'b [u8], block_size: usize) -> Result<Self, DataError> {
        let mut of = Cursor::new(body, WHAT);
        let number = of.varint()?;
        let segment = SegmentOrdinal(of.varint_u32()?);
        let flags = of.u8()?;
        let short_len = of.varint_u32()?;
        let logical_end = of.varint()?;
        let rows = of.varint()?;
        let frames = frame_notes(&mut of, block_size)?;
        let copies = copies(&mut of, &frames)?;
        let head = Self {
            number,
            segment,
            ends_segment: flags & ENDS_SEGMENT != 0,
            is_more: flags & IS_MORE != 0,
            short_len,
            frames,
            copies,
            rows,
            logical_end,
        };
        let is_length = short_len as usize <= block_size
            && short_len as usize >= PAYLOAD_AT
            && short_len.is_multiple_of(BLOCK_ALIGN as u32);
        match is_length {
            true => Ok(head),
            false => Err(DataError::Block("length")),
        }
    }

    /// What the media agent is told of the block, which has come.
    pub fn notes(self, block: &[u8]) -> Result<BlockNotes, DataError> {
        let wrong = || DataError::Block("catalog");
        let copy = |copied: &Copied<'_>| match copied {
            Copied::Apart(bytes) => Ok(bytes.to_vec()),
            Copied::InBlock(note, len) => {
                let at = PAYLOAD_AT + note.byte as usize;
                block.get(at..at + len).map(<[u8]>::to_vec).ok_or_else(wrong)
            }
        };
        let copies = self.copies.iter().map(copy).collect::<Result<_, _>>()?;
        let Self { frames, rows, logical_end, .. } = self;
        Ok(BlockNotes { frames, copies, rows, logical_end })
    }
}

/// What is said of the frames that begin in a block. There are no more than have room in it.
fn frame_notes(of: &mut Cursor<'_>, block_size: usize) -> Result<Vec<FrameNote>, DataError> {
    let count = of.count()?;
    if count > block_size / FRAME_HEADER_LEN {
        return Err(DataError::Block("number of frames"));
    }
    let mut frames = Vec::with_capacity(count);
    let (mut byte, mut sequence, mut logical) = (0_u32, 0_u64, 0_u64);
    for n in 0..count {
        let step = of.varint()?;
        let wrong = || DataError::Block("order of frames");
        let note = FrameNote {
            logical_frame: step & 1 != 0,
            byte: u32::try_from(step >> 1)
                .ok()
                .and_then(|step| byte.checked_add(step))
                .filter(|byte| byte.is_multiple_of(FRAME_ALIGN as u32))
                .ok_or_else(wrong)?,
            sequence: sequence.checked_add(of.varint()?).ok_or_else(wrong)?,
            logical: logical.checked_add(of.varint()?).ok_or_else(wrong)?,
        };
        if n > 0 && note.byte < byte + FRAME_HEADER_LEN as u32 {
            return Err(wrong());
        }
        (byte, logical) = (note.byte, note.logical);
        sequence = note.sequence.checked_add(1).ok_or_else(wrong)?;
        frames.push(note);
    }
    Ok(frames)
}

/// What of the catalog comes with a block: frames that end in it. Only one of them can have begun before.
fn copies<'b>(of: &mut Cursor<'b>, frames: &[FrameNote]) -> Result<Vec<Copied<'b>>, DataError> {
    const LONGEST: usize = FRAME_HEADER_LEN + FRAME_STORED_MAX + FRAME_ALIGN;
    let wrong = || DataError::Block("catalog");
    let count = of.count()?;
    if count > frames.len() + 1 {
        return Err(wrong());
    }
    let mut copies = Vec::with_capacity(count);
    let mut next = 0;
    for _ in 0..count {
        let at = of.varint()?;
        let Some(at) = at.checked_sub(1) else {
            let bytes = of.bytes()?;
            // One that began before comes first.
            if bytes.len() > LONGEST || !copies.is_empty() {
                return Err(wrong());
            }
            copies.push(Copied::Apart(bytes));
            continue;
        };
        let len = of.varint_u32()? as usize;
        let at = usize::try_from(at).ok().filter(|at| *at >= next).ok_or_else(wrong)?;
        let note = frames.get(at).filter(|note| !note.logical_frame).ok_or_else(wrong)?;
        // Frames do not overlap: so all copies together are no longer than the block.
        let end = frames.get(at + 1).map_or(u32::MAX, |next| next.byte);
        if !(FRAME_HEADER_LEN..=LONGEST).contains(&len) || note.byte as usize + len > end as usize {
            return Err(wrong());
        }
        next = at + 1;
        copies.push(Copied::InBlock(*note, len));
    }
    Ok(copies)
}

/// How far a stream has come: what its next block has to go on with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    stream: StreamId,
    number: u64,
    /// Stored bytes.
    position: u64,
    /// The next frame.
    sequence: u64,
    logical: u64,
}

impl Progress {
    /// Of a stream of which nothing came.
    pub fn of(stream: StreamId) -> Self {
        Self { stream, number: 0, position: 0, sequence: 0, logical: 0 }
    }

    /// Blocks that came.
    pub fn blocks(&self) -> u64 {
        self.number
    }

    /// Checks a block that came against what it says of itself, and against its stream. It is `short_len` bytes long; what it says in its
    /// own header is the stream's.
    pub fn check(&mut self, head: &BlockHead<'_>, block: &[u8]) -> Result<(), DataError> {
        let all: &[(bool, &'static str)] = &[(head.number == self.number, "number")];
        refuse(all)?;
        let block = block.get(..head.short_len as usize).ok_or(DataError::Block("length"))?;
        let da = DaHeader::decode(block)?;
        let first = head.frames.first().map_or(NO_FRAME, |note| note.byte);
        let last = head.frames.last();
        let begins = head.frames.first().is_none_or(|note| {
            // All frames of a stream are noted, each once.
            note.sequence == self.sequence && note.logical >= self.logical
        });
        let runs_on = head.frames.windows(2).all(|of| of[1].sequence == of[0].sequence + 1);
        let most_rows = (head.copies.len() as u64).saturating_mul(FRAME_PLAIN_MAX as u64);
        refuse(&[
            (da.stream == self.stream, "stream"),
            (da.position == self.position, "position"),
            (padded(da.used as usize) == da.used as usize, "length"),
            (da.first_frame == first, "first frame"),
            (last.is_none_or(|note| note.byte < da.used), "order of frames"),
            (begins && runs_on, "sequence of frames"),
            (head.logical_end >= last.map_or(self.logical, |note| note.logical), "logical end"),
            (head.rows <= most_rows, "number of rows"),
        ])?;
        self.number += 1;
        self.position += u64::from(da.used);
        self.sequence += head.frames.len() as u64;
        self.logical = head.logical_end;
        Ok(())
    }
}

/// The first of these that does not hold is what is wrong.
fn refuse(all: &[(bool, &'static str)]) -> Result<(), DataError> {
    match all.iter().find(|(holds, _)| !holds) {
        Some((_, what)) => Err(DataError::Block(what)),
        None => Ok(()),
    }
}
