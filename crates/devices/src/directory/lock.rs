//! Locks of a medium in a directory. A kill frees them.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use capstan_medium::DeviceError;
use capstan_medium::error::io_error;
use capstan_medium::names::HEADER_NAME;
use capstan_tape::lock::holder_of;
use rustix::fs::FlockOperation;

use super::storage::RealStorage;

/// How often to look again for a header that is replaced while it is opened.
const TRIES: usize = 8;

/// Locks the header file for writing. A header that is replaced meanwhile is another file: then the new one is locked.
pub(super) fn lock_header(real: &RealStorage, at: &str) -> Result<File, DeviceError> {
    for _ in 0..TRIES {
        let lock = real.open_file(HEADER_NAME).map_err(io_error("open", at))?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => {
                return Err(DeviceError::Busy { path: at.to_owned(), holder: holder_of(&lock) });
            }
            Err(e) => return Err(io_error("lock", at)(e.into())),
        }
        let now = real.open_file(HEADER_NAME).map_err(io_error("open", at))?;
        let same = |a: &File, b: &File| -> std::io::Result<bool> {
            Ok(a.metadata()?.ino() == b.metadata()?.ino())
        };
        if same(&lock, &now).map_err(io_error("examine", at))? {
            return Ok(lock);
        }
    }
    let holder = "somebody who changes its header".to_owned();
    Err(DeviceError::Busy { path: at.to_owned(), holder })
}
