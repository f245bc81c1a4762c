//! Writing segments, block by block: header record, data blocks, catalog, end record; on all mirrors. And commits, which
//! cover all segments since the last: on a directory each one, on tape, which stops for it, seldom.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use capstan_engine::entropy::Entropy;
use capstan_engine::link::FilledBlock;
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::block::{BLOCK_ALIGN, BlockKind, MaHeader};
use capstan_format::catalog::CatalogBuilder;
use capstan_format::id::{BlockIndex, MediumId, SegmentId, SegmentNumber, StreamId, VersionId};
use capstan_format::index::FramePlace;
use capstan_format::record::{
    Follows, Lacks, SegmentEnd, SegmentHeader, SessionEnds, StreamExtent, encode_record,
};

use capstan_port::media::write::committed::{Committed, CommittedAt};
use capstan_port::media::write::error::WriteError;
use capstan_port::media::write::heading::{Heading, Owner};
use capstan_port::media::write::members::Member;

use crate::write::mirror::{Ended, Mirror, Mirrors};
use capstan_port::media::write::options::{NextMedia, OnMedia};

/// The segment being written.
struct OpenSegment {
    /// The header record as the first medium has it.
    header: SegmentHeader,
    catalog: CatalogBuilder,
    streams: BTreeMap<StreamId, (StreamExtent, Vec<FramePlace>)>,
    short_blocks: Vec<(u32, u32)>,
    next_index: u32,
    bytes: u64,
    begun: Instant,
}

/// After so many bytes a tape is synchronised (rule 12 of the format's rules).
const COMMIT_BYTES: u64 = 128 << 30;
/// And after that time.
const COMMIT_TIME: Duration = Duration::from_secs(600);
/// And when so many bytes of catalogs wait for it in memory.
const COMMIT_CATALOGS: usize = 16 << 20;

/// A segment that was ended.
pub(crate) struct EndedSegment {
    /// Its bytes on the medium.
    pub bytes: u64,
    /// Its number on the first medium.
    pub number: SegmentNumber,
    /// The segments that became durable with it: itself and those before it, or none.
    pub committed: Vec<Committed>,
}

/// Segments that were ended and are not durable yet.
#[derive(Default)]
struct Pending {
    segments: Vec<Committed>,
    since: Option<Instant>,
}

impl Pending {
    fn is_due(&self, most: u64) -> bool {
        let bytes = self.segments.iter().map(|c| c.bytes).sum::<u64>();
        let catalogs = self.segments.iter().map(|c| c.catalog.len()).sum::<usize>();
        bytes >= most
            || catalogs >= COMMIT_CATALOGS
            || self.since.is_some_and(|since| since.elapsed() >= COMMIT_TIME)
    }
}

/// Writes segments to a medium and its mirrors.
pub(crate) struct SegmentWriter {
    mirrors: Mirrors,
    entropy: Arc<Entropy>,
    meters: Arc<Meters>,
    now_us: fn() -> i64,
    open: Option<OpenSegment>,
    /// A segment was begun, and is not among those that were ended.
    unfinished: bool,
    pending: Pending,
    /// Bytes after which it is time to commit.
    commit_bytes: u64,
    /// What the media continue, and whether anything was committed on them.
    before: Vec<Option<Follows>>,
    has_committed: bool,
}

impl SegmentWriter {
    pub fn new(
        mirrors: Mirrors,
        entropy: Arc<Entropy>,
        meters: Arc<Meters>,
        now_us: fn() -> i64,
    ) -> Self {
        let before = mirrors.members().iter().map(|m| m.follows.clone()).collect();
        Self {
            mirrors,
            entropy,
            meters,
            now_us,
            open: None,
            unfinished: false,
            pending: Pending::default(),
            commit_bytes: COMMIT_BYTES,
            before,
            has_committed: false,
        }
    }

    /// Whether what is not committed can be written again, where one of several media is full and another takes its place.
    pub fn set_goes_on(&mut self, goes_on: bool) {
        self.mirrors.set_goes_on(goes_on);
    }

    /// Commits at the latest after so many bytes.
    pub fn limit_commits(&mut self, bytes: u64) {
        self.commit_bytes = self.commit_bytes.min(bytes);
    }

    /// For how long a segment has been open; `None` if none is.
    pub fn age(&self) -> Option<Duration> {
        self.open.as_ref().map(|o| o.begun.elapsed())
    }

