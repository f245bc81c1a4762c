//! The frame index of a catalog: where each frame of a stream lies in its segment.

use super::FrameType;
use crate::bytes::{Cursor, put_varint};
use crate::error::{FormatError, Result};
use crate::id::{BlockIndex, StreamId};

/// Most frames of one index frame; a longer index takes several.
pub const INDEX_FRAMES_MAX: usize = 32_768;
const WHAT: &str = "frame index";

/// Where a frame lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FramePlace {
    /// Whether it is a data or fill frame, which advances the logical offset.
    pub logical_frame: bool,
    /// Its sequence in the stream.
    pub sequence: u64,
    /// The logical offset at which it begins.
    pub logical: u64,
    /// The block of the segment in which it begins.
    pub block: BlockIndex,
    /// The byte of that block's payload at which it begins.
    pub byte: u32,
}

impl FramePlace {
    /// A place for a frame of that type.
    pub fn of(
        frame_type: FrameType,
        sequence: u64,
        logical: u64,
        block: BlockIndex,
        byte: u32,
    ) -> Self {
        Self { logical_frame: frame_type.is_logical(), sequence, logical, block, byte }
    }
}

/// Encodes up to [`INDEX_FRAMES_MAX`] places of one stream, ascending. What does not ascend is left out: frames that are copied
/// may claim what they like.
pub fn encode_index(stream: StreamId, places: &[FramePlace]) -> Vec<u8> {
    let mut end = (0u64, 0u64, 0u32);
    let ascends = |p: &&FramePlace| {
        let ascends = p.sequence >= end.0 && p.logical >= end.1 && p.block.0 >= end.2;
        if ascends {
            end = (p.sequence, p.logical, p.block.0);
        }
        ascends
    };
    let places: Vec<&FramePlace> = places.iter().filter(ascends).collect();
    let mut out = stream.as_bytes().to_vec();
    put_varint(&mut out, places.len() as u64);
    let mut last = (0u64, 0u64, 0u32);
    for p in places {
        put_varint(&mut out, u64::from(p.logical_frame));
        put_varint(&mut out, p.sequence - last.0);
        put_varint(&mut out, p.logical - last.1);
        put_varint(&mut out, u64::from(p.block.0 - last.2));
        put_varint(&mut out, p.byte.into());
        last = (p.sequence, p.logical, p.block.0);
    }
    out
}

/// Decodes an index frame's plain payload.
pub fn decode_index(plain: &[u8]) -> Result<(StreamId, Vec<FramePlace>)> {
    let mut c = Cursor::new(plain, WHAT);
    let stream = StreamId(c.array()?);
    let n = c.count()?;
    if n > INDEX_FRAMES_MAX {
        return Err(FormatError::Invalid(WHAT));
    }
    let mut places = Vec::with_capacity(n);
    let mut last = (0u64, 0u64, 0u32);
    for _ in 0..n {
        let bad = FormatError::Invalid(WHAT);
        let logical_frame = match c.varint()? {
            0 => false,
            1 => true,
            _ => return Err(bad),
        };
        let sequence = last.0.checked_add(c.varint()?).ok_or_else(|| bad.clone())?;
        let logical = last.1.checked_add(c.varint()?).ok_or_else(|| bad.clone())?;
        let block = last.2.checked_add(c.varint_u32()?).ok_or(bad)?;
        let byte = c.varint_u32()?;
        last = (sequence, logical, block);
        places.push(FramePlace {
            logical_frame,
            sequence,
            logical,
            block: BlockIndex(block),
            byte,
        });
    }
    if c.is_empty() { Ok((stream, places)) } else { Err(FormatError::Invalid(WHAT)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_ascend_is_left_out() {
        let place = |sequence, logical, block| {
            FramePlace::of(FrameType::Data, sequence, logical, BlockIndex(block), 0)
        };
        let good = [place(1, 0, 1), place(2, 9, 1), place(5, 30, 2)];
        let claimed = [good[0], place(0, 9, 1), good[1], place(3, 8, 1), place(4, 30, 0), good[2]];
        let bytes = encode_index(StreamId([4; 16]), &claimed);
        assert_eq!(decode_index(&bytes).unwrap().1, good);
    }

    #[test]
    fn an_index_reads_back() {
        let places: Vec<_> = (0..100u32)
            .map(|i| FramePlace {
                logical_frame: i % 2 == 1,
                sequence: u64::from(i) + 7,
                logical: u64::from(i) * 1000,
                block: BlockIndex(1 + i / 3),
                byte: i * 8,
            })
            .collect();
        let bytes = encode_index(StreamId([4; 16]), &places);
        assert_eq!(decode_index(&bytes).unwrap(), (StreamId([4; 16]), places));
        for cut in 0..bytes.len() {
            assert!(decode_index(&bytes[..cut]).is_err());
        }
    }
}
