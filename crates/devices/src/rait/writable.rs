//! Arrays opened to write, and made where nothing is.

use std::io;

use capstan_address::{Address, ArrayAddress};
use capstan_format::record::MediumHeader;
use capstan_medium::error::io_error;
use capstan_medium::held::Lock;
use capstan_medium::host::placed::Placed;
use capstan_medium::host::{KnownMembers, Writable};
use capstan_medium::tape::TapeError;
use capstan_medium::{Device, DeviceError, HeldMedium, LostMember, OpenMedium};

use super::device::RaitDevice;
use super::drives;
use super::make::{is_blank_place, make};
use super::open::{Opened, Whose, look, open_for};
use crate::host::LocalDevices;
use crate::null::NullDevice;
use crate::store::StorageDevice;
use crate::tape::TapeDevice;

/// An array to write to.
pub struct ArrayDevice {
    pub(super) host: LocalDevices,
    /// The device.
    pub device: RaitDevice,
    /// What the array says of itself.
    pub header: MediumHeader,
    /// Its name, with its members in their places.
    pub address: ArrayAddress,
    /// Where it was found.
    pub placed: Placed,
    /// The medium that it is, held as long as this lives.
    pub held: HeldMedium,
    /// Places of members that are not there.
    pub(super) lost: Vec<usize>,
}

impl ArrayDevice {
    /// For changes of what is on it: nothing is written through the device any more.
    pub fn manage(self) -> Result<StorageDevice, DeviceError> {
        drop(self.device);
        StorageDevice::of_held(self.held)
    }
}

impl Writable for ArrayDevice {
    fn medium(&self) -> &OpenMedium {
        self.held.medium()
    }

    fn check_drive(&self) -> Result<(), DeviceError> {
        let tapes = Address::Array(self.address.clone()).tapes();
        for tape in tapes.iter().filter(|_| self.header.is_drive_encrypted()) {
            // A tape that is lost is no reason.
            if let Err(e @ TapeError::CannotEncrypt { .. }) =
                crate::tape::check_encrypts(&self.host, tape)
            {
                return Err(e.into());
            }
        }
        Ok(())
    }

    fn address(&self, _: &Address) -> Address {
        Address::Array(self.address.clone())
    }

    fn placed(&self, _: &Address) -> Placed {
        self.placed.clone()
    }

    fn lost_members(&self) -> Vec<LostMember> {
        self.device.lost().lock().clone()
    }

    fn hold(&self) -> Result<HeldMedium, DeviceError> {
        Ok(self.held.again())
    }

    fn into_device(self: Box<Self>) -> Result<Box<dyn Device>, DeviceError> {
        Ok(Box::new(self.device))
    }

    fn replace_header(self: Box<Self>, header: &MediumHeader) -> Result<(), DeviceError> {
        self.manage()?.replace_header(&header.as_array())
    }

    /// Erases all members, one after the other. All of them have to be there.
    fn erase(self: Box<Self>, secure: bool) -> Result<Vec<String>, DeviceError> {
        let Self { host, device, address, held, .. } = *self;
        drop((device, held));
        let mut left = Vec::new();
        for member in &address.members {
            left.append(&mut host.writable_member(member)?.erase(secure)?);
        }
        Ok(left)
    }

    /// Gives up all that is on the members that are there, and gives the array another header.
    fn begin_anew(self: Box<Self>, header: &MediumHeader) -> Result<(), DeviceError> {
        let header = header.as_array();
        if !Address::Array(self.address.clone()).is_sequential() {
            let mut device = self.manage()?;
            device.remove_segments()?;
            return device.replace_header(&header);
        }
        // Tapes are overwritten from their begin, each by itself.
        let Self { host, device, address, held, lost, .. } = *self;
        drop((device, held));
        for (place, member) in address.members.iter().enumerate() {
            if !lost.contains(&place) {
                let id = look(&host, member)?;
                let header = header.of_member(id, address.layout, place);
                host.writable_member(member)?.begin_anew(&header)?;
            }
        }
        Ok(())
    }
}

