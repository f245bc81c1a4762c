//! Which batches of a version can have rows of some paths: who restores one file of a million reads no others.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use capstan_catalog::row::{Ordinal, PathKey, Row, batch_of};
use capstan_catalog::version::Overview;
use capstan_format::catalog::StreamContents;
use capstan_format::entry::{is_below, path_order, split};
use capstan_format::id::StreamId;

use crate::error::Result;
use crate::kinds::restore::wanted::chosen::Chosen;
use crate::reading::version::VersionView;

/// Most paths of which each is held against each batch: of more, all batches are looked into once.
const PATHS_MAX: usize = 1000;

/// The batches that are read. By the sparse indexes; what has none is read as a whole.
#[derive(Default)]
pub(in crate::kinds::restore) struct Scope {
    /// Of each stream's part of a segment whether a batch is read; all of it, if there is nothing.
    batches: HashMap<(u32, StreamId), Vec<bool>>,
    /// The parts of segments whose data are wanted, where that is known.
    data: Option<HashSet<(u32, StreamId)>>,
}

/// What is wanted of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds::restore) enum Wanted {
    /// Nothing.
    Nothing,
    /// What the catalog has.
    Row,
    /// The data that lie on the medium, too.
    Data,
}

impl Wanted {
    /// The same of a row that another one stands for.
    pub fn without_data(self) -> Self {
        if self == Self::Data { Self::Row } else { self }
    }
}

impl Scope {
    /// Those with rows of what is chosen and of these further paths, of what is below them, and of the directories that lead to
    /// them; all, if all is chosen. What only patterns choose may be in any.
    pub fn of(view: &VersionView<'_>, chosen: &Chosen, further: &[Vec<u8>]) -> Result<Self> {
        let mut scope = Self::default();
        if !chosen.is_narrow() {
            return Ok(scope);
        }
        let mut paths: Vec<&Vec<u8>> = chosen.paths().chain(further).collect();
        if chosen.paths().next().is_none() || paths.len() > PATHS_MAX {
            paths = vec![const { &Vec::new() }];
        }
        let all = paths.iter().any(|path| path.is_empty());
        if all && !chosen.has_patterns() && paths.len() == 1 && chosen.paths().all(Vec::is_empty) {
            return Ok(scope);
        }
        let is_asked = |path: &[u8]| {
            all || paths.iter().any(|asked| is_below(path, asked) || is_below(asked, path))
        };
        let mut aside: HashMap<(u32, StreamId), Vec<usize>> = HashMap::new();
        view.each_outline(&mut |index, _, outlines| {
            for outline in outlines {
                // Rows that are not in order are none that their batch's first path tells of.
                let asked = outline.aside.iter().filter(|aside| is_asked(&aside.entry.path()));
                let batches = asked.map(|aside| batch_of(aside.row));
                aside.entry((index, outline.stream)).or_default().extend(batches);
            }
            Ok(())
        })?;
        for (index, place) in view.segments.iter().enumerate() {
            for stream in &place.streams {
                let at = (index as u32, *stream);
                let Some(firsts) = view.firsts(at.0, *stream)? else { continue };
                let mut read: Vec<bool> = (0..firsts.len())
                    .map(|n| all || paths.iter().any(|path| may_have(&firsts, n, path)))
                    .collect();
                for n in aside.get(&at).into_iter().flatten() {
                    read.get_mut(*n).into_iter().for_each(|read| *read = true);
                }
                scope.batches.insert(at, read);
            }
        }
        Ok(scope)
    }

    /// Whether a batch of a stream's part of a segment is read.
    pub fn has(&self, segment: u32, stream: StreamId, batch: usize) -> bool {
        let batches = self.batches.get(&(segment, stream));
        batches.is_none_or(|batches| batches.get(batch).copied().unwrap_or(true))
    }

    /// Whether anything of a segment is read.
    pub fn has_any(&self, segment: u32, streams: &[StreamId]) -> bool {
        streams.iter().any(|stream| {
            let batches = self.batches.get(&(segment, *stream));
            batches.is_none_or(|batches| batches.contains(&true))
        })
    }

    /// The version's rows in it, segment by segment, stream by stream.
    pub fn rows(
        &self,
        view: &VersionView<'_>,
        each: &mut dyn FnMut(&StreamContents, Row) -> Result<()>,
    ) -> Result<()> {
        for (index, place) in view.segments.iter().enumerate() {
            let index = index as u32;
            if !self.has_any(index, &place.streams) {
                continue;
            }
            let contents = view.contents(place)?;
            for s in contents.streams.iter().filter(|s| place.streams.contains(&s.stream)) {
                let read = |n: &usize| self.has(index, s.stream, *n);
                let batches: Vec<usize> = (0..s.batches.len()).filter(read).collect();
                for run in runs(&batches) {
                    view.rows_of(index, s, run, &mut |row| each(s, row))?;
                }
            }
        }
        Ok(())
    }
}

impl Scope {
    /// Whether the data of a part of a segment are wanted: only then its medium is.
    pub fn has_data(&self, segment: u32, streams: &[StreamId]) -> bool {
        let has =
            |data: &HashSet<_>| streams.iter().any(|stream| data.contains(&(segment, *stream)));
        self.data.as_ref().is_none_or(has)
    }

