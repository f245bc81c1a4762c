//! Media by the names of their devices: to read, to write, or held for changes.

use std::io;

use capstan_address::{Address, SpoolPlan, TapeAddress};
use capstan_format::id::MediumId;
use capstan_format::keys::Key32;
use capstan_format::record::MediumHeader;

use super::arrays::KnownMembers;
use super::placed::Placed;
use super::wanted::Wanted;
use crate::{Device, DeviceError, HeldMedium, LostMember, OpenMedium};

/// Makes the header of a medium that is made now.
pub type NewHeader<'a> = &'a dyn Fn() -> io::Result<MediumHeader>;

/// Opens media by the names of their devices.
pub trait Media {
    /// Opens the medium on a device to read.
    fn medium(&self, address: &Address) -> Result<OpenMedium, DeviceError>;
    /// Opens a medium that is known to read, where it was last seen. That it is this one is certain only of a drive that stands
    /// alone: the operator is asked for its tape. Tapes and drives that others have are waited for ([`super::queue`]).
    fn known(&self, address: &Address, wanted: Wanted) -> Result<OpenMedium, DeviceError>;
    /// The medium that is in a drive which stands alone, as far as that can be told now: nobody is asked for a tape or waited for, and a
    /// tape that is written is left alone.
    fn medium_in(&self, drive: &TapeAddress) -> Option<MediumId>;
    /// Holds the medium on a device: nobody else writes to it.
    fn held(&self, address: &Address) -> Result<HeldMedium, DeviceError>;
    /// Whether nothing is on a device: no file in a directory, no block on a tape.
    fn is_blank(&self, address: &Address) -> Result<bool, DeviceError>;
    /// What a tape says of itself; also one that is a member of an array.
    fn header_on(&self, tape: &TapeAddress) -> Result<MediumHeader, DeviceError>;
    /// Opens the medium on a tape to read; also one that is a member of an array.
    fn member(&self, tape: &TapeAddress) -> Result<OpenMedium, DeviceError>;
    /// Opens the medium on a device to write. `new` makes the header of one that is made now, `block_size` is the block size asked for, if
    /// any. An array is opened without the members that are `known` to have been replaced, and, as far as it can do without them, those
    /// that are unfit.
    fn writable(
        &self,
        address: &Address,
        new: NewHeader<'_>,
        block_size: Option<u32>,
        known: &dyn KnownMembers,
    ) -> Result<Unjudged, DeviceError>;
    /// A device that keeps nothing, for measuring: the null device, or an array of them.
    fn null(&self, address: &Address, block_size: u32) -> Result<Box<dyn Device>, DeviceError>;
    /// Makes the contents key of a medium's key record known to all who read and write its tapes at this host.
    fn open_key(&self, medium: MediumId, contents: Key32);
    /// Whether the key of a medium is open.
    fn has_key(&self, medium: MediumId) -> bool;
    /// Has tapes that are loaded from now on read through a spool; or, with none, no more.
    fn read_through(&self, plan: Option<SpoolPlan>) -> Result<(), DeviceError>;
}

/// A medium that was opened to write, before somebody has said that it may be written. What another opening saw does not count: a read
/// may fail in the one and not in the other, and the medium may be another one by now.
pub struct Unjudged {
    device: Box<dyn Writable>,
    is_new: bool,
}

impl Unjudged {
    /// One that was opened, and maybe made, now.
    pub fn new(device: Box<dyn Writable>, is_new: bool) -> Self {
        Self { device, is_new }
    }

    /// The medium to write to, if `judge` lets it be written: by what this opening read, and whether it was made now.
    pub fn judged<E>(
        self,
        judge: impl FnOnce(&OpenMedium, bool) -> Result<(), E>,
    ) -> Result<Box<dyn Writable>, E> {
        judge(self.device.medium(), self.is_new)?;
        Ok(self.device)
    }

    /// Whether it was made now.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// What it is, for who judges for himself.
    pub fn into_device(self) -> Box<dyn Writable> {
        self.device
    }
}

/// A medium that is this process's to write.
pub trait Writable: Send {
    /// The medium.
    fn medium(&self) -> &OpenMedium;
    /// Refuses a drive that cannot encrypt, where the medium is encrypted by its drive.
    fn check_drive(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    /// Refuses a tape of which nothing can be overwritten or erased.
    fn refuse_worm(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    /// The name it was opened by; of an array with its members in their places.
    fn address(&self, named: &Address) -> Address {
        named.clone()
    }
    /// Where it was found.
    fn placed(&self, named: &Address) -> Placed {
        Placed::from(named.clone())
    }
    /// The members of an array that are not written: they are not there, or not fit for it.
    fn lost_members(&self) -> Vec<LostMember> {
        Vec::new()
    }
    /// The medium, held on beyond the life of the device.
    fn hold(&self) -> Result<HeldMedium, DeviceError>;
    /// To write segments.
    fn into_device(self: Box<Self>) -> Result<Box<dyn Device>, DeviceError>;
    /// Gives the medium another header, and keeps what is on it. A tape that has segments cannot do that.
    fn replace_header(self: Box<Self>, header: &MediumHeader) -> Result<(), DeviceError>;
    /// Erases the medium: nothing of it is left that could be read by the usual means, and its device is blank. `secure`: all
    /// is overwritten once before; returns what was not, and only removed, with why.
    fn erase(self: Box<Self>, secure: bool) -> Result<Vec<String>, DeviceError>;
    /// Removes all segments and gives the medium another header.
    fn begin_anew(self: Box<Self>, header: &MediumHeader) -> Result<(), DeviceError>;
}
