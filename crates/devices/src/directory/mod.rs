//! Directories of a file system, as a kind of store.
//!
//! [`storage`] is the file system. [`lock`] keeps two writers apart.

use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use capstan_engine::durable;
use capstan_medium::DeviceError;
use capstan_medium::held::Lock;
use capstan_medium::host::stores::Space;
use capstan_mounts::MountTables;

use crate::store::{Site, Store, StoreKind};

mod lock;
mod storage;

pub use storage::RealStorage;

/// The directories of this machine.
#[derive(Default)]
pub struct Directories {
    /// Where its mount points are on record.
    mounts: MountTables,
}

impl Directories {
    /// A directory of this machine.
    pub fn site(path: &Path) -> Site {
        Site::new(Arc::new(Self::default()), &path.into())
    }
}

impl StoreKind for Directories {
    fn open(&self, place: &Path) -> io::Result<Arc<dyn Store>> {
        Ok(Arc::new(RealStorage::open(place)?))
    }

    fn make(&self, place: &Path) -> io::Result<()> {
        std::fs::create_dir(place)
    }

    fn make_durable(&self, place: &Path) -> io::Result<()> {
        durable::synchronise_way_to(place)
    }

    fn is_there(&self, place: &Path) -> bool {
        place.exists()
    }

    fn whole(&self, place: &Path) -> PathBuf {
        capstan_mounts::whole(place)
    }

    fn resolve(&self, place: &Path) -> io::Result<PathBuf> {
        std::fs::canonicalize(place)
    }

    fn is_same(&self, one: &Path, other: &Path) -> bool {
        let of = |path: &Path| path.metadata().ok().map(|m| (m.dev(), m.ino()));
        of(one).is_some_and(|found| Some(found) == of(other))
    }

    fn empty_mount_point(&self, place: &Path) -> Option<PathBuf> {
        self.mounts.empty_mount_point(place)
    }

    fn space(&self, place: &Path) -> Option<Space> {
        let there = place.ancestors().find(|p| p.exists()).filter(|p| !p.as_os_str().is_empty());
        let there = there.unwrap_or(Path::new("."));
        let stat = rustix::fs::statvfs(there).ok().filter(|stat| stat.f_blocks > 0)?;
        let used = stat.f_blocks.saturating_sub(stat.f_bfree);
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        let file_system = std::fs::metadata(there).ok()?.dev();
        Some(Space { file_system, free: bytes(stat.f_bavail), used: bytes(used) })
    }
}

impl Store for RealStorage {
    fn lock_making(&self) -> io::Result<Lock> {
        Ok(Arc::new(self.lock()?))
    }

    fn lock_header(&self, at: &str) -> Result<Lock, DeviceError> {
        Ok(Arc::new(lock::lock_header(self, at)?))
    }
}
