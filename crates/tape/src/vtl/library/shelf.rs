//! Tapes of a virtual library that has a robot, as somebody takes them out and puts them in: by a mail slot, or through the door.

use capstan_engine::problem::Problem;
use capstan_medium::tape::{Held, Place, TapeError, is_spare};

use crate::vtl::library::{Library, tape_path, write_inventory};

impl Library {
    /// Takes a tape out of a mail slot or a slot, as somebody would by hand. What is on it stays, and it can come back. Returns where it
    /// was.
    pub fn take(&self, barcode: &str) -> Result<Place, TapeError> {
        self.refuse_alone("its tapes lie on the shelf already")?;
        let _robot = self.wait_for_robot()?;
        let mut held = self.tapes()?;
        let Some(n) = held.iter().position(|tape| tape.barcode == barcode) else {
            return Err(self.says(format!("it has no tape {barcode}")));
        };
        if let place @ Place::Drive(number) = held[n].place {
            return Err(self.says(Problem::new(format!("tape {barcode} is in {place}")).hint(
                format!("`capstan library unload vtape:{} drive:{number}` first", self.name),
            )));
        }
        let taken = held.remove(n);
        write_inventory(&self.dir, &held)?;
        Ok(taken.place)
    }

    /// Puts a tape in that was taken out: into a mail slot, or else into a slot. Returns where it is.
    pub fn put_in(&self, barcode: &str) -> Result<Place, TapeError> {
        self.refuse_alone("`capstan vtl insert` puts its tapes in")?;
        let _robot = self.wait_for_robot()?;
        let mut held = self.tapes()?;
        if let Some(there) = held.iter().find(|tape| tape.barcode == barcode) {
            return Err(self.says(format!("tape {barcode} is in {} already", there.place)));
        }
        if !self.is_barcode(barcode) || !tape_path(&self.dir, barcode).exists() {
            return Err(self.says(
                Problem::new(format!("there never was a tape {barcode} here"))
                    .hint("`capstan vtl add-tape` makes new ones"),
            ));
        }
        let place = self.free_for_hand(&held)?;
        held.push(Held { place, barcode: barcode.to_owned(), from: None });
        write_inventory(&self.dir, &held)?;
        Ok(place)
    }

    /// The first mail slot that is free, else the first slot.
    pub(super) fn free_for_hand(&self, held: &[Held]) -> Result<Place, TapeError> {
        let mail = (1..=self.design.mail_slots).map(Place::Mail);
        let mut places = mail.chain((1..=self.design.slots).map(Place::Slot));
        places.find(|place| is_spare(held, *place)).ok_or_else(|| {
            let problem =
                "all its slots and mail slots are taken, or tapes go back to them that are in drives";
            self.says(Problem::new(problem).hint("export a tape"))
        })
    }

    fn refuse_alone(&self, hint: &str) -> Result<(), TapeError> {
        match self.design.alone {
            true => Err(self.says(format!("it is a drive that stands alone: {hint}"))),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Changer;
    use crate::vtl::library::tests::library;
    use capstan_medium::tape::TapeLibrary;

    #[test]
    fn tapes_go_out_and_come_back_with_what_is_on_them() {
        let (_dir, mut library) = library();
        library.move_tape(Place::Slot(2), Place::Drive(1)).unwrap();
        library.open_drive(1).unwrap().write_block(b"kept").unwrap();
        let loaded = library.take("V00002L9").unwrap_err().to_string();
        assert!(loaded.contains("is in drive 1") && loaded.contains("unload"), "{loaded}");
        library.unload_drive(1).unwrap();
        library.move_tape(Place::Drive(1), Place::Mail(1)).unwrap();
        assert_eq!(library.take("V00002L9").unwrap(), Place::Mail(1));
        assert!(library.tapes().unwrap().iter().all(|tape| tape.barcode != "V00002L9"));
        assert!(library.take("V00002L9").unwrap_err().to_string().contains("no tape"));
        // The door does, too.
        assert_eq!(library.take("V00001L9").unwrap(), Place::Slot(1));
        assert_eq!(library.put_in("V00002L9").unwrap(), Place::Mail(1));
        assert_eq!(library.put_in("V00001L9").unwrap(), Place::Slot(1));
        for (bad, why) in
            [("V00001L9", "in slot 1 already"), ("X", "never was"), ("../x", "never was")]
        {
            let refused = library.put_in(bad).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        library.move_tape(Place::Mail(1), Place::Drive(1)).unwrap();
        let mut block = [0; 8];
        library.open_drive(1).unwrap().read_block(&mut block).unwrap();
        assert_eq!(&block[..4], b"kept");
    }
}
