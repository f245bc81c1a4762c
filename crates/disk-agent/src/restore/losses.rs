//! What of files does not come: damaged, missing, away; each is said once.

use std::collections::hash_map::Entry as Slot;
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::frames::Lack;
use capstan_engine::message::{Code, path_text};
use capstan_format::entry::{Entry, Timestamp};
use capstan_format::id::StreamId;

use capstan_port::disk::restore::Name;

use super::Files;
use crate::target::{TargetError, Worker};

/// Why a file that exists was not replaced.
const LEFT_ALONE: &str = "what exists is left as it is, for the backup does not have all of its contents; restore it into \
                          an empty directory (--into) to get what is left of it";

/// Why data of a file are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// They are damaged or missing.
    Lost,
    /// They lie on media that are away.
    Away,
}

/// What became of a file whose metadata come from a later version than its contents, when the contents came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Carried {
    /// It was made, and gets its metadata in the end.
    Made,
    /// It was there, and is left as it is.
    Left,
    /// It could not be written. What has its name is not touched.
    Failed,
}

impl Files<'_> {
    /// A file's data are lost, or some of them: said once per file.
    pub(super) fn lost(&self, name: &Name, why: &str) {
        self.lose(Code::Damaged, "media agent", name, why);
    }

    /// The same, with what of a stream could not be read.
    pub(super) fn lost_range(
        &self,
        name: &Name,
        (stream, from, to): (StreamId, u64, u64),
        why: &str,
    ) {
        self.listener.lost(stream, from, to);
        self.lost(name, why);
    }

    /// Says, once of each file, that what has its contents, or a part of them, is not to be had.
    pub(super) fn missing(&self, name: &Name, why: &str) {
        self.lose(Code::Missing, "disk agent", name, why);
    }

    /// The same, where the medium may be away: then that is no loss, and a line is said of the medium in the end. The file counts once,
    /// with its whole size, however many parts of it are away; `bytes` is the size of one that is not written in parts.
    pub(super) fn not_had(&self, name: &Name, bytes: u64, lack: &Lack) {
        let Lack::Away { medium, why, .. } = lack else {
            return self.missing(name, &lack.text());
        };
        if self.note_loss(name.stored(), Loss::Away) {
            let whole = self.in_parts.get(name.stored()).map_or(bytes, |file| file.entry.size);
            self.listener.away(*medium, why, whole);
            self.name_lost(Code::FileAway, "media agent", name, why);
        }
    }

    /// Whether a file was there when its contents came, and is left as it is, as its metadata come later.
    pub(super) fn is_left(&self, stored: &[u8]) -> bool {
        self.carried_as(stored) == Some(Carried::Left)
    }

    /// Files that lie on media that are away, by their paths in the backup.
    pub(super) fn away(&self) -> Vec<Vec<u8>> {
        let losses = self.losses.lock();
        let away = losses.iter().filter(|(_, loss)| **loss == Loss::Away);
        away.map(|(path, _)| path.clone()).collect()
    }

    fn lose(&self, code: Code, agent: &'static str, name: &Name, why: &str) {
        if self.note_loss(name.stored(), Loss::Lost) {
            self.counts.lost.fetch_add(1, Relaxed);
            self.name_lost(code, agent, name, why);
        }
    }

    /// Names a further name of a file that is lost, which is one file however many names it has.
    pub(super) fn lost_link(&self, code: Code, agent: &'static str, name: &Name, why: &str) {
        if self.note_loss(name.stored(), Loss::Lost) {
            self.name_lost(code, agent, name, why);
        }
    }

    /// Names a further name of a file that is away: it is away with it.
    pub(super) fn link_away(&self, name: &Name, why: &str) {
        if self.note_loss(name.stored(), Loss::Away) {
            self.name_lost(Code::FileAway, "media agent", name, why);
        }
    }

    /// Whether that was not noted of the file yet.
    fn note_loss(&self, stored: &[u8], loss: Loss) -> bool {
        match self.losses.lock().entry(stored.to_vec()) {
            Slot::Occupied(_) => false,
            Slot::Vacant(free) => {
                free.insert(loss);
                self.has_losses.store(true, Relaxed);
                true
            }
        }
    }

    // What stands in for a first name that is not restored is what was asked for: so it is shown.
    fn name_lost(&self, code: Code, agent: &'static str, name: &Name, why: &str) {
        let shown = format!("/{}", path_text(name.shown()));
        self.listener.say(code, agent, &shown, why.to_owned());
    }

    /// The metadata that a file gets: one that is damaged is dated 1970, so that it is never taken for the one in the
    /// backup, and a later restore from a better copy replaces it.
    pub(super) fn as_restored(&self, stored: &[u8], mut entry: Entry) -> Entry {
        if self.loss_of(stored).is_some() {
            entry.mtime = Timestamp::default();
        }
        entry
    }

    pub(super) fn carried_as(&self, stored: &[u8]) -> Option<Carried> {
        self.carried.lock().get(stored).copied()
    }

    /// What is not there of a file, if anything.
    pub(super) fn loss_of(&self, stored: &[u8]) -> Option<Loss> {
        let has_losses = self.has_losses.load(Relaxed);
        has_losses.then(|| self.losses.lock().get(stored).copied())?
    }

    /// Whether all contents of a file came that it had when it was backed up.
    pub(super) fn is_whole(&self, stored: &[u8], is_unreadable: bool) -> bool {
        !is_unreadable && self.loss_of(stored).is_none()
    }

    /// A file that was made, and of which nothing came as all of it is away, is none: it comes when its medium does.
    pub(super) fn comes_later(
        &self,
        worker: &mut Worker<'_>,
        stored: &[u8],
        (dir, name): (&[u8], &[u8]),
    ) -> Result<(), TargetError> {
        self.flagged.lock().remove(stored);
        self.firsts.remove(stored);
        self.carried.lock().insert(stored.to_vec(), Carried::Failed);
        worker.discard(dir, name)
    }

    /// What exists stays as it is, as what should take its place did not come whole.
    pub(super) fn left_alone(&self, name: &Name) {
        self.flagged.lock().remove(name.stored());
        self.firsts.remove(name.stored());
        // What is away comes when its medium does: a line of the medium is enough.
        if self.loss_of(name.stored()) != Some(Loss::Away) {
            self.name_lost(Code::NotWritten, "disk agent", name, LEFT_ALONE);
        }
    }
}
