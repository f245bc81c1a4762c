//! The tapes that a host uses, and what it does with all of them: gives their drives back, tells what these did.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use capstan_format::id::MediumId;
use capstan_tape::changer::Held;
use capstan_tape::{DriveSession, TapeError};
use parking_lot::Mutex;

use super::deck::Deck;
use super::mount::Tape;
use crate::address::{Address, LibraryName, TapeAddress};
use crate::host::{Core, DeviceHost};

type Key = (LibraryName, Option<String>, Option<MediumId>);
type Inventories = HashMap<LibraryName, (Instant, Vec<Held>)>;
/// For so long a library is not asked again: a list of media asks for each of them.
const INVENTORY_TIME: Duration = Duration::from_secs(2);
/// Of so many drives that were given back it is kept what they did.
const PAST_MOST: usize = 1000;

/// The tapes that a host uses.
#[derive(Default)]
pub(crate) struct Tapes {
    pub(super) all: Mutex<HashMap<Key, Arc<Tape>>>,
    /// One tape of a library is loaded at a time: else two that take turns in one drive would take it from each other before it is
    /// used.
    pub(super) loading: Mutex<HashMap<LibraryName, Arc<Mutex<()>>>>,
    /// Counts uses of tapes: the one that was used last longest ago makes room for others. An array's are used by turns, and would
    /// take the drives from each other.
    pub(super) uses: AtomicU64,
    /// Drives that failed while a tape was read in them: other ones come first.
    pub(super) failed: Mutex<Vec<(LibraryName, u32)>>,
    inventories: Mutex<Inventories>,
    /// What drives did since they were opened, of tapes that were read and given up.
    past: Mutex<Vec<DriveSession>>,
}

impl Tapes {
    pub(super) fn all(&self) -> Vec<Arc<Tape>> {
        self.all.lock().values().cloned().collect()
    }

    /// The tapes of a medium that lie in libraries, as far as they were used.
    fn of(&self, medium: &Address) -> Vec<Arc<Tape>> {
        let mut tapes: Vec<_> = medium.tapes().iter().map(TapeAddress::resolved).collect();
        tapes.retain(|tape| tape.tape.is_some());
        let is_of = |tape: &Arc<Tape>| {
            tapes.iter().any(|of| (&of.library, &of.tape) == (&tape.library, &tape.barcode))
        };
        let mut all = self.all();
        all.retain(is_of);
        all
    }

    /// Gives a drive back, and keeps what it did.
    pub(super) fn note_past(&self, mut deck: Deck) {
        self.note_session(deck.session());
    }

    /// Keeps what a drive did that was given back.
    pub(super) fn note_session(&self, session: DriveSession) {
        let mut past = self.past.lock();
        if past.len() < PAST_MOST {
            past.push(session);
        }
    }

    /// Gives back the drives of all tapes that are not used just now.
    pub(crate) fn give_back_idle(&self) {
        self.all().iter().for_each(|tape| tape.give_back(true));
    }

    /// Forgets all tapes. Those that somebody has open stay in their drives for him.
    pub fn forget(&self) {
        // Drives are given back as this ends, not under the lock.
        let _all = std::mem::take(&mut *self.all.lock());
    }
}

impl DeviceHost {
    fn tapes(&self) -> &Tapes {
        &self.core().tapes
    }

    /// What lies in a library, by place, as it was at most two seconds ago.
    pub fn inventory(&self, name: &LibraryName) -> Result<Vec<Held>, TapeError> {
        let mut known = self.tapes().inventories.lock();
        known.retain(|_, (asked, _)| asked.elapsed() < INVENTORY_TIME);
        if let Some((_, held)) = known.get(name) {
            return Ok(held.clone());
        }
        let held = self.library(name)?.inventory()?;
        known.insert(name.clone(), (Instant::now(), held.clone()));
        Ok(held)
    }

    /// The same, as it is now.
    pub fn inventory_now(&self, name: &LibraryName) -> Result<Vec<Held>, TapeError> {
        self.look_again(name);
        self.inventory(name)
    }

    /// Has the next who asks what lies in a library look there.
    pub(crate) fn look_again(&self, name: &LibraryName) {
        self.tapes().inventories.lock().remove(name);
    }

    /// Gives back the drives of all tapes that are not being written; the tapes stay in them.
    pub fn release_idle(&self) {
        let all = self.tapes().all();
        for tape in all.iter().filter(|tape| !tape.pinned.load(Relaxed)) {
            if let Some(mut deck) = tape.deck.try_lock() {
                *deck = None;
            }
        }
    }

    /// Gives back the drives of a medium's tapes that this session has read as far as it needs them; the tapes stay in them. What is
    /// just read, or written, stays this host's.
    pub fn done_reading(&self, medium: &Address) {
        self.tapes().of(medium).iter().for_each(|tape| tape.give_back(true));
    }

    /// The same of a medium that this session has written as far as it does.
    pub fn done_writing(&self, medium: &Address) {
        self.tapes().of(medium).iter().for_each(|tape| tape.give_back(false));
    }

    /// Whether it writes with every drive of a library: there is none to wait for.
    pub fn has_all_drives(&self, library: &LibraryName) -> bool {
        self.core().has_all_drives(library)
    }

    /// What the drives did that tapes are read in, or did since that was asked.
    pub fn take_sessions(&self) -> Vec<DriveSession> {
        let mut sessions = std::mem::take(&mut *self.tapes().past.lock());
        let all = self.tapes().all();
        for tape in all.iter().filter(|tape| !tape.pinned.load(Relaxed)) {
            sessions.extend(tape.deck.lock().as_mut().map(Deck::session));
        }
        sessions
    }

    /// Takes the tape out of a drive that stands alone; the host gives the drive up, if it does not write there.
    pub fn eject(&self, address: &TapeAddress) -> Result<(), TapeError> {
        let library = address.resolved().library;
        let all = self.tapes().all();
        let idle = |tape: &&Arc<Tape>| tape.library == library && !tape.pinned.load(Relaxed);
        all.iter().filter(idle).for_each(|tape| *tape.deck.lock() = None);
        self.library(&library)?.unload_drive(address.drive.unwrap_or(1))
    }
}

impl Core {
    pub(super) fn has_all_drives(&self, library: &LibraryName) -> bool {
        let all = self.tapes.all();
        let written = |tape: &&Arc<Tape>| tape.library == *library && tape.pinned.load(Relaxed);
        let written = all.iter().filter(written).count();
        written > 0 && self.library(library).is_ok_and(|l| l.elements().drives as usize <= written)
    }
}
