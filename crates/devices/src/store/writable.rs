//! The medium in a storage, as whoever writes sees it.

use capstan_format::record::MediumHeader;
use capstan_medium::host::Writable;
use capstan_medium::{Device, DeviceError, HeldMedium, OpenMedium};

use super::StorageDevice;

impl Writable for StorageDevice {
    fn medium(&self) -> &OpenMedium {
        self.medium()
    }

    fn hold(&self) -> Result<HeldMedium, DeviceError> {
        Ok(self.hold())
    }

    fn into_device(self: Box<Self>) -> Result<Box<dyn Device>, DeviceError> {
        Ok(self)
    }

    fn replace_header(self: Box<Self>, header: &MediumHeader) -> Result<(), DeviceError> {
        StorageDevice::replace_header(*self, header)
    }

    fn erase(self: Box<Self>, secure: bool) -> Result<Vec<String>, DeviceError> {
        StorageDevice::erase(*self, secure)
    }

    fn begin_anew(mut self: Box<Self>, header: &MediumHeader) -> Result<(), DeviceError> {
        self.remove_segments()?;
        StorageDevice::replace_header(*self, header)
    }
}
