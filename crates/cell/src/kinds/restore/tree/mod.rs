//! Restoring a tree: what all workers share, and what is done before and after their work.

pub(super) mod feed;
mod finish;
mod lent;
pub(super) mod losses;
mod prepare;
pub(super) mod referred;
pub(super) mod route;
mod run;
mod slice;

use std::collections::{HashMap, HashSet};

use capstan_catalog::row::Row;
use capstan_catalog::version::Overview;
use capstan_engine::meter::Meters;
use capstan_format::catalog::StreamContents;
use capstan_format::entry::{Kind, OutcomeCode};
use capstan_format::keys::Purpose;
use capstan_port::disk::restore::{FileRow, Name};
use capstan_port::media::read::spans::Spans;

use self::losses::Heard;
pub(crate) use self::prepare::is_in_parts;
use self::referred::Referred;
pub(crate) use self::route::Tapes;
use crate::error::Result;
use crate::kinds::restore::pace::Turn;
use crate::kinds::restore::stripped;
use crate::kinds::restore::wanted::chosen::Chosen;
use crate::kinds::restore::wanted::sample_arc::SampleArc;
use crate::kinds::restore::wanted::scope::Scope;
use crate::observe::Stop;
use crate::reading::version::VersionView;
use crate::request::{RestoreRequest, RestoreTo};

/// So many rows are pushed to the disk agent at a time.
const ROWS: usize = 64;

/// A live row that is wanted, or a directory that leads to one.
pub(in crate::kinds::restore) struct Live {
    pub row: Row,
    pub name: Name,
    /// Only what this restore made: a directory that leads to what is asked for, in place.
    pub if_made: bool,
}

/// Takes a live row.
type EachLive<'f> = dyn FnMut(Live) -> Result<()> + 'f;

/// Why a file's data may be on no medium at hand.
pub(crate) const NOT_THERE: &str = "its data are not all on the media at hand: the session did not get that far, or a \
                                    segment is missing or cut short";

/// What all workers of a restore share.
pub(in crate::kinds::restore) struct Restore<'a> {
    pub view: &'a VersionView<'a>,
    pub overview: &'a Overview,
    /// Which segments have what of each stream.
    pub spans: Spans,
    /// Which of them are on tapes.
    pub tapes: Tapes,
    /// What of tapes rows of other segments refer to.
    pub referred: Referred,
    pub request: &'a RestoreRequest,
    /// Of a drill: the sample. Only files are restored, and no flags set, so that all can be removed again.
    pub arc: Option<SampleArc>,
    /// Among others that read the same tapes.
    pub turn: Option<&'a Turn<'a>>,
    /// What is restored.
    pub chosen: Chosen,
    /// The batches that can have something of it, and of what stands in for links.
    pub scope: Scope,
    /// By first names that are not restored, or have something else that is kept: the first of their further names, which gets the
    /// contents.
    pub instead: HashMap<Vec<u8>, Vec<u8>>,
    /// Files that are written in parts, by their paths in the backup.
    pub in_parts: HashSet<Vec<u8>>,
    /// What the disk agent says.
    pub heard: &'a Heard<'a>,
    pub meters: &'a Meters,
    pub stop: &'a Stop,
}

