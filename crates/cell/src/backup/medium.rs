//! The medium that a backup writes to: opened, or made where there is none.

use std::path::Path;

use capstan_devices::Device;
use capstan_devices::address::Address;
use capstan_devices::file::FileDevice;
use capstan_devices::null::NullDevice;
use capstan_format::record::MediumHeader;

use crate::Cell;
use crate::error::{CellError, Result};
use crate::media::{BLOCK_SIZE, LEAST_SPACE, free_bytes};
use crate::observe::Observer;
use crate::request::BackupRequest;
use crate::session::Ears;

impl Cell {
    pub(super) fn open_device(
        &self,
        request: &BackupRequest,
        observer: &dyn Observer,
    ) -> Result<(Box<dyn Device>, MediumHeader)> {
        let size = request.block_size.unwrap_or(BLOCK_SIZE);
        match &request.device {
            Address::Null { rate } => {
                let header =
                    self.new_medium("null", size).map_err(CellError::io("read", "/dev/urandom"))?;
                Ok((Box::new(NullDevice::new(*rate)), header))
            }
            Address::File(path) => {
                let label = path.file_name().map_or("medium".into(), |n| n.to_string_lossy());
                let new = || self.new_medium(&label, size);
                check_space(path)?;
                self.refuse_others(path)?;
                let device = FileDevice::open(path, new, request.block_size)?;
                let header = device.medium().header().clone();
                self.put_medium_of(path, &header)?;
                self.record_unknown(device.medium(), &Ears::new(observer))?;
                Ok((Box::new(device), header))
            }
        }
    }
}

/// Refuses a destination without room before anything is made there.
fn check_space(path: &Path) -> Result<()> {
    let existing = path.ancestors().find(|p| p.exists()).unwrap_or(Path::new("."));
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    // File systems that store nothing (proc, sysfs) count no blocks; they refuse for themselves.
    if free_bytes(existing).is_some_and(|free| free < LEAST_SPACE) {
        return Err(CellError::BadInput(format!(
            "there is no room for a medium in {}: less than {} MiB are free; free space or name another device",
            path.display(),
            LEAST_SPACE >> 20
        )));
    }
    Ok(())
}
