//! Answers what is asked of libraries, drives and tapes.

use super::{Asks, gone};
use crate::connection::Broken;
use crate::devices::message::{LibraryFound, OfLibrary, OfTapes as Of};

impl Asks<'_> {
    pub(super) fn tapes(&self, of: Of) -> Result<(), Broken> {
        let (devices, things) = (&*self.side.devices, &self.side.things);
        match of {
            Of::Library(name) => self.came(devices.library(&name.0).map(|library| {
                let (name, robot) = (library.name().to_owned(), library.robot());
                let elements = library.elements();
                LibraryFound { number: things.libraries.put_alone(library), name, robot, elements }
            })),
            Of::DevicesHere => self.is(&devices.devices_here()),
            Of::DevicesAt(host) => self.came(devices.devices_at(&host)),
            Of::IsByHand(tape) => self.came(devices.is_by_hand(&tape.0)),
            Of::RefuseNoDrive(address) => self.came(devices.refuse_no_drive(&address.0)),
            Of::WhyNotWritten(library, barcode) => {
                self.came(devices.why_not_written(&library.0, &barcode))
            }
            Of::Inventory(name) => self.came(devices.inventory(&name.0)),
            Of::InventoryNow(name) => self.came(devices.inventory_now(&name.0)),
            Of::SeenOn(tape) => self.is(&devices.seen_on(&tape.0)),
            Of::RefuseUsed(tape) => self.came(devices.refuse_used(&tape.0)),
            Of::RefuseWorm(tape) => self.came(devices.refuse_worm(&tape.0)),
            Of::EraseTape(tape, secure) => self.came(devices.erase_tape(&tape.0, secure)),
            Of::Eject(tape) => self.came(devices.eject(&tape.0)),
            Of::Trial(medium) => self.is(&things.trials.put(devices.trial(&medium.0))),
            Of::HasAllDrives(library) => self.is(&devices.has_all_drives(&library.0)),
            Of::TakeSessions => self.is(&devices.take_sessions()),
            Of::TakeSuspects => self.is(&devices.take_suspects()),
            Of::TakeDriveFaults => self.is(&devices.take_drive_faults()),
            Of::DriveFaultOf(tape) => self.is(&devices.drive_fault_of(&tape.0)),
            Of::IsDriveSound(library, drive) => self.is(&devices.is_drive_sound(&library.0, drive)),
            Of::TakeStruck => self.is(&devices.take_struck()),
            told => {
                self.told(told);
                self.is(&())
            }
        }
    }

    /// What needs no answer.
    fn told(&self, of: Of) {
        let devices = &*self.side.devices;
        match of {
            Of::WaitFor(address) => devices.wait_for(&address.0),
            Of::LeaveExported(address) => devices.leave_exported(&address.0),
            Of::ReleaseIdle => devices.release_idle(),
            Of::DoneReading(medium) => devices.done_reading(&medium.0),
            Of::DoneWriting(medium) => devices.done_writing(&medium.0),
            Of::NoteUse(medium, device) => devices.note_use(medium, &device.0),
            // All others were answered.
            _ => {}
        }
    }

    pub(super) fn library(&self, number: u64, of: OfLibrary) -> Result<(), Broken> {
        let library = self.side.things.libraries.get(number);
        let mut library = library.as_ref().map(|library| library.lock());
        let Some(library) = library.as_mut().and_then(|library| library.as_mut()) else {
            return self.came(Err::<(), _>(gone::<capstan_medium::tape::TapeError>()));
        };
        match of {
            OfLibrary::Inventory => self.came(library.inventory()),
            OfLibrary::Rescan => self.came(library.rescan()),
            OfLibrary::UnloadDrive(number) => self.came(library.unload_drive(number)),
            OfLibrary::MoveTape(from, to) => self.came(library.move_tape(from, to)),
            OfLibrary::DriveInfo(number) => self.came(library.drive_info(number)),
            OfLibrary::CleaningsLeft(barcode) => self.is(&library.cleanings_left(&barcode)),
            OfLibrary::Clean(drive, tape_at) => self.came(library.clean(drive, tape_at)),
        }
    }
}
