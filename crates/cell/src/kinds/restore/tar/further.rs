//! Further names of files whose first name does not come into an archive: the first of them that does becomes the file, with what the
//! first name has, and the others become links to it.

use std::collections::HashMap;

use capstan_catalog::row::{Row, path_of};
use capstan_catalog::version::{Merged, Overview};
use capstan_format::entry::{Kind, split};

use super::stripped;
use crate::error::Result;
use crate::kinds::restore::wanted::chosen::Chosen;
use crate::observe::Stop;
use crate::request::RestoreRequest;

/// First names that do not come.
#[derive(Default)]
pub(super) struct Further {
    by_first: HashMap<Vec<u8>, StandsIn>,
}

struct StandsIn {
    /// The further name that becomes the file.
    path: Vec<u8>,
    /// The first name's row, where the version has it.
    row: Option<Row>,
}

impl Further {
    /// Those of what is chosen.
    pub fn of(
        merged: &mut Merged<'_>,
        overview: &Overview,
        request: &RestoreRequest,
        chosen: &Chosen,
        stop: &Stop,
    ) -> Result<Self> {
        let mut further = Self::default();
        let is_cut = chosen.is_narrow() || request.strip > 0;
        let comes =
            |path: &[u8]| chosen.has(path, false) && stripped(path, request.strip).is_some();
        let is_to_stop = || stop.0.load(std::sync::atomic::Ordering::Relaxed);
        while is_cut && let Some(row) = merged.next()? {
            let e = &row.entry;
            if is_to_stop() {
                break;
            }
            if e.link && e.kind.is_inode() && !comes(&e.target) {
                let path = path_of(&row);
                if comes(&path) && !overview.is_replaced(&path, row.ordinal) {
                    let new = || StandsIn { path, row: None };
                    further.by_first.entry(e.target.clone()).or_insert_with(new);
                }
            }
        }
        merged.rewind();
        while !further.by_first.is_empty()
            && let Some(row) = merged.next()?
        {
            let path = path_of(&row);
            if is_to_stop() {
                break;
            }
            if let Some(stands_in) = further.by_first.get_mut(&path)
                && row.entry.kind != Kind::Dir
                && row.entry.kind.is_inode()
                && !row.entry.link
                && !overview.is_replaced(&path, row.ordinal)
            {
                let (dir, name) = split(&stands_in.path);
                let (dir, name) = (dir.to_vec(), name.to_vec());
                let mut row = row;
                (row.entry.dir, row.entry.name) = (dir, name);
                stands_in.row = Some(row);
            }
        }
        merged.rewind();
        Ok(further)
    }

    /// The row that a further name has in the archive where it becomes the file.
    pub fn row(&self, first: &[u8], path: &[u8]) -> Option<Row> {
        let stands_in = self.by_first.get(first).filter(|of| of.path == path)?;
        stands_in.row.clone()
    }
}
