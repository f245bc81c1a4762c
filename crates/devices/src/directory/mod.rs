//! A directory as a medium: each segment is a file of it.
//!
//! `medium.capstan` is the medium's header and what writers lock; `00000001.segment` the first segment. A segment is
//! written as `….segment.part` and gets its name when all its bytes are durable: so a name without `.part` is a
//! complete segment, and a `.part` is what a killed writer left, removed by the next.
//!
//! [`storage`] is the file system, with [`faulty`] as its stand-in that loses what was not synchronised. [`manage`] is what is done to the
//! medium as a whole, [`lost_header`](mod@lost_header) writes its header anew.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use capstan_address::{AddressError, StoreAddress};
use capstan_engine::buffer::Buffer;
use capstan_engine::durable;
use capstan_format::block::BLOCK_ALIGN;
use capstan_format::id::SegmentNumber;
use capstan_format::record::MediumHeader;
use capstan_medium::error::io_error;
use capstan_medium::header::{header_block, segments};
use capstan_medium::held::is_lock_name;
use capstan_medium::host::stores::InStore;
use capstan_medium::medium::member_alone;
use capstan_medium::names::{
    GONE_SUFFIX, HEADER_NAME, HEADER_TEMPORARY, PART_SUFFIX, SUFFIX, segment_name, segment_number,
};
use capstan_medium::storage::{Storage, WriteFile};
use capstan_medium::{Device, DeviceError, HeldMedium, OpenMedium};

pub mod faulty;
#[cfg(test)]
mod held_tests;
mod lost_header;
mod manage;
mod storage;
mod writable;

pub use lost_header::{lost_header, medium_of, rewrite_header};
pub(crate) use manage::lock_header;
pub use manage::{IDB_BACKUPS_KEPT, idb_backup_time, idb_backups, write_idb_backup};
pub use storage::RealStorage;

/// Name of the file that is there from before the header of an array's member until all of the member is written.
pub(crate) const UNFINISHED: &str = "rebuild.unfinished";

/// The directory that a store is.
pub(crate) fn directory_of(store: &StoreAddress) -> Result<&Path, DeviceError> {
    store.directory().ok_or_else(|| AddressError::NoDevice(store.to_string()).into())
}

/// Opens the medium in a directory.
pub fn open(path: &Path) -> Result<OpenMedium, DeviceError> {
    let at = path.display().to_string();
    let storage = RealStorage::open(path).map_err(|e| io_error("open", &at)(e))?;
    OpenMedium::on(Arc::new(storage), &at)
}

/// Holds the medium in a directory.
pub fn hold(path: &Path) -> Result<HeldMedium, DeviceError> {
    let at = path.display().to_string();
    let real = RealStorage::open(path).map_err(io_error("open", &at))?;
    // Says what is wrong where there is no medium at all.
    if open(path)?.header_problem().is_some() {
        return Err(DeviceError::HeaderLost { path: at });
    }
    let lock = lock_header(&real, &at)?;
    Ok(HeldMedium::new(OpenMedium::on(Arc::new(real), &at)?, vec![lock]))
}

/// What the medium in a directory says of itself; it may be a member of an array.
pub fn header_in(path: &Path) -> Result<MediumHeader, DeviceError> {
    let at = path.display().to_string();
    let storage = RealStorage::open(path).map_err(io_error("open", &at))?;
    Ok(OpenMedium::member_on(Arc::new(storage), &at)?.header().clone())
}

/// Looks into a directory that a medium may be made in. One that is not there has nothing.
pub fn look_in(path: &Path) -> Result<InStore, DeviceError> {
    let failed = || io_error("list", &path.display().to_string());
    let names = match std::fs::read_dir(path) {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(InStore::Nothing),
        names => names.map_err(failed())?,
    };
    let mut found = InStore::Nothing;
    for name in names {
        let name = name.map_err(failed())?.file_name();
        if name == HEADER_NAME {
            found = InStore::HeaderOnly;
        } else if name != HEADER_TEMPORARY && name != "lost+found" {
            return Ok(InStore::More);
        }
    }
    Ok(found)
}

