//! Frames: a stream's unit of compression, encryption and check. A frame's identity is (stream, sequence), for life;
//! nothing in it says where it lies.

pub mod codec;
pub mod index;

use self::codec::{Codec, Decompressor};
use crate::block::HEADER_LEN;
use crate::bytes::{id16, is_zero, le16, le32, le64};
use crate::crc::{crc32c_of, payload_crc};
use crate::error::{FormatError, Result};
use crate::id::StreamId;
use crate::keys::FrameSealer;

/// Length of a frame's header in bytes.
pub const FRAME_HEADER_LEN: usize = 48;
/// Bytes of the header that encryption authenticates: all but the two checksums.
pub const FRAME_AD_LEN: usize = 40;
/// Frames start at multiples of this many bytes of a block's payload.
pub const FRAME_ALIGN: usize = 8;
/// Most plain bytes of a frame by default: 256 KiB.
pub const FRAME_PLAIN_DEFAULT: usize = 256 << 10;
/// Most plain bytes of a frame: 1 MiB.
pub const FRAME_PLAIN_MAX: usize = 1 << 20;
/// Length of the tag that encryption appends, in bytes.
pub const TAG_LEN: usize = 16;
/// Most stored bytes of a frame: the most plain bytes, or a frame inside a catalog frame.
pub const FRAME_STORED_MAX: usize = FRAME_PLAIN_MAX + TAG_LEN + 16 + FRAME_HEADER_LEN;

const MAGIC: &[u8; 4] = b"CpFr";
const FLAG_SEALED: u16 = 1;
const FLAG_NO_CRC: u16 = 2;

/// What a frame holds. The numbers are those on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrameType {
    /// What the stream is: ids in clear (JSON). The first frame of every stream in every segment.
    Label,
    /// Metadata of many files: a batch.
    Batch,
    /// Contents of files.
    Data,
    /// Zeros in place of contents that could not be read; no payload.
    Fill,
    /// The object's name and host (JSON), encrypted with the names key where the session is encrypted.
    Names,
    /// Checksums of the contents of a batch's files.
    Sums,
    /// In a catalog: another stream's frame, verbatim.
    Copy,
    /// In a catalog: where a stream's frames lie in the segment.
    Index,
    /// In a catalog: the segment's end record, once more.
    Summary,
    /// In a catalog: the segment's header record, once more.
    Header,
    /// A type that this version does not know; skipped by its length and counted.
    Unknown(u8),
}

impl FrameType {
    const fn number(self) -> u8 {
        match self {
            Self::Label => 1,
            Self::Batch => 2,
            Self::Data => 3,
            Self::Fill => 4,
            Self::Names => 5,
            Self::Sums => 6,
            Self::Copy => 16,
            Self::Index => 17,
            Self::Summary => 18,
            Self::Header => 19,
            Self::Unknown(n) => n,
        }
    }

    const fn from_number(n: u8) -> Self {
        match n {
            1 => Self::Label,
            2 => Self::Batch,
            3 => Self::Data,
            4 => Self::Fill,
            5 => Self::Names,
            6 => Self::Sums,
            16 => Self::Copy,
            17 => Self::Index,
            18 => Self::Summary,
            19 => Self::Header,
            n => Self::Unknown(n),
        }
    }

    /// Whether the frame advances the stream's logical byte space by its length.
    pub const fn is_logical(self) -> bool {
        matches!(self, Self::Data | Self::Fill)
    }

    /// Whether a catalog has a copy of it.
    pub const fn is_metadata(self) -> bool {
        matches!(self, Self::Label | Self::Names | Self::Batch | Self::Sums)
    }

    const fn what(self) -> &'static str {
        match self {
            Self::Label => "stream label",
            Self::Batch => "batch frame",
            Self::Data => "data frame",
            Self::Fill => "fill frame",
            Self::Names => "names frame",
            Self::Sums => "checksums of contents",
            Self::Copy | Self::Index | Self::Summary | Self::Header => "catalog frame",
            Self::Unknown(_) => "frame of unknown type",
        }
    }
}

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// What it holds.
    pub frame_type: FrameType,
    /// How it is compressed.
    pub codec: Codec,
    /// Whether its payload is encrypted.
    pub sealed: bool,
    /// Its place in the stream's sequence of frames, from 0.
    pub sequence: u64,
    /// The stream's logical offset at which it begins.
    pub logical: u64,
    /// Bytes once decrypted and decompressed; of data and fill also what they advance the logical offset by.
    pub length: u64,
    /// Bytes that follow this header on the medium, before padding to [`FRAME_ALIGN`].
    pub stored: u32,
    /// CRC-32C over stream id, sequence and the stored bytes; `None` if the stream was written without.
    pub payload_crc: Option<u32>,
}

