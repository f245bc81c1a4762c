//! What is done to a medium as a whole: its header changed, its segments given up, a backup of the internal database
//! laid beside them.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use capstan_engine::buffer::Buffer;
use capstan_engine::durable;
use capstan_format::record::MediumHeader;
use capstan_medium::DeviceError;
use capstan_medium::error::io_error;
use capstan_medium::header::header_block;
use capstan_medium::names::{HEADER_NAME, HEADER_TEMPORARY, SUFFIX, segment_name};
use capstan_medium::storage::Storage;
use capstan_tape::lock::holder_of;
use rustix::fs::{FlockOperation, Mode, OFlags};

use super::FileDevice;
use super::storage::{RealStorage, data_behind};

/// Backups of the internal database that a medium keeps: one damaged or half written leaves two.
pub const IDB_BACKUPS_KEPT: usize = 3;

const IDB_PREFIX: &str = "idb-";
const IDB_SUFFIX: &str = ".capstan";
const PART: &str = ".part";
/// How often to look again for a header that is replaced while it is opened.
const TRIES: usize = 8;

/// Whether a file of that name is a backup of an internal database, or one being written.
pub(super) fn is_idb_backup(name: &str) -> bool {
    let name = name.strip_suffix(PART).unwrap_or(name);
    let digits = name.strip_prefix(IDB_PREFIX).and_then(|n| n.strip_suffix(IDB_SUFFIX));
    digits.is_some_and(|d| d.len() == 17 && d.bytes().all(|b| b.is_ascii_digit()))
}

/// Locks the header file for writing. A header that is replaced meanwhile is another file: then the new one is locked.
pub(crate) fn lock_header(real: &RealStorage, at: &str) -> Result<File, DeviceError> {
    for _ in 0..TRIES {
        let lock = real.open_file(HEADER_NAME).map_err(io_error("open", at))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(DeviceError::Busy { path: at.to_owned(), holder: holder_of(&lock) });
            }
            Err(e) => return Err(io_error("lock", at)(e.into())),
        }
        let now = real.open_file(HEADER_NAME).map_err(io_error("open", at))?;
        let same = |a: &File, b: &File| -> std::io::Result<bool> {
            Ok(a.metadata()?.ino() == b.metadata()?.ino())
        };
        if same(&lock, &now).map_err(io_error("examine", at))? {
            return Ok(lock);
        }
    }
    let holder = "somebody who changes its header".to_owned();
    Err(DeviceError::Busy { path: at.to_owned(), holder })
}

/// Writes a header to its temporary name, durably.
pub(super) fn write_header(storage: &dyn Storage, block: &Buffer) -> std::io::Result<()> {
    let mut file = storage.create(HEADER_TEMPORARY)?;
    file.append(block)?;
    file.sync()
}

impl FileDevice {
    /// Gives the medium another header. The lock goes with the old one: nothing is to be written through this device
    /// after it.
    pub fn replace_header(self, header: &MediumHeader) -> Result<(), DeviceError> {
        let (storage, path) = (&**self.medium.storage(), self.medium.path());
        let block = header_block(header, path)?;
        let write = || -> std::io::Result<()> {
            if storage.list()?.iter().any(|n| n == HEADER_TEMPORARY) {
                storage.remove(HEADER_TEMPORARY)?;
            }
            write_header(storage, &block)?;
            storage.replace(HEADER_TEMPORARY, HEADER_NAME)?;
            storage.sync()
        };
        write().map_err(io_error("change the header of the medium in", path))
    }

    /// Removes all segments, durably; returns how many there were.
    pub fn remove_segments(&mut self) -> Result<usize, DeviceError> {
        let numbers = self.medium.segments()?;
        let storage = self.medium.storage();
        // The last first: what an interruption leaves begins at the begin.
        for number in numbers.iter().rev() {
            let removed = storage.remove(&segment_name(*number, SUFFIX));
            removed.map_err(io_error("remove", &self.name_of(*number)))?;
        }
        storage.sync().map_err(io_error("synchronise", self.medium.path()))?;
        Ok(numbers.len())
    }
}

