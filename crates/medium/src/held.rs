//! A medium held for what is done to it besides writing segments: removing them, and locking versions.
//!
//! Segments are removed whole, the last first: the end of a session is in its last segment, so a removal that is cut short
//! leaves a session without its end, which nobody takes for complete.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::Arc;

use capstan_engine::buffer::Buffer;
use capstan_format::block::{BLOCK_SIZE_MAX, HEADER_LEN, MaHeader};
use capstan_format::id::{SegmentId, SegmentNumber, VersionId};
use capstan_format::lock::VersionLock;
use serde::{Deserialize, Serialize};

use crate::error::io_error;
use crate::names::{GONE_SUFFIX, SUFFIX, segment_name, segment_number};
use crate::os_errors::is_lost;
use crate::storage::SegmentSize;
use crate::{DeviceError, OpenMedium};

/// Ends the name of the file of a lock.
pub const LOCK_SUFFIX: &str = ".lock";
const LOCK_TEMPORARY: &str = ".lock.new";

/// A lock found on a medium.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FoundLock {
    /// One that can be read.
    Whole(VersionLock),
    /// A damaged one of that version: until when it holds is not known.
    Damaged(VersionId),
}

impl FoundLock {
    /// The version that it locks.
    pub fn version(&self) -> VersionId {
        match self {
            Self::Whole(lock) => lock.version,
            Self::Damaged(version) => *version,
        }
    }
}

/// Whether a file is a lock of a version, or one that was being written.
pub fn is_lock_name(name: &str) -> bool {
    locked_version(name, LOCK_SUFFIX).or(locked_version(name, LOCK_TEMPORARY)).is_some()
}

fn locked_version(name: &str, suffix: &str) -> Option<VersionId> {
    name.strip_suffix(suffix)?.parse().ok()
}

/// The lock of a version that these bytes are.
fn lock_in(bytes: &[u8], version: VersionId) -> FoundLock {
    let lock = VersionLock::decode(bytes).ok().filter(|lock| lock.version == version);
    lock.map_or(FoundLock::Damaged(version), FoundLock::Whole)
}

