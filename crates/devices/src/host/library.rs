//! Libraries and drives of a host, opened by their names.

use capstan_address::{LibraryName, TapeAddress};
use capstan_medium::DeviceError;
use capstan_medium::host::Tapes;
use capstan_medium::tape::{FoundDevice, TapeError};
use capstan_scsi::find;
use capstan_scsi::inquiry::Kind;
use capstan_tape::Changer;

use super::LocalDevices;
use crate::scsi::info_of;

impl LocalDevices {
    /// Opens a library, or a drive that stands alone, so that its drives can be opened.
    pub fn changer(&self, name: &LibraryName) -> Result<Box<dyn Changer>, TapeError> {
        self.state().library(name)
    }

    /// A tape of a library is named by its barcode.
    pub(crate) fn named<'a>(&self, tape: &'a TapeAddress) -> Result<&'a TapeAddress, DeviceError> {
        match tape.tape.is_some() || self.is_by_hand(tape)? {
            true => Ok(tape),
            false => Err(DeviceError::WhichTape(tape.to_string())),
        }
    }

    pub(crate) fn seen(&self, found: Vec<find::Found>) -> Vec<FoundDevice> {
        let seen = |found: find::Found| FoundDevice {
            is_changer: found.kind == Kind::Changer,
            info: info_of(&self.state().locks, &found),
            tape_node: found.tape_node.as_ref().map(|node| node.display().to_string()),
            name: LibraryName::Scsi(found.name),
        };
        found.into_iter().map(seen).collect()
    }
}
