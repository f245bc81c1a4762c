//! Files of text in which a virtual library keeps account of itself.

use std::io::ErrorKind;
use std::path::Path;

use capstan_engine::regular;

use crate::cartridge::{damaged, failed};
use crate::drive::TapeError;

/// The longest that is read, bytes. The inventory of a library with the most tapes, 10,000, takes some 2 MB.
const SIZE_MAX: u64 = 16 << 20;

/// Reads one.
///
/// # Errors
/// [`TapeError::Damaged`] where it is no regular file, is too long or is no text; [`TapeError::Io`] where it cannot be read.
pub(crate) fn read(path: &Path) -> Result<String, TapeError> {
    regular::read_text(path, SIZE_MAX).map_err(|e| match e.kind() {
        ErrorKind::InvalidData => damaged(path, &e.to_string()),
        _ => failed("read", path)(e),
    })
}

/// Nothing if there is no such file.
pub(crate) fn read_if_there(path: &Path) -> Result<Option<String>, TapeError> {
    match read(path) {
        Err(TapeError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => Ok(None),
        text => text.map(Some),
    }
}
