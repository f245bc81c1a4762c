//! The choice of compression that the streams of a session share: `auto` climbs a ladder of methods while the source, the device or the
//! network limits and processors have time left, and descends while processors limit. Two samples must agree, so that one odd moment
//! changes nothing.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use capstan_format::codec::Method;

use crate::meter::Stage;

/// From the cheapest to the strongest; each step about halves the rate of the one before on text-like data.
const LADDER: [Method; 5] =
    [Method::Lz4, Method::Zstd(1), Method::Zstd(3), Method::Zstd(6), Method::Zstd(9)];
/// Samples that must agree before the ladder is climbed or descended.
const AGREE: usize = 2;

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

    /// Its step: 0 is the lowest.
    pub fn step(&self) -> usize {
        self.step.load(Relaxed)
    }

    /// Takes the step that another host's ladder has.
    pub fn set_step(&self, step: usize) {
        self.step.store(step.min(LADDER.len() - 1), Relaxed);
    }

    /// The method of its step.
    pub fn method(&self) -> Method {
        LADDER[self.step.load(Relaxed).min(LADDER.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_needs_two_samples_that_agree() {
        let ladder = Ladder::default();
        ladder.sample(Stage::Device, 0.9);
        ladder.sample(Stage::Cpu, 0.0);
        ladder.sample(Stage::Device, 0.9);
        assert_eq!(ladder.method(), Method::Lz4);
        ladder.sample(Stage::Device, 0.9);
        assert_eq!(ladder.method(), Method::Zstd(1));
        (0..20).for_each(|_| ladder.sample(Stage::Source, 0.5));
        assert_eq!(ladder.method(), Method::Zstd(9));
        (0..20).for_each(|_| ladder.sample(Stage::Cpu, 0.0));
        assert_eq!(ladder.method(), Method::Lz4);
    }
}
