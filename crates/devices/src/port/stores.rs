//! What a device host does with stores.

use std::path::PathBuf;

use capstan_address::StoreAddress;
use capstan_format::record::MediumHeader;
use capstan_medium::host::Stores;
use capstan_medium::host::stores::{IdbBackup, InStore, LostHeader, Space};
use capstan_medium::names::HEADER_NAME;
use capstan_medium::{DeviceError, OpenMedium};

use crate::host::LocalDevices;
use crate::store;

impl Stores for LocalDevices {
    fn whole(&self, store: &StoreAddress) -> StoreAddress {
        let site = self.site(store);
        site.map_or_else(|_| store.clone(), |site| store.at(site.kind().whole(site.place())))
    }

    fn resolve(&self, store: &StoreAddress) -> std::io::Result<StoreAddress> {
        let site = self.site(store).map_err(std::io::Error::other)?;
        Ok(store.at(site.kind().resolve(site.place())?))
    }

    fn is_there(&self, store: &StoreAddress) -> bool {
        self.site(store).is_ok_and(|site| site.kind().is_there(site.place()))
    }

    fn is_same(&self, one: &StoreAddress, other: &StoreAddress) -> bool {
        one.kind() == other.kind()
            && self.site(one).is_ok_and(|site| site.kind().is_same(site.place(), other.place()))
    }

    fn empty_mount_point(&self, store: &StoreAddress) -> Option<PathBuf> {
        let site = self.site(store).ok()?;
        site.kind().empty_mount_point(site.place())
    }

    fn look_in(&self, store: &StoreAddress) -> Result<InStore, DeviceError> {
        self.site(store)?.look_in()
    }

    fn foresee(&self, store: &StoreAddress) -> Result<Option<u32>, DeviceError> {
        self.site(store)?.foresee()
    }

    fn header_in(&self, store: &StoreAddress) -> Result<MediumHeader, DeviceError> {
        Ok(self.site(store)?.member()?.header().clone())
    }

    fn lost_header(&self, store: &StoreAddress) -> Result<Option<LostHeader>, DeviceError> {
        store::lost_header(&self.site(store)?)
    }

    fn medium_of(
        &self,
        store: &StoreAddress,
        header: MediumHeader,
    ) -> Result<OpenMedium, DeviceError> {
        store::medium_of(&self.site(store)?, header)
    }

    fn rewrite_header(
        &self,
        store: &StoreAddress,
        header: &MediumHeader,
    ) -> Result<(), DeviceError> {
        store::rewrite_header(&self.site(store)?, header)
    }

    fn has_header(&self, store: &StoreAddress) -> bool {
        self.site(store).is_ok_and(|site| site.has(HEADER_NAME))
    }

    fn space(&self, store: &StoreAddress) -> Option<Space> {
        let site = self.site(store).ok()?;
        site.kind().space(site.place())
    }

    fn write_idb_backup(
        &self,
        store: &StoreAddress,
        time_us: i64,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        store::write_idb_backup(&self.site(store)?, time_us, bytes)
    }

    fn idb_backups(&self, store: &StoreAddress) -> Result<Vec<IdbBackup>, DeviceError> {
        let of = |name: String| IdbBackup { created_us: store::idb_backup_time(&name), name };
        Ok(store::idb_backups(&self.site(store)?)?.into_iter().map(of).collect())
    }

    fn read_idb_backup(
        &self,
        store: &StoreAddress,
        name: &str,
        most: u64,
    ) -> std::io::Result<Vec<u8>> {
        let site = self.site(store).map_err(std::io::Error::other)?;
        store::read_idb_backup(&site, name, most)
    }
}