/// Whether a file of that name in a medium's directory is one of ours.
pub fn is_our_name(name: &str) -> bool {
    name == HEADER_NAME
        || name == HEADER_TEMPORARY
        || name == UNFINISHED
        || [SUFFIX, PART_SUFFIX, GONE_SUFFIX].iter().any(|s| segment_number(name, s).is_some())
        || manage::is_idb_backup(name)
        || is_lock_name(name)
}

/// A medium in a directory, held for writing.
pub struct FileDevice {
    medium: OpenMedium,
    /// Hold the lock as long as the device lives; a kill frees it.
    locks: Vec<File>,
    /// The number of the next segment, and the first that was free when it was opened.
    next: u32,
    first: u32,
    open: Option<(SegmentNumber, Box<dyn WriteFile>)>,
    ended: Vec<(SegmentNumber, Box<dyn WriteFile>)>,
    copy: Buffer,
}

impl FileDevice {
    /// Opens the medium in the directory `path` to write, and makes directory and medium where there is none.
    /// `new` is the header of a medium made now; `block_size` the block size asked for, if any.
    pub fn open(
        path: &Path,
        new: impl FnOnce() -> std::io::Result<MediumHeader>,
        block_size: Option<u32>,
    ) -> Result<Self, DeviceError> {
        let device = Self::open_member(path, new, block_size)?;
        match device.medium.header().is_array() {
            true => Err(member_alone(device.medium.header(), device.medium.path())),
            // What a segment repeats may be out of date: another label, another cell, even another medium.
            false if device.medium.header_problem().is_some() => {
                Err(DeviceError::HeaderLost { path: device.medium.path().to_owned() })
            }
            false => Ok(device),
        }
    }

    /// The same, of a medium that may be a member of an array.
    pub(crate) fn open_member(
        path: &Path,
        new: impl FnOnce() -> std::io::Result<MediumHeader>,
        block_size: Option<u32>,
    ) -> Result<Self, DeviceError> {
        let at = path.display().to_string();
        if let Err(e) = std::fs::create_dir(path)
            && e.kind() != std::io::ErrorKind::AlreadyExists
        {
            return Err(io_error("create the directory", &at)(e));
        }
        let real = RealStorage::open(path).map_err(io_error("open", &at))?;
        // Who makes the medium is settled by a lock on the directory.
        real.lock().map_err(io_error("lock", &at))?;
        ensure_medium(&real, &at, new)?;
        if segments(&real, &at)?.is_empty() {
            // What is written into it is as durable as its own name: whoever made that may not have seen to it.
            let way = durable::synchronise_way_to(path);
            way.map_err(io_error("make durable the name of", &at))?;
        }
        real.unlock().map_err(io_error("unlock", &at))?;
        let lock = lock_header(&real, &at)?;
        Self::on(Arc::new(real), &at, vec![lock], block_size)
    }

    /// Refuses what [`Self::open`] would refuse, and makes nothing. Gives the size of the blocks of the medium, where one is
    /// there.
    pub fn foresee(path: &Path) -> Result<Option<u32>, DeviceError> {
        let at = path.display().to_string();
        let storage = match RealStorage::open(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            opened => opened.map_err(io_error("open", &at))?,
        };
        let names = storage.list().map_err(io_error("list", &at))?;
        if !has_header(&names, &at)? {
            return Ok(None);
        }
        let medium = OpenMedium::on(Arc::new(storage), &at)?;
        match medium.header_problem() {
            Some(_) => Err(DeviceError::HeaderLost { path: at }),
            None => Ok(Some(medium.header().block_size)),
        }
    }

