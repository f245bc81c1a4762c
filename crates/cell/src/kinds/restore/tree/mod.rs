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

use std::collections::HashMap;

use capstan_catalog::row::Row;
use capstan_catalog::version::Overview;
use capstan_disk_agent::restore::{FileRow, Files, Named};
use capstan_engine::meter::Meters;
use capstan_format::catalog::StreamContents;
use capstan_format::entry::{Kind, OutcomeCode};
use capstan_format::keys::Purpose;
use capstan_media_agent::serve::spans::Spans;
use capstan_stream::contents::ContentsKeys;

use self::finish::Live;
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
use crate::reading::contents::contents_keys;
use crate::reading::version::VersionView;
use crate::request::{RestoreRequest, RestoreTo};

/// Takes a live row.
type EachLive<'f> = dyn FnMut(Live<'_>) -> Result<()> + 'f;

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
    /// The files at the disk agent, and what it says of them.
    pub files: Files<'a>,
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
    pub(in crate::kinds::restore) fn name_of<'p>(&'p self, path: &'p [u8]) -> Named<'p> {
        let shown = self.instead.get(path).map(Vec::as_slice);
        Named { stored: path, shown: shown.unwrap_or(path), to: b"" }
    }

    /// A row as the disk agent gets it: `stored` is its path in the backup, `shown` that under which it is restored, `to` where.
    pub(in crate::kinds::restore) fn file_row<'r>(
        &self,
        row: &'r Row,
        (stored, shown, to): (&'r [u8], &'r [u8], &'r [u8]),
    ) -> FileRow<'r> {
        let mut outcomes = self.overview.outcomes(stored, row.ordinal);
        FileRow {
            name: Named { stored, shown, to },
            entry: &row.entry,
            user: row.user.as_deref(),
            group: row.group.as_deref(),
            acl: row.acl.as_deref(),
            stream: row.ordinal.stream,
            start: row.start,
            believed_len: self.overview.believed_len(row),
            is_unreadable: outcomes.any(|o| o.code == OutcomeCode::Unreadable),
            contents_time: self.overview.carried_mtime(row.ordinal),
        }
    }

    /// Under which stored name a file is restored, if it is.
    pub(in crate::kinds::restore) fn place_of(&self, path: &[u8]) -> Option<Vec<u8>> {
        let itself = || self.wants(path).then(|| path.to_vec());
        self.instead.get(path).cloned().or_else(itself)
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
            let shown = match self.instead.get(&stored) {
                Some(link) => link.clone(),
                None if is_wanted || leads() => stored.clone(),
                None => return Ok(()),
            };
            if self.live(stream, &row, &stored)
                && let Some(to) = self.stripped(&shown)
            {
                let in_place = matches!(self.request.to, RestoreTo::InPlace);
                let if_made = !is_wanted && is_dir && in_place;
                each(Live { row: &row, stored: &stored, shown: &shown, to, if_made })?;
            }
            Ok(())
        })
    }
}

/// What opens the frames of a version.
#[derive(Clone, Copy)]
pub(in crate::kinds::restore) struct TreeKeys<'a>(&'a VersionView<'a>);

impl<'a> TreeKeys<'a> {
    fn of_contents(self) -> Box<ContentsKeys<'a>> {
        contents_keys(&self.0.keys)
    }

    /// An error if a stream's key does not serve: that ends the restore, and is no fault of its files.
    fn check(self, stream: &StreamContents) -> Result<()> {
        let label = stream.label.as_ref().map(|l| &l.session);
        self.0.keys.sealer(Purpose::Contents, label, stream.stream)?;
        Ok(())
    }
}
