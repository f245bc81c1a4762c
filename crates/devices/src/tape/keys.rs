//! Keys of tapes that their drives encrypt, as far as they are open in this process.
//!
//! Who opens a key says it once, for the medium; whoever reads or writes the tape has its drive use it. A drive has a key
//! only as long as this process has the drive.

use std::collections::HashMap;
use std::sync::LazyLock;

use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_tape::{DriveKey, TapeError};
use parking_lot::Mutex;

static KEYS: LazyLock<Mutex<HashMap<MediumId, DriveKey>>> = LazyLock::new(Mutex::default);

/// Makes the key of a medium known to all who read and write it.
pub fn open_key(medium: MediumId, key: DriveKey) {
    KEYS.lock().insert(medium, key);
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
    let key = KEYS.lock().get(&header.medium).cloned();
    key.map(Some).ok_or_else(|| TapeError::KeyNotOpen { tape: tape.to_owned() })
}
