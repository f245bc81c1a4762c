//! What a restore would bring: each path, and all in number and size. Nothing is read but catalogs.

use std::collections::{BTreeSet, HashSet};

use capstan_catalog::listed::{Listed, listed};
use capstan_catalog::row::{Row, path_of};
use capstan_catalog::version::{Merged, Overview};
use capstan_format::entry::{Entry, Kind, split};

use crate::Cell;
use crate::error::Result;
use crate::kinds::restore::check;
use crate::kinds::restore::wanted::chosen::Chosen;
use crate::kinds::restore::wanted::scope::Scope;
use crate::observe::Observer;
use crate::reading::version::VersionView;
use crate::request::{RestoreRequest, RestoreTo};
use crate::session::SessionLog;

/// What a restore would bring.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RestoreTotals {
    /// Files, all that are not directories.
    pub files: u64,
    /// Directories.
    pub dirs: u64,
    /// Bytes of contents.
    pub bytes: u64,
}

/// Counts what a restore brings.
pub(super) struct Tally<'a> {
    chosen: &'a Chosen,
    strip: usize,
    /// Whether directories that lead to what is chosen come too.
    with_ancestors: bool,
    /// Whether it is for an archive: that has no sockets.
    to_archive: bool,
    /// First names that are not chosen, of which a further one has the contents.
    stood_for: HashSet<Vec<u8>>,
    pub files: u64,
    pub dirs: u64,
    pub bytes: u64,
    /// Those of them that are on media: not what is in holes.
    pub data: u64,
}

impl<'a> Tally<'a> {
    pub fn new(request: &RestoreRequest, chosen: &'a Chosen) -> Self {
        Self {
            chosen,
            strip: request.strip,
            with_ancestors: matches!(request.to, RestoreTo::Into(_)),
            to_archive: matches!(request.to, RestoreTo::Tar(_)),
            stood_for: HashSet::new(),
            files: 0,
            dirs: 0,
            bytes: 0,
            data: 0,
        }
    }

    /// Whether a path comes.
    pub fn takes(&self, entry: &Entry, path: &[u8]) -> bool {
        let is_dir = entry.kind == Kind::Dir;
        let leads = || is_dir && self.with_ancestors && self.chosen.leads(path);
        if self.to_archive && entry.kind == Kind::Socket {
            return false;
        }
        self.has(path, is_dir) || self.remains(path) && leads()
    }

    fn has(&self, path: &[u8], is_dir: bool) -> bool {
        self.remains(path) && self.chosen.has(path, is_dir)
    }

    /// Whether anything of a path is left when components are stripped. Of the root directory nothing is.
    fn remains(&self, path: &[u8]) -> bool {
        !path.is_empty() && path.split(|b| *b == b'/').count() > self.strip
    }

    /// Counts one that does; gives the bytes of contents that come with it.
    pub fn count(&mut self, entry: &Entry) -> u64 {
        self.count_with(entry, false)
    }

    /// The same, where the first name of a further one may not get the contents.
    pub fn count_with(&mut self, entry: &Entry, is_first_kept: bool) -> u64 {
        if entry.kind == Kind::Dir {
            self.dirs += 1;
            return 0;
        }
        self.files += 1;
        // Of a file of several names that are restored, one has the contents.
        let first = entry.link && (is_first_kept || !self.has(&entry.target, false));
        let bytes = match entry.link {
            true if first && self.stood_for.insert(entry.target.clone()) => entry.size,
            true => 0,
            false => entry.size,
        };
        self.bytes = self.bytes.saturating_add(bytes);
        let data = entry.data_ranges().iter().fold(0_u64, |sum, range| sum.saturating_add(range.1));
        self.data = self.data.saturating_add(data.min(bytes));
        bytes
    }
}

/// What a restore chooses of a version, and the rows of that version.
pub(super) struct Coming<'a> {
    pub merged: Merged<'a>,
    pub chosen: Chosen,
}

impl Cell {
    /// What a restore chooses, by the catalogs alone. Refuses what the restore would.
    pub(super) fn coming(
        &self,
        request: &RestoreRequest,
        log: &SessionLog<'_>,
    ) -> Result<Coming<'_>> {
        let version = self.version(&request.version)?;
        let name = &request.version.name;
        self.say_incomplete(&version, log)?;
        self.say_lost(version.id, name, || None, log)?;
        let mut view = VersionView::open_known(self, version.id)?.0;
        self.add_keys(&mut view, false)?;
        check::destination(request)?;
        let mut chosen = self.chosen_of(request, &version)?;
        let scope = Scope::of(&view, &chosen, &[])?;
        let overview = Overview::with_replaced(&view)?;
        check::choose(&view, &overview, &mut chosen, &scope, log, name)?;
        Ok(Coming { merged: Merged::new(view.into_rows())?, chosen })
    }

    /// Calls with each path that a restore would bring and the bytes of contents that come with it; those of paths that are
    /// named path by path. Refuses what the restore would.
    pub fn list_restore(
        &self,
        request: &RestoreRequest,
        observer: &dyn Observer,
        each: &mut dyn FnMut(&Listed, u64),
    ) -> Result<RestoreTotals> {
        let log = SessionLog::new(observer);
        let Coming { mut merged, chosen } = self.coming(request, &log)?;
        let mut tally = Tally::new(request, &chosen);
        let mut take = |merged: &Merged<'_>, row: &Row| {
            if row.entry.kind.is_inode() && tally.takes(&row.entry, &path_of(row)) {
                let bytes = tally.count(&row.entry);
                each(&listed(merged, row), bytes);
            }
        };
        let mut asked: Vec<&Vec<u8>> = chosen.paths().collect();
        if asked.is_empty() {
            asked.push(const { &Vec::new() });
        }
        asked.sort_unstable();
        let mut above: BTreeSet<Vec<u8>> = BTreeSet::new();
        for path in asked {
            // What is below another that is asked for was listed with that one.
            if !path.is_empty() && chosen.asked_of(split(path).0).is_some() {
                continue;
            }
            let mut leading = Vec::new();
            let mut at = path.as_slice();
            while !at.is_empty() {
                at = split(at).0;
                leading.push(at.to_vec());
            }
            for dir in leading.into_iter().rev() {
                if above.insert(dir.clone()) {
                    merged.each_below(&dir, Some(0), &mut take)?;
                }
            }
            merged.each_below(path, None, &mut take)?;
        }
        let Tally { files, dirs, bytes, .. } = tally;
        Ok(RestoreTotals { files, dirs, bytes })
    }
}
