//! Blocks: the unit written to a device, with the media agent's header and the disk agent's header.
//!
//! ```text
//! 0        64        128                     128+used          length
//! | MA hdr | DA hdr | payload: frames ...    | zeros           |
//! ```

use crate::bytes::{id16, is_zero, le16, le32, le64};
use crate::crc::crc32c;
use crate::error::{FormatError, Result};
use crate::id::{BlockIndex, SegmentId, StreamId};

/// Length of each of the two headers, in bytes.
pub const HEADER_LEN: usize = 64;
/// Where the payload begins, in bytes.
pub const PAYLOAD_AT: usize = 2 * HEADER_LEN;
/// Blocks are a multiple of this many bytes, and short last blocks too.
pub const BLOCK_ALIGN: usize = 4096;
/// Smallest block size of a medium: 64 KiB.
pub const BLOCK_SIZE_MIN: u32 = 64 << 10;
/// Largest block size of a medium: 8 MiB.
pub const BLOCK_SIZE_MAX: u32 = 8 << 20;
/// Marks a block in which no frame starts.
pub const NO_FRAME: u32 = u32::MAX;

const MA_MAGIC: &[u8; 4] = b"CpMA";
const DA_MAGIC: &[u8; 4] = b"CpDA";
const VERSION: u8 = 1;

/// Whether `size` may be the block size of a medium: 64 KiB to 8 MiB, a multiple of 4096.
pub const fn is_block_size(size: u32) -> bool {
    size >= BLOCK_SIZE_MIN && size <= BLOCK_SIZE_MAX && size.is_multiple_of(BLOCK_ALIGN as u32)
}

/// What a block is in its segment. The numbers are those on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlockKind {
    /// The segment's first block: a record ([`crate::record::SegmentHeader`]).
    SegmentHeader = 1,
    /// Frames of a stream of files.
    Data = 2,
    /// Frames of the segment's catalog.
    Catalog = 3,
    /// The segment's last block: a record ([`crate::record::SegmentEnd`]).
    SegmentEnd = 4,
    /// The medium's own header, outside every segment.
    MediumHeader = 5,
    /// The lock of a version, outside every segment ([`crate::attachment::lock::VersionLock`]).
    VersionLock = 6,
    /// The first block of what is attached to a tape: a record ([`crate::attachment::AttachmentHeader`]).
    Attachment = 7,
    /// Contents of an attachment.
    AttachmentData = 8,
    /// An attachment's last block: a record ([`crate::attachment::AttachmentEnd`]).
    AttachmentEnd = 9,
}

impl BlockKind {
    /// Whether it is a block of an attachment.
    pub fn is_of_attachment(self) -> bool {
        matches!(self, Self::Attachment | Self::AttachmentData | Self::AttachmentEnd)
    }
}

/// The media agent's header: the block's place in its segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MaHeader {
    /// What the block is.
    pub kind: BlockKind,
    /// The segment it belongs to.
    pub segment: SegmentId,
    /// Its place in the segment.
    pub index: BlockIndex,
    /// Length of the whole block on the medium in bytes, headers and padding included.
    pub length: u32,
}

impl MaHeader {
    /// Writes the header into the first 64 bytes of `block`.
    pub fn encode(&self, block: &mut [u8]) {
        let h = &mut block[..HEADER_LEN];
        h.fill(0);
        h[..4].copy_from_slice(MA_MAGIC);
        h[4] = VERSION;
        h[5] = self.kind as u8;
        h[8..24].copy_from_slice(self.segment.as_bytes());
        h[24..28].copy_from_slice(&self.index.0.to_le_bytes());
        h[28..32].copy_from_slice(&self.length.to_le_bytes());
        let crc = crc32c(&h[..60]);
        h[60..64].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads the header from the first 64 bytes of `block`.
    pub fn decode(block: &[u8]) -> Result<Self> {
        const WHAT: &str = "media agent's block header";
        let h = block.get(..HEADER_LEN).ok_or(FormatError::Truncated(WHAT))?;
        check_header(h, MA_MAGIC, WHAT)?;
        let kind = match h[5] {
            1 => BlockKind::SegmentHeader,
            2 => BlockKind::Data,
            3 => BlockKind::Catalog,
            4 => BlockKind::SegmentEnd,
            5 => BlockKind::MediumHeader,
            6 => BlockKind::VersionLock,
            7 => BlockKind::Attachment,
            8 => BlockKind::AttachmentData,
            9 => BlockKind::AttachmentEnd,
            _ => return Err(FormatError::Invalid(WHAT)),
        };
        let length = le32(h, 28);
        let flags_and_length_ok = le16(h, 6) == 0
            && length >= BLOCK_ALIGN as u32
            && length <= BLOCK_SIZE_MAX
            && length.is_multiple_of(BLOCK_ALIGN as u32);
        if !flags_and_length_ok {
            return Err(FormatError::Invalid(WHAT));
        }
        Ok(Self { kind, segment: SegmentId(id16(h, 8)), index: BlockIndex(le32(h, 24)), length })
    }
}

/// The disk agent's header: the block's place in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DaHeader {
    /// The stream's origin.
    pub stream: StreamId,
    /// Stored bytes of the stream before this block's payload.
    pub position: u64,
    /// Bytes of the payload in use; zeros follow.
    pub used: u32,
    /// Offset in the payload of the first frame that starts here, [`NO_FRAME`] if none does.
    pub first_frame: u32,
}

