//! Robots that several hosts share. Locks are a host's own; beside them, whoever moves a tape books the robot where all hosts see it.
//!
//! Where that is, the program says once (`LocalDevices::share_with`); without it, there are the locks of the host and what the device has. It is
//! told, too, when a library says that somebody may have changed tapes in it, whoever asked the library for what.

use std::sync::Arc;

use capstan_address::LibraryName;
use capstan_medium::host::queue::Queue;
use capstan_medium::host::shared::Common;
use capstan_medium::tape::{DriveInfo, Elements, Held, Place, TapeError, TapeLibrary};
use capstan_tape::{Changer, TapeDrive};

use super::HostState;

/// A library whose robot is booked for each move.
struct Shared {
    name: LibraryName,
    library: Box<dyn Changer>,
    common: Arc<dyn Common>,
    queue: Arc<Queue>,
}

/// The library; with a robot that is booked, where there is one and somebody to book it with.
pub(crate) fn shared(
    state: &HostState,
    name: &LibraryName,
    library: Box<dyn Changer>,
) -> Box<dyn Changer> {
    match state.common.get() {
        Some(common) if library.elements().slots > 0 => {
            let (common, queue) = (common.clone(), state.queue.clone());
            let mut shared = Shared { name: name.resolved(), library, common, queue };
            shared.pass_on();
            Box::new(shared)
        }
        _ => library,
    }
}

impl Shared {
    fn booked(&self) -> Result<Box<dyn Send>, TapeError> {
        self.common.book(&self.queue, &self.library.robot())
    }

    /// Tells what the library said of its tapes.
    fn pass_on(&mut self) {
        if self.library.take_disturbed() {
            self.common.disturbed(&self.name);
        }
    }
}

impl TapeLibrary for Shared {
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
        let held = self.library.inventory();
        self.pass_on();
        held
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
        let moved = self.library.move_tape(from, to);
        self.pass_on();
        moved
    }

    fn drive_info(&mut self, number: u32) -> Result<DriveInfo, TapeError> {
        self.library.drive_info(number)
    }

    fn cleanings_left(&mut self, barcode: &str) -> Option<u32> {
        self.library.cleanings_left(barcode)
    }

    fn clean(&mut self, drive: u32, tape_at: Place) -> Result<Option<u32>, TapeError> {
        let _booked = self.booked()?;
        self.library.clean(drive, tape_at)
    }
}

impl Changer for Shared {
    fn claim_drive(&mut self, number: u32) -> Result<Box<dyn Send>, TapeError> {
        let here = self.library.claim_drive(number)?;
        let claimed = self.common.claim(&format!("{} drive {number}", self.library.robot()))?;
        Ok(Box::new((claimed, here)))
    }

    fn open_drive(&mut self, number: u32) -> Result<Box<dyn TapeDrive>, TapeError> {
        self.library.open_drive(number)
    }
}
