//! Fetching ahead: where the source is cold, many threads open the next files and start reading them into the page
//! cache, so that the streams find them there. They own no blocks, and where the source is warm they sleep. Of a name that a
//! base has they look at the inode only, and open what changed.
//!
//! A source is cold where what is read of it was not in the page cache, or where looking at it takes waiting for the disk.
//! Time by the clock does not tell: a machine that is busy takes long, too.
//!
//! Many small cold files want about 32 requests in flight, also on two processors (docs/architecture.md has the
//! figures). What was brought into the cache for us alone is dropped when it was read.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use capstan_engine::queue::Queue;
use capstan_format::entry::{Kind, Timestamp};
use rustix::fs::Stat;

use crate::linux::source;
use crate::linux::source_file::{DIRECT_MIN, SourceFile};
use crate::linux::stalls::Stalls;
use crate::walk::{Group, OfStat, WalkItem};

/// Threads that fetch.
pub const FETCHERS: usize = 32;
/// Groups that wait to be fetched; more than the streams' queues hold are never needed.
const GROUPS_WAITING: usize = 64;
/// A stream that waits this long per name on average calls its source cold. A warm one does not wait at all. A cold ext4
/// whose inodes lie in the order of the walk makes it wait 5 to 10 microseconds: the disk brings 40 of them with each read.
const COLD: Duration = Duration::from_micros(2);
/// Fetchers that wait less than this per name find nothing to fetch: the source is warm.
const WARM: Duration = Duration::from_nanos(500);
/// Names after which the fetchers' findings are judged.
const JUDGED_AT: u64 = 4096;
/// Of so many names one that was not in the page cache is enough for a cold source.
const COLD_SHARE: u64 = 8;

/// The next groups of all streams.
pub struct Ahead {
    cold: AtomicBool,
    groups: Queue<Arc<Group>>,
    /// What changed last before that, and has no such name in the base, may have been moved: it is not read, or once it is known that
    /// it must be.
    saved_by: Option<Timestamp>,
    waited_ns: AtomicU64,
    /// Names that fetchers looked at, and how many of them had contents that were not in the page cache.
    looked_at: AtomicU64,
    brought: AtomicU64,
}

impl Default for Ahead {
    fn default() -> Self {
        Self {
            cold: AtomicBool::new(false),
            groups: Queue::new(GROUPS_WAITING),
            saved_by: None,
            waited_ns: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
            brought: AtomicU64::new(0),
        }
    }
}

impl Ahead {
    /// For a backup that builds on a base that had been saved by then.
    pub fn behind(saved_by: Option<Timestamp>) -> Self {
        Self { saved_by, ..Self::default() }
    }

    /// A stream looked at `names` names, and waited so long for the disk.
    pub fn waited(&self, names: usize, waited: Duration) {
        if names >= 16 && waited / (names as u32) > COLD {
            self.cold.store(true, Relaxed);
        }
    }

    /// Of `probed` small files that are to be read so many are not in the page cache.
    pub fn found_cold(&self, cold: usize, probed: usize) {
        if cold as u64 * COLD_SHARE >= probed.max(1) as u64 {
            self.cold.store(true, Relaxed);
        }
    }

    /// Whether the source is taken for a cold one.
    pub fn is_cold(&self) -> bool {
        self.cold.load(Relaxed)
    }

    /// A group was dealt to a stream.
    pub(crate) fn add(&self, group: &Arc<Group>) {
        if self.is_cold() {
            let _ = self.groups.give(group.clone());
        }
    }

    /// No more groups come.
    pub(crate) fn close(&self) {
        self.groups.close();
    }

    /// One fetcher: until the walk has ended.
    pub(crate) fn run(&self) {
        let mut stalls = None;
        let mut slept = Duration::ZERO;
        while let Some(group) = self.groups.take(&mut slept) {
            // The others help with this group: it is put back until all of it is taken.
            let chunk = chunk(&group);
            let first = group.fetched.fetch_add(chunk, Relaxed);
            if first + chunk < group.items.len() {
                let _ = self.groups.give_first(group.clone());
            }
            let end = (first + chunk).min(group.items.len());
            let Some(items) = group.items.get(first..end) else { continue };
            let stalls = stalls.get_or_insert_with(Stalls::of_this_thread);
            let begun = stalls.now();
            let brought = items.iter().filter(|item| fetch(item, self.saved_by)).count();
            self.judge(items.len(), brought, stalls.since(begun));
        }
    }

    fn judge(&self, names: usize, brought: usize, waited: Duration) {
        let add = |to: &AtomicU64, n: u64| to.fetch_add(n, Relaxed) + n;
        let waited_ns = add(&self.waited_ns, waited.as_nanos() as u64);
        let brought = add(&self.brought, brought as u64);
        let looked_at = add(&self.looked_at, names as u64);
        if looked_at >= JUDGED_AT {
            if waited_ns / looked_at < WARM.as_nanos() as u64 && brought * COLD_SHARE < looked_at {
                self.cold.store(false, Relaxed);
            }
            [&self.waited_ns, &self.looked_at, &self.brought]
                .into_iter()
                .for_each(|n| n.store(0, Relaxed));
        }
    }
}

/// Items a fetcher takes at once: each may wait for the disk twice.
const CHUNK: usize = 4;
/// The same of items that a base has, few of which are opened: one block of an ext4 holds so many inodes of 256 bytes.
const CHUNK_OF_BASE: usize = 16;

fn chunk(group: &Group) -> usize {
    let is_of_base = group.items.first().is_some_and(|item| item.base.is_some());
    if is_of_base { CHUNK_OF_BASE } else { CHUNK }
}

/// Looks at an item as its stream will; whether that brought contents into the page cache.
fn fetch(item: &WalkItem, saved_by: Option<Timestamp>) -> bool {
    if let Some(base) = &item.base {
        let Ok(stat) = source::stat_at(&item.dir, &item.listed.name) else { return false };
        let is_same = base.complete && base.is_certainly_of(&stat);
        let _ = item.stat.set(Box::new(stat));
        if is_same {
            return false;
        }
    }
    let brought = item.listed.kind == Some(Kind::File)
        && SourceFile::open(&item.dir, &item.listed.name).is_ok_and(|file| {
            let is_wanted = |s: Stat| {
                let may_be_moved = item.base.is_none() && Some(source::ctime_of(&s)) <= saved_by;
                (s.st_size as u64) < DIRECT_MIN && !may_be_moved
            };
            source::stat(&file).is_ok_and(is_wanted) && file.prefetch()
        });
    if brought {
        item.ours.store(true, Relaxed);
    }
    brought
}
