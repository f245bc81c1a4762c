//! A directory in memory that loses what was not synchronised: the stand-in for a power cut, for tests.
//!
//! After a given number of operations the power fails: every operation is an error from then on. [`FaultyStorage::after_crash`]
//! then gives what a real disk may hold: synchronised bytes and names for certain; of the others any prefix of the
//! directory's changes, and of unsynchronised file contents any part, torn at any sector.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::sync::Arc;

use capstan_medium::DeviceError;
use capstan_medium::held::Lock;
use capstan_medium::storage::{ReadFile, Storage, WriteFile};
use parking_lot::{Condvar, Mutex, MutexGuard};

use crate::store::Store;

const SECTOR: usize = 512;

#[derive(Clone, Default)]
struct Contents {
    bytes: Vec<u8>,
    durable: usize,
}

#[derive(Clone)]
enum NameChange {
    Create(String, u64),
    Rename(String, String),
    Remove(String),
}

#[derive(Default)]
struct Disk {
    files: HashMap<u64, Contents>,
    names: BTreeMap<String, u64>,
    durable_names: BTreeMap<String, u64>,
    pending: Vec<NameChange>,
    next_id: u64,
    operations: u64,
    power_fails_at: Option<u64>,
    full_at: Option<u64>,
    written: u64,
    /// Somebody makes a medium, and somebody writes to it.
    is_made: bool,
    is_written: bool,
}

impl Disk {
    fn operate(&mut self) -> io::Result<()> {
        self.operations += 1;
        match self.power_fails_at {
            Some(at) if self.operations > at => Err(io::Error::other("the power has failed")),
            _ => Ok(()),
        }
    }
}

fn apply(names: &mut BTreeMap<String, u64>, change: &NameChange) {
    match change {
        NameChange::Create(name, id) => {
            names.insert(name.clone(), *id);
        }
        NameChange::Rename(from, to) => {
            if let Some(id) = names.remove(from) {
                names.insert(to.clone(), id);
            }
        }
        NameChange::Remove(name) => {
            names.remove(name);
        }
    }
}

/// A directory in memory with a power switch.
#[derive(Clone, Default)]
pub struct FaultyStorage(Arc<Shared>);

#[derive(Default)]
struct Shared {
    disk: Mutex<Disk>,
    /// Notified when nobody makes a medium any more.
    made: Condvar,
}

impl FaultyStorage {
    /// A directory whose power fails after `operations` operations (creating, appending, synchronising, renaming,
    /// removing), or never.
    pub fn new(operations: Option<u64>) -> Self {
        let storage = Self::default();
        storage.disk().power_fails_at = operations;
        storage
    }

    /// Lets the power fail after `operations` more operations.
    pub fn fail_after(&self, operations: u64) {
        let mut disk = self.disk();
        disk.power_fails_at = Some(disk.operations + operations);
    }

    /// Lets the disk be full after `bytes` more bytes.
    pub fn full_after(&self, bytes: u64) {
        let mut disk = self.disk();
        disk.full_at = Some(disk.written + bytes);
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.0.disk.lock()
    }

    /// Operations done so far.
    pub fn operations(&self) -> u64 {
        self.disk().operations
    }

    /// What the disk holds once power is back; `random` draws a number below its argument.
    pub fn after_crash(&self, random: &mut dyn FnMut(u64) -> u64) -> Self {
        let disk = self.disk();
        let mut names = disk.durable_names.clone();
        let kept = random(disk.pending.len() as u64 + 1) as usize;
        disk.pending[..kept].iter().for_each(|c| apply(&mut names, c));
        let mut files = HashMap::new();
        for id in names.values() {
            let mut contents = disk.files.get(id).cloned().unwrap_or_default();
            let unsynced = contents.bytes.len() - contents.durable;
            if unsynced > 0 {
                let keep = contents.durable + random(unsynced as u64 + 1) as usize;
                // The length may be there without the bytes.
                if random(2) == 0 {
                    contents.bytes.truncate(keep);
                } else {
                    contents.bytes[keep..].fill(0);
                }
                let from = contents.durable.next_multiple_of(SECTOR);
                for sector in contents.bytes.get_mut(from..).unwrap_or_default().chunks_mut(SECTOR)
                {
                    if random(4) == 0 {
                        sector.fill(0);
                    }
                }
            }
            contents.durable = contents.bytes.len();
            files.insert(*id, contents);
        }
        let next_id = disk.next_id;
        let durable_names = names.clone();
        let disk = Disk { files, durable_names, names, next_id, ..Disk::default() };
        Self(Arc::new(Shared { disk: Mutex::new(disk), made: Condvar::default() }))
    }
}

