//! Files that are written in parts: their data lie in several places.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};

use capstan_catalog::row::Ordinal;
use capstan_disk_agent::target::{Created, TargetError, Worker};
use capstan_format::entry::{Entry, split};
use parking_lot::Mutex;

use crate::kinds::restore::tree::Restore;

/// A file that is written in parts.
pub(in crate::kinds::restore) struct InParts {
    /// As it is here.
    pub(in crate::kinds::restore) entry: Entry,
    /// Where its row stands.
    pub(super) ordinal: Ordinal,
    /// Its length, as far as media bear it out.
    pub(in crate::kinds::restore) len: u64,
    /// Whether it is there to be written, once that was tried; `false` also for one that exists and is kept.
    pub(in crate::kinds::restore) made: Mutex<Option<bool>>,
    /// Bytes of its contents that are to be written yet. It may be short of what comes, where a medium has something twice.
    pub(super) left: AtomicU64,
    /// Whether any of its contents came.
    pub(in crate::kinds::restore) came: AtomicBool,
    /// Whether it got its metadata and was put in its place when all of it was written.
    pub(super) is_settled: AtomicBool,
}

impl InParts {
    /// Whether nothing is left to be done in the end.
    pub(in crate::kinds::restore) fn is_done(&self) -> bool {
        self.is_settled.load(Relaxed) && self.left.load(Relaxed) == 0
    }
}

impl Restore<'_> {
    /// So many bytes of a file were written that is written in parts. Where they were the last ones, it is put in its place, so that
    /// what it replaces takes room no longer. What is not whole is judged in the end.
    pub(in crate::kinds::restore) fn written(
        &self,
        worker: &mut Worker<'_>,
        path: &[u8],
        (dir, name): (&[u8], &[u8]),
        bytes: u64,
    ) -> std::result::Result<(), TargetError> {
        let Some(file) = self.in_parts.get(path) else { return Ok(()) };
        // What a stop cut short was not written.
        if self.stop.0.load(Relaxed) || file.left.fetch_sub(bytes, AcqRel) != bytes || bytes == 0 {
            return Ok(());
        }
        if !self.is_whole(path, file.ordinal) {
            return Ok(());
        }
        // The metadata of one whose contents are an earlier row's come with the newer row.
        if self.overview.is_carrier(file.ordinal) {
            return worker.settle_file(dir, name);
        }
        file.is_settled.store(true, Relaxed);
        worker.finish_file(&file.entry, dir, name)
    }

    /// Makes a file that is written in parts, where that was not done yet; whether it is there to be written. It waits for the first
    /// part that is at hand: what is in its place stays where there is none.
    pub(in crate::kinds::restore) fn make_in_parts(
        &self,
        worker: &mut Worker<'_>,
        path: &[u8],
        file: &InParts,
    ) -> std::result::Result<bool, TargetError> {
        let mut made = file.made.lock();
        if let Some(made) = *made {
            return Ok(made);
        }
        // An error is told once.
        *made = Some(false);
        let len = file.len;
        for (to, entry) in self.places_of(path, &file.entry) {
            let Some(to) = self.stripped(&to) else { continue };
            let (dir, name) = split(to);
            match worker.create_file(&entry, dir, name)? {
                Created::File(file) => {
                    self.firsts.add(path);
                    self.may_get_flags(path);
                    file.set_len(len)?;
                    file.leave()?;
                    self.counts.files.fetch_add(1, Relaxed);
                    *made = Some(true);
                }
                Created::Skipped => self.first_stays(worker, path, (&entry, dir, name))?,
            }
        }
        Ok(made.unwrap_or(false))
    }
}
