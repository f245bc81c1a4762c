//! Which medium a session writes: pools, tapes of libraries, arrays of tapes, blank ones, and the next when one is full.

pub mod enough_drives;
pub(crate) mod init;
pub(crate) mod labels;
pub(crate) mod media_changes;
pub(crate) mod pools;
pub(crate) mod rotation;
pub(crate) mod tapes;
pub(crate) mod unfit;

use crate::drives::drive_key::ByDrive;

/// What a session wants of a medium to write to.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// Its block size in bytes.
    pub block_size: Option<u32>,
    /// Whether its drive encrypts it.
    pub by_drive: ByDrive,
    /// Whether one is made though another one was there, or a disk is not mounted there.
    pub new_medium: bool,
    /// Whether it is written though it is not as it was last written: to mend it.
    pub as_it_is: bool,
}
