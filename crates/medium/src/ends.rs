//! The end record of a segment on a member, and what follows from it: where the blocks lie.

use std::io;

use capstan_format::FormatError;
use capstan_format::array::{ArrayPlace, Layout};
use capstan_format::array_map::SegmentMap;
use capstan_format::block::{BLOCK_ALIGN, BLOCK_SIZE_MAX, BlockKind, MaHeader};
use capstan_format::record::{SegmentEnd, decode_record};

use crate::storage::ReadFile;

/// The map of an array that has that place in another one: the end record counts the blocks of the outermost.
pub fn map_of(
    layout: Layout,
    place: Option<&ArrayPlace>,
    block_size: u32,
    end: &SegmentEnd,
) -> Result<SegmentMap, FormatError> {
    let Some(place) = place else { return SegmentMap::new(layout, block_size, end) };
    let outer = map_of(place.layout()?, place.of.as_deref(), block_size, end)?;
    Ok(outer.of_member(place.member as usize, layout))
}

/// Blocks of stripes that a member has of a segment, where all of them are full ones.
pub fn blocks_on(place: &ArrayPlace, block_size: u64, end: &SegmentEnd) -> io::Result<u64> {
    let size = u32::try_from(block_size).map_err(invalid)?;
    let layout = place.layout().map_err(invalid)?;
    let map = map_of(layout, place.of.as_deref(), size, end).map_err(invalid)?;
    let member = place.member as usize;
    let bytes = map.member_at(member, map.stripes()) - u64::from(map.header_len());
    Ok(bytes / block_size.max(1))
}

/// The end record of a member's file, and its length.
pub fn find_end(file: &dyn ReadFile) -> io::Result<(SegmentEnd, u64)> {
    let len = file.len()?;
    let most = u64::from(BLOCK_SIZE_MAX).min(len);
    let mut window = (64 << 10).min(len);
    loop {
        let from = (len - window) / BLOCK_ALIGN as u64 * BLOCK_ALIGN as u64;
        let mut bytes = vec![0; (len - from) as usize];
        let n = file.read_at(&mut bytes, from)?;
        bytes.truncate(n);
        for at in (0..bytes.len()).step_by(BLOCK_ALIGN).rev() {
            let is_last = |h: MaHeader| {
                h.kind == BlockKind::SegmentEnd && h.length as usize == bytes.len() - at
            };
            if MaHeader::decode(&bytes[at..]).is_ok_and(is_last) {
                let found = decode_record(BlockKind::SegmentEnd, &bytes[at..]);
                let (_, end) = found.map_err(invalid)?;
                return Ok((end, (bytes.len() - at) as u64));
            }
        }
        if window >= most {
            return Err(invalid("no end record"));
        }
        window = (window * 16).min(most);
    }
}

/// An error of that kind which says why data are not as they should be.
pub fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
