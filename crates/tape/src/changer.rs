//! A library whose drives are opened by this process.

use capstan_medium::tape::{TapeError, TapeLibrary};

use crate::drive::TapeDrive;

/// A library whose drives are opened by this process.
pub trait Changer: TapeLibrary {
    /// Whether the library said, since this was last asked, that somebody may have changed tapes in it: its door was open, or its
    /// mail slots were. Where tapes lie does not tell that then.
    fn take_disturbed(&mut self) -> bool {
        false
    }
    /// Keeps others from bringing a tape into a drive, or from opening it, until what is returned is dropped: so nobody else gets what
    /// the robot has brought there before it is opened. [`TapeError::Busy`] where another does that now. Without a robot there is
    /// nothing to claim.
    fn claim_drive(&mut self, _number: u32) -> Result<Box<dyn Send>, TapeError> {
        Ok(Box::new(()))
    }
    /// Opens a drive for this process alone, with the tape that is in it. [`TapeError::Busy`] where another has it.
    fn open_drive(&mut self, number: u32) -> Result<Box<dyn TapeDrive>, TapeError>;
}