/// Opens an array to write, and makes it where all members are blank. `new` is the header of an array made now;
/// `block_size` the block size asked for, if any. What is known to be unfit is left out, as far as the array can do without it.
pub fn device(
    host: &LocalDevices,
    address: &ArrayAddress,
    new: &dyn Fn() -> io::Result<MediumHeader>,
    block_size: Option<u32>,
    known: &dyn KnownMembers,
) -> Result<ArrayDevice, DeviceError> {
    drives::check(host, address)?;
    let new_id = || Ok(new()?.medium);
    if is_blank_place(host, &address.members)? {
        let header = new().map_err(io_error("make a new medium in", &address.to_string()))?;
        make(host, address, &header.as_array(), &[], &new_id)?;
    }
    let opened = open_for(host, address, known, Whose::Writer)?;
    let header = opened.storage.header();
    if let Some(want) = block_size.filter(|want| *want != header.block_size) {
        let (path, have) = (opened.address.to_string(), header.block_size);
        return Err(DeviceError::BlockSize { path, have, want });
    }
    let mut locks = Vec::new();
    let device = write_to(host, &opened, &mut locks, known)?;
    let held = HeldMedium::new(opened.medium()?, locks);
    let lost = opened.storage.lost().into_iter().map(|l| l.member).collect();
    let (host, placed) = (host.clone(), opened.placed());
    Ok(ArrayDevice { host, device, header, address: opened.address, placed, held, lost })
}

/// The device of an array that was opened to read; its members are locked.
fn write_to(
    host: &LocalDevices,
    opened: &Opened,
    locks: &mut Vec<Lock>,
    known: &dyn KnownMembers,
) -> Result<RaitDevice, DeviceError> {
    let lost = opened.storage.lost();
    // Those that it cannot do without are written to all the same: else nothing would be.
    let spare = opened.storage.layout().parity().saturating_sub(lost.len());
    let unfit_now: Vec<(usize, String)> = known.unfit(opened).into_iter().take(spare).collect();
    let block_size = opened.storage.header().block_size;
    let mut members = Vec::new();
    for (place, member) in opened.address.members.iter().enumerate() {
        let device = match lost.iter().find(|l| l.member == place) {
            Some(lost) => Err(DeviceError::MemberLost(lost.error.clone())),
            None => match unfit_now.iter().find(|(of, _)| *of == place) {
                Some((_, why)) => Err(DeviceError::MemberLost(why.clone().into())),
                None => fit_member_device(host, member, locks, known),
            },
        };
        match device {
            // Another process writes to the array, with that member, or has the drive for it.
            Err(e) if e.is_busy() => return Err(e),
            device => members.push((member.to_string(), device)),
        }
    }
    RaitDevice::new(opened.address.to_string(), opened.storage.layout(), members, block_size)
}

pub(super) fn member_device(
    host: &LocalDevices,
    address: &Address,
    locks: &mut Vec<Lock>,
) -> Result<Box<dyn Device>, DeviceError> {
    fit_member_device(host, address, locks, &())
}

fn fit_member_device(
    host: &LocalDevices,
    address: &Address,
    locks: &mut Vec<Lock>,
    known: &dyn KnownMembers,
) -> Result<Box<dyn Device>, DeviceError> {
    match address {
        Address::Store(store) => {
            let device = host.site(store)?.member_device(nobody, None)?;
            locks.extend(device.locks());
            Ok(Box::new(device))
        }
        Address::Tape(tape) => {
            let device = TapeDevice::open_member(host, tape, nobody, None)?;
            device.refuse_lost_header()?;
            Ok(Box::new(device))
        }
        Address::Array(array) => {
            let opened = open_for(host, array, known, Whose::Writer)?;
            Ok(Box::new(write_to(host, &opened, locks, known)?))
        }
        no_medium => Err(DeviceError::has_no_medium(no_medium)),
    }
}

fn nobody() -> io::Result<MediumHeader> {
    Err(io::ErrorKind::NotFound.into())
}

/// An array of devices that keep nothing: for measuring.
pub fn null_device(address: &ArrayAddress, block_size: u32) -> Result<RaitDevice, DeviceError> {
    let device = |member: &Address| -> Result<Box<dyn Device>, DeviceError> {
        match member {
            Address::Null { rate } => Ok(Box::new(NullDevice::new(*rate))),
            Address::Array(array) => Ok(Box::new(null_device(array, block_size)?)),
            _ => Err(DeviceError::NoMedium(member.to_string())),
        }
    };
    let members = address.members.iter().map(|m| (m.to_string(), device(m))).collect();
    RaitDevice::new(address.to_string(), address.layout, members, block_size)
}
