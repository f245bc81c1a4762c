//! Files that are written in parts: their data lie in several places.

use std::sync::atomic::Ordering::{AcqRel, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicU64};

use capstan_format::entry::{Entry, split};
use parking_lot::Mutex;

use capstan_port::disk::restore::FileRow;

use super::Files;
use crate::target::{Created, TargetError, Worker};

/// A file that is written in parts.
pub(super) struct InParts {
    /// As it is here.
    pub entry: Entry,
    /// Its path below the target.
    to: Vec<u8>,
    /// Its length, as far as media bear it out.
    len: u64,
    /// Whether some of it could not be read when it was backed up.
    is_unreadable: bool,
    /// Whether its metadata come with a later row.
    is_carrier: bool,
    /// Whether it is there to be written, once that was tried; `false` also for one that exists and is kept.
    pub made: Mutex<Option<bool>>,
    /// Bytes of its contents that are to be written yet. It may be short of what comes, where a medium has something twice.
    left: AtomicU64,
    /// Whether any of its contents came.
    pub came: AtomicBool,
    /// Whether it got its metadata and was put in its place when all of it was written.
    is_settled: AtomicBool,
}

impl InParts {
    /// Whether nothing is left to be done in the end.
    pub fn is_done(&self) -> bool {
        self.is_settled.load(Relaxed) && self.left.load(Relaxed) == 0
    }
}

impl Files<'_> {
    /// A file will be written in parts, `bytes` in all.
    pub(super) fn expect_parts(&mut self, row: &FileRow, bytes: u64) {
        let file = InParts {
            entry: self.here(row),
            to: row.name.to().to_vec(),
            len: row.believed_len,
            is_unreadable: row.is_unreadable,
            is_carrier: row.is_carrier(),
            made: Mutex::new(None),
            left: AtomicU64::new(bytes),
            came: AtomicBool::new(false),
            is_settled: AtomicBool::new(false),
        };
        self.in_parts.insert(row.name.stored.clone(), file);
    }

    /// So many bytes of a file were written that is written in parts. Where they were the last ones, it is put in its place, so that
    /// what it replaces takes room no longer. What is not whole is judged in the end.
    pub(super) fn written(
        &self,
        worker: &mut Worker<'_>,
        stored: &[u8],
        (dir, name): (&[u8], &[u8]),
        bytes: u64,
    ) -> Result<(), TargetError> {
        let Some(file) = self.in_parts.get(stored) else { return Ok(()) };
        // What a stop cut short was not written.
        if self.is_stopped() || file.left.fetch_sub(bytes, AcqRel) != bytes || bytes == 0 {
            return Ok(());
        }
        if !self.is_whole(stored, file.is_unreadable) {
            return Ok(());
        }
        // The metadata of one whose contents are an earlier row's come with the newer row.
        if file.is_carrier {
            return worker.settle_file(dir, name);
        }
        file.is_settled.store(true, Relaxed);
        worker.finish_file(&file.entry, dir, name)
    }

    /// Makes a file that is written in parts, where that was not done yet; whether it is there to be written. It waits for the first
    /// part that is at hand: what is in its place stays where there is none.
    pub(super) fn make_in_parts(
        &self,
        worker: &mut Worker<'_>,
        stored: &[u8],
        file: &InParts,
    ) -> Result<bool, TargetError> {
        let mut made = file.made.lock();
        if let Some(made) = *made {
            return Ok(made);
        }
        // An error is told once.
        *made = Some(false);
        let (dir, name) = split(&file.to);
        match worker.create_file(&file.entry, dir, name)? {
            Created::File(new) => {
                self.firsts.add(stored);
                self.may_get_flags(stored);
                new.set_len(file.len)?;
                new.leave()?;
                self.counts.files.fetch_add(1, Relaxed);
                *made = Some(true);
            }
            Created::Skipped => {
                self.stays(worker, stored, (&file.entry, dir, name), file.is_carrier)?;
            }
        }
        Ok(made.unwrap_or(false))
    }

    /// Dates the files of which not all parts were written, where there was none before.
    pub(super) fn date_unfinished(&self) {
        let mut worker = self.target.worker();
        for file in self.in_parts.values() {
            if *file.made.lock() != Some(true) || file.is_settled.load(Relaxed) {
                continue;
            }
            let (dir, name) = split(&file.to);
            // What cannot be opened any more is not taken for anything.
            if let Ok(file) = worker.open_part(dir, name) {
                file.leave_unfinished();
            }
        }
    }
}
