//! Libraries and drives of a host: opened by their names, and which there are.

use capstan_address::iscsi::Target;
use capstan_address::{Address, AddressError, LibraryName, TapeAddress};
use capstan_medium::DeviceError;
use capstan_medium::tape::{DriveInfo, Media, TapeError};
use capstan_scsi::find;
use capstan_scsi::inquiry::Kind;
use capstan_tape::Changer;

use super::DeviceHost;
use crate::drives::fitting::{generations_of, names};
use crate::scsi::{explain, info_of};

impl DeviceHost {
    /// Opens a library, or a drive that stands alone, which is a library without slots.
    pub fn library(&self, name: &LibraryName) -> Result<Box<dyn Changer>, TapeError> {
        self.state().library(name)
    }

    /// Whether it is a drive that stands alone: somebody puts its tapes in by hand.
    pub fn is_by_hand(&self, tape: &TapeAddress) -> Result<bool, DeviceError> {
        Ok(tape.tape.is_none() && self.library(&tape.library)?.elements().slots == 0)
    }

    /// Refuses an address that names a drive which its library does not have. Of a library that is away it is not known.
    pub fn refuse_no_drive(&self, address: &Address) -> Result<(), DeviceError> {
        for tape in address.tapes() {
            if let Some(drive) = tape.drive
                && let Ok(library) = self.library(&tape.library)
            {
                library.elements().refuse_no_drive(library.name(), drive)?;
            }
        }
        Ok(())
    }

    /// A tape of a library is named by its barcode.
    pub(crate) fn named<'a>(&self, tape: &'a TapeAddress) -> Result<&'a TapeAddress, DeviceError> {
        match tape.tape.is_some() || self.is_by_hand(tape)? {
            true => Ok(tape),
            false => Err(DeviceError::WhichTape(tape.to_string())),
        }
    }

    /// Why no drive of a library writes a tape, by its barcode, in words that follow its name; nothing where one does, or nobody
    /// knows.
    pub fn why_not_written(
        &self,
        library: &LibraryName,
        barcode: &str,
    ) -> Result<Option<String>, TapeError> {
        let Some(media) = Media::of_barcode(barcode) else { return Ok(None) };
        let mut known = self.state().generations.lock();
        let drives = match known.get(library) {
            Some(drives) => drives,
            None => {
                let drives = generations_of(&mut *self.library(library)?);
                known.entry(library.clone()).or_insert(drives)
            }
        };
        let writes = |drive: &Option<u8>| drive.is_none_or(|drive| media.is_written_by(drive));
        Ok((!drives.iter().any(writes)).then(|| {
            format!("is {media}, which no drive of the library writes ({})", names(drives))
        }))
    }

    /// Drives and changers of this machine.
    pub fn devices_here(&self) -> Vec<Seen> {
        self.seen(find::local())
    }

    /// Drives and changers of an iSCSI host, `[user@]host[:port]`; and why some of its targets could not be asked.
    pub fn devices_at(&self, host: &str) -> Result<(Vec<Seen>, Vec<String>), DeviceError> {
        let host = Target::parse_host(host)?;
        if host.secret().is_some() {
            return Err(AddressError::SecretInName(host.portal()).into());
        }
        let host = self.state().scsi.with_secret(host);
        let at_host = find::at_host(&host).map_err(|e| explain(e, &host.portal()))?;
        let failed = at_host.failed.into_iter().map(|(name, e)| format!("{name}: {e}")).collect();
        Ok((self.seen(at_host.found), failed))
    }

    fn seen(&self, found: Vec<find::Found>) -> Vec<Seen> {
        let seen = |found: find::Found| Seen {
            is_changer: found.kind == Kind::Changer,
            info: info_of(&self.state().locks, &found),
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
