//! What single rows of a version do not show: which were replaced, what reading found, what of their data is on media.
//!
//! It comes from the sparse indexes, so it costs no pass over the rows; only who reads them segment by segment, instead of
//! in the order of paths, needs to know of each one whether a later version replaced it.

mod data;

use std::collections::{HashMap, HashSet};

use capstan_format::catalog::StreamContents;
use capstan_format::entry::{Kind, Outcome, OutcomeCode, Timestamp, path_order};
use capstan_format::id::StreamId;
pub use data::SavedRange;

use super::suspects::Suspects;
use super::{Heads, VersionRows};
use crate::batch::BatchOpener;
use crate::error::Result;
use crate::places::SegmentPlace;
use crate::row::{Ordinal, PathKey, Row, is_after, is_ordered};
use crate::sparse::{Aside, Outline};

/// What a version's rows have in common.
#[derive(Default)]
pub struct Overview {
    /// The newest row of a path, where not only the order of paths shows it: of files that came late, or in parts.
    newest: HashMap<Vec<u8>, Ordinal>,
    /// Rows that a later session's replaced or removed, ascending, by segment and stream.
    dead: HashMap<(u32, StreamId), Vec<u32>>,
    /// What reading found, with the place of each record, in order.
    outcomes: HashMap<Vec<u8>, Vec<(Ordinal, Outcome)>>,
    /// Ranges of each stream's logical bytes that are on media, in the order of the segments.
    spans: HashMap<StreamId, Vec<(u64, u64)>>,
    /// Each file's parts that are on media.
    parts: HashMap<Vec<u8>, Vec<PartOf>>,
    /// Rows that have the data of a later session's row, ascending, by segment and stream, with the time that row has of its file.
    carriers: HashMap<(u32, StreamId), Vec<(u32, Timestamp)>>,
    /// Files whose contents are those of an earlier version, which does not have them.
    orphans: HashSet<Vec<u8>>,
    /// Rows that are not where the order of paths says: of files read again, and those whose data never came.
    pub loose: Vec<Row>,
    /// The last path of each stream in each segment.
    lasts: HashMap<(u32, StreamId), PathKey>,
    /// How many rows are further names.
    pub links: u64,
    /// How many rows have inode flags.
    pub flagged: u64,
}

/// A part of a file, as far as it is on media.
struct PartOf {
    ordinal: Ordinal,
    /// The stream's logical offset at which it begins.
    start: u64,
    /// Where in the file it begins, and its length in bytes.
    offset: u64,
    len: u64,
    sum: Option<u64>,
}

/// A row whose data begin in a later segment, if they came.
struct Ahead {
    index: u32,
    stream: StreamId,
    row: u32,
    start: u64,
}

impl Overview {
    /// For who reads the rows in the order of paths, the newest of each.
    pub fn of(view: &VersionRows<'_>) -> Result<Self> {
        let mut o = Self::default();
        // Of each stream the last path so far: rows that do not come after it are late.
        let mut last: HashMap<StreamId, PathKey> = HashMap::new();
        let mut ahead: Vec<Ahead> = Vec::new();
        view.each_outline(&mut |index, place, outlines| {
            // What a consolidation passed on has no rows.
            let passed = place.spans.iter().filter(|(s, ..)| !place.streams.contains(s));
            for (stream, from, to) in passed {
                o.spans.entry(*stream).or_default().push((*from, *to));
            }
            for outline in outlines {
                let stream = outline.stream;
                let span = outline.begin..outline.end;
                // They come again here.
                ahead.retain(|a| a.stream != stream || !span.contains(&a.start));
                o.spans.entry(stream).or_default().push((outline.begin, outline.end));
                o.links += outline.links;
                o.flagged += outline.flagged;
                if let (Some(before), Some(first)) = (last.get(&stream), &outline.first)
                    && path_order((&before.0, &before.1), (&first.0, &first.1)).is_ge()
                {
                    o.take_late(view, index, stream, before)?;
                }
                let mut late = Vec::new();
                for aside in &outline.aside {
                    o.take_aside(index, place, &outline, aside, &mut late);
                }
                view.rows_at(index, stream, late, &mut |row| o.add_late(row))?;
                let rows = outline.ahead.into_iter();
                ahead.extend(rows.map(|(row, start)| Ahead { index, stream, row, start }));
                if let Some(key) = outline.last {
                    o.lasts.insert((index, stream), key.clone());
                    let further = last
                        .get(&stream)
                        .is_none_or(|l| path_order((&l.0, &l.1), (&key.0, &key.1)).is_lt());
                    if further {
                        last.insert(stream, key);
                    }
                }
            }
            Ok(())
        })?;
        // Of a file that was read again afterwards they say nothing.
        for Row { entry, ordinal, .. } in &o.loose {
            if let Some(found) = o.outcomes.get_mut(&entry.path()) {
                found.retain(|(at, _)| at.session != ordinal.session || !ordinal.is_newer_than(at));
            }
        }
        // Else it came again where its data are.
        ahead.retain(|a| !o.is_on_media(a.stream, a.start, 1));
        for of in ahead.chunk_by(|a, b| (a.index, a.stream) == (b.index, b.stream)) {
            let Some(Ahead { index, stream, .. }) = of.first() else { continue };
            let rows = of.iter().map(|a| a.row).collect();
            view.rows_at(*index, *stream, rows, &mut |row| o.loose.push(row))?;
        }
        o.loose.sort_by(|a, b| {
            path_order((&a.entry.dir, &a.entry.name), (&b.entry.dir, &b.entry.name))
        });
        Ok(o)
    }