impl OpenMedium {
    /// The locks on the medium.
    pub fn version_locks(&self) -> Result<Vec<FoundLock>, DeviceError> {
        let names = self.storage.list().map_err(io_error("list", self.path()))?;
        let locks = names.into_iter().filter_map(|n| Some((locked_version(&n, LOCK_SUFFIX)?, n)));
        let (versions, names): (Vec<VersionId>, Vec<String>) = locks.unzip();
        let read = self.storage.read_begins(&names, BLOCK_SIZE_MAX.into());
        let mut found = Vec::new();
        for (version, read) in versions.into_iter().zip(read) {
            match read {
                Ok(bytes) => found.push(lock_in(&bytes, version)),
                // It passed, and was removed since it was listed.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) if is_lost(&e) => {
                    return Err(io_error("read the locks of", self.path())(e));
                }
                // What cannot be read may say anything: it holds its version, and keeps nobody from the others.
                Err(_) => found.push(FoundLock::Damaged(version)),
            }
        }
        Ok(found)
    }

    fn version_lock(&self, name: &str, version: VersionId) -> Result<FoundLock, DeviceError> {
        let read = self.storage.read_begins(&[name.to_owned()], BLOCK_SIZE_MAX.into());
        let read = read.into_iter().next().unwrap_or(Err(ErrorKind::NotFound.into()));
        let read = read.map_err(io_error("read", &format!("{}/{name}", self.path())))?;
        Ok(lock_in(&read, version))
    }

    /// The highest number that is noted as given and removed again. What was recorded up to it may be gone on purpose.
    pub fn last_removed(&self) -> Result<Option<SegmentNumber>, DeviceError> {
        let names = self.storage.list().map_err(io_error("list", self.path()))?;
        Ok(names.iter().filter_map(|n| segment_number(n, GONE_SUFFIX)).max())
    }

    /// The bytes that a segment has.
    pub fn segment_length(&self, number: SegmentNumber) -> Result<u64, DeviceError> {
        let name = format!("{}/{}", self.path, segment_name(number, SUFFIX));
        self.open_segment(number)?.len().map_err(io_error("read", &name))
    }

    /// The complete segments, with the bytes that each has where that is known without opening it.
    pub fn lengths(&self) -> Result<BTreeMap<SegmentNumber, Option<u64>>, DeviceError> {
        let mut lengths = BTreeMap::new();
        let numbers = self.segments()?;
        let names: Vec<String> = numbers.iter().map(|n| segment_name(*n, SUFFIX)).collect();
        let found = self.storage.lengths(&names);
        for ((number, name), length) in numbers.into_iter().zip(&names).zip(found) {
            match length {
                Ok(length) => drop(lengths.insert(number, length)),
                // It was removed since it was listed.
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                Err(e) => return Err(io_error("examine", &format!("{}/{name}", self.path()))(e)),
            }
        }
        Ok(lengths)
    }

    /// Whether so little is there of a segment that not all of it can be read, as far as that is told without reading it; `looks` says
    /// how many may be opened for it.
    pub fn is_cut(
        &self,
        number: SegmentNumber,
        size: SegmentSize,
        looks: &mut u32,
    ) -> Result<bool, DeviceError> {
        let name = segment_name(number, SUFFIX);
        let failed = io_error("examine", &format!("{}/{name}", self.path()));
        self.storage.is_cut(&name, size, looks).map_err(failed)
    }

    /// Which segment has that number, wherever in it that can be read; `None` if nothing in it says so.
    pub fn segment_found(&self, number: SegmentNumber) -> Result<Option<SegmentId>, DeviceError> {
        /// So many of its blocks are looked at: one that is damaged does not make another segment of it.
        const LOOKS: u64 = 4;
        let name = format!("{}/{}", self.path, segment_name(number, SUFFIX));
        if let Some(found) =
            self.storage.segment_near_end(number).map_err(io_error("read", &name))?
        {
            return Ok(Some(found));
        }
        let file = self.open_segment(number)?;
        let step = u64::from(self.header().block_size);
        for look in 0..LOOKS {
            let mut bytes = [0; HEADER_LEN];
            match file.read_at(&mut bytes, look * step) {
                Ok(n) if n == bytes.len() => {}
                Ok(_) => break,
                // What cannot be read at one place may be read at another.
                Err(e) if e.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                    continue;
                }
                Err(e) => return Err(io_error("read", &name)(e)),
            }
            if let Ok(header) = MaHeader::decode(&bytes) {
                return Ok(Some(header.segment));
            }
        }
        Ok(None)
    }

    /// The segment that has that number, if its first bytes can be read.
    pub fn segment_at(&self, number: SegmentNumber) -> Option<SegmentId> {
        let begin = self.storage.read_piece(&segment_name(number, SUFFIX), 0, HEADER_LEN).ok()?;
        MaHeader::decode(&begin).ok().map(|header| header.segment)
    }
}

/// What keeps others from writing to a medium, until the last of its clones is dropped. A kill frees it.
pub type Lock = Arc<dyn Send + Sync>;

/// A medium that nobody else writes to.
pub struct HeldMedium {
    medium: OpenMedium,
    /// Hold the medium as long as this lives.
    locks: Vec<Lock>,
}

impl HeldMedium {
    /// A medium that is held already; without a lock on a storage that has none, for tests.
    pub fn new(medium: OpenMedium, locks: Vec<Lock>) -> Self {
        Self { medium, locks }
    }

    /// The medium, and what holds it.
    pub fn into_parts(self) -> (OpenMedium, Vec<Lock>) {
        (self.medium, self.locks)
    }

    /// The medium, held once more.
    pub fn again(&self) -> Self {
        Self::new(self.medium.clone(), self.locks.clone())
    }

    /// The medium.
    pub fn medium(&self) -> &OpenMedium {
        &self.medium
    }

