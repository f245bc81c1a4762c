//! A drive that is none: a model's mechanics, a tape in a file, a clock, and a plan of faults.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::sync::Arc;

use capstan_engine::problem::Problem;
use capstan_medium::tape::error::failed;
use capstan_medium::tape::generation::of_drive;
use capstan_medium::tape::speeds::SETTLE_S;
use capstan_medium::tape::{Alert, Counters, Media, Severity, Speeds, Spot, Statistics, TapeError};

use crate::drive::{Read, TapeDrive, Written};
use crate::encryption::DriveKey;
use crate::model::DriveModel;
use crate::vtl::cartridge::Cartridge;
use crate::vtl::clock::Clock;
use crate::vtl::faults::{Account, Fault, Faults, Operation, StruckLog};
use crate::vtl::mechanics::Mechanics;

/// The share of a tape at whose end writing is warned of: an estimate. Of a small one at least a few blocks.
const EARLY_WARNING: f64 = 0.005;
const EARLY_WARNING_LEAST: f64 = 16.0 * 1_048_576.0;

/// A virtual drive.
#[derive(Debug)]
pub struct VirtualDrive {
    name: String,
    model: &'static DriveModel,
    mechanics: Mechanics,
    clock: Arc<Clock>,
    tape: Option<Cartridge>,
    /// Where the tape stands for the host.
    at: u64,
    /// Blocks and filemarks before which a power cut takes nothing.
    synced: u64,
    /// How many bytes of the host become one on the medium, by the drive's compression.
    ratio: f64,
    /// Whether it compresses.
    compression: bool,
    /// With which it encrypts and decrypts.
    key: Option<DriveKey>,
    faults: Account,
    offline: bool,
    /// Passes that the tape's label knows of already.
    passes_told: f64,
    /// Keeps the drive this process's as long as this lives.
    lock: Option<crate::lock::Lock>,
    /// Where it is noted that the drive asks to be cleaned.
    dirty_mark: Option<PathBuf>,
    dirty: bool,
    bytes_written: u64,
    bytes_on_tape: f64,
}

impl VirtualDrive {
    /// An empty drive. `ratio` is what its compression makes of the data, 1 without.
    pub fn new(name: &str, model: &'static DriveModel, clock: Arc<Clock>, ratio: f64) -> Self {
        Self {
            name: name.to_owned(),
            model,
            mechanics: Mechanics::new(model),
            clock,
            tape: None,
            at: 0,
            synced: 0,
            ratio: ratio.max(0.1),
            compression: true,
            key: None,
            faults: Account::default(),
            offline: false,
            passes_told: 0.0,
            lock: None,
            dirty_mark: None,
            dirty: false,
            bytes_written: 0,
            bytes_on_tape: 0.0,
        }
    }

    /// Keeps a lock as long as the drive lives.
    pub(crate) fn hold(&mut self, lock: crate::lock::Lock) {
        self.lock = Some(lock);
    }

    /// The drive asks to be cleaned as long as this file is there.
    pub(crate) fn set_dirty_mark(&mut self, mark: PathBuf) {
        self.dirty = mark.exists();
        self.dirty_mark = Some(mark);
    }

    fn become_dirty(&mut self) -> Result<(), TapeError> {
        self.dirty = true;
        match &self.dirty_mark {
            Some(mark) => {
                let mut options = OpenOptions::new();
                let made = options.write(true).create(true).truncate(true).mode(0o644).open(mark);
                made.map(drop).map_err(failed("make", mark))
            }
            None => Ok(()),
        }
    }

