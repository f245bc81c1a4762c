//! Files as they are restored: their contents come frame by frame, their metadata last; what does not come of them is said once.
//!
//! [`port::disk::restore`](capstan_port::disk::restore) says how it is asked for. [`Files`] is what all threads share: what became of each
//! file that needs it. Each thread has a [`FileWorker`], which writes files as their rows come. When all contents are there, [`Finish`]
//! gives what was written in parts its metadata, makes further names, and finishes directories.

pub(crate) mod archive;
mod finish;
mod firsts;
mod kept_firsts;
mod losses;
pub(crate) mod open;
mod parts;
mod worker;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use capstan_engine::frames::FramePort;
use capstan_engine::message::{Code, chain, path_text};
use capstan_engine::meter::Meters;
use capstan_engine::problem::Explain;
use capstan_format::entry::Entry;
use capstan_port::disk::restore::{
    Ending, FileRow, Name, RestoreEnded, RestoreFinish, RestoreListener, RestoreRun, RestoreWith,
    RestoreWorker, TargetFull, ToPrepare,
};
use capstan_wire::keys::SessionKey;
use capstan_wire::restore::{RestoreCounts, RestoreDone};
use parking_lot::Mutex;

use self::finish::Finish;
use self::firsts::Firsts;
use self::kept_firsts::KeptFirsts;
use self::losses::{Carried, Loss};
use self::open::left_alone;
use self::parts::InParts;
use self::worker::FileWorker;
use crate::target::{Target, TargetError, Worker};

/// What a restore counts.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Files, all that are not directories.
    pub files: AtomicU64,
    /// Directories.
    pub dirs: AtomicU64,
    /// Bytes of contents that were written.
    pub bytes: AtomicU64,
    /// Files that did not come whole.
    pub lost: AtomicU64,
    /// Stored bytes of frames that came.
    pub bytes_read: AtomicU64,
}

/// What all threads of a restore share.
pub(crate) struct Files<'a> {
    target: Target,
    listener: &'a dyn RestoreListener,
    meters: &'a Meters,
    stop: &'a AtomicBool,
    /// What opens contents.
    keys: Vec<SessionKey>,
    /// What was done so far.
    counts: Counts,
    /// Whether contents came that have no checksums.
    is_unchecked: AtomicBool,
    /// Whether any file has further names, or inode flags: then what matters for these is kept.
    has_links: bool,
    has_flags: bool,
    /// Files that are written in parts.
    in_parts: HashMap<Vec<u8>, InParts>,
    /// Which first names further ones can be made links to.
    firsts: Firsts,
    kept_firsts: KeptFirsts,
    /// What became of files whose metadata come from a later version than their contents. One that is not here did not come.
    carried: Mutex<HashMap<Vec<u8>, Carried>>,
    /// Files that may get inode flags: those that were made, and those that were there and look like what they are to be; of these whether
    /// they count as put right when their flags change.
    flagged: Mutex<HashMap<Vec<u8>, bool>>,
    /// Files whose data are not all there, and how that is.
    losses: Mutex<HashMap<Vec<u8>, Loss>>,
    has_losses: AtomicBool,
    /// What the backup found of files, where some have further names: these have it too.
    found: Mutex<HashMap<Vec<u8>, (Code, String)>>,
}

impl RestoreRun for Files<'_> {
    fn prepare(&mut self, rows: &mut Vec<ToPrepare>) {
        let mut links = Vec::new();
        for row in rows.drain(..) {
            match row {
                ToPrepare::Lost(name, why) => self.lost(&name, &why),
                ToPrepare::First(stored) => self.firsts.ask(&stored),
                ToPrepare::Link(link) => links.push(link),
                ToPrepare::InParts(row, bytes) => self.expect_parts(&row, bytes),
            }
        }
        self.kept_firsts.take(&self.target, links);
    }

    fn kept_firsts(&mut self) -> Vec<(Vec<u8>, Vec<u8>)> {
        self.kept_firsts.instead(self.target.tally())
    }

    fn worker<'w>(&'w self, frames: Box<dyn FramePort + 'w>) -> Box<dyn RestoreWorker + 'w> {
        Box::new(FileWorker::new(self, frames))
    }

    fn finish<'w>(&'w self) -> Box<dyn RestoreFinish + 'w> {
        Box::new(Finish::new(self))
    }

    fn end(&self, how: Ending) -> Result<(), RestoreEnded> {
        if how != Ending::Done {
            self.date_unfinished();
        }
        let withdrawn = self.target.worker().withdraw_rest();
        match how {
            Ending::Failed => Ok(()),
            Ending::Done | Ending::Stopped => {
                Ok(withdrawn.or_else(|e| self.target_error(b"", &e))?)
            }
        }
    }

    fn counts(&self) -> RestoreCounts {
        let of = |n: &AtomicU64| n.load(Relaxed);
        let Counts { files, dirs, bytes, lost, bytes_read } = &self.counts;
        RestoreCounts {
            files: of(files),
            dirs: of(dirs),
            bytes: of(bytes),
            lost: of(lost),
            bytes_read: of(bytes_read),
        }
    }

    fn done(&self, object: &str) -> RestoreDone {
        self.say_tally(object);
        RestoreDone {
            left_alone: left_alone(&self.target),
            leftovers_removed: self.target.leftovers_removed(),
            is_unchecked: self.is_unchecked.load(Relaxed),
            away: self.away(),
        }
    }
}