impl FrameHeader {
    /// Writes the header into the first [`FRAME_HEADER_LEN`] bytes of `out`.
    pub fn encode(&self, stream: StreamId, out: &mut [u8]) {
        let h = &mut out[..FRAME_HEADER_LEN];
        h[..FRAME_AD_LEN].copy_from_slice(&self.associated_data());
        h[40..44].copy_from_slice(&self.payload_crc.unwrap_or(0).to_le_bytes());
        let crc = crc32c_of(&[stream.as_bytes(), &h[..44]]);
        h[44..48].copy_from_slice(&crc.to_le_bytes());
    }

    /// The header without its checksums: what encryption authenticates.
    pub fn associated_data(&self) -> [u8; FRAME_AD_LEN] {
        let mut h = [0; FRAME_AD_LEN];
        h[..4].copy_from_slice(MAGIC);
        h[4] = self.frame_type.number();
        h[5] = self.codec as u8;
        let sealed = if self.sealed { FLAG_SEALED } else { 0 };
        let no_crc = if self.payload_crc.is_none() { FLAG_NO_CRC } else { 0 };
        h[6..8].copy_from_slice(&(sealed | no_crc).to_le_bytes());
        h[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        h[16..24].copy_from_slice(&self.logical.to_le_bytes());
        h[24..32].copy_from_slice(&self.length.to_le_bytes());
        h[32..36].copy_from_slice(&self.stored.to_le_bytes());
        h
    }

    /// Reads and checks the header of a frame of `stream`; bounds every length.
    pub fn decode(stream: StreamId, bytes: &[u8]) -> Result<Self> {
        const WHAT: &str = "frame header";
        let h = bytes.get(..FRAME_HEADER_LEN).ok_or(FormatError::Truncated(WHAT))?;
        if &h[..4] != MAGIC {
            return Err(FormatError::NotA("frame"));
        }
        if crc32c_of(&[stream.as_bytes(), &h[..44]]) != le32(h, 44) {
            return Err(FormatError::Checksum(WHAT));
        }
        let flags = le16(h, 6);
        let frame_type = FrameType::from_number(h[4]);
        let header = Self {
            frame_type,
            // An unknown codec makes an unreadable frame, not an unreadable stream.
            codec: Codec::from_u8(h[5]).ok_or(FormatError::Invalid("frame's codec"))?,
            sealed: flags & FLAG_SEALED != 0,
            sequence: le64(h, 8),
            logical: le64(h, 16),
            length: le64(h, 24),
            stored: le32(h, 32),
            payload_crc: (flags & FLAG_NO_CRC == 0).then(|| le32(h, 40)),
        };
        let length_ok = match frame_type {
            FrameType::Fill => header.stored == 0,
            FrameType::Copy => header.length <= FRAME_STORED_MAX as u64,
            FrameType::Unknown(_) => true,
            _ => header.length <= FRAME_PLAIN_MAX as u64,
        };
        let ok = length_ok
            && header.stored as usize <= FRAME_STORED_MAX
            && flags & !(FLAG_SEALED | FLAG_NO_CRC) == 0
            && is_zero(&h[36..40])
            && (header.payload_crc.is_some() || le32(h, 40) == 0)
            && header.logical.checked_add(header.logical_len()).is_some();
        if ok { Ok(header) } else { Err(FormatError::Invalid(WHAT)) }
    }

    /// Bytes by which the frame advances the stream's logical offset.
    pub fn logical_len(&self) -> u64 {
        if self.frame_type.is_logical() { self.length } else { 0 }
    }

    /// Bytes of the frame in the stream: header, payload, padding.
    pub fn total_len(&self) -> usize {
        padded(FRAME_HEADER_LEN + self.stored as usize)
    }

    /// Checks the payload's CRC, where it has one.
    pub fn check_payload(&self, stream: StreamId, stored: &[u8]) -> Result<()> {
        if stored.len() != self.stored as usize {
            return Err(FormatError::Truncated(self.frame_type.what()));
        }
        match self.payload_crc {
            Some(crc) if crc != payload_crc(stream, self.sequence, stored) => {
                Err(FormatError::Checksum(self.frame_type.what()))
            }
            _ => Ok(()),
        }
    }

    /// Decrypts and decompresses a payload that was checked, into `out`. `scratch` is used where it is encrypted.
    pub fn open(
        &self,
        stored: &[u8],
        sealer: Option<&FrameSealer>,
        decompressor: &mut Decompressor,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let what = self.frame_type.what();
        // It may stand for any length, and has no bytes.
        if self.frame_type == FrameType::Fill {
            out.clear();
            return Ok(());
        }
        let len = usize::try_from(self.length).map_err(|_| FormatError::Invalid(what))?;
        if len > FRAME_STORED_MAX {
            return Err(FormatError::Invalid(what));
        }
        let secret = matches!(
            self.frame_type,
            FrameType::Batch | FrameType::Data | FrameType::Names | FrameType::Sums
        );
        if !self.sealed && secret && sealer.is_some() {
            // In an encrypted session nothing that is secret lies open: this frame is not of it.
            return Err(FormatError::Invalid(what));
        }
        if !self.sealed {
            return decompressor.decompress(self.codec, stored, len, out, what);
        }
        let sealer = sealer.ok_or(FormatError::Sealed(what))?;
        scratch.clear();
        scratch.extend_from_slice(stored);
        let plain = sealer
            .open_in_place(self.sequence, &self.associated_data(), scratch)
            .map_err(|_| FormatError::Sealed(what))?;
        decompressor.decompress(self.codec, plain, len, out, what)
    }
}

/// `n` rounded up to [`FRAME_ALIGN`].
pub const fn padded(n: usize) -> usize {
    n.next_multiple_of(FRAME_ALIGN)
}

/// A frame copied verbatim into a catalog: the origin stream's id, then the frame's header and stored bytes.
#[derive(Debug, Clone, Copy)]
pub struct CopiedFrame<'a> {
    /// The stream it belongs to.
    pub stream: StreamId,
    /// Its header.
    pub header: FrameHeader,
    /// Its stored payload, checked against its CRC.
    pub stored: &'a [u8],
}

