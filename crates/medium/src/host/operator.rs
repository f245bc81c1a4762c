//! Who puts tapes into drives that stand alone: asked for a tape, and waited for.
//!
//! A host has at most one operator, set by the front end. Where nobody is there, a drive without the tape that is wanted is
//! an error at once.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use capstan_engine::leaving::has_left;
use parking_lot::Mutex;

use super::waits::{self, Waits};

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

/// Who is asked for tapes at a host, and what he is asked for.
pub struct OperatorRequests {
    operator: OnceLock<Operator>,
    /// Drives with the tapes that were waited for there in vain: nobody is asked for them again at this host.
    given_up: Mutex<HashSet<(String, String)>>,
    /// Tapes that were asked for beforehand and are not in yet: what each is called, by its device.
    wishes: Mutex<BTreeMap<String, String>>,
    /// How often these changed.
    changes: AtomicU64,
    /// Microseconds that tapes were waited for since somebody asked.
    waited_us: AtomicU64,
    waits: Waits,
}

/// A drive that waits for its tape.
struct Waiting<'a> {
    drive: &'a str,
    begun: Instant,
    operator: &'a Operator,
    waited_us: &'a AtomicU64,
    _counts: waits::Waiting,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waited_us.fetch_add(micros(self.begun), Relaxed);
        (self.operator.board)(self.drive, None);
    }
}

/// Microseconds since then.
fn micros(begun: Instant) -> u64 {
    u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX)
}

/// Tapes that were asked for. They are asked for no more when this is dropped.
#[must_use = "what is not kept is asked for no more"]
pub struct Asked {
    requests: Arc<OperatorRequests>,
    devices: Vec<String>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.devices.iter().for_each(|device| self.requests.withdraw(device));
    }
}

impl OperatorRequests {
    /// Of a host whose waits are counted there.
    pub fn counted_by(waits: Waits) -> Self {
        Self {
            operator: OnceLock::new(),
            given_up: Mutex::default(),
            wishes: Mutex::default(),
            changes: AtomicU64::new(0),
            waited_us: AtomicU64::new(0),
            waits,
        }
    }

    /// Says who is asked for tapes, and how long they are waited for. The first one stays.
    pub fn set(&self, operator: Operator) {
        let _ = self.operator.set(operator);
    }

    /// How long tapes are waited for, where somebody is asked for them; nothing inside for ever.
    pub fn patience(&self) -> Option<Option<Duration>> {
        self.operator.get().map(|operator| operator.patience)
    }

    /// Tells who is asked for tapes what another host has to say.
    pub fn tell(&self, text: &str) {
        self.operator.get().into_iter().for_each(|operator| (operator.tell)(text));
    }

    /// Shows what a drive of another host waits for, or that it waits no longer.
    pub fn show(&self, drive: &str, wanted: Option<&str>) {
        if wanted.is_none() {
            self.changes.fetch_add(self.wishes.lock().remove(drive).is_some().into(), Relaxed);
        }
        self.operator.get().into_iter().for_each(|operator| (operator.board)(drive, wanted));
    }

    /// What was asked for beforehand, each by its device and what it is called; and how often that changed.
    pub fn wishes(&self) -> (u64, Vec<(String, String)>) {
        let wishes = self.wishes.lock();
        (self.changes.load(Relaxed), wishes.clone().into_iter().collect())
    }

    /// Takes what was asked for at another host.
    pub fn set_wishes(&self, wishes: Vec<(String, String)>) {
        *self.wishes.lock() = wishes.into_iter().collect();
    }

    /// Whether there is somebody to ask.
    pub fn is_there(&self) -> bool {
        self.still_there(Duration::ZERO).is_some()
    }

    /// How long tapes were waited for since that was asked last, all drives together.
    pub fn take_waited(&self) -> Duration {
        Duration::from_micros(self.waited_us.swap(0, Relaxed))
    }

    fn still_there(&self, waited: Duration) -> Option<&Operator> {
        let is_patient = |operator: &&Operator| operator.patience.is_none_or(|most| waited < most);
        self.operator.get().filter(is_patient).filter(|_| !has_left())
    }

