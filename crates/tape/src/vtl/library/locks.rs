//! Who uses a drive, or the robot: locks in the library's directory.

use std::path::PathBuf;

use capstan_medium::tape::TapeError;

use super::{Library, ROBOT_PATIENCE};
use crate::lock::Lock;

impl Library {
    fn lock_path(&self, number: u32) -> PathBuf {
        self.dir.join(format!("drive-{number}"))
    }

    /// Locked from before a tape is brought to a drive until that is open, which its own lock cannot be: the robot takes that.
    fn claim_path(&self, number: u32) -> PathBuf {
        self.dir.join(format!("drive-{number}.claim"))
    }

    pub(super) fn claim(&self, number: u32) -> Result<Lock, TapeError> {
        self.locks.take(&self.claim_path(number), &self.drive_name(number))
    }

    pub(super) fn lock_drive(&self, number: u32) -> Result<Lock, TapeError> {
        self.locks.take(&self.lock_path(number), &self.drive_name(number))
    }

    /// A robot moves one tape at a time; it does not take long.
    pub(super) fn wait_for_robot(&self) -> Result<Lock, TapeError> {
        let what = format!("the robot of library {}", self.name);
        self.locks.wait(&self.dir.join("robot"), &what, ROBOT_PATIENCE)
    }

    /// Who uses a drive, or is about to.
    pub(super) fn user_of(&self, number: u32) -> Option<String> {
        let holder = |path: PathBuf| self.locks.holder(&path);
        holder(self.lock_path(number)).or_else(|| holder(self.claim_path(number)))
    }

    fn drive_name(&self, number: u32) -> String {
        format!("drive {number} of library {}", self.name)
    }
}
