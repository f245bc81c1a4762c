//! Media in memory: each directory is a storage whose power fails, or which is full, when a seed wants it. Tapes, arrays and all else are
//! those of the device host of this process.

use std::cell::Cell;
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use capstan_address::{Address, ArrayAddress, LibraryName, SpoolPlan, StoreAddress, TapeAddress};
use capstan_devices::directory::FileDevice;
use capstan_devices::directory::faulty::FaultyStorage;
use capstan_devices::host::LocalDevices;
use capstan_format::id::MediumId;
use capstan_format::keys::Key32;
use capstan_format::record::MediumHeader;
use capstan_medium::error::io_error;
use capstan_medium::host::arrays::{HalfMade, NewId};
use capstan_medium::host::ledger::{DriveFault, Exported, Keep, Recorded};
use capstan_medium::host::media::NewHeader;
use capstan_medium::host::operator::OperatorRequests;
use capstan_medium::host::queue::Queue;
use capstan_medium::host::shared::Common;
use capstan_medium::host::stores::{IdbBackup, InStore, LostHeader, Space};
use capstan_medium::host::tapes::Trial;
use capstan_medium::host::waits::Waits;
use capstan_medium::host::{
    Arrays, DeviceHost, KnownMembers, Media, OpenArray, Stores, Tapes, Unjudged, Wanted,
};
use capstan_medium::names::HEADER_NAME;
use capstan_medium::storage::Storage;
use capstan_medium::tape::{
    DriveSession, FoundDevice, Held, OnTape, Struck, TapeError, TapeLibrary,
};
use capstan_medium::{Device, DeviceError, HeldMedium, OpenMedium};
use parking_lot::Mutex;

/// A device host whose directories are in memory.
#[derive(Default)]
pub struct InMemory {
    host: LocalDevices,
    /// By their paths; of a disk that was taken out there is none.
    disks: Mutex<HashMap<PathBuf, FaultyStorage>>,
}

impl InMemory {
    /// The disk at a path, if it is there.
    pub fn disk(&self, path: &Path) -> Option<FaultyStorage> {
        self.disks.lock().get(path).cloned()
    }

    /// Puts a disk there.
    pub fn put(&self, path: &Path, disk: FaultyStorage) {
        self.disks.lock().insert(path.to_owned(), disk);
    }

    /// Takes the disk out.
    pub fn take(&self, path: &Path) -> Option<FaultyStorage> {
        self.disks.lock().remove(path)
    }

    fn there(&self, path: &Path) -> Result<FaultyStorage, DeviceError> {
        let away = || io_error("open", &path.display().to_string())(ErrorKind::NotFound.into());
        self.disk(path).ok_or_else(away)
    }

    fn open(&self, path: &Path) -> Result<OpenMedium, DeviceError> {
        OpenMedium::on(Arc::new(self.there(path)?), &path.display().to_string())
    }
}

impl Media for InMemory {
    fn medium(&self, address: &Address) -> Result<OpenMedium, DeviceError> {
        match address {
            Address::Store(store) => self.open(store.place()),
            other => self.host.medium(other),
        }
    }

    fn known(&self, address: &Address, wanted: Wanted) -> Result<OpenMedium, DeviceError> {
        match address {
            Address::Store(store) => self.open(store.place()),
            other => self.host.known(other, wanted),
        }
    }

    fn medium_in(&self, drive: &TapeAddress) -> Option<MediumId> {
        self.host.medium_in(drive)
    }

    fn held(&self, address: &Address) -> Result<HeldMedium, DeviceError> {
        match address {
            Address::Store(store) => Ok(HeldMedium::new(self.open(store.place())?, Vec::new())),
            other => self.host.held(other),
        }
    }

    fn is_blank(&self, address: &Address) -> Result<bool, DeviceError> {
        match address {
            Address::Store(store) => Ok(self.look_in(store)? == InStore::Nothing),
            other => self.host.is_blank(other),
        }
    }

    fn header_on(&self, tape: &TapeAddress) -> Result<MediumHeader, DeviceError> {
        self.host.header_on(tape)
    }

    fn member(&self, tape: &TapeAddress) -> Result<OpenMedium, DeviceError> {
        self.host.member(tape)
    }

    fn writable(
        &self,
        address: &Address,
        new: NewHeader<'_>,
        block_size: Option<u32>,
        known: &dyn KnownMembers,
    ) -> Result<Unjudged, DeviceError> {
        let Address::Store(store) = address else {
            return self.host.writable(address, new, block_size, known);
        };
        let disk = self.there(store.place())?;
        let is_new = Cell::new(false);
        let new = || {
            is_new.set(true);
            new()
        };
        let device = FileDevice::on_storage(Arc::new(disk), &store.shown(), new)?;
        Ok(Unjudged::new(Box::new(device), is_new.get()))
    }

