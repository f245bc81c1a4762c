//! Libraries by their names.

use capstan_tape::library::Library;
use capstan_tape::{Changer, TapeError};

use crate::address::LibraryName;

/// Opens a library, or a drive that stands alone, which is a library without slots.
pub fn open(name: &LibraryName) -> Result<Box<dyn Changer>, TapeError> {
    match name {
        LibraryName::Virtual(dir) => Ok(Box::new(Library::open(dir)?)),
        LibraryName::Scsi(name) => crate::scsi::open(name),
    }
}
