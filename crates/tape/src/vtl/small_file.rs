//! Files of text in which a virtual library keeps account of itself.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use capstan_engine::{durable, regular};
use capstan_medium::tape::TapeError;
use capstan_medium::tape::error::{damaged, failed};

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

/// Replaces a file as a whole, durably; with its name other new ones in its directory are durable. Whatever the umask, none but
/// its owner can write it.
pub(crate) fn write_whole(path: &Path, text: &str) -> io::Result<()> {
    let temporary = path.with_extension("new");
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o644).open(&temporary)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    durable::rename(&temporary, path)
}