    /// Opens a medium in a storage to write; for tests on a storage that fails, which has no lock.
    pub fn on_storage(
        storage: Arc<dyn Storage>,
        path: &str,
        new: impl FnOnce() -> std::io::Result<MediumHeader>,
    ) -> Result<Self, DeviceError> {
        ensure_medium(&*storage, path, new)?;
        Self::on(storage, path, Vec::new(), None)
    }

    /// Opens a medium that is there and held by these locks.
    pub(crate) fn on(
        storage: Arc<dyn Storage>,
        path: &str,
        locks: Vec<File>,
        block_size: Option<u32>,
    ) -> Result<Self, DeviceError> {
        let medium = OpenMedium::member_on(storage, path)?;
        let have = medium.header().block_size;
        if let Some(want) = block_size.filter(|want| *want != have) {
            return Err(DeviceError::BlockSize { path: path.to_owned(), have, want });
        }
        // Where to append is read from the medium. What a killed writer left is ours to remove: we hold the lock.
        let names = medium.storage().list().map_err(io_error("list", path))?;
        for name in names.iter().filter(|n| segment_number(n, PART_SUFFIX).is_some()) {
            medium.storage().remove(name).map_err(io_error("remove", &format!("{path}/{name}")))?;
        }
        // A number that was given once is not given again, though its segment be gone.
        let given = |n: &String| segment_number(n, SUFFIX).or(segment_number(n, GONE_SUFFIX));
        let last = names.iter().filter_map(given).max();
        let next = last.map_or(1, |n| n.0.saturating_add(1));
        Ok(Self {
            medium,
            locks,
            next,
            first: next,
            open: None,
            ended: Vec::new(),
            copy: Buffer::new(BLOCK_ALIGN),
        })
    }

    /// The device of a medium that is held.
    pub(crate) fn of_held(held: HeldMedium) -> Result<Self, DeviceError> {
        let (medium, locks) = held.into_parts();
        Self::on(medium.storage().clone(), medium.path(), locks, None)
    }

    /// The medium.
    pub fn medium(&self) -> &OpenMedium {
        &self.medium
    }

    /// The medium, held on beyond the life of the device.
    pub fn hold(&self) -> Result<HeldMedium, DeviceError> {
        Ok(HeldMedium::new(self.medium.clone(), self.locks()?))
    }

    /// The locks that hold the medium, once more.
    pub(crate) fn locks(&self) -> Result<Vec<File>, DeviceError> {
        let locks = self.locks.iter().map(File::try_clone).collect::<std::io::Result<_>>();
        locks.map_err(io_error("hold", self.medium.path()))
    }

    fn name_of(&self, number: SegmentNumber) -> String {
        format!("{}/{}", self.medium.path(), segment_name(number, SUFFIX))
    }
}

/// Whether a medium's header is among the names in a directory; refused where none is, and none can be made.
fn has_header(names: &[String], path: &str) -> Result<bool, DeviceError> {
    if names.iter().any(|n| n == HEADER_NAME) {
        return Ok(true);
    }
    if names.iter().any(|n| !is_our_name(n) && n != "lost+found") {
        return Err(DeviceError::NotOurs(path.to_owned()));
    }
    match names.iter().any(|n| segment_number(n, SUFFIX).is_some()) {
        // The segments have copies, which are enough to read it.
        true => Err(DeviceError::HeaderLost { path: path.to_owned() }),
        false => Ok(false),
    }
}

fn ensure_medium(
    storage: &dyn Storage,
    path: &str,
    new: impl FnOnce() -> std::io::Result<MediumHeader>,
) -> Result<(), DeviceError> {
    let names = storage.list().map_err(io_error("list", path))?;
    if has_header(&names, path)? {
        return Ok(());
    }
    let header = new().map_err(io_error("make a new medium in", path))?;
    let aligned = header_block(&header, path)?;
    let write = || -> std::io::Result<()> {
        if names.iter().any(|n| n == HEADER_TEMPORARY) {
            storage.remove(HEADER_TEMPORARY)?;
        }
        manage::write_header(storage, &aligned)?;
        match storage.rename(HEADER_TEMPORARY, HEADER_NAME) {
            // Another process was first; its header stands.
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
                storage.remove(HEADER_TEMPORARY)?;
            }
            other => other?,
        }
        storage.sync()
    };
    write().map_err(io_error("make a new medium in", path))
}

