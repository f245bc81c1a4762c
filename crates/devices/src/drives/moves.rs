//! What is known of the drives in which a tape was.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use capstan_medium::tape::{DriveSession, TapeError};
use parking_lot::Mutex;

/// A tape of this host that was not used for so long is read no more, or by nobody who cannot wait for its drive.
const IDLE: Duration = Duration::from_secs(2);

/// What is known of the drives in which a tape was.
#[derive(Default)]
pub(crate) struct Moves {
    /// Drives that could not read some of it.
    pub(super) unread_in: Mutex<Vec<u32>>,
    /// Those that could not read what is wanted just now.
    pub(super) tried: Mutex<Vec<u32>>,
    /// Another drive was waited for in vain: it is not waited for again.
    pub(super) is_in_vain: AtomicBool,
    /// It was written, and nobody used it since.
    is_left: AtomicBool,
    /// It is written in its drive, and stays there.
    pub(super) stays: AtomicBool,
    /// The drive that it is in, or was in last; 0 for none.
    pub(super) drive: AtomicU32,
    /// It is a part of an array.
    pub(super) is_member: AtomicBool,
    /// All of it is written anew, and nothing that one drive has of it is needed in another.
    pub(super) begins: AtomicBool,
    /// A drive failed as it was opened with it.
    pub(super) has_died: AtomicBool,
    /// Its library has one drive.
    pub(super) has_one_drive: AtomicBool,
    /// When it was used last, in milliseconds since it was first.
    used_ms: AtomicU64,
    begun: Mutex<Option<Instant>>,
}

impl Moves {
    /// It is used.
    pub fn begin(&self) {
        self.is_left.store(false, Relaxed);
        self.touch();
    }

    /// It was.
    pub fn end(&self) {
        self.touch();
        self.tried.lock().clear();
    }

    fn touch(&self) {
        let begun = *self.begun.lock().get_or_insert_with(Instant::now);
        let ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.used_ms.store(ms, Relaxed);
    }

    /// It was written, and is no more.
    pub fn leave(&self) {
        self.is_left.store(true, Relaxed);
    }

    /// Whether it was written, and nobody used it since.
    pub(super) fn is_left(&self) -> bool {
        self.is_left.load(Relaxed)
    }

    pub(super) fn is_idle(&self) -> bool {
        if self.is_left() {
            return true;
        }
        let begun = *self.begun.lock();
        begun.is_none_or(|begun| {
            begun.elapsed().saturating_sub(Duration::from_millis(self.used_ms.load(Relaxed)))
                >= IDLE
        })
    }

    /// Where it is now.
    pub fn is_in(&self, drive: Option<u32>) {
        self.drive.store(drive.unwrap_or(0), Relaxed);
    }

    /// Something is about to be written in its drive, as that was told to write: it is not brought elsewhere.
    pub fn stays(&self) {
        self.stays.store(true, Relaxed);
    }

    /// It is a part of an array.
    pub fn is_of_array(&self) {
        self.is_member.store(true, Relaxed);
    }

    /// All of it is written anew, in one go: another drive can do that from its begin.
    pub fn begins(&self, does: bool) {
        self.begins.store(does, Relaxed);
    }

    /// It is opened to be written, and nothing is written yet.
    pub fn may_move_again(&self) {
        self.stays.store(false, Relaxed);
    }
}

/// A drive that was left, with what it did and why it was left.
pub(super) struct Left {
    pub drive: u32,
    pub session: DriveSession,
    pub what: String,
}

/// What comes of a tape that a drive cannot read.
pub(super) enum Another {
    /// Another drive tries; this one was left.
    Tries(Box<Left>),
    /// Another drive would have to try, and cannot now.
    Busy(TapeError),
    /// No other drive is to try: it is the tape's fault.
    None,
}
