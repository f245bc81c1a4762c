//! Media by the names of their devices: to read, to write, or held for changes.

use std::cell::Cell;

use capstan_address::{Address, SpoolPlan, TapeAddress};
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_medium::{Device, DeviceError, HeldMedium, LostMember, OpenMedium};

use crate::directory::{self, FileDevice};
use crate::drives::{InDrive, Wanted};
use crate::host::DeviceHost;
use crate::rait::open::{ArrayDevice, KnownMembers};
use crate::rait::placed::Placed;
use crate::rait::{self, make};
use crate::tape::{self, SpooledTape, TapeDevice};

impl DeviceHost {
    /// Opens the medium on a device to read.
    pub fn medium(&self, address: &Address) -> Result<OpenMedium, DeviceError> {
        match address {
            Address::File(path) => directory::open(path),
            Address::Tape(tape) => tape::open(self, self.named(tape)?),
            Address::Array(array) => rait::open::medium(self, array),
            no_medium => Err(DeviceError::has_no_medium(no_medium)),
        }
    }

    /// Opens a medium that is known to read, where it was last seen. That it is this one is certain only of a drive that stands
    /// alone: the operator is asked for its tape. Tapes and drives that others have are waited for ([`crate::state::queue`]).
    pub fn known(&self, address: &Address, wanted: Wanted) -> Result<OpenMedium, DeviceError> {
        self.wait_for(address);
        match address {
            Address::Tape(tape) if self.is_by_hand(tape)? => tape::open_wanted(self, tape, wanted),
            _ => self.medium(address),
        }
    }

    /// The medium that is in a drive which stands alone, as far as that can be told now: nobody is asked for a tape or waited for, and a
    /// tape that is written is left alone.
    pub fn medium_in(&self, drive: &TapeAddress) -> Option<MediumId> {
        let drive = drive.resolved();
        match InDrive::of(self.tapes(), &drive.library) {
            InDrive::Read(medium) => Some(medium),
            InDrive::Taken => None,
            InDrive::Unknown => {
                let there = self.medium(&Address::Tape(drive)).ok()?;
                Some(there.header().medium)
            }
        }
    }

    /// Holds the medium on a device: nobody else writes to it.
    pub fn held(&self, address: &Address) -> Result<HeldMedium, DeviceError> {
        match address {
            Address::File(path) => directory::hold(path),
            Address::Tape(tape) => {
                Ok(HeldMedium::new(tape::open(self, self.named(tape)?)?, Vec::new()))
            }
            Address::Array(array) => rait::open::hold(self, array),
            no_medium => Err(DeviceError::has_no_medium(no_medium)),
        }
    }

    /// Whether nothing is on a device: no file in a directory, no block on a tape.
    pub fn is_blank(&self, address: &Address) -> Result<bool, DeviceError> {
        make::is_blank(self, std::slice::from_ref(address))
    }

    /// What a tape says of itself; also one that is a member of an array.
    pub fn header_on(&self, tape: &TapeAddress) -> Result<MediumHeader, DeviceError> {
        Ok(self.member(tape)?.header().clone())
    }

    /// Opens the medium on a tape to read; also one that is a member of an array.
    pub fn member(&self, tape: &TapeAddress) -> Result<OpenMedium, DeviceError> {
        tape::open_member(self, self.named(tape)?)
    }

    /// Refuses a tape on which anything is, or that takes nothing.
    pub fn refuse_used(&self, tape: &TapeAddress) -> Result<(), DeviceError> {
        tape::refuse_used(self, self.named(tape)?)
    }

    /// Opens the medium on a device to write. `new` makes the header of one that is made now, `block_size` is the block size
    /// asked for, if any.
    pub fn writable(
        &self,
        address: &Address,
        new: impl Fn() -> std::io::Result<MediumHeader>,
        block_size: Option<u32>,
    ) -> Result<Unjudged, DeviceError> {
        self.writable_known(address, new, block_size, &())
    }

    /// The same; of an array without the members that are known to have been replaced, and, as far as it can do without them, those
    /// that are unfit.
    pub fn writable_known(
        &self,
        address: &Address,
        new: impl Fn() -> std::io::Result<MediumHeader>,
        block_size: Option<u32>,
        known: &dyn KnownMembers,
    ) -> Result<Unjudged, DeviceError> {
        let is_new = Cell::new(false);
        let new = || {
            is_new.set(true);
            new()
        };
        let device = match address {
            Address::File(path) => Writable::File(FileDevice::open(path, new, block_size)?),
            Address::Tape(tape) => {
                let named = self.named(tape)?;
                // Before a tape is loaded, and gets a header if it is blank.
                tape.spool.as_ref().map_or(Ok(()), tape::check_spool)?;
                Writable::Tape(TapeDevice::open(self, named, new, block_size)?, tape.spool.clone())
            }
            Address::Array(array) => {
                Writable::Array(Box::new(rait::open::device(self, array, &new, block_size, known)?))
            }
            no_medium => return Err(DeviceError::has_no_medium(no_medium)),
        };
        Ok(Unjudged { device, is_new: is_new.get() })
    }

