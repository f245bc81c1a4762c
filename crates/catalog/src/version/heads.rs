//! The next row of each stream of a version, and of all of them the first.

use std::cmp::Ordering;
use std::collections::VecDeque;

use capstan_format::entry::{Kind, path_order};
use capstan_format::id::StreamId;

use super::VersionRows;
use crate::batch::BatchOpener;
use crate::error::Result;
use crate::row::{PathKey, Row, is_after, is_ordered};
use crate::sparse::Batches;

/// The rows of one stream in all segments of a version, in order.
struct StreamRows {
    stream: StreamId,
    /// Segments that have it, by their place in the version.
    segments: VecDeque<u32>,
    /// The segment at hand, and which of the stream's batches there comes next.
    at: Option<(Batches, usize)>,
    ready: VecDeque<Row>,
    last: Option<PathKey>,
}

impl StreamRows {
    fn head(
        &mut self,
        view: &VersionRows<'_>,
        with_sums: bool,
        opener: &mut BatchOpener,
    ) -> Result<Option<&Row>> {
        while self.ready.is_empty() {
            let Some((batches, number)) = &mut self.at else {
                let Some(index) = self.segments.pop_front() else { return Ok(None) };
                self.at = Some((view.batches(index, self.stream, with_sums)?, 0));
                continue;
            };
            let (last, ready, end) = (&mut self.last, &mut self.ready, batches.end);
            let any = view.batch(batches, *number, opener, &mut |row| -> Result<()> {
                let counts = row.entry.logical_len() == 0 || row.start < end;
                // Others are among the loose ones, if they count at all.
                if counts && is_ordered(row.entry.kind) && is_after(last.as_ref(), &row.entry) {
                    *last = Some((row.entry.dir.clone(), row.entry.name.clone()));
                    ready.push_back(row);
                }
                Ok(())
            })?;
            *number += 1;
            if !any {
                self.at = None;
            }
        }
        Ok(self.ready.front())
    }

    /// Leaves out what comes before a path, as far as it need not be read for that. Batches of those that are `open`
    /// are used if they are of the segment where it goes on.
    fn skip_to(
        &mut self,
        view: &VersionRows<'_>,
        ends_before: &dyn Fn(u32, StreamId) -> bool,
        from: &PathKey,
        open: &mut Vec<Batches>,
    ) -> Result<()> {
        while let Some(index) = self.segments.front()
            && ends_before(*index, self.stream)
        {
            self.segments.pop_front();
        }
        if let Some(index) = self.segments.pop_front() {
            let known = open.iter().position(|b| (b.of.1, b.of.2) == (index, self.stream));
            let batches = match known {
                Some(at) => open.swap_remove(at),
                None => view.batches(index, self.stream, false)?,
            };
            let number = batches.first_at(from);
            self.at = Some((batches, number));
        }
        Ok(())
    }
}

/// The next row of each stream of a version.
pub struct Heads {
    streams: Vec<StreamRows>,
    /// How many of the overview's loose rows were taken.
    loose: usize,
    pub(super) with_sums: bool,
    opener: BatchOpener,
}

impl Heads {
    /// At the begin of the version; rows have the checksums of their contents if `with_sums`.
    pub fn new(view: &VersionRows<'_>, with_sums: bool) -> Self {
        let mut streams: Vec<StreamRows> = Vec::new();
        for (index, place) in view.segments.iter().enumerate() {
            for id in &place.streams {
                match streams.iter_mut().find(|s| s.stream == *id) {
                    Some(s) => s.segments.push_back(index as u32),
                    None => streams.push(StreamRows {
                        stream: *id,
                        segments: VecDeque::from([index as u32]),
                        at: None,
                        ready: VecDeque::new(),
                        last: None,
                    }),
                }
            }
        }
        Self { streams, loose: 0, with_sums, opener: BatchOpener::default() }
    }

    /// Goes on at a path, or a little before it. `ends_before` says whether all rows of a stream's part of a segment come before that.
    pub(super) fn skip_to(
        &mut self,
        view: &VersionRows<'_>,
        ends_before: &dyn Fn(u32, StreamId) -> bool,
        from: &PathKey,
        open: &mut Vec<Batches>,
    ) -> Result<()> {
        self.streams.iter_mut().try_for_each(|s| s.skip_to(view, ends_before, from, open))
    }

    /// The batches that were read last of each stream, to be used again.
    pub(super) fn into_open(self) -> Vec<Batches> {
        let open = self.streams.into_iter().filter_map(|s| Some(s.at?.0));
        open.filter(|b| !b.with_sums).collect()
    }

