//! How long this process waited until hands or robots had brought a medium, or somebody else gave a drive back.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// What was waited, and who waits now, since when. Waits at the same time count once.
struct State {
    done: Duration,
    waiting: usize,
    since: Option<Instant>,
}

static STATE: Mutex<State> = Mutex::new(State { done: Duration::ZERO, waiting: 0, since: None });

/// A wait that is under way until this is dropped.
pub(crate) struct Waiting(());

impl Waiting {
    pub(crate) fn begin() -> Self {
        let mut state = STATE.lock();
        state.waiting += 1;
        state.since.get_or_insert_with(Instant::now);
        Self(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut state = STATE.lock();
        state.waiting -= 1;
        if state.waiting == 0
            && let Some(since) = state.since.take()
        {
            state.done += since.elapsed();
        }
    }
}

/// The time since the process began in which it waited so, those waits included that are under way.
pub fn waited() -> Duration {
    let state = STATE.lock();
    state.done + state.since.map_or(Duration::ZERO, |since| since.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_at_the_same_time_count_once_and_while_they_last() {
        const PAUSE: Duration = Duration::from_millis(30);
        let before = waited();
        let (one, other) = (Waiting::begin(), Waiting::begin());
        std::thread::sleep(PAUSE);
        assert!(waited() - before >= PAUSE);
        drop(one);
        std::thread::sleep(PAUSE);
        let all = waited();
        assert!(all - before >= 2 * PAUSE, "the other one goes on");
        drop(other);
        assert!(waited() >= all);
    }
}
