//! Bytes of streams by their logical offset, wherever in a version they lie: for readers that need them out of order.

use std::collections::HashMap;
use std::sync::Arc;

use capstan_catalog::places::{Place, SegmentPlace};
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::catalog::StreamContents;
use capstan_format::codec::Decompressor;
use capstan_format::frame::{FRAME_PLAIN_MAX, FrameHeader, FrameType};
use capstan_format::id::{MediumId, StreamId};
use capstan_format::index::FramePlace;
use capstan_format::keys::{FrameSealer, Purpose};
use capstan_media_agent::read::frames::FrameReader;

use crate::error::{CellError, Result};
use crate::reading::replicas::Spares;
use crate::reading::unread::told;
use crate::reading::version::VersionView;

/// Streams that are kept open; each costs a block and a frame.
const OPEN: usize = 8;

/// Which segments have a stream's logical bytes: begin, end, segment; ascending.
#[derive(Clone)]
pub(crate) struct Spans(Arc<HashMap<StreamId, Vec<(u64, u64, u32)>>>);

impl Spans {
    pub fn of(segments: &[SegmentPlace]) -> Self {
        let mut all: HashMap<StreamId, Vec<(u64, u64, u32)>> = HashMap::new();
        for (index, place) in segments.iter().enumerate() {
            for (stream, from, to) in place.spans.iter().filter(|s| s.1 < s.2) {
                all.entry(*stream).or_default().push((*from, *to, index as u32));
            }
        }
        all.values_mut().for_each(|spans| spans.sort_unstable());
        Self(Arc::new(all))
    }

    /// Whether any segment has some of the stream.
    pub fn has(&self, stream: StreamId) -> bool {
        self.0.contains_key(&stream)
    }

    /// The segment that has the stream's byte `at`, and up to where.
    pub fn find(&self, stream: StreamId, at: u64) -> Option<(u32, u64)> {
        let spans = self.0.get(&stream)?;
        let before = spans.partition_point(|s| s.0 <= at);
        let (_, to, segment) = spans[..before].last()?;
        (at < *to).then_some((*segment, *to))
    }

    /// Where, behind `at`, the stream's bytes go on.
    fn next_after(&self, stream: StreamId, at: u64) -> Option<u64> {
        let spans = self.0.get(&stream)?;
        spans.get(spans.partition_point(|s| s.0 <= at)).map(|s| s.0)
    }
}

/// What a stream has at an offset.
pub(crate) enum Found<'b> {
    /// These bytes.
    Bytes(&'b [u8]),
    /// So many zeros, in place of what could not be read.
    Zeros(u64),
    /// Nothing that could be read, for so many bytes.
    Lost(u64, CellError),
}

struct Open {
    stream: StreamId,
    segment: u32,
    /// Where it was opened.
    place: Place,
    frames: FrameReader,
    index: Arc<Vec<FramePlace>>,
    sealer: Option<FrameSealer>,
    /// The frame at hand: its logical begin and end, its bytes (none if it stands for zeros).
    frame: Option<(u64, u64, bool)>,
    bytes: Vec<u8>,
}

/// Reads streams by logical offset.
pub(crate) struct Elsewhere<'a> {
    view: &'a VersionView<'a>,
    spans: Spans,
    /// Used last, last.
    open: Vec<Open>,
    decompressor: Decompressor,
    scratch: Vec<u8>,
    spares: Spares,
    spare: Vec<u8>,
    /// The index that [`Self::backed`] looked into last, where that is not open.
    planned: Option<(StreamId, u32, Arc<Vec<FramePlace>>)>,
    /// Why segments that were looked for are on media that are away only, or that they are not.
    away: HashMap<u32, Option<(MediumId, String)>>,
    /// Stored bytes read so far.
    pub bytes_read: u64,
    /// Where it counts what reading and opening frames takes, if anybody asks.
    pub meters: Option<Arc<Meters>>,
    /// Whether what was lost last lies in a segment that could not be opened, or read now: its medium may be away.
    pub is_unopened: bool,
}

impl<'a> Elsewhere<'a> {
    pub fn new(view: &'a VersionView<'a>, spans: Spans) -> Self {
        Self {
            view,
            spans,
            open: Vec::new(),
            decompressor: Decompressor::default(),
            scratch: Vec::new(),
            spares: Spares::default(),
            spare: Vec::new(),
            planned: None,
            away: HashMap::new(),
            bytes_read: 0,
            meters: None,
            is_unopened: false,
        }
    }

