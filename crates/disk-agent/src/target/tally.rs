//! Counters of what a restore could not bring back for lack of rights or of file system features:
//! reported once, in total, rather than per file.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The counters, shared by all worker threads.
#[derive(Debug, Default)]
pub struct Tally {
    /// Files whose owner or group is not the one in the backup. Of regular files the setuid bit
    /// is left out then where it is the owner, the setgid bit where it is the group: they would
    /// lend somebody else's rights.
    pub owners_not_restored: AtomicU64,
    /// Device nodes, FIFOs and sockets that could not be made.
    pub nodes_not_restored: AtomicU64,
    /// Extended attributes (ACLs and file capabilities among them), not files.
    pub xattrs_not_restored: AtomicU64,
    /// Files and directories that lack some of their inode flags.
    pub flags_not_restored: AtomicU64,
    /// Existing files and directories of other users, whose mode and times stayed as they were.
    pub modes_not_restored: AtomicU64,
    /// Existing files that the policy kept.
    pub skipped_existing: AtomicU64,
    /// Those of them whose metadata were put right.
    pub put_right: AtomicU64,
    /// Those of them that look like what is in the backup and have other metadata, which the policy kept too.
    pub differ_kept: AtomicU64,
}

/// The values of a [`Tally`] at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TallyTotals {
    /// See [`Tally::owners_not_restored`].
    pub owners_not_restored: u64,
    /// See [`Tally::nodes_not_restored`].
    pub nodes_not_restored: u64,
    /// See [`Tally::xattrs_not_restored`].
    pub xattrs_not_restored: u64,
    /// See [`Tally::flags_not_restored`].
    pub flags_not_restored: u64,
    /// See [`Tally::modes_not_restored`].
    pub modes_not_restored: u64,
    /// See [`Tally::skipped_existing`].
    pub skipped_existing: u64,
    /// See [`Tally::put_right`].
    pub put_right: u64,
    /// See [`Tally::differ_kept`].
    pub differ_kept: u64,
}

impl Tally {
    /// A device node, FIFO or socket could not be made.
    pub fn node_not_restored(&self) {
        count(&self.nodes_not_restored);
    }

    /// Something that exists is kept in the place of a file.
    pub fn kept(&self) {
        count(&self.skipped_existing);
    }

    /// Inode flags of a file were set that was kept.
    pub fn flags_put_right(&self) {
        count(&self.put_right);
    }

    /// The values now.
    pub fn totals(&self) -> TallyTotals {
        TallyTotals {
            owners_not_restored: self.owners_not_restored.load(Relaxed),
            nodes_not_restored: self.nodes_not_restored.load(Relaxed),
            xattrs_not_restored: self.xattrs_not_restored.load(Relaxed),
            flags_not_restored: self.flags_not_restored.load(Relaxed),
            modes_not_restored: self.modes_not_restored.load(Relaxed),
            skipped_existing: self.skipped_existing.load(Relaxed),
            put_right: self.put_right.load(Relaxed),
            differ_kept: self.differ_kept.load(Relaxed),
        }
    }
}

pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Relaxed);
}