impl<'a> CopiedFrame<'a> {
    /// Reads a copy frame's payload and checks the frame in it.
    pub fn decode(payload: &'a [u8]) -> Result<Self> {
        const WHAT: &str = "copied frame";
        if payload.len() < 16 + FRAME_HEADER_LEN {
            return Err(FormatError::Truncated(WHAT));
        }
        let stream = StreamId(id16(payload, 0));
        let header = FrameHeader::decode(stream, &payload[16..])?;
        let stored = &payload[16 + FRAME_HEADER_LEN..];
        header.check_payload(stream, stored)?;
        Ok(Self { stream, header, stored })
    }

    /// The payload of a copy frame: what [`Self::decode`] reads.
    pub fn encode(stream: StreamId, frame: &[u8]) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + frame.len());
        out.extend_from_slice(stream.as_bytes());
        out.extend_from_slice(frame);
        out
    }
}

/// Finds the next frame header of `stream` in a block's payload at or after `from`: how reading goes on after damage.
/// Only a header whose CRC, seeded with the stream's id, holds is one, so a medium stored inside a backup cannot fool it.
pub fn find_frame(stream: StreamId, payload: &[u8], from: usize) -> Option<usize> {
    let mut at = padded(from);
    while at + FRAME_HEADER_LEN <= payload.len() {
        if &payload[at..at + 4] == MAGIC && FrameHeader::decode(stream, &payload[at..]).is_ok() {
            return Some(at);
        }
        at += FRAME_ALIGN;
    }
    None
}

/// Least room of a block worth starting a frame in.
pub const MIN_ROOM: usize = FRAME_HEADER_LEN + TAG_LEN + HEADER_LEN;

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> FrameHeader {
        FrameHeader {
            frame_type: FrameType::Data,
            codec: Codec::None,
            sealed: false,
            sequence: 5,
            logical: 1 << 40,
            length: 10,
            stored: 10,
            payload_crc: Some(payload_crc(StreamId([1; 16]), 5, b"0123456789")),
        }
    }

    #[test]
    fn a_header_reads_back_for_its_own_stream_only() {
        let mut bytes = [0; FRAME_HEADER_LEN];
        header().encode(StreamId([1; 16]), &mut bytes);
        assert_eq!(FrameHeader::decode(StreamId([1; 16]), &bytes).unwrap(), header());
        assert_eq!(
            FrameHeader::decode(StreamId([2; 16]), &bytes),
            Err(FormatError::Checksum("frame header"))
        );
        header().check_payload(StreamId([1; 16]), b"0123456789").unwrap();
        assert!(header().check_payload(StreamId([1; 16]), b"0123456780").is_err());
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_found() {
        let mut good = [0; FRAME_HEADER_LEN];
        header().encode(StreamId([1; 16]), &mut good);
        for bit in 0..FRAME_HEADER_LEN * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(FrameHeader::decode(StreamId([1; 16]), &bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn resynchronising_skips_foreign_frames() {
        let mut payload = vec![0xa5; 400];
        header().encode(StreamId([9; 16]), &mut payload[16..]);
        header().encode(StreamId([1; 16]), &mut payload[160..]);
        assert_eq!(find_frame(StreamId([1; 16]), &payload, 1), Some(160));
        assert_eq!(find_frame(StreamId([1; 16]), &payload, 161), None);
    }
}
