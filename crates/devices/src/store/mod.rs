//! Stores as media: what is done with a store of any kind, through what each kind has to have.
//!
//! `medium.capstan` is the medium's header and what writers lock; `00000001.segment` the first segment. A kind of store ([`StoreKind`]) is
//! a folder of this crate, and a line where hosts get their kinds ([`crate::host::Kinds`]). It knows storages, locks and names; it knows
//! nothing of media. [`Site`] is a store of a host. [`device`] writes segments, [`manage`] is what is done to the medium as a whole,
//! [`lost_header`](mod@lost_header) writes its header anew, [`idb_backups`](mod@idb_backups) lie beside the segments.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use capstan_address::StoreAddress;
use capstan_format::record::MediumHeader;
use capstan_medium::error::io_error;
use capstan_medium::header::segments;
use capstan_medium::held::{Lock, is_lock_name};
use capstan_medium::host::stores::{InStore, Space};
use capstan_medium::medium::member_alone;
use capstan_medium::names::{
    GONE_SUFFIX, HEADER_NAME, HEADER_TEMPORARY, PART_SUFFIX, SUFFIX, segment_number,
};
use capstan_medium::storage::Storage;
use capstan_medium::{DeviceError, HeldMedium, OpenMedium};

mod device;
mod idb_backups;
mod lost_header;
mod manage;
mod writable;

pub use device::StorageDevice;
pub use idb_backups::{
    IDB_BACKUPS_KEPT, idb_backup_time, idb_backups, read_idb_backup, write_idb_backup,
};
pub use lost_header::{lost_header, medium_of, rewrite_header};

/// Name of the file that is there from before the header of an array's member until all of the member is written.
pub(crate) const UNFINISHED: &str = "rebuild.unfinished";

/// A kind of store. A store is told by its place, which is what its name has behind the kind.
pub trait StoreKind: Send + Sync {
    /// Opens a store that is there.
    fn open(&self, place: &Path) -> io::Result<Arc<dyn Store>>;
    /// Makes a store; [`io::ErrorKind::AlreadyExists`] where one is there.
    fn make(&self, place: &Path) -> io::Result<()>;
    /// Makes the name of a store as durable as what is written into it: whoever made the store may not have seen to it.
    fn make_durable(&self, place: &Path) -> io::Result<()> {
        let _ = place;
        Ok(())
    }
    /// Whether a store is there.
    fn is_there(&self, place: &Path) -> bool;
    /// The one name of a store that may have several, as far as it is there.
    fn whole(&self, place: &Path) -> PathBuf {
        place.to_owned()
    }
    /// The same of a store that has to be there.
    fn resolve(&self, place: &Path) -> io::Result<PathBuf> {
        match self.is_there(place) {
            true => Ok(self.whole(place)),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }
    /// Whether two names are those of one store, which is there.
    fn is_same(&self, one: &Path, other: &Path) -> bool {
        self.whole(one) == self.whole(other) && self.is_there(one)
    }
    /// The mount point on record at which nothing is mounted, where the store is it or lies below it.
    fn empty_mount_point(&self, place: &Path) -> Option<PathBuf> {
        let _ = place;
        None
    }
    /// Its room; nothing where it has no end, or nobody counts it.
    fn space(&self, place: &Path) -> Option<Space> {
        let _ = place;
        None
    }
}

/// A store that was opened: the storage of a medium, and what keeps two writers apart.
pub trait Store: Storage {
    /// Waits until nobody else makes a medium in it; nobody does until what is returned is dropped.
    fn lock_making(&self) -> io::Result<Lock>;
    /// Locks the medium's header for writing; `at` is what errors call the store. A header that is replaced meanwhile is not the one that
    /// is locked.
    fn lock_header(&self, at: &str) -> Result<Lock, DeviceError>;
}

/// A store of a host.
#[derive(Clone)]
pub struct Site {
    kind: Arc<dyn StoreKind>,
    address: StoreAddress,
    shown: String,
}

impl Site {
    /// The store at an address, by its kind.
    pub fn new(kind: Arc<dyn StoreKind>, address: &StoreAddress) -> Self {
        Self { kind, address: address.clone(), shown: address.shown() }
    }

    /// Its kind.
    pub fn kind(&self) -> &dyn StoreKind {
        &*self.kind
    }

    /// Its place.
    pub fn place(&self) -> &Path {
        self.address.place()
    }

    /// What errors call it.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Opens it.
    pub fn open(&self) -> io::Result<Arc<dyn Store>> {
        self.kind.open(self.place())
    }

    fn opened(&self) -> Result<Arc<dyn Store>, DeviceError> {
        self.open().map_err(io_error("open", &self.shown))
    }

    /// Makes it, if it is not there.
    pub fn make(&self) -> Result<(), DeviceError> {
        match self.kind.make(self.place()) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            made => made.map_err(io_error("create the directory", &self.shown)),
        }
    }

