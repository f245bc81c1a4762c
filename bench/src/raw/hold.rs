//! Memory that is touched and held back, and given free as fast as a tmpfs grows.

use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

/// Bytes that are given free at once.
const CHUNK: usize = 64 << 20;
/// Chunks that are free before they are needed.
const AHEAD: usize = 6;
/// How often is looked whether more is needed: at 3 GB/s a fifth of what is ahead.
const LOOK: Duration = Duration::from_millis(25);

/// Touches so many bytes, says so by a line, and gives them free as `dir`'s file system fills, until the standard input ends.
pub fn until_closed(dir: &Path, bytes: u64) {
    let count = usize::try_from(bytes).unwrap_or(usize::MAX) / CHUNK + 1;
    // Not zeros, which the allocator has without touching anything.
    let mut held: Vec<Vec<u8>> = (0..count).map(|_| vec![1; CHUNK]).collect();
    println!("held");
    // Who does not listen has closed the input too.
    let _ = std::io::stdout().flush();
    let begun = used(dir);
    let closed = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            closed.store(true, Relaxed);
        });
        while !closed.load(Relaxed) {
            let grown = used(dir).saturating_sub(begun) as usize / CHUNK;
            // Nothing is ahead before the first byte: it would go back to the host meanwhile.
            let free = if grown == 0 { 0 } else { grown + AHEAD };
            held.truncate(count.saturating_sub(free));
            thread::sleep(LOOK);
        }
    });
}

/// Bytes that a file system holds.
fn used(dir: &Path) -> u64 {
    let stat = rustix::fs::statvfs(dir);
    stat.map_or(0, |s| s.f_blocks.saturating_sub(s.f_bfree) * s.f_frsize)
}
