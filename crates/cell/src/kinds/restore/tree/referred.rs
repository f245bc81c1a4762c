//! What rows say lies elsewhere: a file that moved, or of which a part changed, has its data in a segment of an earlier session.
//!
//! On a tape these data are read when it is that segment's turn, not when it is the row's. Only the batches that have such rows are kept
//! in mind; their rows are looked up when the tape is there.

use std::collections::{BinaryHeap, HashMap};

use capstan_catalog::batch::BatchOpener;
use capstan_catalog::row::{Row, batch_of, row_number};
use capstan_catalog::sparse::Batches;
use capstan_format::catalog::Contents;
use capstan_format::entry::{Entry, Extent, ExtentKind, Kind};
use capstan_format::id::StreamId;
use capstan_port::disk::restore::Placed;
use capstan_port::media::read::known::Opened;
use capstan_port::media::read::spans::Spans;
use parking_lot::Mutex;

use super::Restore;
use crate::error::Result;
use crate::reading::version::VersionView;

/// A batch of rows: its segment, its stream, and its number there.
type BatchAt = (u32, StreamId, usize);

/// Places of data that are sorted at once. Where there are more, the batches are looked through again for the next ones.
const MOST: usize = 1 << 17;
/// Batches whose rows are kept.
const BATCHES: usize = 2;
/// Streams of batches that are kept open.
const STREAMS: usize = 8;
/// Readers of one segment at most; each costs a block and a frame.
const READERS: usize = 8;

/// Which batches have rows whose data lie in a stream's part of a segment on a tape.
#[derive(Default)]
pub(in crate::kinds::restore) struct Referred(HashMap<(u32, StreamId), Vec<BatchAt>>);

impl Referred {
    /// Whether any refer to a segment.
    pub fn has(&self, segment: u32) -> bool {
        self.0.keys().any(|(there, _)| *there == segment)
    }

    fn note(&mut self, there: (u32, StreamId), batch: BatchAt) {
        let batches = self.0.entry(there).or_default();
        if batches.last() != Some(&batch) {
            batches.push(batch);
        }
    }

    /// The same, each batch once.
    pub fn settled(mut self) -> Self {
        for batches in self.0.values_mut() {
            batches.sort_unstable();
            batches.dedup();
        }
        self
    }

    fn batches(&self, there: (u32, StreamId)) -> &[BatchAt] {
        self.0.get(&there).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Where a file's data are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds::restore) enum Home {
    /// Where its row is, or on media that are read in any order.
    Here,
    /// All in another stream's part of a segment, on a tape.
    There(u32, StreamId),
    /// In several places, of which one at least is on a tape and not where the row is.
    Spread,
}

/// Where data of a stream lie that a row refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds::restore) struct Stretch {
    /// Where in the file they belong.
    pub offset: u64,
    pub stream: StreamId,
    /// Where in the stream they begin.
    pub at: u64,
    pub len: u64,
    /// The segment; none, where none has them.
    pub segment: Option<u32>,
}

/// What a row says lies elsewhere, by segments.
pub(in crate::kinds::restore) fn stretches(
    spans: &Spans,
    entry: &Entry,
    each: &mut dyn FnMut(Stretch),
) {
    let mut offset = 0_u64;
    for x in &entry.extents {
        if let ExtentKind::At(stream, from) = x.kind {
            let (mut at, end) = (from, from.saturating_add(x.len));
            while at < end {
                let found = spans.find(stream, at);
                let to = found.map_or(end, |(_, to)| to.min(end));
                let (segment, len) = (found.map(|(segment, _)| segment), to - at);
                each(Stretch { offset: offset + (at - from), stream, at, len, segment });
                at = to;
            }
        }
        offset = offset.saturating_add(x.len);
    }
}

/// What others refer to in a segment: some of its streams, one after the other.
pub(in crate::kinds::restore) struct Lent {
    pub segment: usize,
    pub streams: Vec<StreamId>,
    /// The first places in the first of them.
    pub first: Mutex<Option<Vec<Place>>>,
    /// Where the first one lies in its stream.
    pub begin: u64,
    /// The segment, opened, so that others wait for who reads it.
    pub opened: Mutex<Option<Opened>>,
}

/// Where data are that a row refers to: their place in the stream, the batch among those that refer there, and the row in it.
pub(in crate::kinds::restore) type Place = (u64, u32, u32);