impl<'a> Files<'a> {
    /// Nothing is restored yet.
    pub fn new(target: Target, with: RestoreWith<'a>) -> Self {
        let RestoreWith { listener, meters, stop, keys, has_links, has_flags } = with;
        Self {
            target,
            listener,
            meters,
            stop,
            keys,
            counts: Counts::default(),
            is_unchecked: AtomicBool::new(false),
            has_links,
            has_flags,
            in_parts: HashMap::new(),
            firsts: Firsts::default(),
            kept_firsts: KeptFirsts::default(),
            carried: Mutex::default(),
            flagged: Mutex::default(),
            losses: Mutex::default(),
            has_losses: AtomicBool::new(false),
            found: Mutex::default(),
        }
    }

    /// Says what the backup found of a file; its further names have it too.
    fn found(&self, name: &Name, code: Code, text: String) {
        if self.has_links {
            self.found.lock().insert(name.stored.clone(), (code, text.clone()));
        }
        self.error(code, name.stored(), text);
    }

    /// Says what concerns one file; where the target is full, it ends the restore.
    fn target_error(&self, stored: &[u8], e: &TargetError) -> Result<(), TargetFull> {
        if e.is_no_space() {
            return Err(TargetFull(e.problem()));
        }
        let code = match e {
            TargetError::Conflict { .. } => Code::Conflict,
            TargetError::BadName { .. } => Code::BadName,
            TargetError::Io { .. } => Code::NotWritten,
        };
        self.firsts.remove(stored);
        self.carried.lock().insert(stored.to_vec(), Carried::Failed);
        self.flagged.lock().remove(stored);
        self.error(code, stored, chain(e));
        Ok(())
    }

    /// Says what could not be restored, each in total, of an object.
    fn say_tally(&self, object: &str) {
        let t = self.target.tally().totals();
        let rows = [
            (t.owners_not_restored, "owners"),
            (t.nodes_not_restored, "device nodes"),
            (t.xattrs_not_restored, "extended attributes"),
            (t.flags_not_restored, "inode flags"),
            (t.modes_not_restored, "modes of others' files and directories"),
        ];
        for (n, what) in rows {
            if n > 0 {
                let text = format!("{n} {what} could not be restored");
                self.listener.say(Code::NotRestored, "disk agent", object, text);
            }
        }
    }

    fn error(&self, code: Code, path: &[u8], text: String) {
        self.listener.say(code, "disk agent", &format!("/{}", path_text(path)), text);
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// A row with owners as they are here. One that has the data of a later row has that one's time: what exists is held against it.
    fn here(&self, row: &FileRow) -> Entry {
        Entry {
            mtime: row.contents_time.unwrap_or(row.entry.mtime),
            ..self.target.ids().here(
                &row.entry,
                (row.user.as_deref(), row.group.as_deref()),
                row.acl.as_deref(),
            )
        }
    }

    /// Notes of a file that was made that it may get inode flags in the end.
    fn may_get_flags(&self, stored: &[u8]) {
        if self.has_flags {
            self.flagged.lock().insert(stored.to_vec(), false);
        }
    }

    /// What exists in a file's place is kept: if it is what it was, further names can be made links to it, and its metadata are put right.
    /// Those of a carrier come with a later row.
    fn stays(
        &self,
        worker: &mut Worker<'_>,
        stored: &[u8],
        (entry, dir, name): (&Entry, &[u8], &[u8]),
        is_carrier: bool,
    ) -> Result<(), TargetError> {
        if is_carrier {
            self.carried.lock().insert(stored.to_vec(), Carried::Left);
            if self.firsts.is_asked(stored) && worker.is_like(entry, dir, name)? {
                self.firsts.add(stored);
            }
            return Ok(());
        }
        let found = worker.amend(entry, dir, name)?;
        if found.is_like {
            self.firsts.add(stored);
        }
        if found.is_like && self.target.amends() && entry.inode_flags != 0 {
            self.flagged.lock().insert(stored.to_vec(), !found.is_amended);
        }
        Ok(())
    }
}
