//! The time in which drives work.

use std::time::{Duration, Instant};

use capstan_engine::leaving;
use parking_lot::Mutex;

/// A clock; seconds since it was made.
#[derive(Debug)]
pub enum Clock {
    /// The world's, so many times as fast.
    Real {
        /// When it was made.
        begun: Instant,
        /// Seconds of the drive in a second of the world.
        scale: f64,
    },
    /// Stands still until somebody waits.
    Virtual(Mutex<f64>),
}

impl Clock {
    /// The world's clock, `scale` times as fast.
    pub fn real(scale: f64) -> Self {
        Self::Real { begun: Instant::now(), scale }
    }

    /// A clock that costs no time.
    pub fn virtual_time() -> Self {
        Self::Virtual(Mutex::new(0.0))
    }

    /// Seconds since it was made.
    pub fn now(&self) -> f64 {
        match self {
            Self::Real { begun, scale } => begun.elapsed().as_secs_f64() * scale,
            Self::Virtual(now) => *now.lock(),
        }
    }

    /// Seconds of the drive in a second of the world; nothing where its time is not the world's.
    pub fn scale(&self) -> Option<f64> {
        match self {
            Self::Real { scale, .. } => Some(*scale),
            Self::Virtual(_) => None,
        }
    }

    /// Waits until then, if it is not later already, or until the process is to end: what the drive does is done, only its time is
    /// cut short.
    pub fn wait_until(&self, then: f64) {
        match self {
            Self::Real { scale, .. } => {
                let left = (then - self.now()) / scale;
                // A day is more than any drive takes for anything; a time that is none waits for nothing.
                if left > 0.0 {
                    leaving::nap(Duration::from_secs_f64(left.min(86_400.0)));
                }
            }
            Self::Virtual(now) => {
                let mut now = now.lock();
                *now = now.max(then);
            }
        }
    }

    /// Lets time pass: what the host takes for its own work, in a virtual clock.
    pub fn pass(&self, seconds: f64) {
        self.wait_until(self.now() + seconds);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scaled_clock_is_faster_and_a_virtual_one_costs_nothing() {
        let fast = Clock::real(1000.0);
        let begun = Instant::now();
        fast.wait_until(20.0);
        assert!(fast.now() >= 20.0);
        assert!(begun.elapsed() < Duration::from_secs(5));
        let virtual_ = Clock::virtual_time();
        virtual_.wait_until(1e6);
        virtual_.wait_until(5.0);
        virtual_.pass(1.0);
        assert_eq!(virtual_.now(), 1e6 + 1.0);
    }
}