/// A lock, until this is dropped.
struct Locked {
    storage: FaultyStorage,
    is_of_making: bool,
}

impl Drop for Locked {
    fn drop(&mut self) {
        let mut disk = self.storage.disk();
        match self.is_of_making {
            true => disk.is_made = false,
            false => disk.is_written = false,
        }
        self.storage.0.made.notify_all();
    }
}

impl Store for FaultyStorage {
    fn lock_making(&self) -> io::Result<Lock> {
        let mut disk = self.disk();
        self.0.made.wait_while(&mut disk, |disk| disk.is_made);
        disk.is_made = true;
        Ok(Arc::new(Locked { storage: self.clone(), is_of_making: true }))
    }

    fn lock_header(&self, at: &str) -> Result<Lock, DeviceError> {
        let mut disk = self.disk();
        if std::mem::replace(&mut disk.is_written, true) {
            let holder = "a session of this process".to_owned();
            return Err(DeviceError::Busy { path: at.to_owned(), holder });
        }
        Ok(Arc::new(Locked { storage: self.clone(), is_of_making: false }))
    }
}

impl Storage for FaultyStorage {
    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        let mut disk = self.disk();
        disk.operate()?;
        if disk.names.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let id = disk.next_id;
        disk.next_id += 1;
        disk.files.insert(id, Contents::default());
        disk.names.insert(name.to_owned(), id);
        disk.pending.push(NameChange::Create(name.to_owned(), id));
        Ok(Box::new(FaultyWriteFile { storage: self.clone(), id }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        let disk = self.disk();
        let id = disk.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Box::new(FaultyReadFile(disk.files.get(id).cloned().unwrap_or_default().bytes)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.operate()?;
        if disk.names.contains_key(to) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let change = NameChange::Rename(from.to_owned(), to.to_owned());
        apply(&mut disk.names, &change);
        disk.pending.push(change);
        Ok(())
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.operate()?;
        let change = NameChange::Rename(from.to_owned(), to.to_owned());
        apply(&mut disk.names, &change);
        disk.pending.push(change);
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.operate()?;
        if !disk.names.contains_key(name) {
            return Err(io::ErrorKind::NotFound.into());
        }
        let change = NameChange::Remove(name.to_owned());
        apply(&mut disk.names, &change);
        disk.pending.push(change);
        Ok(())
    }

    fn empty(&self, name: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.operate()?;
        let id = *disk.names.get(name).ok_or(io::ErrorKind::NotFound)?;
        disk.files.insert(id, Contents::default());
        Ok(())
    }

    fn list(&self) -> io::Result<Vec<String>> {
        Ok(self.disk().names.keys().cloned().collect())
    }

    fn sync(&self) -> io::Result<()> {
        let mut disk = self.disk();
        disk.operate()?;
        disk.durable_names = disk.names.clone();
        disk.pending.clear();
        Ok(())
    }
}

struct FaultyWriteFile {
    storage: FaultyStorage,
    id: u64,
}

impl WriteFile for FaultyWriteFile {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let mut disk = self.storage.disk();
        disk.operate()?;
        if disk.full_at.is_some_and(|at| disk.written + bytes.len() as u64 > at) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        disk.written += bytes.len() as u64;
        if let Some(contents) = disk.files.get_mut(&self.id) {
            contents.bytes.extend_from_slice(bytes);
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut disk = self.storage.disk();
        disk.operate()?;
        if let Some(contents) = disk.files.get_mut(&self.id) {
            contents.durable = contents.bytes.len();
        }
        Ok(())
    }
}

struct FaultyReadFile(Vec<u8>);

impl ReadFile for FaultyReadFile {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let n = out.len().min(self.0.len() - from);
        out[..n].copy_from_slice(&self.0[from..from + n]);
        Ok(n)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_synchronised_is_certain() {
        let storage = FaultyStorage::new(Some(7));
        let mut a = storage.create("a").unwrap();
        a.append(&[1; 1000]).unwrap();
        a.sync().unwrap();
        storage.sync().unwrap();
        storage.create("b").unwrap();
        a.append(&[2; 1000]).unwrap();
        storage.remove("a").unwrap();
        assert!(storage.remove("b").is_err(), "the power has failed");
        let zero = storage.after_crash(&mut |_| 0);
        assert_eq!(zero.list().unwrap(), ["a"]);
        let mut out = [0; 3000];
        let n = zero.open("a").unwrap().read_at(&mut out, 0).unwrap();
        assert_eq!((n, &out[..1000]), (1000, &[1; 1000][..]));
        let most = storage.after_crash(&mut |n| n - 1);
        assert_eq!(most.list().unwrap(), ["b"]);
    }
}
