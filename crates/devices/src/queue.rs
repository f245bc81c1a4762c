//! Drives and tapes that other sessions have: waited for, for as long as the front end says.
//!
//! Whoever waits has no drive meanwhile that somebody else waits for, as far as it does not just use it.

use std::fmt::Display;
use std::sync::OnceLock;
use std::thread;
use std::time::{Duration, Instant};

use crate::operator;

/// The first pause between two looks; each is twice as long as the one before.
const SHORTEST: Duration = Duration::from_millis(200);
/// The longest one.
const LONGEST: Duration = Duration::from_secs(10);
/// How soon somebody who stops the session is heard.
const NAP: Duration = Duration::from_millis(100);

/// How long a session waits for drives.
pub struct Patience {
    /// At most so long at a time.
    pub most: Duration,
    /// Is told, in a sentence, what is waited for.
    pub tell: Box<dyn Fn(&str) + Send + Sync>,
}

static PATIENCE: OnceLock<Patience> = OnceLock::new();

/// Says how long drives are waited for. The first one stays; without one nobody waits.
pub fn set(patience: Patience) {
    let _ = PATIENCE.set(patience);
}

/// A wait for a drive.
pub struct Wait {
    begun: Instant,
    pause: Duration,
    is_told: bool,
}

impl Wait {
    /// One that begins now.
    pub fn begin() -> Self {
        Self { begun: Instant::now(), pause: SHORTEST, is_told: false }
    }

    /// Waits a while because of that, which is said once. False if nobody waits any longer.
    pub fn again(&mut self, why: &dyn Display) -> bool {
        let Some(patience) = PATIENCE.get() else { return false };
        let is_over = || self.begun.elapsed() >= patience.most || operator::has_left();
        if is_over() {
            return false;
        }
        if !self.is_told {
            (patience.tell)(&format!("waiting for a drive or a tape: {why}"));
        }
        // Two that wait for each other's drives do not look at the same time for ever.
        let own = Duration::from_millis(u64::from(std::process::id() % 97));
        let looked = Instant::now();
        while looked.elapsed() < self.pause + own && !is_over() {
            thread::sleep(NAP.min(self.pause));
        }
        self.is_told = true;
        self.pause = (self.pause * 2).min(LONGEST);
        !operator::has_left()
    }
}
