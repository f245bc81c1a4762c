//! Frames of one stream's part of a segment, in their order. What is damaged there comes from where else the segment is.

use capstan_engine::frames::{FramePort, Gap, Lack, OpenFrame, StoredFrame};
use capstan_format::catalog::StreamContents;
use capstan_format::frame::FrameHeader;
use capstan_format::id::StreamId;
use capstan_format::index::FramePlace;
use capstan_format::record::SessionLabel;

use super::replicas::{Replicas, Sought};
use crate::read::frames::FrameReader;
use capstan_port::media::read::frames::SegmentFrames;
use capstan_port::media::read::known::{GAP, KnownMedia, Opened, gap};

/// Serves streams of a version's segments, one after the other.
pub struct InOrder<'a> {
    media: &'a dyn KnownMedia,
    replicas: Replicas,
}

impl<'a> InOrder<'a> {
    /// Of a version.
    pub fn new(media: &'a dyn KnownMedia) -> Self {
        Self { media, replicas: Replicas::default() }
    }
}

impl SegmentFrames for InOrder<'_> {
    fn of<'o>(
        &'o mut self,
        opened: (u32, &'o Opened),
        stream: &StreamContents,
    ) -> Box<dyn FramePort + 'o> {
        Box::new(StreamFrames::new(self.media, opened, stream, &mut self.replicas))
    }
}

/// The frames of a stream's part of a segment. Asked for in order, every block is read once.
struct StreamFrames<'a> {
    media: &'a dyn KnownMedia,
    segment: u32,
    opened: &'a Opened,
    stream: StreamId,
    label: Option<SessionLabel>,
    frames: FrameReader,
    index: Vec<FramePlace>,
    /// Where in the index the last frame was.
    last: usize,
    replicas: &'a mut Replicas,
    stored: Vec<u8>,
}

impl<'a> StreamFrames<'a> {
    fn new(
        media: &'a dyn KnownMedia,
        (segment, opened): (u32, &'a Opened),
        stream: &StreamContents,
        replicas: &'a mut Replicas,
    ) -> Self {
        let there = opened.layout.streams.iter().find(|s| s.stream == stream.stream);
        let index = there.map(|s| s.index.as_slice()).unwrap_or_default();
        Self {
            media,
            segment,
            opened,
            stream: stream.stream,
            label: stream.label.as_ref().map(|l| l.session.clone()),
            frames: FrameReader::of(&*opened.reader, &opened.layout, stream.stream),
            index: index.iter().filter(|p| p.logical_frame).copied().collect(),
            last: 0,
            replicas,
            stored: Vec::new(),
        }
    }

    /// The frame that has the byte `at`, from where the segment was opened.
    fn here(&mut self, at: u64, open: &mut OpenFrame<'_>) -> Result<FrameHeader, Gap> {
        // Who asks asks in ascending order nearly always; else it is looked for.
        if self.index.get(self.last).is_some_and(|p| p.logical > at) {
            self.last = 0;
        }
        let skip = self.index[self.last..].partition_point(|p| p.logical <= at);
        let found = (self.last + skip).checked_sub(1);
        let next = self.index.get(self.last + skip).map_or(u64::MAX, |p| p.logical);
        let Some(place) = found.and_then(|found| self.index.get(found)).copied() else {
            return Err(Gap { from: at, to: next, why: gap() });
        };
        self.last = found.unwrap_or(0);
        let (header, stored) = match self.frames.frame(&place) {
            Ok(frame) => frame,
            // How long it was is known from the one after it.
            Err(e) => {
                let text = e.to_string();
                let why = match self.media.unread(self.opened.at, e) {
                    away @ Lack::Away { .. } => away,
                    _ => Lack::Damaged(text),
                };
                return Err(Gap { from: place.logical, to: next, why });
            }
        };
        let end = header.logical.saturating_add(header.length);
        if at >= end {
            return Err(Gap { from: at, to: next, why: gap() });
        }
        let frame = StoredFrame { label: self.label.as_ref(), header: &header, stored };
        match open(&frame) {
            Ok(()) => Ok(header),
            Err(why) => Err(Gap { from: header.logical, to: end, why: Lack::Damaged(why) }),
        }
    }
}

impl FramePort for StreamFrames<'_> {
    fn frame_at(
        &mut self,
        stream: StreamId,
        at: u64,
        open: &mut OpenFrame<'_>,
    ) -> Result<FrameHeader, Gap> {
        if stream != self.stream {
            return Err(Gap { from: at, to: u64::MAX, why: Lack::Damaged(GAP.to_owned()) });
        }
        let mut gap = match self.here(at, open) {
            Ok(header) => return Ok(header),
            Err(gap) => gap,
        };
        // What it should have and has not counts as well: it may be a copy that lacks it.
        if matches!(gap.why, Lack::Damaged(_)) {
            self.media.note_hurt(self.segment);
        }
        let label = self.label.as_ref();
        let mut opens = |header: &FrameHeader, stored: &[u8]| {
            open(&StoredFrame { label, header, stored }).is_ok()
        };
        let why = || gap.why.text();
        let sought = Sought { segment: self.segment, stream, at, why: &why };
        let found = self.replicas.frame(self.media, &sought, &mut self.stored, &mut opens);
        if let Some(header) = found {
            return Ok(header);
        }
        // What could not be read now, and may have it, comes before what is damaged.
        if let (Lack::Damaged(_), Some(away)) = (&gap.why, self.replicas.take_away()) {
            gap.why = away;
        }
        Err(gap)
    }
}
