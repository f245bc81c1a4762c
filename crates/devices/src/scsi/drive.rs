//! A real drive as a [`TapeDrive`].

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use capstan_medium::tape::{Alert, Counters, Media, Severity, Speeds, Spot, Statistics, TapeError};
use capstan_scsi::log::Statistics as Counted;
use capstan_scsi::sense::Sense;
use capstan_scsi::transport::Left;
use capstan_scsi::{BLOCK_MAX, Drive, Error, Read as Found, Written as Came, alerts, encryption};
use capstan_tape::lock::Lock;
use capstan_tape::{DriveKey, DriveModel, Read, TapeDrive, Written};

use super::counted::{counted_since, model_of};
use super::errors::explain;
use super::owed::{Debt, Owed};
use super::{Initiator, lock_path};

/// Loading takes minutes, and for a new LTO-9 tape, which the drive first gets to know, up to two hours.
const LOAD: Duration = Duration::from_secs(150 * 60);

/// What to expect in a drive that is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect<'a> {
    /// A tape with that barcode: the library says so.
    Tape(&'a str),
    /// Nothing: the library says so.
    Nothing,
    /// Nobody knows.
    Anything,
}

/// A drive of this process.
pub(super) struct ScsiDrive {
    initiator: Arc<Initiator>,
    name: String,
    pub(super) drive: Drive,
    /// What is in it, for messages.
    tape: String,
    loaded: bool,
    write_protected: bool,
    block_max: usize,
    capacity: Option<u64>,
    /// What the tape is.
    media: Option<Media>,
    /// As drives of its tape's density have them.
    speeds: Option<Speeds>,
    /// The drive's own number of the first block, where that is known.
    pub(super) origin: Option<u64>,
    /// It does not say where it stands.
    pub(super) blind: bool,
    /// The tape is at its begin for certain: what comes next tells the number of the first block.
    pub(super) at_begin: bool,
    /// What the drive had counted when it was opened.
    before: Counted,
    told: BTreeSet<alerts::Alert>,
    /// The longest block that was read.
    longest: usize,
    /// The way to it is lost.
    gone: bool,
    reserved: bool,
    /// The key that it was given.
    key: Option<DriveKey>,
    /// It may have a key of ours, also where giving or taking it failed.
    may_have_key: bool,
    lock_path: PathBuf,
    lock: Option<Lock>,
}

/// Unloads what is in a drive, whether it can be read or not.
pub(super) fn eject(initiator: &Initiator, device: &str, name: &str) -> Result<(), TapeError> {
    let why = |e| explain(e, &format!("in {name}"));
    let mut drive = initiator.transport(device).and_then(Drive::on).map_err(why)?;
    let path = lock_path("drive", drive.identity(), device);
    initiator.debts.take_up(&path, name)?;
    let _lock = initiator.locks.take(&path, name)?;
    // Whoever locked it in, perhaps, was killed.
    let _ = drive.prevent_removal(false);
    match drive.unload() {
        Err(Error::NoMedium { .. }) => Ok(()),
        unloaded => unloaded.map_err(why),
    }
}

impl ScsiDrive {
    /// Opens a drive for this process alone, and gets ready what is in it.
    pub fn open(
        initiator: &Arc<Initiator>,
        device: &str,
        name: &str,
        expect: Expect<'_>,
    ) -> Result<Self, TapeError> {
        let drive = initiator.transport(device).and_then(Drive::on);
        let drive = drive.map_err(|e| explain(e, &format!("in {name}")))?;
        Self::on(initiator, drive, device, name, expect)
    }

