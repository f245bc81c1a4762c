//! How long a host waited until hands or robots had brought a medium, or another session gave a drive or a medium back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// What a host waited, and waits. Clones are of the same host.
#[derive(Clone, Default)]
pub struct Waits(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    all: Count,
    /// What of it is waited for other sessions.
    for_others: Count,
}

/// What was waited, and who waits now, since when. Waits at the same time count once.
#[derive(Default)]
struct Count {
    done: Duration,
    waiting: usize,
    since: Option<Instant>,
    /// What was waited at another host.
    elsewhere: Duration,
    /// Up to when sessions have counted it.
    counted: Duration,
}

impl Count {
    fn begin(&mut self) {
        self.waiting += 1;
        self.since.get_or_insert_with(Instant::now);
    }

    fn end(&mut self) {
        self.waiting -= 1;
        if self.waiting == 0
            && let Some(since) = self.since.take()
        {
            self.done += since.elapsed();
        }
    }

    fn so_far(&self) -> Duration {
        let now = self.since.map_or(Duration::ZERO, |since| since.elapsed());
        self.done + now + self.elsewhere
    }

    fn uncounted(&self) -> Duration {
        self.so_far().saturating_sub(self.counted)
    }
}

/// A wait that is under way until this is dropped.
pub struct Waiting {
    waits: Waits,
    for_others: bool,
}

impl Waits {
    /// For hands or a robot.
    pub fn begin(&self) -> Waiting {
        self.0.lock().all.begin();
        Waiting { waits: self.clone(), for_others: false }
    }

    /// For another session.
    pub fn begin_for_others(&self) -> Waiting {
        let mut state = self.0.lock();
        state.all.begin();
        state.for_others.begin();
        Waiting { waits: self.clone(), for_others: true }
    }

    /// What was waited at another host since it was there, and how much of that for other sessions.
    pub fn set_elsewhere(&self, all: Duration, for_others: Duration) {
        let mut state = self.0.lock();
        (state.all.elsewhere, state.for_others.elsewhere) = (all, for_others);
    }

    /// The time that was waited so since the host began, those waits included that are under way.
    pub fn waited(&self) -> Duration {
        self.0.lock().all.so_far()
    }

    /// How much of that was for other sessions.
    pub fn waited_for_others(&self) -> Duration {
        self.0.lock().for_others.so_far()
    }

    /// What of it no session has counted yet.
    pub fn uncounted(&self) -> Duration {
        self.0.lock().all.uncounted()
    }

    /// How much of that was for other sessions.
    pub fn uncounted_for_others(&self) -> Duration {
        self.0.lock().for_others.uncounted()
    }

    /// Says that a session has counted all of it.
    pub fn count(&self) {
        let mut state = self.0.lock();
        state.all.counted = state.all.so_far();
        state.for_others.counted = state.for_others.so_far();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = self.waits.0.lock();
        state.all.end();
        if self.for_others {
            state.for_others.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_at_the_same_time_count_once_and_while_they_last() {
        const PAUSE: Duration = Duration::from_millis(30);
        let waits = Waits::default();
        let (one, other) = (waits.begin_for_others(), waits.begin());
        std::thread::sleep(PAUSE);
        assert!(waits.waited() >= PAUSE);
        drop(one);
        let for_others = waits.uncounted_for_others();
        std::thread::sleep(PAUSE);
        let all = waits.waited();
        assert!(all >= 2 * PAUSE, "the other one goes on");
        assert!(for_others >= PAUSE && waits.uncounted_for_others() == for_others, "no more");
        drop(other);
        assert!(waits.waited() >= all);
    }

    #[test]
    fn what_a_session_has_counted_the_next_one_does_not() {
        let waits = Waits::default();
        let one = waits.begin_for_others();
        std::thread::sleep(Duration::from_millis(20));
        drop(one);
        assert_eq!(waits.uncounted(), waits.waited());
        assert!(waits.uncounted_for_others() >= Duration::from_millis(20));
        waits.count();
        assert_eq!(waits.uncounted(), Duration::ZERO);
        assert_eq!(waits.uncounted_for_others(), Duration::ZERO);
        assert!(waits.waited() >= Duration::from_millis(20));
    }
}
