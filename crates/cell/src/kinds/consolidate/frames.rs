//! Which frames have ranges of streams, and which ranges no frame has.

use capstan_format::entry::{Entry, ExtentKind};
use capstan_format::id::StreamId;
use capstan_format::index::FramePlace;
use capstan_port::media::read::spans::Spans;

use crate::error::Result;
use crate::reading::version::VersionView;

/// Segments whose index of one stream is kept.
const OPEN: usize = 16;

/// Finds the frames that have ranges of streams.
pub(super) struct Frames<'a> {
    view: &'a VersionView<'a>,
    spans: Spans,
    /// Used last, last.
    open: Vec<(StreamId, u32, Vec<Indexed>)>,
}

/// A frame of contents as an index has it.
struct Indexed {
    place: FramePlace,
    /// Where it ends. An index does not say that where what follows in the stream is not in it.
    end: Option<u64>,
}

/// A frame that has some of a range.
pub(super) struct Has {
    pub sequence: u64,
    /// So many bytes it must have for it, where the index does not say how many it has: what was behind it may lack.
    pub must_have: Option<u64>,
}

/// The frames of contents of an index. The frame or rows right behind one say where it ends.
fn with_ends(index: &[FramePlace]) -> Vec<Indexed> {
    let end = |at: usize, place: &FramePlace| {
        let next = index.get(at + 1).filter(|n| Some(n.sequence) == place.sequence.checked_add(1));
        next.map(|n| n.logical)
    };
    let logical = index.iter().enumerate().filter(|(_, place)| place.logical_frame);
    logical.map(|(at, place)| Indexed { place: *place, end: end(at, place) }).collect()
}

/// Cuts `at..stop` to what each frame has of it.
fn cut(index: &[Indexed], mut at: u64, stop: u64, each: &mut dyn FnMut(Option<Has>, u64, u64)) {
    let mut next = index.partition_point(|i| i.place.logical <= at);
    while at < stop {
        let to = index.get(next).map_or(stop, |i| i.place.logical.min(stop));
        let frame = next.checked_sub(1).map(|i| &index[i]);
        let end = frame.and_then(|f| f.end).map_or(to, |end| end.clamp(at, to));
        if let Some(Indexed { place, end: known }) = frame
            && at < end
        {
            let must_have = known.is_none().then(|| end - place.logical);
            each(Some(Has { sequence: place.sequence, must_have }), at, end);
        }
        let gap = if frame.is_some() { end } else { at };
        if gap < to {
            each(None, gap, to);
        }
        at = to;
        next += 1;
    }
}

impl<'a> Frames<'a> {
    pub fn new(view: &'a VersionView<'a>, spans: Spans) -> Self {
        Self { view, spans, open: Vec::new() }
    }

    /// Whether any segment has some of a stream.
    pub fn has(&self, stream: StreamId) -> bool {
        self.spans.has(stream)
    }

    /// Calls with each frame that has some of a range, and what of the range it may have. What no frame has comes without one.
    pub fn each(
        &mut self,
        stream: StreamId,
        from: u64,
        len: u64,
        each: &mut dyn FnMut(Option<Has>, u64, u64),
    ) -> Result<()> {
        let end = from.saturating_add(len);
        let mut at = from;
        while at < end {
            let Some((segment, to)) = self.spans.find(stream, at) else {
                each(None, at, end);
                break;
            };
            let to = to.min(end);
            cut(self.index(stream, segment)?, at, to, each);
            at = to;
        }
        Ok(())
    }

    fn index(&mut self, stream: StreamId, segment: u32) -> Result<&[Indexed]> {
        if let Some(at) = self.open.iter().position(|o| (o.0, o.1) == (stream, segment)) {
            let open = self.open.remove(at);
            self.open.push(open);
        } else {
            let contents = self.view.contents(&self.view.segments[segment as usize])?;
            let s = contents.streams.iter().find(|s| s.stream == stream);
            let index = s.map(|s| s.index.as_slice()).unwrap_or_default();
            let index = with_ends(index);
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

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_format::frame::FrameType;
    use capstan_format::id::BlockIndex;

    #[test]
    fn what_a_frame_has_ends_where_the_index_says_so() {
        let at =
            |kind, sequence, logical| FramePlace::of(kind, sequence, logical, BlockIndex(1), 0);
        // The frame 3 lacks behind rows that say where it began; 6 and 7 lack behind 5.
        let index = with_ends(&[
            at(FrameType::Data, 1, 100),
            at(FrameType::Batch, 2, 110),
            at(FrameType::Data, 4, 120),
            at(FrameType::Data, 5, 130),
            at(FrameType::Data, 8, 160),
        ]);
        let all = |from, to| {
            let mut all = Vec::new();
            cut(&index, from, to, &mut |has, low, high| {
                all.push((has.map(|h| (h.sequence, h.must_have)), low, high));
            });
            all
        };
        let whole = [
            (None, 90, 100),
            (Some((1, None)), 100, 110),
            (None, 110, 120),
            (Some((4, None)), 120, 130),
            (Some((5, Some(30))), 130, 160),
            (Some((8, Some(10))), 160, 170),
        ];
        assert_eq!(all(90, 170), whole);
        assert_eq!(all(112, 118), [(None, 112, 118)]);
        assert_eq!(all(135, 139), [(Some((5, Some(9))), 135, 139)]);
    }
}
