//! Which segments of a version have which bytes of its streams.

use std::collections::HashMap;
use std::sync::Arc;

use capstan_format::id::StreamId;

/// Of each stream the segments that have its logical bytes: begin, end, segment; ascending.
#[derive(Clone)]
pub struct Spans(Arc<HashMap<StreamId, Vec<(u64, u64, u32)>>>);

impl Spans {
    /// From what each segment has of each stream: logical begin and end.
    pub fn of<'s>(segments: impl Iterator<Item = &'s [(StreamId, u64, u64)]>) -> Self {
        let mut all: HashMap<StreamId, Vec<(u64, u64, u32)>> = HashMap::new();
        for (segment, spans) in (0..).zip(segments) {
            for (stream, from, to) in spans.iter().filter(|s| s.1 < s.2) {
                all.entry(*stream).or_default().push((*from, *to, segment));
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
    pub fn next_after(&self, stream: StreamId, at: u64) -> Option<u64> {
        let spans = self.0.get(&stream)?;
        spans.get(spans.partition_point(|s| s.0 <= at)).map(|s| s.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_in_the_segment_that_has_them() {
        let (a, b) = (StreamId([1; 16]), StreamId([2; 16]));
        let segments = [vec![(a, 0, 10), (b, 5, 5)], vec![(a, 12, 20)], vec![(a, 10, 11)]];
        let spans = Spans::of(segments.iter().map(Vec::as_slice));
        assert_eq!(spans.find(a, 9), Some((0, 10)));
        assert_eq!(spans.find(a, 10), Some((2, 11)));
        assert_eq!(spans.find(a, 11), None, "nobody has it");
        assert_eq!(spans.next_after(a, 11), Some(12));
        assert_eq!((spans.find(a, 20), spans.next_after(a, 20)), (None, None));
        assert!(!spans.has(b), "an empty span has nothing");
    }
}