impl Restore<'_> {
    fn is_on_tape(&self, segment: u32) -> bool {
        // An error is told when the segments are grouped.
        self.tapes.of_segment(self.view, segment as usize).is_ok_and(|tape| tape.is_some())
    }

    /// Where a row's data are.
    pub(in crate::kinds::restore) fn home(&self, entry: &Entry) -> Home {
        if entry.kind != Kind::File || entry.link {
            return Home::Here;
        }
        let is_plain = |x: &Extent| matches!(x.kind, ExtentKind::At(..) | ExtentKind::Hole);
        if entry.extents.iter().any(|x| matches!(x.kind, ExtentKind::Unknown(_))) {
            return Home::Here;
        }
        let (mut there, mut is_one) = (None, entry.extents.iter().all(is_plain));
        stretches(&self.spans, entry, &mut |of| match of
            .segment
            .filter(|segment| self.is_on_tape(*segment))
        {
            Some(segment) => {
                is_one &= *there.get_or_insert((segment, of.stream)) == (segment, of.stream);
            }
            None => is_one = false,
        });
        match there {
            None => Home::Here,
            Some((segment, stream)) if is_one => Home::There(segment, stream),
            Some(_) => Home::Spread,
        }
    }

    /// What of a row is read when it is its own turn although it lies elsewhere: what is on no tape, and what nobody has.
    pub(in crate::kinds::restore) fn read_with_row(&self, entry: &Entry) -> Vec<Placed> {
        let mut read = Vec::new();
        stretches(&self.spans, entry, &mut |of| {
            if of.segment.is_none_or(|segment| !self.is_on_tape(segment)) {
                let Stretch { offset, stream, at, len, .. } = of;
                read.push(Placed { offset, stream, at, len, is_in_order: false });
            }
        });
        read
    }

    /// Notes of a row what of its data lie on tapes, elsewhere.
    pub(in crate::kinds::restore) fn refer(&self, row: &Row, referred: &mut Referred) {
        let e = &row.entry;
        if e.kind != Kind::File || e.link {
            return;
        }
        let batch = (row.ordinal.segment, row.ordinal.stream, batch_of(row.ordinal.row));
        stretches(&self.spans, e, &mut |of| {
            if let Some(segment) = of.segment.filter(|segment| self.is_on_tape(*segment)) {
                referred.note((segment, of.stream), batch);
            }
        });
    }

    /// What others refer to in a segment, for as many readers as it takes that the tape passes by once: streams that were written at
    /// the same time are read at the same time.
    pub(in crate::kinds::restore) fn lent(&self, segment: usize) -> Result<Vec<Lent>> {
        let index = segment as u32;
        let mut streams: Vec<StreamId> =
            self.referred.0.keys().filter(|of| of.0 == index).map(|of| of.1).collect();
        if streams.is_empty() {
            return Ok(Vec::new());
        }
        let contents = self.view.contents(&self.view.segments[segment]).ok();
        let extent = |stream: &StreamId| blocks_of(contents.as_deref(), *stream);
        streams.sort_by_key(|stream| (extent(stream), *stream));
        let mut readers: Vec<(u32, Vec<StreamId>)> = Vec::new();
        for stream in streams {
            let (begin, end) = extent(&stream);
            let is_full = readers.len() >= READERS;
            let free = readers.iter_mut().find(|(last, _)| *last <= begin);
            match free {
                Some((last, of)) => {
                    *last = end;
                    of.push(stream);
                }
                None if is_full => {
                    if let Some((last, of)) = readers.iter_mut().min_by_key(|(last, _)| *last) {
                        *last = end;
                        of.push(stream);
                    }
                }
                None => readers.push((end, vec![stream])),
            }
        }
        let mut lent = Vec::new();
        for (_, mut streams) in readers {
            let mut rows = RowsAt::default();
            // Those of which nobody wants anything after all are left out.
            while let Some(stream) = streams.first() {
                let first = self.places_in(index, *stream, None, &mut rows)?;
                if let Some((begin, ..)) = first.first().copied() {
                    let (first, opened) = (Mutex::new(Some(first)), Mutex::default());
                    lent.push(Lent { segment, streams, first, begin, opened });
                    break;
                }
                streams.remove(0);
            }
        }
        Ok(lent)
    }

    /// The first places in a stream's part of a segment that wanted rows refer to, behind that one; ascending.
    pub(in crate::kinds::restore) fn places_in(
        &self,
        segment: u32,
        stream: StreamId,
        behind: Option<Place>,
        rows: &mut RowsAt,
    ) -> Result<Vec<Place>> {
        let mut first: BinaryHeap<Place> = BinaryHeap::new();
        for (nth, batch) in self.referred.batches((segment, stream)).iter().enumerate() {
            rows.each(self.view, *batch, &mut |row, end| {
                let mut at = None;
                stretches(&self.spans, &row.entry, &mut |of| {
                    if (of.segment, of.stream) == (Some(segment), stream) {
                        at = Some(at.map_or(of.at, |least: u64| least.min(of.at)));
                    }
                });
                let Some(at) = at else { return Ok(()) };
                let place = (at, nth as u32, row.ordinal.row);
                let is_full = first.len() >= MOST;
                let is_next = behind.is_none_or(|behind| place > behind)
                    && (!is_full || first.peek().is_some_and(|last| place < *last));
                // What comes again in the next segment is taken there.
                let is_first = row.entry.logical_len() == 0 || row.start < end;
                if is_next && is_first && self.wants_contents(&row) {
                    if is_full {
                        first.pop();
                    }
                    first.push(place);
                }
                Ok(())
            })?;
        }
        Ok(first.into_sorted_vec())
    }

    /// The row of a place in a stream's part of a segment.
    pub(in crate::kinds::restore) fn row_of(
        &self,
        there: (u32, StreamId),
        (_, nth, number): Place,
        rows: &mut RowsAt,
    ) -> Result<Option<Row>> {
        let batch = self.referred.batches(there).get(nth as usize);
        batch.map_or(Ok(None), |batch| rows.get(self.view, *batch, number))
    }

    /// Whether a row's contents are wanted, under its name or another.
    fn wants_contents(&self, row: &Row) -> bool {
        let e = &row.entry;
        let path = e.path();
        e.kind == Kind::File
            && !e.link
            && !self.overview.is_replaced(&path, row.ordinal)
            && self.has_place(&path)
    }
}

