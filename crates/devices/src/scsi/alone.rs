//! A drive that stands alone: a library with one drive, no slots and no robot but the operator.

use std::sync::Arc;

use capstan_engine::problem::Problem;
use capstan_medium::tape::{DriveInfo, Elements, Held, Place, TapeError, TapeLibrary};
use capstan_scsi::find::Found;
use capstan_tape::{Changer, TapeDrive};

use super::Initiator;
use super::changer::info_of;
use super::drive::{Expect, ScsiDrive, eject};

/// A drive that stands alone.
pub(super) struct Alone {
    initiator: Arc<Initiator>,
    name: String,
    found: Found,
}

impl Alone {
    pub fn new(initiator: Arc<Initiator>, device: &str, found: Found) -> Self {
        Self { initiator, name: device.to_owned(), found }
    }

    fn drive(&self) -> Result<ScsiDrive, TapeError> {
        ScsiDrive::open(&self.initiator, &self.name, &self.name, Expect::Anything)
    }

    fn says(&self, problem: impl Into<Problem>) -> TapeError {
        TapeError::Library { library: self.name.clone(), problem: problem.into() }
    }

    fn refuse_other(&self, number: u32) -> Result<(), TapeError> {
        match number {
            1 => Ok(()),
            n => Err(self.says(format!("it has no drive {n}: it is a drive that stands alone"))),
        }
    }
}

impl TapeLibrary for Alone {
    fn name(&self) -> &str {
        &self.name
    }

    fn elements(&self) -> Elements {
        Elements { drives: 1, slots: 0, mail_slots: 0 }
    }

    /// Nobody reads the sticker here, so a tape has no barcode.
    fn inventory(&mut self) -> Result<Vec<Held>, TapeError> {
        let loaded = self.drive()?.is_loaded();
        let tape = Held { place: Place::Drive(1), barcode: String::new(), from: None };
        Ok(loaded.then_some(tape).into_iter().collect())
    }

    fn move_tape(&mut self, _: Place, _: Place) -> Result<(), TapeError> {
        Err(self.says(
            Problem::new("it has no robot")
                .hint("put the tape in by hand, or take it out after `capstan library unload`"),
        ))
    }

    fn unload_drive(&mut self, number: u32) -> Result<(), TapeError> {
        self.refuse_other(number)?;
        eject(&self.initiator, &self.name, &self.name)
    }

    fn drive_info(&mut self, number: u32) -> Result<DriveInfo, TapeError> {
        self.refuse_other(number)?;
        Ok(info_of(&self.initiator.locks, &self.found))
    }

    fn clean(&mut self, _: u32, _: Place) -> Result<Option<u32>, TapeError> {
        Err(self.says(
            Problem::new("it has no robot")
                .hint("put the cleaning tape in by hand, the drive does the rest"),
        ))
    }
}

impl Changer for Alone {
    fn open_drive(&mut self, number: u32) -> Result<Box<dyn TapeDrive>, TapeError> {
        self.refuse_other(number)?;
        Ok(Box::new(self.drive()?))
    }
}
