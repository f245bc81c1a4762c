//! Stores in memory, as a kind of store for tests: what is in them is gone with the process, and they fail when a test wants it.
//!
//! A store is there if a test put it there. No host has the kind by itself: a test gives it to one
//! ([`Kinds::and`](crate::host::Kinds::and)). Two hosts have the same stores only if they were given the same [`Memory`].

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::store::{Store, StoreKind};

mod faulty;
#[cfg(test)]
mod held_tests;

pub use faulty::FaultyStorage;

/// Stores in memory by their names. Clones are the same stores.
#[derive(Clone, Default)]
pub struct Memory(Arc<Mutex<HashMap<PathBuf, FaultyStorage>>>);

impl Memory {
    /// The store of a name, if it is there.
    pub fn get(&self, name: impl AsRef<Path>) -> Option<FaultyStorage> {
        self.0.lock().get(name.as_ref()).cloned()
    }

    /// Puts a store there.
    pub fn put(&self, name: impl Into<PathBuf>, store: FaultyStorage) {
        self.0.lock().insert(name.into(), store);
    }

    /// Takes a store away, as somebody takes out a disk.
    pub fn take(&self, name: impl AsRef<Path>) -> Option<FaultyStorage> {
        self.0.lock().remove(name.as_ref())
    }
}

impl StoreKind for Memory {
    fn open(&self, place: &Path) -> io::Result<Arc<dyn Store>> {
        match self.get(place) {
            Some(store) => Ok(Arc::new(store)),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn make(&self, place: &Path) -> io::Result<()> {
        match self.is_there(place) {
            true => Err(io::ErrorKind::AlreadyExists.into()),
            false => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn is_there(&self, place: &Path) -> bool {
        self.get(place).is_some()
    }
}
