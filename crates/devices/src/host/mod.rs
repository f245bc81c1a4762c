//! The device host: all that is known of drives, tapes and robots while they are used, as one value.
//!
//! Whoever opens a medium, a library or a drive opens it at a host. Its clones are the same host. Two hosts share nothing: each has
//! its own drives, and to the other they are as those of another process.
//!
//! A host has its [`crate::state`], its tapes in [`crate::drives`] and its [`kinds`] of stores. [`library`] opens libraries. What it does for a cell is in
//! [`crate::port`].

mod kinds;
mod library;

use std::sync::Arc;

use capstan_address::StoreAddress;
use capstan_medium::DeviceError;
use capstan_medium::host::DeviceHost;
use capstan_medium::host::operator::OperatorRequests;
use capstan_medium::host::queue::Queue;
use capstan_medium::host::waits::Waits;

use crate::drives::Tapes;
use crate::scsi::Reconnects;
use crate::state::HostState;
use crate::store::Site;

pub use self::kinds::Kinds;

/// A device host. Clones are the same host. With the last one go the drives of all tapes that nobody has open.
#[derive(Clone, Default)]
pub struct LocalDevices(Arc<Owner>);

/// Owns what the tapes of the host refer to: these would else keep each other for ever.
#[derive(Default)]
struct Owner {
    tapes: OwnTapes,
    stores: Kinds,
}

struct OwnTapes(Arc<Tapes>);

impl Default for OwnTapes {
    fn default() -> Self {
        Self(Arc::new(Tapes::new(Arc::default())))
    }
}

impl Drop for OwnTapes {
    fn drop(&mut self) {
        self.0.forget();
    }
}

impl LocalDevices {
    /// A host with these kinds of stores.
    pub fn with(stores: Kinds) -> Self {
        Self(Arc::new(Owner { stores, ..Owner::default() }))
    }

    /// A store, if it is of a kind that this host has.
    pub(crate) fn site(&self, store: &StoreAddress) -> Result<Site, DeviceError> {
        self.0.stores.site(store)
    }

    /// Gives the secret of iSCSI logins, once: a program that runs commands does not leave it in its environment.
    pub fn give_secret(&self, secret: &str) {
        self.state().scsi.give_secret(secret);
    }

    /// Says what is done about connections that were lost, once; without that they are tried for two minutes.
    pub fn reconnect_as(&self, reconnects: Reconnects) {
        self.state().scsi.reconnect_as(reconnects);
    }

    pub(crate) fn state(&self) -> &HostState {
        &self.0.tapes.0.state
    }

    pub(crate) fn tapes(&self) -> &Arc<Tapes> {
        &self.0.tapes.0
    }
}

impl DeviceHost for LocalDevices {
    fn settle(&self, say: &dyn Fn(&str)) {
        self.state().scsi.settle(say);
    }

    fn operator(&self) -> &Arc<OperatorRequests> {
        &self.state().requests
    }

    fn queue(&self) -> &Arc<Queue> {
        &self.state().queue
    }

    fn waits(&self) -> &Waits {
        &self.state().waits
    }
}

impl std::fmt::Debug for LocalDevices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LocalDevices")
    }
}
