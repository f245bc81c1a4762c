//! A whole cell of three hosts in one process, whose disks and ports fail by a seed: power that fails at any operation and loses or tears what was not
//! synchronised, full disks, links that are cut, a manager whose last records are lost. Whatever happened:
//!
//! - a version that is recorded as completed restores bit for bit;
//! - it does so from the medium alone to which it was copied, and a full from each of its mirrors alone;
//! - nothing panics.
//!
//! In one life of four the device host is at the other end of a connection, which is cut after some bytes.
//! In every eighth life the disk agent is behind a connection, which is cut instead of its link to the media agent.
//!
//! 200 seeds in the gate, 100,000 in `make soak`, of which `CAPSTAN_SOAK=20` says that they may take 20 minutes; `CAPSTAN_SEED=N` (or
//! `N..M`) tries one again and tells it.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

#[path = "behind/mod.rs"]
mod behind;
#[path = "../../remote/tests/devices/cuts.rs"]
mod cuts;
#[path = "../../capstan/tests/campaign/dice.rs"]
#[allow(dead_code, reason = "each test binary uses its part")]
mod dice;
#[path = "lives/disk.rs"]
mod disk;
#[path = "lives/far.rs"]
mod far;
#[path = "lives/life.rs"]
mod life;
#[path = "../../cell/tests/support/mod.rs"]
mod support;

use std::sync::Mutex;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use life::Life;

#[test]
fn whatever_fails_what_is_recorded_as_completed_restores() {
    let minutes = std::env::var("CAPSTAN_SOAK").ok().map(|text| text.parse::<u64>().unwrap_or(1));
    // `1` only asks for a long run.
    let minutes = minutes.map(|minutes| if minutes > 1 { minutes } else { 180 });
    let (seeds, tell) = match (dice::seeds_wanted(), minutes) {
        (Some(seeds), _) => (seeds, true),
        (None, Some(_)) => (0..100_000, false),
        (None, None) => (0..200, false),
    };
    let until = Instant::now() + Duration::from_secs(60 * minutes.unwrap_or(60));
    let (next, end) = (AtomicU64::new(seeds.start), seeds.end);
    let faults = Mutex::new(Vec::new());
    let sums = Mutex::new(life::Sums::default());
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Relaxed);
                    if seed >= end || Instant::now() > until {
                        return;
                    }
                    let mut life = Life::new(seed);
                    if let Err(fault) = life.live() {
                        let told = life.told.join("\n  ");
                        faults.lock().unwrap().push(format!("seed {seed}: {fault}\n  {told}"));
                    } else if tell {
                        eprintln!("seed {seed}:\n  {}", life.told.join("\n  "));
                    }
                    sums.lock().unwrap().add(&life.sums);
                }
            });
        }
    });
    let sums = sums.into_inner().unwrap();
    eprintln!("{sums:?}");
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} faults\n{}", faults.len(), faults.join("\n"));
    // Lives in which nothing fails, or nothing succeeds, show nothing.
    if sums.sessions > 1000 {
        assert!(sums.failed * 20 > sums.sessions && sums.completed * 4 > sums.sessions, "{sums:?}");
        assert!(sums.restored > sums.sessions / 2 && sums.alone > 0, "{sums:?}");
    }
}
