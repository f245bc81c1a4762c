//! Files as they are restored: their contents come frame by frame, their metadata last; what does not come of them is said once.
//!
//! Whoever restores decides which rows come, in which order, and from where. [`Files`] is what all threads share: what became of each
//! file that needs it. Each thread has a [`FileWorker`], which writes files as their rows come. When all contents are there,
//! [`Finish`] gives what was written in parts its metadata, makes further names, and finishes directories. Frames come through
//! [`capstan_engine::frames`]; what is to be said goes to a [`RestoreListener`].

mod finish;
mod firsts;
mod losses;
mod parts;
mod rows;
mod worker;

pub use finish::Finish;
pub use losses::{Loss, of_link, of_link_away, of_link_found};
pub use rows::{FileRow, LinkRow, Named, Piece};
pub use worker::FileWorker;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use capstan_engine::message::{Code, chain, path_text};
use capstan_engine::meter::Meters;
use capstan_format::entry::Entry;
use capstan_format::id::{MediumId, StreamId};
use parking_lot::Mutex;

use self::firsts::Firsts;
use self::losses::Carried;
use self::parts::InParts;
use crate::target::{Target, TargetError, Worker};

/// The target has no room left: the restore ends.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct TargetFull(pub String);

/// Who takes what a restore says. Called from several threads.
pub trait RestoreListener: Sync {
    /// Takes a message about something: its path as it is shown.
    fn say(&self, code: Code, agent: &'static str, path: &str, text: String);
    /// Takes a file of that many bytes which lies on a medium that is away; `why` follows the medium's name.
    fn away(&self, medium: MediumId, why: &str, bytes: u64);
    /// Takes a range of a stream that cannot be read: it may cost other files too.
    fn lost(&self, stream: StreamId, from: u64, to: u64);
}

/// What a restore counts.
#[derive(Debug, Default)]
pub struct Counts {
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
pub struct Files<'a> {
    target: &'a Target,
    listener: &'a dyn RestoreListener,
    meters: &'a Meters,
    stop: &'a AtomicBool,
    /// What was done so far.
    pub counts: Counts,
    /// Whether contents came that have no checksums.
    is_unchecked: AtomicBool,
    /// Whether any file has further names, or inode flags: then what matters for these is kept.
    has_links: bool,
    has_flags: bool,
    /// Files that are written in parts.
    in_parts: HashMap<Vec<u8>, InParts>,
    /// Which first names further ones can be made links to.
    firsts: Firsts,
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

impl<'a> Files<'a> {
    /// Nothing is restored yet. `stop` ends it early; `has_links` and `has_flags` say whether any file has further names, or inode flags.
    pub fn new(
        target: &'a Target,
        listener: &'a dyn RestoreListener,
        meters: &'a Meters,
        stop: &'a AtomicBool,
        (has_links, has_flags): (bool, bool),
    ) -> Self {
        Self {
            target,
            listener,
            meters,
            stop,
            counts: Counts::default(),
            is_unchecked: AtomicBool::new(false),
            has_links,
            has_flags,
            in_parts: HashMap::new(),
            firsts: Firsts::default(),
            carried: Mutex::default(),
            flagged: Mutex::default(),
            losses: Mutex::default(),
            has_losses: AtomicBool::new(false),
            found: Mutex::default(),
        }
    }

    /// Where it restores to.
    pub fn target(&self) -> &'a Target {
        self.target
    }

    /// Whether contents came that have no checksums.
    pub fn is_unchecked(&self) -> bool {
        self.is_unchecked.load(Relaxed)
    }

    /// A further name of that file is to be restored.
    pub fn ask_first(&mut self, stored: &[u8]) {
        self.firsts.ask(stored);
    }

    /// Says what the backup found of a file; its further names have it too.
    pub fn found(&self, name: &Named<'_>, code: Code, text: String) {
        if self.has_links {
            self.found.lock().insert(name.stored.to_vec(), (code, text.clone()));
        }
        self.error(code, name.stored, text);
    }

    /// Says what concerns one file; where the target is full, it ends the restore.
    pub fn target_error(&self, stored: &[u8], e: &TargetError) -> Result<(), TargetFull> {
        if e.is_no_space() {
            return Err(TargetFull(chain(e)));
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
    pub fn say_tally(&self, object: &str) {
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
    fn here(&self, row: &FileRow<'_>) -> Entry {
        Entry {
            mtime: row.contents_time.unwrap_or(row.entry.mtime),
            ..self.target.ids().here(row.entry, (row.user, row.group), row.acl)
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