    /// For who reads the rows in the order of the media.
    pub fn with_replaced(view: &VersionRows<'_>) -> Result<Self> {
        let mut o = Self::of(view)?;
        if view.segments.iter().all(|s| s.session == 0) {
            return Ok(o);
        }
        let mut heads = Heads::new(view, false);
        let mut suspects = Suspects::of(view, o.links > 0);
        let mut dead: Vec<Ordinal> = Vec::new();
        let mut newest: HashMap<Vec<u8>, Ordinal> = HashMap::new();
        while let Some(row) = heads.next(view, &o.loose, &mut |loser| dead.push(loser.ordinal))? {
            suspects.take(&row);
            if row.is_as_in() {
                o.orphans.insert(row.entry.path());
            } else if row.data != row.ordinal {
                let carriers = o.carriers.entry((row.data.segment, row.data.stream)).or_default();
                carriers.push((row.data.row, row.entry.mtime));
                let path = row.entry.path();
                if let Some(parts) = o.parts.get(&path) {
                    // What was read since, and came to be as it was, is of no use; nor is what was there before.
                    let later = parts.iter().map(|part| part.ordinal);
                    dead.extend(later.filter(|part| part.session > row.data.session));
                    newest.insert(path, row.data);
                }
            } else if row.entry.replaces || row.entry.kind == Kind::Tombstone {
                let path = row.entry.path();
                if o.parts.contains_key(&path) {
                    newest.insert(path, row.ordinal);
                }
            }
            // Losers come with their winner.
            for ordinal in dead.drain(..) {
                o.dead.entry((ordinal.segment, ordinal.stream)).or_default().push(ordinal.row);
            }
        }
        o.newest.extend(newest);
        o.dead.values_mut().for_each(|rows| rows.sort_unstable());
        o.carriers.values_mut().for_each(|rows| rows.sort_unstable_by_key(|(row, _)| *row));
        o.settle_links(view, suspects)?;
        Ok(o)
    }

    /// Rows at the begin of a stream's part of a segment that do not come after the last one before it.
    fn take_late(
        &mut self,
        view: &VersionRows<'_>,
        index: u32,
        stream: StreamId,
        before: &PathKey,
    ) -> Result<()> {
        let mut batches = view.batches(index, stream, true)?;
        let mut opener = BatchOpener::default();
        let end = batches.end;
        // Of those in the order of this segment; the others are aside.
        let mut last: Option<PathKey> = None;
        for number in 0.. {
            let (mut late, mut others) = (Vec::new(), false);
            let any = view.batch(&mut batches, number, &mut opener, &mut |row| -> Result<()> {
                let e = &row.entry;
                let counts = e.logical_len() == 0 || row.start < end;
                if !is_ordered(e.kind) || !counts || !is_after(last.as_ref(), e) {
                    return Ok(());
                }
                last = Some((e.dir.clone(), e.name.clone()));
                if is_after(Some(before), e) {
                    others = true;
                } else {
                    late.push(row);
                }
                Ok(())
            })?;
            late.into_iter().for_each(|row| self.add_late(row));
            if !any || others {
                break;
            }
        }
        Ok(())
    }

    fn add_late(&mut self, row: Row) {
        let newest = self.newest.entry(row.entry.path()).or_insert(row.ordinal);
        *newest = (*newest).max(row.ordinal);
        self.loose.push(row);
    }

    /// Takes what reading found of a file, as if it stood at that row.
    pub(super) fn add_outcome(&mut self, path: &[u8], at: Ordinal, outcome: Outcome) {
        self.outcomes.entry(path.to_vec()).or_default().push((at, outcome));
    }

