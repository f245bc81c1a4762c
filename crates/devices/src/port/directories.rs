//! What a device host does with directories.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use capstan_engine::regular;
use capstan_format::record::MediumHeader;
use capstan_medium::host::Directories;
use capstan_medium::host::directories::{IdbBackup, InDirectory, LostHeader, Space};
use capstan_medium::names::HEADER_NAME;
use capstan_medium::{DeviceError, OpenMedium};

use crate::directory::{self, FileDevice};
use crate::host::LocalDevices;

impl Directories for LocalDevices {
    fn whole(&self, path: &Path) -> PathBuf {
        capstan_mounts::whole(path)
    }

    fn resolve(&self, path: &Path) -> std::io::Result<PathBuf> {
        std::fs::canonicalize(path)
    }

    fn empty_mount_point(&self, directory: &Path) -> Option<PathBuf> {
        self.state().mounts.empty_mount_point(directory)
    }

    fn look_in(&self, path: &Path) -> Result<InDirectory, DeviceError> {
        directory::look_in(path)
    }

    fn foresee(&self, path: &Path) -> Result<Option<u32>, DeviceError> {
        FileDevice::foresee(path)
    }

    fn header_in(&self, path: &Path) -> Result<MediumHeader, DeviceError> {
        directory::header_in(path)
    }

    fn lost_header(&self, path: &Path) -> Result<Option<LostHeader>, DeviceError> {
        directory::lost_header(path)
    }

    fn medium_of(&self, path: &Path, header: MediumHeader) -> Result<OpenMedium, DeviceError> {
        directory::medium_of(path, header)
    }

    fn rewrite_header(&self, path: &Path, header: &MediumHeader) -> Result<(), DeviceError> {
        directory::rewrite_header(path, header)
    }

    fn has_header(&self, path: &Path) -> bool {
        path.join(HEADER_NAME).exists()
    }

    fn space(&self, path: &Path) -> Option<Space> {
        let there = path.ancestors().find(|p| p.exists()).filter(|p| !p.as_os_str().is_empty());
        let there = there.unwrap_or(Path::new("."));
        let stat = rustix::fs::statvfs(there).ok().filter(|stat| stat.f_blocks > 0)?;
        let used = stat.f_blocks.saturating_sub(stat.f_bfree);
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        let file_system = std::fs::metadata(there).ok()?.dev();
        Some(Space { file_system, free: bytes(stat.f_bavail), used: bytes(used) })
    }

    fn write_idb_backup(&self, dir: &Path, time_us: i64, bytes: &[u8]) -> Result<(), DeviceError> {
        directory::write_idb_backup(dir, time_us, bytes)
    }

    fn idb_backups(&self, dir: &Path) -> Result<Vec<IdbBackup>, DeviceError> {
        let of = |name: String| IdbBackup { created_us: directory::idb_backup_time(&name), name };
        Ok(directory::idb_backups(dir)?.into_iter().map(of).collect())
    }

    fn read_idb_backup(&self, dir: &Path, name: &str, most: u64) -> std::io::Result<Vec<u8>> {
        regular::read(&dir.join(name), most)
    }
}