impl Device for FileDevice {
    fn next_number(&self) -> SegmentNumber {
        SegmentNumber(self.next)
    }

    fn advance(&mut self, to: SegmentNumber) {
        self.next = self.next.max(to.0);
    }

    fn begin_segment(&mut self) -> Result<SegmentNumber, DeviceError> {
        let number = SegmentNumber(self.next);
        let file = self.medium.storage().create(&segment_name(number, PART_SUFFIX));
        let file = file.map_err(io_error("create", &self.name_of(number)))?;
        self.open = Some((number, file));
        self.next = self.next.saturating_add(1);
        Ok(number)
    }

    fn write(&mut self, block: &[u8]) -> Result<(), DeviceError> {
        let Some((number, file)) = &mut self.open else {
            return Err(DeviceError::NoMedium(self.medium.path().to_owned()));
        };
        let result = if (block.as_ptr() as usize).is_multiple_of(BLOCK_ALIGN) {
            file.append(block)
        } else {
            if self.copy.len() < block.len() {
                self.copy = Buffer::new(block.len());
            }
            self.copy[..block.len()].copy_from_slice(block);
            file.append(&self.copy[..block.len()])
        };
        let number = *number;
        result.map_err(|e| io_error("write", &self.name_of(number))(e))
    }

    fn end_segment(&mut self) -> Result<(), DeviceError> {
        self.ended.extend(self.open.take());
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DeviceError> {
        let mut numbers = Vec::new();
        for (number, mut file) in std::mem::take(&mut self.ended) {
            file.sync().map_err(io_error("synchronise", &self.name_of(number)))?;
            numbers.push(number);
        }
        for number in numbers {
            let (part, full) = (segment_name(number, PART_SUFFIX), segment_name(number, SUFFIX));
            let renamed = self.medium.storage().rename(&part, &full);
            renamed.map_err(io_error("name", &self.name_of(number)))?;
        }
        self.medium.storage().sync().map_err(io_error("synchronise", self.medium.path()))
    }

    fn salvage(&mut self) -> Result<SegmentNumber, DeviceError> {
        if let Some((number, file)) = self.open.take() {
            drop(file);
            let _ = self.medium.storage().remove(&segment_name(number, PART_SUFFIX));
        }
        self.commit()?;
        Ok(SegmentNumber(self.next))
    }

    fn cut(&mut self, from: SegmentNumber) -> bool {
        if from.0 < self.first {
            return false;
        }
        let storage = &self.medium.storage();
        let ended = self.ended.extract_if(.., |(number, _)| *number >= from);
        let dropped: Vec<_> = self.open.take().into_iter().chain(ended).collect();
        for (number, file) in dropped {
            drop(file);
            let _ = storage.remove(&segment_name(number, PART_SUFFIX));
        }
        let mut committed = (from.0..self.next).map(|n| segment_name(SegmentNumber(n), SUFFIX));
        committed.all(|name| match storage.remove(&name) {
            Err(e) => e.kind() == std::io::ErrorKind::NotFound,
            Ok(()) => true,
        })
    }

    fn abandon_segment(&mut self) {
        for (number, file) in self.open.take().into_iter().chain(self.ended.drain(..)) {
            drop(file);
            // Left behind it would be removed by the next writer.
            let _ = self.medium.storage().remove(&segment_name(number, PART_SUFFIX));
        }
    }

    fn short_blocks(&self) -> bool {
        true
    }
}

impl Drop for FileDevice {
    fn drop(&mut self) {
        self.abandon_segment();
    }
}
