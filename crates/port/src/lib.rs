//! The ports between cell and agents: traits, with values of `wire` and streams. What is behind a port may be in this process or on
//! another host.
//!
//! A port's methods take and give values, which a network can carry, and streams: rows that are pushed in their order, frames and
//! blocks. No method is called for each name or each file and waited for. What both sides share within a process (meters, the ladder of
//! compression, the flag that ends a session) is filled or read by events and requests where a network lies between.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]

pub mod disk;
pub mod media;

use std::sync::Arc;

use capstan_address::HostName;
use capstan_medium::host::DeviceHost;

/// Hosts other than the cell's own that have a disk agent.
pub trait Clients: Send + Sync {
    /// The disk agent of a host; nothing where that is no client of the cell.
    fn disk_agent(&self, host: &HostName) -> Option<Arc<dyn disk::DiskAgent>>;
}

/// There are none: the cell is one machine.
impl Clients for () {
    fn disk_agent(&self, _: &HostName) -> Option<Arc<dyn disk::DiskAgent>> {
        None
    }
}

/// The agents of a cell.
#[derive(Clone)]
pub struct Agents {
    /// Who reads what is backed up and writes what is restored, on the cell's own host.
    pub disk: Arc<dyn disk::DiskAgent>,
    /// Who does so on other hosts.
    pub clients: Arc<dyn Clients>,
    /// Who reads and writes media.
    pub media: Arc<dyn media::MediaAgent>,
    /// Where media, libraries and drives are opened.
    pub devices: Arc<dyn DeviceHost>,
}