    /// Gives it a plan of faults.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = Account::of_process(&self.name, faults, &StruckLog::default());
    }

    /// Gives it a plan of faults that others count in, too.
    pub(crate) fn count_faults(&mut self, account: Account) {
        self.faults = account;
    }

    /// The tape that is loaded.
    pub fn tape(&self) -> Option<&Cartridge> {
        self.tape.as_ref()
    }

    /// Takes a tape in; the drive must be empty.
    pub fn load(&mut self, mut tape: Cartridge) -> Result<(), TapeError> {
        self.refuse_offline()?;
        if let Some(there) = &self.tape {
            return Err(TapeError::Library {
                library: self.name.clone(),
                problem: Problem::new(format!(
                    "the drive holds tape {} already",
                    there.label.barcode
                ))
                .hint("unload it"),
            });
        }
        if let Some(media) = tape.label.media()
            && self.generation().is_some_and(|drive| !media.is_read_by(drive))
        {
            return Err(TapeError::Unsuited {
                tape: tape.label.barcode.clone(),
                said: format!("it is {media}, the drive {}", self.model.name).into(),
            });
        }
        tape.label.loads = tape.label.loads.saturating_add(1);
        tape.save_label()?;
        self.synced = tape.len();
        self.tape = Some(tape);
        self.at = 0;
        let then = self.mechanics.load(self.clock.now());
        self.clock.wait_until(then);
        Ok(())
    }

    /// Rewinds and gives the tape out.
    pub fn eject(&mut self) -> Result<Cartridge, TapeError> {
        self.refuse_offline()?;
        let Some(tape) = self.tape.take() else {
            return Err(TapeError::NoTape { drive: self.name.clone() });
        };
        let then = self.mechanics.unload(self.clock.now());
        self.clock.wait_until(then);
        tape.sync()?;
        let tape = self.with_wear(tape)?;
        self.at = 0;
        // As real ones forget it when they are told to.
        self.key = None;
        Ok(tape)
    }

    /// Notes on the tape's label how much it was worn here.
    fn with_wear(&mut self, mut tape: Cartridge) -> Result<Cartridge, TapeError> {
        let passes = self.mechanics.statistics().passes;
        tape.label.passes += passes - self.passes_told;
        self.passes_told = passes;
        tape.save_label()?;
        Ok(tape)
    }

    fn refuse_offline(&self) -> Result<(), TapeError> {
        match self.offline {
            true => Err(TapeError::Offline { drive: self.name.clone() }),
            false => Ok(()),
        }
    }

    fn loaded(&mut self) -> Result<&mut Cartridge, TapeError> {
        self.refuse_offline()?;
        let drive = &self.name;
        self.tape.as_mut().ok_or_else(|| TapeError::NoTape { drive: drive.clone() })
    }

    fn barcode(&self) -> String {
        self.tape.as_ref().map(|t| t.label.barcode.clone()).unwrap_or_default()
    }

    /// Counts an operation and does it wrong if that is planned.
    fn fault(&mut self, operation: Operation) -> Result<(), TapeError> {
        let offline = |this: &mut Self| {
            this.offline = true;
            Err(TapeError::Offline { drive: this.name.clone() })
        };
        match self.faults.next(operation)? {
            None | Some(Fault::Jam) => Ok(()),
            Some(Fault::Error) => Err(TapeError::Medium { tape: self.barcode(), at: self.at }),
            Some(Fault::Offline) => offline(self),
            Some(Fault::Dirty) => self.become_dirty(),
            Some(Fault::Power) => {
                self.lose_buffer()?;
                offline(self)
            }
        }
    }

    /// What had not come to the tape is gone: whole blocks, the last ones.
    fn lose_buffer(&mut self) -> Result<(), TapeError> {
        let mut lost = self.mechanics.unwritten();
        let Some(tape) = &mut self.tape else { return Ok(()) };
        let mut keep = self.at.min(tape.len());
        while keep > self.synced && lost > 0.0 {
            lost -= tape.medium_before(keep) - tape.medium_before(keep - 1);
            keep -= 1;
        }
        // Who was reading has nothing in the buffer, and loses nothing of what lies behind the head.
        if keep == self.at {
            return Ok(());
        }
        self.at = keep;
        tape.cut(keep)
    }

    /// What is before the end of the tape, at a place.
    fn room_from(&self, at: u64) -> f64 {
        let Some(tape) = &self.tape else { return 0.0 };
        tape.label.capacity - tape.medium_before(at)
    }

    /// The drive's generation, of LTO.
    fn generation(&self) -> Option<u8> {
        of_drive(&self.model.name)
    }

    /// Whether the drive writes tapes of this one's generation.
    fn writes(&self, tape: &Cartridge) -> bool {
        let fits = |(media, drive): (Media, u8)| media.is_written_by(drive);
        tape.label.media().zip(self.generation()).is_none_or(fits)
    }

    fn writable(&mut self) -> Result<(), TapeError> {
        self.loaded()?;
        match self.is_write_protected() {
            true => Err(TapeError::WriteProtected { tape: self.barcode() }),
            false => Ok(()),
        }
    }

    /// Refuses to write before the end of the data of a tape that is only appended to.
    fn appendable(&mut self, at: u64) -> Result<(), TapeError> {
        let tape = self.loaded()?;
        match at < tape.len() && tape.label.media().is_some_and(|media| media.worm) {
            true => Err(TapeError::Worm { tape: self.barcode() }),
            false => Ok(()),
        }
    }

    fn warned(&self) -> Written {
        let capacity = self.tape.as_ref().map_or(0.0, |t| t.label.capacity);
        let zone = (capacity * EARLY_WARNING).max(EARLY_WARNING_LEAST).min(capacity / 4.0);
        Written { early_warning: self.room_from(self.at) < zone }
    }

    fn go_to(&mut self, at: u64) {
        if at != self.at {
            let then = self.mechanics.locate(self.clock.now(), self.medium_place(at));
            self.clock.wait_until(then);
            self.at = at;
        }
    }

    fn medium_place(&self, at: u64) -> f64 {
        self.tape.as_ref().map_or(0.0, |t| t.medium_before(at))
    }
}

