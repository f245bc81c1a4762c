//! The blocks of a segment, one after the other: also those of which the media agent's header is damaged.

use capstan_engine::buffer::Buffer;
use capstan_engine::leaving;
use capstan_format::FormatError;
use capstan_format::block::{
    BLOCK_ALIGN, BLOCK_SIZE_MAX, BlockKind, DaHeader, MaHeader, NO_FRAME, PAYLOAD_AT,
};
use capstan_format::bytes::is_zero;
use capstan_format::catalog::catalog_stream;
use capstan_format::id::BlockIndex;
use capstan_format::record::{RECORD_MAX, SegmentEnd, SegmentHeader, decode_record};

use crate::read::scan::Scanner;
use crate::read::scan::orphans::{ORPHANS, Orphan};
use capstan_port::media::read::error::ReadError;

impl Scanner<'_, '_> {
    pub(super) fn run(&mut self) -> Result<(), ReadError> {
        // The id that most blocks have is found first, so that one damaged header does not decide.
        let end = self.segment.end().ok().filter(|e| self.id.is_none_or(|id| id == e.segment));
        if let Some(end) = &end {
            self.sparse = end.streams.iter().filter(|e| e.sparse).map(|e| e.stream).collect();
            self.short = end.short_blocks.iter().copied().collect();
        }
        self.id = self.id.or(end.map(|e| e.segment));
        self.id = self.id.or_else(|| self.segment.header().map(|h| h.segment).ok());
        if let Some(id) = self.id {
            // A catalog begins with its first frame; of other streams the end record says so.
            self.streams.entry(catalog_stream(id)).or_default().sequence = Some(0);
        }
        let mut block = Buffer::new(self.segment.block_size);
        let mut at = 0;
        let len = self.segment.len()?;
        while at < len {
            // A segment of a tape takes longer than who asks the session to end should wait.
            if leaving::has_left() {
                return Err(ReadError::Stopped);
            }
            let mut n = self.segment.read(&mut block, at)?;
            if n == 0 {
                break;
            }
            let Some(ma) = self.ours(&block[..n]) else {
                let to = self.next_block(at + BLOCK_ALIGN as u64, len)?;
                self.damage(format!("bytes {at} to {} are no block of it", to.0), None);
                self.headless(at, to)?;
                at = to.0;
                continue;
            };
            let length = ma.length as usize;
            if length > block.len() {
                let mut longer = Buffer::new(length);
                longer[..n].copy_from_slice(&block[..n]);
                block = longer;
            }
            if length > n && n >= self.segment.block_size {
                n += self.segment.read(&mut block[n..length], at + n as u64)?;
            }
            if length > n {
                self.damage(format!("block {} is cut short", ma.index.0), None);
                // What is there of it is read; the frames in what is not will not pass their checks.
                block[n..length].fill(0);
            }
            if ma.index.0 != self.next_index {
                let expected = self.next_index;
                self.damage(format!("block {} where {expected} belongs", ma.index.0), None);
            }
            self.next_index = ma.index.0.saturating_add(1);
            let blocks = self.scan.contents.blocks.get_or_insert_default();
            blocks.insert(ma.index.0, (at, ma.length));
            self.block(&ma, &block[..length]);
            at += u64::from(ma.length);
            if ma.kind == BlockKind::SegmentEnd && self.scan.contents.end.is_some() && at < len {
                // However much that is, it is nothing of the segment.
                self.damage(format!("{} bytes lie behind its end", len - at), None);
                break;
            }
        }
        Ok(())
    }

    /// The header that a block of this segment begins with.
    fn ours(&mut self, bytes: &[u8]) -> Option<MaHeader> {
        let most = self.segment.block_size.max(RECORD_MAX + 2 * BLOCK_ALIGN);
        let ma = MaHeader::decode(bytes).ok()?;
        let is_ours = *self.id.get_or_insert(ma.segment) == ma.segment;
        (is_ours && ma.length as usize <= most).then_some(ma)
    }

    /// Where the next block with a sound header begins, from `at` on, and its number; the segment's end, if there is none.
    fn next_block(&mut self, at: u64, len: u64) -> Result<(u64, Option<u32>), ReadError> {
        let mut bytes = [0; BLOCK_ALIGN];
        let mut at = at;
        while at < len {
            if leaving::has_left() {
                return Err(ReadError::Stopped);
            }
            let n = self.segment.read(&mut bytes, at)?;
            if n == 0 {
                break;
            }
            if let Some(ma) = self.ours(&bytes[..n]) {
                return Ok((at, Some(ma.index.0)));
            }
            at += BLOCK_ALIGN as u64;
            if is_zero(&bytes[..n]) {
                at = self.behind_hole(at, len)?;
            }
        }
        Ok((len, None))
    }

    /// Where to read on: a file may be said to be longer than any disk, and have nothing there.
    fn behind_hole(&self, at: u64, len: u64) -> Result<u64, ReadError> {
        let data = self.segment.data_from(at)?.unwrap_or(len);
        Ok((data / BLOCK_ALIGN as u64 * BLOCK_ALIGN as u64).clamp(at, len.max(at)))
    }

