//! Libraries by their names, and which there are.

use capstan_scsi::find;
use capstan_scsi::inquiry::Kind;
use capstan_scsi::iscsi::Target;
use capstan_tape::changer::DriveInfo;
use capstan_tape::vtl::library::{ByHand, Library};
use capstan_tape::{Changer, TapeError};

use crate::DeviceError;
use crate::address::LibraryName;
use crate::host::{Core, DeviceHost};
use crate::scsi::{explain, info_of};
use crate::shared::shared;

impl Core {
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

impl DeviceHost {
    /// Opens a library, or a drive that stands alone, which is a library without slots.
    pub fn library(&self, name: &LibraryName) -> Result<Box<dyn Changer>, TapeError> {
        self.core().library(name)
    }

    /// Drives and changers of this machine.
    pub fn devices_here(&self) -> Vec<Seen> {
        self.seen(find::local())
    }

    /// Drives and changers of an iSCSI host, `[user@]host[:port]`; and why some of its targets could not be asked.
    pub fn devices_at(&self, host: &str) -> Result<(Vec<Seen>, Vec<String>), DeviceError> {
        let host = Target::parse_host(host).map_err(DeviceError::BadUrl)?;
        if host.secret().is_some() {
            return Err(DeviceError::SecretInName(host.portal()));
        }
        let host = self.core().scsi.with_secret(host);
        let at_host = find::at_host(&host).map_err(|e| explain(e, &host.portal()))?;
        let failed = at_host.failed.into_iter().map(|(name, e)| format!("{name}: {e}")).collect();
        Ok((self.seen(at_host.found), failed))
    }

    fn seen(&self, found: Vec<find::Found>) -> Vec<Seen> {
        let seen = |found: find::Found| Seen {
            is_changer: found.kind == Kind::Changer,
            info: info_of(&self.core().locks, &found),
            tape_node: found.tape_node.as_ref().map(|node| node.display().to_string()),
            name: LibraryName::Scsi(found.name),
        };
        found.into_iter().map(seen).collect()
    }
}

/// A drive or changer that was found.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Its name as a device.
    pub name: LibraryName,
    /// Whether it is the robot of a library; else it is a drive.
    pub is_changer: bool,
    /// What it is, and who uses it.
    pub info: DriveInfo,
    /// The node of the tape driver, on this machine.
    pub tape_node: Option<String>,
}
