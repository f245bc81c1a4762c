//! Huge files: read in pieces by whichever stream has time.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};

use capstan_format::entry::Entry;
use parking_lot::{Mutex, MutexGuard};
use rustix::fs::Stat;

use crate::linux::source_file::SourceFile;

/// Bytes from which a file is read in pieces: 32 MiB.
pub(crate) const HUGE: u64 = 32 << 20;
/// Bytes of a piece: 8 MiB.
const PIECE: u64 = 8 << 20;

/// A file that several streams read.
pub(crate) struct HugeFile {
    pub fd: SourceFile,
    pub entry: Entry,
    pub before: Stat,
    /// Data ranges not yet given out.
    ranges: Mutex<VecDeque<(u64, u64)>>,
    /// Pieces given out and not yet read, and one while there are ranges left.
    open: AtomicUsize,
    /// A piece was short or unreadable: said already.
    pub failed: AtomicBool,
}

impl HugeFile {
    pub fn new(fd: SourceFile, entry: Entry, before: Stat, ranges: Vec<(u64, u64)>) -> Self {
        Self {
            fd,
            entry,
            before,
            ranges: Mutex::new(ranges.into()),
            open: AtomicUsize::new(1),
            failed: AtomicBool::new(false),
        }
    }

    fn next_piece(&self) -> Option<(u64, u64)> {
        let mut ranges = self.ranges.lock();
        let (at, len) = ranges.pop_front()?;
        // Pieces end at multiples of their size, so that reads stay aligned.
        let take = (PIECE - at % PIECE).min(len);
        if take < len {
            ranges.push_front((at + take, len - take));
        }
        if !ranges.is_empty() {
            self.open.fetch_add(1, SeqCst);
        }
        Some((at, take))
    }

    /// A piece was read. Whether it was the last.
    pub fn piece_done(&self) -> bool {
        self.open.fetch_sub(1, SeqCst) == 1
    }
}

/// The huge files of a session that have pieces left, for all its streams.
#[derive(Default)]
pub(crate) struct Pieces(Mutex<VecDeque<Arc<HugeFile>>>);

impl Pieces {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Arc<HugeFile>>> {
        self.0.lock()
    }

    pub fn add(&self, file: HugeFile) {
        self.lock().push_back(Arc::new(file));
    }

    /// The next piece: the file, and the offset and length to read.
    pub fn take(&self) -> Option<(Arc<HugeFile>, u64, u64)> {
        let mut files = self.lock();
        while let Some(file) = files.front() {
            if let Some((at, len)) = file.next_piece() {
                return Some((file.clone(), at, len));
            }
            files.pop_front();
        }
        None
    }
}