impl TapeDrive for VirtualDrive {
    fn name(&self) -> &str {
        &self.name
    }

    fn write_block(&mut self, block: &[u8]) -> Result<Written, TapeError> {
        self.writable()?;
        if block.is_empty() || block.len() > self.model.block_max {
            return Err(TapeError::BlockSize {
                drive: self.name.clone(),
                most: self.model.block_max,
                length: block.len(),
            });
        }
        self.appendable(self.at)?;
        self.fault(Operation::Write)?;
        let ratio = if self.compression { self.ratio } else { 1.0 };
        let medium = block.len() as f64 / ratio;
        if self.room_from(self.at) < medium {
            return Err(TapeError::EndOfMedium { tape: self.barcode() });
        }
        let (at, key) = (self.at, self.key.clone());
        match key {
            Some(key) => self.loaded()?.write_encrypted(at, block, &key, ratio)?,
            None => self.loaded()?.write(at, Some(block), ratio)?,
        }
        self.bytes_written += block.len() as u64;
        self.bytes_on_tape += medium;
        self.synced = self.synced.min(at);
        self.at += 1;
        let then = self.mechanics.write(self.clock.now(), block.len(), medium);
        self.clock.wait_until(then);
        Ok(self.warned())
    }

    fn write_filemark(&mut self) -> Result<Written, TapeError> {
        self.writable()?;
        self.appendable(self.at)?;
        self.fault(Operation::Mark)?;
        let at = self.at;
        self.loaded()?.write(at, None, 1.0)?;
        self.synced = self.synced.min(at);
        self.at += 1;
        Ok(self.warned())
    }

    fn sync(&mut self) -> Result<(), TapeError> {
        self.loaded()?;
        self.fault(Operation::Sync)?;
        self.loaded()?.sync()?;
        let then = self.mechanics.flush(self.clock.now());
        self.clock.wait_until(then);
        self.synced = self.at;
        Ok(())
    }

    fn erase(&mut self, long: bool) -> Result<(), TapeError> {
        self.writable()?;
        self.appendable(0)?;
        self.fault(Operation::Write)?;
        self.go_to(0);
        let tape = self.loaded()?;
        let capacity = tape.label.capacity;
        tape.erase(long)?;
        self.synced = 0;
        let now = self.clock.now();
        let then = match long {
            true => self.mechanics.erase(now, capacity),
            false => self.mechanics.flush(now),
        };
        self.clock.wait_until(then);
        Ok(())
    }

    fn read_block(&mut self, into: &mut [u8]) -> Result<Read, TapeError> {
        self.loaded()?;
        let at = self.at;
        let (asked, key) = (into.len(), self.key.clone());
        let found = self.loaded()?.read(at, into, key.as_ref())?;
        if matches!(found, Ok(Read::Block(_)) | Err(_)) {
            self.fault(Operation::Read)?;
        }
        let length = match found {
            Ok(Read::EndOfData) => return Ok(Read::EndOfData),
            Ok(Read::Filemark) => {
                self.at += 1;
                return Ok(Read::Filemark);
            }
            Ok(Read::Block(length)) | Err(length) => length,
        };
        // One that is too long has passed the head all the same.
        self.at += 1;
        let medium = self.medium_place(self.at) - self.medium_place(at);
        let then = self.mechanics.read(self.clock.now(), length, medium);
        self.clock.wait_until(then);
        found.map_err(|length| TapeError::TooLong { tape: self.barcode(), at, length, asked })
    }

