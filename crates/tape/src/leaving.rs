//! Whether the process is to end: then nobody waits any more for a drive, a robot or somebody who puts in a tape.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// How soon who waits hears of it.
const NAP: Duration = Duration::from_millis(100);

static LEFT: AtomicBool = AtomicBool::new(false);

/// Nothing is waited for any more, as the process is to end.
pub fn leave() {
    LEFT.store(true, Relaxed);
}

/// Whether the process is to end.
pub fn has_left() -> bool {
    LEFT.load(Relaxed)
}

/// Waits that long, or until the process is to end. Whether it waited to the end.
pub fn nap(time: Duration) -> bool {
    let begun = Instant::now();
    while !has_left() {
        match time.checked_sub(begun.elapsed()) {
            Some(left) if !left.is_zero() => thread::sleep(left.min(NAP)),
            _ => return true,
        }
    }
    false
}