    pub(super) fn on(
        initiator: &Arc<Initiator>,
        mut drive: Drive,
        device: &str,
        name: &str,
        expect: Expect<'_>,
    ) -> Result<Self, TapeError> {
        let tape = match expect {
            Expect::Tape(barcode) if !barcode.is_empty() => barcode.to_owned(),
            _ => format!("in {name}"),
        };
        let why = |e| explain(e, &tape);
        let path = lock_path("drive", drive.identity(), device);
        initiator.debts.take_up(&path, name)?;
        let lock = initiator.locks.take(&path, name)?;
        // Some answer neither without a tape, nor while who was killed still has it moved.
        let block_max = match drive.block_limits() {
            Err(Error::NoMedium { .. }) => BLOCK_MAX,
            Err(e) if e.sense().is_some_and(Sense::is_becoming_ready) => BLOCK_MAX,
            limits => limits.map_err(why)?.max,
        };
        let reserved = match drive.reserve() {
            Err(Error::NoMedium { .. }) => false,
            reserved => reserved.map_err(why)?,
        };
        let mut this = Self {
            initiator: initiator.clone(),
            name: name.to_owned(),
            drive,
            tape,
            loaded: false,
            write_protected: false,
            block_max,
            capacity: None,
            media: None,
            speeds: None,
            origin: None,
            blind: false,
            at_begin: false,
            before: Counted::default(),
            told: BTreeSet::new(),
            longest: 0,
            gone: false,
            reserved,
            key: None,
            may_have_key: false,
            lock_path: path,
            lock: Some(lock),
        };
        this.loaded = this.wait_for_tape(expect).map_err(|e| this.failed(e))?;
        if this.loaded {
            this.get_ready().map_err(|e| this.failed(e))?;
        }
        Ok(this)
    }

    /// Whether a tape is in it, ready.
    pub fn is_loaded(&self) -> bool {
        self.loaded
    }

    /// Whether there is a tape, when it has settled.
    fn wait_for_tape(&mut self, expect: Expect<'_>) -> Result<bool, Error> {
        let first = self.drive.wait_ready(Duration::ZERO);
        let is_empty = matches!(first, Err(Error::NoMedium { .. }));
        match expect {
            _ if first.is_ok() => return Ok(true),
            Expect::Nothing | Expect::Anything if is_empty => return Ok(false),
            _ => {}
        }
        // The drive waits for itself, and says that it is empty for a while after the robot has put a tape in.
        match self.drive.wait_ready(LOAD) {
            Err(Error::NoMedium { .. }) if matches!(expect, Expect::Tape(_)) => {
                // Unloaded and left there. A drive that cannot take it in again by itself needs the robot.
                match self.drive.load() {
                    Err(e) if e.is_lost() => Err(e),
                    loaded => Ok(loaded.is_ok()),
                }
            }
            Err(Error::NoMedium { .. }) => Ok(false),
            ready => ready.map(|()| true),
        }
    }

    /// Makes drive and tape ready, at its begin, and keeps anybody from taking the tape out.
    fn get_ready(&mut self) -> Result<(), Error> {
        self.drive.rewind()?;
        let medium = self.drive.prepare()?;
        self.write_protected = medium.write_protected;
        self.media =
            Media::of_density(medium.density).map(|media| Media { worm: medium.worm, ..media });
        self.block_max = self.drive.block_limits()?.max;
        self.blind = self.drive.position()?.object.is_none();
        self.at_begin = true;
        self.capacity = self
            .drive
            .capacity()?
            .or_else(|| model_of(medium.density).map(|model| model.capacity as u64));
        self.speeds = Some(model_of(medium.density).map_or(Speeds::UNKNOWN, DriveModel::range));
        self.before = self.drive.statistics()?;
        self.forget_left_key()?;
        // Not every drive has that.
        match self.drive.prevent_removal(true) {
            Err(e) if e.is_lost() => Err(e),
            _ => Ok(()),
        }
    }

    /// Takes away a key that somebody left in the drive, who was killed perhaps: what we write without one is in clear.
    fn forget_left_key(&mut self) -> Result<(), Error> {
        match self.drive.encryption_status() {
            Ok(Some(now)) if now.encrypts => self.drive.clear_encryption_key()?,
            Err(e) if e.is_lost() => return Err(e),
            // One that cannot say it has none of ours.
            _ => {}
        }
        (self.key, self.may_have_key) = (None, false);
        Ok(())
    }

    pub(super) fn failed(&mut self, error: Error) -> TapeError {
        self.gone |= error.is_lost();
        match error {
            Error::NoMedium { .. } => TapeError::NoTape { drive: self.name.clone() },
            error => explain(error, &self.tape),
        }
    }

    fn beyond_end(&self, spot: Spot) -> TapeError {
        TapeError::BeyondEnd { tape: self.tape.clone(), spot }
    }

    fn full(&self) -> TapeError {
        TapeError::EndOfMedium { tape: self.tape.clone() }
    }

