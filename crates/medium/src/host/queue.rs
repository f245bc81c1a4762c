//! Media, drives and robots that other sessions have: waited for, for as long as the front end says.
//!
//! Whoever waits has nothing meanwhile that somebody else waits for, as far as it does not just use it.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use capstan_engine::leaving::has_left;
use capstan_engine::problem::Explain;

use super::waits::Waits;

/// The first pause between two looks; each is twice as long as the one before.
const SHORTEST: Duration = Duration::from_millis(200);
/// The longest one.
const LONGEST: Duration = Duration::from_secs(10);
/// How soon somebody who stops the session is heard.
const NAP: Duration = Duration::from_millis(100);

/// How long a session waits for what others have.
pub struct Patience {
    /// At most so long at a time; `None` for as long as it takes.
    pub most: Option<Duration>,
    /// Puts what is known of who has it into the sentence that says why it is waited.
    pub name: Box<dyn Fn(&str) -> String + Send + Sync>,
    /// Is told that sentence, when it begins and when it changes.
    pub tell: Box<dyn Fn(&str) + Send + Sync>,
    /// Is told of each wait, again and again while it lasts, what is waited for; and once that it is over.
    pub board: Board,
}

/// Who is told of a wait, by its number at its host, what is waited for and how long it has been, or that it is over.
pub type Board = Box<dyn Fn(u64, Option<(&str, Duration)>) + Send + Sync>;

/// The waits of a host for what others have.
pub struct Queue {
    patience: OnceLock<Patience>,
    /// The number of the next notice.
    notices: AtomicU64,
    waits: Waits,
}

impl Queue {
    /// Of a host whose waits are counted there.
    pub fn counted_by(waits: Waits) -> Self {
        // Records of waits go by process and number: hosts of one process begin with different ones.
        let first = RandomState::new().hash_one("notices") >> 32;
        Self { patience: OnceLock::new(), notices: AtomicU64::new(first), waits }
    }

    /// Says how long is waited. The first one stays; without one nobody waits.
    pub fn set(&self, patience: Patience) {
        let _ = self.patience.set(patience);
    }

    /// How long is waited for others, where somebody waits; nothing inside for as long as it takes.
    pub fn patience(&self) -> Option<Option<Duration>> {
        self.patience.get().map(|patience| patience.most)
    }

    /// Tells why another host waits.
    pub fn tell(&self, why: &str) {
        self.patience.get().into_iter().for_each(|patience| (patience.tell)(why));
    }

    /// Shows what another host waits for and how long it has been, or that its wait is over.
    pub fn show(&self, number: u64, wait: Option<(&str, Duration)>) {
        self.patience.get().into_iter().for_each(|patience| (patience.board)(number, wait));
    }

    /// Puts what is known of who has something into the sentence that says so.
    pub fn name(&self, text: &str) -> String {
        self.patience.get().map_or_else(|| text.to_owned(), |patience| (patience.name)(text))
    }

    /// A notice, which says nothing yet.
    pub fn notice(self: &Arc<Self>) -> Notice {
        let number = self.notices.fetch_add(1, Relaxed);
        Notice { queue: self.clone(), number, since: None, is_up: false }
    }

    /// A wait that begins now.
    pub fn wait(self: &Arc<Self>) -> Wait {
        Wait { begun: Instant::now(), pause: SHORTEST, told: None, notice: self.notice() }
    }
}

/// A wait that others can see while it lasts.
pub struct Notice {
    queue: Arc<Queue>,
    number: u64,
    since: Option<Instant>,
    is_up: bool,
}

impl Notice {
    /// Says what is waited for, or that it still is.
    pub fn put_up(&mut self, why: &str) {
        if let Some(patience) = self.queue.patience.get() {
            let waited = self.since.get_or_insert_with(Instant::now).elapsed();
            self.is_up = true;
            (patience.board)(self.number, Some((why, waited)));
        }
    }

    /// Says that nothing is waited for just now. What is said later is the same wait.
    pub fn take_down(&mut self) {
        if std::mem::take(&mut self.is_up)
            && let Some(patience) = self.queue.patience.get()
        {
            (patience.board)(self.number, None);
        }
    }
}

impl Drop for Notice {
    fn drop(&mut self) {
        self.take_down();
    }
}

/// A wait for something that others have.
pub struct Wait {
    begun: Instant,
    pause: Duration,
    told: Option<String>,
    notice: Notice,
}

impl Wait {
    /// What it waits for is tried, which may take long: nobody is told meanwhile that it waits.
    pub fn is_tried(&mut self) {
        self.notice.take_down();
    }

    /// Waits a while because of that, which is said once. False if nobody waits any longer.
    pub fn again(&mut self, why: &dyn Explain) -> bool {
        let queue = self.notice.queue.clone();
        let Some(patience) = queue.patience.get() else { return false };
        let is_over =
            || patience.most.is_some_and(|most| self.begun.elapsed() >= most) || has_left();
        if is_over() {
            self.notice.take_down();
            return false;
        }
        let why = (patience.name)(&why.sentence());
        self.notice.put_up(&why);
        if self.told.as_ref() != Some(&why) {
            (patience.tell)(&why);
            self.told = Some(why);
        }
        let pause = by_chance(self.pause);
        let _waits = queue.waits.begin_for_others();
        let looked = Instant::now();
        while let Some(left) = pause.checked_sub(looked.elapsed()).filter(|left| !left.is_zero())
            && !is_over()
        {
            thread::sleep(left.min(NAP));
        }
        self.pause = (self.pause * 2).min(LONGEST);
        !has_left()
    }
}

/// From half as long to half as long again. Two that wait for what the other one takes first would else look at the same time for
/// ever: each finds that the other has something, and lets go.
fn by_chance(pause: Duration) -> Duration {
    let share = RandomState::new().hash_one(std::process::id()) % 1_000;
    pause.mul_f64(0.5 + share as f64 / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_are_as_long_as_chance_has_it() {
        let pauses: Vec<_> = (0..200).map(|_| by_chance(SHORTEST)).collect();
        let (least, most) = (pauses.iter().min().unwrap(), pauses.iter().max().unwrap());
        assert!(*least >= SHORTEST / 2 && *most <= SHORTEST * 3 / 2, "{least:?} {most:?}");
        assert!(*most - *least > SHORTEST / 2, "{least:?} {most:?}");
    }
}
