//! What damage costs: from the places of media that cannot be read, and the rows of a version, to the names of files. Who verifies
//! and who restores (so who drills) names what this says, so that they name the same.

use std::collections::{BTreeMap, HashMap};

use capstan_engine::leaving;
use capstan_format::catalog::Contents;
use capstan_format::entry::{Entry, Extent, ExtentKind};
use capstan_format::id::StreamId;
use capstan_format::index::FramePlace;
use capstan_port::media::read::error::ReadError;
use capstan_port::media::read::segment::ReadSegment;
use capstan_wire::keys::FrameKey;

use crate::reading::unread::of_way;

/// A stream and a range of its logical bytes.
pub(crate) type Range = (StreamId, u64, u64);

/// Ranges of streams' logical bytes that cannot be read.
#[derive(Debug, Default, Clone)]
pub(crate) struct Lost {
    /// Of each stream begin and end, apart from each other.
    ranges: HashMap<StreamId, BTreeMap<u64, u64>>,
}

impl Lost {
    /// All of these.
    pub fn all(ranges: &[Range]) -> Self {
        let mut lost = Self::default();
        ranges.iter().for_each(|range| lost.add(*range));
        lost
    }

    pub fn add(&mut self, (stream, mut from, mut to): Range) {
        if from >= to {
            return;
        }
        let ranges = self.ranges.entry(stream).or_default();
        while let Some((begin, end)) = ranges.range(..=to).next_back().map(|(b, e)| (*b, *e)) {
            if end < from {
                break;
            }
            ranges.remove(&begin);
            (from, to) = (from.min(begin), to.max(end));
        }
        ranges.insert(from, to);
    }

