//! Meters: what each stage did with its time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The stages of the data path, by the names that reports, assessment and planner use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(usize)]
pub enum Stage {
    /// Reading (backup) or writing (restore) file contents.
    Source,
    /// Listing directories, opening files, reading or setting metadata.
    Metadata,
    /// Compression, encryption, checksums, encoding of batches. Its bytes, in a backup: contents as they are stored.
    Cpu,
    /// The link between disk agent and media agent.
    Network,
    /// The device: writing, reading, synchronising.
    Device,
    /// The internal database.
    Cell,
    /// Waiting until hands or robots have brought a medium, or until somebody else gives a drive back.
    MediaChange,
}

impl Stage {
    /// All stages, in the order of the data path.
    pub const ALL: [Self; 7] = [
        Self::Source,
        Self::Metadata,
        Self::Cpu,
        Self::Network,
        Self::Device,
        Self::Cell,
        Self::MediaChange,
    ];

    /// The stage's name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Source => "source",
            Self::Metadata => "file metadata",
            Self::Cpu => "cpu",
            Self::Network => "network",
            Self::Device => "device",
            Self::Cell => "cell",
            Self::MediaChange => "media change",
        }
    }
}

/// What one stage counted, all its threads together.
#[derive(Debug, Default)]
pub struct Meter {
    busy_ns: AtomicU64,
    wait_in_ns: AtomicU64,
    wait_out_ns: AtomicU64,
    bytes: AtomicU64,
}

/// A reading of a [`Meter`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Time at work.
    pub busy: Duration,
    /// Time waiting for input.
    pub wait_in: Duration,
    /// Time waiting to hand output on.
    pub wait_out: Duration,
    /// Bytes that went through.
    pub bytes: u64,
}

impl Meter {
    /// Adds time at work.
    pub fn busy(&self, time: Duration) {
        self.busy_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }
    /// Adds time waited for input.
    pub fn wait_in(&self, time: Duration) {
        self.wait_in_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }
    /// Adds time waited for output.
    pub fn wait_out(&self, time: Duration) {
        self.wait_out_ns.fetch_add(time.as_nanos() as u64, Relaxed);
    }
    /// Adds bytes.
    pub fn bytes(&self, n: u64) {
        self.bytes.fetch_add(n, Relaxed);
    }
    /// The sums so far.
    pub fn read(&self) -> Reading {
        let ns = |a: &AtomicU64| Duration::from_nanos(a.load(Relaxed));
        Reading {
            busy: ns(&self.busy_ns),
            wait_in: ns(&self.wait_in_ns),
            wait_out: ns(&self.wait_out_ns),
            bytes: self.bytes.load(Relaxed),
        }
    }
}

/// The meters of all stages of a session.
#[derive(Debug, Default)]
pub struct Meters([Meter; Stage::ALL.len()]);

impl Meters {
    /// The meter of a stage.
    pub fn of(&self, stage: Stage) -> &Meter {
        &self.0[stage as usize]
    }
    /// All readings, in the order of [`Stage::ALL`].
    pub fn read(&self) -> [Reading; Stage::ALL.len()] {
        std::array::from_fn(|i| self.0[i].read())
    }
}

/// Splits a thread's time among stages with one clock reading per change.
#[derive(Debug)]
pub struct Lap(Instant);

impl Lap {
    /// Starts now.
    pub fn start() -> Self {
        Self(Instant::now())
    }
    /// Time since the start or the last call, and starts anew.
    pub fn split(&mut self) -> Duration {
        let now = Instant::now();
        let time = now.duration_since(self.0);
        self.0 = now;
        time
    }
    /// Counts the time since the last call as work of that meter.
    pub fn busy(&mut self, meter: &Meter) {
        meter.busy(self.split());
    }
}
