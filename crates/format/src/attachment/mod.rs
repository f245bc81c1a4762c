//! Attachments: what lies on a tape and is no segment of a version: a backup of an internal database, locks of versions.
//!
//! A tape takes nothing but at its end, so what lies beside the segments of a directory lies between those of a tape, under a
//! number as they have. Two records, the first and the last block, both say all there is to say of it, so that one of them may
//! be lost; the contents lie in blocks between them, each with a checksum.

pub mod idb_backup;
pub mod lock;

use serde::{Deserialize, Serialize};

use self::idb_backup::IDB_BACKUP_MAX;
use self::lock::VersionLock;
use crate::array::stamp::Stamp;
use crate::block::{BlockKind, HEADER_LEN, MaHeader};
use crate::bytes::{is_zero, le32};
use crate::crc::crc32c;
use crate::error::{FormatError, Result};
use crate::id::{BlockIndex, SegmentId, SegmentNumber};
use crate::record::{MediumHeader, decode_record, encode_record};

const WHAT: &str = "attachment";
/// Where the checksum of a block of contents lies in its header.
const CRC_AT: usize = 48;
/// Where the checksum of the header itself lies.
const HEADER_CRC_AT: usize = 60;

/// What an attachment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AttachmentKind {
    /// A backup of an internal database ([`crate::attachment::idb_backup`]): its contents.
    IdbBackup,
    /// Locks of versions: in its records.
    Lock,
    /// One of a later version of the program.
    #[serde(other)]
    Other,
}

impl std::fmt::Display for AttachmentKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::IdbBackup => "backup of an internal database",
            Self::Lock => "lock of versions",
            Self::Other => "attachment of a later version of the program",
        })
    }
}

/// What both records say of an attachment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    /// Its identity; all its blocks have it in the place of a segment's.
    pub id: SegmentId,
    /// Its place in the order of this medium.
    pub number: SegmentNumber,
    /// What it is.
    pub attachment: AttachmentKind,
    /// Bytes of its contents.
    pub length: u64,
    /// When it was written, in microseconds since 1970.
    pub written_us: i64,
    /// The locks, if that is what it is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locks: Vec<VersionLock>,
}

/// An attachment's first block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentHeader {
    /// The medium's header, once more.
    pub medium: MediumHeader,
    /// The attachment.
    #[serde(flatten)]
    pub attachment: Attachment,
}

/// An attachment's last block.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttachmentEnd {
    /// The attachment, as in the first.
    #[serde(flatten)]
    pub attachment: Attachment,
    /// Number of all its blocks, this one included.
    pub blocks: u32,
    /// CRC of the contents.
    pub crc: u32,
}

impl Attachment {
    fn check(&self) -> Result<()> {
        let is_lock = self.attachment == AttachmentKind::Lock;
        if self.length > IDB_BACKUP_MAX || !(is_lock || self.locks.is_empty()) {
            return Err(FormatError::Invalid(WHAT));
        }
        self.locks.iter().try_for_each(VersionLock::check)
    }
}

impl AttachmentHeader {
    /// As a block of at least `block_size` bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let (kind, length) = (BlockKind::Attachment, self.medium.block_size as usize);
        encode_record(kind, self.attachment.id, BlockIndex(0), self, length)
    }

    /// From a block.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (ma, header) = decode_record::<Self>(BlockKind::Attachment, bytes)?;
        header.medium.check()?;
        header.attachment.check()?;
        match (ma.segment, ma.index.0) == (header.attachment.id, 0) {
            true => Ok(header),
            false => Err(FormatError::Invalid(WHAT)),
        }
    }

    /// The blocks of the contents, each as long as the medium's blocks are.
    pub fn blocks<'a>(&self, contents: &'a [u8]) -> impl Iterator<Item = Vec<u8>> + use<'a> {
        let (id, length) = (self.attachment.id, self.medium.block_size as usize);
        let chunks = contents.chunks(length - HEADER_LEN).enumerate();
        chunks.map(move |(n, chunk)| data_block(id, BlockIndex(n as u32 + 1), chunk, length))
    }

    /// The last block of an attachment of which this is the first.
    pub fn end(&self, contents: &[u8]) -> Result<Vec<u8>> {
        let length = self.medium.block_size as usize;
        let data = contents.len().div_ceil(length - HEADER_LEN) as u32;
        let crc = crc32c(contents);
        let end = AttachmentEnd { attachment: self.attachment.clone(), blocks: data + 2, crc };
        let index = BlockIndex(data + 1);
        encode_record(BlockKind::AttachmentEnd, self.attachment.id, index, &end, length)
    }
}

