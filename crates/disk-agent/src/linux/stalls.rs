//! How long a thread waited for something else than a processor: for a disk, a file server, a lock.
//!
//! Time by the clock says little on a machine that is busy: a thread that waits for a processor takes as long as one that
//! waits for a disk. The kernel counts both apart.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// Counts the stalls of the thread that made it.
pub struct Stalls {
    /// `/proc/thread-self/schedstat`: its second number is the time that the thread was ready to run and had no processor,
    /// in nanoseconds (Documentation/scheduler/sched-stats.rst of the kernel). `None` where the kernel does not count it.
    schedstat: Option<File>,
}

/// A moment of a thread.
#[derive(Debug, Clone, Copy)]
pub struct Moment {
    at: Instant,
    /// Time on a processor, or ready to run, until then.
    ready: Duration,
}

impl Stalls {
    /// Of the calling thread.
    pub fn of_this_thread() -> Self {
        Self { schedstat: File::open("/proc/thread-self/schedstat").ok() }
    }

    /// Now. To be called by the thread that it is of.
    pub fn now(&self) -> Moment {
        let ran = clock_gettime(ClockId::ThreadCPUTime);
        let ran = Duration::new(ran.tv_sec.max(0) as u64, ran.tv_nsec.max(0) as u32);
        Moment { at: Instant::now(), ready: ran + self.delayed() }
    }

    /// How long it waited since then.
    pub fn since(&self, then: Moment) -> Duration {
        let now = self.now();
        (now.at - then.at).saturating_sub(now.ready.saturating_sub(then.ready))
    }

    fn delayed(&self) -> Duration {
        let mut text = [0; 64];
        let read = self.schedstat.as_ref().and_then(|f| f.read_at(&mut text, 0).ok());
        let text = str::from_utf8(&text[..read.unwrap_or(0)]).unwrap_or_default();
        let delayed = text.split_ascii_whitespace().nth(1).and_then(|ns| ns.parse().ok());
        Duration::from_nanos(delayed.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sleeping_is_waiting_and_computing_is_not() {
        let stalls = Stalls::of_this_thread();
        let begun = stalls.now();
        std::thread::sleep(Duration::from_millis(30));
        assert!(stalls.since(begun) >= Duration::from_millis(30));
        // However busy the machine is: a loop waits for processors only. What the host of a virtual machine takes away is
        // counted by nobody, so one good run in twenty is enough.
        let computed = |_| {
            let begun = stalls.now();
            let until = Instant::now() + Duration::from_millis(10);
            while Instant::now() < until {
                std::hint::black_box(0);
            }
            stalls.since(begun)
        };
        let least = (0..20).map(computed).min();
        assert!(least < Some(Duration::from_millis(5)), "{least:?}");
    }
}
