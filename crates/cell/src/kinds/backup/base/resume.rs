//! Resuming: what an incomplete session committed is the base of the next run of the same version.

use capstan_catalog::CatalogError;
use capstan_catalog::row::Row;
use capstan_catalog::version::{Merged, Overview, SavedRange};
use capstan_engine::message::Code;
use capstan_format::entry::{ExtentKind, Kind};
use capstan_format::id::SessionId;
use capstan_idb::{Object, Status, Version};
use capstan_port::disk::base::{BaseBroken, BaseRow, BaseRows, Details, NamedRow, Saved};

use crate::Cell;
use crate::error::{Result, chain};
use crate::process::birth;
use crate::reading::version::VersionView;
use crate::session::{SessionLog, is_consolidation};

/// The rows of a version that is built on or gone on with, as a disk agent takes them.
pub(crate) struct Cursor<'a> {
    merged: Merged<'a>,
    /// Why no more of it can be read.
    failed: Option<CatalogError>,
    /// Of a version that is gone on with: its sessions. What they have of a file can be referred to.
    goes_on_with: Vec<SessionId>,
}

impl<'a> Cursor<'a> {
    pub fn new(merged: Merged<'a>) -> Self {
        Self { merged, failed: None, goes_on_with: Vec::new() }
    }

    /// Whether all of it is encrypted, or nothing.
    pub fn is_all_encrypted(&self, encrypted: bool) -> bool {
        self.merged.view.encrypted_alike(encrypted)
    }

    /// Why it could not be read to its end.
    pub fn failed(&self) -> Option<&CatalogError> {
        self.failed.as_ref()
    }

    /// Whether a row's contents, as far as they are on media, are of this version and of one state of their file.
    fn can_be_gone_on_with(&self, row: &Row) -> bool {
        let (overview, path) = (&self.merged.overview, row.entry.path());
        let place = self.merged.view.segments.get(row.data.segment as usize);
        row.entry.kind == Kind::File
            && !row.entry.link
            && row.data == row.ordinal
            && place.is_some_and(|place| self.goes_on_with.contains(&place.by))
            && overview.outcome(&path, row.ordinal).is_none()
            && !overview.is_replaced(&path, row.ordinal)
    }

    fn base_row(&self, row: &Row) -> BaseRow {
        let overview = &self.merged.overview;
        let complete = overview.is_complete(row);
        let e = &row.entry;
        let mut saved = Vec::new();
        if !complete && self.can_be_gone_on_with(row) {
            saved = saved_ranges(overview, row);
        }
        BaseRow {
            saved,
            complete,
            sum: if complete { overview.content_sum(row) } else { None },
            kind: e.kind,
            access: Some(e.into()),
            details: Details::needed_of(e),
            size: e.size,
            mtime: e.mtime,
            ctime: e.ctime,
            ino: e.ino,
            dev: e.dev,
            data: e.extents.iter().any(|x| x.kind == ExtentKind::Hole).then(|| e.data_ranges()),
            link_to: e.link.then(|| e.target.clone()),
        }
    }
}

/// What of a row's contents is on media, as a disk agent takes it.
pub(crate) fn saved_ranges(overview: &Overview, row: &Row) -> Vec<Saved> {
    let ranges = overview.saved_of(row).into_iter();
    let saved =
        |SavedRange { offset, len, stream, logical }| Saved { offset, len, stream, logical };
    ranges.map(saved).collect()
}

impl BaseRows for Cursor<'_> {
    fn next(&mut self) -> std::result::Result<Option<NamedRow>, BaseBroken> {
        let row = self.merged.next().map_err(|e| {
            self.failed.get_or_insert(e);
            BaseBroken
        })?;
        Ok(row.map(|row| {
            let base = self.base_row(&row);
            NamedRow { dir: row.entry.dir, name: row.entry.name, row: base }
        }))
    }
}

/// What a backup goes on with.
pub(crate) struct Resumed<'a> {
    pub version: Version,
    pub parent: SessionId,
    /// When that was begun: what goes on with it comes after it, whatever the clock says.
    pub parent_started_us: i64,
    pub cursor: Cursor<'a>,
}

/// The incomplete version of an object that can be resumed: its newest that has something on media, if that is incomplete.
pub(crate) fn resumable<'a>(
    cell: &'a Cell,
    object: &Object,
    log: &SessionLog<'_>,
) -> Result<Option<Resumed<'a>>> {
    let mut newest = None;
    for version in cell.idb.versions_of(object.id)? {
        // What ended before it had anything is no reason to give up what an earlier one has.
        let came_to_nothing = matches!(version.status, Status::Incomplete | Status::Failed)
            && cell.idb.segments_of_version(version.id)?.is_empty();
        // A consolidation that came to no end is begun anew, not gone on with by a backup.
        if !version.null_device && !came_to_nothing && !is_consolidation(cell, &version)? {
            newest = Some(version);
            break;
        }
    }
    let Some(version) = newest.filter(|v| v.status == Status::Incomplete) else { return Ok(None) };
    let sessions = cell.idb.sessions_of_version(version.id)?;
    let Some(last) = sessions.last() else { return Ok(None) };
    let (parent, parent_started_us) = (last.id, last.started_us);
    let mut view = VersionView::open(cell, version.id)?;
    // A run that goes on by itself on the next medium has just written what it goes on with.
    let is_own = (last.pid, &last.birth) == (std::process::id(), &birth());
    if !is_own && let Err(e) = cell.require_to_build_on(&view) {
        let text = format!(
            "the incomplete session is not gone on with, as what it has is not all at hand: {}",
            chain(&e)
        );
        log.say(Code::NoBase, "cell", &object.name, text);
        return Ok(None);
    }
    // Where times prove nothing, checksums tell what an earlier run has.
    let opened = match is_own {
        false => cell.cursor_in(view),
        true => cell
            .add_keys(&mut view, false)
            .and_then(|()| Ok(Cursor::new(Merged::with_sums(view.into_rows())?))),
    };
    match opened {
        Ok(mut cursor) => {
            cursor.goes_on_with = sessions.iter().map(|s| s.id).collect();
            Ok(Some(Resumed { version, parent, parent_started_us, cursor }))
        }
        Err(e) => {
            let text = format!("cannot go on with the incomplete session, all is saved anew: {e}");
            log.say(Code::Adapted, "cell", &object.name, text);
            Ok(None)
        }
    }
}
