//! Media, drives and robots that other sessions have: waited for, for as long as the front end says.
//!
//! Whoever waits has nothing meanwhile that somebody else waits for, as far as it does not just use it.

use std::fmt::Display;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::operator;
use crate::waits::Waiting;

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
}

static PATIENCE: OnceLock<Patience> = OnceLock::new();

/// Says how long is waited. The first one stays; without one nobody waits.
pub fn set(patience: Patience) {
    let _ = PATIENCE.set(patience);
}

/// Puts what is known of who has something into the sentence that says so.
pub fn name(text: &str) -> String {
    PATIENCE.get().map_or_else(|| text.to_owned(), |patience| (patience.name)(text))
}

/// A wait for something that others have.
pub struct Wait {
    begun: Instant,
    pause: Duration,
    told: Option<String>,
}

impl Wait {
    /// One that begins now.
    pub fn begin() -> Self {
        Self { begun: Instant::now(), pause: SHORTEST, told: None }
    }

    /// Waits a while because of that, which is said once. False if nobody waits any longer.
    pub fn again(&mut self, why: &dyn Display) -> bool {
        let Some(patience) = PATIENCE.get() else { return false };
        let is_over = || {
            patience.most.is_some_and(|most| self.begun.elapsed() >= most) || operator::has_left()
        };
        if is_over() {
            return false;
        }
        let why = (patience.name)(&reason(&why.to_string()));
        if self.told.as_ref() != Some(&why) {
            (patience.tell)(&format!("waiting: {why}"));
            self.told = Some(why);
        }
        // Two that wait for each other's drives do not look at the same time for ever.
        let own = Duration::from_millis(u64::from(std::process::id() % 97));
        let _waits = Waiting::begin();
        let looked = Instant::now();
        while looked.elapsed() < self.pause + own && !is_over() {
            thread::sleep(NAP.min(self.pause));
        }
        self.pause = (self.pause * 2).min(LONGEST);
        !operator::has_left()
    }
}

/// An error without what it says to do: it is done.
fn reason(error: &str) -> String {
    error.rsplit_once("; ").map_or(error, |(what, _)| what).to_owned()
}