    fn refuse_empty(&self) -> Result<(), TapeError> {
        match self.loaded {
            true => Ok(()),
            false => Err(TapeError::NoTape { drive: self.name.clone() }),
        }
    }

    fn writable(&self) -> Result<(), TapeError> {
        self.refuse_empty()?;
        match self.write_protected {
            true => Err(TapeError::WriteProtected { tape: self.tape.clone() }),
            false => Ok(()),
        }
    }

    /// Opens the way to the drive again where it was lost: only where the next thing is to go to a place.
    fn come_back(&mut self) -> Result<(), TapeError> {
        if !self.gone {
            return self.refuse_empty();
        }
        let again = |this: &mut Self| {
            let initiator = this.initiator.clone();
            initiator.reconnect(&mut this.drive)?;
            this.gone = false;
            this.reserved = this.drive.reserve()?;
            this.loaded = this.wait_for_tape(Expect::Anything)?;
            if this.loaded { this.get_ready() } else { Ok(()) }
        };
        again(self).map_err(|e| self.failed(e))?;
        self.refuse_empty()
    }

    fn came(&self, came: Came) -> Result<Written, TapeError> {
        match came {
            Came::Done => Ok(Written { early_warning: false }),
            Came::EarlyWarning => Ok(Written { early_warning: true }),
            Came::NoRoom => Err(self.full()),
        }
    }

    /// Reads a block of at most that length. Not more is asked for than blocks here are long, as far as is known: who looks for
    /// a block of any length has room for the longest, and some drives and emulations do not answer to that.
    fn read(&mut self, into: &mut [u8]) -> Result<Found, Error> {
        const FIRST: usize = 1 << 20;
        let room = self.longest.max(FIRST).min(into.len());
        let found = match self.drive.read_block(&mut into[..room])? {
            Found::TooLong(length) if length <= into.len() && self.drive.space_blocks(-1)? => {
                self.drive.read_block(&mut into[..length])?
            }
            found => found,
        };
        if let Found::Block(length) = found {
            self.longest = self.longest.max(length);
        }
        Ok(found)
    }

    fn say_too_long(&mut self, length: usize, asked: usize) -> TapeError {
        let here = self.drive.position().ok().and_then(|here| here.count.or(here.object));
        let at = here.unwrap_or(0).saturating_sub(1);
        TapeError::TooLong { tape: self.tape.clone(), at, length, asked }
    }
}

impl TapeDrive for ScsiDrive {
    fn name(&self) -> &str {
        &self.name
    }

    fn write_block(&mut self, block: &[u8]) -> Result<Written, TapeError> {
        self.writable()?;
        let is_first = std::mem::take(&mut self.at_begin);
        let came = self.drive.write_block(block).map_err(|e| self.failed(e))?;
        let written = self.came(came)?;
        self.learn_origin(is_first);
        Ok(written)
    }

    fn write_filemark(&mut self) -> Result<Written, TapeError> {
        self.writable()?;
        self.at_begin = false;
        let came = self.drive.write_filemarks(1, true).map_err(|e| self.failed(e))?;
        self.came(came)
    }

    fn sync(&mut self) -> Result<(), TapeError> {
        self.refuse_empty()?;
        let came = self.drive.sync().map_err(|e| self.failed(e))?;
        self.came(came).map(drop)
    }

    fn erase(&mut self, long: bool) -> Result<(), TapeError> {
        self.writable()?;
        self.drive.erase(long).map_err(|e| self.failed(e))
    }

    fn read_block(&mut self, into: &mut [u8]) -> Result<Read, TapeError> {
        self.refuse_empty()?;
        let is_first = std::mem::take(&mut self.at_begin);
        match self.read(into).map_err(|e| self.failed(e))? {
            Found::Block(length) => {
                self.learn_origin(is_first);
                Ok(Read::Block(length))
            }
            Found::Filemark => Ok(Read::Filemark),
            Found::EndOfData | Found::EndOfMedium => Ok(Read::EndOfData),
            Found::TooLong(length) => Err(self.say_too_long(length, into.len())),
        }
    }

    fn locate(&mut self, to: Spot) -> Result<(), TapeError> {
        self.come_back()?;
        match self.go_to(to) {
            Err(Error::NotThere { .. }) => Err(self.beyond_end(to)),
            gone => gone.map_err(|e| self.failed(e)),
        }
    }

