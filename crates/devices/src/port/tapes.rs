//! Libraries and drives of a host, and what is done with its tapes: opened, their drives given back, what these did.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use capstan_address::iscsi::Target;
use capstan_address::{Address, AddressError, LibraryName, TapeAddress};
use capstan_format::id::MediumId;
use capstan_medium::DeviceError;
use capstan_medium::host::Tapes;
use capstan_medium::host::ledger::{DriveFault, Exported, Keep, Recorded};
use capstan_medium::host::shared::Common;
use capstan_medium::host::tapes::Trial;
use capstan_medium::tape::{
    DriveSession, FoundDevice, Held, Media, OnTape, Struck, TapeError, TapeLibrary,
};
use capstan_scsi::find;

use crate::drives::fitting::{generations_of, names};
use crate::drives::loaded::LoadedDrive;
use crate::drives::{self, Tape};
use crate::host::LocalDevices;
use crate::scsi::explain;
use crate::tape;

impl Tapes for LocalDevices {
    fn library(&self, name: &LibraryName) -> Result<Box<dyn TapeLibrary>, TapeError> {
        Ok(self.changer(name)?)
    }

    fn devices_here(&self) -> Vec<FoundDevice> {
        self.seen(find::local())
    }

    fn devices_at(&self, host: &str) -> Result<(Vec<FoundDevice>, Vec<String>), DeviceError> {
        let host = Target::parse_host(host)?;
        if host.secret().is_some() {
            return Err(AddressError::SecretInName(host.portal()).into());
        }
        let host = self.state().scsi.with_secret(host);
        let at_host = find::at_host(&host).map_err(|e| explain(e, &host.portal()))?;
        let failed = at_host.failed.into_iter().map(|(name, e)| format!("{name}: {e}")).collect();
        Ok((self.seen(at_host.found), failed))
    }

    fn is_by_hand(&self, tape: &TapeAddress) -> Result<bool, DeviceError> {
        Ok(tape.tape.is_none() && self.changer(&tape.library)?.elements().slots == 0)
    }

    fn refuse_no_drive(&self, address: &Address) -> Result<(), DeviceError> {
        for tape in address.tapes() {
            if let Some(drive) = tape.drive
                && let Ok(library) = self.changer(&tape.library)
            {
                library.elements().refuse_no_drive(library.name(), drive)?;
            }
        }
        Ok(())
    }

    fn why_not_written(
        &self,
        library: &LibraryName,
        barcode: &str,
    ) -> Result<Option<String>, TapeError> {
        let Some(media) = Media::of_barcode(barcode) else { return Ok(None) };
        let mut known = self.state().generations.lock();
        let drives = match known.get(library) {
            Some(drives) => drives,
            None => {
                let drives = generations_of(&mut *self.changer(library)?);
                known.entry(library.clone()).or_insert(drives)
            }
        };
        let writes = |drive: &Option<u8>| drive.is_none_or(|drive| media.is_written_by(drive));
        Ok((!drives.iter().any(writes)).then(|| {
            format!("is {media}, which no drive of the library writes ({})", names(drives))
        }))
    }

    fn inventory(&self, name: &LibraryName) -> Result<Vec<Held>, TapeError> {
        self.tapes().inventory(name)
    }

    fn inventory_now(&self, name: &LibraryName) -> Result<Vec<Held>, TapeError> {
        self.tapes().look_again(name);
        self.inventory(name)
    }

    fn seen_on(&self, address: &TapeAddress) -> Option<OnTape> {
        tape::seen_on(self, address)
    }

    fn refuse_used(&self, tape: &TapeAddress) -> Result<(), DeviceError> {
        tape::refuse_used(self, self.named(tape)?)
    }

    fn refuse_worm(&self, address: &TapeAddress) -> Result<(), DeviceError> {
        tape::refuse_worm(self, address)
    }

    fn erase_tape(&self, address: &TapeAddress, secure: bool) -> Result<(), DeviceError> {
        tape::erase(self, address, secure)
    }

    fn eject(&self, address: &TapeAddress) -> Result<(), TapeError> {
        let library = address.resolved().library;
        let all = self.tapes().all();
        let idle = |tape: &&Arc<Tape>| tape.library == library && !tape.pinned.load(Relaxed);
        all.iter().filter(idle).for_each(|tape| *tape.loaded.lock() = None);
        self.changer(&library)?.unload_drive(address.drive.unwrap_or(1))
    }

    fn trial(&self, medium: &Address) -> Box<dyn Trial> {
        Box::new(drives::Trial::of(self.tapes(), medium))
    }

    fn wait_for(&self, address: &Address) {
        address.tapes().iter().for_each(|tape| Tape::of(self.tapes(), tape).be_patient());
    }

    fn leave_exported(&self, address: &Address) {
        address.tapes().iter().for_each(|tape| Tape::of(self.tapes(), tape).leave_exported());
    }

    fn release_idle(&self) {
        let all = self.tapes().all();
        for tape in all.iter().filter(|tape| !tape.pinned.load(Relaxed)) {
            if let Some(mut loaded) = tape.loaded.try_lock() {
                *loaded = None;
            }
        }
    }

    fn done_reading(&self, medium: &Address) {
        self.tapes().of(medium).iter().for_each(|tape| tape.give_back(true));
    }

    fn done_writing(&self, medium: &Address) {
        self.tapes().of(medium).iter().for_each(|tape| tape.give_back(false));
    }

    fn has_all_drives(&self, library: &LibraryName) -> bool {
        self.tapes().has_all_drives(library)
    }

    fn note_use(&self, medium: MediumId, device: &Address) {
        let tapes = device.tapes();
        for tape in
            tapes.iter().map(|of| Tape::of(self.tapes(), of)).filter(|tape| tape.is_loaded())
        {
            if let Ok(room) = tape.with(|loaded| Ok(loaded.capacity().zip(loaded.room()))) {
                tape.note_used(medium, room);
            }
        }
    }

    fn take_sessions(&self) -> Vec<DriveSession> {
        let mut sessions = self.tapes().take_past();
        let all = self.tapes().all();
        for tape in all.iter().filter(|tape| !tape.pinned.load(Relaxed)) {
            sessions.extend(tape.loaded.lock().as_mut().map(LoadedDrive::session));
        }
        sessions
    }

    fn take_suspects(&self) -> Vec<DriveSession> {
        self.tapes().take_suspects()
    }

    fn take_drive_faults(&self) -> Vec<DriveFault> {
        self.tapes().doubts.take_faults()
    }

    fn drive_fault_of(&self, tape: &TapeAddress) -> Option<DriveFault> {
        self.tapes().doubts.fault_of(&tape.resolved())
    }

    fn is_drive_sound(&self, library: &LibraryName, drive: u32) -> bool {
        self.tapes().doubts.is_sound(&library.resolved(), drive)
    }

    fn take_struck(&self) -> Vec<Struck> {
        self.state().struck.take()
    }

    fn share_with(&self, common: Arc<dyn Common>) {
        let _ = self.state().common.set(common);
    }

    fn keep_with(&self, keep: Box<Keep>) {
        self.state().ledger.keep_with(keep);
    }

    fn doubt_drives_by(&self, recorded: Box<Recorded>) {
        self.state().ledger.doubt_drives_by(recorded);
    }

    fn know_exported_by(&self, recorded: Box<Exported>) {
        self.state().ledger.know_exported_by(recorded);
    }
}
