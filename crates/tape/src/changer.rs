//! What is asked of a library: where tapes are, moving them, and its drives.

use capstan_medium::tape::{DriveInfo, Elements, Held, Place, TapeError};

use crate::drive::TapeDrive;

/// A library: slots, drives and a robot.
pub trait Changer: Send {
    /// What it is called in messages.
    fn name(&self) -> &str;
    /// What its robot is called on all hosts that share it.
    fn robot(&self) -> String {
        self.name().to_owned()
    }
    /// What it has.
    fn elements(&self) -> Elements;
    /// All tapes that are in it, by place.
    fn inventory(&mut self) -> Result<Vec<Held>, TapeError>;
    /// Looks into every slot again, which can take an hour, where the library does not do so by itself.
    fn rescan(&mut self) -> Result<(), TapeError> {
        Ok(())
    }
    /// Whether the library said, since this was last asked, that somebody may have changed tapes in it: its door was open, or its
    /// mail slots were. Where tapes lie does not tell that then.
    fn take_disturbed(&mut self) -> bool {
        false
    }
    /// Rewinds the tape in a drive and unloads it, also one that cannot be read, so that the robot or somebody can take it.
    fn unload_drive(&mut self, number: u32) -> Result<(), TapeError>;
    /// Moves a tape. One in a drive must have been unloaded.
    fn move_tape(&mut self, from: Place, to: Place) -> Result<(), TapeError>;
    /// Keeps others from bringing a tape into a drive, or from opening it, until what is returned is dropped: so nobody else gets what
    /// the robot has brought there before it is opened. [`TapeError::Busy`] where another does that now. Without a robot there is
    /// nothing to claim.
    fn claim_drive(&mut self, _number: u32) -> Result<Box<dyn Send>, TapeError> {
        Ok(Box::new(()))
    }
    /// Opens a drive for this process alone, with the tape that is in it. [`TapeError::Busy`] where another has it.
    fn open_drive(&mut self, number: u32) -> Result<Box<dyn TapeDrive>, TapeError>;
    /// What is known of a drive, also of one that others use.
    fn drive_info(&mut self, number: u32) -> Result<DriveInfo, TapeError>;
    /// How many uses of a cleaning tape are left, where the library knows that.
    fn cleanings_left(&mut self, _barcode: &str) -> Option<u32> {
        None
    }
    /// Cleans an empty drive with the cleaning tape at a place, and puts that back. Returns how many uses of it are left, where
    /// that is known.
    fn clean(&mut self, drive: u32, tape_at: Place) -> Result<Option<u32>, TapeError>;
}
