//! Frames of a version by their logical bytes, wherever they lie: for readers that need them out of order.

use std::sync::Arc;

use capstan_engine::frames::{FramePort, Gap, Lack, OpenFrame, Place, StoredFrame};
use capstan_format::catalog::StreamContents;
use capstan_format::frame::{FRAME_PLAIN_MAX, FrameHeader, FrameType};
use capstan_format::id::StreamId;
use capstan_format::index::FramePlace;
use capstan_format::record::SessionLabel;

use super::replicas::{Replicas, Sought};
use crate::read::frames::FrameReader;
use capstan_port::media::read::frames::VersionFrames;
use capstan_port::media::read::known::{GAP, KnownMedia, gap};
use capstan_port::media::read::spans::Spans;

/// Streams that are kept open; each costs a block and a frame.
const OPEN: usize = 8;

/// A stream's part of a segment that is kept open.
struct Part {
    stream: StreamId,
    segment: u32,
    at: Place,
    label: Option<SessionLabel>,
    frames: FrameReader,
    index: Arc<Vec<FramePlace>>,
}

/// Frames of a version by stream and logical byte, from whatever segment and medium has them.
pub struct AnyFrames<'a> {
    media: &'a dyn KnownMedia,
    spans: Spans,
    /// Used last, last.
    open: Vec<Part>,
    replicas: Replicas,
    stored: Vec<u8>,
    /// The index that [`Self::backed`] looked into last, where that is not open.
    planned: Option<(StreamId, u32, Arc<Vec<FramePlace>>)>,
}

impl FramePort for AnyFrames<'_> {
    fn frame_at(
        &mut self,
        stream: StreamId,
        at: u64,
        open: &mut OpenFrame<'_>,
    ) -> Result<FrameHeader, Gap> {
        let Some((segment, end)) = self.spans.find(stream, at) else {
            let to = self.spans.next_after(stream, at).unwrap_or(u64::MAX);
            return Err(Gap { from: at, to, why: gap() });
        };
        let found = match self.open(stream, segment) {
            Err(why) => Err(why),
            Ok(()) => self.open_frame(stream, segment, at, open),
        };
        found.map_err(|why| {
            let of = self.open.iter().find(|o| o.stream == stream && o.segment == segment);
            let next = of.and_then(|o| o.index.get(o.index.partition_point(|p| p.logical <= at)));
            Gap { from: at, to: next.map_or(end, |p| p.logical.min(end)), why }
        })
    }
}

impl VersionFrames for AnyFrames<'_> {
    fn backed(
        &mut self,
        stream: StreamId,
        from: u64,
        len: u64,
        each: &mut dyn FnMut(u64, u64),
    ) -> Option<Lack> {
        let (mut at, end) = (from, from.saturating_add(len));
        let mut lost = None;
        while at < end {
            let Some((segment, to)) = self.spans.find(stream, at) else {
                lost.get_or_insert_with(gap);
                match self.spans.next_after(stream, at) {
                    Some(next) => at = next,
                    None => break,
                }
                continue;
            };
            let stop = to.min(end);
            let index = match self.index_of(stream, segment) {
                Ok(index) => index,
                Err(why) => {
                    lost.get_or_insert(why);
                    at = stop;
                    continue;
                }
            };
            let first = index.partition_point(|p| p.logical <= at);
            if first == 0 {
                lost.get_or_insert_with(gap);
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
                    lost.get_or_insert_with(gap);
                }
                at = at.max(next.min(stop));
            }
            at = at.max(stop.min(at.saturating_add(1)));
        }
        lost
    }
}

/// Of a frame that could not be read where its segment was opened: it is damaged, unless it is away.
fn damaged(why: Lack) -> Lack {
    match why {
        Lack::Unread(text) => Lack::Damaged(text.to_string()),
        why => why,
    }
}

impl<'a> AnyFrames<'a> {
    /// Of a version; `spans` says which of its segments has what.
    pub fn new(media: &'a dyn KnownMedia, spans: Spans) -> Self {
        let (open, replicas, stored) = (Vec::new(), Replicas::default(), Vec::new());
        Self { media, spans, open, replicas, stored, planned: None }
    }