impl Restore<'_> {
    /// The path below the target, or `None` if all its components are stripped.
    pub(in crate::kinds::restore) fn stripped<'p>(&self, path: &'p [u8]) -> Option<&'p [u8]> {
        stripped(path, self.request.strip)
    }

    /// Whether the path of a file, of whatever kind, is asked for.
    pub(in crate::kinds::restore) fn wants(&self, path: &[u8]) -> bool {
        self.wants_that(path, false)
    }

    pub(in crate::kinds::restore) fn wants_that(&self, path: &[u8], is_dir: bool) -> bool {
        // Of what is stripped to nothing, nothing comes: a further name has the contents.
        self.stripped(path).is_some()
            && self.chosen.has(path, is_dir)
            && self.arc.is_none_or(|arc| arc.has(path))
    }

    /// Whether a row is of what is asked for, or of a directory that leads to it.
    pub(in crate::kinds::restore) fn is_near(&self, path: &[u8], is_dir: bool) -> bool {
        let is_in_sample = self.arc.is_none_or(|arc| arc.has(path));
        is_in_sample && (self.chosen.has(path, is_dir) || self.chosen.leads(path))
    }

    pub(in crate::kinds::restore) fn live(
        &self,
        stream: &StreamContents,
        row: &Row,
        path: &[u8],
    ) -> bool {
        self.overview.is_first(stream, row) && !self.overview.is_replaced(path, row.ordinal)
    }

    /// The names of a file that is not passed on as a row.
    pub(in crate::kinds::restore) fn name_of(&self, stored: Vec<u8>) -> Name {
        let shown = self.instead.get(&stored).cloned();
        let stripped = shown.as_ref().unwrap_or(&stored).len();
        Name { stored, shown, stripped }
    }

    /// The names of a file that is restored under one of these paths in the backup; nothing if all components are stripped.
    fn named(&self, stored: Vec<u8>, shown: Option<Vec<u8>>) -> Option<Name> {
        let path = shown.as_deref().unwrap_or(&stored);
        let stripped = path.len() - self.stripped(path)?.len();
        Some(Name { stored, shown, stripped })
    }

    /// The names of a file, if it is restored.
    pub(in crate::kinds::restore) fn name(&self, stored: Vec<u8>) -> Option<Name> {
        match self.instead.get(&stored).cloned() {
            None if !self.wants(&stored) => None,
            shown => self.named(stored, shown),
        }
    }

    /// Whether a file is restored, under its own name or another.
    pub(in crate::kinds::restore) fn has_place(&self, stored: &[u8]) -> bool {
        self.instead.contains_key(stored) || self.wants(stored)
    }

    /// A row as the disk agent gets it.
    pub(in crate::kinds::restore) fn file_row(&self, row: Row, name: Name) -> FileRow {
        let is_unreadable = self
            .overview
            .outcomes(&name.stored, row.ordinal)
            .any(|o| o.code == OutcomeCode::Unreadable);
        FileRow {
            believed_len: self.overview.believed_len(&row),
            is_unreadable,
            contents_time: self.overview.carried_mtime(row.ordinal),
            name,
            entry: row.entry,
            user: row.user,
            group: row.group,
            acl: row.acl,
            stream: row.ordinal.stream,
            start: row.start,
        }
    }

    /// Calls with each live row that is wanted, or leads to one.
    pub(in crate::kinds::restore) fn each_live(&self, each: &mut EachLive<'_>) -> Result<()> {
        self.scope.rows(self.view, &mut |stream, row| {
            // Of what has contents for a later version's row, only those are wanted.
            if !row.entry.kind.is_inode() || self.overview.is_carrier(row.ordinal) {
                return Ok(());
            }
            let stored = row.entry.path();
            let is_dir = row.entry.kind == Kind::Dir;
            let is_wanted = self.wants_that(&stored, is_dir);
            // An ancestor of what is asked for is made on the way and gets its metadata; in place where this restore made it.
            let leads = || is_dir && self.chosen.leads(&stored);
            let shown = self.instead.get(&stored).cloned();
            if shown.is_none() && !is_wanted && !leads() || !self.live(stream, &row, &stored) {
                return Ok(());
            }
            let Some(name) = self.named(stored, shown) else { return Ok(()) };
            let in_place = matches!(self.request.to, RestoreTo::InPlace);
            each(Live { row, name, if_made: !is_wanted && is_dir && in_place })
        })
    }
}

/// What opens the frames of a version.
#[derive(Clone, Copy)]
pub(in crate::kinds::restore) struct TreeKeys<'a>(&'a VersionView<'a>);

impl TreeKeys<'_> {
    /// An error if a stream's key does not serve: that ends the restore, and is no fault of its files.
    fn check(self, stream: &StreamContents) -> Result<()> {
        let label = stream.label.as_ref().map(|l| &l.session);
        self.0.keys.sealer(Purpose::Contents, label, stream.stream)?;
        Ok(())
    }
}