    /// Opens the medium in it.
    pub fn medium(&self) -> Result<OpenMedium, DeviceError> {
        OpenMedium::on(self.opened()?, &self.shown)
    }

    /// Opens the medium in it, which may be a member of an array.
    pub fn member(&self) -> Result<OpenMedium, DeviceError> {
        OpenMedium::member_on(self.opened()?, &self.shown)
    }

    /// Keeps others from writing to the medium in it.
    pub fn lock(&self) -> Result<Lock, DeviceError> {
        self.opened()?.lock_header(&self.shown)
    }

    /// Holds the medium in it.
    pub fn hold(&self) -> Result<HeldMedium, DeviceError> {
        let store = self.opened()?;
        // Says what is wrong where there is no medium at all.
        if self.medium()?.header_problem().is_some() {
            return Err(self.header_lost());
        }
        let lock = store.lock_header(&self.shown)?;
        Ok(HeldMedium::new(OpenMedium::on(store, &self.shown)?, vec![lock]))
    }

    /// Whether it has a file of that name.
    pub fn has(&self, name: &str) -> bool {
        self.open().is_ok_and(|store| names_it(&*store, name))
    }

    /// Looks what is in it, where a medium may be made. One that is not there has nothing.
    pub fn look_in(&self) -> Result<InStore, DeviceError> {
        let failed = || io_error("list", &self.shown);
        let store = match self.open() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(InStore::Nothing),
            opened => opened.map_err(failed())?,
        };
        let mut found = InStore::Nothing;
        for name in store.list().map_err(failed())? {
            if name == HEADER_NAME {
                found = InStore::HeaderOnly;
            } else if name != HEADER_TEMPORARY && name != "lost+found" {
                return Ok(InStore::More);
            }
        }
        Ok(found)
    }

    /// Opens the medium in it to write, and makes store and medium where there is none. `new` is the header of a medium made now;
    /// `block_size` the block size asked for, if any.
    pub fn device(
        &self,
        new: impl FnOnce() -> io::Result<MediumHeader>,
        block_size: Option<u32>,
    ) -> Result<StorageDevice, DeviceError> {
        let device = self.member_device(new, block_size)?;
        match device.medium().header().is_array() {
            true => Err(member_alone(device.medium().header(), device.medium().path())),
            // What a segment repeats may be out of date: another label, another cell, even another medium.
            false if device.medium().header_problem().is_some() => Err(self.header_lost()),
            false => Ok(device),
        }
    }

    /// The same, of a medium that may be a member of an array.
    pub fn member_device(
        &self,
        new: impl FnOnce() -> io::Result<MediumHeader>,
        block_size: Option<u32>,
    ) -> Result<StorageDevice, DeviceError> {
        let at = &self.shown;
        self.make()?;
        let store = self.opened()?;
        // Who makes the medium is settled by a lock on the store.
        let making = store.lock_making().map_err(io_error("lock", at))?;
        device::ensure_medium(&*store, at, new)?;
        if segments(&*store, at)?.is_empty() {
            let durable = self.kind.make_durable(self.place());
            durable.map_err(io_error("make durable the name of", at))?;
        }
        drop(making);
        let lock = store.lock_header(at)?;
        StorageDevice::on(store, at, vec![lock], block_size)
    }

    /// Refuses what [`Self::device`] would refuse, and makes nothing. Gives the size of the blocks of the medium, where one is
    /// there.
    pub fn foresee(&self) -> Result<Option<u32>, DeviceError> {
        let store = match self.open() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(io_error("open", &self.shown))?,
        };
        let names = store.list().map_err(io_error("list", &self.shown))?;
        if !device::has_header(&names, &self.shown)? {
            return Ok(None);
        }
        let medium = OpenMedium::on(store, &self.shown)?;
        match medium.header_problem() {
            Some(_) => Err(self.header_lost()),
            None => Ok(Some(medium.header().block_size)),
        }
    }

    fn header_lost(&self) -> DeviceError {
        DeviceError::HeaderLost { path: self.shown.clone() }
    }
}

/// Whether a storage has a file of that name, though it be one that cannot be read.
pub(crate) fn names_it(storage: &dyn Storage, name: &str) -> bool {
    !matches!(storage.open(name), Err(e) if e.kind() == io::ErrorKind::NotFound)
}

/// Whether a file of that name in a medium's store is one of ours.
pub fn is_our_name(name: &str) -> bool {
    name == HEADER_NAME
        || name == HEADER_TEMPORARY
        || name == UNFINISHED
        || [SUFFIX, PART_SUFFIX, GONE_SUFFIX].iter().any(|s| segment_number(name, s).is_some())
        || idb_backups::is_idb_backup(name)
        || is_lock_name(name)
}
