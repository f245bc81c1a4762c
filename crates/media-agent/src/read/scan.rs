//! Reading a whole segment, trusting nothing: for segments whose catalog is damaged or missing, and to verify.
//!
//! Every byte is accounted for: a block header, a frame, padding. What does not fit is damage, with the stream and the
//! logical range it costs where that is known.

use std::collections::{HashMap, HashSet};

use capstan_engine::buffer::Buffer;
use capstan_format::FormatError;
use capstan_format::block::{
    BLOCK_ALIGN, BLOCK_SIZE_MAX, BlockKind, DaHeader, MaHeader, NO_FRAME, PAYLOAD_AT,
};
use capstan_format::bytes::is_zero;
use capstan_format::catalog::{CatalogFrames, Contents, StreamContents, catalog_stream};
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader, find_frame};
use capstan_format::id::{BlockIndex, SegmentId, StreamId};
use capstan_format::index::FramePlace;
use capstan_format::record::{
    RECORD_MAX, SegmentEnd, SegmentHeader, SessionLabel, StreamExtent, decode_record,
};
use capstan_tape::leaving;

use crate::read::error::ReadError;
use crate::read::segment::SegmentReader;

/// Opens a frame whose checksum is right, to see that it can be: its session, its stream, its header, its stored bytes.
pub type OpenFrame<'f> =
    dyn FnMut(Option<&SessionLabel>, StreamId, &FrameHeader, &[u8]) -> Result<(), FormatError> + 'f;

/// A piece of damage.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// What is wrong, and where.
    pub what: String,
    /// The stream and the range of its logical bytes that it costs, if any.
    pub range: Option<(StreamId, u64, u64)>,
    /// It costs a batch of that stream; the catalog may have it.
    pub batch: Option<StreamId>,
}

/// What a scan found.
#[derive(Debug, Default)]
pub struct Scan {
    /// The contents, as far as they can be read.
    pub contents: Contents,
    /// What is damaged.
    pub damage: Vec<Damage>,
    /// Frames of types that this version does not know.
    pub unknown_frames: u64,
    /// Whether the catalog, read beside the streams, is whole.
    pub catalog_whole: bool,
    /// What the catalog says, if it is whole.
    pub catalog: Option<Contents>,
    /// Streams of which rows may be lost: frames lack that may have been batches, and the catalog does not have them either.
    pub poor: HashSet<StreamId>,
}

impl Scan {
    /// How many bytes of the segment were read: up to the last block that was found.
    pub fn bytes(&self) -> u64 {
        let blocks = self.contents.blocks.iter().flat_map(|blocks| blocks.values());
        blocks.map(|(at, length)| at.saturating_add((*length).into())).max().unwrap_or(0)
    }

    /// Whether all rows of these streams are there.
    pub fn has_names_of(&self, streams: &[StreamId]) -> bool {
        let labelled = |id: &StreamId| {
            let found = self.contents.streams.iter().find(|s| s.stream == *id);
            found.is_some_and(|s| s.label.is_some())
        };
        streams.iter().all(|id| labelled(id) && !self.poor.contains(id))
    }

    /// Whether all frames that were written are there, or their copies: then its contents say where all of it lies, also on other
    /// media. Of data frames that are damaged they say nothing.
    pub fn is_complete(&self) -> bool {
        let has_lost = self.damage.iter().any(|damage| damage.range.is_some());
        !has_lost && self.poor.is_empty() && poor(&self.contents, &HashSet::new()).is_empty()
    }

    /// Whether anything is left that says what any of these streams has.
    pub fn has_any_of(&self, streams: &[StreamId]) -> bool {
        let is_left = |s: &StreamContents| s.label.is_some() || !s.batches.is_empty();
        let found = |s: &StreamContents| is_left(s) && streams.contains(&s.stream);
        self.contents.streams.iter().any(found)
    }
}

/// A stream while its blocks pass by.
#[derive(Default)]
struct Passing {
    position: u64,
    sequence: Option<u64>,
    logical: u64,
    /// A frame that spans blocks: its place, its bytes so far, its full length.
    partial: Option<(FramePlace, Vec<u8>, usize)>,
    /// Its last label came with the segment's begin.
    begun: bool,
    /// Something of it was damaged since its last frame.
    hurt: bool,
    /// Its last block so far.
    last_block: u32,
}

