//! Media by the names of their devices: to read, to write, or held for changes.

use std::cell::Cell;

use capstan_address::{Address, SpoolPlan, TapeAddress};
use capstan_engine::nameless::nameless;
use capstan_format::id::MediumId;
use capstan_format::keys::Key32;
use capstan_format::record::MediumHeader;
use capstan_medium::error::io_error;
use capstan_medium::host::media::NewHeader;
use capstan_medium::host::{KnownMembers, Media, Tapes, Unjudged, Wanted, Writable};
use capstan_medium::{Device, DeviceError, HeldMedium, OpenMedium};

use crate::drives::InDrive;
use crate::host::LocalDevices;
use crate::null::NullDevice;
use crate::rait::{self, make};
use crate::tape::{self, TapeDevice, WritableTape};

impl Media for LocalDevices {
    fn medium(&self, address: &Address) -> Result<OpenMedium, DeviceError> {
        match address {
            Address::Store(store) => self.site(store)?.medium(),
            Address::Tape(tape) => tape::open(self, self.named(tape)?),
            Address::Array(array) => rait::open::medium(self, array),
            no_medium => Err(DeviceError::has_no_medium(no_medium)),
        }
    }

    fn known(&self, address: &Address, wanted: Wanted) -> Result<OpenMedium, DeviceError> {
        self.wait_for(address);
        match address {
            Address::Tape(tape) if self.is_by_hand(tape)? => tape::open_wanted(self, tape, wanted),
            _ => self.medium(address),
        }
    }

    fn medium_in(&self, drive: &TapeAddress) -> Option<MediumId> {
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

    fn held(&self, address: &Address) -> Result<HeldMedium, DeviceError> {
        match address {
            Address::Store(store) => self.site(store)?.hold(),
            Address::Tape(tape) => {
                Ok(HeldMedium::new(tape::open(self, self.named(tape)?)?, Vec::new()))
            }
            Address::Array(array) => rait::open::hold(self, array),
            no_medium => Err(DeviceError::has_no_medium(no_medium)),
        }
    }

    fn is_blank(&self, address: &Address) -> Result<bool, DeviceError> {
        make::is_blank(self, std::slice::from_ref(address))
    }

    fn header_on(&self, tape: &TapeAddress) -> Result<MediumHeader, DeviceError> {
        Ok(self.member(tape)?.header().clone())
    }

    fn member(&self, tape: &TapeAddress) -> Result<OpenMedium, DeviceError> {
        tape::open_member(self, self.named(tape)?)
    }

    fn writable(
        &self,
        address: &Address,
        new: NewHeader<'_>,
        block_size: Option<u32>,
        known: &dyn KnownMembers,
    ) -> Result<Unjudged, DeviceError> {
        let is_new = Cell::new(false);
        let new = || {
            is_new.set(true);
            new()
        };
        let device: Box<dyn Writable> = match address {
            Address::Store(store) => Box::new(self.site(store)?.device(new, block_size)?),
            Address::Tape(tape) => {
                let named = self.named(tape)?;
                // Before a tape is loaded, and gets a header if it is blank.
                tape.spool.as_ref().map_or(Ok(()), tape::check_spool)?;
                let device = TapeDevice::open(self, named, new, block_size)?;
                Box::new(WritableTape { device, spool: tape.spool.clone() })
            }
            Address::Array(array) => {
                Box::new(rait::writable::device(self, array, &new, block_size, known)?)
            }
            no_medium => return Err(DeviceError::has_no_medium(no_medium)),
        };
        Ok(Unjudged::new(device, is_new.get()))
    }

    fn null(&self, address: &Address, block_size: u32) -> Result<Box<dyn Device>, DeviceError> {
        match address {
            Address::Null { rate } => Ok(Box::new(NullDevice::new(*rate))),
            Address::Array(array) => Ok(Box::new(rait::writable::null_device(array, block_size)?)),
            keeps => Err(DeviceError::NoMedium(keeps.to_string())),
        }
    }

    fn open_key(&self, medium: MediumId, contents: Key32) {
        self.state().keys.open(medium, contents);
    }

    fn has_key(&self, medium: MediumId) -> bool {
        self.state().keys.has(medium)
    }

    fn read_through(&self, plan: Option<SpoolPlan>) -> Result<(), DeviceError> {
        if let Some(plan) = &plan {
            // Said before anything is read; a spool that fills the disk later is done without.
            nameless(&plan.dir)
                .map_err(io_error("make the spool in", &plan.dir.display().to_string()))?;
        }
        *self.state().spool.lock() = plan;
        Ok(())
    }
}

impl LocalDevices {
    /// A member of an array, to be given up.
    pub(crate) fn writable_member(
        &self,
        address: &Address,
    ) -> Result<Box<dyn Writable>, DeviceError> {
        let nobody = || Err(std::io::ErrorKind::NotFound.into());
        match address {
            Address::Store(store) => Ok(Box::new(self.site(store)?.member_device(nobody, None)?)),
            Address::Tape(tape) => {
                let device = TapeDevice::open_member(self, tape, nobody, None)?;
                Ok(Box::new(WritableTape { device, spool: None }))
            }
            // An array that is a member was judged with the one that it is of.
            other => Ok(self.writable(other, &nobody, None, &())?.into_device()),
        }
    }
}
