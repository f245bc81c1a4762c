//! What a front end sees of a session while it runs.

use std::sync::atomic::{AtomicBool, AtomicU64};

use capstan_engine::message::Listener;

/// A moment of a running session.
#[derive(Debug, Clone, Default)]
pub struct Progress {
    /// Seconds since the start.
    pub elapsed_s: f64,
    /// Files done.
    pub files: u64,
    /// Files known of so far.
    pub files_found: u64,
    /// Files expected in all, from the last session or the catalog; 0 if unknown.
    pub files_expected: u64,
    /// Bytes done (of contents).
    pub bytes: u64,
    /// Bytes expected in all; 0 if unknown.
    pub bytes_expected: u64,
    /// Whether what is expected is what file systems say is used on them: about as much, and perhaps less than there is.
    pub is_about: bool,
    /// Rate of the source (backup) or of the device (restore) over the last interval, bytes per second.
    pub rate_in: f64,
    /// Rate of the device (backup) or of the target (restore) over the last interval, bytes per second.
    pub rate_out: f64,
    /// What limits now.
    pub limit: &'static str,
}

/// Takes messages and progress. Called from several threads.
pub trait Observer: Listener {
    /// Takes a moment, about four times a second.
    fn progress(&self, progress: &Progress);
}

/// A switch to end a session early: what is begun is finished and committed.
#[derive(Debug, Default)]
pub struct Stop(pub AtomicBool);

/// Bytes and files, counted by workers and read by the watch.
#[derive(Debug, Default)]
pub struct Done {
    /// Bytes of contents.
    pub bytes: AtomicU64,
    /// Files.
    pub files: AtomicU64,
}

/// Takes messages and progress and says nothing.
pub(crate) struct Silent;

impl Listener for Silent {
    fn message(&self, _message: capstan_engine::message::Message) {}
}

impl Observer for Silent {
    fn progress(&self, _progress: &Progress) {}
}
