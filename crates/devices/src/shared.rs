//! Robots that several hosts share. Locks are a host's own; beside them, whoever moves a tape books the robot where all hosts see it.
//!
//! Where that is, the program says once ([`book_with`]); without it, there are the locks of the host and what the device has.

use std::sync::OnceLock;

use capstan_tape::changer::{DriveInfo, Elements, Held, Place};
use capstan_tape::{Changer, TapeDrive, TapeError};

/// Books robots: waits until nobody else has that one. Who books has it until what is returned is dropped.
pub type Book = dyn Fn(&str) -> Result<Box<dyn Send>, TapeError> + Send + Sync;

static BOOK: OnceLock<Box<Book>> = OnceLock::new();

/// Says where robots are booked. The first one stays.
pub fn book_with(book: Box<Book>) {
    let _ = BOOK.set(book);
}

/// A library whose robot is booked for each move.
struct Shared {
    library: Box<dyn Changer>,
    book: &'static Book,
}

/// The library; with a robot that is booked, where there is one and somebody to book it with.
pub(crate) fn shared(library: Box<dyn Changer>) -> Box<dyn Changer> {
    match BOOK.get() {
        Some(book) if library.elements().slots > 0 => Box::new(Shared { library, book: &**book }),
        _ => library,
    }
}

impl Shared {
    fn booked(&self) -> Result<Box<dyn Send>, TapeError> {
        (self.book)(&self.library.robot())
    }
}

impl Changer for Shared {
    fn name(&self) -> &str {
        self.library.name()
    }

    fn robot(&self) -> String {
        self.library.robot()
    }

    fn elements(&self) -> Elements {
        self.library.elements()
    }

    fn inventory(&mut self) -> Result<Vec<Held>, TapeError> {
        self.library.inventory()
    }

    fn rescan(&mut self) -> Result<(), TapeError> {
        let _booked = self.booked()?;
        self.library.rescan()
    }

    fn unload_drive(&mut self, number: u32) -> Result<(), TapeError> {
        self.library.unload_drive(number)
    }

    fn move_tape(&mut self, from: Place, to: Place) -> Result<(), TapeError> {
        let _booked = self.booked()?;
        self.library.move_tape(from, to)
    }

    fn open_drive(&mut self, number: u32) -> Result<Box<dyn TapeDrive>, TapeError> {
        self.library.open_drive(number)
    }

    fn drive_info(&mut self, number: u32) -> Result<DriveInfo, TapeError> {
        self.library.drive_info(number)
    }

    fn clean(&mut self, drive: u32, tape_at: Place) -> Result<Option<u32>, TapeError> {
        let _booked = self.booked()?;
        self.library.clean(drive, tape_at)
    }
}