    /// The versions of the streams in the segment that is open; some may come several times.
    pub fn versions(&self) -> impl Iterator<Item = VersionId> + '_ {
        let streams = self.open.iter().flat_map(|open| open.streams.values());
        streams.map(|(extent, _)| extent.version)
    }

    /// Whether one of the media ends soon.
    pub fn is_ending(&self) -> bool {
        self.mirrors.members().iter().any(|m| m.device.is_ending())
    }

    /// Goes on on other media; no segment is open. What was ended before is committed where it is, and given to `record`: an array may
    /// say only then that it ends.
    pub fn change(
        &mut self,
        next: &mut NextMedia,
        record: &mut dyn FnMut(&[Committed]) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let committed = self.commit()?;
        record(&committed)?;
        self.go_on(next)
    }

    /// Leaves media that failed, and what was not committed there, and goes on on others.
    pub fn replace(
        &mut self,
        next: &mut dyn FnMut(Vec<Member>) -> OnMedia,
    ) -> Result<(), WriteError> {
        self.abandon();
        self.go_on(next)
    }

    fn go_on(&mut self, next: &mut dyn FnMut(Vec<Member>) -> OnMedia) -> Result<(), WriteError> {
        let left: Vec<_> = self.mirrors.members().iter().map(|m| m.medium.clone()).collect();
        let next = next(self.mirrors.take())?;
        let before = std::mem::take(&mut self.before);
        let mut before = before.into_iter().chain(std::iter::repeat(None));
        let mut members = Vec::new();
        for (member, left) in next.into_iter().zip(left) {
            let earlier = before.next().flatten();
            let mut member = match member {
                Ok(member) => member,
                Err(lost) => {
                    self.mirrors.lost.lock().push(lost);
                    continue;
                }
            };
            if member.medium.medium != left.medium {
                // One that has nothing of the session is none that it continues.
                let left = Follows { medium: left.medium, label: left.label };
                member.follows = if self.has_committed { Some(left) } else { earlier };
            }
            self.before.push(member.follows.clone());
            members.push(member);
        }
        self.has_committed = false;
        self.mirrors.put(members);
        Ok(())
    }

    /// Drops what was begun and what was not committed.
    pub fn abandon(&mut self) {
        self.open = None;
        self.unfinished = false;
        self.pending = Pending::default();
        self.mirrors.abandon();
    }

    /// The media that are written now.
    pub fn media(&self) -> Vec<MediumId> {
        self.mirrors.members().iter().map(|m| m.medium.medium).collect()
    }

    /// The media, when nothing more is written this way.
    pub fn into_members(self) -> Vec<Member> {
        self.mirrors.into_members()
    }

    /// Begins a segment.
    pub fn begin(&mut self, heading: Heading) -> Result<(), WriteError> {
        let segment = SegmentId(self.entropy.id().map_err(WriteError::Entropy)?);
        self.begin_as(heading, segment)
    }

    /// The segment that is open, and when it was begun.
    pub fn opened(&self) -> Option<(SegmentId, i64)> {
        self.open.as_ref().map(|open| (open.header.segment, open.header.written_us))
    }

    /// Begins a segment of that id.
    pub fn begin_as(&mut self, heading: Heading, segment: SegmentId) -> Result<(), WriteError> {
        let written_us = heading.written_us.unwrap_or_else(self.now_us);
        self.unfinished = true;
        self.mirrors.each(|m| {
            m.number = m.device.next_number();
            m.number = m.device.begin_segment()?;
            Ok(())
        })?;
        let on = |member: &Mirror| SegmentHeader {
            medium: member.medium.clone(),
            segment,
            number: member.number,
            session: heading.session.clone(),
            keys: heading.keys.clone(),
            copy_of: heading.copy_of,
            follows: member.follows.clone(),
            written_us,
        };
        let record = |header: &SegmentHeader, length| {
            encode_record(BlockKind::SegmentHeader, segment, BlockIndex(0), header, length)
        };
        let first = self.mirrors.members().first().ok_or(WriteError::Thread)?;
        let (header, block_size) = (on(first), first.medium.block_size as usize);
        let least = if self.mirrors.short_blocks() { BLOCK_ALIGN } else { block_size };
        // As long on all media as where it is longest, so that all blocks behind it lie at the same place.
        let mut length = least;
        for member in self.mirrors.members() {
            length = length.max(record(&on(member), least)?.len());
        }
        // By a block's place in bytes it shows whether the first one is longer.
        if length > block_size && length.is_multiple_of(block_size) {
            length += BLOCK_ALIGN;
        }
        self.mirrors.each(|m| {
            let block = record(&on(m), length)?;
            Ok(m.device.write(&block)?)
        })?;
        self.open = Some(OpenSegment {
            catalog: CatalogBuilder::new(segment),
            header,
            streams: BTreeMap::new(),
            short_blocks: if length == block_size { Vec::new() } else { vec![(0, length as u32)] },
            next_index: 1,
            bytes: length as u64,
            begun: Instant::now(),
        });
        Ok(())
    }

    /// Stamps a block's place and writes it; its buffer may be used again afterwards. Returns its bytes on the medium.
    pub fn write(&mut self, block: &mut FilledBlock, owner: Owner) -> Result<u64, WriteError> {
        let mut lap = Lap::start();
        let short = self.mirrors.short_blocks();
        let Some(open) = &mut self.open else { return Err(WriteError::Thread) };
        let index = open.next_index;
        open.next_index += 1;
        let full = block.buffer.len() as u32;
        let length = if short && block.ends_segment { block.short_len } else { full };
        if length != full {
            open.short_blocks.push((index, length));
        }
        let ma = MaHeader {
            kind: BlockKind::Data,
            segment: open.header.segment,
            index: BlockIndex(index),
            length,
        };
        ma.encode(&mut block.buffer);
        let notes = &block.notes;
        let (extent, places) = open.streams.entry(block.stream).or_insert_with(|| {
            // Of a sparse stream the label stands for what was left out too.
            let first = match owner.sparse {
                true => notes.frames.iter().find(|f| f.logical_frame).or(notes.frames.first()),
                false => notes.frames.first(),
            };
            let extent = StreamExtent {
                stream: block.stream,
                version: owner.version,
                logical_start: first.map_or(0, |f| f.logical),
                logical_end: 0,
                first_sequence: notes.frames.first().map_or(0, |f| f.sequence),
                frames: 0,
                rows: 0,
                sparse: owner.sparse,
            };
            (extent, Vec::new())
        });
        extent.logical_end = notes.logical_end;
        extent.frames += notes.frames.len() as u64;
        extent.rows += notes.rows;
        places.extend(notes.frames.iter().map(|f| FramePlace {
            logical_frame: f.logical_frame,
            sequence: f.sequence,
            logical: f.logical,
            block: BlockIndex(index),
            byte: f.byte,
        }));
        for copy in &notes.copies {
            open.catalog.copy(block.stream, copy);
        }
        open.bytes += u64::from(length);
        let meter = self.meters.of(Stage::Device);
        let bytes = &block.buffer[..length as usize];
        self.mirrors.each(|m| Ok(m.device.write(bytes)?))?;
        meter.bytes(length.into());
        lap.busy(meter);
        Ok(length.into())
    }

    /// Ends the segment, and commits if it is time to, or sessions end in it. `written_us` is the end record's time,
    /// if not now.
    pub fn end(
        &mut self,
        ends: SessionEnds,
        written_us: Option<i64>,
    ) -> Result<EndedSegment, WriteError> {
        self.end_copy(ends, written_us, Lacks::default())
    }

    /// The same of a copy that lacks that of its original.
    pub fn end_copy(
        &mut self,
        ends: SessionEnds,
        written_us: Option<i64>,
        lacks: Lacks,
    ) -> Result<EndedSegment, WriteError> {
        let mut lap = Lap::start();
        let is_last = !ends.is_empty();
        let Some(mut open) = self.open.take() else { return Err(WriteError::Thread) };
        for (stream, (_, places)) in &open.streams {
            open.catalog.index(*stream, places);
        }
        let end = SegmentEnd {
            segment: open.header.segment,
            number: open.header.number,
            session: open.header.session.session,
            data_blocks: open.next_index - 1,
            blocks: 0,
            catalog_at: open.bytes,
            short_blocks: std::mem::take(&mut open.short_blocks),
            streams: open.streams.values().map(|(extent, _)| extent.clone()).collect(),
            session_end: ends.own,
            other_ends: ends.others,
            lacks: lacks.frames,
            lacks_names: lacks.names,
            written_us: written_us.unwrap_or_else(self.now_us),
        };
        let short = self.mirrors.short_blocks();
        self.mirrors.each(|m| {
            m.ended = Some(end_on(m, &open, &end, short)?);
            Ok(())
        })?;
        lap.busy(self.meters.of(Stage::Device));
        let at =
            |m: &Mirror| CommittedAt { medium: m.medium.medium, number: m.number, object: None };
        let places = self.mirrors.members().iter().map(at).collect();
        let mut members = self.mirrors.members_mut().iter_mut();
        let ended = members.next().and_then(|m| Some((m.medium.clone(), m.ended.take()?)));
        let Some((medium, ended)) = ended else { return Err(WriteError::Thread) };
        members.for_each(|m| m.ended = None);
        self.mirrors.members_mut().iter_mut().for_each(|m| m.follows = None);
        self.unfinished = false;
        let (bytes, number) = (ended.bytes, ended.end.number);
        self.pending.since.get_or_insert(open.begun);
        self.pending.segments.push(Committed {
            header: SegmentHeader { medium, number, ..open.header },
            places,
            end: ended.end,
            bytes,
            catalog: ended.catalog,
        });
        let each = self.mirrors.members().iter().all(|m| m.device.commits_each_segment());
        let due = each || is_last || self.is_ending() || self.pending.is_due(self.commit_bytes);
        let committed = if due { self.commit()? } else { Vec::new() };
        Ok(EndedSegment { bytes, number, committed })
    }

    /// Commits what was ended before the medium warned that it ends soon: the segment that is open may not have room any more.
    pub fn commit_before_end(&mut self) -> Result<Vec<Committed>, WriteError> {
        if self.is_ending() { self.commit() } else { Ok(Vec::new()) }
    }

    /// After a failure: where a medium was full, what was ended before and came to it whole is durable all the same, and returned.
    /// A spool may have taken much that had no room any more.
    pub fn salvage(&mut self, failure: &WriteError) -> Vec<Committed> {
        if !failure.is_full() {
            return Vec::new();
        }
        self.open = None;
        let full: &[MediumId] = match failure {
            WriteError::Full { media, .. } => media,
            _ => &[],
        };
        let mut segments = std::mem::take(&mut self.pending).segments;
        let unfinished = std::mem::take(&mut self.unfinished);
        let members = self.mirrors.members_mut();
        let mut saved: HashMap<MediumId, SegmentNumber> = HashMap::new();
        for m in members.iter_mut().filter(|m| full.contains(&m.medium.medium)) {
            saved.insert(m.medium.medium, m.device.salvage().unwrap_or(SegmentNumber(0)));
        }
        let on = |c: &Committed, id| c.places.iter().find(|p| p.medium == id).map(|p| p.number);
        let is_on_all = |c: &&Committed| {
            saved.iter().all(|(id, end)| on(c, *id).is_some_and(|number| number < *end))
        };
        let whole = segments.iter().take_while(is_on_all).count();
        // What a medium that is full has not is written anew on all, so that each has all of the session.
        for m in members.iter_mut() {
            let id = m.medium.medium;
            let from = segments.get(whole).and_then(|first| on(first, id));
            let from = from.or(unfinished.then_some(m.number)).filter(|_| !full.is_empty());
            let cut = from.filter(|from| m.device.cut(*from));
            let end = match full.contains(&id) {
                true => saved.get(&id).copied(),
                false => m.device.salvage().ok(),
            };
            if let Some(end) = end {
                saved.insert(id, cut.map_or(end, |from| from.min(end)));
            }
        }
        segments.iter_mut().for_each(|segment| {
            segment.places.retain(|p| saved.get(&p.medium).is_some_and(|end| p.number < *end));
        });
        segments.retain(|segment| !segment.places.is_empty());
        if !full.is_empty() {
            self.mirrors.note_lacking(&segments);
        }
        self.has_committed |= !segments.is_empty();
        self.find_objects(&mut segments);
        segments
    }

    /// Makes all segments that were ended durable; returns those that were not before.
    pub fn commit(&mut self) -> Result<Vec<Committed>, WriteError> {
        if self.pending.segments.is_empty() {
            return Ok(Vec::new());
        }
        let mut lap = Lap::start();
        self.mirrors.each(|m| Ok(m.device.commit()?))?;
        self.has_committed = true;
        lap.busy(self.meters.of(Stage::Device));
        let mut committed = std::mem::take(&mut self.pending).segments;
        self.find_objects(&mut committed);
        Ok(committed)
    }

    /// Completes the places of segments that are durable now.
    fn find_objects(&self, committed: &mut [Committed]) {
        for committed in committed {
            committed.places.retain_mut(|place| {
                let on = self.mirrors.members().iter().find(|m| m.medium.medium == place.medium);
                place.object = on.and_then(|m| m.device.object_of(place.number));
                // On a mirror that failed meanwhile nothing is certain.
                on.is_some()
            });
        }
    }
}