/// Most blocks without a sound header of their own that are kept until it shows whose they are.
const ORPHANS: usize = 16;

/// A block that does not say whose it is, and its payload.
struct Orphan {
    index: u32,
    payload: Vec<u8>,
}

struct Scanner<'a, 'f> {
    segment: &'a SegmentReader,
    open: &'a mut OpenFrame<'f>,
    id: Option<SegmentId>,
    streams: HashMap<StreamId, Passing>,
    catalog_frames: CatalogFrames,
    catalog: Contents,
    /// Some of the catalog's frames are damaged or missing.
    catalog_broken: bool,
    scan: Scan,
    next_index: u32,
    /// Streams that lack what nobody needs, as the end record says.
    sparse: HashSet<StreamId>,
    /// Lengths of the blocks that do not have the block size, as the end record says.
    short: HashMap<u32, u32>,
    orphans: Vec<Orphan>,
    /// Frames that are damaged, and were no metadata.
    data_lost: HashSet<(StreamId, u64)>,
    /// Whether the catalog began, and all before it was whole: the streams are.
    whole_until_catalog: Option<bool>,
}

/// Reads a whole segment.
pub fn scan(segment: &SegmentReader) -> Result<Scan, ReadError> {
    scan_with(segment, &mut |_, _, _, _| Ok(()))
}

/// Reads all that is there of the segment that is recorded in that place. Of another one, or of a piece of another one, nothing is
/// taken; where no block is of the recorded one, that is an error.
pub fn scan_of(segment: &SegmentReader, recorded: SegmentId) -> Result<Scan, ReadError> {
    let found = scan_as(segment, Some(recorded), &mut |_, _, _, _| Ok(()))?;
    match found.contents.blocks {
        // Blocks that cannot say whose they are may be its.
        None => Err(segment.another(recorded)),
        Some(_) => Ok(found),
    }
}

/// Reads a whole segment and has its streams' frames opened.
pub fn scan_with(segment: &SegmentReader, open: &mut OpenFrame<'_>) -> Result<Scan, ReadError> {
    scan_as(segment, None, open)
}

fn scan_as(
    segment: &SegmentReader,
    id: Option<SegmentId>,
    open: &mut OpenFrame<'_>,
) -> Result<Scan, ReadError> {
    let mut scanner = Scanner {
        segment,
        open,
        id,
        streams: HashMap::new(),
        catalog_frames: CatalogFrames::default(),
        catalog: Contents::default(),
        catalog_broken: false,
        scan: Scan::default(),
        next_index: 0,
        sparse: HashSet::new(),
        short: HashMap::new(),
        orphans: Vec::new(),
        data_lost: HashSet::new(),
        whole_until_catalog: None,
    };
    scanner.run()?;
    scanner.place_orphans();
    Ok(scanner.finish())
}

impl Scanner<'_, '_> {
    fn damage(&mut self, what: String, range: Option<(StreamId, u64, u64)>) {
        let what = format!("{}: {what}", self.segment.path);
        self.scan.damage.push(Damage { what, range, batch: None });
    }

