//! Cleaning of a virtual library's drives.

use std::fs;
use std::path::PathBuf;

use capstan_engine::problem::Problem;
use capstan_medium::tape::error::failed;
use capstan_medium::tape::{Place, TapeError};

use super::{Library, MOVE_S, tape_path};
use crate::vtl::cartridge::Cartridge;

/// Seconds that a drive takes to clean itself: an estimate, makers say one to five minutes.
const CLEAN_S: f64 = 120.0;

impl Library {
    /// Lies there while a drive asks to be cleaned.
    pub(super) fn dirty_mark(&self, drive: u32) -> PathBuf {
        self.dir.join(format!("drive-{drive}.dirty"))
    }

    pub(super) fn clean_drive(&mut self, drive: u32, at: Place) -> Result<u32, TapeError> {
        let _robot = self.wait_for_robot()?;
        self.refuse_nowhere(Place::Drive(drive))?;
        self.refuse_nowhere(at)?;
        let _lock = self.lock_drive(drive)?;
        let held = self.tapes()?;
        if let Some(there) = held.iter().find(|h| h.place == Place::Drive(drive)) {
            let barcode = &there.barcode;
            return Err(self.says(
                Problem::new(format!("drive {drive} holds tape {barcode}")).hint("unload it first"),
            ));
        }
        let Some(tape) = held.iter().find(|h| h.place == at) else {
            return Err(self.holds_none(at));
        };
        let mut tape = Cartridge::open(&tape_path(&self.dir, &tape.barcode))?;
        let barcode = tape.label.barcode.clone();
        let left = match tape.label.cleanings {
            None => return Err(self.says(format!("tape {barcode} is no cleaning tape"))),
            Some(0) => {
                return Err(self.says(
                    Problem::new(format!("cleaning tape {barcode} is used up"))
                        .hint("export it and put a new one in"),
                ));
            }
            Some(left) => left - 1,
        };
        self.refuse_jammed()?;
        // Counted first: a use that was broken off wore it, too.
        tape.label.cleanings = Some(left);
        tape.label.loads += 1;
        tape.save_label()?;
        self.clock.pass(2.0 * MOVE_S + CLEAN_S);
        let mark = self.dirty_mark(drive);
        match fs::remove_file(&mark) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(failed("remove", &mark)(e)),
            _ => Ok(left),
        }
    }
}

#[cfg(test)]
mod tests {

    use crate::drive::TapeDrive;
    use crate::vtl::library::stock::NewTape;
    use crate::vtl::library::tests::library;
    use capstan_medium::tape::Place;
    use capstan_medium::tape::TapeLibrary;

    #[test]
    fn a_drive_that_asks_for_it_is_cleaned_until_the_tape_is_spent() {
        let (_dir, mut library) = library();
        library.add_tape(&NewTape { cleanings: Some(1), ..NewTape::default() }).unwrap();
        library.move_tape(Place::Slot(1), Place::Drive(1)).unwrap();
        library.plan_faults(Some(1), "write:1=dirty").unwrap();
        let mut drive = library.drive(1).unwrap();
        assert!(drive.alerts().is_empty());
        drive.write_block(b"x").unwrap();
        let alerts = drive.alerts();
        assert!(alerts.iter().any(|a| a.wants_cleaning), "{alerts:?}");
        assert!(drive.alerts().is_empty(), "once");
        drop(drive);
        // It still is, for the next process.
        assert!(library.drive(1).unwrap().alerts()[0].wants_cleaning);
        let noted = library.drive_info(1).unwrap().note.unwrap();
        assert!(noted.contains("clean"), "{noted}");

        let mut says = |drive, at, words: &str| {
            let error = library.clean(drive, at).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        says(1, Place::Mail(1), "holds tape V00001L9; unload");
        says(2, Place::Slot(2), "no cleaning tape");
        says(2, Place::Slot(4), "slot 4 holds no tape");
        says(3, Place::Mail(1), "no drive 3");
        library.move_tape(Place::Drive(1), Place::Slot(1)).unwrap();
        assert_eq!(library.clean(1, Place::Mail(1)).unwrap(), Some(0));
        assert_eq!(library.drive_info(1).unwrap().note, None);
        assert!(library.drive(1).unwrap().alerts().is_empty());
        let spent = library.clean(1, Place::Mail(1)).unwrap_err().to_string();
        assert!(spent.contains("CLN001L9 is used up"), "{spent}");
        // Nobody writes backups on it.
        library.move_tape(Place::Mail(1), Place::Drive(2)).unwrap();
        assert!(library.drive(2).unwrap().write_block(b"x").is_err());
    }
}