    /// Takes what can be had of blocks of which the media agent's header is damaged: where they begin follows from their lengths.
    fn headless(&mut self, from: u64, (to, next): (u64, Option<u32>)) -> Result<(), ReadError> {
        let mut at = from;
        while at < to {
            if leaving::has_left() {
                return Err(ReadError::Stopped);
            }
            let index = self.next_index;
            let rest = to - at;
            let full =
                self.short.get(&index).map_or(self.segment.block_size as u64, |n| (*n).into());
            let is_one = next.is_some_and(|next| next == index.saturating_add(1));
            let length = match is_one && rest <= u64::from(BLOCK_SIZE_MAX) {
                true => rest,
                false => rest.min(full.max(BLOCK_ALIGN as u64)),
            };
            let mut bytes = vec![0; length as usize];
            let n = self.segment.read(&mut bytes, at)?;
            bytes.truncate(n);
            if is_zero(&bytes) {
                // Of a hole so many blocks of the usual length are passed over.
                let hole = self.behind_hole(at, to)?.min(to) - at;
                let blocks = u32::try_from(hole / self.segment.block_size as u64);
                let blocks = blocks.unwrap_or(u32::MAX);
                if blocks > 1 {
                    self.next_index = index.saturating_add(blocks);
                    at = at.saturating_add(u64::from(blocks) * self.segment.block_size as u64);
                    continue;
                }
            }
            // What says of itself that it is another segment's is nothing of this one.
            if let Ok(ma) = MaHeader::decode(&bytes)
                && self.id.is_some_and(|id| id != ma.segment)
            {
                self.next_index = index.saturating_add(1);
                at += length;
                continue;
            }
            // The first is the segment's header, which has no frames.
            if index > 0 && n > PAYLOAD_AT {
                self.data(index, &bytes);
            }
            self.next_index = index.saturating_add(1);
            let blocks = self.scan.contents.blocks.get_or_insert_default();
            blocks.insert(index, (at, length as u32));
            at += length;
        }
        Ok(())
    }

    fn block(&mut self, ma: &MaHeader, bytes: &[u8]) {
        match ma.kind {
            BlockKind::SegmentHeader => match decode_record::<SegmentHeader>(ma.kind, bytes) {
                Ok((_, header)) => self.scan.contents.header = Some(header),
                Err(e) => self.damage(format!("header: {e}"), None),
            },
            BlockKind::SegmentEnd => match decode_record::<SegmentEnd>(ma.kind, bytes) {
                Ok((_, end)) => self.scan.contents.end = Some(end),
                Err(e) => self.damage(format!("end record: {e}"), None),
            },
            BlockKind::MediumHeader => {
                self.damage(format!("block {} is a medium's header", ma.index.0), None);
            }
            BlockKind::VersionLock => {
                self.damage(format!("block {} is a lock", ma.index.0), None);
            }
            BlockKind::Attachment | BlockKind::AttachmentData | BlockKind::AttachmentEnd => {
                self.damage(format!("block {} is of an attachment", ma.index.0), None);
            }
            BlockKind::Data | BlockKind::Catalog => self.data(ma.index.0, bytes),
        }
    }

    /// Takes the frames of a block of a stream or of the catalog.
    fn data(&mut self, index: u32, bytes: &[u8]) {
        match DaHeader::decode(bytes) {
            Ok(da) => {
                let (payload, padding) = bytes[PAYLOAD_AT..].split_at(da.used as usize);
                if !is_zero(padding) {
                    self.damage(format!("block {index}: {}", FormatError::Padding("block")), None);
                }
                self.frames_of(BlockIndex(index), &da, payload);
            }
            Err(e) => {
                self.damage(format!("block {index}: {e}"), None);
                if self.orphans.len() >= ORPHANS {
                    self.orphans.remove(0);
                }
                self.orphans.push(Orphan { index, payload: bytes[PAYLOAD_AT..].to_vec() });
            }
        }
    }

    fn frames_of(&mut self, index: BlockIndex, da: &DaHeader, payload: &[u8]) {
        let stream = da.stream;
        let is_catalog = self.id.is_some_and(|id| catalog_stream(id) == stream);
        if is_catalog && self.whole_until_catalog.is_none() {
            // All streams come before it.
            let is_begin = da.position == 0;
            self.whole_until_catalog = Some(is_begin && self.scan.damage.is_empty());
        }
        if is_catalog || self.streams.get(&stream).is_some_and(|p| p.begun) {
            self.adopt(stream, da.position);
        } else {
            self.adopt_first(stream, da.position);
        }
        let passing = self.streams.entry(stream).or_default();
        if (passing.begun || is_catalog) && passing.position != da.position {
            // A frame that goes on in what is missing is missing: the next one's number shows it.
            passing.partial = None;
            passing.hurt = true;
            let (expected, found) = (passing.position, da.position);
            self.damage(
                format!(
                    "stream {} goes on at byte {found} where {expected} was expected",
                    stream.short()
                ),
                None,
            );
        }
        let first = match (&self.streams[&stream].partial, da.first_frame) {
            (Some(_), _) => 0,
            (None, NO_FRAME) => payload.len(),
            (None, first) => first as usize,
        };
        self.parse(stream, index, payload, first, false);
        if let Some(passing) = self.streams.get_mut(&stream) {
            passing.begun = true;
            passing.position = da.position + u64::from(da.used);
            passing.last_block = index.0;
        }
    }
}
