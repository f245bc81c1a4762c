//! Bulk data over connections of their own: blocks of a backup, stored frames of a restore (`wire::data` has the rules).
//!
//! - [`blocks`]: blocks of a backup.
//! - [`frames`]: stored frames of a restore.
//! - [`registry`]: hands a connection that came in to the call that waits for it.
//! - `link`: one connection, its messages.

pub mod blocks;
#[cfg(test)]
mod cut;
pub mod frames;
mod link;
pub mod registry;

use std::io;
use std::sync::Arc;

use capstan_wire::data::Reach;

use self::registry::Registry;
use crate::transport::Transport;

/// Dials where something is reached. Nothing is said on the connection yet.
pub type Dial = dyn Fn(&Reach) -> io::Result<Transport> + Send + Sync;

/// Dials a registry of this process: for tests, and for a cell that has agents in its own process behind connections.
pub fn dial_here(registry: &Arc<Registry>) -> Arc<Dial> {
    let registry = registry.clone();
    Arc::new(move |_| {
        let (here, there) = Transport::pair()?;
        registry.admit_beside(there).map_err(io::Error::other)?;
        Ok(here)
    })
}