    /// Asks for several tapes of libraries at once, each by its device and what it is called, in a sentence; where nobody is there, for
    /// none. Who needs one of them waits for it when he needs it.
    pub fn ask_for(self: &Arc<Self>, tapes: Vec<(String, String)>, text: &str) -> Asked {
        let asked = |devices| Asked { requests: self.clone(), devices };
        let Some(operator) = self.still_there(Duration::ZERO).filter(|_| !tapes.is_empty()) else {
            return asked(Vec::new());
        };
        (operator.tell)(text);
        let devices = tapes.iter().map(|(device, _)| device.clone()).collect();
        self.wishes.lock().extend(tapes);
        self.changes.fetch_add(1, Relaxed);
        self.show_wishes(operator);
        asked(devices)
    }

    /// Puts all that was asked for beforehand on the board, once more.
    fn show_wishes(&self, operator: &Operator) {
        let wishes = self.wishes.lock().clone();
        wishes.iter().for_each(|(device, wanted)| (operator.board)(device, Some(wanted)));
    }

    /// A tape that was asked for beforehand is in, or wanted no more.
    pub fn withdraw(&self, device: &str) {
        let was_wished = self.wishes.lock().remove(device).is_some();
        self.changes.fetch_add(was_wished.into(), Relaxed);
        if was_wished && let Some(operator) = self.operator.get() {
            (operator.board)(device, None);
        }
    }

    /// Waits until one of the tapes that were asked for is there; false where nobody brings one in time, or nobody is asked.
    pub fn any_comes(&self, is_there: &mut dyn FnMut() -> bool) -> bool {
        let begun = Instant::now();
        if self.wishes.lock().is_empty() {
            return false;
        }
        let _counts = self.waits.begin();
        while let Some(operator) = self.still_there(begun.elapsed()) {
            if is_there() {
                self.waited_us.fetch_add(micros(begun), Relaxed);
                return true;
            }
            self.show_wishes(operator);
            self.pause(begun, pause_of_robot(begun));
        }
        self.waited_us.fetch_add(micros(begun), Relaxed);
        if !has_left() {
            self.given_up.lock().extend(std::mem::take(&mut *self.wishes.lock()));
        }
        false
    }

    fn pause(&self, begun: Instant, pause: Duration) {
        let looked = Instant::now();
        while looked.elapsed() < pause && self.still_there(begun.elapsed()).is_some() {
            thread::sleep(NAP);
        }
    }

    /// Looks into a drive until what is in it will do. `wanted` says in words what is to be put in.
    pub fn insist<T, E>(
        &self,
        drive: &str,
        wanted: &str,
        attempt: &mut dyn FnMut() -> Result<T, Refused<E>>,
    ) -> Result<T, E> {
        let ask =
            Ask { board: drive, told_as: drive, is_told: false, by_robot: false, idle: &|| () };
        self.insist_as(&ask, wanted, attempt)
    }

    /// Looks into a library until a tape is in it, as [`Self::insist`] looks into a drive. What was asked for beforehand is not asked
    /// for again. `idle` is called before it is waited for, which may take long.
    pub fn insist_on_tape<T, E>(
        &self,
        device: &str,
        library: &str,
        barcode: &str,
        idle: &dyn Fn(),
        attempt: &mut dyn FnMut() -> Result<T, Refused<E>>,
    ) -> Result<T, E> {
        let known = self.wishes.lock().get(device).cloned();
        let wanted = known.clone().unwrap_or_else(|| format!("tape {barcode}"));
        // What did not come while all were waited for is not waited for again.
        let wanted_before = self.given_up.lock().iter().find(|(of, _)| of == device).cloned();
        let wanted = wanted_before.map_or(wanted, |(_, wanted)| wanted);
        let ask =
            Ask { board: device, told_as: library, is_told: known.is_some(), by_robot: true, idle };
        let done = self.insist_as(&ask, &wanted, attempt);
        self.withdraw(device);
        done
    }

    /// Looks into a library until there is a tape that will do, as [`Self::insist`] looks into a drive.
    pub fn insist_on_library<T, E>(
        &self,
        library: &str,
        wanted: &str,
        attempt: &mut dyn FnMut() -> Result<T, Refused<E>>,
    ) -> Result<T, E> {
        let ask =
            Ask { board: library, told_as: library, is_told: false, by_robot: true, idle: &|| () };
        self.insist_as(&ask, wanted, attempt)
    }

