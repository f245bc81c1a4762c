//! Further names whose first name is another file by now: an incremental keeps the row of a name that it did not reach, while the
//! first name was replaced or removed.
//!
//! A link row means the first name as it was when the row was written. So where a later session has another row of the first
//! name, the further name gets the row that it had then: its contents are where that row had them. Whoever reads rows from a view
//! gets these instead of the link rows, once [`Overview::with_replaced`] was made of it.

use std::collections::HashMap;
use std::sync::Arc;

use capstan_format::acl::AclNames;
use capstan_format::entry::{Entry, Extent, ExtentKind, Kind};
use capstan_format::id::StreamId;

use super::heads::settle;
use super::suspects::Suspects;
use super::{Heads, Overview, SavedRange, VersionRows};
use crate::error::Result;
use crate::row::{Ordinal, Row};

/// Stands for contents that are nowhere: a stream that no medium has.
const NOWHERE: ExtentKind = ExtentKind::At(StreamId([0; 16]), 0);

/// What stands for the rows of such names, by segment and stream, then by number.
#[derive(Default)]
pub(super) struct KeptLinks {
    rows: HashMap<(u32, StreamId), HashMap<u32, Kept>>,
}

/// What stands for a row.
struct Kept {
    entry: Entry,
    sum: Option<u64>,
    user: Option<Arc<[u8]>>,
    group: Option<Arc<[u8]>>,
    acl: Option<Arc<AclNames>>,
}

impl KeptLinks {
    /// Gives a row what stands for it, if anything does.
    pub fn put(&self, row: &mut Row) {
        let Ordinal { segment, stream, row: number, .. } = row.ordinal;
        let kept = self.rows.get(&(segment, stream)).and_then(|rows| rows.get(&number));
        if let Some(kept) = kept.filter(|_| row.entry.link) {
            row.entry = kept.entry.clone();
            (row.sum, row.user, row.group) = (kept.sum, kept.user.clone(), kept.group.clone());
            row.acl = kept.acl.clone();
        }
    }

    fn add(&mut self, at: Ordinal, kept: Kept) {
        self.rows.entry((at.segment, at.stream)).or_default().insert(at.row, kept);
    }
}

impl Overview {
    /// Finds what stands for link rows whose first name is another file since, with one more pass over the rows if there may be any.
    pub(super) fn settle_links(
        &mut self,
        view: &VersionRows<'_>,
        suspects: Suspects,
    ) -> Result<()> {
        let mut links = suspects.links;
        let mut kept = KeptLinks::default();
        if links.is_empty() {
            return Ok(());
        }
        let mut heads = Heads::new(view, true);
        let mut losers: Vec<Row> = Vec::new();
        while let Some(row) = heads.next(view, &self.loose, &mut |loser| losers.push(loser))? {
            if let Some(links) = links.remove(&row.entry.path()) {
                self.settle_links_of(&row, &losers, links, &mut kept);
            }
            losers.clear();
        }
        for row in &mut self.loose {
            kept.put(row);
        }
        // Where another overview was made of this view before, it found the same.
        let _ = view.kept_links.set(Arc::new(kept));
        Ok(())
    }

    /// The same of the further names of one first name, of which that is the newest row, and those are the others.
    fn settle_links_of(
        &mut self,
        newest: &Row,
        losers: &[Row],
        links: Vec<Row>,
        kept: &mut KeptLinks,
    ) {
        // Of each row that the first name had, the further name that has its contents now.
        let mut firsts: Vec<(Ordinal, Vec<u8>)> = Vec::new();
        for link in links.into_iter().filter(|link| !is_still(link, newest)) {
            let session = link.ordinal.session;
            let of_then = losers.iter().filter(|row| row.ordinal.session <= session).cloned();
            let of_then = settle(of_then.collect(), &mut |_| ())
                .filter(|row| row.entry.kind == link.entry.kind && !row.entry.link);
            let path = link.entry.path();
            let Some(of_then) = of_then else {
                kept.add(link.ordinal, nothing_of(&link));
                continue;
            };
            if let Some((_, first)) = firsts.iter().find(|(of, _)| *of == of_then.ordinal) {
                let entry = Entry { target: first.clone(), ..link.entry };
                let (sum, user, group, acl) = (link.sum, link.user, link.group, link.acl);
                kept.add(link.ordinal, Kept { entry, sum, user, group, acl });
                continue;
            }
            firsts.push((of_then.ordinal, path.clone()));
            self.flagged += u64::from(of_then.entry.inode_flags != 0);
            let of_path = of_then.entry.path();
            let found: Vec<_> = self.outcomes(&of_path, of_then.data).collect();
            found.into_iter().for_each(|found| self.add_outcome(&path, link.ordinal, found));
            kept.add(link.ordinal, self.as_it_was(&link, of_then, newest.ordinal));
        }
    }

