//! Fetching ahead: where the source is cold, many threads open the next files and start reading them into the page
//! cache, so that the streams find them there. They own no blocks, and where the source is warm they sleep.
//!
//! Many small cold files want about 32 requests in flight, also on two processors (docs/architecture.md has the
//! figures). What was brought into the cache for us alone is dropped when it was read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use capstan_engine::queue::Queue;
use capstan_format::entry::Kind;

use crate::linux::source;
use crate::walk::{Group, WalkItem};

/// Threads that fetch.
pub const FETCHERS: usize = 32;
/// Groups that wait to be fetched; more than the streams' queues hold are never needed.
const GROUPS_WAITING: usize = 64;
/// A stream that needs this long per file on average calls its source cold: a warm one takes 4 to 15 microseconds.
const COLD: Duration = Duration::from_micros(40);
/// Fetchers that need less than this per file find nothing to fetch: the source is warm.
const WARM: Duration = Duration::from_micros(12);

/// The next groups of all streams.
pub struct Ahead {
    cold: AtomicBool,
    groups: Queue<Arc<Group>>,
    spent_ns: AtomicU64,
    fetched: AtomicU64,
}

impl Default for Ahead {
    fn default() -> Self {
        Self {
            cold: AtomicBool::new(false),
            groups: Queue::new(GROUPS_WAITING),
            spent_ns: AtomicU64::new(0),
            fetched: AtomicU64::new(0),
        }
    }
}

impl Ahead {
    /// A stream read `files` files in `time`.
    pub fn learn(&self, files: usize, time: Duration) {
        if files >= 16 && time / (files as u32) > COLD {
            self.cold.store(true, Relaxed);
        }
    }

    /// A group was dealt to a stream.
    pub(crate) fn add(&self, group: &Arc<Group>) {
        if self.cold.load(Relaxed) {
            let _ = self.groups.give(group.clone());
        }
    }

    /// No more groups come.
    pub(crate) fn close(&self) {
        self.groups.close();
    }

    /// One fetcher: until the walk has ended.
    pub(crate) fn run(&self) {
        let mut waited = Duration::ZERO;
        while let Some(group) = self.groups.take(&mut waited) {
            // The others help with this group: it is put back until all of it is taken.
            let first = group.fetched.fetch_add(CHUNK, Relaxed);
            if first + CHUNK < group.items.len() {
                let _ = self.groups.give_first(group.clone());
            }
            let end = (first + CHUNK).min(group.items.len());
            let Some(items) = group.items.get(first..end) else { continue };
            let start = Instant::now();
            items.iter().for_each(fetch);
            self.judge(items.len(), start.elapsed());
        }
    }

    fn judge(&self, files: usize, time: Duration) {
        let spent =
            self.spent_ns.fetch_add(time.as_nanos() as u64, Relaxed) + time.as_nanos() as u64;
        let fetched = self.fetched.fetch_add(files as u64, Relaxed) + files as u64;
        if fetched >= 4096 {
            if spent / fetched < WARM.as_nanos() as u64 {
                self.cold.store(false, Relaxed);
            }
            self.spent_ns.store(0, Relaxed);
            self.fetched.store(0, Relaxed);
        }
    }
}

/// Items a fetcher takes at once.
const CHUNK: usize = 4;

fn fetch(item: &WalkItem) {
    if item.listed.kind == Some(Kind::File)
        && let Ok(fd) = source::open_at(&item.dir, &item.listed.name, false)
        && source::stat(&fd).is_ok_and(|s| (s.st_size as u64) < source::DIRECT_MIN)
        && source::prefetch(&fd)
    {
        item.ours.store(true, Relaxed);
    }
}