    fn locate(&mut self, to: Spot) -> Result<(), TapeError> {
        let tape = self.loaded()?;
        let by_marks = tape.file(to.file).filter(|(_, blocks)| to.block <= *blocks);
        let (way, at) = match (to.object, (to.file, to.block)) {
            (_, (0, 0)) => (None, Some(0)),
            (Some(object), _) => {
                (Some(Operation::Locate), (object <= tape.len()).then_some(object))
            }
            (None, _) => (Some(Operation::Space), by_marks.map(|(begin, _)| begin + to.block)),
        };
        if let Some(operation) = way {
            self.fault(operation)?;
        }
        let Some(at) = at else {
            return Err(TapeError::BeyondEnd { tape: self.barcode(), spot: to });
        };
        self.go_to(at);
        Ok(())
    }

    fn locate_end(&mut self) -> Result<Spot, TapeError> {
        let tape = self.loaded()?;
        let (end, file) = (tape.len(), tape.filemarks());
        let block = tape.file(file).map_or(0, |(_, blocks)| blocks);
        self.go_to(end);
        Ok(Spot { file, block, object: Some(end) })
    }

    fn position(&mut self) -> Result<Option<u64>, TapeError> {
        self.loaded()?;
        Ok(Some(self.at))
    }

    fn block_max(&self) -> usize {
        self.model.block_max
    }

    fn capacity(&self) -> Option<u64> {
        self.tape.as_ref().map(|tape| tape.label.capacity as u64)
    }

    fn room(&mut self) -> Option<u64> {
        let end = self.tape.as_ref()?.len();
        Some(self.room_from(end).max(0.0) as u64)
    }

    fn is_write_protected(&self) -> bool {
        // So drives say it, too, of tapes that they only read.
        self.tape.as_ref().is_some_and(|tape| tape.label.write_protected || !self.writes(tape))
    }

    fn media(&self) -> Option<Media> {
        self.tape.as_ref().and_then(|tape| tape.label.media())
    }

    fn unload(&mut self) -> Result<(), TapeError> {
        self.eject().map(drop)
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.mechanics.statistics())
    }

    fn counters(&mut self) -> Counters {
        Counters {
            bytes_written: Some(self.bytes_written),
            bytes_on_tape: Some(self.bytes_on_tape as u64),
            compression_ratio: (self.bytes_written > 0)
                .then(|| self.bytes_written as f64 / self.bytes_on_tape),
            ..Counters::default()
        }
    }

    fn alerts(&mut self) -> Vec<Alert> {
        let alert = Alert {
            severity: Severity::Critical,
            text: "the drive needs cleaning; use a cleaning tape".to_owned(),
            wants_cleaning: true,
            blames_tape: false,
        };
        std::mem::take(&mut self.dirty).then_some(alert).into_iter().collect()
    }

    /// In the time of whoever feeds it.
    fn speeds(&self) -> Option<Speeds> {
        let scale = self.clock.scale()?;
        let Speeds { lowest, native } = self.model.range();
        Some(Speeds { lowest: lowest * scale, native: native * scale })
    }

    fn scale(&self) -> f64 {
        self.clock.scale().unwrap_or(1.0)
    }

    fn locate_bytes(&self) -> Option<f64> {
        // Its locates are as much faster as its reading is.
        Some(self.model.native() * SETTLE_S)
    }

    fn compresses(&mut self) -> bool {
        self.ratio != 1.0
    }

    fn set_compression(&mut self, on: bool) -> Result<(), TapeError> {
        self.compression = on;
        Ok(())
    }

    fn encrypts(&mut self) -> bool {
        self.model.encrypts
    }

    fn set_key(&mut self, key: Option<&DriveKey>) -> Result<(), TapeError> {
        if key.is_some() && !self.model.encrypts {
            return Err(TapeError::CannotEncrypt { drive: self.name.clone() });
        }
        if self.key.as_ref() != key {
            self.key = key.cloned();
        }
        Ok(())
    }
}

impl Drop for VirtualDrive {
    fn drop(&mut self) {
        // The tape stays in the drive; only its wear is noted, and not to have done so loses nothing else.
        if let Some(tape) = self.tape.take() {
            let _ = self.with_wear(tape);
        }
    }
}

#[cfg(test)]
mod tests;
