//! The files of a version that is built on, as a stream for the disk agent: it finds those again that have other names now.

use capstan_catalog::row::Row;
use capstan_catalog::version::Merged;
use capstan_format::entry::{Entry, ExtentKind, Kind, Timestamp};
use capstan_format::id::{StreamId, VersionId};
use capstan_port::disk::base::{BaseFile, BaseFiles, FilePlace, Pieces, RowPlace};
use parking_lot::Mutex;

use crate::Cell;
use crate::error::{Result, chain};
use crate::kinds::backup::base::resume::saved_ranges;
use crate::reading::version::VersionView;

/// The files that a version has.
pub(crate) struct Files<'a> {
    cell: &'a Cell,
    version: VersionId,
    saved_by: Timestamp,
    /// The version, once all of it was read.
    merged: Mutex<Option<Merged<'a>>>,
}

impl<'a> Files<'a> {
    /// For who builds on a version, which has a session that ended.
    pub fn of(cell: &'a Cell, version: VersionId) -> Result<Self> {
        let ended_us =
            cell.idb.sessions_of_version(version)?.iter().filter_map(|s| s.ended_us).max();
        let ended_us = ended_us.unwrap_or(i64::MAX);
        let nsec = (ended_us.rem_euclid(1_000_000) * 1000) as u32;
        let saved_by = Timestamp { sec: ended_us.div_euclid(1_000_000), nsec };
        Ok(Self { cell, version, saved_by, merged: Mutex::new(None) })
    }
}

impl BaseFiles for Files<'_> {
    fn saved_by(&self) -> Timestamp {
        self.saved_by
    }

    fn each(&self, each: &mut dyn FnMut(BaseFile) -> bool) -> std::result::Result<(), String> {
        self.read(each).map_err(|e| chain(&e))
    }

    fn pieces(
        &self,
        stream: StreamId,
        at: RowPlace,
    ) -> std::result::Result<Option<Pieces>, String> {
        let merged = self.merged.lock();
        let Some(merged) = &*merged else { return Ok(None) };
        pieces_of(merged, stream, at).map_err(|e| chain(&e))
    }
}

impl Files<'_> {
    fn read(&self, each: &mut dyn FnMut(BaseFile) -> bool) -> Result<()> {
        let mut view = VersionView::open(self.cell, self.version)?;
        self.cell.add_keys(&mut view, false)?;
        let mut merged = Merged::with_sums(view.into_rows())?;
        while let Some(row) = merged.next()? {
            if file_of(&merged, &row).is_some_and(|file| !each(file)) {
                return Ok(());
            }
        }
        *self.merged.lock() = Some(merged);
        Ok(())
    }
}

/// What a disk agent gets of a row; nothing of what has no contents, or not all of them.
fn file_of(merged: &Merged<'_>, row: &Row) -> Option<BaseFile> {
    let e = &row.entry;
    if e.kind != Kind::File || e.link || e.size == 0 || !merged.overview.is_complete(row) {
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
    let (stream, place) = match run {
        Some((stream, logical)) => (stream, FilePlace::Run(logical)),
        None => {
            let at = RowPlace { segment: row.data.segment, row: row.data.row };
            (row.data.stream, FilePlace::Row(at))
        }
    };
    let sum = merged.overview.content_sum(row);
    let Entry { ino, dev, size, mtime, ctime, .. } = *e;
    Some(BaseFile { ino, dev, size, mtime, ctime, sum, stream, place })
}

/// Where the contents are of which a row says that they lie in several places; nothing where not all of them are there.
fn pieces_of(merged: &Merged<'_>, stream: StreamId, at: RowPlace) -> Result<Option<Pieces>> {
    let mut found = None;
    merged.view.rows_at(at.segment, stream, vec![at.row], &mut |row| found = Some(row))?;
    let Some(row) = found else { return Ok(None) };
    let data = row.entry.data_ranges();
    let saved = saved_ranges(&merged.overview, &row);
    let all: u64 = data.iter().map(|d| d.1).sum();
    let there: u64 = saved.iter().map(|s| s.len).sum();
    let has_holes = data != [(0, row.entry.size)];
    Ok((all == there).then(|| Pieces { data: has_holes.then_some(data), saved }))
}
