//! Readers of one tape that stay abreast: streams that were multiplexed are read while the tape passes by once.
//!
//! What passed by is kept for a while. Whoever is so far ahead that it would be gone before the last one has read it waits for that
//! one, but not for one that reads nothing any more.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Who has not read for so long is not waited for.
const IDLE: Duration = Duration::from_secs(2);
/// How often it is looked whether somebody became idle.
const LOOK: Duration = Duration::from_millis(50);

/// Where the readers of a tape are.
#[derive(Default)]
pub(super) struct Abreast {
    /// By reader: file, block, and when it came there.
    at: Mutex<HashMap<u64, (u64, u64, Instant)>>,
    moved: Condvar,
}

/// A reader's number.
pub(super) fn reader() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Relaxed)
}

impl Abreast {
    /// A reader wants a block; waits while others in the same file are more than `most` blocks behind it.
    pub fn come(&self, reader: u64, file: u64, block: u64, most: u64) {
        let mut at = self.at.lock();
        at.insert(reader, (file, block, Instant::now()));
        self.moved.notify_all();
        let is_behind = |(f, b, when): &(u64, u64, Instant)| {
            *f == file && b.saturating_add(most) < block && when.elapsed() < IDLE
        };
        while at.values().any(is_behind) {
            self.moved.wait_for(&mut at, LOOK);
        }
        // The time of waiting was not idle.
        at.insert(reader, (file, block, Instant::now()));
    }

    /// A reader is done.
    pub fn leave(&self, reader: u64) {
        self.at.lock().remove(&reader);
        self.moved.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_ahead_waits_for_who_reads_and_not_for_who_does_not() {
        let tape = Abreast::default();
        let (slow, fast) = (reader(), reader());
        tape.come(slow, 1, 0, 10);
        tape.come(fast, 1, 10, 10);
        // Another file is another thing.
        tape.come(fast, 2, 500, 10);
        std::thread::scope(|scope| {
            let ahead = scope.spawn(|| {
                let begun = Instant::now();
                tape.come(fast, 1, 30, 10);
                begun.elapsed()
            });
            std::thread::sleep(Duration::from_millis(200));
            assert!(!ahead.is_finished());
            tape.come(slow, 1, 20, 10);
            assert!(ahead.join().unwrap() < IDLE);
        });
        // It does nothing more.
        let begun = Instant::now();
        tape.come(fast, 1, 90, 10);
        assert!(begun.elapsed() < 2 * IDLE && begun.elapsed() > IDLE / 2);
        tape.leave(slow);
        let begun = Instant::now();
        tape.come(fast, 1, 900, 10);
        assert!(begun.elapsed() < IDLE / 2);
    }
}
