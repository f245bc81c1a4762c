//! What differs between two versions: both are read in the order of the walk, side by side, so that memory stays flat.

mod change;

use std::cmp::Ordering;

use capstan_engine::message::path_text;
use capstan_format::entry::selected;

use crate::error::{CatalogError, Result};
use crate::listed::Listed;

pub use change::{Aspect, Change, ChangeKind, ChangeTotals, LiveRows, differences, order};

/// Calls with each path that differs between two versions, in order: those of `paths`, as they are stored, and below, or all. A path
/// that neither has is an error, when all others were compared.
pub fn diff(
    before: LiveRows<'_>,
    after: LiveRows<'_>,
    paths: &[Vec<u8>],
    each: &mut dyn FnMut(&Change),
) -> Result<ChangeTotals> {
    let mut missing: Vec<_> = paths.iter().collect();
    let (mut a, mut b) = (Side::open(before)?, Side::open(after)?);
    let mut totals = ChangeTotals::default();
    loop {
        let pair = next(&mut a, &mut b)?;
        let Some(row) = pair.0.as_ref().or(pair.1.as_ref()) else { break };
        let path = row.entry.path();
        if !selected(paths, &path) {
            continue;
        }
        missing.retain(|p| !selected(std::slice::from_ref(p), &path));
        let change = match pair {
            (Some(before), Some(after)) => {
                let what = differences(&before, &after);
                Change::of(before, after, what, false)
            }
            (Some(row), None) => Some(Change::removed(row)),
            (None, row) => row.map(Change::added),
        };
        match change {
            Some(change) => {
                totals.count(&change);
                each(&change);
            }
            None => totals.unchanged += 1,
        }
    }
    missing.first().map_or(Ok(totals), |path| {
        Err(CatalogError::InNeither { path: path_text(path).to_string() })
    })
}

/// A version with the row that comes next.
struct Side<'a> {
    rows: LiveRows<'a>,
    head: Option<Listed>,
}

impl<'a> Side<'a> {
    fn open(rows: LiveRows<'a>) -> Result<Self> {
        let mut side = Self { rows, head: None };
        side.take()?;
        Ok(side)
    }

    /// The row at hand; the one after it is read.
    fn take(&mut self) -> Result<Option<Listed>> {
        let next = self.rows.next()?.map(|(_, listed)| listed);
        Ok(std::mem::replace(&mut self.head, next))
    }
}

/// A path's rows on both sides; where there is none on either, the end.
type Pair = (Option<Listed>, Option<Listed>);

fn next(a: &mut Side<'_>, b: &mut Side<'_>) -> Result<Pair> {
    let first = match (&a.head, &b.head) {
        (Some(x), Some(y)) => order(&x.entry, &y.entry),
        (Some(_), None) => Ordering::Less,
        (None, _) => Ordering::Greater,
    };
    Ok(match first {
        Ordering::Less => (a.take()?, None),
        Ordering::Greater => (None, b.take()?),
        Ordering::Equal => (a.take()?, b.take()?),
    })
}