    /// A member of an array, to be given up.
    fn writable_member(&self, address: &Address) -> Result<Writable, DeviceError> {
        let nobody = || Err(std::io::ErrorKind::NotFound.into());
        match address {
            Address::File(path) => Ok(Writable::File(FileDevice::open_member(path, nobody, None)?)),
            Address::Tape(tape) => {
                Ok(Writable::Tape(TapeDevice::open_member(self, tape, nobody, None)?, None))
            }
            // An array that is a member was judged with the one that it is of.
            other => Ok(self.writable(other, nobody, None)?.device),
        }
    }
}

/// A medium that was opened to write, before somebody has said that it may be written. What another opening saw does not count: a read
/// may fail in the one and not in the other, and the medium may be another one by now.
pub struct Unjudged {
    device: Writable,
    is_new: bool,
}

impl Unjudged {
    /// The medium to write to, if `judge` lets it be written: by what this opening read, and whether it was made now.
    pub fn judged<E>(
        self,
        judge: impl FnOnce(&OpenMedium, bool) -> Result<(), E>,
    ) -> Result<Writable, E> {
        judge(self.device.medium(), self.is_new)?;
        Ok(self.device)
    }
}

/// A medium that is this process's to write.
pub enum Writable {
    /// In a directory.
    File(FileDevice),
    /// On a tape, with the spool that it is written through.
    Tape(TapeDevice, Option<SpoolPlan>),
    /// On an array.
    Array(Box<ArrayDevice>),
}

impl Writable {
    /// The medium.
    pub fn medium(&self) -> &OpenMedium {
        match self {
            Self::File(device) => device.medium(),
            Self::Tape(device, _) => device.medium(),
            Self::Array(array) => array.held.medium(),
        }
    }

    /// Refuses a drive that cannot encrypt, where the medium is encrypted by its drive.
    pub fn check_drive(&self) -> Result<(), DeviceError> {
        match self {
            Self::Tape(device, _) => device.check_drive(),
            Self::Array(array) => array.check_drives(),
            Self::File(_) => Ok(()),
        }
    }

    /// Refuses a tape of which nothing can be overwritten or erased.
    pub fn refuse_worm(&self) -> Result<(), DeviceError> {
        match self {
            Self::Tape(device, _) => device.refuse_worm(),
            Self::Array(_) | Self::File(_) => Ok(()),
        }
    }

    /// The name it was opened by; of an array with its members in their places.
    pub fn address(&self, named: &Address) -> Address {
        match self {
            Self::Array(array) => Address::Array(array.address.clone()),
            _ => named.clone(),
        }
    }

    /// Where it was found.
    pub fn placed(&self, named: &Address) -> Placed {
        match self {
            Self::Array(array) => array.placed.clone(),
            _ => Placed::from(named.clone()),
        }
    }

    /// The members of an array that are not written: they are not there, or not fit for it.
    pub fn lost_members(&self) -> Vec<LostMember> {
        match self {
            Self::Array(array) => array.device.lost().lock().clone(),
            Self::File(_) | Self::Tape(..) => Vec::new(),
        }
    }

    /// The medium, held on beyond the life of the device.
    pub fn hold(&self) -> Result<HeldMedium, DeviceError> {
        match self {
            Self::File(device) => device.hold(),
            Self::Tape(device, _) => Ok(HeldMedium::new(device.medium().clone(), Vec::new())),
            Self::Array(array) => array.held.again(),
        }
    }

    /// To write segments.
    pub fn into_device(self) -> Result<Box<dyn Device>, DeviceError> {
        Ok(match self {
            Self::File(device) => Box::new(device),
            Self::Tape(device, spool) => {
                device.refuse_lost_header()?;
                match spool {
                    None => Box::new(device),
                    Some(plan) => Box::new(SpooledTape::new(device, &plan)?),
                }
            }
            Self::Array(array) => Box::new(array.device),
        })
    }

    /// Gives the medium another header, and keeps what is on it. A tape that has segments cannot do that.
    pub fn replace_header(self, header: &MediumHeader) -> Result<(), DeviceError> {
        match self {
            Self::File(device) => device.replace_header(header),
            Self::Tape(device, _) if device.medium().segments()?.is_empty() => {
                device.begin_anew(header)
            }
            Self::Tape(device, _) => {
                Err(DeviceError::HeaderStays(device.medium().path().to_owned()))
            }
            Self::Array(array) => array.manage()?.replace_header(&header.as_array()),
        }
    }

    /// Erases the medium: nothing of it is left that could be read by the usual means, and its device is blank. `secure`: all
    /// is overwritten once before; returns what was not, and only removed, with why.
    pub fn erase(self, secure: bool) -> Result<Vec<String>, DeviceError> {
        match self {
            Self::File(device) => device.erase(secure),
            Self::Tape(device, _) => device.erase(secure).map(|()| Vec::new()),
            Self::Array(array) => {
                array.erase(&|host, member| host.writable_member(member)?.erase(secure))
            }
        }
    }

    /// Removes all segments and gives the medium another header.
    pub fn begin_anew(self, header: &MediumHeader) -> Result<(), DeviceError> {
        match self {
            Self::File(mut device) => {
                device.remove_segments()?;
                device.replace_header(header)
            }
            Self::Tape(device, _) => device.begin_anew(header),
            Self::Array(array) => array.begin_anew(&header.as_array(), &|host, member, header| {
                host.writable_member(member)?.begin_anew(header)
            }),
        }
    }
}