    pub fn extend(&mut self, other: &Self) {
        other.each(&mut |range| self.add(range));
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many bytes they are in all.
    pub fn bytes(&self) -> u64 {
        self.ranges.values().flatten().map(|(from, to)| to - from).sum()
    }

    /// Its ranges.
    pub fn ranges(&self) -> Vec<Range> {
        let mut ranges = Vec::new();
        self.each(&mut |range| ranges.push(range));
        ranges
    }

    fn each(&self, each: &mut dyn FnMut(Range)) {
        for (stream, ranges) in &self.ranges {
            ranges.iter().for_each(|(from, to)| each((*stream, *from, *to)));
        }
    }

    /// What neither can read.
    pub fn and(&self, other: &Self) -> Self {
        let mut both = Self::default();
        self.each(&mut |(stream, from, to)| {
            for (begin, end) in other.ranges.get(&stream).into_iter().flatten() {
                both.add((stream, from.max(*begin), to.min(*end)));
            }
        });
        both
    }

    fn has(&self, stream: StreamId, from: u64, len: u64) -> bool {
        let to = from.saturating_add(len);
        let ranges = self.ranges.get(&stream);
        let last = ranges.and_then(|ranges| ranges.range(..to).next_back());
        len > 0 && last.is_some_and(|(_, end)| *end > from)
    }

    /// Whether a row has data in what is lost; its own begin at `start` of `stream`.
    pub fn costs(&self, entry: &Entry, stream: StreamId, start: u64) -> bool {
        let elsewhere = |x: &Extent| match x.kind {
            ExtentKind::At(stream, at) => self.has(stream, at, x.len),
            _ => false,
        };
        self.has(stream, start, entry.logical_len()) || entry.extents.iter().any(elsewhere)
    }
}

/// What of a segment's streams cannot be read at one of its places: `layout` says where frames lie, `spans` what there has to be.
/// Frames that `read` found whole at the same place are known to be good; others are read as a restore does. An error where the place
/// cannot be read now, which tells nothing of it.
pub(crate) fn unreadable(
    reader: &dyn ReadSegment,
    layout: &Contents,
    read: Option<&Contents>,
    spans: &[Range],
    keys: &[FrameKey],
) -> Result<Lost, ReadError> {
    let mut lost = Lost::default();
    let mut all: BTreeMap<StreamId, (u64, u64)> = BTreeMap::new();
    for (stream, from, to) in spans {
        let span = all.entry(*stream).or_insert((*from, *to));
        *span = (span.0.min(*from), span.1.max(*to));
    }
    for (stream, (from, to)) in all {
        let index = layout.streams.iter().find(|s| s.stream == stream);
        let whole = read.and_then(|c| c.streams.iter().find(|s| s.stream == stream));
        let whole = whole.map(|s| s.index.as_slice()).unwrap_or_default();
        let is_whole = |place: &FramePlace| {
            let at = whole.binary_search_by_key(&place.sequence, |p| p.sequence);
            at.is_ok_and(|at| whole[at] == *place)
        };
        let places = index.map(|s| s.index.as_slice()).unwrap_or_default();
        let logical = places.iter().enumerate().filter(|(_, p)| p.logical_frame);
        // The one behind a whole one says how long it is, unless others were between.
        let ends = logical.map(|(i, place)| {
            let follows = |n: &&FramePlace| n.sequence == place.sequence.wrapping_add(1);
            let next = places.get(i + 1).filter(follows).filter(|_| is_whole(place));
            (*place, next.map(|next| next.logical))
        });
        let mut ends: Vec<(FramePlace, Option<u64>)> = ends.collect();
        open_ends(reader, layout, stream, &mut ends, keys)?;
        let mut at = from;
        for (place, end) in ends {
            let Some(end) = end else { continue };
            lost.add((stream, at, place.logical.min(to)));
            at = at.max(end);
        }
        lost.add((stream, at, to));
    }
    Ok(lost)
}

/// Has those frames read whose ends are not known. Of those that cannot be had the ends stay unknown; an error where the place cannot be
/// read now.
fn open_ends(
    reader: &dyn ReadSegment,
    layout: &Contents,
    stream: StreamId,
    ends: &mut [(FramePlace, Option<u64>)],
    keys: &[FrameKey],
) -> Result<(), ReadError> {
    // What was not looked at counts as lost, and who is stopped says nothing of it.
    if leaving::has_left() {
        return Ok(());
    }
    let unknown: Vec<usize> = (0..ends.len()).filter(|i| ends[*i].1.is_none()).collect();
    let places: Vec<FramePlace> = unknown.iter().map(|i| ends[*i].0).collect();
    let found = reader.open_frames(layout, stream, &places, keys);
    for (at, end) in unknown.into_iter().zip(found) {
        match end {
            Ok(end) => ends[at].1 = Some(end),
            Err(e) if of_way(&e).is_some() => return Err(e),
            Err(_) => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: StreamId = StreamId([1; 16]);

    #[test]
    fn ranges_that_meet_are_one_and_what_both_lack_is_what_is_lost() {
        let lost = Lost::all(&[(A, 10, 20), (A, 30, 40), (A, 20, 30), (A, 50, 60), (A, 60, 60)]);
        assert_eq!(lost.ranges[&A], BTreeMap::from([(10, 40), (50, 60)]));
        let both = lost.and(&Lost::all(&[(A, 35, 55), (StreamId([2; 16]), 0, 99)]));
        assert_eq!(both.ranges[&A], BTreeMap::from([(35, 40), (50, 55)]));
        assert_eq!(both.ranges.len(), 1);
        assert!(both.has(A, 0, 36) && !both.has(A, 40, 10) && both.has(A, 54, 1));
        assert!(!both.has(A, 0, 35) && !both.has(A, 55, 9) && !both.has(A, 37, 0));
    }

    #[test]
    fn a_row_costs_its_own_data_and_those_it_refers_to() {
        let mut entry = Entry { size: 10, ..Entry::default() };
        let lost = Lost::all(&[(A, 100, 110)]);
        assert!(lost.costs(&entry, A, 105) && !lost.costs(&entry, A, 110));
        let at = ExtentKind::At(A, 109);
        entry.extents = vec![Extent { len: 10, kind: at }];
        assert!(lost.costs(&entry, StreamId([2; 16]), 0));
    }
}
