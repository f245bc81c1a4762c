//! How hard to compress: fixed, or decided while the session runs.
//!
//! `auto` has a ladder of methods that all streams of a session share. It is climbed while the source, the device or
//! the network limits and processors have time left, and descended while they limit; two samples must agree, so that
//! one odd moment changes nothing. A stream whose data did not shrink stores the next frames as they are, more of them
//! each time, before it tries again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use capstan_engine::meter::Stage;
use capstan_format::codec::Method;
use capstan_wire::compression::Compression;

/// From the cheapest to the strongest; each step about halves the rate of the one before on text-like data.
const LADDER: [Method; 5] =
    [Method::Lz4, Method::Zstd(1), Method::Zstd(3), Method::Zstd(6), Method::Zstd(9)];
/// Samples that must agree before the ladder is climbed or descended.
const AGREE: usize = 2;
/// Most frames stored untried after ones that did not shrink.
const SKIP_MAX: u32 = 31;

/// The step of the ladder that a session's streams share.
#[derive(Debug, Default)]
pub struct Ladder {
    step: AtomicUsize,
    up: AtomicUsize,
    down: AtomicUsize,
}

impl Ladder {
    /// Takes a sample: which stage limited, and the share of processor time (0 to 1) that was left unused.
    pub fn sample(&self, limiting: Stage, idle: f64) {
        let (up, down) = match limiting {
            Stage::Cpu => (false, true),
            _ => (idle > 0.25, idle < 0.05),
        };
        let count = |counter: &AtomicUsize, on: bool| {
            let n = if on { counter.load(Relaxed) + 1 } else { 0 };
            counter.store(n, Relaxed);
            n
        };
        let (ups, downs) = (count(&self.up, up), count(&self.down, down));
        let step = self.step.load(Relaxed);
        if ups >= AGREE && step + 1 < LADDER.len() {
            self.step.store(step + 1, Relaxed);
            self.up.store(0, Relaxed);
        } else if downs >= AGREE && step > 0 {
            self.step.store(step - 1, Relaxed);
            self.down.store(0, Relaxed);
        }
    }

    fn method(&self) -> Method {
        LADDER[self.step.load(Relaxed).min(LADDER.len() - 1)]
    }
}

/// One stream's choice of method, frame by frame.
#[derive(Debug, Clone)]
pub struct CompressionChoice {
    compression: Compression,
    ladder: Arc<Ladder>,
    /// Frames still to be stored untried.
    skip: u32,
    /// Frames stored untried after the last that did not shrink.
    skipped: u32,
}

impl CompressionChoice {
    /// Compresses as asked; `ladder` is the session's.
    pub fn new(compression: Compression, ladder: Arc<Ladder>) -> Self {
        Self { compression, ladder, skip: 0, skipped: 0 }
    }

    /// The method for the next frame.
    pub fn method(&mut self) -> Method {
        if self.skip > 0 {
            self.skip -= 1;
            return Method::Store;
        }
        match self.compression {
            Compression::Off => Method::Store,
            Compression::Fixed(method) => method,
            Compression::Auto => self.ladder.method(),
        }
    }

    /// Learns whether the last frame that was tried shrank.
    pub fn learn(&mut self, shrank: bool) {
        self.skipped = if shrank { 0 } else { (self.skipped * 2 + 1).min(SKIP_MAX) };
        self.skip = self.skipped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_needs_two_samples_that_agree() {
        let ladder = Arc::new(Ladder::default());
        let mut choice = CompressionChoice::new(Compression::Auto, ladder.clone());
        ladder.sample(Stage::Device, 0.9);
        ladder.sample(Stage::Cpu, 0.0);
        ladder.sample(Stage::Device, 0.9);
        assert_eq!(choice.method(), Method::Lz4);
        ladder.sample(Stage::Device, 0.9);
        assert_eq!(choice.method(), Method::Zstd(1));
        (0..20).for_each(|_| ladder.sample(Stage::Source, 0.5));
        assert_eq!(choice.method(), Method::Zstd(9));
        (0..20).for_each(|_| ladder.sample(Stage::Cpu, 0.0));
        assert_eq!(choice.method(), Method::Lz4);
    }

    #[test]
    fn what_does_not_shrink_is_tried_less_and_less() {
        let mut choice = CompressionChoice::new(Compression::Fixed(Method::Lz4), Arc::default());
        let mut tried = 0;
        for _ in 0..200 {
            if choice.method() != Method::Store {
                tried += 1;
                choice.learn(false);
            }
        }
        assert!((8..=14).contains(&tried), "{tried}");
        choice.learn(true);
        assert_eq!(choice.method(), Method::Lz4);
    }
}
