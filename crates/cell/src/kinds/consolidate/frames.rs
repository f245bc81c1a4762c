//! Which frames have ranges of streams.

use capstan_format::entry::{Entry, ExtentKind};
use capstan_format::id::StreamId;
use capstan_format::index::FramePlace;

use crate::error::Result;
use crate::reading::random::Spans;
use crate::reading::version::VersionView;

/// Segments whose index of one stream is kept.
const OPEN: usize = 16;

/// Finds the frames that have ranges of streams.
pub(super) struct Frames<'a> {
    view: &'a VersionView<'a>,
    spans: Spans,
    /// Used last, last.
    open: Vec<(StreamId, u32, Vec<FramePlace>)>,
}

impl<'a> Frames<'a> {
    pub fn new(view: &'a VersionView<'a>, spans: Spans) -> Self {
        Self { view, spans, open: Vec::new() }
    }

    /// Whether any segment has some of a stream.
    pub fn has(&self, stream: StreamId) -> bool {
        self.spans.has(stream)
    }

    /// Calls with each frame that has some of a range: its sequence, and what of the range it may have. What no frame has
    /// comes without one.
    pub fn each(
        &mut self,
        stream: StreamId,
        from: u64,
        len: u64,
        each: &mut dyn FnMut(Option<u64>, u64, u64),
    ) -> Result<()> {
        let end = from.saturating_add(len);
        let mut at = from;
        while at < end {
            let Some((segment, to)) = self.spans.find(stream, at) else {
                each(None, at, end);
                break;
            };
            let to = to.min(end);
            let index = self.index(stream, segment)?;
            let mut next = index.partition_point(|p| p.logical <= at);
            while at < to {
                let stop = index.get(next).map_or(to, |p| p.logical.min(to));
                let frame = next.checked_sub(1).map(|i| index[i].sequence);
                each(frame, at, stop);
                at = stop;
                next += 1;
            }
        }
        Ok(())
    }

    fn index(&mut self, stream: StreamId, segment: u32) -> Result<&[FramePlace]> {
        if let Some(at) = self.open.iter().position(|o| (o.0, o.1) == (stream, segment)) {
            let open = self.open.remove(at);
            self.open.push(open);
        } else {
            let contents = self.view.contents(&self.view.segments[segment as usize])?;
            let s = contents.streams.iter().find(|s| s.stream == stream);
            let index = s.map(|s| s.index.as_slice()).unwrap_or_default();
            let index = index.iter().filter(|p| p.logical_frame).copied().collect();
            if self.open.len() >= OPEN {
                self.open.remove(0);
            }
            self.open.push((stream, segment, index));
        }
        Ok(self.open.last().map(|o| o.2.as_slice()).unwrap_or_default())
    }
}

/// What of other streams a row names: stream, logical offset, length.
pub(super) fn elsewhere(e: &Entry) -> impl Iterator<Item = (StreamId, u64, u64)> + '_ {
    e.extents.iter().filter_map(|x| match x.kind {
        ExtentKind::At(stream, at) => Some((stream, at, x.len)),
        _ => None,
    })
}
