//! Keys of tapes that their drives encrypt, as far as they are open in this process.
//!
//! Who opens a key says it once, for the medium; whoever reads or writes a tape has its drive use the one that comes from it. A
//! drive has a key only as long as this process has the drive.

use std::collections::HashMap;
use std::sync::LazyLock;

use capstan_format::id::MediumId;
use capstan_format::keys::{Key32, drive_key};
use capstan_format::record::MediumHeader;
use capstan_tape::{DriveKey, TapeError};
use parking_lot::Mutex;

/// The contents keys of the key records, by the medium: of an array by its own.
static KEYS: LazyLock<Mutex<HashMap<MediumId, Key32>>> = LazyLock::new(Mutex::default);

/// Makes the contents key of a medium's key record known to all who read and write its tapes.
pub fn open_key(medium: MediumId, contents: Key32) {
    KEYS.lock().insert(medium, contents);
}

/// Whether the key of a medium is open.
pub fn has_key(medium: MediumId) -> bool {
    KEYS.lock().contains_key(&medium)
}

/// The key that the drive needs behind the header of a tape; none where it does not encrypt.
pub(super) fn key_of(header: &MediumHeader, tape: &str) -> Result<Option<DriveKey>, TapeError> {
    if !header.is_drive_encrypted() {
        return Ok(None);
    }
    let contents = KEYS.lock().get(&header.whole()).cloned();
    let key = contents.and_then(|contents| drive_key(&contents, header.medium).ok());
    let closed = || TapeError::KeyNotOpen { tape: tape.to_owned() };
    key.map(|key| Some(DriveKey::new(*key))).ok_or_else(closed)
}