    /// What the stream has at logical offset `at`, at most `len` bytes of it.
    pub fn get(&mut self, stream: StreamId, at: u64, len: u64) -> Found<'_> {
        match self.load(stream, at) {
            Err(e) => Found::Lost(self.up_to(stream, at).saturating_sub(at).clamp(1, len), e),
            Ok(()) => {
                let Some(open) = self.open.last() else { return Found::Lost(len, missing()) };
                let Some((begin, end, has_bytes)) = open.frame else {
                    return Found::Lost(len, missing());
                };
                let to = end.min(at.saturating_add(len));
                if !has_bytes {
                    return Found::Zeros(to - at);
                }
                match open.bytes.get((at - begin) as usize..(to - begin) as usize) {
                    Some(bytes) => Found::Bytes(bytes),
                    None => Found::Lost(to - at, missing()),
                }
            }
        }
    }

    /// Up to where nothing is known from `at` on, where `at` could not be read.
    fn up_to(&self, stream: StreamId, at: u64) -> u64 {
        let Some((segment, end)) = self.spans.find(stream, at) else { return u64::MAX };
        let open = self.open.iter().find(|o| o.stream == stream && o.segment == segment);
        let next = open.and_then(|o| o.index.get(o.index.partition_point(|p| p.logical <= at)));
        next.map_or(end, |p| p.logical.min(end))
    }

    /// Makes the frame that has the stream's byte `at` the one at hand of what is used last.
    fn load(&mut self, stream: StreamId, at: u64) -> Result<()> {
        self.is_unopened = false;
        let (segment, _) = self.spans.find(stream, at).ok_or_else(missing)?;
        match self.open.iter().position(|o| o.stream == stream) {
            Some(last) if last + 1 == self.open.len() => {}
            Some(i) => {
                let open = self.open.remove(i);
                self.open.push(open);
            }
            None => {}
        }
        let is_open = self.open.last().is_some_and(|o| o.stream == stream && o.segment == segment);
        let mut lap = Lap::start();
        if !is_open {
            self.open_stream(stream, segment).inspect_err(|_| self.is_unopened = true)?;
        }
        let Some(open) = self.open.last_mut() else { return Err(missing()) };
        if open.frame.is_some_and(|(from, to, _)| (from..to).contains(&at)) {
            return Ok(());
        }
        open.frame = None;
        let (view, from) = (self.view, open.place);
        let (decompressor, scratch) = (&mut self.decompressor, &mut self.scratch);
        let Open { frames, index, sealer, bytes, .. } = open;
        let meters = self.meters.as_deref();
        let mut count = |stage: Stage| {
            if let Some(meters) = meters {
                lap.busy(meters.of(stage));
            }
        };
        let mut take = |header: &FrameHeader, stored: &[u8]| -> Result<()> {
            count(Stage::Device);
            let opened = header.open(stored, sealer.as_ref(), decompressor, scratch, bytes);
            count(Stage::Cpu);
            opened.map_err(|source| CellError::Format { what: "a frame".to_owned(), source })
        };
        let mut first = || -> Result<FrameHeader> {
            let found = index.partition_point(|p| p.logical <= at).checked_sub(1);
            let place = index.get(found.ok_or_else(missing)?).ok_or_else(missing)?;
            let (header, stored) =
                frames.frame(place).map_err(|e| view.media.note_unread(from, e))?;
            if at >= header.logical.saturating_add(header.length) {
                return Err(missing());
            }
            take(&header, stored)?;
            Ok(header)
        };
        let header = match first() {
            Ok(header) => header,
            Err(e) => {
                let place = &self.view.segments[segment as usize];
                let mut good = |h: &FrameHeader, stored: &[u8]| take(h, stored).is_ok();
                let spare = &mut self.spare;
                let why = || crate::error::chain(&e);
                let found =
                    self.spares.frame_at(self.view, place, stream, at, spare, &why, &mut good);
                let Some(found) = found else {
                    let e = told(e, self.spares.away.take());
                    self.is_unopened = e.away().is_some();
                    return Err(e);
                };
                found
            }
        };
        self.bytes_read += u64::from(header.stored);
        if let Some(meters) = meters {
            meters.of(Stage::Device).bytes(u64::from(header.stored));
        }
        let end = header.logical.saturating_add(header.length);
        open.frame = Some((header.logical, end, header.frame_type != FrameType::Fill));
        Ok(())
    }

    /// Calls with the ranges of a stream's bytes that frames can give, ascending, as offset behind `from` and length. What frames
    /// say is zeros is left out. Returns why some are lost, where they are: a row may claim any length, and so may a segment's end.
    pub fn backed(
        &mut self,
        stream: StreamId,
        from: u64,
        len: u64,
        each: &mut dyn FnMut(u64, u64),
    ) -> Option<CellError> {
        let (mut at, end) = (from, from.saturating_add(len));
        let mut lost = None;
        while at < end {
            let Some((segment, to)) = self.spans.find(stream, at) else {
                lost.get_or_insert_with(missing);
                match self.spans.next_after(stream, at) {
                    Some(next) => at = next,
                    None => break,
                }
                continue;
            };
            let stop = to.min(end);
            let index = match self.index_of(stream, segment) {
                Ok(index) => index,
                Err(e) => {
                    lost.get_or_insert(e);
                    at = stop;
                    continue;
                }
            };
            let first = index.partition_point(|p| p.logical <= at);
            if first == 0 {
                lost.get_or_insert_with(missing);
                at = index.first().map_or(stop, |p| p.logical.min(stop));
                continue;
            }
            for (i, place) in index.iter().enumerate().skip(first - 1) {
                if at >= stop {
                    break;
                }
                let next = index.get(i + 1).map_or(to, |p| p.logical.min(to));
                // No frame has more bytes than that; one that stands for more is all zeros.
                let most = place.logical.saturating_add(FRAME_PLAIN_MAX as u64);
                let high = next.min(most).min(stop);
                if at < high {
                    each(at - from, high - at);
                }
                if most < next.min(stop)
                    && let Found::Lost(_, e) = self.get(stream, most.max(at), 1)
                {
                    lost.get_or_insert(e);
                }
                at = at.max(next.min(stop));
            }
            at = at.max(stop.min(at.saturating_add(1)));
        }
        lost
    }

    /// Why some of a range of a stream's bytes cannot be had now: it lies on media that are away only. A tape that is in its library is
    /// not loaded for that; one that somebody may bring is waited for.
    pub fn away(&mut self, stream: StreamId, from: u64, len: u64) -> Result<Option<CellError>> {
        let (mut at, end) = (from, from.saturating_add(len));
        while at < end {
            let Some((segment, to)) = self.spans.find(stream, at) else { break };
            let why = match self.away.get(&segment) {
                Some(known) => known.clone(),
                None => {
                    let why = self.why_away(segment)?;
                    self.away.insert(segment, why.clone());
                    why
                }
            };
            if let Some((medium, why)) = why {
                return Ok(Some(CellError::Away { medium, text: why.clone(), why }));
            }
            at = to.max(at + 1);
        }
        Ok(None)
    }

    fn why_away(&self, segment: u32) -> Result<Option<(MediumId, String)>> {
        let Some(place) = self.view.segments.get(segment as usize) else { return Ok(None) };
        let media = &self.view.media;
        let mut first = None;
        for (_, medium, _) in place.places() {
            if media.is_sequential(medium)? && self.view.cell.tapes_away(medium)?.is_empty() {
                return Ok(None);
            }
            match media.medium_once(medium) {
                Err(CellError::Away { medium, why, .. }) => {
                    first.get_or_insert((medium, why));
                }
                // What else is wrong is found when it is read.
                _ => return Ok(None),
            }
        }
        Ok(first)
    }

    fn index_of(&mut self, stream: StreamId, segment: u32) -> Result<Arc<Vec<FramePlace>>> {
        if let Some(open) = self.open.iter().find(|o| o.stream == stream && o.segment == segment) {
            return Ok(open.index.clone());
        }
        if let Some((of, there, index)) = &self.planned
            && (*of, *there) == (stream, segment)
        {
            return Ok(index.clone());
        }
        let place = self.view.segments.get(segment as usize).ok_or_else(missing)?;
        let contents = self.view.contents(place)?;
        let s = contents.streams.iter().find(|s| s.stream == stream).ok_or_else(missing)?;
        let index = places_of_logical(s);
        self.planned = Some((stream, segment, index.clone()));
        Ok(index)
    }

    fn open_stream(&mut self, stream: StreamId, segment: u32) -> Result<()> {
        let place = self.view.segments.get(segment as usize).ok_or_else(missing)?;
        let (from, reader, contents) = self.view.open_data_at(place)?;
        let s = contents.streams.iter().find(|s| s.stream == stream).ok_or_else(missing)?;
        let label = s.label.as_ref().map(|l| &l.session);
        let sealer = self.view.keys.sealer(Purpose::Contents, label, stream)?;
        let index = places_of_logical(s);
        let frames = FrameReader::of(&reader, &contents, stream);
        self.open.retain(|o| o.stream != stream);
        if self.open.len() >= OPEN {
            self.open.remove(0);
        }
        let bytes = Vec::new();
        self.open.push(Open {
            stream,
            segment,
            place: from,
            frames,
            index,
            sealer,
            frame: None,
            bytes,
        });
        Ok(())
    }
}

/// Where a stream's frames of contents lie in a segment.
fn places_of_logical(stream: &StreamContents) -> Arc<Vec<FramePlace>> {
    Arc::new(stream.index.iter().filter(|p| p.logical_frame).copied().collect())
}

pub(crate) fn missing() -> CellError {
    CellError::BadInput("some of its data are missing on the medium".to_owned())
}
