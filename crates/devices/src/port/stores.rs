//! What a device host does with stores.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use capstan_address::StoreAddress;
use capstan_engine::regular;
use capstan_format::record::MediumHeader;
use capstan_medium::host::Stores;
use capstan_medium::host::stores::{IdbBackup, InStore, LostHeader, Space};
use capstan_medium::names::HEADER_NAME;
use capstan_medium::{DeviceError, OpenMedium};

use crate::directory::{self, FileDevice, directory_of};
use crate::host::LocalDevices;

impl Stores for LocalDevices {
    fn whole(&self, store: &StoreAddress) -> StoreAddress {
        store.at(capstan_mounts::whole(store.place()))
    }

    fn resolve(&self, store: &StoreAddress) -> std::io::Result<StoreAddress> {
        Ok(store.at(std::fs::canonicalize(store.place())?))
    }

    fn is_there(&self, store: &StoreAddress) -> bool {
        store.directory().is_some_and(Path::exists)
    }

    fn is_same(&self, one: &StoreAddress, other: &StoreAddress) -> bool {
        let of =
            |store: &StoreAddress| store.directory()?.metadata().ok().map(|m| (m.dev(), m.ino()));
        of(one).is_some_and(|found| Some(found) == of(other))
    }

    fn empty_mount_point(&self, store: &StoreAddress) -> Option<PathBuf> {
        self.state().mounts.empty_mount_point(store.directory()?)
    }

    fn look_in(&self, store: &StoreAddress) -> Result<InStore, DeviceError> {
        directory::look_in(directory_of(store)?)
    }

    fn foresee(&self, store: &StoreAddress) -> Result<Option<u32>, DeviceError> {
        FileDevice::foresee(directory_of(store)?)
    }

    fn header_in(&self, store: &StoreAddress) -> Result<MediumHeader, DeviceError> {
        directory::header_in(directory_of(store)?)
    }

    fn lost_header(&self, store: &StoreAddress) -> Result<Option<LostHeader>, DeviceError> {
        directory::lost_header(directory_of(store)?)
    }

    fn medium_of(
        &self,
        store: &StoreAddress,
        header: MediumHeader,
    ) -> Result<OpenMedium, DeviceError> {
        directory::medium_of(directory_of(store)?, header)
    }

    fn rewrite_header(
        &self,
        store: &StoreAddress,
        header: &MediumHeader,
    ) -> Result<(), DeviceError> {
        directory::rewrite_header(directory_of(store)?, header)
    }

    fn has_header(&self, store: &StoreAddress) -> bool {
        store.directory().is_some_and(|path| path.join(HEADER_NAME).exists())
    }

    fn space(&self, store: &StoreAddress) -> Option<Space> {
        let path = store.directory()?;
        let there = path.ancestors().find(|p| p.exists()).filter(|p| !p.as_os_str().is_empty());
        let there = there.unwrap_or(Path::new("."));
        let stat = rustix::fs::statvfs(there).ok().filter(|stat| stat.f_blocks > 0)?;
        let used = stat.f_blocks.saturating_sub(stat.f_bfree);
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        let file_system = std::fs::metadata(there).ok()?.dev();
        Some(Space { file_system, free: bytes(stat.f_bavail), used: bytes(used) })
    }

    fn write_idb_backup(
        &self,
        store: &StoreAddress,
        time_us: i64,
        bytes: &[u8],
    ) -> Result<(), DeviceError> {
        directory::write_idb_backup(directory_of(store)?, time_us, bytes)
    }

    fn idb_backups(&self, store: &StoreAddress) -> Result<Vec<IdbBackup>, DeviceError> {
        let of = |name: String| IdbBackup { created_us: directory::idb_backup_time(&name), name };
        Ok(directory::idb_backups(directory_of(store)?)?.into_iter().map(of).collect())
    }

    fn read_idb_backup(
        &self,
        store: &StoreAddress,
        name: &str,
        most: u64,
    ) -> std::io::Result<Vec<u8>> {
        regular::read(&store.place().join(name), most)
    }
}