    /// Makes a stream's part of a segment the one that is used last.
    fn open(&mut self, stream: StreamId, segment: u32) -> Result<(), Lack> {
        match self.open.iter().position(|o| o.stream == stream && o.segment == segment) {
            Some(last) if last + 1 == self.open.len() => {}
            Some(i) => {
                let open = self.open.remove(i);
                self.open.push(open);
            }
            None => {
                let part = self.part(stream, segment)?;
                self.open.retain(|o| o.stream != stream);
                if self.open.len() >= OPEN {
                    self.open.remove(0);
                }
                self.open.push(part);
            }
        }
        Ok(())
    }

    fn part(&self, stream: StreamId, segment: u32) -> Result<Part, Lack> {
        let opened = self.media.open(segment)?;
        let s = opened.layout.streams.iter().find(|s| s.stream == stream);
        let s = s.ok_or_else(unread_gap)?;
        Ok(Part {
            stream,
            segment,
            at: opened.at,
            label: s.label.as_ref().map(|l| l.session.clone()),
            frames: FrameReader::of(&*opened.reader, &opened.layout, stream),
            index: places_of_logical(s),
        })
    }

    /// Gives the frame at `at` of what is used last, or the same from elsewhere.
    fn open_frame(
        &mut self,
        stream: StreamId,
        segment: u32,
        at: u64,
        open: &mut OpenFrame<'_>,
    ) -> Result<FrameHeader, Lack> {
        let Some(last) = self.open.last_mut() else { return Err(gap()) };
        let (media, from, label) = (self.media, last.at, last.label.as_ref());
        let mut here = || -> Result<FrameHeader, Lack> {
            let found = last.index.partition_point(|p| p.logical <= at).checked_sub(1);
            let place = found.and_then(|found| last.index.get(found)).ok_or_else(gap)?;
            let frame = last.frames.frame(place);
            let (header, stored) = frame.map_err(|e| damaged(media.note_unread(from, e)))?;
            if at >= header.logical.saturating_add(header.length) {
                return Err(gap());
            }
            let frame = StoredFrame { label, header: &header, stored };
            open(&frame).map_err(Lack::Damaged)?;
            Ok(header)
        };
        here().or_else(|why| {
            let mut opens = |header: &FrameHeader, stored: &[u8]| {
                open(&StoredFrame { label, header, stored }).is_ok()
            };
            let text = || why.text();
            let sought = Sought { segment, stream, at, why: &text };
            let found = self.replicas.frame(media, &sought, &mut self.stored, &mut opens);
            match (found, self.replicas.take_away(), &why) {
                (Some(header), ..) => Ok(header),
                (None, Some(away), Lack::Damaged(_)) => Err(away),
                _ => Err(why),
            }
        })
    }

    /// Whether a frame of zeros has the stream's byte `at`.
    fn is_fill(&mut self, stream: StreamId, at: u64) -> bool {
        let found = self.frame_at(stream, at, &mut |frame| match frame.header.frame_type {
            FrameType::Fill => Ok(()),
            _ => Err("it claims more bytes than a frame has".to_owned()),
        });
        found.is_ok()
    }

    fn index_of(&mut self, stream: StreamId, segment: u32) -> Result<Arc<Vec<FramePlace>>, Lack> {
        if let Some(open) = self.open.iter().find(|o| o.stream == stream && o.segment == segment) {
            return Ok(open.index.clone());
        }
        if let Some((of, there, index)) = &self.planned
            && (*of, *there) == (stream, segment)
        {
            return Ok(index.clone());
        }
        let contents = self.media.contents(segment)?;
        let s = contents.streams.iter().find(|s| s.stream == stream).ok_or_else(gap)?;
        let index = places_of_logical(s);
        self.planned = Some((stream, segment, index.clone()));
        Ok(index)
    }
}

/// A segment that was opened has nothing of a stream.
fn unread_gap() -> Lack {
    Lack::Unread(GAP.into())
}

/// Where a stream's frames of contents lie in a segment.
fn places_of_logical(stream: &StreamContents) -> Arc<Vec<FramePlace>> {
    Arc::new(stream.index.iter().filter(|p| p.logical_frame).copied().collect())
}
