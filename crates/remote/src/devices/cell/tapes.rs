//! Libraries, drives and tapes of a device host, asked from a cell.

use std::sync::Arc;

use capstan_address::{Address, LibraryName, TapeAddress};
use capstan_format::id::MediumId;
use capstan_medium::DeviceError;
use capstan_medium::host::Tapes;
use capstan_medium::host::ledger::{DriveFault, Exported, Keep, Recorded};
use capstan_medium::host::shared::Common;
use capstan_medium::host::tapes::Trial;
use capstan_medium::tape::{
    DriveSession, FoundDevice, Held, OnTape, Struck, TapeError, TapeLibrary,
};

use super::library::RemoteLibrary;
use crate::devices::RemoteDevices;
use crate::devices::far::Stand;
use crate::devices::message::{Kind, Knows, LibraryFound, OfTapes as Of, Question};

fn of(question: Of) -> Question {
    Question::Tapes(question)
}

/// What stands for a medium that is tried.
struct RemoteTrial(Stand);

impl Trial for RemoteTrial {
    fn keep(self: Box<Self>) {
        let far = self.0.far.clone();
        far.tell(&Question::KeepTrial(self.0.give()));
    }
}

/// Nothing is tried: the connection broke before.
struct NoTrial;

impl Trial for NoTrial {
    fn keep(self: Box<Self>) {}
}

impl Tapes for RemoteDevices {
    fn library(&self, name: &LibraryName) -> Result<Box<dyn TapeLibrary>, TapeError> {
        let found: LibraryFound = self.call(&of(Of::Library(name.into())))?;
        Ok(Box::new(RemoteLibrary::new(&self.far, found)))
    }

    fn devices_here(&self) -> Vec<FoundDevice> {
        self.ask(&of(Of::DevicesHere)).unwrap_or_default()
    }

    fn devices_at(&self, host: &str) -> Result<(Vec<FoundDevice>, Vec<String>), DeviceError> {
        self.call(&of(Of::DevicesAt(host.to_owned())))
    }

    fn is_by_hand(&self, tape: &TapeAddress) -> Result<bool, DeviceError> {
        self.call(&of(Of::IsByHand(tape.into())))
    }

    fn refuse_no_drive(&self, address: &Address) -> Result<(), DeviceError> {
        self.call(&of(Of::RefuseNoDrive(address.into())))
    }

    fn why_not_written(
        &self,
        library: &LibraryName,
        barcode: &str,
    ) -> Result<Option<String>, TapeError> {
        self.call(&of(Of::WhyNotWritten(library.into(), barcode.to_owned())))
    }

    fn inventory(&self, name: &LibraryName) -> Result<Vec<Held>, TapeError> {
        self.call(&of(Of::Inventory(name.into())))
    }

    fn inventory_now(&self, name: &LibraryName) -> Result<Vec<Held>, TapeError> {
        self.call(&of(Of::InventoryNow(name.into())))
    }

    fn seen_on(&self, address: &TapeAddress) -> Option<OnTape> {
        self.ask::<Option<OnTape>>(&of(Of::SeenOn(address.into()))).ok().flatten()
    }

    fn refuse_used(&self, tape: &TapeAddress) -> Result<(), DeviceError> {
        self.call(&of(Of::RefuseUsed(tape.into())))
    }

    fn refuse_worm(&self, address: &TapeAddress) -> Result<(), DeviceError> {
        self.call(&of(Of::RefuseWorm(address.into())))
    }

    fn erase_tape(&self, address: &TapeAddress, secure: bool) -> Result<(), DeviceError> {
        self.call(&of(Of::EraseTape(address.into(), secure)))
    }

    fn eject(&self, address: &TapeAddress) -> Result<(), TapeError> {
        self.call(&of(Of::Eject(address.into())))
    }

    fn trial(&self, medium: &Address) -> Box<dyn Trial> {
        match self.ask(&of(Of::Trial(medium.into()))) {
            Ok(number) => Box::new(RemoteTrial(Stand::new(&self.far, Kind::Trial, number))),
            Err(_) => Box::new(NoTrial),
        }
    }

    fn wait_for(&self, address: &Address) {
        self.tell(&of(Of::WaitFor(address.into())));
    }

    fn leave_exported(&self, address: &Address) {
        self.tell(&of(Of::LeaveExported(address.into())));
    }

    fn release_idle(&self) {
        self.tell(&of(Of::ReleaseIdle));
    }

    fn done_reading(&self, medium: &Address) {
        self.tell(&of(Of::DoneReading(medium.into())));
    }

    fn done_writing(&self, medium: &Address) {
        self.tell(&of(Of::DoneWriting(medium.into())));
    }

    fn has_all_drives(&self, library: &LibraryName) -> bool {
        self.ask(&of(Of::HasAllDrives(library.into()))).unwrap_or(false)
    }

    fn note_use(&self, medium: MediumId, device: &Address) {
        self.tell(&of(Of::NoteUse(medium, device.into())));
    }

    fn take_sessions(&self) -> Vec<DriveSession> {
        self.ask(&of(Of::TakeSessions)).unwrap_or_default()
    }

    fn take_suspects(&self) -> Vec<DriveSession> {
        self.ask(&of(Of::TakeSuspects)).unwrap_or_default()
    }

    fn take_drive_faults(&self) -> Vec<DriveFault> {
        self.ask(&of(Of::TakeDriveFaults)).unwrap_or_default()
    }

    fn drive_fault_of(&self, tape: &TapeAddress) -> Option<DriveFault> {
        self.ask::<Option<DriveFault>>(&of(Of::DriveFaultOf(tape.into()))).ok().flatten()
    }

    fn is_drive_sound(&self, library: &LibraryName, drive: u32) -> bool {
        self.ask(&of(Of::IsDriveSound(library.into(), drive))).unwrap_or(false)
    }

    fn take_struck(&self) -> Vec<Struck> {
        self.ask(&of(Of::TakeStruck)).unwrap_or_default()
    }

    fn share_with(&self, common: Arc<dyn Common>) {
        if self.cell.common.set(common).is_ok() {
            self.tell(&Question::Knows(Knows::Common));
        }
    }

    fn keep_with(&self, keep: Box<Keep>) {
        if self.cell.keep.set(keep).is_ok() {
            self.tell(&Question::Knows(Knows::Ledger));
        }
    }

    fn doubt_drives_by(&self, recorded: Box<Recorded>) {
        if self.cell.recorded.set(recorded).is_ok() {
            self.tell(&Question::Knows(Knows::Drives));
        }
    }

    fn know_exported_by(&self, recorded: Box<Exported>) {
        if self.cell.exported.set(recorded).is_ok() {
            self.tell(&Question::Knows(Knows::Exported));
        }
    }
}