/// Where a stream begins and ends in a segment, in blocks.
fn blocks_of(contents: Option<&Contents>, stream: StreamId) -> (u32, u32) {
    let found = contents.and_then(|all| all.streams.iter().find(|s| s.stream == stream));
    let index = found.map(|s| s.index.as_slice()).unwrap_or_default();
    let (first, last) = (index.first(), index.last());
    first.zip(last).map_or((0, u32::MAX), |(first, last)| (first.block.0, last.block.0))
}

/// Looks up rows, batch by batch.
#[derive(Default)]
pub(in crate::kinds::restore) struct RowsAt {
    /// Streams of batches, used last, last.
    open: Vec<((u32, StreamId), Batches)>,
    /// Batches with their rows, used last, last.
    batches: Vec<(BatchAt, Vec<Row>)>,
    opener: BatchOpener,
}

impl RowsAt {
    /// Calls with the rows of a batch, and where its stream ends in its segment.
    fn each(
        &mut self,
        view: &VersionView<'_>,
        (segment, stream, number): BatchAt,
        each: &mut dyn FnMut(Row, u64) -> Result<()>,
    ) -> Result<()> {
        let of = (segment, stream);
        let mut open = match self.open.iter().position(|(other, _)| *other == of) {
            Some(at) => self.open.remove(at).1,
            None => view.batches(segment, stream, false)?,
        };
        let end = open.end;
        let read = view.batch(&mut open, number, &mut self.opener, &mut |row| each(row, end));
        if self.open.len() >= STREAMS {
            self.open.remove(0);
        }
        self.open.push((of, open));
        read.map(drop)
    }

    fn get(&mut self, view: &VersionView<'_>, batch: BatchAt, number: u32) -> Result<Option<Row>> {
        match self.batches.iter().position(|(other, _)| *other == batch) {
            Some(at) => {
                let found = self.batches.remove(at);
                self.batches.push(found);
            }
            None => {
                let mut rows = Vec::new();
                self.each(view, batch, &mut |row, _| {
                    rows.push(row);
                    Ok(())
                })?;
                if self.batches.len() >= BATCHES {
                    self.batches.remove(0);
                }
                self.batches.push((batch, rows));
            }
        }
        let at = number - row_number(batch.2, 0);
        let rows = self.batches.last().map(|(_, rows)| rows.as_slice()).unwrap_or_default();
        Ok(rows.get(at as usize).filter(|row| row.ordinal.row == number).cloned())
    }
}