    /// The newest row of the next path, also of the `loose` ones, which are in order too; calls with the others of that path, but the one that has its data where that is an
    /// earlier version's.
    pub fn next(
        &mut self,
        view: &VersionRows<'_>,
        loose: &[Row],
        loser: &mut dyn FnMut(Row),
    ) -> Result<Option<Row>> {
        let opener = &mut self.opener;
        for s in &mut self.streams {
            s.head(view, self.with_sums, opener)?;
        }
        let heads = self.streams.iter().map(|s| s.ready.front());
        let first = heads
            .enumerate()
            .filter_map(|(at, head)| Some((at, head?)))
            .min_by(|(_, a), (_, b)| order_of(a, b));
        let next_loose = loose.get(self.loose);
        let row = match (first, next_loose) {
            (Some((_, head)), Some(loose)) if order_of(loose, head).is_lt() => None,
            (Some((at, _)), _) => self.streams[at].ready.pop_front(),
            (None, _) => None,
        };
        let row = match row {
            Some(row) => row,
            None => {
                let Some(loose) = next_loose else { return Ok(None) };
                self.loose += 1;
                loose.clone()
            }
        };
        // Most paths have one row: nothing is allocated for them.
        let same =
            |other: &Row| other.entry.name == row.entry.name && other.entry.dir == row.entry.dir;
        let mut others: Vec<Row> = Vec::new();
        for s in &mut self.streams {
            if s.ready.front().is_some_and(same) {
                others.extend(s.ready.pop_front());
            }
        }
        while let Some(loose) = loose.get(self.loose).filter(|r| same(r)) {
            others.push(loose.clone());
            self.loose += 1;
        }
        if others.is_empty() {
            return Ok(Some(row));
        }
        others.push(row);
        Ok(settle(others, loser))
    }
}

/// The order of the walk.
fn order_of(a: &Row, b: &Row) -> Ordering {
    path_order((&a.entry.dir, &a.entry.name), (&b.entry.dir, &b.entry.name))
}

/// Of all rows of a path, the newest, with the place of its data; calls with the others but the one that has those.
pub(super) fn settle(mut rows: Vec<Row>, loser: &mut dyn FnMut(Row)) -> Option<Row> {
    rows.sort_unstable_by_key(|row| row.ordinal);
    // A row that is found in two ways does not lose to itself.
    rows.dedup_by_key(|row| row.ordinal);
    let mut newest = rows.pop()?;
    if newest.is_as_in() {
        // What a session read before is not what its version has: the file was read again.
        let is_last = |at: usize, r: &Row| {
            let next = rows.get(at + 1).unwrap_or(&newest);
            r.ordinal.session < next.ordinal.session
        };
        let has_data = |at: usize, r: &Row| {
            r.entry.kind == Kind::File && !r.entry.link && !r.is_as_in() && is_last(at, r)
        };
        if let Some(at) = (0..rows.len()).rev().find(|at| has_data(*at, &rows[*at])) {
            let carrier = rows.remove(at);
            newest.entry.extents = carrier.entry.extents;
            (newest.start, newest.data, newest.sum) = (carrier.start, carrier.data, carrier.sum);
        }
    }
    rows.into_iter().for_each(loser);
    Some(newest)
}

#[cfg(test)]
mod tests {
    use capstan_format::entry::{Entry, Extent, ExtentKind};
    use capstan_format::id::StreamId;

    use super::*;
    use crate::row::Ordinal;

    fn row(session: u32, number: u32, is_as_in: bool) -> Row {
        let mut entry =
            Entry { kind: Kind::File, name: b"f".to_vec(), size: 1, ..Entry::default() };
        if is_as_in {
            entry.extents = vec![Extent { len: 1, kind: ExtentKind::AsIn([0; 16]) }];
        }
        let stream = StreamId([session as u8; 16]);
        let ordinal = Ordinal { session, segment: session, row: number, stream };
        let (user, group, acl) = (None, None, None);
        Row { entry, ordinal, start: 0, data: ordinal, sum: None, user, group, acl }
    }

    /// The session and number of the row that has the data of the newest of these.
    fn data_of(rows: &[(u32, u32, bool)]) -> (u32, u32) {
        let rows = rows.iter().map(|(session, number, as_in)| row(*session, *number, *as_in));
        let data = settle(rows.collect(), &mut |_| ()).unwrap().data;
        (data.session, data.row)
    }

    #[test]
    fn what_was_read_again_in_its_session_is_in_no_version() {
        let base = (0, 7, false);
        assert_eq!(data_of(&[base, (1, 1, true)]), (0, 7));
        assert_eq!(data_of(&[base, (1, 1, false), (1, 2, true)]), (0, 7));
        let again = [base, (1, 1, false), (1, 2, true), (2, 1, true)];
        assert_eq!(data_of(&again), (0, 7));
        let twice = [base, (1, 1, false), (1, 2, true), (2, 1, false), (2, 2, true)];
        assert_eq!(data_of(&twice), (0, 7));
        assert_eq!(data_of(&[base, (1, 1, false), (1, 2, false), (2, 1, true)]), (1, 2));
    }
}
