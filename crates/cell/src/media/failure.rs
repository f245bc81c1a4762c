//! What a failure to write means for the medium that was written.

use capstan_devices::{DeviceError, operator};
use capstan_format::id::MediumId;
use capstan_media_agent::write::error::WriteError;

use crate::Cell;
use crate::error::Result;
use crate::session::now_us;

/// Whose a failure to write is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteFailure {
    /// The medium is full.
    Full,
    /// The medium, or the drive that it is in.
    Medium,
    /// The drive does not answer, or the connection to it is lost: that says nothing of the medium.
    Connection,
    /// The spool before the drive: another medium would be written through it, too.
    Spool,
    /// None of the device's: the database took no commit, say, or there is no further medium.
    Other,
}

impl WriteFailure {
    /// Whose this one is.
    pub fn of(error: &WriteError) -> Self {
        match error {
            e if e.is_full() => Self::Full,
            WriteError::Device(e) if e.is_of_spool() => Self::Spool,
            WriteError::Device(e) if e.is_unreachable() => Self::Connection,
            WriteError::Device(DeviceError::NoThread(_)) => Self::Other,
            WriteError::Device(_) => Self::Medium,
            _ => Self::Other,
        }
    }

    /// Whether another medium may do.
    pub fn is_of_medium(self) -> bool {
        matches!(self, Self::Medium | Self::Connection)
    }
}

impl Cell {
    /// Records a failure with the medium that was written: a tape that is full is written no more, and an error tells on its
    /// condition. A directory may have room again later.
    pub(crate) fn note_write_failure(&self, medium: MediumId, failure: WriteFailure) -> Result<()> {
        let is_sequential = || self.device_of_medium(medium).is_some_and(|d| d.is_sequential());
        match failure {
            WriteFailure::Full if is_sequential() => {
                Ok(self.idb.set_medium_full(medium, now_us())?)
            }
            // A drive that was left at work, as the session was told to end, says nothing of the tape either.
            WriteFailure::Medium if operator::has_left() => Ok(()),
            WriteFailure::Medium => Ok(self.idb.add_medium_error(medium, None)?),
            _ => Ok(()),
        }
    }
}
