//! All ports of a cell within one process: what runs on one machine, and in tests of a whole cell.
//!
//! What comes in is a device host of this process; what goes out are the agents that a cell is opened with. Nothing is decided here.

use std::io;
use std::sync::Arc;

use capstan_devices::host::LocalDevices;
use capstan_disk_agent::agent::LocalDiskAgent;
use capstan_media_agent::agent::LocalMediaAgent;
use capstan_port::Agents;

/// The agents of this host, in this process, with its devices. An error where the system gives no randomness.
pub fn agents(devices: LocalDevices) -> io::Result<Agents> {
    let media = Arc::new(LocalMediaAgent::system()?);
    let disk = Arc::new(LocalDiskAgent::default());
    Ok(Agents { disk, clients: Arc::new(()), media, devices: Arc::new(devices) })
}
