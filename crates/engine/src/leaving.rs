//! Whether the process is to end: then nobody waits any more for a drive, a robot or somebody who puts in a tape.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::thread;
use std::time::{Duration, Instant};

/// How soon who waits hears of it.
const NAP: Duration = Duration::from_millis(100);

/// Whoever sees it set sees all that was set before it: that a session is to stop, say. Else what it then finds undone would count as
/// damage on processors that put stores in another order (ARM).
static LEFT: AtomicBool = AtomicBool::new(false);

/// Nothing is waited for any more, as the process is to end.
pub fn leave() {
    LEFT.store(true, Release);
}

/// Whether the process is to end.
pub fn has_left() -> bool {
    LEFT.load(Acquire)
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
