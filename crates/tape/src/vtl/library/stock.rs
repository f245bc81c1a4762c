//! New tapes for a virtual library.

use capstan_engine::problem::Problem;
use capstan_medium::tape::generation::CLEANING;
use capstan_medium::tape::{Held, Media, TapeError};

use super::{Library, suffix, tape_path, write_inventory};
use crate::model::DriveModel;
use crate::vtl::cartridge::{Cartridge, Label};

/// Uses of a cleaning tape of which the makers of the drive say nothing: what most are rated for.
const CLEANINGS: u32 = 20;
/// Bytes of a tape of LTO-7 type M.
const TYPE_M: f64 = 9e12;
/// A barcode is a file's name, too.
const BARCODE_MAX: usize = 32;

/// A tape to put into a library.
#[derive(Debug, Clone, Default)]
pub struct NewTape {
    /// What is on its sticker; by default the next number that is free.
    pub barcode: Option<String>,
    /// It cleans drives, so often.
    pub cleanings: Option<u32>,
    /// Its tab is set.
    pub write_protected: bool,
}

impl Library {
    /// How often a new cleaning tape can be used.
    pub fn cleanings_of_new(&self) -> u32 {
        self.model.cleaning_cycles.unwrap_or(CLEANINGS)
    }

    /// Puts a new tape into the library: into a mail slot, as an operator would, or else into a slot.
    pub fn add_tape(&self, new: &NewTape) -> Result<Held, TapeError> {
        let _robot = self.wait_for_robot()?;
        let mut held = self.tapes()?;
        let place = self.free_for_hand(&held)?;
        let barcode = match &new.barcode {
            Some(barcode) => self.checked(barcode, new.cleanings.is_some())?,
            None => self.next_barcode(new.cleanings.is_some()),
        };
        let label = Label {
            barcode: barcode.clone(),
            capacity: self.capacity_of(&barcode),
            write_protected: new.write_protected,
            loads: 0,
            passes: 0.0,
            cleanings: new.cleanings,
            media: None,
        };
        Cartridge::create(&tape_path(&self.dir, &barcode), &label)?;
        let tape = Held { place, barcode, from: None };
        held.push(tape.clone());
        write_inventory(&self.dir, &held)?;
        Ok(tape)
    }

    /// Whether a barcode can be the name of a file.
    pub(super) fn is_barcode(&self, barcode: &str) -> bool {
        let fits = |b: u8| b.is_ascii_alphanumeric() || b"-_".contains(&b);
        (1..=BARCODE_MAX).contains(&barcode.len()) && barcode.bytes().all(fits)
    }

    /// What a new tape holds: what was said of all, else what tapes hold that have such a barcode.
    fn capacity_of(&self, barcode: &str) -> f64 {
        let media = Media::of_barcode(barcode);
        let model = media.and_then(|m| DriveModel::named(&format!("lto-{}", m.generation)));
        let native = match media {
            // Half as much again as a drive of its own generation writes.
            Some(m) if m.type_m => TYPE_M,
            _ => model.unwrap_or(self.model).capacity,
        };
        self.design.capacity.map_or(native, |bytes| bytes as f64)
    }

    /// A barcode that can be the name of a file, and that no other tape has.
    fn checked(&self, barcode: &str, cleaning: bool) -> Result<String, TapeError> {
        if !self.is_barcode(barcode) {
            return Err(self.says(
                Problem::new(format!("'{barcode}' is no barcode"))
                    .hint(format!("give 1 to {BARCODE_MAX} letters, digits, - and _")),
            ));
        }
        // Also one that was taken out keeps its file, and may come back.
        if tape_path(&self.dir, barcode).exists() {
            return Err(self.says(
                Problem::new(format!("it has a tape {barcode} already")).hint("choose another"),
            ));
        }
        if cleaning != barcode.starts_with(CLEANING) {
            return Err(self.says(
                Problem::new(format!(
                    "barcodes of cleaning tapes, and of no others, begin with {CLEANING}"
                ))
                .hint(format!("choose another than {barcode}")),
            ));
        }
        Ok(barcode.to_owned())
    }

    fn next_barcode(&self, cleaning: bool) -> String {
        let suffix = suffix(&self.design.model);
        let name = |n: u32| match cleaning {
            true => format!("{CLEANING}{n:03}{suffix}"),
            false => format!("V{n:05}{suffix}"),
        };
        let free = |barcode: &String| !tape_path(&self.dir, barcode).exists();
        (1..).map(name).find(free).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::vtl::library::tests::library;
    use capstan_medium::tape::Place;
    use capstan_medium::tape::TapeLibrary;

    #[test]
    fn a_new_tape_does_not_take_the_slot_of_one_that_is_in_a_drive() {
        let (_dir, mut library) = library();
        library.move_tape(Place::Slot(1), Place::Drive(1)).unwrap();
        let add = || library.add_tape(&NewTape::default());
        assert_eq!(add().unwrap().place, Place::Mail(1));
        assert_eq!(add().unwrap().place, Place::Slot(4));
        let full = add().unwrap_err().to_string();
        assert!(full.contains("go back to them"), "{full}");
        library.unload_drive(1).unwrap();
        library.move_tape(Place::Drive(1), Place::Slot(1)).unwrap();
    }

    #[test]
    fn new_tapes_come_by_the_mail_slot_and_have_names_of_their_own() {
        let (_dir, library) = library();
        let add = |barcode: Option<&str>, cleanings| {
            let barcode = barcode.map(str::to_owned);
            let new = NewTape { barcode, cleanings, write_protected: true };
            library.add_tape(&new).map(|h| (h.place, h.barcode)).map_err(|e| e.to_string())
        };
        assert_eq!(add(None, None).unwrap(), (Place::Mail(1), "V00004L9".to_owned()));
        for (bad, why) in [
            ("../x", "no barcode"),
            ("", "no barcode"),
            ("V00001L9", "already"),
            ("CLN9", "begin with CLN"),
        ] {
            assert!(add(Some(bad), None).unwrap_err().contains(why), "{bad}");
        }
        assert_eq!(add(None, Some(20)).unwrap(), (Place::Slot(4), "CLN001L9".to_owned()));
        assert!(add(Some("X1"), None).unwrap_err().contains("are taken"));
        let label = Cartridge::open(&tape_path(&library.dir, "V00004L9")).unwrap().label;
        assert!(label.write_protected && label.capacity == 100e6);
    }
}
