//! Restoring a tree: what all workers share, and what is done before and after their work.

mod finish;
pub(super) mod firsts;
mod hand;
pub(super) mod losses;
pub(super) mod parts;
mod prepare;
pub(super) mod referred;
pub(super) mod route;
mod run;
mod slice;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64};

use capstan_catalog::row::Row;
use capstan_catalog::version::Overview;
use capstan_disk_agent::target::{Target, TargetError, Worker};
use capstan_engine::message::Code;
use capstan_engine::meter::Meters;
use capstan_format::catalog::{Contents, StreamContents};
use capstan_format::entry::{Entry, Kind};
use capstan_media_agent::read::segment::SegmentReader;
use parking_lot::Mutex;

use self::firsts::Firsts;
pub(crate) use self::prepare::is_in_parts;
use self::referred::Referred;
pub(crate) use self::route::Tapes;
use crate::error::Result;
use crate::kinds::restore::pace::Turn;
use crate::kinds::restore::stripped;
use crate::kinds::restore::tree::losses::{Carried, Loss};
use crate::kinds::restore::tree::parts::InParts;
use crate::kinds::restore::wanted::chosen::Chosen;
use crate::kinds::restore::wanted::sample_arc::SampleArc;
use crate::kinds::restore::wanted::scope::Scope;
use crate::observe::Stop;
use crate::reading::away_files::AwayFiles;
use crate::reading::losses::Lost;
use crate::reading::random::Spans;
use crate::reading::version::VersionView;
use crate::request::{RestoreRequest, RestoreTo};
use crate::session::Ears;

/// Takes a live row, its stored path, and its path below the target.
type EachLive<'f> = dyn FnMut(&Row, &[u8], &[u8]) -> Result<()> + 'f;

/// A segment that is open to read, and what it holds where it is read.
pub(in crate::kinds::restore) type OpenedData = (SegmentReader, std::sync::Arc<Contents>);

/// Why a file's data may be on no medium at hand.
pub(crate) const NOT_THERE: &str = "its data are not all on the media at hand: the session did not get that far, or a \
                                    segment is missing or cut short";