    /// Looks into a library until enough of several tapes are in it, each given by its device. Those that do not come in time are not
    /// waited for again.
    pub fn insist_on_some<T, E>(
        &self,
        devices: &[String],
        library: &str,
        wanted: &str,
        idle: &dyn Fn(),
        attempt: &mut dyn FnMut() -> Result<T, Refused<E>>,
    ) -> Result<T, E> {
        // No more were asked for beforehand than there have to come.
        let is_told = devices.iter().any(|device| self.wishes.lock().contains_key(device));
        let in_vain = |device: &String| self.given_up.lock().iter().any(|(of, _)| of == device);
        if devices.iter().any(in_vain) {
            return attempt().map_err(Refused::into_error);
        }
        let ask = Ask { board: library, told_as: library, is_told, by_robot: true, idle };
        let done = self.insist_as(&ask, wanted, attempt);
        devices.iter().for_each(|device| self.withdraw(device));
        if done.is_err() && !has_left() {
            self.given_up.lock().extend(devices.iter().map(|of| (of.clone(), wanted.to_owned())));
        }
        done
    }

    fn insist_as<T, E>(
        &self,
        ask: &Ask<'_>,
        wanted: &str,
        attempt: &mut dyn FnMut() -> Result<T, Refused<E>>,
    ) -> Result<T, E> {
        let drive = ask.board;
        let begun = Instant::now();
        let mut waiting: Option<Waiting<'_>> = None;
        let wish = (drive.to_owned(), wanted.to_owned());
        let was_given_up = self.given_up.lock().contains(&wish);
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
            let Some(operator) = self.still_there(begun.elapsed()) else {
                if waiting.is_some() && !has_left() {
                    self.given_up.lock().insert(wish);
                }
                return Err(error);
            };
            match why {
                Some(why) => {
                    (operator.tell)(&format!("{}: {why}; put in {wanted} instead", ask.told_as));
                }
                None if waiting.is_none() && !ask.is_told => {
                    (operator.tell)(&format!("{}: put in {wanted}", ask.told_as));
                }
                None => {}
            }
            if waiting.is_none() {
                (ask.idle)();
            }
            waiting.get_or_insert_with(|| Waiting {
                drive,
                begun,
                operator,
                waited_us: &self.waited_us,
                _counts: self.waits.begin(),
            });
            (operator.board)(drive, Some(wanted));
            self.show_wishes(operator);
            self.pause(begun, if ask.by_robot { pause_of_robot(begun) } else { PAUSE });
        }
    }
}

/// A library is asked less often after a while: its robot may have to look.
fn pause_of_robot(begun: Instant) -> Duration {
    if begun.elapsed() < PAUSE * 60 { PAUSE } else { PAUSE * 10 }
}

/// How a tape is asked for.
struct Ask<'a> {
    /// What the board knows it by.
    board: &'a str,
    /// Who the operator is told of: the drive or library.
    told_as: &'a str,
    /// He was told already.
    is_told: bool,
    by_robot: bool,
    /// What is done before it is waited for.
    idle: &'a dyn Fn(),
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

impl<E> Refused<E> {
    fn into_error(self) -> E {
        match self {
            Self::Empty(e) | Self::Other(e, _) | Self::Failed(e) => e,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_an_operator_the_first_refusal_is_the_error() {
        let nobody = OperatorRequests::counted_by(Waits::default());
        let mut looked = 0;
        let mut attempt = || -> Result<(), Refused<&str>> {
            looked += 1;
            Err(Refused::Empty("empty"))
        };
        assert_eq!(nobody.insist("drive", "a tape", &mut attempt), Err("empty"));
        assert_eq!(looked, 1);
        assert!(!nobody.is_there());
        let mut other =
            || -> Result<(), _> { Err(Refused::Other("other", "it is another".to_owned())) };
        assert_eq!(nobody.insist("drive", "a tape", &mut other), Err("other"));
        assert_eq!(nobody.insist::<_, &str>("drive", "a tape", &mut || Ok(7)), Ok(7));
    }
}
