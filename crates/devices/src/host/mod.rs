//! The device host: all that is known of drives, tapes and robots while they are used, as one value.
//!
//! Whoever opens a medium, a library or a drive opens it at a host. Its clones are the same host. Two hosts share nothing: each has
//! its own drives, and to the other they are as those of another process.
//!
//! A host has its [`crate::state`] and its tapes in [`crate::drives`]. [`library`] opens libraries, [`tapes`] says what is done with all tapes.
//! [`crate::open`] opens media.

pub mod library;
mod tapes;

use std::sync::Arc;

use capstan_address::{SpoolPlan, TapeAddress};
use capstan_format::id::MediumId;
use capstan_format::keys::Key32;
use capstan_medium::DeviceError;
use capstan_medium::error::io_error;
use capstan_medium::tape::Struck;

use crate::drives::{Tapes, nameless};
use crate::scsi::Reconnects;
use crate::state::HostState;
use crate::state::ledger::{Exported, Keep, Recorded};
use crate::state::operator::OperatorRequests;
use crate::state::queue::Queue;
use crate::state::shared::Common;
use crate::state::waits::Waits;

/// A device host. Clones are the same host. With the last one go the drives of all tapes that nobody has open.
#[derive(Clone, Default)]
pub struct DeviceHost(Arc<Owner>);

/// Owns what the tapes of the host refer to: these would else keep each other for ever.
struct Owner(Arc<Tapes>);

impl Default for Owner {
    fn default() -> Self {
        Self(Arc::new(Tapes::new(Arc::default())))
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.forget();
    }
}

impl DeviceHost {
    /// The planned faults that struck in its virtual libraries since that was asked last.
    pub fn take_struck(&self) -> Vec<Struck> {
        self.state().struck.take()
    }

    /// Of these tapes of an array those that are `incomplete` lack what is read of it from now on: who waits for enough of its tapes
    /// does not count them.
    pub fn set_incomplete(&self, tapes: &[TapeAddress], incomplete: &[TapeAddress]) {
        let mut known = self.state().incomplete.lock();
        for tape in tapes {
            known.remove(&tape.recorded());
        }
        known.extend(incomplete.iter().map(TapeAddress::recorded));
    }

    /// Whether a tape lacks what is read now of its array.
    pub fn is_incomplete(&self, tape: &TapeAddress) -> bool {
        let known = self.state().incomplete.lock();
        !known.is_empty() && known.contains(&tape.recorded())
    }

    /// Who is asked for tapes.
    pub fn operator(&self) -> &Arc<OperatorRequests> {
        &self.state().requests
    }

    /// Its waits for what others have.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.state().queue
    }

    /// How long it waited for hands, robots and others.
    pub fn waits(&self) -> &Waits {
        &self.state().waits
    }

    /// Says what it shares with other hosts. The first one stays.
    pub fn share_with(&self, common: Arc<dyn Common>) {
        let _ = self.state().common.set(common);
    }

    /// Says who keeps what happens to its tapes. The first one stays.
    pub fn keep_with(&self, keep: Box<Keep>) {
        self.state().ledger.keep_with(keep);
    }

    /// Says who knows what is on record against drives. The first one stays.
    pub fn doubt_drives_by(&self, recorded: Box<Recorded>) {
        self.state().ledger.doubt_drives_by(recorded);
    }

    /// Says who knows which tapes are exported by record. The first one stays.
    pub fn know_exported_by(&self, recorded: Box<Exported>) {
        self.state().ledger.know_exported_by(recorded);
    }

    /// Makes the contents key of a medium's key record known to all who read and write its tapes at this host.
    pub fn open_key(&self, medium: MediumId, contents: Key32) {
        self.state().keys.open(medium, contents);
    }

    /// Whether the key of a medium is open.
    pub fn has_key(&self, medium: MediumId) -> bool {
        self.state().keys.has(medium)
    }

    /// Gives the secret of iSCSI logins, once: a program that runs commands does not leave it in its environment.
    pub fn give_secret(&self, secret: &str) {
        self.state().scsi.give_secret(secret);
    }

    /// Says what is done about connections that were lost, once; without that they are tried for two minutes.
    pub fn reconnect_as(&self, reconnects: Reconnects) {
        self.state().scsi.reconnect_as(reconnects);
    }

    /// Tells all drives what was not told, at the end of the process. A drive with our key is waited for, some minutes at most. `say`
    /// gets what is worth knowing, in sentences.
    pub fn settle(&self, say: &dyn Fn(&str)) {
        self.state().scsi.settle(say);
    }

    /// Has tapes that are loaded from now on read through a spool; or, with none, no more.
    pub fn read_through(&self, plan: Option<SpoolPlan>) -> Result<(), DeviceError> {
        if let Some(plan) = &plan {
            // Said before anything is read; a spool that fills the disk later is done without.
            nameless(&plan.dir)
                .map_err(io_error("make the spool in", &plan.dir.display().to_string()))?;
        }
        *self.state().spool.lock() = plan;
        Ok(())
    }

    pub(crate) fn state(&self) -> &HostState {
        &self.0.0.state
    }

    pub(crate) fn tapes(&self) -> &Arc<Tapes> {
        &self.0.0
    }
}

impl std::fmt::Debug for DeviceHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("DeviceHost")
    }
}
