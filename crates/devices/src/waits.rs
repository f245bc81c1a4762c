//! How long this process waited until hands or robots had brought a medium, or another session gave a drive or a medium back.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// What was waited, and who waits now, since when. Waits at the same time count once.
struct State {
    done: Duration,
    waiting: usize,
    since: Option<Instant>,
}

impl State {
    const fn new() -> Self {
        Self { done: Duration::ZERO, waiting: 0, since: None }
    }

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
        self.done + self.since.map_or(Duration::ZERO, |since| since.elapsed())
    }
}

static STATE: Mutex<State> = Mutex::new(State::new());
/// What of it was waited for other sessions.
static FOR_OTHERS: Mutex<State> = Mutex::new(State::new());

/// A wait that is under way until this is dropped.
pub(crate) struct Waiting {
    for_others: bool,
}

impl Waiting {
    /// For hands or a robot.
    pub(crate) fn begin() -> Self {
        STATE.lock().begin();
        Self { for_others: false }
    }

    /// For another session.
    pub(crate) fn for_others() -> Self {
        STATE.lock().begin();
        FOR_OTHERS.lock().begin();
        Self { for_others: true }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        STATE.lock().end();
        if self.for_others {
            FOR_OTHERS.lock().end();
        }
    }
}

/// The time since the process began in which it waited so, those waits included that are under way.
pub fn waited() -> Duration {
    STATE.lock().so_far()
}

/// How much of it was for other sessions.
pub fn waited_for_others() -> Duration {
    FOR_OTHERS.lock().so_far()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_at_the_same_time_count_once_and_while_they_last() {
        const PAUSE: Duration = Duration::from_millis(30);
        let before = waited();
        let (one, other) = (Waiting::for_others(), Waiting::begin());
        std::thread::sleep(PAUSE);
        assert!(waited() - before >= PAUSE);
        drop(one);
        let for_others = waited_for_others();
        std::thread::sleep(PAUSE);
        let all = waited();
        assert!(all - before >= 2 * PAUSE, "the other one goes on");
        assert!(for_others >= PAUSE && waited_for_others() == for_others, "for others no more");
        drop(other);
        assert!(waited() >= all);
    }
}
