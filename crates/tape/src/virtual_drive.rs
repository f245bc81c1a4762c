//! A drive that is none: a model's mechanics, a tape in a file, a clock, and a plan of faults.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use crate::cartridge::{Cartridge, failed};
use crate::clock::Clock;
use crate::drive::{Read, Speeds, Spot, TapeDrive, TapeError, Written};
use crate::encryption::DriveKey;
use crate::faults::{Fault, Faults, Operation};
use crate::mechanics::{Mechanics, Statistics};
use crate::model::DriveModel;
use crate::reports::{Alert, Counters, Severity};

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
    faults: Faults,
    offline: bool,
    /// Passes that the tape's label knows of already.
    passes_told: f64,
    /// Keeps the drive this process's as long as this lives.
    lock: Option<File>,
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
            faults: Faults::default(),
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
    pub(crate) fn hold(&mut self, lock: File) {
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
            Some(mark) => File::create(mark).map(drop).map_err(failed("make", mark)),
            None => Ok(()),
        }
    }

    /// Gives it a plan of faults.
    pub fn set_faults(&mut self, faults: Faults) {
        self.faults = faults;
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
                problem: format!("the drive holds tape {} already; unload it", there.label.barcode),
            });
        }
        tape.label.loads += 1;
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
        match self.faults.next(operation) {
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

    fn writable(&mut self) -> Result<(), TapeError> {
        let tape = self.loaded()?;
        match tape.label.write_protected {
            true => Err(TapeError::WriteProtected { tape: tape.label.barcode.clone() }),
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
        self.tape.as_ref()?;
        Some(self.room_from(self.at).max(0.0) as u64)
    }

    fn is_write_protected(&self) -> bool {
        self.tape.as_ref().is_some_and(|tape| tape.label.write_protected)
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
mod tests {
    use super::*;
    use crate::cartridge::Label;
    use std::path::Path;

    fn tape(dir: &Path, capacity: f64, write_protected: bool) -> Cartridge {
        let path = dir.join("A00001L9.tape");
        let barcode = "A00001L9".to_owned();
        let label =
            Label { barcode, capacity, write_protected, loads: 0, passes: 0.0, cleanings: None };
        Cartridge::create(&path, &label).unwrap();
        Cartridge::open(&path).unwrap()
    }

    fn drive(model: &str) -> (VirtualDrive, Arc<Clock>) {
        let clock = Arc::new(Clock::virtual_time());
        let model = DriveModel::named(model).unwrap();
        (VirtualDrive::new("drive 1", model, clock.clone(), 1.0), clock)
    }

    #[test]
    fn it_encrypts_with_the_key_that_it_is_given_and_forgets_it_with_the_tape() {
        let dir = tempfile::tempdir().unwrap();
        let (mut drive, _) = drive("lto-9");
        let (key, other) = (DriveKey::new([1; 32]), DriveKey::new([2; 32]));
        assert!(drive.encrypts());
        drive.load(tape(dir.path(), 1e9, false)).unwrap();
        drive.write_block(b"in clear").unwrap();
        drive.set_key(Some(&key)).unwrap();
        drive.write_block(b"encrypted").unwrap();
        let mut block = vec![0; 100];
        let mut read = |drive: &mut VirtualDrive, at| {
            drive.locate(Spot { file: 0, block: at, object: None }).unwrap();
            drive.read_block(&mut block)
        };
        assert_eq!(read(&mut drive, 0).unwrap(), Read::Block(8), "what is in clear is read too");
        assert_eq!(read(&mut drive, 1).unwrap(), Read::Block(9));
        drive.set_key(Some(&other)).unwrap();
        assert!(matches!(read(&mut drive, 1), Err(TapeError::CannotDecrypt { .. })));
        drive.set_key(Some(&key)).unwrap();
        let tape = drive.eject().unwrap();
        drive.load(tape).unwrap();
        assert!(matches!(read(&mut drive, 1), Err(TapeError::CannotDecrypt { .. })));
        let (mut old, _) = self::drive("lto-3");
        assert!(!old.encrypts());
        let refused = old.set_key(Some(&key)).unwrap_err().to_string();
        assert!(refused.contains("drive 1 cannot encrypt"), "{refused}");
        old.set_key(None).unwrap();
    }

    #[test]
    fn blocks_and_filemarks_come_back_from_their_places() {
        let dir = tempfile::tempdir().unwrap();
        let (mut drive, clock) = drive("lto-9");
        let mut block = vec![0; 1000];
        assert!(matches!(drive.read_block(&mut block), Err(TapeError::NoTape { .. })));
        drive.load(tape(dir.path(), 1e9, false)).unwrap();
        assert_eq!(clock.now(), 16.0);
        for byte in 1..=3 {
            drive.write_block(&vec![byte; 300]).unwrap();
            drive.write_filemark().unwrap();
        }
        let spot = |file, block| Spot { file, block, object: None };
        drive.locate(spot(1, 0)).unwrap();
        assert_eq!(drive.read_block(&mut block).unwrap(), Read::Block(300));
        assert_eq!(block[299], 2);
        assert_eq!(drive.read_block(&mut block).unwrap(), Read::Filemark);
        let short = drive.read_block(&mut block[..10]).unwrap_err();
        assert!(matches!(short, TapeError::TooLong { at: 4, length: 300, asked: 10, .. }));
        assert_eq!(drive.read_block(&mut block).unwrap(), Read::Filemark, "behind it");
        assert_eq!(drive.locate_end().unwrap(), Spot { object: Some(6), ..spot(3, 0) });
        assert_eq!(drive.read_block(&mut block).unwrap(), Read::EndOfData);
        for beyond in [spot(3, 1), spot(1, 2), spot(4, 0)] {
            assert!(matches!(drive.locate(beyond), Err(TapeError::BeyondEnd { .. })));
        }
        // By its own number it goes there, whatever the rest says.
        drive.locate(Spot { object: Some(2), ..spot(0, 1) }).unwrap();
        assert_eq!(drive.position().unwrap(), Some(2));
        assert_eq!(drive.read_block(&mut block).unwrap(), Read::Block(300));
        assert_eq!(block[299], 2);
        let beyond = drive.locate(Spot { object: Some(7), ..spot(1, 0) });
        assert!(matches!(beyond, Err(TapeError::BeyondEnd { .. })));
        drive.locate(spot(2, 1)).unwrap();
        assert_eq!(drive.position().unwrap(), Some(5));
        assert_eq!(drive.read_block(&mut block).unwrap(), Read::Filemark);
        let large = vec![0; (8 << 20) + 1];
        assert!(matches!(drive.write_block(&large), Err(TapeError::BlockSize { .. })));
        let label = drive.eject().unwrap().label;
        assert!(label.loads == 1 && label.passes > 0.0, "{label:?}");
    }

    #[test]
    fn a_long_erase_takes_as_long_as_writing_the_tape() {
        for long in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (mut drive, clock) = drive("lto-9");
            drive.load(tape(dir.path(), 400e9, false)).unwrap();
            for byte in 1..=3 {
                drive.write_block(&[byte; 3000]).unwrap();
                drive.write_filemark().unwrap();
            }
            drive.sync().unwrap();
            let begun = clock.now();
            drive.erase(long).unwrap();
            let (took, native) =
                (clock.now() - begun, DriveModel::named("lto-9").unwrap().native());
            let pass = 400e9 / native;
            assert_eq!(long, took > pass, "{took} s of {pass} s");
            assert!(took < pass + 200.0, "{took} s");
            assert_eq!(drive.read_block(&mut [0; 4000]).unwrap(), Read::EndOfData);
            assert_eq!(drive.locate_end().unwrap(), Spot::BEGIN);
            let file = std::fs::read(dir.path().join("A00001L9.tape")).unwrap();
            assert_eq!(file.len(), 16, "nothing of it is in the file");
            drive.write_block(&[7; 10]).unwrap();
        }
        let dir = tempfile::tempdir().unwrap();
        let (mut drive, _) = drive("lto-9");
        drive.load(tape(dir.path(), 1e9, true)).unwrap();
        assert!(matches!(drive.erase(false), Err(TapeError::WriteProtected { .. })));
    }

    #[test]
    fn the_end_of_the_tape_is_warned_of_and_then_comes() {
        let dir = tempfile::tempdir().unwrap();
        let (mut drive, _) = drive("lto-9");
        drive.load(tape(dir.path(), 100e6, false)).unwrap();
        let block = vec![7; 1 << 20];
        let mut blocks = 0;
        while !drive.write_block(&block).unwrap().early_warning {
            blocks += 1;
        }
        assert!((70..=90).contains(&blocks), "{blocks}");
        let error = loop {
            if let Err(e) = drive.write_block(&block) {
                break e;
            }
            blocks += 1;
        };
        assert!(matches!(error, TapeError::EndOfMedium { .. }), "{error}");
        assert!((93..=95).contains(&blocks), "{blocks}");
        assert!(drive.write_filemark().is_ok(), "a mark has room");
    }

    #[test]
    fn what_is_planned_goes_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let (mut drive, _) = drive("lto-9");
        drive.set_faults("write:2=error,write:40=power".parse().unwrap());
        drive.load(tape(dir.path(), 1e9, false)).unwrap();
        let block = vec![1; 1 << 20];
        drive.write_block(&block).unwrap();
        assert!(matches!(drive.write_block(&block), Err(TapeError::Medium { at: 1, .. })));
        drive.write_filemark().unwrap();
        drive.sync().unwrap();
        let failed = (0..50).find_map(|_| drive.write_block(&block).err()).unwrap();
        assert!(matches!(failed, TapeError::Offline { .. }), "{failed}");
        assert!(matches!(drive.eject(), Err(TapeError::Offline { .. })));
        // What was synchronised is there, what was in the buffer is not.
        let tape = Cartridge::open(&dir.path().join("A00001L9.tape")).unwrap();
        assert_eq!(tape.len(), 2);
    }

    #[test]
    fn a_power_cut_takes_nothing_that_was_synchronised_or_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let (mut drive, clock) = drive("lto-9");
        // Where rounding errors are large.
        clock.wait_until(1e9);
        drive.load(tape(dir.path(), 1e9, false)).unwrap();
        let mut block = vec![1; 1 << 20];
        for _ in 0..4 {
            drive.write_block(&block).unwrap();
        }
        drive.write_filemark().unwrap();
        drive.sync().unwrap();
        let path = dir.path().join("A00001L9.tape");
        for plan in ["write:1=power", "read:2=power"] {
            drive.set_faults(plan.parse().unwrap());
            drive
                .locate(Spot {
                    file: if plan.starts_with('r') { 0 } else { 1 },
                    block: 0,
                    object: None,
                })
                .unwrap();
            let failed = (0..3).any(|_| match plan.starts_with('r') {
                true => drive.read_block(&mut block).is_err(),
                false => drive.write_block(&block).is_err(),
            });
            assert!(failed, "{plan}");
            assert_eq!(Cartridge::open(&path).unwrap().len(), 5, "{plan}");
            drive.offline = false;
        }
    }

    #[test]
    fn a_tape_with_its_tab_set_is_only_read() {
        let dir = tempfile::tempdir().unwrap();
        let (mut drive, _) = drive("lto-9");
        drive.load(tape(dir.path(), 1e9, true)).unwrap();
        assert!(matches!(drive.write_block(b"x"), Err(TapeError::WriteProtected { .. })));
        assert!(matches!(drive.write_filemark(), Err(TapeError::WriteProtected { .. })));
        assert_eq!(drive.read_block(&mut [0; 9]).unwrap(), Read::EndOfData);
    }

    #[test]
    fn compressed_data_take_less_tape_and_less_time() {
        let dir = tempfile::tempdir().unwrap();
        let clock = Arc::new(Clock::virtual_time());
        let model = DriveModel::named("lto-9").unwrap();
        let mut drive = VirtualDrive::new("d", model, clock.clone(), 2.0);
        drive.load(tape(dir.path(), 40e6, false)).unwrap();
        let block = vec![1; 1 << 20];
        for _ in 0..10 {
            drive.write_block(&block).unwrap();
        }
        // What is written from now on is not compressed; what was is.
        drive.set_compression(false).unwrap();
        for _ in 0..10 {
            drive.write_block(&block).unwrap();
        }
        let counted = drive.counters();
        assert_eq!(counted.bytes_written.zip(counted.bytes_on_tape), Some((20 << 20, 15 << 20)));
        assert_eq!(drive.room_from(20), 40e6 - f64::from(15 << 20));
        drive.set_compression(true).unwrap();
        let blocks = 20 + std::iter::from_fn(|| drive.write_block(&block).ok()).count();
        assert_eq!(blocks, 66, "40 MB are 38.1 MiB: 15 and 23 for 46 blocks");
        let s = drive.statistics().unwrap();
        drive.write_filemark().unwrap();
        assert!(s.medium_bytes <= 40e6 && s.host_bytes == 66 << 20, "{s:?}");
        drop(drive);
        // The tape knows, not the drive.
        let tape = Cartridge::open(&dir.path().join("A00001L9.tape")).unwrap();
        assert_eq!(tape.medium_before(20), f64::from(15 << 20));
    }
}
