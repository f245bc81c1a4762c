//! The device host: all that is known of drives, tapes and robots while they are used, as one value.
//!
//! Whoever opens a medium, a library or a drive opens it at a host. Its clones are the same host. Two hosts share nothing: each has
//! its own drives, and to the other they are as those of another process.
//!
//! Its parts stand where their subjects are: [`crate::operator`] and [`crate::queue`] for what is waited for, [`crate::tape`] for tapes
//! in drives, [`crate::open`] for media.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use capstan_tape::lock::Locks;
use capstan_tape::{Struck, StruckLog};
use parking_lot::Mutex;

use crate::address::TapeAddress;
use crate::operator::OperatorRequests;
use crate::queue::Queue;
use crate::scsi::Initiator;
use crate::shared::Common;
use crate::tape::{Generations, Keys, Ledger, ReadSpool, Tapes};
use crate::waits::Waits;

/// A device host. Clones are the same host. With the last one go the drives of all tapes that nobody has open.
#[derive(Clone, Default)]
pub struct DeviceHost(Arc<Owner>);

/// Owns what the tapes of the host refer to: these would else keep each other for ever.
#[derive(Default)]
struct Owner(Arc<Core>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.tapes.forget();
    }
}

/// What a host has.
pub(crate) struct Core {
    pub waits: Waits,
    pub queue: Arc<Queue>,
    pub requests: Arc<OperatorRequests>,
    /// What it shares with other hosts, where it shares libraries.
    pub common: OnceLock<Arc<dyn Common>>,
    pub tapes: Tapes,
    /// Tapes of arrays that lack what is read now, as they are recorded: they make nothing whole.
    pub incomplete: Mutex<HashSet<TapeAddress>>,
    pub ledger: Ledger,
    pub keys: Keys,
    pub spool: ReadSpool,
    pub generations: Generations,
    pub struck: StruckLog,
    pub locks: Locks,
    pub scsi: Arc<Initiator>,
}

impl Default for Core {
    fn default() -> Self {
        let (waits, locks) = (Waits::default(), Locks::default());
        Self {
            queue: Arc::new(Queue::counted_by(waits.clone())),
            requests: Arc::new(OperatorRequests::counted_by(waits.clone())),
            waits,
            common: OnceLock::new(),
            tapes: Tapes::default(),
            incomplete: Mutex::default(),
            ledger: Ledger::default(),
            keys: Keys::default(),
            spool: ReadSpool::default(),
            generations: Generations::default(),
            struck: StruckLog::default(),
            scsi: Arc::new(Initiator::with(locks.clone())),
            locks,
        }
    }
}

impl DeviceHost {
    /// The planned faults that struck in its virtual libraries since that was asked last.
    pub fn take_struck(&self) -> Vec<Struck> {
        self.core().struck.take()
    }

    /// Of these tapes of an array those that are `incomplete` lack what is read of it from now on: who waits for enough of its tapes
    /// does not count them.
    pub fn set_incomplete(&self, tapes: &[TapeAddress], incomplete: &[TapeAddress]) {
        let mut known = self.core().incomplete.lock();
        for tape in tapes {
            known.remove(&tape.recorded());
        }
        known.extend(incomplete.iter().map(TapeAddress::recorded));
    }

    /// Whether a tape lacks what is read now of its array.
    pub fn is_incomplete(&self, tape: &TapeAddress) -> bool {
        let known = self.core().incomplete.lock();
        !known.is_empty() && known.contains(&tape.recorded())
    }

    pub(crate) fn core(&self) -> &Arc<Core> {
        &self.0.0
    }
}

impl std::fmt::Debug for DeviceHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeviceHost")
    }
}
