//! A virtual drive that stands alone: it has no robot, its tapes lie on a shelf, and somebody puts them in.

use capstan_engine::problem::Problem;
use capstan_medium::tape::{DriveInfo, Elements, Held, Place, TapeError, TapeLibrary};

use crate::Changer;
use crate::drive::TapeDrive;
use crate::vtl::library::{Library, write_inventory};

/// A virtual library without a robot, as sessions see it.
#[derive(Debug)]
pub struct ByHand(Library);

impl ByHand {
    /// A library whose design says that it stands alone.
    pub fn new(library: Library) -> Self {
        Self(library)
    }

    fn refuse_other(&self, number: u32) -> Result<(), TapeError> {
        match number {
            1 => Ok(()),
            n => Err(self.0.says(format!("it has no drive {n}: it is a drive that stands alone"))),
        }
    }
}

impl Library {
    /// Puts a tape from the shelf into the drive, as somebody would by hand; what was in it goes to the shelf. Without a robot
    /// only.
    pub fn insert(&self, barcode: &str) -> Result<(), TapeError> {
        if !self.design.alone {
            let what = "it has a robot: `capstan library load` moves its tapes";
            return Err(self.says(what.to_owned()));
        }
        let _robot = self.wait_for_robot()?;
        let _drive = self.lock_drive(1)?;
        let mut held = self.tapes()?;
        if !held.iter().any(|tape| tape.barcode == barcode) {
            let mut there: Vec<_> = held.into_iter().map(|tape| tape.barcode).collect();
            there.sort();
            return Err(self.says(
                Problem::new(format!("there is no tape {barcode} on its shelf"))
                    .hint(format!("there are {}", there.join(", "))),
            ));
        }
        for there in held.iter_mut().filter(|tape| tape.place == Place::Drive(1)) {
            there.place = there.from.take().unwrap_or(Place::Slot(1));
        }
        if let Some(tape) = held.iter_mut().find(|tape| tape.barcode == barcode) {
            tape.from = Some(tape.place);
            tape.place = Place::Drive(1);
        }
        write_inventory(&self.dir, &held)
    }

    /// Takes the tape out of the drive and puts it back to its place on the shelf.
    fn take_out(&self) -> Result<(), TapeError> {
        let _robot = self.wait_for_robot()?;
        let _drive = self.lock_drive(1)?;
        let mut held = self.tapes()?;
        let Some(tape) = held.iter_mut().find(|tape| tape.place == Place::Drive(1)) else {
            return Ok(());
        };
        self.clock.pass(self.model.unload_s);
        // Its place was free as long as it was in the drive.
        tape.place = tape.from.take().unwrap_or(Place::Slot(1));
        write_inventory(&self.dir, &held)
    }
}

impl TapeLibrary for ByHand {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn elements(&self) -> Elements {
        Elements { drives: 1, slots: 0, mail_slots: 0 }
    }

    /// Nobody reads the sticker here, so a tape has no barcode.
    fn inventory(&mut self) -> Result<Vec<Held>, TapeError> {
        let tapes = self.0.tapes()?.into_iter().filter(|tape| tape.place == Place::Drive(1));
        Ok(tapes.map(|tape| Held { barcode: String::new(), from: None, ..tape }).collect())
    }

    fn move_tape(&mut self, _: Place, _: Place) -> Result<(), TapeError> {
        Err(self.0.says(Problem::new("it has no robot").hint("put the tape in by hand (`capstan vtl insert`), or take it out with `capstan library unload`")))
    }

    fn unload_drive(&mut self, number: u32) -> Result<(), TapeError> {
        self.refuse_other(number)?;
        self.0.take_out()
    }

    fn drive_info(&mut self, number: u32) -> Result<DriveInfo, TapeError> {
        self.refuse_other(number)?;
        self.0.drive_info(number)
    }

    fn clean(&mut self, _: u32, _: Place) -> Result<Option<u32>, TapeError> {
        Err(self.0.says(Problem::new("it has no robot").hint("put the cleaning tape in by hand")))
    }
}

impl Changer for ByHand {
    fn open_drive(&mut self, number: u32) -> Result<Box<dyn TapeDrive>, TapeError> {
        self.refuse_other(number)?;
        self.0.open_drive(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vtl::library::Design;
    use crate::vtl::library::tests::design;

    #[test]
    fn tapes_are_put_in_by_hand_and_come_out() {
        let dir = tempfile::tempdir().unwrap();
        let design =
            Design { alone: true, drives: 1, slots: 3, mail_slots: 0, scale: 1e6, ..design() };
        let library = Library::create(&dir.path().join("drive"), &design, 2).unwrap();
        let mut alone = ByHand::new(Library::open(&dir.path().join("drive")).unwrap());
        assert_eq!(alone.elements(), Elements { drives: 1, slots: 0, mail_slots: 0 });
        assert!(alone.inventory().unwrap().is_empty());
        let empty = alone.open_drive(1).unwrap().read_block(&mut [0; 8]);
        assert!(matches!(empty, Err(TapeError::NoTape { .. })), "{empty:?}");

        library.insert("V00002L9").unwrap();
        assert_eq!(alone.inventory().unwrap()[0].barcode, "");
        alone.open_drive(1).unwrap().write_block(b"second").unwrap();
        library.insert("V00001L9").unwrap();
        alone.open_drive(1).unwrap().write_block(b"first").unwrap();
        alone.unload_drive(1).unwrap();
        assert!(alone.inventory().unwrap().is_empty());
        let places: Vec<_> = library.tapes().unwrap().into_iter().map(|t| t.place).collect();
        assert_eq!(places, [Place::Slot(1), Place::Slot(2)]);

        library.insert("V00002L9").unwrap();
        let mut block = [0; 16];
        alone.open_drive(1).unwrap().read_block(&mut block).unwrap();
        assert_eq!(&block[..6], b"second");
        // Who has the drive open keeps the tape in it.
        let open = alone.open_drive(1).unwrap();
        assert!(matches!(library.insert("V00001L9"), Err(TapeError::Busy { .. })));
        drop(open);
        let unknown = library.insert("X").unwrap_err().to_string();
        assert!(unknown.contains("there are V00001L9, V00002L9"), "{unknown}");
        assert!(alone.move_tape(Place::Slot(1), Place::Drive(1)).is_err());
        assert!(alone.open_drive(2).is_err());
    }
}
