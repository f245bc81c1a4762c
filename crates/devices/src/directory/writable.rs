//! The medium in a directory, opened to write.

use capstan_format::record::MediumHeader;
use capstan_medium::host::Writable;
use capstan_medium::{Device, DeviceError, HeldMedium, OpenMedium};

use super::FileDevice;

impl Writable for FileDevice {
    fn medium(&self) -> &OpenMedium {
        self.medium()
    }

    fn hold(&self) -> Result<HeldMedium, DeviceError> {
        self.hold()
    }

    fn into_device(self: Box<Self>) -> Result<Box<dyn Device>, DeviceError> {
        Ok(self)
    }

    fn replace_header(self: Box<Self>, header: &MediumHeader) -> Result<(), DeviceError> {
        FileDevice::replace_header(*self, header)
    }

    fn erase(self: Box<Self>, secure: bool) -> Result<Vec<String>, DeviceError> {
        FileDevice::erase(*self, secure)
    }

    fn begin_anew(mut self: Box<Self>, header: &MediumHeader) -> Result<(), DeviceError> {
        self.remove_segments()?;
        FileDevice::replace_header(*self, header)
    }
}