    fn null(&self, address: &Address, block_size: u32) -> Result<Box<dyn Device>, DeviceError> {
        self.host.null(address, block_size)
    }

    fn open_key(&self, medium: MediumId, contents: Key32) {
        self.host.open_key(medium, contents);
    }

    fn has_key(&self, medium: MediumId) -> bool {
        self.host.has_key(medium)
    }

    fn read_through(&self, plan: Option<SpoolPlan>) -> Result<(), DeviceError> {
        self.host.read_through(plan)
    }
}

impl Stores for InMemory {
    fn whole(&self, store: &StoreAddress) -> StoreAddress {
        store.clone()
    }

    fn resolve(&self, store: &StoreAddress) -> io::Result<StoreAddress> {
        Ok(store.clone())
    }

    fn is_there(&self, store: &StoreAddress) -> bool {
        self.disk(store.place()).is_some()
    }

    fn is_same(&self, one: &StoreAddress, other: &StoreAddress) -> bool {
        one == other && self.is_there(one)
    }

    fn empty_mount_point(&self, _: &StoreAddress) -> Option<PathBuf> {
        None
    }

    fn look_in(&self, store: &StoreAddress) -> Result<InStore, DeviceError> {
        let names = self.disk(store.place()).map(|disk| disk.list()).transpose();
        let names = names.map_err(io_error("list", &store.shown()))?;
        Ok(match names.unwrap_or_default().as_slice() {
            [] => InStore::Nothing,
            [name] if name == HEADER_NAME => InStore::HeaderOnly,
            _ => InStore::More,
        })
    }

    fn foresee(&self, store: &StoreAddress) -> Result<Option<u32>, DeviceError> {
        match self.open(store.place()) {
            Ok(there) => Ok(Some(there.header().block_size)),
            Err(DeviceError::NoMedium(_)) => Ok(None),
            Err(e) => Err(e),
        }
    }

    fn header_in(&self, store: &StoreAddress) -> Result<MediumHeader, DeviceError> {
        Ok(self.open(store.place())?.header().clone())
    }

    fn lost_header(&self, _: &StoreAddress) -> Result<Option<LostHeader>, DeviceError> {
        Ok(None)
    }

    fn medium_of(&self, store: &StoreAddress, _: MediumHeader) -> Result<OpenMedium, DeviceError> {
        self.open(store.place())
    }

    fn rewrite_header(
        &self,
        store: &StoreAddress,
        header: &MediumHeader,
    ) -> Result<(), DeviceError> {
        let disk = Arc::new(self.there(store.place())?);
        let nobody = || Err(ErrorKind::NotFound.into());
        FileDevice::on_storage(disk, &store.shown(), nobody)?.replace_header(header)
    }

    fn has_header(&self, store: &StoreAddress) -> bool {
        self.open(store.place()).is_ok()
    }

    fn space(&self, _: &StoreAddress) -> Option<Space> {
        Some(Space { file_system: 1, free: 1 << 40, used: 0 })
    }

    fn write_idb_backup(&self, _: &StoreAddress, _: i64, _: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }

    fn idb_backups(&self, _: &StoreAddress) -> Result<Vec<IdbBackup>, DeviceError> {
        Ok(Vec::new())
    }

    fn read_idb_backup(&self, _: &StoreAddress, _: &str, _: u64) -> io::Result<Vec<u8>> {
        Err(ErrorKind::NotFound.into())
    }
}

impl Tapes for InMemory {
    fn library(&self, name: &LibraryName) -> Result<Box<dyn TapeLibrary>, TapeError> {
        self.host.library(name)
    }

    fn devices_here(&self) -> Vec<FoundDevice> {
        self.host.devices_here()
    }

    fn devices_at(&self, host: &str) -> Result<(Vec<FoundDevice>, Vec<String>), DeviceError> {
        self.host.devices_at(host)
    }

    fn is_by_hand(&self, tape: &TapeAddress) -> Result<bool, DeviceError> {
        self.host.is_by_hand(tape)
    }

    fn refuse_no_drive(&self, address: &Address) -> Result<(), DeviceError> {
        self.host.refuse_no_drive(address)
    }

    fn why_not_written(
        &self,
        library: &LibraryName,
        barcode: &str,
    ) -> Result<Option<String>, TapeError> {
        self.host.why_not_written(library, barcode)
    }

    fn inventory(&self, name: &LibraryName) -> Result<Vec<Held>, TapeError> {
        self.host.inventory(name)
    }

