//! What a backup counts while it runs: its threads add, whoever watches reads.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use capstan_engine::message::path_text;
use capstan_port::disk::backup::Counting;
use capstan_wire::backup::{Counts, MOUNTED_LISTED, Noted};
use parking_lot::Mutex;

/// What a backup counts.
#[derive(Debug, Default)]
pub struct Counters {
    /// Names found so far.
    pub found: AtomicU64,
    /// Files stored, all that are not directories.
    pub files: AtomicU64,
    /// Directories stored.
    pub dirs: AtomicU64,
    /// Names left out by options.
    pub skipped: AtomicU64,
    /// Files that were in use.
    pub in_use: AtomicU64,
    /// Files stored with unreadable parts.
    pub corrupt: AtomicU64,
    /// Of those, the paths, as messages write them; not more than a report names.
    cut: Mutex<Vec<String>>,
    /// Where something was mounted and something was in it, or was at the last backup, as messages write paths.
    mounted: Mutex<BTreeSet<String>>,
    /// Likewise where it found contents that another may mask.
    maskable: Mutex<BTreeSet<String>>,
    /// Files that an earlier run of the version has.
    pub kept: AtomicU64,
    /// Bytes of contents of those.
    pub kept_bytes: AtomicU64,
    /// Files that were moved or touched, whose contents the base has.
    pub moved: AtomicU64,
    /// Bytes of those contents.
    pub moved_bytes: AtomicU64,
    /// Files of which no contents were stored: moved, touched, empty ones, links.
    pub no_contents: AtomicU64,
    /// Bytes of contents read.
    pub bytes: AtomicU64,
}

/// Paths of files with unreadable parts that are kept: one more than a report lists.
const CUT_LISTED: usize = 10_001;

impl Counters {
    pub(super) fn add_cut(&self, path: &[u8]) {
        let mut cut = self.cut.lock();
        if cut.len() < CUT_LISTED {
            cut.push(format!("/{}", path_text(path)));
        }
    }

    /// Keeps in mind where something is mounted, as messages write it.
    pub(super) fn note_mounted(&self, path: &str) {
        note(&self.mounted, path);
    }

    /// Likewise where contents are that another may mask.
    pub(super) fn note_maskable(&self, path: &str) {
        note(&self.maskable, path);
    }
}

impl Counting for Counters {
    fn counts(&self) -> Counts {
        let of = |n: &AtomicU64| n.load(Relaxed);
        Counts {
            found: of(&self.found),
            files: of(&self.files),
            dirs: of(&self.dirs),
            skipped: of(&self.skipped),
            in_use: of(&self.in_use),
            corrupt: of(&self.corrupt),
            kept: of(&self.kept),
            kept_bytes: of(&self.kept_bytes),
            moved: of(&self.moved),
            moved_bytes: of(&self.moved_bytes),
            no_contents: of(&self.no_contents),
            bytes: of(&self.bytes),
        }
    }

    fn noted(&self) -> Noted {
        Noted {
            cut: self.cut.lock().clone(),
            mounted: self.mounted.lock().iter().cloned().collect(),
            maskable: self.maskable.lock().iter().cloned().collect(),
        }
    }
}

fn note(paths: &Mutex<BTreeSet<String>>, path: &str) {
    let mut paths = paths.lock();
    if paths.len() < MOUNTED_LISTED {
        paths.insert(format!("/{path}"));
    }
}
