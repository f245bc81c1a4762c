//! What a drive still has of this process when the way to it is lost, or when it was left at work: our key, the order to keep its
//! tape, our reservation. It is told at the end of the process, when it has done what it was at.
//!
//! A key is waited for, up to [`AT_WORK`]: no drive is left with one as long as that helps. The rest is tried once. Whoever is killed
//! meanwhile tells nothing: the next command that opens the drive takes a key away that it did not set, and its own locks and
//! reservations replace what was left.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use capstan_medium::tape::TapeError;
use capstan_scsi::transport::Left;
use capstan_scsi::{Drive, Error};
use capstan_tape::lock::Lock;
use parking_lot::Mutex;

/// For so long a drive that is at work keeps a process that gave it a key: longer than any of them winds.
const AT_WORK: Duration = Duration::from_secs(5 * 60);
/// The same of a drive that does not answer: it may be gone for good.
const SILENT: Duration = Duration::from_secs(30);
/// How soon after that somebody hears why he waits.
const SOON: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(500);

/// Opens the way to a drive again.
type Reconnect<'a> = dyn Fn(&mut Drive) -> Result<(), Error> + 'a;

/// What a drive has of us.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Owed {
    /// It may have our key.
    pub key: bool,
    /// It was told to keep its tape.
    pub removal: bool,
    /// It is reserved for this host.
    pub reservation: bool,
}

impl Owed {
    /// Tells the drive. What it does not know, or will not hear of, is not told again, but that it is to forget the key.
    pub fn tell(&mut self, drive: &mut Drive) -> Result<(), Error> {
        if self.key {
            match drive.clear_encryption_key() {
                // It forgets the key with its tape.
                Err(Error::NoMedium { .. }) => {}
                told => told?,
            }
            self.key = false;
        }
        if self.removal {
            refuse_lost(drive.prevent_removal(false))?;
            self.removal = false;
        }
        if self.reservation {
            refuse_lost(drive.release())?;
            self.reservation = false;
        }
        Ok(())
    }
}

fn refuse_lost(told: Result<(), Error>) -> Result<(), Error> {
    match told {
        Err(e) if e.is_lost() => Err(e),
        _ => Ok(()),
    }
}

/// A drive that is to be told yet. Nobody else of this host gets it until then.
pub(super) struct Debt {
    pub drive: Drive,
    pub name: String,
    pub tape: String,
    pub owed: Owed,
    /// Its lock file.
    pub path: PathBuf,
    pub _lock: Option<Lock>,
}

/// The drives of a host that are to be told yet.
#[derive(Default)]
pub(super) struct Debts(Mutex<Vec<Debt>>);

impl Debts {
    /// Has a drive told later.
    pub fn later(&self, debt: Debt) {
        self.0.lock().push(debt);
    }

    /// Lets go of a drive that this host is about to open again: it is told then. Refused as long as it is at work.
    pub fn take_up(&self, path: &Path, name: &str) -> Result<(), TapeError> {
        let mut debts = self.0.lock();
        let is_it = |debt: &mut Debt| debt.path == path;
        if debts.iter_mut().any(|d| is_it(d) && d.drive.left(Duration::ZERO) == Left::AtWork) {
            let holder = "an earlier command of this session, at which it still is".to_owned();
            return Err(TapeError::Busy { what: name.to_owned(), holder });
        }
        debts.retain_mut(|debt| !is_it(debt));
        Ok(())
    }

    /// Tells all drives what was not told; waits for those that have a key, `most` at most. `say` gets what is worth knowing, in sentences.
    pub fn settle(&self, reconnect: &Reconnect<'_>, most: Duration, say: &dyn Fn(&str)) {
        let mut debts = std::mem::take(&mut *self.0.lock());
        // Those that are waited for come last.
        debts.sort_by_key(|debt| debt.owed.key);
        let begun = Instant::now();
        debts.into_iter().for_each(|debt| debt.settle(reconnect, begun, most, say));
    }
}

impl Debt {
    /// Tells the drive as soon as it hears.
    fn settle(
        mut self,
        reconnect: &Reconnect<'_>,
        begun: Instant,
        most: Duration,
        say: &dyn Fn(&str),
    ) {
        let most = match (self.owed.key, self.drive.left(Duration::ZERO)) {
            (false, _) => Duration::ZERO,
            (true, Left::No) => SILENT,
            (true, Left::AtWork | Left::Over) => AT_WORK,
        }
        .min(most);
        let mut was_said = false;
        loop {
            let rest = most.saturating_sub(begun.elapsed());
            let why = match self.attempt(reconnect, rest.min(PAUSE)) {
                Ok(()) => return,
                Err(why) => why,
            };
            let (name, tape) = (&self.name, &self.tape);
            if rest.is_zero() {
                if self.owed.key {
                    say(&format!(
                        "{name} may still have the encryption key of tape {tape}: {why}; unload it (`capstan library unload`), \
                         and it forgets the key; so it does when the next command uses it"
                    ));
                }
                return;
            }
            if !was_said && begun.elapsed() >= SOON {
                was_said = true;
                say(&format!(
                    "{name} has the encryption key of tape {tape} and is waited for, {} seconds at most, until it can be \
                     told to forget it",
                    rest.as_secs()
                ));
            }
            thread::sleep(rest.min(PAUSE));
        }
    }

    fn attempt(&mut self, reconnect: &Reconnect<'_>, patience: Duration) -> Result<(), String> {
        if self.drive.left(patience) == Left::AtWork {
            return Err("it is still at work".to_owned());
        }
        reconnect(&mut self.drive).map_err(|e| e.to_string())?;
        self.owed.tell(&mut self.drive).map_err(|e| e.to_string())
    }
}