    fn inventory_now(&self, name: &LibraryName) -> Result<Vec<Held>, TapeError> {
        self.host.inventory_now(name)
    }

    fn seen_on(&self, address: &TapeAddress) -> Option<OnTape> {
        self.host.seen_on(address)
    }

    fn refuse_used(&self, tape: &TapeAddress) -> Result<(), DeviceError> {
        self.host.refuse_used(tape)
    }

    fn refuse_worm(&self, address: &TapeAddress) -> Result<(), DeviceError> {
        self.host.refuse_worm(address)
    }

    fn erase_tape(&self, address: &TapeAddress, secure: bool) -> Result<(), DeviceError> {
        self.host.erase_tape(address, secure)
    }

    fn eject(&self, address: &TapeAddress) -> Result<(), TapeError> {
        self.host.eject(address)
    }

    fn trial(&self, medium: &Address) -> Box<dyn Trial> {
        self.host.trial(medium)
    }

    fn wait_for(&self, address: &Address) {
        self.host.wait_for(address);
    }

    fn leave_exported(&self, address: &Address) {
        self.host.leave_exported(address);
    }

    fn release_idle(&self) {
        self.host.release_idle();
    }

    fn done_reading(&self, medium: &Address) {
        self.host.done_reading(medium);
    }

    fn done_writing(&self, medium: &Address) {
        self.host.done_writing(medium);
    }

    fn has_all_drives(&self, library: &LibraryName) -> bool {
        self.host.has_all_drives(library)
    }

    fn note_use(&self, medium: MediumId, device: &Address) {
        self.host.note_use(medium, device);
    }

    fn take_sessions(&self) -> Vec<DriveSession> {
        self.host.take_sessions()
    }

    fn take_suspects(&self) -> Vec<DriveSession> {
        self.host.take_suspects()
    }

    fn take_drive_faults(&self) -> Vec<DriveFault> {
        self.host.take_drive_faults()
    }

    fn drive_fault_of(&self, tape: &TapeAddress) -> Option<DriveFault> {
        self.host.drive_fault_of(tape)
    }

    fn is_drive_sound(&self, library: &LibraryName, drive: u32) -> bool {
        self.host.is_drive_sound(library, drive)
    }

    fn take_struck(&self) -> Vec<Struck> {
        self.host.take_struck()
    }

    fn share_with(&self, common: Arc<dyn Common>) {
        self.host.share_with(common);
    }

    fn keep_with(&self, keep: Box<Keep>) {
        self.host.keep_with(keep);
    }

    fn doubt_drives_by(&self, recorded: Box<Recorded>) {
        self.host.doubt_drives_by(recorded);
    }

    fn know_exported_by(&self, recorded: Box<Exported>) {
        self.host.know_exported_by(recorded);
    }
}

impl Arrays for InMemory {
    fn array(
        &self,
        address: &ArrayAddress,
        known: &dyn KnownMembers,
    ) -> Result<Box<dyn OpenArray>, DeviceError> {
        self.host.array(address, known)
    }

    fn look_at_member(&self, member: &Address) -> Result<MediumId, DeviceError> {
        self.host.look_at_member(member)
    }

    fn refuse_too_few_drives(&self, array: &ArrayAddress) -> Result<(), DeviceError> {
        self.host.refuse_too_few_drives(array)
    }

    fn make_array(
        &self,
        address: &ArrayAddress,
        header: &MediumHeader,
        may_go: &[MediumId],
        new_id: NewId<'_>,
    ) -> Result<(), DeviceError> {
        self.host.make_array(address, header, may_go, new_id)
    }

    fn half_made(&self, address: &ArrayAddress) -> Option<Box<dyn HalfMade + '_>> {
        self.host.half_made(address)
    }

    fn member_without_data(&self, tape: &TapeAddress) -> Option<MediumHeader> {
        self.host.member_without_data(tape)
    }

    fn set_incomplete(&self, tapes: &[TapeAddress], incomplete: &[TapeAddress]) {
        self.host.set_incomplete(tapes, incomplete);
    }

    fn is_incomplete(&self, tape: &TapeAddress) -> bool {
        self.host.is_incomplete(tape)
    }
}

impl DeviceHost for InMemory {
    fn settle(&self, say: &dyn Fn(&str)) {
        self.host.settle(say);
    }

    fn operator(&self) -> &Arc<OperatorRequests> {
        self.host.operator()
    }

    fn queue(&self) -> &Arc<Queue> {
        self.host.queue()
    }

    fn waits(&self) -> &Waits {
        self.host.waits()
    }
}
