//! What a block on an array's member says of its place there, in reserved bytes of the media agent's header.

use crate::block::{HEADER_LEN, MaHeader};
use crate::bytes::{le32, le64};
use crate::crc::crc32c;
use crate::error::{FormatError, Result};

/// What a block is to the array. The numbers are those on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// A data block.
    Data = 1,
    /// Parity of a stripe.
    Parity = 2,
    /// A block that all members have.
    Common = 3,
}

/// A block's place in an array, and the checksum by which damage of it is known without looking at its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// What the block is.
    pub role: Role,
    /// The member that it is on.
    pub member: u8,
    /// Its stripe in the segment, from 0; 0 of blocks that all have.
    pub stripe: u64,
    /// CRC of all bytes behind the media agent's header.
    pub crc: u32,
}

impl Stamp {
    /// Stamps a whole block that has a media agent's header.
    pub fn put(&self, block: &mut [u8]) {
        let h = &mut block[..HEADER_LEN];
        h[32] = self.role as u8;
        h[33] = self.member;
        h[40..48].copy_from_slice(&self.stripe.to_le_bytes());
        h[48..52].copy_from_slice(&self.crc.to_le_bytes());
        let crc = crc32c(&h[..60]);
        h[60..].copy_from_slice(&crc.to_le_bytes());
    }

    /// The stamp of a block whose media agent's header is whole; `None` if the block is of no array.
    pub fn of(block: &[u8]) -> Option<Self> {
        let h = block.get(..HEADER_LEN)?;
        let role = match h[32] {
            1 => Role::Data,
            2 => Role::Parity,
            3 => Role::Common,
            _ => return None,
        };
        Some(Self { role, member: h[33], stripe: le64(h, 40), crc: le32(h, 48) })
    }

    /// The checksum of a whole block as it is.
    pub fn crc_of(block: &[u8]) -> u32 {
        crc32c(block.get(HEADER_LEN..).unwrap_or_default())
    }

    /// Reads a block of an array and checks it whole: both checksums. `bytes` may be longer than the block.
    pub fn check(bytes: &[u8]) -> Result<(MaHeader, Self)> {
        const WHAT: &str = "block of an array";
        let header = MaHeader::decode(bytes)?;
        let block = bytes.get(..header.length as usize).ok_or(FormatError::Truncated(WHAT))?;
        let stamp = Self::of(block).ok_or(FormatError::NotA(WHAT))?;
        match Self::crc_of(block) == stamp.crc {
            true => Ok((header, stamp)),
            false => Err(FormatError::Checksum(WHAT)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{BLOCK_ALIGN, BlockKind};
    use crate::id::{BlockIndex, SegmentId};

    #[test]
    fn every_flipped_bit_is_found() {
        let mut block = vec![0x77; BLOCK_ALIGN];
        let (kind, segment, index) = (BlockKind::Data, SegmentId([3; 16]), BlockIndex(9));
        let ma = MaHeader { kind, segment, index, length: BLOCK_ALIGN as u32 };
        ma.encode(&mut block);
        assert_eq!(Stamp::check(&block), Err(FormatError::NotA("block of an array")));
        let stamp =
            Stamp { role: Role::Parity, member: 200, stripe: 7, crc: Stamp::crc_of(&block) };
        stamp.put(&mut block);
        assert_eq!(Stamp::check(&block), Ok((ma, stamp)));
        for bit in 0..block.len() * 8 {
            block[bit / 8] ^= 1 << (bit % 8);
            assert!(Stamp::check(&block).is_err(), "bit {bit}");
            block[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(Stamp::check(&block[..100]).is_err());
    }
}
