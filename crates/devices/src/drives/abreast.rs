//! Readers of one tape that stay abreast: streams that were multiplexed are read while the tape passes by once.
//!
//! What passed by is kept for a while. Whoever is so far ahead that it would be gone before the last one has read it waits for that
//! one, but not for one that reads nothing any more. Whoever says beforehand where he will begin is waited for from then on.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

/// Who reads no more for so long is not waited for; nor is who said where he will begin, and does not.
const IDLE: Duration = Duration::from_secs(2);
/// The same of one that said where he will begin, and did: he writes what he read, and a slow disk may hold him up for longer than a
/// tape takes to wind back.
const IDLE_AT_WORK: Duration = Duration::from_secs(60);
/// How often it is looked whether somebody became idle.
const LOOK: Duration = Duration::from_millis(50);

/// Where a reader is.
struct At {
    file: u64,
    block: u64,
    /// Since when he wants nothing of the tape; nothing while he does. A tape that is loaded or winds makes nobody idle.
    idle_since: Option<Instant>,
    /// Whether he said beforehand where he will begin.
    expected: bool,
    /// Whether he has read something.
    has_begun: bool,
}

impl At {
    fn is_idle(&self) -> bool {
        let most = if self.expected && self.has_begun { IDLE_AT_WORK } else { IDLE };
        self.idle_since.is_some_and(|since| since.elapsed() >= most)
    }
}

/// Where the readers of a tape are.
#[derive(Default)]
pub(crate) struct Abreast {
    /// How many readers there were.
    readers: AtomicU64,
    /// By reader.
    at: Mutex<HashMap<u64, At>>,
    moved: Condvar,
}

impl Abreast {
    /// The number of a new reader.
    pub fn reader(&self) -> u64 {
        self.readers.fetch_add(1, Relaxed)
    }

    /// A reader says where he will begin.
    pub fn expect(&self, reader: u64, file: u64, block: u64) {
        let idle_since = Some(Instant::now());
        let at = At { file, block, idle_since, expected: true, has_begun: false };
        self.at.lock().insert(reader, at);
    }

    /// A reader wants a block; waits while others in the same file are more than `most` blocks behind it. [`Self::served`] says that he
    /// has it.
    pub fn come(&self, reader: u64, file: u64, block: u64, most: u64) {
        let mut at = self.at.lock();
        let expected = at.get(&reader).is_some_and(|at| at.expected);
        at.insert(reader, At { file, block, idle_since: None, expected, has_begun: true });
        self.moved.notify_all();
        let is_behind = |there: &At| {
            there.file == file && there.block.saturating_add(most) < block && !there.is_idle()
        };
        while at.values().any(is_behind) {
            self.moved.wait_for(&mut at, LOOK);
        }
    }

    /// The first block that readers of that file want or will begin at, but those that are idle.
    pub fn first(&self, file: u64) -> Option<u64> {
        let at = self.at.lock();
        let wanted = at.values().filter(|there| there.file == file && !there.is_idle());
        wanted.map(|there| there.block).min()
    }

    /// A reader has what he wanted, or cannot have it.
    pub fn served(&self, reader: u64) {
        if let Some(at) = self.at.lock().get_mut(&reader) {
            at.idle_since = Some(Instant::now());
        }
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

    impl Abreast {
        fn read(&self, reader: u64, file: u64, block: u64) {
            self.come(reader, file, block, 10);
            self.served(reader);
        }
    }

    #[test]
    fn who_is_ahead_waits_for_who_reads_and_not_for_who_does_not() {
        let tape = Abreast::default();
        let (slow, fast) = (tape.reader(), tape.reader());
        tape.read(slow, 1, 0);
        tape.read(fast, 1, 10);
        // Another file is another thing.
        tape.read(fast, 2, 500);
        std::thread::scope(|scope| {
            let ahead = scope.spawn(|| {
                let begun = Instant::now();
                tape.read(fast, 1, 30);
                begun.elapsed()
            });
            std::thread::sleep(Duration::from_millis(200));
            assert!(!ahead.is_finished());
            tape.read(slow, 1, 20);
            assert!(ahead.join().unwrap() < IDLE);
        });
        // It does nothing more.
        let begun = Instant::now();
        tape.read(fast, 1, 90);
        assert!(begun.elapsed() < 2 * IDLE && begun.elapsed() > IDLE / 2);
        tape.leave(slow);
        let begun = Instant::now();
        tape.read(fast, 1, 900);
        assert!(begun.elapsed() < IDLE / 2);
    }

    #[test]
    fn who_waits_for_a_tape_that_winds_is_not_idle() {
        let tape = Abreast::default();
        let (behind, ahead) = (tape.reader(), tape.reader());
        // It has no answer yet: a locate takes longer than anybody may be idle.
        tape.come(behind, 1, 0, 10);
        std::thread::scope(|scope| {
            let ahead = scope.spawn(|| tape.read(ahead, 1, 200));
            std::thread::sleep(IDLE + Duration::from_millis(500));
            assert!(!ahead.is_finished(), "the tape would wind to and fro");
            tape.served(behind);
            tape.leave(behind);
            ahead.join().unwrap();
        });
    }

    #[test]
    fn who_said_where_he_begins_is_waited_for() {
        let tape = Abreast::default();
        let (behind, ahead) = (tape.reader(), tape.reader());
        tape.expect(behind, 1, 0);
        std::thread::scope(|scope| {
            let ahead = scope.spawn(|| tape.read(ahead, 1, 200));
            std::thread::sleep(Duration::from_millis(200));
            assert!(!ahead.is_finished(), "he has not begun yet");
            // A slow disk holds him up, for longer than who reads now and then would be waited for.
            tape.read(behind, 1, 0);
            std::thread::sleep(IDLE + Duration::from_millis(500));
            assert!(!ahead.is_finished());
            assert_eq!(tape.first(1), Some(0), "a tape that has to wind winds there");
            tape.read(behind, 1, 195);
            ahead.join().unwrap();
            assert_eq!((tape.first(1), tape.first(2)), (Some(195), None));
        });
    }
}
