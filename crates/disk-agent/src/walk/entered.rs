//! Directories that change while they are walked: one whose contents are backed up has a row of its own, too.
//!
//! The walk enters a directory by its name, and a stream makes its row by its name, at another time: it may be moved in
//! between. Whoever comes second knows here what the first one found.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::fs::Stat;

use crate::linux::source::DirHandle;

/// What walk and stream know of a directory.
#[derive(Debug, Default)]
pub struct Entered(Mutex<State>);

#[derive(Debug, Default)]
enum State {
    /// It was listed.
    #[default]
    Listed,
    /// Its stream did not find it.
    NotFound,
    /// It was entered.
    Entered(Box<Found>),
}

/// A directory as it was entered.
#[derive(Debug, Clone)]
pub struct Found {
    /// It is open as long as names in it are at hand: nothing else may hold it, there may be many.
    pub dir: Weak<DirHandle>,
    /// What stat said of it.
    pub stat: Stat,
}

impl Entered {
    /// The walk enters it. Whether its stream did not find it before.
    pub(crate) fn enter(&self, dir: &Arc<DirHandle>, stat: Stat) -> bool {
        let found = Found { dir: Arc::downgrade(dir), stat };
        let before = std::mem::replace(&mut *self.0.lock(), State::Entered(Box::new(found)));
        matches!(before, State::NotFound)
    }

    /// Its stream does not find it. What was found where it was entered; if it was not, and will be, it is dealt again.
    pub(crate) fn not_found(&self) -> Option<Found> {
        let mut state = self.0.lock();
        if let State::Entered(found) = &*state {
            return Some((**found).clone());
        }
        *state = State::NotFound;
        None
    }
}