    /// Takes what is to be known of a row that is out of order; one that is to be read whole is left to who asks.
    fn take_aside(
        &mut self,
        index: u32,
        place: &SegmentPlace,
        outline: &Outline,
        aside: &Aside,
        late: &mut Vec<u32>,
    ) {
        let e = &aside.entry;
        let ordinal = Ordinal {
            session: place.session,
            segment: index,
            row: aside.row,
            stream: outline.stream,
        };
        match e.kind {
            Kind::Outcome => {
                if let Some(outcome) = e.outcome {
                    self.outcomes.entry(e.path()).or_default().push((ordinal, outcome));
                }
            }
            Kind::Part => {
                let here = outline.end.min(aside.start.saturating_add(e.size));
                let len = here.saturating_sub(aside.start);
                if len > 0 {
                    let part = PartOf {
                        ordinal,
                        start: aside.start,
                        offset: e.part_offset,
                        len,
                        sum: aside.sum,
                    };
                    self.parts.entry(e.path()).or_default().push(part);
                }
            }
            _ => late.push(aside.row),
        }
    }

    /// Whether all rows of a stream's part of a segment come before a path.
    pub fn ends_before(&self, index: u32, stream: StreamId, path: &PathKey) -> bool {
        let last = self.lasts.get(&(index, stream));
        last.is_none_or(|l| path_order((&l.0, &l.1), (&path.0, &path.1)).is_lt())
    }

    /// Whether the row's data, if it has any, begin in this segment: else it comes again in the next.
    pub fn is_first(&self, stream: &StreamContents, row: &Row) -> bool {
        row.entry.logical_len() == 0 || row.start < stream.logical_end
    }

    /// Whether a newer row takes this one's place.
    pub fn is_replaced(&self, path: &[u8], ordinal: Ordinal) -> bool {
        let dead = || {
            let rows = self.dead.get(&(ordinal.segment, ordinal.stream));
            rows.is_some_and(|rows| rows.binary_search(&ordinal.row).is_ok())
        };
        let newest = self.newest.get(path);
        let is_newer = newest.is_some_and(|newest| newest.is_newer_than(&ordinal));
        (is_newer || dead()) && !self.is_carrier(ordinal)
    }

    /// What reading found last of the file that this row is of.
    pub fn outcome(&self, path: &[u8], ordinal: Ordinal) -> Option<Outcome> {
        self.outcomes(path, ordinal).next_back()
    }

    /// All that reading found of the file that this row is of, in order: one that was cut has mostly changed as well.
    pub fn outcomes(
        &self,
        path: &[u8],
        ordinal: Ordinal,
    ) -> impl DoubleEndedIterator<Item = Outcome> {
        let found = self.outcomes.get(path).map(Vec::as_slice).unwrap_or_default().iter();
        found.filter(move |(at, _)| !ordinal.is_newer_than(at)).map(|(_, outcome)| *outcome)
    }

    /// The byte at which a file ended while it was read from begin to end, before its row's size. Of one with holes or in parts
    /// there may be data behind that.
    pub fn cut_at(&self, row: &Row) -> Option<u64> {
        let e = &row.entry;
        if e.kind != Kind::File || e.link || !e.extents.is_empty() {
            return None;
        }
        let short = |o: &Outcome| o.code == OutcomeCode::Short && o.offset < e.size;
        self.outcomes(&e.path(), row.data).find(short).map(|o| o.offset)
    }

    /// Whether the row has data of a later session's row, and its metadata are replaced.
    pub fn is_carrier(&self, ordinal: Ordinal) -> bool {
        self.carried_mtime(ordinal).is_some()
    }

    /// The time at which the contents changed, by the later session's row whose data this one has.
    pub fn carried_mtime(&self, ordinal: Ordinal) -> Option<Timestamp> {
        let rows = self.carriers.get(&(ordinal.segment, ordinal.stream))?;
        let at = rows.binary_search_by_key(&ordinal.row, |(row, _)| *row).ok()?;
        rows.get(at).map(|(_, mtime)| *mtime)
    }

    /// Whether the file's contents are those of an earlier version, which does not have them.
    pub fn is_orphan(&self, path: &[u8]) -> bool {
        !self.orphans.is_empty() && self.orphans.contains(path)
    }

    /// Whether any row has the data of a later session's.
    pub fn has_carriers(&self) -> bool {
        !self.carriers.is_empty()
    }

    /// Whether all of a row's file can be restored as it was at one time.
    pub fn is_complete(&self, row: &Row) -> bool {
        let path = row.entry.path();
        self.is_whole(row)
            && self.is_clean(&path, row.data)
            && !self.is_replaced(&path, row.ordinal)
    }

    /// Whether the row's file was read as one state, whole.
    pub fn is_clean(&self, path: &[u8], ordinal: Ordinal) -> bool {
        use OutcomeCode::{Changed, Short, Unreadable, Vanished};
        let outcome = self.outcome(path, ordinal).map(|o| o.code);
        !matches!(outcome, Some(Changed | Short | Unreadable | Vanished))
    }
}
