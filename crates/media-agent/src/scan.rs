//! Reading a whole segment, trusting nothing: for segments whose catalog is damaged or missing, and to verify.
//!
//! Every byte is accounted for: a block header, a frame, padding. What does not fit is damage, with the stream and the
//! logical range it costs where that is known.

use std::collections::{HashMap, HashSet};

use capstan_engine::buffer::Buffer;
use capstan_format::FormatError;
use capstan_format::block::{
    BLOCK_ALIGN, Block, BlockKind, DaHeader, MaHeader, NO_FRAME, PAYLOAD_AT,
};
use capstan_format::bytes::is_zero;
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader, find_frame};
use capstan_format::id::{BlockIndex, SegmentId, StreamId};
use capstan_format::index::FramePlace;
use capstan_format::record::{RECORD_MAX, SegmentEnd, SegmentHeader, SessionLabel, decode_record};

use crate::catalog::catalog_stream;
use crate::reader::{CatalogFrames, Contents, ReadError, SegmentReader};

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
}

/// Reads a whole segment.
pub fn scan(segment: &SegmentReader) -> Result<Scan, ReadError> {
    scan_with(segment, &mut |_, _, _, _| Ok(()))
}

/// Reads a whole segment and has its streams' frames opened.
pub fn scan_with(segment: &SegmentReader, open: &mut OpenFrame<'_>) -> Result<Scan, ReadError> {
    let mut scanner = Scanner {
        segment,
        open,
        id: None,
        streams: HashMap::new(),
        catalog_frames: CatalogFrames::default(),
        catalog: Contents::default(),
        catalog_broken: false,
        scan: Scan::default(),
        next_index: 0,
        sparse: HashSet::new(),
    };
    scanner.run()?;
    Ok(scanner.finish())
}

impl Scanner<'_, '_> {
    fn damage(&mut self, what: String, range: Option<(StreamId, u64, u64)>) {
        let what = format!("{}: {what}", self.segment.path);
        self.scan.damage.push(Damage { what, range, batch: None });
    }

    fn run(&mut self) -> Result<(), ReadError> {
        // The id that most blocks have is found first, so that one damaged header does not decide.
        let end = self.segment.end();
        if let Ok(end) = &end {
            self.sparse = end.streams.iter().filter(|e| e.sparse).map(|e| e.stream).collect();
        }
        self.id = end.map(|e| e.segment).or_else(|_| self.segment.header().map(|h| h.segment)).ok();
        let most = self.segment.block_size.max(RECORD_MAX + 2 * BLOCK_ALIGN);
        let mut block = Buffer::new(self.segment.block_size);
        let mut at = 0;
        let mut lost_from = None;
        let len = self.segment.len()?;
        while at < len {
            // A block is read whole with its header, unless none is expected here or it is a long record.
            let want = if lost_from.is_some() { BLOCK_ALIGN } else { self.segment.block_size };
            let want = want.min(block.len());
            let mut n = self.segment.read(&mut block[..want], at)?;
            if n == 0 {
                break;
            }
            let header = MaHeader::decode(&block[..n]);
            let ours = header.as_ref().ok().filter(|h| {
                *self.id.get_or_insert(h.segment) == h.segment && h.length as usize <= most
            });
            let Some(ma) = ours.copied() else {
                lost_from.get_or_insert(at);
                at += BLOCK_ALIGN as u64;
                continue;
            };
            let length = ma.length as usize;
            if length > block.len() {
                let mut longer = Buffer::new(length);
                longer[..n].copy_from_slice(&block[..n]);
                block = longer;
            }
            if length > n && n == want {
                n += self.segment.read(&mut block[want..length], at + want as u64)?;
            }
            if let Some(from) = lost_from.take() {
                self.damage(format!("bytes {from} to {at} are no block of it"), None);
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
        }
        if let Some(from) = lost_from {
            self.damage(format!("bytes {from} to its end are no block of it"), None);
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
            BlockKind::Data | BlockKind::Catalog => match Block::decode(bytes) {
                Ok(block) => self.frames_of(&block),
                Err(e) => {
                    self.damage(format!("block {}: {e}", ma.index.0), None);
                    self.salvage(ma, bytes);
                }
            },
        }
    }

    /// Takes what frames can be found in a block whose own header or padding is damaged.
    fn salvage(&mut self, ma: &MaHeader, bytes: &[u8]) {
        let payload = &bytes[PAYLOAD_AT..];
        // A catalog has frames of the other streams inside, which are not frames here.
        let is_catalog = ma.kind == BlockKind::Catalog;
        let owner = match (DaHeader::decode(bytes), self.id.map(catalog_stream)) {
            (Ok(da), _) => Some(da.stream),
            (Err(_), Some(catalog)) if is_catalog => Some(catalog),
            (Err(_), catalog) => {
                let mut known = self.streams.keys().filter(|s| Some(**s) != catalog);
                known.find(|s| find_frame(**s, payload, 0).is_some()).copied()
            }
        };
        let Some(stream) = owner else { return };
        let passing = self.streams.entry(stream).or_default();
        // Whether a frame goes on here cannot be known; its checksum will tell.
        let first = match &passing.partial {
            Some(_) => 0,
            None => find_frame(stream, payload, 0).unwrap_or(0),
        };
        self.parse(stream, ma.index, payload, first, true);
    }

    fn frames_of(&mut self, block: &Block<'_>) {
        let stream = block.da.stream;
        let begins_late = !self.streams.contains_key(&stream);
        let passing = self.streams.entry(stream).or_default();
        if !begins_late && passing.position != block.da.position {
            let lost = passing.partial.take();
            let (expected, found) = (passing.position, block.da.position);
            passing.sequence = passing.sequence.filter(|_| lost.is_none());
            passing.hurt = true;
            self.damage(
                format!(
                    "stream {} goes on at byte {found} where {expected} was expected",
                    stream.short()
                ),
                None,
            );
        }
        let first = match (&self.streams[&stream].partial, block.da.first_frame) {
            (Some(_), _) => 0,
            (None, NO_FRAME) => block.payload.len(),
            (None, first) => first as usize,
        };
        self.parse(stream, block.ma.index, block.payload, first, false);
        if let Some(passing) = self.streams.get_mut(&stream) {
            passing.position = block.da.position + u64::from(block.da.used);
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

    /// A whole frame, header to padding.
    fn frame(&mut self, stream: StreamId, place: FramePlace, bytes: &[u8]) {
        let Ok(header) = FrameHeader::decode(stream, bytes) else {
            self.damage(format!("block {}: frame header damaged", place.block.0), None);
            return;
        };
        let payload_end = FRAME_HEADER_LEN + header.stored as usize;
        let passing = self.streams.entry(stream).or_default();
        let (expected_sequence, expected_logical) = (passing.sequence, passing.logical);
        passing.sequence = Some(header.sequence.wrapping_add(1));
        passing.logical = header.logical + header.logical_len();
        passing.begun = true;
        let hurt = std::mem::take(&mut passing.hurt);
        let is_catalog = self.id.is_some_and(|id| catalog_stream(id) == stream);
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
            if !header.frame_type.is_logical()
                && !is_catalog
                && let Some(last) = self.scan.damage.last_mut()
            {
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
        if contents.header.is_none() {
            contents.header = self.catalog.header.clone();
        }
        if contents.end.is_none() {
            contents.end = self.catalog.end.clone();
        }
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
