//! Keys of tapes that their drives encrypt, as far as they are open at a host.
//!
//! Who opens a key says it once, for the medium; whoever reads or writes a tape has its drive use the one that comes from it. A
//! drive has a key only as long as the host has the drive.

use std::collections::HashMap;

use capstan_format::id::MediumId;
use capstan_format::keys::{Key32, drive_key};
use capstan_format::record::MediumHeader;
use capstan_medium::tape::TapeError;
use capstan_tape::DriveKey;
use parking_lot::Mutex;

/// The contents keys of the key records, by the medium: of an array by its own.
#[derive(Default)]
pub(crate) struct Keys(Mutex<HashMap<MediumId, Key32>>);

impl Keys {
    /// Makes the contents key of a medium's key record known.
    pub fn open(&self, medium: MediumId, contents: Key32) {
        self.0.lock().insert(medium, contents);
    }

    /// Whether the key of a medium is open.
    pub fn has(&self, medium: MediumId) -> bool {
        self.0.lock().contains_key(&medium)
    }

    /// The key that the drive needs behind the header of a tape; none where it does not encrypt.
    pub(crate) fn of(
        &self,
        header: &MediumHeader,
        tape: &str,
    ) -> Result<Option<DriveKey>, TapeError> {
        if !header.is_drive_encrypted() {
            return Ok(None);
        }
        let contents = self.0.lock().get(&header.whole()).cloned();
        let key = contents.and_then(|contents| drive_key(&contents, header.medium).ok());
        let closed = || TapeError::KeyNotOpen { tape: tape.to_owned() };
        key.map(|key| Some(DriveKey::new(*key))).ok_or_else(closed)
    }
}
