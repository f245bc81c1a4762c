//! What of a file's contents is still to be read: all of it, or what an earlier run of the same version did not commit.

use capstan_format::entry::{Extent, ExtentKind};
use capstan_format::id::StreamId;

use capstan_port::disk::base::Saved;

/// Extents of a row at most that say where its contents are: a batch must hold them. What is beyond is read again.
const EXTENTS: usize = 20_000;

/// The data ranges of a file, those that are on media already and those that are not.
pub(super) struct Rest {
    /// Offset, length, and where it is, if it is saved; ascending and apart.
    pieces: Vec<(u64, u64, Option<(StreamId, u64)>)>,
    ranges: Vec<(u64, u64)>,
}

impl Rest {
    /// Of these data ranges of a file, of which so much is `saved`; both ascending and apart.
    pub fn of(data: &[(u64, u64)], saved: &[Saved]) -> Self {
        let mut pieces: Vec<(u64, u64, Option<(StreamId, u64)>)> = Vec::new();
        let mut put = |at: u64, len: u64, place: Option<(StreamId, u64)>| {
            if len == 0 {
                return;
            }
            let goes_on = pieces.last_mut().filter(|(from, before, last)| {
                from + before == at
                    && match (last, &place) {
                        (Some((a, logical)), Some((b, next))) => {
                            a == b && logical + before == *next
                        }
                        (None, None) => true,
                        _ => false,
                    }
            });
            match goes_on {
                Some((_, before, _)) => *before += len,
                None => pieces.push((at, len, place)),
            }
        };
        let mut next = saved.iter().take(EXTENTS).peekable();
        for (from, len) in data {
            let (mut at, end) = (*from, from.saturating_add(*len));
            while at < end {
                while next.next_if(|s| s.offset.saturating_add(s.len) <= at).is_some() {}
                let Some(s) = next.peek().filter(|s| s.offset < end) else {
                    put(at, end - at, None);
                    break;
                };
                if at < s.offset {
                    put(at, s.offset - at, None);
                    at = s.offset;
                }
                let to = s.offset.saturating_add(s.len).min(end);
                let logical = s.logical.saturating_add(at - s.offset);
                put(at, to - at, Some((s.stream, logical)));
                at = to;
            }
        }
        // Ranges stay as they are where nothing is saved: the extents follow them.
        let ranges = match saved.is_empty() {
            true => data.to_vec(),
            false => pieces.iter().filter(|p| p.2.is_none()).map(|p| (p.0, p.1)).collect(),
        };
        Self { pieces, ranges }
    }

    /// What is to be read, as offset and length.
    pub fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges
    }

    pub fn into_ranges(self) -> Vec<(u64, u64)> {
        self.ranges
    }

    /// Whether all of the file is to be read, and it has no holes.
    pub fn is_whole(&self, size: u64) -> bool {
        self.ranges == [(0, size)]
    }

    /// Bytes that are saved.
    pub fn kept(&self) -> u64 {
        self.pieces.iter().filter(|p| p.2.is_some()).map(|p| p.1).sum()
    }

    /// The extents of a file of `size` bytes, of which what is read is of that kind; what is between data is hole.
    pub fn extents(&self, size: u64, kind: &ExtentKind) -> Vec<Extent> {
        let mut extents = Vec::with_capacity(self.pieces.len() * 2 + 1);
        let mut at = 0;
        for (from, len, place) in &self.pieces {
            if *from > at {
                extents.push(Extent { len: from - at, kind: ExtentKind::Hole });
            }
            let kind =
                place.map_or(kind.clone(), |(stream, logical)| ExtentKind::At(stream, logical));
            extents.push(Extent { len: *len, kind });
            at = from + len;
        }
        if at < size {
            extents.push(Extent { len: size - at, kind: ExtentKind::Hole });
        }
        extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: StreamId = StreamId([1; 16]);

    fn saved(offset: u64, len: u64, logical: u64) -> Saved {
        Saved { offset, len, stream: S, logical }
    }

    fn shown(rest: &Rest, size: u64) -> Vec<(u64, ExtentKind)> {
        rest.extents(size, &ExtentKind::Data).into_iter().map(|x| (x.len, x.kind)).collect()
    }

    #[test]
    fn what_is_saved_is_not_read() {
        let rest = Rest::of(&[(0, 100)], &[saved(0, 30, 500), saved(60, 10, 700)]);
        assert_eq!(rest.ranges(), [(30, 30), (70, 30)]);
        assert_eq!((rest.kept(), rest.is_whole(100)), (40, false));
        let (at, data) = (|n| ExtentKind::At(S, n), || ExtentKind::Data);
        assert_eq!(shown(&rest, 100), [(30, at(500)), (30, data()), (10, at(700)), (30, data())]);
    }

    #[test]
    fn holes_stay_holes() {
        // Something was saved of what is a hole now: that is left out.
        let rest = Rest::of(&[(10, 20), (50, 20)], &[saved(0, 15, 1000), saved(25, 30, 2000)]);
        assert_eq!(rest.ranges(), [(15, 10), (55, 15)]);
        let (at, data, hole) = (|n| ExtentKind::At(S, n), || ExtentKind::Data, || ExtentKind::Hole);
        let wanted = [
            (10, hole()),
            (5, at(1010)),
            (10, data()),
            (5, at(2000)),
            (20, hole()),
            (5, at(2025)),
            (15, data()),
            (10, hole()),
        ];
        assert_eq!(shown(&rest, 80), wanted);
    }

    #[test]
    fn with_nothing_saved_all_is_read() {
        let rest = Rest::of(&[(0, 100)], &[]);
        assert!(rest.is_whole(100) && rest.kept() == 0);
        let rest = Rest::of(&[(0, 10), (20, 5)], &[]);
        assert_eq!(rest.ranges(), [(0, 10), (20, 5)]);
        assert!(Rest::of(&[], &[saved(0, 5, 0)]).ranges().is_empty(), "all of it is hole");
    }

    #[test]
    fn pieces_that_follow_each_other_are_one() {
        let rest =
            Rest::of(&[(0, 100)], &[saved(0, 30, 500), saved(30, 30, 530), saved(60, 40, 9)]);
        assert_eq!(shown(&rest, 100), [(60, ExtentKind::At(S, 500)), (40, ExtentKind::At(S, 9))]);
        assert!(rest.ranges().is_empty());
    }
}
