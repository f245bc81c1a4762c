//! Libraries opened by their names.

use capstan_address::LibraryName;
use capstan_medium::tape::TapeError;
use capstan_tape::Changer;
use capstan_tape::vtl::library::{ByHand, Library};

use super::HostState;
use super::shared::shared;

impl HostState {
    /// Opens a library, or a drive that stands alone, which is a library without slots.
    pub(crate) fn library(&self, name: &LibraryName) -> Result<Box<dyn Changer>, TapeError> {
        let library: Box<dyn Changer> = match name {
            LibraryName::Virtual(dir) => {
                let library = Library::open(dir)?.at_host(self.struck.clone(), self.locks.clone());
                if library.design().alone {
                    Box::new(ByHand::new(library))
                } else {
                    Box::new(library)
                }
            }
            LibraryName::Scsi(name) => self.scsi.open(name)?,
        };
        Ok(shared(self, name, library))
    }
}
