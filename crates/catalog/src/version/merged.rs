//! The rows of a version in the order of the walk, the newest of each path: all its streams, and those of what it builds on,
//! merged batch by batch. What is in memory is one batch per stream, however many rows there are.

use std::cmp::Ordering;
use std::collections::HashMap;

use capstan_format::entry::{Kind, path_order, split};

use super::heads::settle;
use super::{Heads, Overview, VersionRows};
use crate::batch::BatchOpener;
use crate::error::Result;
use crate::row::{PathKey, Row, is_ordered};

/// Most rows that are gathered; beyond that they are merged one by one.
const FOUND_MAX: usize = 200_000;
/// Most first names of links that are looked at one by one.
const FIRSTS_MAX: usize = 1000;

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
pub enum NameLike<'a> {
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
pub struct Merged<'a> {
    /// What they are read from.
    pub view: VersionRows<'a>,
    /// What single rows do not show.
    pub overview: Overview,
    heads: Heads,
}

impl<'a> Merged<'a> {
    /// At the first path; without the checksums of contents.
    pub fn new(view: VersionRows<'a>) -> Result<Self> {
        let overview = Overview::of(&view)?;
        let heads = Heads::new(&view, false);
        Ok(Self { view, overview, heads })
    }

    /// With the checksums of contents.
    pub fn with_sums(view: VersionRows<'a>) -> Result<Self> {
        let heads = Heads::new(&view, true);
        Ok(Self { heads, ..Self::new(view)? })
    }

    /// Goes back to the first path.
    pub fn rewind(&mut self) {
        self.heads = Heads::new(&self.view, self.heads.with_sums);
    }

    /// The next path's newest row.
    #[expect(clippy::should_implement_trait, reason = "reading a row may fail")]
    pub fn next(&mut self) -> Result<Option<Row>> {
        self.heads.next(&self.view, &self.overview.loose, &mut |_| ())
    }

    /// From now on gives links whose first name is another file since with what they were of. All rows are read for it, once.
    pub fn settle_links(&mut self) -> Result<()> {
        self.view.settle_links()?;
        if let Some(kept) = self.view.kept_links.get() {
            self.overview.loose.iter_mut().for_each(|row| kept.put(row));
        }
        Ok(())
    }

    /// The same, if any row of a path and those at most `depth` levels below it may be such a link.
    pub fn settle_links_below(&mut self, path: &[u8], depth: Option<usize>) -> Result<()> {
        let last = self.view.segments.iter().map(|s| s.session).max().unwrap_or(0);
        if last == 0 || self.overview.links == 0 || self.view.kept_links.get().is_some() {
            return Ok(());
        }
        let mut firsts: HashMap<Vec<u8>, u32> = HashMap::new();
        self.each_below(path, depth, &mut |_, row| {
            if row.entry.link && row.ordinal.session < last && firsts.len() <= FIRSTS_MAX {
                let session = firsts.entry(row.entry.target.clone()).or_insert(last);
                *session = row.ordinal.session.min(*session);
            }
        })?;
        let mut is_any = firsts.len() > FIRSTS_MAX;
        for (first, session) in firsts {
            if is_any {
                break;
            }
            self.each_below(&first, Some(0), &mut |_, row| is_any = row.ordinal.session > session)?;
        }
        if is_any { self.settle_links() } else { Ok(()) }
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
                    self.view.batch(
                        &mut batches,
                        number,
                        &mut opener,
                        &mut |row| -> Result<()> {
                            let counts = row.entry.logical_len() == 0 || row.start < end;
                            let named = wanted(&row.entry.name);
                            rows.extend(
                                Some(row).filter(|r| named && counts && is_ordered(r.entry.kind)),
                            );
                            Ok(())
                        },
                    )?;
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
    pub fn seek(&mut self, from: PathKey) -> Result<()> {
        let before = std::mem::replace(&mut self.heads, Heads::new(&self.view, false));
        let ends_before = |index, stream| self.overview.ends_before(index, stream, &from);
        self.heads.skip_to(&self.view, &ends_before, &from, &mut before.into_open())
    }
}