/// Writes the catalog and the end record to one medium, and ends the segment there.
fn end_on(
    member: &mut Mirror,
    open: &OpenSegment,
    end: &SegmentEnd,
    short: bool,
) -> Result<Ended, WriteError> {
    let (segment, number) = (end.segment, member.number);
    let block_size = member.medium.block_size as usize;
    let (medium, follows) = (member.medium.clone(), member.follows.clone());
    let header = SegmentHeader { medium, number, follows, ..open.header.clone() };
    let mut end = SegmentEnd { number, ..end.clone() };
    let catalog = open.catalog.finish(&header, &end)?;
    let mut bytes = open.bytes;
    let mut index = BlockIndex(open.next_index);
    let device = &mut member.device;
    device.begin_catalog()?;
    catalog.write_blocks(segment, index, block_size, short, |block| {
        index.0 += 1;
        bytes += block.len() as u64;
        device.write(block)
    })?;
    end.blocks = index.0 + 1;
    let length = if short { BLOCK_ALIGN } else { block_size };
    let block = encode_record(BlockKind::SegmentEnd, segment, index, &end, length)?;
    device.write(&block)?;
    bytes += block.len() as u64;
    device.end_segment()?;
    Ok(Ended { end, bytes, catalog: catalog.into_frames() })
}