    /// A further name with the row that its first name had; that one has a newer one since.
    fn as_it_was(&self, link: &Row, mut first: Row, newer: Ordinal) -> Kept {
        // Its parts are those of then.
        first.ordinal = newer;
        let (dir, name) = (link.entry.dir.clone(), link.entry.name.clone());
        let replaces = link.entry.replaces;
        let mut entry = Entry { dir, name, replaces, ..first.entry.clone() };
        let mut sum = None;
        if entry.kind == Kind::File && entry.size > 0 {
            let is_whole = self.is_whole(&first);
            sum = if is_whole { self.content_sum(&first) } else { None };
            entry.extents = extents(entry.size, &self.saved_of(&first), is_whole);
        }
        Kept { entry, sum, user: first.user, group: first.group, acl: first.acl }
    }
}

/// Whether the first name is still the file that it was when the link's row was written.
fn is_still(link: &Row, newest: &Row) -> bool {
    let session = link.ordinal.session;
    if newest.ordinal.session <= session {
        return true;
    }
    let (link, first) = (&link.entry, &newest.entry);
    // Of one whose metadata alone changed the contents are as they were; what was moved away and back is the same file.
    let has_contents_of_then = newest.data != newest.ordinal && newest.data.session <= session;
    let is_same_file = (first.ino, first.size, first.mtime) == (link.ino, link.size, link.mtime);
    first.kind == link.kind && !first.link && (has_contents_of_then || is_same_file)
}

/// What stands for a further name of whose first name there is no row of then: it is a file that no medium has.
fn nothing_of(link: &Row) -> Kept {
    let size = link.entry.size.max(1);
    let extents = vec![Extent { len: size, kind: NOWHERE }];
    let kind = Kind::File;
    let entry =
        Entry { kind, size, extents, link: false, target: Vec::new(), ..link.entry.clone() };
    let (user, group, acl) = (link.user.clone(), link.group.clone(), link.acl.clone());
    Kept { entry, sum: None, user, group, acl }
}

/// The extents of a file of which these ranges are saved. What lies between them are holes, if the file is whole, else what is
/// missing.
fn extents(size: u64, saved: &[SavedRange], is_whole: bool) -> Vec<Extent> {
    let mut extents = Vec::new();
    let mut at = 0;
    let gap = |from: u64, to: u64, extents: &mut Vec<Extent>| {
        if to > from {
            let kind = if is_whole { ExtentKind::Hole } else { NOWHERE };
            extents.push(Extent { len: to - from, kind });
        }
    };
    for range in saved {
        gap(at, range.offset, &mut extents);
        let kind = ExtentKind::At(range.stream, range.logical);
        extents.push(Extent { len: range.len, kind });
        at = range.offset.saturating_add(range.len);
    }
    gap(at, size, &mut extents);
    extents
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_saved_is_a_hole_only_of_a_whole_file() {
        let stream = StreamId([7; 16]);
        let range = |offset, len| SavedRange { offset, len, stream, logical: 100 + offset };
        let saved = [range(2, 3), range(5, 1), range(8, 2)];
        let of = |is_whole| {
            let all = extents(12, &saved, is_whole).into_iter();
            all.map(|x| (x.len, x.kind)).collect::<Vec<_>>()
        };
        let at = |offset: u64| ExtentKind::At(stream, 100_u64 + offset);
        let (hole, gone) = (ExtentKind::Hole, NOWHERE);
        let whole = vec![
            (2, hole.clone()),
            (3, at(2)),
            (1, at(5)),
            (2, hole.clone()),
            (2, at(8)),
            (2, hole),
        ];
        assert_eq!(of(true), whole);
        assert_eq!(of(false)[0], (2, gone.clone()));
        assert_eq!(of(false)[5], (2, gone));
        assert_eq!(of(false).iter().map(|x| x.0).sum::<u64>(), 12);
    }
}
