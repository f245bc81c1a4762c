//! Waiting for media of a pool that others have.

use capstan_devices::host::DeviceHost;
use capstan_devices::queue::Wait;
use capstan_format::id::MediumId;
use capstan_tape::TapeError;

use crate::error::{CellError, Result};
use crate::supply::unfit::PassedOver;

/// Why a medium of a pool was passed over that may be free soon.
pub(crate) const IN_USE: &str = "is in use";
/// Why one was that was not to be had.
pub(crate) const OUT_OF_REACH: &str = "is out of reach now";

/// A session that chooses among the media of a pool, and waits where others have all that would do.
pub(crate) struct Queue {
    devices: DeviceHost,
    wait: Wait,
    /// What others have.
    busy: Option<CellError>,
}

impl Queue {
    pub fn begin(devices: &DeviceHost) -> Self {
        Self { devices: devices.clone(), wait: devices.queue().wait(), busy: None }
    }

    /// One may do: nothing is waited for while it is tried.
    pub fn tries_one(&mut self) {
        self.wait.is_tried();
    }

    /// One did. The next one is waited for anew, as long as somebody waits for the first.
    pub fn has_had_one(&mut self) {
        *self = Self::begin(&self.devices);
    }

    /// Passes over a medium that is out of reach. Where it is a drive that others have, the next one would get none either: that is
    /// waited for, before another medium is given up for nothing.
    pub fn pass(
        &mut self,
        medium: MediumId,
        e: CellError,
        passed: &mut Vec<PassedOver>,
    ) -> Result<()> {
        if has_no_drive(&e) {
            return self.again(e, passed);
        }
        let why = if e.is_busy() { IN_USE } else { OUT_OF_REACH };
        passed.push((medium, why.into()));
        self.busy = if e.is_busy() { Some(e) } else { self.busy.take() };
        Ok(())
    }

    /// Waits, as no medium is left because of that, for those that others have, which are not passed over any more then. An error if
    /// there are none, or nobody waits.
    pub fn again(&mut self, e: CellError, passed: &mut Vec<PassedOver>) -> Result<()> {
        let busy = match self.busy.take() {
            _ if e.is_busy() => e,
            Some(busy) => busy,
            None => return Err(e),
        };
        self.devices.release_idle();
        if !self.wait.again(&busy) {
            return Err(busy);
        }
        passed.retain(|(_, why)| why.what != IN_USE);
        Ok(())
    }
}

/// Whether a tape was not had because others have all drives.
pub(crate) fn has_no_drive(e: &CellError) -> bool {
    let CellError::Device(e) = e else { return false };
    matches!(e.of_tape(), Some(TapeError::NoDriveFree { .. }))
}
