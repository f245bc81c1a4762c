//! Tapes in drives.
//!
//! [`Tapes`] are those that a host uses. [`mount`] gets a tape into a drive when it is first needed: [`bring`] has the robot bring it to a
//! drive that [fits](`fitting`), or [`by_hand`] waits until somebody has put it into a drive that stands alone. A [loaded drive](`loaded`)
//! is a drive with a tape in it, which has what [`passed`] by; several who read stay [`abreast`]. If a drive cannot read a tape,
//! [`another`] one tries. [`moves`] knows in which drives a tape was, [`doubts`] what is known against drives.

mod abreast;
mod another;
mod bring;
mod by_hand;
pub(crate) mod doubts;
pub(crate) mod fitting;
mod inside;
pub(crate) mod loaded;
pub(crate) mod mount;
pub(crate) mod moves;
pub(crate) mod passed;

pub(crate) use inside::InDrive;
pub use mount::{Tape, Trial};

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use capstan_format::block::BLOCK_SIZE_MAX;
use capstan_format::id::MediumId;
use capstan_medium::tape::Held;
use capstan_medium::tape::{DriveSession, TapeError};
use parking_lot::Mutex;

use self::doubts::Doubts;
use self::loaded::LoadedDrive;
use crate::state::HostState;
use capstan_address::{Address, LibraryName, TapeAddress};

type Key = (LibraryName, Option<String>, Option<MediumId>);
type Inventories = HashMap<LibraryName, (Instant, Vec<Held>)>;
/// For so long a library is not asked again: a list of media asks for each of them.
const INVENTORY_TIME: Duration = Duration::from_secs(2);
/// Of so many drives that were given back it is kept what they did.
const PAST_MOST: usize = 1000;

/// The longest block that a tape of ours has.
pub(crate) const LONGEST: usize = BLOCK_SIZE_MAX as usize;
/// The tape file with the medium's header.
pub(crate) const HEADER_FILE: u64 = 0;

/// The tapes that a host uses.
pub(crate) struct Tapes {
    /// What the host has beside them.
    pub state: Arc<HostState>,
    pub(crate) all: Mutex<HashMap<Key, Arc<Tape>>>,
    /// One tape of a library is loaded at a time: else two that take turns in one drive would take it from each other before it is
    /// used.
    pub(crate) loading: Mutex<HashMap<LibraryName, Arc<Mutex<()>>>>,
    /// Counts uses of tapes: the one that was used last longest ago makes room for others. An array's are used by turns, and would
    /// take the drives from each other.
    pub(crate) uses: AtomicU64,
    /// What is known against drives: other ones come first.
    pub(crate) doubts: Doubts,
    inventories: Mutex<Inventories>,
    /// What drives did since they were opened, of tapes that were read and given up.
    past: Mutex<Vec<DriveSession>>,
}

impl Tapes {
    /// None yet, of the host that has that.
    pub fn new(state: Arc<HostState>) -> Self {
        Self {
            state,
            all: Mutex::default(),
            loading: Mutex::default(),
            uses: AtomicU64::default(),
            doubts: Doubts::default(),
            inventories: Mutex::default(),
            past: Mutex::default(),
        }
    }

    pub(crate) fn all(&self) -> Vec<Arc<Tape>> {
        self.all.lock().values().cloned().collect()
    }

    /// The tapes of a medium that lie in libraries, as far as they were used.
    pub fn of(&self, medium: &Address) -> Vec<Arc<Tape>> {
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
    pub(crate) fn note_past(&self, mut loaded: LoadedDrive) {
        self.note_session(loaded.session());
    }

    /// What drives did, of tapes that were read and given up, since that was asked.
    pub fn take_past(&self) -> Vec<DriveSession> {
        std::mem::take(&mut *self.past.lock())
    }

    /// What those drives did that could not read a tape, which another one reads, since that was asked.
    pub fn take_suspects(&self) -> Vec<DriveSession> {
        self.past.lock().extract_if(.., |session| session.read_by.is_some()).collect()
    }

    /// Says of a tape no more that a drive could not read it and another one could.
    fn take_back(&self, barcode: &str) {
        let mut past = self.past.lock();
        let of = past.iter_mut().filter(|session| session.tape.as_deref() == Some(barcode));
        of.for_each(|session| session.read_by = None);
    }

    /// Keeps what a drive did that was given back.
    pub(crate) fn note_session(&self, session: DriveSession) {
        let mut past = self.past.lock();
        if past.len() < PAST_MOST {
            past.push(session);
        }
    }

    /// Gives back the drives of all tapes that are not used just now.
    pub(crate) fn give_back_idle(&self) {
        self.all().iter().for_each(|tape| tape.give_back(true));
    }

    /// Gives back the drives of a library's tapes that were written and are no more: the next one is better off there than in a drive
    /// against which something is known.
    fn give_back_left(&self, library: &LibraryName) {
        let mut left = self.all();
        left.retain(|tape| tape.library == *library && tape.moves.is_left());
        left.iter().for_each(|tape| tape.give_back(false));
    }

    /// Whether the host writes with every drive of a library: there is none to wait for.
    pub fn has_all_drives(&self, library: &LibraryName) -> bool {
        let all = self.all();
        let written = |tape: &&Arc<Tape>| tape.library == *library && tape.pinned.load(Relaxed);
        let written = all.iter().filter(written).count();
        written > 0
            && self.state.library(library).is_ok_and(|l| l.elements().drives as usize <= written)
    }

    /// What lies in a library, by place, as it was at most two seconds ago.
    pub fn inventory(&self, name: &LibraryName) -> Result<Vec<Held>, TapeError> {
        let mut known = self.inventories.lock();
        known.retain(|_, (asked, _)| asked.elapsed() < INVENTORY_TIME);
        if let Some((_, held)) = known.get(name) {
            return Ok(held.clone());
        }
        let held = self.state.library(name)?.inventory()?;
        known.insert(name.clone(), (Instant::now(), held.clone()));
        Ok(held)
    }

    /// Has the next who asks what lies in a library look there.
    pub fn look_again(&self, name: &LibraryName) {
        self.inventories.lock().remove(name);
    }

    /// Forgets all tapes. Those that somebody has open stay in their drives for him.
    pub fn forget(&self) {
        // Drives are given back as this ends, not under the lock.
        let _all = std::mem::take(&mut *self.all.lock());
    }
}
