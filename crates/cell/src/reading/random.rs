//! Frames of a version by their logical bytes, wherever they lie: for readers that need them out of order.

use std::collections::HashMap;
use std::sync::Arc;

use capstan_catalog::places::{Place, SegmentPlace};
use capstan_engine::frames::{FramePort, Gap, Lack, OpenFrame, StoredFrame};
use capstan_format::catalog::StreamContents;
use capstan_format::frame::{FRAME_PLAIN_MAX, FrameHeader, FrameType};
use capstan_format::id::{MediumId, StreamId};
use capstan_format::index::FramePlace;
use capstan_format::record::SessionLabel;
use capstan_media_agent::read::frames::FrameReader;

use crate::error::{CellError, Result, chain};
use crate::reading::replicas::Replicas;
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

struct Open {
    stream: StreamId,
    segment: u32,
    /// Where it was opened.
    place: Place,
    label: Option<SessionLabel>,
    frames: FrameReader,
    index: Arc<Vec<FramePlace>>,
}

/// Frames of a version by stream and logical byte, from whatever segment and medium has them.
pub(crate) struct AnyFrames<'a> {
    view: &'a VersionView<'a>,
    spans: Spans,
    /// Used last, last.
    open: Vec<Open>,
    replicas: Replicas,
    replica: Vec<u8>,
    /// The index that [`Self::backed`] looked into last, where that is not open.
    planned: Option<(StreamId, u32, Arc<Vec<FramePlace>>)>,
    /// Why segments that were looked for are on media that are away only, or that they are not.
    away: HashMap<u32, Option<(MediumId, String)>>,
}

impl FramePort for AnyFrames<'_> {
    fn frame_at(
        &mut self,
        stream: StreamId,
        at: u64,
        open: &mut OpenFrame<'_>,
    ) -> std::result::Result<FrameHeader, Gap> {
        let gap = |to, why| Gap { from: at, to, why };
        let Some((segment, end)) = self.spans.find(stream, at) else {
            let to = self.spans.next_after(stream, at).unwrap_or(u64::MAX);
            return Err(gap(to, damaged(&missing())));
        };
        let found = match self.open(stream, segment) {
            Err(e) => Err(unread(&e)),
            Ok(()) => self.open_frame(stream, segment, at, open),
        };
        found.map_err(|why| {
            let of = self.open.iter().find(|o| o.stream == stream && o.segment == segment);
            let next = of.and_then(|o| o.index.get(o.index.partition_point(|p| p.logical <= at)));
            gap(next.map_or(end, |p| p.logical.min(end)), why)
        })
    }
}

/// Why bytes cannot be had whose segment could not be opened.
pub(crate) fn unread(e: &CellError) -> Lack {
    match e.away() {
        Some((medium, why)) => Lack::Away { medium, why: why.to_owned(), text: chain(e) },
        None => Lack::Unread(chain(e)),
    }
}

/// Why bytes cannot be had where their frame could not be read.
fn damaged(e: &CellError) -> Lack {
    match unread(e) {
        Lack::Unread(text) => Lack::Damaged(text),
        why => why,
    }
}

impl<'a> AnyFrames<'a> {
    pub fn new(view: &'a VersionView<'a>, spans: Spans) -> Self {
        Self {
            view,
            spans,
            open: Vec::new(),
            replicas: Replicas::default(),
            replica: Vec::new(),
            planned: None,
            away: HashMap::new(),
        }
    }

    /// Makes a stream's part of a segment the one that is used last.
    fn open(&mut self, stream: StreamId, segment: u32) -> Result<()> {
        match self.open.iter().position(|o| o.stream == stream && o.segment == segment) {
            Some(last) if last + 1 == self.open.len() => Ok(()),
            Some(i) => {
                let open = self.open.remove(i);
                self.open.push(open);
                Ok(())
            }
            None => self.open_stream(stream, segment),
        }
    }

    /// Gives the frame at `at` of what is used last, or the same from elsewhere.
    fn open_frame(
        &mut self,
        stream: StreamId,
        segment: u32,
        at: u64,
        open: &mut OpenFrame<'_>,
    ) -> std::result::Result<FrameHeader, Lack> {
        let Some(last) = self.open.last_mut() else { return Err(damaged(&missing())) };
        let (view, from, label) = (self.view, last.place, last.label.as_ref());
        let mut first = || -> std::result::Result<FrameHeader, Lack> {
            let lacks = || damaged(&missing());
            let found = last.index.partition_point(|p| p.logical <= at).checked_sub(1);
            let place = found.and_then(|found| last.index.get(found)).ok_or_else(lacks)?;
            let frame = last.frames.frame(place);
            let (header, stored) = frame.map_err(|e| damaged(&view.media.note_unread(from, e)))?;
            if at >= header.logical.saturating_add(header.length) {
                return Err(lacks());
            }
            let frame = StoredFrame { label, header: &header, stored };
            open(&frame).map_err(Lack::Damaged)?;
            Ok(header)
        };
        first().or_else(|why| {
            let place = &view.segments[segment as usize];
            let mut good = |header: &FrameHeader, stored: &[u8]| {
                open(&StoredFrame { label, header, stored }).is_ok()
            };
            let text = || why.text().to_owned();
            let replica = &mut self.replica;
            let found = self.replicas.frame_at(view, place, stream, at, replica, &text, &mut good);
            match (found, self.replicas.away.take(), &why) {
                (Some(header), ..) => Ok(header),
                (None, Some(away), Lack::Damaged(_)) => Err(damaged(&away)),
                _ => Err(why),
            }
        })
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
                if most < next.min(stop) && !self.is_fill(stream, most.max(at)) {
                    lost.get_or_insert_with(missing);
                }
                at = at.max(next.min(stop));
            }
            at = at.max(stop.min(at.saturating_add(1)));
        }
        lost
    }

    /// Whether a frame of zeros has the stream's byte `at`.
    fn is_fill(&mut self, stream: StreamId, at: u64) -> bool {
        let found = self.frame_at(stream, at, &mut |frame| match frame.header.frame_type {
            FrameType::Fill => Ok(()),
            _ => Err("it claims more bytes than a frame has".to_owned()),
        });
        found.is_ok()
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
        let label = s.label.as_ref().map(|l| l.session.clone());
        let index = places_of_logical(s);
        let frames = FrameReader::of(&reader, &contents, stream);
        self.open.retain(|o| o.stream != stream);
        if self.open.len() >= OPEN {
            self.open.remove(0);
        }
        self.open.push(Open { stream, segment, place: from, label, frames, index });
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