/// What a restore counts.
#[derive(Default)]
pub(in crate::kinds::restore) struct Counts {
    pub files: AtomicU64,
    pub dirs: AtomicU64,
    pub bytes: AtomicU64,
    pub lost: AtomicU64,
}

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
    pub target: &'a Target,
    pub request: &'a RestoreRequest,
    /// Of a drill: the sample. Only files are restored, and no flags set, so that all can be removed again.
    pub arc: Option<SampleArc>,
    /// Among others that read the same tapes.
    pub turn: Option<&'a Turn<'a>>,
    /// What is restored.
    pub chosen: Chosen,
    /// The batches that can have something of it, and of what stands in for links.
    pub scope: Scope,
    /// Files written in parts.
    pub in_parts: HashMap<Vec<u8>, InParts>,
    /// Further names whose first name is not restored, by first name.
    pub instead: HashMap<Vec<u8>, Vec<Entry>>,
    /// What became of files whose metadata come from a later version than their contents. One that is not here did not come.
    pub carried: Mutex<HashMap<Vec<u8>, Carried>>,
    /// Files that were made, of those that may get inode flags: what stays in the place of others gets none.
    pub flagged: Mutex<HashSet<Vec<u8>>>,
    /// Files whose data are not all there, and how that is.
    pub damaged: Mutex<HashMap<Vec<u8>, Loss>>,
    /// What reading found of files, where some of them have further names: these have it too.
    pub found: Mutex<HashMap<Vec<u8>, (Code, String)>>,
    /// Files of which something is on media that are away.
    pub away: AwayFiles,
    /// Ranges of streams that could not be read.
    pub lost: Mutex<Lost>,
    /// Segments of which a frame was damaged where it was looked for first.
    pub hurt: Mutex<HashSet<usize>>,
    /// Which first names further ones can be made links to.
    pub firsts: Firsts,
    pub counts: Counts,
    pub meters: &'a Meters,
    pub ears: &'a Ears<'a>,
    pub stop: &'a Stop,
    pub bytes_read: AtomicU64,
    /// Whether data were read that carry no checksums.
    pub unchecked: AtomicBool,
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

    /// An ancestor of what is asked for, which is made on the way and gets its metadata; in place where this restore made it.
    pub(in crate::kinds::restore) fn leads_to(&self, path: &[u8]) -> bool {
        let is_ours = || match self.request.to {
            RestoreTo::Into(_) => true,
            RestoreTo::InPlace => self.target.has_made(path),
            RestoreTo::Tar(_) => false,
        };
        self.chosen.leads(path) && is_ours()
    }

    pub(in crate::kinds::restore) fn live(
        &self,
        stream: &StreamContents,
        row: &Row,
        path: &[u8],
    ) -> bool {
        self.overview.is_first(stream, row) && !self.overview.is_replaced(path, row.ordinal)
    }

    /// The row with owners as they are here. One that has the data of a later row has that one's time: what exists is held against it.
    pub(in crate::kinds::restore) fn here(&self, row: &Row) -> Entry {
        let ids = self.target.ids();
        Entry {
            uid: ids.uid(row.entry.uid, row.user.as_deref()),
            gid: ids.gid(row.entry.gid, row.group.as_deref()),
            mtime: self.overview.carried_mtime(row.ordinal).unwrap_or(row.entry.mtime),
            ..row.entry.clone()
        }
    }

    /// Notes of a file that was made that it may get inode flags in the end.
    pub(in crate::kinds::restore) fn may_get_flags(&self, path: &[u8]) {
        if self.overview.flagged > 0 {
            self.flagged.lock().insert(path.to_vec());
        }
    }

    /// What exists in a file's place is kept: further names can be made links to it if it is what they were.
    pub(in crate::kinds::restore) fn first_stays(
        &self,
        worker: &mut Worker<'_>,
        path: &[u8],
        (entry, dir, name): (&Entry, &[u8], &[u8]),
    ) -> std::result::Result<(), TargetError> {
        if self.firsts.is_asked(path) && worker.is_like(entry, dir, name)? {
            self.firsts.add(path);
        }
        Ok(())
    }

    /// Under which stored name a file is restored, if it is.
    pub(in crate::kinds::restore) fn place_of(&self, path: &[u8]) -> Option<Vec<u8>> {
        let instead = || Some(self.instead.get(path)?.first()?.path());
        if self.wants(path) { Some(path.to_vec()) } else { instead() }
    }

    /// Under which names a stored file is restored: its own if asked for, and those of links whose first name it is.
    pub(in crate::kinds::restore) fn places_of(
        &self,
        path: &[u8],
        entry: &Entry,
    ) -> Vec<(Vec<u8>, Entry)> {
        let mut places = Vec::new();
        if self.wants(path) {
            places.push((path.to_vec(), entry.clone()));
        } else if let Some(first) = self.instead.get(path).and_then(|l| l.first()) {
            places.push((first.path(), Entry { link: false, target: Vec::new(), ..entry.clone() }));
        }
        places
    }

    /// Calls with each live row that is wanted (or leads to one), its stored path, and its path below the target.
    pub(in crate::kinds::restore) fn each_live(&self, each: &mut EachLive<'_>) -> Result<()> {
        self.scope.rows(self.view, &mut |stream, row| {
            // Of what has contents for a later version's row, only those are wanted.
            if !row.entry.kind.is_inode() || self.overview.is_carrier(row.ordinal) {
                return Ok(());
            }
            let path = row.entry.path();
            let is_dir = row.entry.kind == Kind::Dir;
            let wanted = self.wants_that(&path, is_dir) || (is_dir && self.leads_to(&path));
            if wanted && self.live(stream, &row, &path) {
                if let Some(to) = self.stripped(&path) {
                    each(&row, &path, to)?;
                }
            } else if !wanted && self.instead.contains_key(&path) && self.live(stream, &row, &path)
            {
                for link in self.instead[&path].iter().take(1) {
                    let place = link.path();
                    if let Some(to) = self.stripped(&place) {
                        each(&row, &path, to)?;
                    }
                }
            }
            Ok(())
        })
    }
}
