//! Waiting for media of a pool that others have.

use std::sync::Arc;

use capstan_format::id::MediumId;
use capstan_medium::host::DeviceHost;
use capstan_medium::host::queue::Wait;
use capstan_medium::tape::TapeError;

use crate::Cell;
use crate::error::{CellError, Result};
use crate::supply::pools::usable::unusable;
use crate::supply::unfit::PassedOver;

/// Why a medium of a pool was passed over that may be free soon.
pub(crate) const IN_USE: &str = "is in use";
/// Why one was that was not to be had.
pub(crate) const OUT_OF_REACH: &str = "is out of reach now";

/// A session that chooses among the media of a pool, and waits where others have all that would do.
pub(crate) struct Queue {
    devices: Arc<dyn DeviceHost>,
    wait: Wait,
    /// What others have.
    busy: Option<CellError>,
    /// How often it was decided anew since one was had.
    anew: u32,
}

/// How often at most a session decides anew for one medium: what it decides by is changed by people.
const ANEW_MOST: u32 = 20;

impl Queue {
    pub fn begin(devices: &Arc<dyn DeviceHost>) -> Self {
        Self { devices: devices.clone(), wait: devices.queue().wait(), busy: None, anew: 0 }
    }

    /// One may do: nothing is waited for while it is tried.
    pub fn tries_one(&mut self) {
        self.wait.is_tried();
    }

    /// One did. The next one is waited for anew, as long as somebody waits for the first.
    pub fn has_had_one(&mut self) {
        *self = Self::begin(&self.devices);
    }

    /// Whether the medium is chosen anew, as the one that was chosen is not to be written any more: somebody exported it, retired it, or
    /// put it into another pool, while something was waited for.
    pub fn decides_anew(
        &mut self,
        cell: &Cell,
        pool: &str,
        medium: MediumId,
        e: &CellError,
    ) -> bool {
        let is_away = e.away().is_some();
        self.anew += 1;
        self.anew <= ANEW_MOST
            && (is_away || cell.is_not_to_be_written(pool, medium).unwrap_or(false))
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

impl Cell {
    /// Whether a medium that was chosen from a pool is not one that would be chosen now, as it is not of that pool any more, or cannot be
    /// written.
    fn is_not_to_be_written(&self, pool: &str, medium: MediumId) -> Result<bool> {
        let Some(row) = self.idb.medium(medium)? else { return Ok(true) };
        for tape in row.device.tapes() {
            // Where it was a moment ago says nothing.
            let _ = self.devices.inventory_now(&tape.library);
        }
        let info = self.medium_info(&row)?;
        Ok(info.management.pool.as_deref() != Some(pool) || unusable(&info).is_some())
    }
}

/// Whether a tape was not had because others have all drives.
pub(crate) fn has_no_drive(e: &CellError) -> bool {
    let CellError::Device(e) = e else { return false };
    matches!(e.of_tape(), Some(TapeError::NoDriveFree { .. }))
}
