//! The rows of a version in the order of the walk, the newest of each path: all its streams, and those of what it builds on,
//! merged batch by batch. What is in memory is one batch per stream, however many rows there are.

use std::cmp::Ordering;
use std::collections::VecDeque;

use capstan_catalog::batch::BatchOpener;
use capstan_catalog::row::{PathKey, Row, is_after, is_ordered};
use capstan_catalog::sparse::Batches;
use capstan_format::entry::{Kind, join, path_order};
use capstan_format::id::StreamId;

use crate::error::Result;
use crate::overview::Overview;
use crate::restore::split;
use crate::version::VersionView;

/// Most rows that are gathered; beyond that they are merged one by one.
const FOUND_MAX: usize = 200_000;

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
        view: &VersionView<'_>,
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
            let any = view.batch(batches, *number, opener, &mut |row| {
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
        view: &VersionView<'_>,
        overview: &Overview,
        from: &PathKey,
        open: &mut Vec<Batches>,
    ) -> Result<()> {
        while let Some(index) = self.segments.front()
            && overview.ends_before(*index, self.stream, from)
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
pub(crate) struct Heads {
    streams: Vec<StreamRows>,
    /// How many of the overview's loose rows were taken.
    loose: usize,
    with_sums: bool,
    opener: BatchOpener,
}

impl Heads {
    /// At the begin of the version; rows have the checksums of their contents if `with_sums`.
    pub fn new(view: &VersionView<'_>, with_sums: bool) -> Self {
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

    /// Goes on at a path, or a little before it.
    fn skip_to(
        &mut self,
        view: &VersionView<'_>,
        overview: &Overview,
        from: &PathKey,
        open: &mut Vec<Batches>,
    ) -> Result<()> {
        self.streams.iter_mut().try_for_each(|s| s.skip_to(view, overview, from, open))
    }

    /// The newest row of the next path; calls with the others of that path, but the one that has its data where that is an
    /// earlier version's.
    pub fn next(
        &mut self,
        view: &VersionView<'_>,
        overview: &Overview,
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
        let loose = overview.loose.get(self.loose);
        let row = match (first, loose) {
            (Some((_, head)), Some(loose)) if order_of(loose, head).is_lt() => None,
            (Some((at, _)), _) => self.streams[at].ready.pop_front(),
            (None, _) => None,
        };
        let row = match row {
            Some(row) => row,
            None => {
                let Some(loose) = loose else { return Ok(None) };
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
        while let Some(loose) = overview.loose.get(self.loose).filter(|r| same(r)) {
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
fn settle(mut rows: Vec<Row>, loser: &mut dyn FnMut(Row)) -> Option<Row> {
    rows.sort_unstable_by_key(|row| row.ordinal);
    // A row that is found in two ways does not lose to itself.
    rows.dedup_by_key(|row| row.ordinal);
    let mut newest = rows.pop()?;
    if newest.is_as_in() {
        // What the same session read before is not what the base has: the file was read again.
        let is_before = |r: &Row| r.ordinal.session < newest.ordinal.session;
        let has_data =
            |r: &Row| r.entry.kind == Kind::File && !r.entry.link && !r.is_as_in() && is_before(r);
        if let Some(at) = rows.iter().rposition(has_data) {
            let carrier = rows.remove(at);
            newest.entry.extents = carrier.entry.extents;
            (newest.start, newest.data, newest.sum) = (carrier.start, carrier.data, carrier.sum);
        }
    }
    rows.into_iter().for_each(loser);
    Some(newest)
}

/// The newest row of each path, in order.
fn newest_of_each(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort_by(|a, b| {
        let (a, b) = (&a.entry, &b.entry);
        path_order((&a.dir, &a.name), (&b.dir, &b.name))
    });
    let mut newest: Vec<Row> = Vec::new();
    let mut rows = rows.into_iter().peekable();
    while let Some(first) = rows.next() {
        let mut of_path = vec![first];
        while let Some(row) = rows.next_if(|r| {
            r.entry.dir == of_path[0].entry.dir && r.entry.name == of_path[0].entry.name
        }) {
            of_path.push(row);
        }
        newest.extend(settle(of_path, &mut |_| ()));
    }
    newest
}

/// What is known of a name that is looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NameLike<'a> {
    /// All of it.
    Whole(&'a [u8]),
    /// Bytes that it contains.
    Part(&'a [u8]),
}

impl<'a> NameLike<'a> {
    fn matcher(self) -> Box<dyn Fn(&[u8]) -> bool + 'a> {
        match self {
            Self::Whole(whole) => Box::new(move |name| name == whole),
            Self::Part(part) => {
                let finder = memchr::memmem::Finder::new(part);
                Box::new(move |name| finder.find(name).is_some())
            }
        }
    }
}

/// All rows of a version in the order of the walk, the newest of each path.
pub(crate) struct Merged<'a> {
    pub view: VersionView<'a>,
    pub overview: Overview,
    heads: Heads,
}

impl<'a> Merged<'a> {
    pub fn new(view: VersionView<'a>) -> Result<Self> {
        let overview = Overview::of(&view)?;
        let heads = Heads::new(&view, false);
        Ok(Self { view, overview, heads })
    }

    /// With the checksums of contents.
    pub fn with_sums(view: VersionView<'a>) -> Result<Self> {
        let heads = Heads::new(&view, true);
        Ok(Self { heads, ..Self::new(view)? })
    }

    /// Goes back to the first path.
    pub fn rewind(&mut self) {
        self.heads = Heads::new(&self.view, self.heads.with_sums);
    }

    /// The next path's newest row.
    pub fn next(&mut self) -> Result<Option<Row>> {
        self.heads.next(&self.view, &self.overview, &mut |_| ())
    }

    /// Calls with the row of a path and those at most `depth` levels below it, in order. The rest is not read.
    pub fn each_below(
        &mut self,
        path: &[u8],
        depth: Option<usize>,
        each: &mut dyn FnMut(&Self, &Row),
    ) -> Result<()> {
        let (dir, name) = split(path);
        self.seek((dir.to_vec(), name.to_vec()))?;
        let mut any_dir = false;
        while let Some(row) = self.next()? {
            match path_order((&row.entry.dir, &row.entry.name), (dir, name)) {
                Ordering::Less => continue,
                Ordering::Equal => {
                    any_dir = row.entry.kind == Kind::Dir;
                    each(self, &row);
                }
                Ordering::Greater => break,
            }
            break;
        }
        if depth == Some(0) {
            return Ok(());
        }
        let levels =
            |p: &[u8]| if p.is_empty() { 0 } else { p.iter().filter(|b| **b == b'/').count() + 1 };
        self.seek((path.to_vec(), Vec::new()))?;
        while let Some(row) = self.next()? {
            let e = &row.entry;
            if e.dir.is_empty() && e.name.is_empty()
                || path_order((&e.dir, &e.name), (path, b"")).is_lt()
            {
                continue;
            }
            let below = path.is_empty()
                || e.dir.strip_prefix(path).is_some_and(|r| r.is_empty() || r.starts_with(b"/"));
            any_dir |= e.kind == Kind::Dir;
            // All that is below a directory comes together; what is in it directly comes first.
            if !below || depth == Some(1) && e.dir != path && any_dir {
                break;
            }
            // The file of an input has no rows of the directories in its path that could stand for it.
            if !any_dir || depth.is_none_or(|d| levels(&e.dir) < levels(path) + d) {
                each(self, &row);
            }
        }
        Ok(())
    }

    /// The newest rows of all paths whose name is like that, in order: only names are looked at but where they are, and where
    /// the whole name is known, only in segments that may have it. `None` if there are too many for memory.
    pub fn with_names_like(&self, like: NameLike<'_>) -> Result<Option<Vec<Row>>> {
        let wanted = like.matcher();
        let mut rows: Vec<Row> = Vec::new();
        let mut opener = BatchOpener::default();
        for (index, place) in self.view.segments.iter().enumerate() {
            for stream in &place.streams {
                if let NameLike::Whole(name) = like
                    && self.view.lacks_name(index as u32, *stream, name)
                {
                    continue;
                }
                let mut batches = self.view.batches(index as u32, *stream, false)?;
                for number in 0.. {
                    let found =
                        self.view.names(&mut batches, number, &mut opener, &mut |n| wanted(n))?;
                    let Some(found) = found else { break };
                    if !found {
                        continue;
                    }
                    let end = batches.end;
                    self.view.batch(&mut batches, number, &mut opener, &mut |row| {
                        let counts = row.entry.logical_len() == 0 || row.start < end;
                        let named = wanted(&row.entry.name);
                        rows.extend(
                            Some(row).filter(|r| named && counts && is_ordered(r.entry.kind)),
                        );
                        Ok(())
                    })?;
                    if rows.len() > FOUND_MAX {
                        return Ok(None);
                    }
                }
            }
        }
        rows.extend(self.overview.loose.iter().filter(|r| wanted(&r.entry.name)).cloned());
        Ok(Some(newest_of_each(rows)))
    }

    /// Begins anew, at a path or a little before it.
    fn seek(&mut self, from: PathKey) -> Result<()> {
        let before = std::mem::replace(&mut self.heads, Heads::new(&self.view, false));
        let open = before.streams.into_iter().filter_map(|s| Some(s.at?.0));
        let mut open = open.filter(|b| !b.with_sums).collect();
        self.heads.skip_to(&self.view, &self.overview, &from, &mut open)
    }
}

/// `dir/name`, for messages.
pub(crate) fn path_of(row: &Row) -> Vec<u8> {
    join(&row.entry.dir, &row.entry.name)
}
