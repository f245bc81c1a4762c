//! Stores of a device host, asked from a cell.

use std::io;
use std::path::PathBuf;

use capstan_address::StoreAddress;
use capstan_format::record::MediumHeader;
use capstan_medium::host::Stores;
use capstan_medium::host::stores::{IdbBackup, InStore, LostHeader, Space};
use capstan_medium::{DeviceError, OpenMedium};

use crate::devices::RemoteDevices;
use crate::devices::message::{Dir, OfStores as Of, Question, Store};

fn of(question: Of) -> Question {
    Question::Stores(question)
}

impl Stores for RemoteDevices {
    fn whole(&self, store: &StoreAddress) -> StoreAddress {
        let whole = self.ask::<Store>(&of(Of::Whole(store.into())));
        whole.map_or_else(|_| store.clone(), |whole| whole.0)
    }

    fn resolve(&self, store: &StoreAddress) -> io::Result<StoreAddress> {
        self.call(&of(Of::Resolve(store.into()))).map(|found: Store| found.0)
    }

    fn is_there(&self, store: &StoreAddress) -> bool {
        self.ask(&of(Of::IsThere(store.into()))).unwrap_or(false)
    }

    fn is_same(&self, one: &StoreAddress, other: &StoreAddress) -> bool {
        self.ask(&of(Of::IsSame(one.into(), other.into()))).unwrap_or(false)
    }

    fn empty_mount_point(&self, store: &StoreAddress) -> Option<PathBuf> {
        let found = self.ask::<Option<Dir>>(&of(Of::EmptyMountPoint(store.into())));
        found.ok().flatten().map(|found| found.0)
    }

    fn look_in(&self, store: &StoreAddress) -> Result<InStore, DeviceError> {
        self.call(&of(Of::LookIn(store.into())))
    }

    fn foresee(&self, store: &StoreAddress) -> Result<Option<u32>, DeviceError> {
        self.call(&of(Of::Foresee(store.into())))
    }

    fn header_in(&self, store: &StoreAddress) -> Result<MediumHeader, DeviceError> {
        self.call(&of(Of::HeaderIn(store.into())))
    }

    fn lost_header(&self, store: &StoreAddress) -> Result<Option<LostHeader>, DeviceError> {
        self.call(&of(Of::LostHeader(store.into())))
    }

    fn medium_of(
        &self,
        store: &StoreAddress,
        header: MediumHeader,
    ) -> Result<OpenMedium, DeviceError> {
        self.opened(&of(Of::MediumOf(store.into(), Box::new(header))))
    }

    fn rewrite_header(
        &self,
        store: &StoreAddress,
        header: &MediumHeader,
    ) -> Result<(), DeviceError> {
        self.call(&of(Of::RewriteHeader(store.into(), Box::new(header.clone()))))
    }

    fn has_header(&self, store: &StoreAddress) -> bool {
        self.ask(&of(Of::HasHeader(store.into()))).unwrap_or(false)
    }

    fn space(&self, store: &StoreAddress) -> Option<Space> {
        self.ask::<Option<Space>>(&of(Of::Space(store.into()))).ok().flatten()
    }

    fn write_idb_backup(
        &self,
        store: &StoreAddress,
        time_us: i64,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        self.far.send(&of(Of::WriteIdbBackup(store.into(), time_us)), bytes)
    }

    fn idb_backups(&self, store: &StoreAddress) -> Result<Vec<IdbBackup>, DeviceError> {
        self.call(&of(Of::IdbBackups(store.into())))
    }

    fn read_idb_backup(&self, store: &StoreAddress, name: &str, most: u64) -> io::Result<Vec<u8>> {
        self.far.fetch(&of(Of::ReadIdbBackup(store.into(), name.to_owned(), most)), most)
    }
}
