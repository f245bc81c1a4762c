//! Frames of one stream's part of a segment, in their order; what is damaged there comes from where else the segment is.

use std::collections::HashSet;

use capstan_catalog::places::SegmentPlace;
use capstan_engine::frames::{FramePort, Gap, Lack, OpenFrame, StoredFrame};
use capstan_format::catalog::{Contents, StreamContents};
use capstan_format::frame::FrameHeader;
use capstan_format::id::StreamId;
use capstan_format::index::FramePlace;
use capstan_format::record::SessionLabel;
use capstan_media_agent::read::frames::FrameReader;
use capstan_media_agent::read::segment::SegmentReader;
use parking_lot::Mutex;

use crate::reading::random::unread;
use crate::reading::replicas::Replicas;
use crate::reading::version::VersionView;

/// What is wrong where no frame has a byte of a stream.
pub(crate) const GAP: &str = "some of its data are missing on the medium";

/// The frames of a stream's part of a segment. Asked for in order, every block is read once.
pub(crate) struct SegmentFrames<'a> {
    view: &'a VersionView<'a>,
    place: &'a SegmentPlace,
    /// Which of the version's segments it is.
    segment: usize,
    stream: StreamId,
    label: Option<SessionLabel>,
    frames: FrameReader,
    index: Vec<FramePlace>,
    /// Where in the index the last frame was.
    at: usize,
    replicas: &'a mut Replicas,
    replica: Vec<u8>,
    /// Takes the segment where a frame was damaged where it was looked for first.
    hurt: &'a Mutex<HashSet<usize>>,
}

impl<'a> SegmentFrames<'a> {
    /// Of a segment of a version, opened; `stream` has the stream's label, `layout` says where its frames are.
    pub fn new(
        (view, segment): (&'a VersionView<'a>, usize),
        (reader, layout): (&SegmentReader, &Contents),
        stream: &StreamContents,
        replicas: &'a mut Replicas,
        hurt: &'a Mutex<HashSet<usize>>,
    ) -> Self {
        let index = layout.streams.iter().find(|s| s.stream == stream.stream);
        let index = index.map(|s| s.index.as_slice()).unwrap_or_default();
        Self {
            view,
            place: &view.segments[segment],
            segment,
            stream: stream.stream,
            label: stream.label.as_ref().map(|l| l.session.clone()),
            frames: FrameReader::of(reader, layout, stream.stream),
            index: index.iter().filter(|p| p.logical_frame).copied().collect(),
            at: 0,
            replicas,
            replica: Vec::new(),
            hurt,
        }
    }

    /// The frame that has the byte `at`, from where the segment was opened.
    fn first(&mut self, at: u64, open: &mut OpenFrame<'_>) -> Result<FrameHeader, Gap> {
        // Who asks asks in ascending order nearly always; else it is looked for.
        if self.index.get(self.at).is_some_and(|p| p.logical > at) {
            self.at = 0;
        }
        let skip = self.index[self.at..].partition_point(|p| p.logical <= at);
        let found = (self.at + skip).checked_sub(1);
        let next = self.index.get(self.at + skip).map_or(u64::MAX, |p| p.logical);
        let gap = |from, to, why| Gap { from, to, why };
        let Some(place) = found.and_then(|found| self.index.get(found)).copied() else {
            return Err(gap(at, next, Lack::Damaged(GAP.to_owned())));
        };
        self.at = found.unwrap_or(0);
        let (header, stored) = match self.frames.frame(&place) {
            Ok(frame) => frame,
            // How long it was is known from the one after it.
            Err(e) => {
                let text = e.to_string();
                let why = match unread(&self.view.media.unread(self.frames.medium(), e)) {
                    away @ Lack::Away { .. } => away,
                    _ => Lack::Damaged(text),
                };
                return Err(gap(place.logical, next, why));
            }
        };
        let end = header.logical.saturating_add(header.length);
        if at >= end {
            return Err(gap(at, next, Lack::Damaged(GAP.to_owned())));
        }
        let frame = StoredFrame { label: self.label.as_ref(), header: &header, stored };
        match open(&frame) {
            Ok(()) => Ok(header),
            Err(why) => Err(gap(header.logical, end, Lack::Damaged(why))),
        }
    }
}

impl FramePort for SegmentFrames<'_> {
    fn frame_at(
        &mut self,
        stream: StreamId,
        at: u64,
        open: &mut OpenFrame<'_>,
    ) -> Result<FrameHeader, Gap> {
        if stream != self.stream {
            return Err(Gap { from: at, to: u64::MAX, why: Lack::Damaged(GAP.to_owned()) });
        }
        let mut gap = match self.first(at, open) {
            Ok(header) => return Ok(header),
            Err(gap) => gap,
        };
        // What it should have and has not counts as well: it may be a copy that lacks it.
        if matches!(gap.why, Lack::Damaged(_)) {
            self.hurt.lock().insert(self.segment);
        }
        let label = self.label.as_ref();
        let mut good = |header: &FrameHeader, stored: &[u8]| {
            open(&StoredFrame { label, header, stored }).is_ok()
        };
        let why = || gap.why.text().to_owned();
        let (view, place, replica) = (self.view, self.place, &mut self.replica);
        let found = self.replicas.frame_at(view, place, stream, at, replica, &why, &mut good);
        if let Some(header) = found {
            return Ok(header);
        }
        // What could not be read now, and may have it, comes before what is damaged.
        if let (Lack::Damaged(_), Some(away)) = (&gap.why, self.replicas.away.take()) {
            gap.why = unread(&away);
        }
        Err(gap)
    }
}
