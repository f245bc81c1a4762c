//! The tape drives of this process at its end, however that comes: none keeps a key, a lock or a reservation of ours.

use std::io::{self, Write};

use capstan_devices::host::LocalDevices;
use capstan_medium::host::DeviceHost;

use crate::exit::one_line;

/// Gives them back when it is dropped, also where a thread panicked.
pub struct GivenBack(pub LocalDevices);

impl Drop for GivenBack {
    fn drop(&mut self) {
        give_back(&self.0);
    }
}

/// Gives them back.
pub fn give_back(devices: &dyn DeviceHost) {
    devices.release_idle();
    // Where nobody reads it, the next command that uses the drive does what is left to do.
    devices.settle(&|words| {
        let _ = writeln!(io::stderr().lock(), "capstan: {}", one_line(words));
    });
}