impl AttachmentEnd {
    /// From a block.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (ma, end) = decode_record::<Self>(BlockKind::AttachmentEnd, bytes)?;
        end.attachment.check()?;
        match (ma.segment, Some(ma.index.0)) == (end.attachment.id, end.blocks.checked_sub(1)) {
            true => Ok(end),
            false => Err(FormatError::Invalid(WHAT)),
        }
    }
}

fn data_block(id: SegmentId, index: BlockIndex, chunk: &[u8], length: usize) -> Vec<u8> {
    let mut block = vec![0; length];
    block[HEADER_LEN..HEADER_LEN + chunk.len()].copy_from_slice(chunk);
    let kind = BlockKind::AttachmentData;
    MaHeader { kind, segment: id, index, length: length as u32 }.encode(&mut block);
    let crc = Stamp::crc_of(&block);
    block[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c(&block[..HEADER_CRC_AT]);
    block[HEADER_CRC_AT..HEADER_LEN].copy_from_slice(&crc.to_le_bytes());
    block
}

/// Contents that are put together from their blocks, which come in order.
#[derive(Debug)]
pub struct Contents {
    attachment: Attachment,
    bytes: Vec<u8>,
    next: u32,
}

impl Contents {
    /// Of that attachment, none yet.
    pub fn of(attachment: Attachment) -> Self {
        Self { attachment, bytes: Vec::new(), next: 1 }
    }

    /// Whether all are there.
    pub fn are_whole(&self) -> bool {
        self.bytes.len() as u64 >= self.attachment.length
    }

    /// Takes the next block.
    pub fn take(&mut self, bytes: &[u8]) -> Result<()> {
        let ma = MaHeader::decode(bytes)?;
        let block = bytes.get(..ma.length as usize).ok_or(FormatError::Truncated(WHAT))?;
        let place = (BlockKind::AttachmentData, self.attachment.id, BlockIndex(self.next));
        if (ma.kind, ma.segment, ma.index) != place {
            return Err(FormatError::NotA("next block of the attachment"));
        }
        if Stamp::crc_of(block) != le32(block, CRC_AT) {
            return Err(FormatError::Checksum(WHAT));
        }
        let left = self.attachment.length - self.bytes.len() as u64;
        let (chunk, padding) =
            block[HEADER_LEN..].split_at(left.min((block.len() - HEADER_LEN) as u64) as usize);
        if !is_zero(padding) {
            return Err(FormatError::Padding(WHAT));
        }
        self.bytes.extend_from_slice(chunk);
        self.next += 1;
        Ok(())
    }

    /// The contents, held against the last record, if that can be read.
    pub fn finish(self, end: Option<&AttachmentEnd>) -> Result<Vec<u8>> {
        if !self.are_whole() {
            return Err(FormatError::Truncated(WHAT));
        }
        match end {
            Some(end) if (end.blocks, &end.attachment) != (self.next + 1, &self.attachment) => {
                Err(FormatError::Invalid(WHAT))
            }
            Some(end) if end.crc != crc32c(&self.bytes) => Err(FormatError::Checksum(WHAT)),
            _ => Ok(self.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::BLOCK_SIZE_MIN;
    use crate::id::{MediumId, VersionId};
    use crate::record::{FORMAT_VERSION, Protection};

    fn header(
        attachment: AttachmentKind,
        length: u64,
        locks: Vec<VersionLock>,
    ) -> AttachmentHeader {
        AttachmentHeader {
            medium: MediumHeader {
                format: FORMAT_VERSION,
                incompatible: 0,
                compatible: 0,
                medium: MediumId([1; 16]),
                label: "V00001L9".to_owned(),
                block_size: BLOCK_SIZE_MIN,
                created_us: 1,
                protection: Protection::None,
                cell: None,
                array: None,
                drive_key: None,
            },
            attachment: Attachment {
                id: SegmentId([2; 16]),
                number: SegmentNumber(7),
                attachment,
                length,
                written_us: 42,
                locks,
            },
        }
    }

    fn lock() -> VersionLock {
        let numbers = [1, 2, 5].map(SegmentNumber);
        VersionLock::new(VersionId([7; 16]), 1_800_000_000_000_000, &numbers)
    }

    fn read(blocks: &[Vec<u8>]) -> Result<Vec<u8>> {
        let [first, data @ .., last] = blocks else { panic!("two records") };
        let (header, end) = (AttachmentHeader::decode(first), AttachmentEnd::decode(last));
        let attachment = match (&header, &end) {
            (Ok(header), _) => header.attachment.clone(),
            (Err(_), Ok(end)) => end.attachment.clone(),
            (Err(e), Err(_)) => return Err(e.clone()),
        };
        let mut contents = Contents::of(attachment);
        data.iter().try_for_each(|block| contents.take(block))?;
        contents.finish(end.ok().as_ref())
    }

    fn written(header: &AttachmentHeader, contents: &[u8]) -> Vec<Vec<u8>> {
        let mut blocks = vec![header.encode().unwrap()];
        blocks.extend(header.blocks(contents));
        blocks.push(header.end(contents).unwrap());
        blocks
    }

    #[test]
    fn contents_of_any_length_come_back() {
        let room = BLOCK_SIZE_MIN as usize - HEADER_LEN;
        for length in [0, 1, room - 1, room, room + 1, 3 * room, 200_000] {
            let contents: Vec<u8> = (0..length).map(|n| (n * 7 + n / 251) as u8).collect();
            let header = header(AttachmentKind::IdbBackup, length as u64, Vec::new());
            let blocks = written(&header, &contents);
            assert_eq!(blocks.len(), 2 + length.div_ceil(room));
            assert!(blocks.iter().all(|b| b.len() == BLOCK_SIZE_MIN as usize));
            assert_eq!(read(&blocks).unwrap(), contents, "{length}");
        }
    }

    #[test]
    fn both_records_say_the_same_and_one_is_enough() {
        let header = header(AttachmentKind::Lock, 0, vec![lock()]);
        let blocks = written(&header, &[]);
        assert_eq!(AttachmentHeader::decode(&blocks[0]).unwrap(), header);
        assert_eq!(AttachmentEnd::decode(&blocks[1]).unwrap().attachment, header.attachment);
        let json = String::from_utf8_lossy(&blocks[0][72..]).into_owned();
        assert!(json.contains(r#""attachment":"lock""#), "{json}");
        for lost in 0..2 {
            let mut blocks = blocks.clone();
            blocks[lost].fill(0);
            assert_eq!(read(&blocks).unwrap(), [0; 0]);
        }
    }

    #[test]
    fn every_flipped_bit_is_found_or_changes_nothing() {
        let contents: Vec<u8> = (0..70_000u32).map(|n| (n % 251) as u8).collect();
        let header = header(AttachmentKind::IdbBackup, contents.len() as u64, Vec::new());
        let good = written(&header, &contents);
        for (at, block) in good.iter().enumerate() {
            for bit in (0..block.len() * 8).step_by(9973).chain((0..HEADER_LEN * 8).step_by(5)) {
                let mut blocks = good.clone();
                blocks[at][bit / 8] ^= 1 << (bit % 8);
                match read(&blocks) {
                    // A record that is lost is made up for by the other.
                    Ok(read) => assert!(read == contents && (at == 0 || at + 1 == good.len())),
                    Err(_) => assert!(at > 0, "block {at} bit {bit}"),
                }
                let decoded = AttachmentHeader::decode(&blocks[0]).is_ok();
                let ended = AttachmentEnd::decode(&blocks[blocks.len() - 1]).is_ok();
                assert_eq!((decoded, ended), (at != 0, at + 1 != good.len()), "{at} {bit}");
            }
        }
    }

    #[test]
    fn blocks_that_are_missing_doubled_or_of_another_are_no_contents() {
        let contents = vec![9; 200_000];
        let good = written(&header(AttachmentKind::IdbBackup, 200_000, Vec::new()), &contents);
        let mut missing = good.clone();
        missing.remove(2);
        let mut doubled = good.clone();
        doubled.insert(2, good[2].clone());
        let mut swapped = good.clone();
        swapped.swap(1, 2);
        let mut other = header(AttachmentKind::IdbBackup, 200_000, Vec::new());
        other.attachment.id = SegmentId([3; 16]);
        let mut of_another = good.clone();
        of_another[3] = written(&other, &contents)[3].clone();
        for blocks in [missing, doubled, swapped, of_another] {
            assert!(read(&blocks).is_err());
        }
    }

    #[test]
    fn what_cannot_be_is_refused_and_what_is_later_is_read() {
        let mut bad = lock();
        bad.segments.swap(0, 1);
        let of = |kind, length, locks| header(kind, length, locks).encode().unwrap();
        for block in [
            of(AttachmentKind::Lock, 0, vec![bad]),
            of(AttachmentKind::IdbBackup, 0, vec![lock()]),
            of(AttachmentKind::IdbBackup, IDB_BACKUP_MAX + 1, Vec::new()),
        ] {
            assert!(AttachmentHeader::decode(&block).is_err());
        }
        let kind: AttachmentKind = serde_json::from_str("\"paper\"").unwrap();
        assert_eq!(kind, AttachmentKind::Other);
    }
}
