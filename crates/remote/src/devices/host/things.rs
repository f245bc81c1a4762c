//! What a host has opened for a cell, by numbers.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use capstan_medium::host::tapes::Trial;
use capstan_medium::host::{OpenArray, Writable};
use capstan_medium::storage::{ReadFile, WriteFile};
use capstan_medium::tape::TapeLibrary;
use capstan_medium::{Device, HeldMedium, OpenMedium};
use capstan_port::media::read::segment::ReadSegment;
use parking_lot::Mutex;

use crate::devices::message::Kind;

/// What one thread at a time uses.
pub type Alone<T> = Arc<Mutex<Option<T>>>;

/// Things of one kind.
pub struct Table<T> {
    next: AtomicU64,
    is_closed: AtomicBool,
    things: Mutex<HashMap<u64, T>>,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        let (next, is_closed) = (AtomicU64::new(1), AtomicBool::new(false));
        Self { next, is_closed, things: Mutex::default() }
    }
}

impl<T> Table<T> {
    /// Keeps something. Where the connection has ended it is dropped at once.
    pub fn put(&self, thing: T) -> u64 {
        let number = self.next.fetch_add(1, Relaxed);
        let mut things = self.things.lock();
        if !self.is_closed.load(Relaxed) {
            things.insert(number, thing);
        }
        number
    }

    /// Takes something out.
    pub fn take(&self, number: u64) -> Option<T> {
        self.things.lock().remove(&number)
    }

    fn close(&self) {
        let mut things = self.things.lock();
        self.is_closed.store(true, Relaxed);
        let all = std::mem::take(&mut *things);
        // What is dropped may take its time.
        drop(things);
        drop(all);
    }
}

impl<T: Clone> Table<T> {
    /// Something, while it stays.
    pub fn get(&self, number: u64) -> Option<T> {
        self.things.lock().get(&number).cloned()
    }
}

impl<T> Table<Alone<T>> {
    /// Keeps something that one thread at a time uses.
    pub fn put_alone(&self, thing: T) -> u64 {
        self.put(Arc::new(Mutex::new(Some(thing))))
    }

    /// Uses it.
    pub fn with<R>(&self, number: u64, run: impl FnOnce(&mut T) -> R) -> Option<R> {
        let thing = self.get(number)?;
        let mut thing = thing.lock();
        thing.as_mut().map(run)
    }

    /// Takes it out, when nobody uses it any more.
    pub fn take_alone(&self, number: u64) -> Option<T> {
        self.take(number).and_then(|thing| thing.lock().take())
    }
}

/// All that a host has opened for a cell.
#[derive(Default)]
pub struct Things {
    pub media: Table<OpenMedium>,
    pub held: Table<Arc<HeldMedium>>,
    pub files: Table<Arc<dyn ReadFile>>,
    pub new_files: Table<Alone<Box<dyn WriteFile>>>,
    pub writables: Table<Alone<Box<dyn Writable>>>,
    pub devices: Table<Alone<Box<dyn Device>>>,
    pub arrays: Table<Alone<Box<dyn OpenArray>>>,
    pub locks: Table<Box<dyn Send>>,
    pub libraries: Table<Alone<Box<dyn TapeLibrary>>>,
    pub trials: Table<Box<dyn Trial>>,
    pub segments: Table<Arc<dyn ReadSegment>>,
}

impl Things {
    /// Drops one.
    pub fn drop_one(&self, kind: Kind, number: u64) {
        match kind {
            Kind::Medium => drop(self.media.take(number)),
            Kind::Held => drop(self.held.take(number)),
            Kind::File => drop(self.files.take(number)),
            Kind::NewFile => drop(self.new_files.take_alone(number)),
            Kind::Writable => drop(self.writables.take_alone(number)),
            Kind::Device => drop(self.devices.take_alone(number)),
            Kind::Array => drop(self.arrays.take_alone(number)),
            Kind::Lock => drop(self.locks.take(number)),
            Kind::Library => drop(self.libraries.take_alone(number)),
            Kind::Trial => drop(self.trials.take(number)),
            Kind::Segment => drop(self.segments.take(number)),
        }
    }

    /// Drops all, and keeps nothing more.
    pub fn close(&self) {
        self.new_files.close();
        self.devices.close();
        self.writables.close();
        self.arrays.close();
        self.segments.close();
        self.files.close();
        self.held.close();
        self.media.close();
        self.trials.close();
        self.libraries.close();
        self.locks.close();
    }
}
