//! The medium in a storage, opened to write: each segment is a file of it.
//!
//! A segment is written as `….segment.part` and gets its name when all its bytes are durable: so a name without `.part` is a
//! complete segment, and a `.part` is what a killed writer left, removed by the next.

use std::sync::Arc;

use capstan_engine::buffer::Buffer;
use capstan_format::block::BLOCK_ALIGN;
use capstan_format::id::SegmentNumber;
use capstan_format::record::MediumHeader;
use capstan_medium::error::io_error;
use capstan_medium::header::header_block;
use capstan_medium::held::Lock;
use capstan_medium::names::{
    GONE_SUFFIX, HEADER_NAME, HEADER_TEMPORARY, PART_SUFFIX, SUFFIX, segment_name, segment_number,
};
use capstan_medium::storage::{Storage, WriteFile};
use capstan_medium::{Device, DeviceError, HeldMedium, OpenMedium};

use super::is_our_name;

/// A medium in a storage, held for writing.
pub struct StorageDevice {
    pub(super) medium: OpenMedium,
    /// Hold the lock as long as the device lives; a kill frees it.
    locks: Vec<Lock>,
    /// The number of the next segment, and the first that was free when it was opened.
    next: u32,
    first: u32,
    open: Option<(SegmentNumber, Box<dyn WriteFile>)>,
    ended: Vec<(SegmentNumber, Box<dyn WriteFile>)>,
    copy: Buffer,
}

impl StorageDevice {
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
        locks: Vec<Lock>,
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
    pub fn hold(&self) -> HeldMedium {
        HeldMedium::new(self.medium.clone(), self.locks.clone())
    }

    /// The locks that hold the medium, once more.
    pub(crate) fn locks(&self) -> Vec<Lock> {
        self.locks.clone()
    }

    pub(super) fn name_of(&self, number: SegmentNumber) -> String {
        format!("{}/{}", self.medium.path(), segment_name(number, SUFFIX))
    }
}

/// Whether a medium's header is among the names in a directory; refused where none is, and none can be made.
pub(super) fn has_header(names: &[String], path: &str) -> Result<bool, DeviceError> {
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

pub(super) fn ensure_medium(
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
        write_header(storage, &aligned)?;
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

/// Writes a header to its temporary name, durably.
pub(super) fn write_header(storage: &dyn Storage, block: &Buffer) -> std::io::Result<()> {
    let mut file = storage.create(HEADER_TEMPORARY)?;
    file.append(block)?;
    file.sync()
}

impl Device for StorageDevice {
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

impl Drop for StorageDevice {
    fn drop(&mut self) {
        self.abandon_segment();
    }
}
