//! What a host does with all of its tapes: gives their drives back, tells what these did.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use capstan_address::{Address, LibraryName, TapeAddress};
use capstan_format::id::MediumId;
use capstan_medium::tape::{DriveSession, Held, TapeError};

use super::DeviceHost;
use crate::drives::loaded::LoadedDrive;
use crate::drives::{Tape, Trial};
use crate::state::ledger::DriveFault;

impl DeviceHost {
    /// What lies in a library, by place, as it was at most two seconds ago.
    pub fn inventory(&self, name: &LibraryName) -> Result<Vec<Held>, TapeError> {
        self.tapes().inventory(name)
    }

    /// The same, as it is now.
    pub fn inventory_now(&self, name: &LibraryName) -> Result<Vec<Held>, TapeError> {
        self.tapes().look_again(name);
        self.inventory(name)
    }

    /// Gives back the drives of all tapes that are not being written; the tapes stay in them.
    pub fn release_idle(&self) {
        let all = self.tapes().all();
        for tape in all.iter().filter(|tape| !tape.pinned.load(Relaxed)) {
            if let Some(mut loaded) = tape.loaded.try_lock() {
                *loaded = None;
            }
        }
    }

    /// Gives back the drives of a medium's tapes that this session has read as far as it needs them; the tapes stay in them. What is
    /// just read, or written, stays this host's.
    pub fn done_reading(&self, medium: &Address) {
        self.tapes().of(medium).iter().for_each(|tape| tape.give_back(true));
    }

    /// The same of a medium that this session has written as far as it does.
    pub fn done_writing(&self, medium: &Address) {
        self.tapes().of(medium).iter().for_each(|tape| tape.give_back(false));
    }

    /// Whether it writes with every drive of a library: there is none to wait for.
    pub fn has_all_drives(&self, library: &LibraryName) -> bool {
        self.tapes().has_all_drives(library)
    }

    /// What the drives did that tapes are read in, or did since that was asked.
    pub fn take_sessions(&self) -> Vec<DriveSession> {
        let mut sessions = self.tapes().take_past();
        let all = self.tapes().all();
        for tape in all.iter().filter(|tape| !tape.pinned.load(Relaxed)) {
            sessions.extend(tape.loaded.lock().as_mut().map(LoadedDrive::session));
        }
        sessions
    }

    /// What those drives did that could not read a tape, which another one reads, since that was asked.
    pub fn take_suspects(&self) -> Vec<DriveSession> {
        self.tapes().take_suspects()
    }

    /// What drives did not do, since that was asked last.
    pub fn take_drive_faults(&self) -> Vec<DriveFault> {
        self.tapes().doubts.take_faults()
    }

    /// What the drive did not do in which a tape was last, as it was written.
    pub fn drive_fault_of(&self, tape: &TapeAddress) -> Option<DriveFault> {
        self.tapes().doubts.fault_of(&tape.resolved())
    }

    /// Whether a drive could do all that it was to do for this host.
    pub fn is_drive_sound(&self, library: &LibraryName, drive: u32) -> bool {
        self.tapes().doubts.is_sound(&library.resolved(), drive)
    }

    /// Takes the tape out of a drive that stands alone; the host gives the drive up, if it does not write there.
    pub fn eject(&self, address: &TapeAddress) -> Result<(), TapeError> {
        let library = address.resolved().library;
        let all = self.tapes().all();
        let idle = |tape: &&Arc<Tape>| tape.library == library && !tape.pinned.load(Relaxed);
        all.iter().filter(idle).for_each(|tape| *tape.loaded.lock() = None);
        self.library(&library)?.unload_drive(address.drive.unwrap_or(1))
    }

    /// Tells of the tapes of a medium that it has in drives how much of them is written, as their drives say it.
    pub fn note_use(&self, medium: MediumId, device: &Address) {
        let tapes = device.tapes();
        for tape in
            tapes.iter().map(|of| Tape::of(self.tapes(), of)).filter(|tape| tape.is_loaded())
        {
            if let Ok(room) = tape.with(|loaded| Ok(loaded.capacity().zip(loaded.room()))) {
                tape.note_used(medium, room);
            }
        }
    }

    /// Tries a medium.
    pub fn trial(&self, medium: &Address) -> Trial {
        Trial::of(self.tapes(), medium)
    }

    /// Leaves the tapes of a medium in their mail slots, if they are exported by record: somebody takes them out. It holds until they are
    /// waited for to be read ([`Self::wait_for`]).
    pub fn leave_exported(&self, address: &Address) {
        address.tapes().iter().for_each(|tape| Tape::of(self.tapes(), tape).leave_exported());
    }

    /// Has the tapes of a medium waited for from here on, as long as they are only read: where others have them, or all drives
    /// ([`crate::state::queue`]).
    pub fn wait_for(&self, address: &Address) {
        address.tapes().iter().for_each(|tape| Tape::of(self.tapes(), tape).be_patient());
    }
}
