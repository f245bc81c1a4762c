//! What of files does not come: damaged, missing, away; each is said once.

use std::collections::hash_map;
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::row::Ordinal;
use capstan_disk_agent::target::{TargetError, Worker};
use capstan_engine::message::{Code, path_text};
use capstan_format::entry::{Entry, Kind, OutcomeCode, Timestamp};

use crate::error::{CellError, Result};
use crate::kinds::restore::tree::Restore;
use crate::reading::losses::Range;

/// Why a file that exists was not replaced.
const LEFT_ALONE: &str = "what exists is left as it is, for the backup does not have all of its contents; restore it into \
                          an empty directory (--into) to get what is left of it";

/// What is wrong with a part of a file without the file.
pub(crate) const PART_ALONE: &str = "a part of it is on the media, but not what it is a part of";

/// Why data of a file are not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds::restore) enum Loss {
    /// They are damaged or missing.
    Lost,
    /// They lie on media that are away.
    Away,
}

/// What became of a file whose metadata come from a later version than its contents, when the contents came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::kinds::restore) enum Carried {
    /// It was made, and gets its metadata in the end.
    Made,
    /// It was there, and is left as it is.
    Left,
    /// It could not be written. What has its name is not touched.
    Failed,
}

impl Restore<'_> {
    pub(in crate::kinds::restore) fn error(&self, code: Code, path: &[u8], text: String) {
        self.ears.say(code, "disk agent", &format!("/{}", path_text(path)), text);
    }

    /// Says what concerns one file; where the target is full, it ends the restore.
    pub(in crate::kinds::restore) fn target_error(
        &self,
        path: &[u8],
        e: &TargetError,
    ) -> Result<()> {
        if e.is_no_space() {
            return Err(CellError::TargetFull(crate::error::chain(e)));
        }
        let code = match e {
            TargetError::Conflict { .. } => Code::Conflict,
            TargetError::BadName { .. } => Code::BadName,
            TargetError::Io { .. } => Code::NotWritten,
        };
        self.firsts.remove(path);
        self.carried.lock().insert(path.to_vec(), Carried::Failed);
        self.flagged.lock().remove(path);
        self.error(code, path, crate::error::chain(e));
        Ok(())
    }

    /// A file's data are lost, or some of them: said once per file.
    pub(in crate::kinds::restore) fn lost(&self, path: &[u8], why: &str) {
        self.lose(Code::Damaged, "media agent", path, why);
    }

    /// The same, with what of a stream could not be read.
    pub(in crate::kinds::restore) fn lost_range(&self, path: &[u8], range: Range, why: &str) {
        self.lost.lock().add(range);
        self.lost(path, why);
    }

    /// Says, once of each file, that what has its contents, or a part of them, is not to be had.
    pub(in crate::kinds::restore) fn missing(&self, path: &[u8], why: &str) {
        self.lose(Code::Missing, "disk agent", path, why);
    }

    /// The same, where the medium may be away: then that is no loss, and a line is said of the medium in the end. The file counts once,
    /// with its whole size, however many parts of it are away; `bytes` is the size of one that is not written in parts.
    pub(in crate::kinds::restore) fn not_had(&self, path: &[u8], bytes: u64, e: &CellError) {
        let Some((medium, why)) = e.away() else {
            return self.missing(path, &crate::error::chain(e));
        };
        if self.note_loss(path, Loss::Away) {
            let whole = self.in_parts.get(path).map_or(bytes, |file| file.entry.size);
            self.away.add(medium, why, whole);
            self.name_lost(Code::FileAway, "media agent", path, why);
        }
    }

    pub(in crate::kinds::restore) fn lose(
        &self,
        code: Code,
        part: &'static str,
        path: &[u8],
        why: &str,
    ) {
        if self.note_loss(path, Loss::Lost) {
            self.counts.lost.fetch_add(1, Relaxed);
            self.name_lost(code, part, path, why);
        }
    }

    /// Names a further name of a file that is lost, which is one file however many names it has.
    pub(in crate::kinds::restore) fn lost_link(
        &self,
        code: Code,
        part: &'static str,
        path: &[u8],
        why: &str,
    ) {
        if self.note_loss(path, Loss::Lost) {
            self.name_lost(code, part, path, why);
        }
    }

    /// Names a further name of a file that is away: it is away with it.
    pub(in crate::kinds::restore) fn link_away(&self, path: &[u8], why: &str) {
        if self.note_loss(path, Loss::Away) {
            self.name_lost(Code::FileAway, "media agent", path, why);
        }
    }

    /// Whether that was not noted of the file yet.
    pub(in crate::kinds::restore) fn note_loss(&self, path: &[u8], loss: Loss) -> bool {
        match self.damaged.lock().entry(path.to_vec()) {
            hash_map::Entry::Occupied(_) => false,
            hash_map::Entry::Vacant(free) => {
                free.insert(loss);
                true
            }
        }
    }

    pub(in crate::kinds::restore) fn name_lost(
        &self,
        code: Code,
        part: &'static str,
        path: &[u8],
        why: &str,
    ) {
        // What stands in for a first name that is not restored is what was asked for.
        let instead = || self.instead.get(path).and_then(|l| l.first()).map(Entry::path);
        let shown = if self.wants(path) { None } else { instead() };
        let shown = path_text(shown.as_deref().unwrap_or(path));
        self.ears.say(code, part, &format!("/{shown}"), why.to_owned());
    }

    /// Names what the ranges that could not be read cost, as a verification does, as far as that is not said yet.
    pub(in crate::kinds::restore) fn say_lost(&self) -> Result<()> {
        let lost = std::mem::take(&mut *self.lost.lock());
        if lost.is_empty() {
            return Ok(());
        }
        self.scope.rows(self.view, &mut |stream, row| {
            let path = row.entry.path();
            let counts = row.entry.kind.is_inode() || row.entry.kind == Kind::Part;
            let asked = self.wants(&path) || self.instead.contains_key(&path);
            if counts
                && asked
                && !row.entry.link
                && self.live(stream, &row, &path)
                && lost.costs(&row.entry, stream.stream, row.start)
                && self.carried_as(&path) != Some(Carried::Left)
            {
                self.lost(&path, "some of its data are damaged");
            }
            Ok(())
        })
    }

    /// The metadata that a file gets: one that is damaged is dated 1970, so that it is never taken for the one in the
    /// backup, and a later restore from a better copy replaces it.
    pub(in crate::kinds::restore) fn as_restored(&self, path: &[u8], mut entry: Entry) -> Entry {
        if self.damaged_now(path) {
            entry.mtime = Timestamp::default();
        }
        entry
    }

    pub(in crate::kinds::restore) fn carried_as(&self, path: &[u8]) -> Option<Carried> {
        self.carried.lock().get(path).copied()
    }

    pub(in crate::kinds::restore) fn damaged_now(&self, path: &[u8]) -> bool {
        self.loss_of(path).is_some()
    }

    /// What is not there of a file, if anything.
    pub(in crate::kinds::restore) fn loss_of(&self, path: &[u8]) -> Option<Loss> {
        self.is_any_damaged().then(|| self.damaged.lock().get(path).copied())?
    }

    /// Whether all contents of a file came that it had when it was backed up.
    pub(in crate::kinds::restore) fn is_whole(&self, path: &[u8], ordinal: Ordinal) -> bool {
        let mut outcomes = self.overview.outcomes(path, ordinal);
        !self.damaged_now(path) && outcomes.all(|o| o.code != OutcomeCode::Unreadable)
    }

    /// A file that was made, and of which nothing came as all of it is away, is none: it comes when its medium does.
    pub(in crate::kinds::restore) fn comes_later(
        &self,
        worker: &mut Worker<'_>,
        path: &[u8],
        (dir, name): (&[u8], &[u8]),
    ) -> std::result::Result<(), TargetError> {
        self.flagged.lock().remove(path);
        self.firsts.remove(path);
        self.carried.lock().insert(path.to_vec(), Carried::Failed);
        worker.discard(dir, name)
    }

    /// What exists stays as it is, as what should take its place did not come whole.
    pub(in crate::kinds::restore) fn left_alone(&self, path: &[u8]) {
        self.flagged.lock().remove(path);
        self.firsts.remove(path);
        // What is away comes when its medium does: a line of the medium is enough.
        if self.loss_of(path) != Some(Loss::Away) {
            self.name_lost(Code::NotWritten, "disk agent", path, LEFT_ALONE);
        }
    }

    pub(in crate::kinds::restore) fn is_any_damaged(&self) -> bool {
        self.counts.lost.load(Relaxed) > 0 || self.away.is_any()
    }
}