    fn run(&mut self) -> Result<(), ReadError> {
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

    /// Takes a block that does not say whose it is as the one that a stream lacks before its byte `position`, if only one can be it.
    fn adopt(&mut self, stream: StreamId, position: u64) {
        let Some(passing) = self.streams.get(&stream) else { return };
        let Some(gap) = position.checked_sub(passing.position).filter(|gap| *gap > 0) else {
            return;
        };
        let fits = |orphan: &Orphan| {
            let rest = usize::try_from(gap).ok().and_then(|gap| orphan.payload.get(gap..));
            orphan.index > passing.last_block && rest.is_some_and(is_zero)
        };
        let mut fitting =
            self.orphans.iter().enumerate().filter(|(_, o)| fits(o)).map(|(at, _)| at);
        let (Some(at), None) = (fitting.next(), fitting.next()) else { return };
        let goes_on = passing.partial.is_some();
        let orphan = self.orphans.remove(at);
        let payload = &orphan.payload[..gap as usize];
        let first = match goes_on {
            true => 0,
            false => find_frame(stream, payload, 0).unwrap_or(payload.len()),
        };
        self.parse(stream, BlockIndex(orphan.index), payload, first, true);
        self.goes_on_at(stream, position, orphan.index);
    }

    fn goes_on_at(&mut self, stream: StreamId, position: u64, last_block: u32) {
        let passing = self.streams.entry(stream).or_default();
        passing.begun = true;
        passing.hurt = true;
        passing.position = position;
        passing.last_block = last_block;
    }

    /// Takes a block that does not say whose it is as a stream's first in the segment, where it begins with a frame of that.
    fn adopt_first(&mut self, stream: StreamId, position: u64) {
        let begins = |o: &Orphan| find_frame(stream, &o.payload, 0) == Some(0);
        let Some(at) = self.orphans.iter().position(begins) else { return };
        let orphan = self.orphans.remove(at);
        self.parse(stream, BlockIndex(orphan.index), &orphan.payload, 0, true);
        self.goes_on_at(stream, position, orphan.index);
    }

    /// Finds the streams of what is left of blocks that do not say whose they are: nothing of theirs came behind them.
    fn place_orphans(&mut self) {
        for orphan in std::mem::take(&mut self.orphans) {
            let promised = self.scan.contents.end.iter().flat_map(|end| &end.streams);
            let promised: Vec<StreamId> = promised.map(|e| e.stream).collect();
            for stream in promised {
                self.streams.entry(stream).or_default();
            }
            let able = || self.streams.iter().filter(|(_, p)| p.last_block < orphan.index);
            let begun = able().find(|(id, _)| find_frame(**id, &orphan.payload, 0).is_some());
            let owner = begun.or_else(|| able().find(|(_, p)| p.partial.is_some()));
            let Some((stream, passing)) = owner else { continue };
            let (stream, goes_on) = (*stream, passing.partial.is_some());
            let first = match goes_on {
                true => 0,
                false => find_frame(stream, &orphan.payload, 0).unwrap_or(0),
            };
            self.parse(stream, BlockIndex(orphan.index), &orphan.payload, first, true);
            if let Some(passing) = self.streams.get_mut(&stream) {
                passing.last_block = orphan.index;
            }
        }
    }

    /// Takes the frames of a block's payload, from `at` on.
    fn parse(
        &mut self,
        stream: StreamId,
        block: BlockIndex,
        payload: &[u8],
        at: usize,
        loose: bool,
    ) {
        let mut at = at;
        let partial = self.streams.get_mut(&stream).and_then(|p| p.partial.take());
        if let Some((place, mut bytes, total)) = partial {
            let take = (total - bytes.len()).min(payload.len());
            bytes.extend_from_slice(&payload[..take]);
            if bytes.len() < total {
                if let Some(p) = self.streams.get_mut(&stream) {
                    p.partial = Some((place, bytes, total));
                }
                return;
            }
            self.frame(stream, place, &bytes);
            at = take;
        }
        while at < payload.len() {
            let header = match FrameHeader::decode(stream, &payload[at..]) {
                Ok(header) => header,
                Err(_) if loose && is_zero(&payload[at..]) => return,
                Err(e) => {
                    let next = find_frame(stream, payload, at + 1);
                    let to = next.unwrap_or(payload.len());
                    self.damage(format!("block {}: bytes {at} to {to}: {e}", block.0), None);
                    self.streams.entry(stream).or_default().hurt = true;
                    at = to;
                    continue;
                }
            };
            let place = FramePlace::of(
                header.frame_type,
                header.sequence,
                header.logical,
                block,
                at as u32,
            );
            let total = header.total_len();
            let here = &payload[at..];
            if here.len() >= total {
                self.frame(stream, place, &here[..total]);
                at += total;
            } else {
                if let Some(p) = self.streams.get_mut(&stream) {
                    p.partial = Some((place, here.to_vec(), total));
                }
                return;
            }
        }
    }

    /// Whether the stream's frames may leap: the end record says so, or a consolidation passed it on.
    fn is_sparse(&self, stream: StreamId) -> bool {
        let contents = &self.scan.contents;
        let label = contents.streams.iter().find(|s| s.stream == stream);
        let label = label.and_then(|s| s.label.as_ref()).map(|l| l.session.session);
        let writer = contents.header.as_ref().map(|h| &h.session);
        let passes_on = writer.filter(|w| w.stands_for.is_some()).map(|w| w.session);
        self.sparse.contains(&stream) || label.is_some_and(|l| passes_on.is_some_and(|w| w != l))
    }

    /// Notes damage where a frame does not follow the one before it in its stream.
    fn check_follows(&mut self, stream: StreamId, header: &FrameHeader, is_catalog: bool) {
        let passing = self.streams.entry(stream).or_default();
        let (expected_sequence, expected_logical) = (passing.sequence, passing.logical);
        passing.sequence = Some(header.sequence.wrapping_add(1));
        passing.logical = header.logical + header.logical_len();
        passing.begun = true;
        let hurt = std::mem::take(&mut passing.hurt);
        let may_leap = self.is_sparse(stream)
            && !hurt
            && expected_sequence.is_none_or(|expected| expected <= header.sequence)
            && expected_logical <= header.logical;
        if let Some(expected) = expected_sequence.filter(|_| !may_leap) {
            if expected != header.sequence {
                let what = format!(
                    "stream {}: frames {expected} to {} are missing",
                    stream.short(),
                    header.sequence
                );
                self.catalog_broken |= is_catalog;
                let range = (expected_logical < header.logical).then_some((
                    stream,
                    expected_logical,
                    header.logical,
                ));
                self.damage(what, range);
            } else if expected_logical != header.logical && !is_catalog {
                let range = (stream, expected_logical.min(header.logical), header.logical);
                self.damage(
                    format!("stream {}: logical offsets leap", stream.short()),
                    Some(range),
                );
            }
        }
    }

    /// A whole frame, header to padding.
    fn frame(&mut self, stream: StreamId, place: FramePlace, bytes: &[u8]) {
        let Ok(header) = FrameHeader::decode(stream, bytes) else {
            self.damage(format!("block {}: frame header damaged", place.block.0), None);
            return;
        };
        let payload_end = FRAME_HEADER_LEN + header.stored as usize;
        let is_catalog = self.id.is_some_and(|id| catalog_stream(id) == stream);
        self.check_follows(stream, &header, is_catalog);
        if !is_zero(&bytes[payload_end..]) {
            self.damage(format!("block {}: a frame's padding is not zero", place.block.0), None);
        }
        let stored = &bytes[FRAME_HEADER_LEN..payload_end];
        let mut checked = header.check_payload(stream, stored);
        if checked.is_ok() && !is_catalog {
            // What a consolidation passed on is of other sessions than the one that wrote the segment.
            let contents = &self.scan.contents;
            let own = contents.streams.iter().find(|s| s.stream == stream);
            let own = own.and_then(|s| s.label.as_ref()).map(|l| &l.session);
            let label = own.or(contents.header.as_ref().map(|h| &h.session));
            checked = (self.open)(label, stream, &header, stored);
        }
        if let Err(e) = checked {
            let end = header.logical + header.logical_len();
            let range = (header.logical_len() > 0).then_some((stream, header.logical, end));
            self.damage(format!("block {}: {e}", place.block.0), range);
            self.catalog_broken |= is_catalog;
            if header.frame_type.is_logical() {
                self.data_lost.insert((stream, header.sequence));
            } else if !is_catalog && let Some(last) = self.scan.damage.last_mut() {
                last.batch = Some(stream);
            }
            return;
        }
        if let capstan_format::frame::FrameType::Unknown(_) = header.frame_type {
            self.scan.unknown_frames += 1;
        }
        let taken = if is_catalog {
            self.catalog_frames.take(&header, stored, &mut self.catalog)
        } else {
            let contents = self.scan.contents.stream(stream);
            if !contents.add_place(place) {
                let what = format!("block {}: frame {} comes late", place.block.0, place.sequence);
                self.damage(what, None);
                return;
            }
            contents.logical_end = header.logical + header.logical_len();
            contents.take(header, stored, &mut self.catalog_frames.decompressor)
        };
        if let Err(e) = taken {
            self.catalog_broken |= is_catalog;
            self.damage(format!("block {}: {e}", place.block.0), None);
        }
    }

    fn finish(mut self) -> Scan {
        let partial: Vec<_> = self
            .streams
            .iter()
            .filter(|(_, p)| p.partial.is_some())
            .map(|(s, p)| (*s, p.logical))
            .collect();
        for (stream, logical) in partial {
            let end = logical.saturating_add(1);
            let what = format!("stream {}: its last frame is cut short", stream.short());
            self.damage(what, Some((stream, logical, end)));
        }
        if self.scan.contents.end.is_none() {
            self.damage("it has no end record".to_owned(), None);
        }
        self.scan.catalog_whole = self.catalog_frames.complete && !self.catalog_broken;
        if !self.scan.catalog_whole {
            self.damage("its catalog is damaged or missing".to_owned(), None);
        }
        let contents = &mut self.scan.contents;
        contents.segment = self.id;
        if contents.header.is_none() {
            contents.header = self.catalog.header.clone();
        }
        if contents.end.is_none() {
            contents.end = self.catalog.end.clone();
        }
        // Metadata that are damaged in the streams are taken from what there is of the catalog.
        for copied in &self.catalog.streams {
            contents.stream(copied.stream).take_missing(copied);
        }
        self.scan.poor = match self.whole_until_catalog {
            Some(true) => HashSet::new(),
            _ => poor(&self.scan.contents, &self.data_lost),
        };
        let contents = &mut self.scan.contents;
        // Frames missing at a stream's begin or end are seen only by what the end record promises.
        let ends: Vec<_> = contents.end.iter().flat_map(|e| e.streams.clone()).collect();
        for extent in ends {
            let stream = contents.stream(extent.stream);
            let (from, to) = (extent.logical_start, extent.logical_end);
            let first = stream.index.first();
            let begun = first.map_or(to, |p| p.logical);
            let late = first.is_none_or(|p| p.sequence != extent.first_sequence);
            let found = stream.logical_end.max(from);
            stream.logical_end = found.max(to);
            let name = format!("{}: stream {}", self.segment.path, extent.stream.short());
            let mut damage = |what: &str, range| {
                let what = format!("{name} {what}");
                self.scan.damage.push(Damage { what, range, batch: None });
            };
            if late {
                damage("begins late", (from < begun).then_some((extent.stream, from, begun)));
            }
            if found < to {
                damage("ends early", Some((extent.stream, found, to)));
            }
        }
        if self.scan.catalog_whole {
            self.scan.catalog = Some(self.catalog);
        }
        self.scan
    }
}

/// The streams that lack frames of which it is not known that they were data: their numbers, as the end record promises them, are
/// neither among those that were read nor among copies in the catalog. Without an end record nobody knows what lacks.
fn poor(contents: &Contents, data_lost: &HashSet<(StreamId, u64)>) -> HashSet<StreamId> {
    let Some(end) = &contents.end else {
        return contents.streams.iter().map(|s| s.stream).collect();
    };
    let lacks = |extent: &&StreamExtent| {
        let Some(s) = contents.streams.iter().find(|s| s.stream == extent.stream) else {
            return extent.frames > 0;
        };
        let places = s.index.iter().map(|p| p.sequence);
        let copies = [&s.label_frame, &s.names].into_iter().flatten();
        let copies = copies.chain(&s.batches).chain(&s.sums).map(|raw| raw.header.sequence);
        let lost = data_lost.iter().filter(|(of, _)| *of == s.stream).map(|(_, number)| *number);
        let known: HashSet<u64> = places.chain(copies).chain(lost).collect();
        let end = extent.first_sequence.saturating_add(extent.frames);
        let known = known.into_iter().filter(|n| (extent.first_sequence..end).contains(n));
        (known.count() as u64) < extent.frames
    };
    // What a consolidation passed on of a stream leaps, and has no rows.
    let streams = end.streams.iter().filter(|e| !e.sparse).filter(lacks);
    streams.map(|extent| extent.stream).collect()
}
