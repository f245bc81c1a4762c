//! Reading a segment back: its records, its catalog, and single frames by their place.

use std::sync::{Arc, OnceLock};

use capstan_format::FormatError;
use capstan_format::block::{BLOCK_ALIGN, BLOCK_SIZE_MAX, BlockKind, MaHeader};
use capstan_format::catalog::Contents;
use capstan_format::id::{MediumId, SegmentId, SegmentNumber};
use capstan_format::record::{SegmentEnd, SegmentHeader, decode_record};
use capstan_medium::OpenMedium;
use capstan_medium::storage::ReadFile;

use capstan_port::media::read::error::ReadError;
use capstan_port::media::read::segment::ReadSegment;

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
    pub fn open(medium: &OpenMedium, number: SegmentNumber) -> Result<Self, ReadError> {
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
        ReadSegment::catalog(self)
    }

    /// The segment's end record and its catalog's frames; an error if any block of it is damaged.
    pub(crate) fn frames_of_catalog(
        &self,
        recorded: Option<SegmentId>,
    ) -> Result<(SegmentEnd, Vec<u8>), ReadError> {
        let end = self.end()?;
        if let Some(recorded) = recorded.filter(|recorded| *recorded != end.segment) {
            return Err(self.another(recorded));
        }
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
        Ok((end, frames))
    }
}