    /// Removes segments, the last first. Returns those that are durably gone, also those that were gone before, and what
    /// kept it from removing the others.
    pub fn remove_segments(
        &self,
        numbers: &[SegmentNumber],
    ) -> (Vec<SegmentNumber>, Option<DeviceError>) {
        let mut numbers = numbers.to_vec();
        numbers.sort_unstable_by(|a, b| b.cmp(a));
        let mut removed = Vec::new();
        let failure = self.note_last(&numbers).and_then(|()| {
            let names: Vec<String> = numbers.iter().map(|n| segment_name(*n, SUFFIX)).collect();
            let (gone, failure) = self.medium.storage.remove_each(&names);
            removed.extend_from_slice(numbers.get(..gone).unwrap_or_default());
            let name = names.get(gone).map_or("a segment", String::as_str);
            failure.map_or(Ok(()), |e| Err(self.error("remove", name)(e)))
        });
        match self.sync() {
            Ok(()) => (removed, failure.err()),
            // What is not durable may come back.
            Err(e) => (Vec::new(), Some(e)),
        }
    }

    /// Notes the medium's last number durably before its segment goes, so that it is not given again.
    fn note_last(&self, removed: &[SegmentNumber]) -> Result<(), DeviceError> {
        let storage = &self.medium.storage;
        let names = storage.list().map_err(io_error("list", self.medium.path()))?;
        let of = |suffix| names.iter().filter_map(move |n| segment_number(n, suffix));
        let (Some(last), noted) = (of(SUFFIX).max(), of(GONE_SUFFIX).max()) else { return Ok(()) };
        if noted >= Some(last) || !removed.contains(&last) {
            return Ok(());
        }
        let name = segment_name(last, GONE_SUFFIX);
        match storage.write_file(&name, &[]) {
            Ok(()) => {}
            // Nothing can be made on a file system without a free inode: the segment itself becomes the note, and its bytes go.
            Err(e) if is_full(&e) => {
                let segment = segment_name(last, SUFFIX);
                storage.rename(&segment, &name).map_err(self.error("rename", &segment))?;
                self.sync()?;
                storage.empty(&name).map_err(self.error("empty", &name))?;
            }
            Err(e) => return Err(self.error("create", &name)(e)),
        }
        self.sync()?;
        for old in of(GONE_SUFFIX).map(|n| segment_name(n, GONE_SUFFIX)) {
            storage.remove(&old).map_err(self.error("remove", &old))?;
        }
        Ok(())
    }

    /// Records a lock durably. What the medium has of it already stays: the later time, and all segments.
    pub fn put_lock(&self, lock: &VersionLock) -> Result<(), DeviceError> {
        let name = format!("{}{LOCK_SUFFIX}", lock.version);
        let temporary = format!("{}{LOCK_TEMPORARY}", lock.version);
        let known = match self.medium.version_lock(&name, lock.version) {
            Ok(FoundLock::Whole(known)) => Some(known),
            Ok(FoundLock::Damaged(_)) => None,
            Err(DeviceError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        let lock = known.map_or_else(|| lock.clone(), |known| known.joined(lock));
        let medium = |source| DeviceError::Medium { path: self.medium.path.clone(), source };
        let block = lock.encode().map_err(medium)?;
        let mut aligned = Buffer::new(block.len());
        aligned.copy_from_slice(&block);
        let storage = &self.medium.storage;
        let write = || {
            match storage.remove(&temporary) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            storage.write_file(&temporary, &aligned)?;
            storage.replace(&temporary, &name)?;
            storage.sync()
        };
        write().map_err(self.error("write the lock", &name))
    }

    /// Removes the records of those of these locks that have passed.
    pub fn remove_passed_locks(&self, found: &[FoundLock], now_us: i64) -> Result<(), DeviceError> {
        for found in found {
            if let FoundLock::Whole(lock) = found
                && lock.until_us <= now_us
            {
                let name = format!("{}{LOCK_SUFFIX}", lock.version);
                self.medium.storage.remove(&name).map_err(self.error("remove", &name))?;
            }
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), DeviceError> {
        self.medium.storage.sync().map_err(io_error("synchronise", self.medium.path()))
    }

    fn error(
        &self,
        action: &'static str,
        name: &str,
    ) -> impl FnOnce(std::io::Error) -> DeviceError + use<> {
        let path = format!("{}/{name}", self.medium.path);
        move |source| DeviceError::Io { action: action.into(), path, source }
    }
}

/// Whether a file cannot be made as there is no room, or no inode, for it.
fn is_full(e: &std::io::Error) -> bool {
    matches!(e.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}
