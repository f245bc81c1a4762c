//! What a host has beside tapes in drives, each part a value: nothing here knows the host.

pub(crate) mod keys;
pub(crate) mod ledger;
mod library;
mod shared;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use capstan_address::{LibraryName, SpoolPlan, TapeAddress};
use capstan_medium::host::operator::OperatorRequests;
use capstan_medium::host::queue::Queue;
use capstan_medium::host::shared::Common;
use capstan_medium::host::waits::Waits;
use capstan_tape::StruckLog;
use capstan_tape::lock::Locks;
use parking_lot::Mutex;

use self::keys::Keys;
use self::ledger::Ledger;
use crate::scsi::Initiator;

/// What a host has beside tapes in drives.
pub(crate) struct HostState {
    pub waits: Waits,
    pub queue: Arc<Queue>,
    pub requests: Arc<OperatorRequests>,
    /// What it shares with other hosts, where it shares libraries.
    pub common: OnceLock<Arc<dyn Common>>,
    /// Tapes of arrays that lack what is read now, as they are recorded: they make nothing whole.
    pub incomplete: Mutex<HashSet<TapeAddress>>,
    pub ledger: Ledger,
    pub keys: Keys,
    /// The spool through which tapes are read that are loaded from now on; none where there is none.
    pub spool: Mutex<Option<SpoolPlan>>,
    /// The generations of the drives of libraries, which stay what they are.
    pub generations: Mutex<HashMap<LibraryName, Vec<Option<u8>>>>,
    pub struck: StruckLog,
    pub locks: Locks,
    pub scsi: Arc<Initiator>,
}

impl Default for HostState {
    fn default() -> Self {
        let (waits, locks) = (Waits::default(), Locks::default());
        Self {
            queue: Arc::new(Queue::counted_by(waits.clone())),
            requests: Arc::new(OperatorRequests::counted_by(waits.clone())),
            waits,
            common: OnceLock::new(),
            incomplete: Mutex::default(),
            ledger: Ledger::default(),
            keys: Keys::default(),
            spool: Mutex::default(),
            generations: Mutex::default(),
            struck: StruckLog::default(),
            scsi: Arc::new(Initiator::with(locks.clone())),
            locks,
        }
    }
}