    fn locate_end(&mut self) -> Result<Spot, TapeError> {
        self.come_back()?;
        self.go_to_end().map_err(|e| self.failed(e))
    }

    fn position(&mut self) -> Result<Option<u64>, TapeError> {
        self.refuse_empty()?;
        let here = self.drive.position().map_err(|e| self.failed(e))?;
        Ok(self.number(here.object))
    }

    fn block_max(&self) -> usize {
        self.block_max
    }

    fn capacity(&self) -> Option<u64> {
        self.capacity
    }

    fn room(&mut self) -> Option<u64> {
        self.drive.room().ok().flatten()
    }

    fn media(&self) -> Option<Media> {
        self.media
    }

    fn is_write_protected(&self) -> bool {
        self.write_protected
    }

    fn unload(&mut self) -> Result<(), TapeError> {
        self.refuse_empty()?;
        // What has no lock need not be unlocked.
        let _ = self.drive.prevent_removal(false);
        self.drive.unload().map_err(|e| self.failed(e))?;
        self.loaded = false;
        Ok(())
    }

    fn statistics(&self) -> Option<Statistics> {
        None
    }

    fn counters(&mut self) -> Counters {
        let now = self.drive.statistics().unwrap_or_default();
        counted_since(&self.before, &now)
    }

    fn alerts(&mut self) -> Vec<Alert> {
        // A report is not worth an error: what the drive does next will say that it is gone.
        let raised = self.drive.alerts().unwrap_or_default();
        raised.into_iter().filter(|alert| self.told.insert(*alert)).map(alert).collect()
    }

    fn speeds(&self) -> Option<Speeds> {
        self.speeds
    }

    fn compresses(&mut self) -> bool {
        self.drive.compression().is_ok_and(|compression| compression.capable)
    }

    fn set_compression(&mut self, on: bool) -> Result<(), TapeError> {
        match self.drive.compression() {
            Err(e) if e.is_unsupported() => Ok(()),
            Err(e) => Err(self.failed(e)),
            Ok(_) => self.drive.set_compression(on).map_err(|e| self.failed(e)),
        }
    }

    fn encrypts(&mut self) -> bool {
        self.drive.encryption().is_ok_and(|algorithm| algorithm.is_some())
    }

    fn set_key(&mut self, key: Option<&DriveKey>) -> Result<(), TapeError> {
        // One that it lost is given again.
        let has_it = if key.is_some() { self.drive.has_key() } else { !self.may_have_key };
        if self.key.as_ref() == key && has_it {
            return Ok(());
        }
        let had_key = self.may_have_key;
        self.may_have_key |= key.is_some();
        let told = match key {
            Some(key) => self.drive.set_encryption_key(&encryption::DriveKey::new(*key.bytes())),
            None => self.drive.clear_encryption_key(),
        };
        match told {
            Err(e) if e.is_unsupported() => {
                self.may_have_key = had_key;
                Err(TapeError::CannotEncrypt { drive: self.name.clone() })
            }
            told => {
                told.map_err(|e| self.failed(e))?;
                (self.key, self.may_have_key) = (key.cloned(), key.is_some());
                Ok(())
            }
        }
    }
}

impl Drop for ScsiDrive {
    fn drop(&mut self) {
        // The tape stays in the drive, and others may have both now.
        let mut owed =
            Owed { key: self.may_have_key, removal: self.loaded, reservation: self.reserved };
        if !self.gone && owed.tell(&mut self.drive).is_ok() {
            return;
        }
        // One that is lost, and has no key, is no more ours to tell.
        if owed.key || self.drive.left(Duration::ZERO) != Left::No {
            self.initiator.debts.later(Debt {
                drive: self.drive.hand_over(),
                name: std::mem::take(&mut self.name),
                tape: std::mem::take(&mut self.tape),
                owed,
                path: std::mem::take(&mut self.lock_path),
                _lock: self.lock.take(),
            });
        }
    }
}

fn alert(raised: alerts::Alert) -> Alert {
    Alert {
        severity: match raised.severity() {
            alerts::Severity::Information => Severity::Information,
            alerts::Severity::Warning => Severity::Warning,
            alerts::Severity::Critical => Severity::Critical,
        },
        text: raised.to_string(),
        wants_cleaning: raised.wants_cleaning(),
        blames_tape: raised.blames_medium(),
    }
}