impl DaHeader {
    /// Writes the header into bytes 64 to 128 of `block`.
    pub fn encode(&self, block: &mut [u8]) {
        let h = &mut block[HEADER_LEN..PAYLOAD_AT];
        h.fill(0);
        h[..4].copy_from_slice(DA_MAGIC);
        h[4] = VERSION;
        h[8..24].copy_from_slice(self.stream.as_bytes());
        h[24..32].copy_from_slice(&self.position.to_le_bytes());
        h[32..36].copy_from_slice(&self.used.to_le_bytes());
        h[36..40].copy_from_slice(&self.first_frame.to_le_bytes());
        let crc = crc32c(&h[..60]);
        h[60..64].copy_from_slice(&crc.to_le_bytes());
    }

    /// Reads the header from bytes 64 to 128 of a whole block, and checks it against the block's length.
    pub fn decode(block: &[u8]) -> Result<Self> {
        const WHAT: &str = "disk agent's block header";
        let h = block.get(HEADER_LEN..PAYLOAD_AT).ok_or(FormatError::Truncated(WHAT))?;
        check_header(h, DA_MAGIC, WHAT)?;
        let header = Self {
            stream: StreamId(id16(h, 8)),
            position: le64(h, 24),
            used: le32(h, 32),
            first_frame: le32(h, 36),
        };
        let room = block.len() - PAYLOAD_AT;
        let first_ok = header.first_frame == NO_FRAME || header.first_frame < header.used;
        let ends = header.position.checked_add(header.used.into());
        if header.used as usize > room || ends.is_none() || !first_ok || !is_zero(&h[5..8]) {
            return Err(FormatError::Invalid(WHAT));
        }
        Ok(header)
    }
}

fn check_header(h: &[u8], magic: &[u8; 4], what: &'static str) -> Result<()> {
    if &h[..4] != magic {
        return Err(FormatError::NotA(what));
    }
    if crc32c(&h[..60]) != le32(h, 60) {
        return Err(FormatError::Checksum(what));
    }
    if h[4] != VERSION {
        return Err(FormatError::Newer {
            what: what.into(),
            found: h[4].into(),
            known: VERSION.into(),
        });
    }
    Ok(())
}

/// A whole data or catalog block, checked: both headers and the padding. The frames in it check themselves.
#[derive(Debug, Clone, Copy)]
pub struct Block<'a> {
    /// Its place in the segment.
    pub ma: MaHeader,
    /// Its place in the stream.
    pub da: DaHeader,
    /// The bytes in use.
    pub payload: &'a [u8],
}

impl<'a> Block<'a> {
    /// Reads a block from `bytes`, which may be longer than the block.
    pub fn decode(bytes: &'a [u8]) -> Result<Self> {
        const WHAT: &str = "block";
        let ma = MaHeader::decode(bytes)?;
        if !matches!(ma.kind, BlockKind::Data | BlockKind::Catalog) {
            return Err(FormatError::NotA("data block"));
        }
        let block = bytes.get(..ma.length as usize).ok_or(FormatError::Truncated(WHAT))?;
        let da = DaHeader::decode(block)?;
        let (payload, padding) = block[PAYLOAD_AT..].split_at(da.used as usize);
        if !is_zero(padding) {
            return Err(FormatError::Padding(WHAT));
        }
        Ok(Self { ma, da, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let mut block = vec![0; BLOCK_ALIGN];
        block[PAYLOAD_AT..PAYLOAD_AT + 40].fill(7);
        let ma = MaHeader {
            kind: BlockKind::Data,
            segment: SegmentId([3; 16]),
            index: BlockIndex(9),
            length: BLOCK_ALIGN as u32,
        };
        let da = DaHeader { stream: StreamId([5; 16]), position: 77, used: 40, first_frame: 0 };
        da.encode(&mut block);
        ma.encode(&mut block);
        block
    }

    #[test]
    fn a_block_reads_back() {
        let bytes = sample();
        let block = Block::decode(&bytes).unwrap();
        assert_eq!((block.ma.index, block.da.position), (BlockIndex(9), 77));
        assert_eq!(block.payload, [7; 40]);
    }

    #[test]
    fn a_position_beyond_all_numbers_is_refused() {
        let mut bytes = sample();
        let da = DaHeader::decode(&bytes).unwrap();
        DaHeader { position: u64::MAX - 40, ..da }.encode(&mut bytes);
        assert!(DaHeader::decode(&bytes).is_ok());
        DaHeader { position: u64::MAX - 39, ..da }.encode(&mut bytes);
        assert_eq!(
            DaHeader::decode(&bytes),
            Err(FormatError::Invalid("disk agent's block header"))
        );
    }

    #[test]
    fn every_flipped_bit_outside_the_payload_is_found() {
        let good = sample();
        for bit in 0..good.len() * 8 {
            let at = bit / 8;
            if (PAYLOAD_AT..PAYLOAD_AT + 40).contains(&at) {
                continue;
            }
            let mut bad = good.clone();
            bad[at] ^= 1 << (bit % 8);
            assert!(Block::decode(&bad).is_err(), "bit {bit}");
        }
    }
}
