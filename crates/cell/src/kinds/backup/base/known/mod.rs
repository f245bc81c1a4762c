//! The files of a base by their inodes: for those that it has under other names.
//!
//! The table is made when the first file is asked for that may have been moved; most incrementals ask for none.

mod table;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use capstan_catalog::row::Row;
use capstan_catalog::version::Merged;
use capstan_disk_agent::backup::KnownFiles;
use capstan_disk_agent::walk::{BaseRow, Saved};
use capstan_format::entry::{Entry, ExtentKind, Kind, Timestamp};
use capstan_format::id::{StreamId, VersionId};
use parking_lot::Mutex;

use self::table::{Known, Place, Table};
use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::kinds::backup::base::resume::saved_ranges;
use crate::reading::contents::data_ranges;
use crate::reading::version::VersionView;

/// Looks files up by inode in what a version has.
pub(crate) struct ByInode<'a> {
    cell: &'a Cell,
    version: VersionId,
    saved_by: Timestamp,
    state: Mutex<State<'a>>,
}

enum State<'a> {
    /// Nobody asked yet.
    Unmade,
    Made(Box<Index<'a>>),
    /// It cannot be made.
    Failed,
}

impl<'a> ByInode<'a> {
    /// For who builds on a version, which has a session that ended.
    pub fn of(cell: &'a Cell, version: VersionId) -> Result<Self> {
        let ended_us =
            cell.idb.sessions_of_version(version)?.iter().filter_map(|s| s.ended_us).max();
        let ended_us = ended_us.unwrap_or(i64::MAX);
        let nsec = (ended_us.rem_euclid(1_000_000) * 1000) as u32;
        let saved_by = Timestamp { sec: ended_us.div_euclid(1_000_000), nsec };
        Ok(Self { cell, version, saved_by, state: Mutex::new(State::Unmade) })
    }
}

impl KnownFiles for ByInode<'_> {
    fn saved_by(&self) -> Timestamp {
        self.saved_by
    }

    fn of_inode(
        &self,
        ino: u64,
        size: u64,
        stop: &AtomicBool,
    ) -> std::result::Result<Vec<BaseRow>, String> {
        let mut state = self.state.lock();
        if let State::Unmade = *state {
            *state =
                State::Made(Box::new(Index::of(self.cell, self.version, stop).map_err(|e| {
                    *state = State::Failed;
                    chain(&e)
                })?));
        }
        let State::Made(index) = &*state else { return Ok(Vec::new()) };
        index.find(ino, size).map_err(|e| {
            *state = State::Failed;
            chain(&e)
        })
    }
}

/// All files of a version that can be referred to.
struct Index<'a> {
    merged: Merged<'a>,
    table: Table,
    /// The streams that places name by their numbers.
    streams: Vec<StreamId>,
}

impl<'a> Index<'a> {
    fn of(cell: &'a Cell, version: VersionId, stop: &AtomicBool) -> Result<Self> {
        let mut view = VersionView::open(cell, version)?;
        cell.add_keys(&mut view, false)?;
        let merged = Merged::with_sums(view.into_rows())?;
        let mut index = Self { merged, table: Table::default(), streams: Vec::new() };
        let mut added = Ok(());
        while let Some(row) = index.merged.next()? {
            if stop.load(Relaxed) {
                return Err(CellError::Unfinished("stopped".to_owned()));
            }
            if let Some(known) = index.known(&row) {
                added = index.table.add(known);
            }
            if added.is_err() {
                break;
            }
        }
        let full = CellError::io("remember", "the files of the base");
        added.and_then(|()| index.table.finish()).map_err(full)?;
        Ok(index)
    }

    /// What is kept of a row; nothing of what has no contents, or not all of them.
    fn known(&mut self, row: &Row) -> Option<Known> {
        let e = &row.entry;
        if e.kind != Kind::File || e.link || e.size == 0 || !self.merged.overview.is_complete(row) {
            return None;
        }
        let run = match e.extents.as_slice() {
            [] => Some((row.data.stream, row.start)),
            [one] => match one.kind {
                ExtentKind::Data => Some((row.data.stream, row.start)),
                ExtentKind::At(stream, logical) => Some((stream, logical)),
                _ => None,
            },
            _ => None,
        };
        let place = match run {
            Some((stream, logical)) => Place::Run { stream: self.number(stream), logical },
            None => {
                let (stream, segment, row) = (row.data.stream, row.data.segment, row.data.row);
                Place::Row { stream: self.number(stream), segment, row }
            }
        };
        let sum = self.merged.overview.content_sum(row);
        let Entry { ino, dev, size, mtime, ctime, .. } = *e;
        Some(Known { ino, dev, size, mtime, ctime, sum, place })
    }

    fn number(&mut self, stream: StreamId) -> u32 {
        let known = self.streams.iter().position(|s| *s == stream);
        known.unwrap_or_else(|| {
            self.streams.push(stream);
            self.streams.len() - 1
        }) as u32
    }

    fn find(&self, ino: u64, size: u64) -> Result<Vec<BaseRow>> {
        let found = self.table.find(ino).map_err(CellError::io("look up", "a file of the base"))?;
        let found = found.into_iter().filter(|known| known.size == size);
        found.filter_map(|known| self.base_row(known).transpose()).collect()
    }

    fn base_row(&self, known: Known) -> Result<Option<BaseRow>> {
        let Known { ino, dev, size, mtime, ctime, sum, place } = known;
        let stream = |number: u32| self.streams.get(number as usize).copied();
        let (saved, data) = match place {
            Place::Run { stream: number, logical } => {
                let Some(stream) = stream(number) else { return Ok(None) };
                (vec![Saved { offset: 0, len: size, stream, logical }], None)
            }
            Place::Row { stream: number, segment, row } => {
                let Some(stream) = stream(number) else { return Ok(None) };
                let mut found = None;
                let view = &self.merged.view;
                view.rows_at(segment, stream, vec![row], &mut |row| found = Some(row))?;
                let Some(row) = found else { return Ok(None) };
                let data = data_ranges(&row.entry);
                let saved = saved_ranges(&self.merged.overview, &row);
                let (all, there): (u64, u64) =
                    (data.iter().map(|d| d.1).sum(), saved.iter().map(|s| s.len).sum());
                if all != there {
                    return Ok(None);
                }
                (saved, (data != [(0, size)]).then_some(data))
            }
        };
        Ok(Some(BaseRow {
            complete: true,
            sum,
            kind: Kind::File,
            access: None,
            details: None,
            size,
            mtime,
            ctime,
            ino,
            dev,
            data,
            link_to: None,
            saved,
        }))
    }
}
