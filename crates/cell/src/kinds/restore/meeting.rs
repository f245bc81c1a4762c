//! Several restores into one place may bring one path twice. Which file stayed there would be chance, so that is refused.
//!
//! The rows of each version come in the order of the walk, so what two have is met side by side. What only one version has
//! between two paths of the others is skipped by its index: of trees apart from each other next to nothing is read.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};

use capstan_catalog::row::{PathKey, path_of};
use capstan_format::entry::{Kind, path_order};

use crate::Cell;
use crate::error::{CellError, RestoreRefusal, Result};
use crate::kinds::restore::list::{Coming, Tally};
use crate::kinds::restore::stripped;
use crate::observe::Silent;
use crate::request::RestoreRequest;
use crate::session::SessionLog;

/// So many rows are passed one by one before the index is asked.
const PASSED: usize = 512;

impl Cell {
    /// Refuses restores into one place that would bring one path twice. Directories that several have are no harm.
    pub fn refuse_meeting(&self, requests: &[RestoreRequest]) -> Result<()> {
        if requests.len() < 2 {
            return Ok(());
        }
        let mut all = Vec::new();
        let silent = Silent;
        for request in requests {
            // What cannot be read brings nothing, and its own restore says why.
            if let Ok(coming) = self.coming(request, &SessionLog::new(&silent)) {
                let mut rows = Rows { coming, request, head: None };
                rows.next()?;
                all.push(rows);
            }
        }
        match requests.iter().any(|request| request.strip > 0) {
            true => by_hash(&mut all),
            false => by_order(&mut all),
        }
    }
}

/// What a restore brings, in the order of the walk.
struct Rows<'a> {
    coming: Coming<'a>,
    request: &'a RestoreRequest,
    /// The path that comes next, and whether it is a directory.
    head: Option<(PathKey, bool)>,
}

impl Rows<'_> {
    /// Goes to the next path that is brought.
    fn next(&mut self) -> Result<()> {
        self.head = None;
        while let Some(row) = self.coming.merged.next()? {
            let entry = &row.entry;
            let tally = Tally::new(self.request, &self.coming.chosen);
            if entry.kind.is_inode() && tally.takes(entry, &path_of(&row)) {
                let is_dir = entry.kind == Kind::Dir;
                self.head = Some(((row.entry.dir, row.entry.name), is_dir));
                break;
            }
        }
        Ok(())
    }

    /// Goes to that path, or to the first one behind it.
    fn go_to(&mut self, path: &PathKey) -> Result<()> {
        let mut passed = 0;
        while self.head.as_ref().is_some_and(|(key, _)| order(key, path).is_lt()) {
            passed += 1;
            if passed == PASSED {
                self.coming.merged.seek(path.clone())?;
            }
            self.next()?;
        }
        Ok(())
    }
}

fn order(a: &PathKey, b: &PathKey) -> Ordering {
    path_order((&a.0, &a.1), (&b.0, &b.1))
}

/// Paths that are brought where they were.
fn by_order(all: &mut [Rows<'_>]) -> Result<()> {
    loop {
        let mut heads: Vec<(usize, &PathKey, bool)> = Vec::new();
        for (at, rows) in all.iter().enumerate() {
            heads.extend(rows.head.as_ref().map(|(key, is_dir)| (at, key, *is_dir)));
        }
        heads.sort_by(|a, b| order(a.1, b.1));
        let [(first, key, is_dir), (second, next, is_other_dir), ..] = heads[..] else {
            return Ok(());
        };
        if order(key, next).is_lt() {
            let next = next.clone();
            all[first].go_to(&next)?;
            continue;
        }
        if !(is_dir && is_other_dir) {
            return Err(meets(&all[first], &all[second], key));
        }
        all[first].next()?;
    }
}

/// Paths of which components are stripped. By hash, for there may be millions, and they come in no order.
fn by_hash(all: &mut [Rows<'_>]) -> Result<()> {
    let hasher = RandomState::new();
    let mut seen: HashMap<u64, (usize, bool)> = HashMap::new();
    for at in 0..all.len() {
        while let Some((key, is_dir)) = all[at].head.take() {
            let path = joined(&key);
            if let Some(rest) = stripped(&path, all[at].request.strip) {
                let (of, was_dir) = *seen.entry(hasher.hash_one(rest)).or_insert((at, is_dir));
                if of != at && !(is_dir && was_dir) {
                    return Err(meets(&all[of], &all[at], &key));
                }
            }
            all[at].next()?;
        }
    }
    Ok(())
}

fn joined((dir, name): &PathKey) -> Vec<u8> {
    match dir.is_empty() {
        true => name.clone(),
        false => [dir, &b"/"[..], name].concat(),
    }
}

fn meets(one: &Rows<'_>, other: &Rows<'_>, path: &PathKey) -> CellError {
    let (one, other) = (&one.request.version.name, &other.request);
    RestoreRefusal::ObjectsMeet {
        strip: other.strip,
        one: one.clone(),
        other: other.version.name.clone(),
        path: joined(path),
    }
    .into()
}
