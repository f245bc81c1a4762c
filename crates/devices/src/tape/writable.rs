//! The medium on a tape, opened to write.

use capstan_address::SpoolPlan;
use capstan_format::record::MediumHeader;
use capstan_medium::host::Writable;
use capstan_medium::{Device, DeviceError, HeldMedium, OpenMedium};

use super::{SpooledTape, TapeDevice};

/// A medium on a tape, with the spool that it is written through.
pub(crate) struct WritableTape {
    pub device: TapeDevice,
    pub spool: Option<SpoolPlan>,
}

impl Writable for WritableTape {
    fn medium(&self) -> &OpenMedium {
        self.device.medium()
    }

    fn check_drive(&self) -> Result<(), DeviceError> {
        self.device.check_drive()
    }

    fn refuse_worm(&self) -> Result<(), DeviceError> {
        self.device.refuse_worm()
    }

    fn hold(&self) -> Result<HeldMedium, DeviceError> {
        Ok(HeldMedium::new(self.device.medium().clone(), Vec::new()))
    }

    fn into_device(self: Box<Self>) -> Result<Box<dyn Device>, DeviceError> {
        let Self { device, spool } = *self;
        device.refuse_lost_header()?;
        Ok(match spool {
            None => Box::new(device),
            Some(plan) => Box::new(SpooledTape::new(device, &plan)?),
        })
    }

    fn replace_header(self: Box<Self>, header: &MediumHeader) -> Result<(), DeviceError> {
        match self.device.medium().segments()?.is_empty() {
            true => self.device.begin_anew(header),
            false => Err(DeviceError::HeaderStays(self.device.medium().path().to_owned())),
        }
    }

    fn erase(self: Box<Self>, secure: bool) -> Result<Vec<String>, DeviceError> {
        self.device.erase(secure).map(|()| Vec::new())
    }

    fn begin_anew(self: Box<Self>, header: &MediumHeader) -> Result<(), DeviceError> {
        self.device.begin_anew(header)
    }
}