    /// The version's rows in it, as [`rows`](Self::rows); batches of which nothing is wanted are left out from then on: where the
    /// last batch of a stream's part of a segment ends is not known beforehand.
    pub fn narrow(
        &mut self,
        view: &VersionView<'_>,
        wanted: &mut dyn FnMut(&StreamContents, Row) -> Result<Wanted>,
    ) -> Result<()> {
        let mut kept: HashMap<(u32, StreamId), HashSet<usize>> = HashMap::new();
        let mut data = HashSet::new();
        self.rows(view, &mut |stream, row| {
            let Ordinal { segment, row: number, .. } = row.ordinal;
            let of = (segment, stream.stream);
            let wanted = wanted(stream, row)?;
            if wanted != Wanted::Nothing {
                kept.entry(of).or_default().insert(batch_of(number));
            }
            if wanted == Wanted::Data {
                data.insert(of);
            }
            Ok(())
        })?;
        for (of, read) in &mut self.batches {
            let kept = kept.get(of);
            read.iter_mut().enumerate().for_each(|(n, read)| {
                *read &= kept.is_some_and(|kept| kept.contains(&n));
            });
        }
        self.data = Some(data);
        Ok(())
    }
}

/// Numbers of batches, which ascend, as ranges of those that follow each other.
pub(in crate::kinds::restore) fn runs(batches: &[usize]) -> impl Iterator<Item = Range<usize>> {
    let run = |run: &[usize]| Some(*run.first()?..*run.last()? + 1);
    batches.chunk_by(|a, b| a + 1 == *b).filter_map(run)
}

/// Whether the rows in order of a batch can have something of a path: the path itself, a directory that leads to it, or what is
/// below it. `firsts` are the first paths of all batches, none of one that has no rows in order.
fn may_have(firsts: &[Option<PathKey>], batch: usize, path: &[u8]) -> bool {
    let Some(first) = &firsts[batch] else { return false };
    let next = firsts[batch + 1..].iter().flatten().next();
    let order = |key: &PathKey, other: (&[u8], &[u8])| path_order((&key.0, &key.1), other);
    let from_here_to = |key: (&[u8], &[u8])| {
        order(first, key).is_le() && next.is_none_or(|next| order(next, key) == Ordering::Greater)
    };
    let mut leads = Some(path);
    while let Some(dir) = leads {
        if from_here_to(split(dir)) {
            return true;
        }
        leads = (!dir.is_empty()).then(|| split(dir).0);
    }
    // What is below it begins with what is in it, and is all together.
    let below = (path, &b""[..]);
    (is_below(&first.0, path) || order(first, below).is_le())
        && next.is_none_or(|next| order(next, below) == Ordering::Greater)
}

/// The rows that a version has, as they stand.
pub(in crate::kinds::restore) fn each_live(
    view: &VersionView<'_>,
    overview: &Overview,
    scope: &Scope,
    each: &mut dyn FnMut(&Row, &[u8]),
) -> Result<()> {
    scope.rows(view, &mut |stream, row| {
        let path = row.entry.path();
        let live = row.entry.kind.is_inode()
            && overview.is_first(stream, &row)
            && !overview.is_replaced(&path, row.ordinal)
            && !overview.is_carrier(row.ordinal);
        if live {
            each(&row, &path);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let name = prop::sample::select(vec!["a", "b", "a!", "ab", "c"]);
        let path = prop::collection::vec(name, 1..4).prop_map(|names| names.join("/").into_bytes());
        prop::collection::vec(path, 1..40)
    }

    fn key(path: &[u8]) -> PathKey {
        let (dir, name) = split(path);
        (dir.to_vec(), name.to_vec())
    }

    proptest! {
        #[test]
        fn a_batch_that_has_something_is_read(mut all in paths(), size in 1usize..5, pick in 0usize..40) {
            all.sort_by(|a, b| path_order(split(a), split(b)));
            all.dedup();
            let asked = all[pick % all.len()].clone();
            let batches: Vec<&[Vec<u8>]> = all.chunks(size).collect();
            let firsts: Vec<_> = batches.iter().map(|batch| Some(key(&batch[0]))).collect();
            for (n, batch) in batches.iter().enumerate() {
                let has = batch.iter().any(|p| is_below(p, &asked) || is_below(&asked, p));
                prop_assert!(!has || may_have(&firsts, n, &asked), "{n} {batch:?} {asked:?}");
            }
        }
    }

    #[test]
    fn others_are_not_read() {
        let firsts: Vec<_> =
            ["a", "a/a", "a/m", "b/a", "b/m"].map(|p| Some(key(p.as_bytes()))).to_vec();
        let read = |path: &str| {
            (0..5).filter(|n| may_have(&firsts, *n, path.as_bytes())).collect::<Vec<_>>()
        };
        // What is below it comes behind all that is beside it.
        assert_eq!(read("a/f"), [0, 1, 2]);
        assert_eq!(read("b/z"), [0, 4]);
        assert_eq!(read("a"), [0, 1, 2]);
    }
}