impl FileDevice {
    /// Removes all files of the medium, the header as the last: what an interruption leaves is a medium still, and can be
    /// erased again. `secure`: each is overwritten before. Returns what was only removed, as it is no file of the medium's own, with
    /// why.
    pub fn erase(self, secure: bool) -> Result<Vec<String>, DeviceError> {
        let (storage, path) = (self.medium.storage(), self.medium.path());
        let names = storage.list().map_err(io_error("list", path))?;
        let mut ours: Vec<String> =
            names.into_iter().filter(|n| crate::directory::is_our_name(n)).collect();
        // The last segments first, and the header after all others.
        ours.sort_by(|a, b| (a == HEADER_NAME, b).cmp(&(b == HEADER_NAME, a)));
        let mut left = Vec::new();
        for name in &ours {
            if secure {
                let place = Path::new(path).join(name).display().to_string();
                let dir = RealStorage::open(Path::new(path)).map_err(io_error("open", path))?;
                let why = overwrite(&dir, name).map_err(io_error("overwrite", &place))?;
                left.extend(why.map(|why| format!("{place} {why}")));
            }
            storage.remove(name).map_err(io_error("remove", &format!("{path}/{name}")))?;
        }
        storage.sync().map_err(io_error("synchronise", path))?;
        Ok(left)
    }
}

/// Overwrites what a file has with zeros, durably; holes have nothing. What is no file, or has another name that may lie anywhere,
/// is left as it is: says why.
fn overwrite(dir: &RealStorage, name: &str) -> std::io::Result<Option<&'static str>> {
    const CHUNK: usize = 1 << 20;
    let Some(mut file) = dir.open_to_overwrite(name)? else {
        return Ok(Some("is no regular file"));
    };
    if file.metadata()?.nlink() > 1 {
        return Ok(Some("has another name, by which its content stays"));
    }
    let zeros = vec![0; CHUNK];
    let mut at = 0;
    while let Some((from, to)) = data_behind(&file, at)? {
        file.seek(std::io::SeekFrom::Start(from))?;
        let mut left = to - from;
        while left > 0 {
            let here = left.min(CHUNK as u64);
            file.write_all(&zeros[..here as usize])?;
            left -= here;
        }
        at = to;
    }
    file.sync_all()?;
    Ok(None)
}

/// Lays a backup of the internal database into a medium's directory, under a name made from the time, and removes all but
/// the newest ones. It has its name only when it is durable.
pub fn write_idb_backup(dir: &Path, time_us: i64, bytes: &[u8]) -> Result<(), DeviceError> {
    let name = format!("{IDB_PREFIX}{:017}{IDB_SUFFIX}", time_us.max(0));
    let (temporary, place) = (dir.join(format!("{name}{PART}")), dir.join(&name));
    let write = || -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        durable::rename(&temporary, &place)
    };
    if let Err(e) = write() {
        let _ = std::fs::remove_file(&temporary);
        return Err(io_error("write", &place.display().to_string())(e));
    }
    let mut names = all_idb_backups(dir)?;
    let left = names.iter().filter(|n| n.ends_with(PART)).cloned().collect::<Vec<_>>();
    names.retain(|n| !n.ends_with(PART));
    for old in names.iter().rev().skip(IDB_BACKUPS_KEPT).chain(&left) {
        let path = dir.join(old);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(io_error("remove", &path.display().to_string())(e));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The names of the backups of internal databases in a directory, newest first.
pub fn idb_backups(dir: &Path) -> Result<Vec<String>, DeviceError> {
    let mut names = all_idb_backups(dir)?;
    names.retain(|n| !n.ends_with(PART));
    names.reverse();
    Ok(names)
}

/// When the backup of an internal database of that name was made, in microseconds since 1970.
pub fn idb_backup_time(name: &str) -> Option<i64> {
    name.strip_prefix(IDB_PREFIX)?.strip_suffix(IDB_SUFFIX)?.parse().ok()
}

/// Oldest first, with those being written.
fn all_idb_backups(dir: &Path) -> Result<Vec<String>, DeviceError> {
    let at = dir.display().to_string();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let list = || -> std::io::Result<Vec<String>> {
        let fd = rustix::fs::open(dir, flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in rustix::fs::Dir::read_from(&fd)? {
            let entry = entry?;
            names.extend(entry.file_name().to_str().ok().map(str::to_owned));
        }
        Ok(names)
    };
    let mut names = list().map_err(io_error("list", &at))?;
    names.retain(|n| is_idb_backup(n));
    names.sort_unstable();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_backups_of_a_database_stay() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("idb-00000000000000001.capstan.part"), "half").unwrap();
        for time in [5, 3, 9, 1_785_312_009_500_000] {
            write_idb_backup(dir.path(), time, &[time as u8]).unwrap();
        }
        let names = idb_backups(dir.path()).unwrap();
        let expected = ["idb-01785312009500000", "idb-00000000000000009", "idb-00000000000000005"];
        assert_eq!(names, expected.map(|n| format!("{n}.capstan")));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 3);
        assert!(names.iter().all(|n| crate::directory::is_our_name(n)));
        assert!(!is_idb_backup("idb-1.capstan"));
        assert_eq!(idb_backup_time(&names[0]), Some(1_785_312_009_500_000));
    }
}
