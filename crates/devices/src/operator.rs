//! Who puts tapes into drives that stand alone: asked for a tape, and waited for.
//!
//! A process has at most one operator, set by its front end. Where nobody is there, a drive without the tape that is wanted is
//! an error at once.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{LazyLock, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::waits;

/// How often a drive is looked at.
const PAUSE: Duration = Duration::from_secs(1);
/// How soon somebody who stops the session is heard.
const NAP: Duration = Duration::from_millis(100);

/// Somebody who is asked for tapes.
pub struct Operator {
    /// How long a tape is waited for; `None` for ever.
    pub patience: Option<Duration>,
    /// Tells him, in a sentence, what to do.
    pub tell: Box<dyn Fn(&str) + Send + Sync>,
    /// Is told of a drive, every second or so, what it waits for; and once that it waits no longer.
    pub board: Board,
}

/// Who is told of a drive what it waits for, or that it waits no longer.
pub type Board = Box<dyn Fn(&str, Option<&str>) + Send + Sync>;

static OPERATOR: OnceLock<Operator> = OnceLock::new();
/// Drives with the tapes that were waited for there in vain: nobody is asked for them again by this process.
static GIVEN_UP: LazyLock<Mutex<HashSet<(String, String)>>> = LazyLock::new(Mutex::default);
/// Microseconds that tapes were waited for since somebody asked.
static WAITED_US: AtomicU64 = AtomicU64::new(0);

/// How long this process waited for tapes since that was asked last, all its drives together.
pub fn take_waited() -> Duration {
    Duration::from_micros(WAITED_US.swap(0, Relaxed))
}

/// A drive that waits for its tape.
struct Waiting<'a> {
    drive: &'a str,
    begun: Instant,
    operator: &'static Operator,
    _counts: waits::Waiting,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        WAITED_US.fetch_add(waited, Relaxed);
        (self.operator.board)(self.drive, None);
    }
}

/// Says who is asked for tapes, and how long they are waited for. The first one stays.
pub fn set(operator: Operator) {
    let _ = OPERATOR.set(operator);
}

pub use capstan_tape::leaving::{has_left, leave};

/// Whether there is somebody to ask.
pub fn is_there() -> bool {
    still_there(Duration::ZERO).is_some()
}

fn still_there(waited: Duration) -> Option<&'static Operator> {
    let is_patient = |operator: &&Operator| operator.patience.is_none_or(|most| waited < most);
    OPERATOR.get().filter(is_patient).filter(|_| !has_left())
}

/// Why what is in a drive will not do, with the error where nobody is there to change it.
pub enum Refused<E> {
    /// The drive is empty.
    Empty(E),
    /// It is another tape, which was ejected if there is somebody to put in the right one; in words that follow its drive.
    Other(E, String),
    /// Another tape would not help.
    Failed(E),
}

/// Looks into a drive until what is in it will do. `wanted` says in words what is to be put in.
pub fn insist<T, E>(
    drive: &str,
    wanted: &str,
    attempt: &mut dyn FnMut() -> Result<T, Refused<E>>,
) -> Result<T, E> {
    let begun = Instant::now();
    let mut waiting: Option<Waiting<'_>> = None;
    let wish = (drive.to_owned(), wanted.to_owned());
    let was_given_up = GIVEN_UP.lock().contains(&wish);
    loop {
        let (error, why) = match attempt() {
            Ok(found) => return Ok(found),
            Err(Refused::Failed(e)) => return Err(e),
            Err(Refused::Empty(e)) => (e, None),
            Err(Refused::Other(e, why)) => (e, Some(why)),
        };
        if was_given_up {
            return Err(error);
        }
        let Some(operator) = still_there(begun.elapsed()) else {
            if waiting.is_some() && !has_left() {
                GIVEN_UP.lock().insert(wish);
            }
            return Err(error);
        };
        match why {
            Some(why) => (operator.tell)(&format!("{drive}: {why}; put in {wanted} instead")),
            None if waiting.is_none() => (operator.tell)(&format!("{drive}: put in {wanted}")),
            None => {}
        }
        waiting.get_or_insert_with(|| Waiting {
            drive,
            begun,
            operator,
            _counts: waits::Waiting::begin(),
        });
        (operator.board)(drive, Some(wanted));
        let looked = Instant::now();
        while looked.elapsed() < PAUSE && still_there(begun.elapsed()).is_some() {
            thread::sleep(NAP);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody is there in tests of this crate.
    #[test]
    fn without_an_operator_the_first_refusal_is_the_error() {
        let mut looked = 0;
        let mut attempt = || -> Result<(), Refused<&str>> {
            looked += 1;
            Err(Refused::Empty("empty"))
        };
        assert_eq!(insist("drive", "a tape", &mut attempt), Err("empty"));
        assert_eq!(looked, 1);
        assert!(!is_there());
        let mut other =
            || -> Result<(), _> { Err(Refused::Other("other", "it is another".to_owned())) };
        assert_eq!(insist("drive", "a tape", &mut other), Err("other"));
        assert_eq!(insist::<_, &str>("drive", "a tape", &mut || Ok(7)), Ok(7));
    }
}
