//! How many block buffers go round between streams and a tape drive. Where the device limits, few do: what is written then was read just
//! before and is still in the processors' caches. Where the device had to wait for a source, more lie ready.

use std::time::{Duration, Instant};

/// Blocks after which it is looked at how it went: 16 MiB in blocks of 256 KiB.
const WINDOW: u32 = 64;
/// Of a window's time the share that the device may wait before more lie ready.
const SHARE: f64 = 0.02;
/// Buffers beyond one for each stream that always go round: one is being written, one is ready.
const SPARE_LEAST: usize = 2;

/// The writing thread's view of it.
pub(crate) struct Circulation {
    /// Buffers beyond one for each stream that go round now.
    spare: usize,
    most: usize,
    blocks: u32,
    waited: Duration,
    since: Instant,
}

impl Circulation {
    /// All go round; `most` are there.
    pub fn new(most: usize) -> Self {
        let spare = most.max(SPARE_LEAST);
        Self { spare, most: spare, blocks: 0, waited: Duration::ZERO, since: Instant::now() }
    }

    /// One block more was written, for which the device waited that long. Returns how many buffers beyond one for each stream are
    /// to go round from now on, if that changed.
    pub fn block(&mut self, waited: Duration) -> Option<usize> {
        self.blocks += 1;
        self.waited += waited;
        if self.blocks < WINDOW {
            return None;
        }
        let now = Instant::now();
        let spare = self.after(now - self.since);
        (self.blocks, self.waited, self.since) = (0, Duration::ZERO, now);
        (spare != std::mem::replace(&mut self.spare, spare)).then_some(spare)
    }

    /// Twice as many after a window in which the device waited, half of them after one in which it never did.
    fn after(&self, elapsed: Duration) -> usize {
        match self.waited {
            Duration::ZERO => (self.spare / 2).max(SPARE_LEAST),
            waited if waited > elapsed.mul_f64(SHARE) => (2 * self.spare).min(self.most),
            _ => self.spare,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of windows in each of which the device waited so long in all.
    fn said(circulation: &mut Circulation, waits: &[Duration]) -> Vec<usize> {
        let window = |wait: &Duration| {
            let said: Vec<_> =
                (0..WINDOW).filter_map(|_| circulation.block(*wait / WINDOW)).collect();
            said.last().copied()
        };
        waits.iter().filter_map(window).collect()
    }

    #[test]
    fn few_where_the_device_limits_and_more_where_it_waited() {
        let (never, long) = (Duration::ZERO, Duration::from_secs(60));
        let mut circulation = Circulation::new(9);
        assert_eq!(said(&mut circulation, &[never; 9]), [4, 2]);
        assert_eq!(said(&mut circulation, &[long; 9]), [4, 8, 9]);
        assert_eq!(said(&mut circulation, &[never, long, never]), [4, 8, 4]);
        assert!(said(&mut Circulation::new(0), &[never, long]).is_empty(), "there are no more");
    }

    #[test]
    fn a_little_waiting_changes_nothing() {
        let mut circulation = Circulation::new(8);
        circulation.waited = Duration::from_millis(1);
        assert_eq!(circulation.after(Duration::from_millis(51)), 8);
        circulation.spare = 4;
        assert_eq!(circulation.after(Duration::from_millis(51)), 4);
        assert_eq!(circulation.after(Duration::from_millis(49)), 8);
    }
}
