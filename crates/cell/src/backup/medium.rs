//! The medium that a backup writes to: opened, or made where there is none.

use std::path::{Path, PathBuf};

use capstan_devices::Device;
use capstan_devices::address::Address;
use capstan_devices::file::FileDevice;
use capstan_devices::held::HeldMedium;
use capstan_devices::null::NullDevice;
use capstan_engine::entropy::Entropy;
use capstan_format::id::MediumId;
use capstan_format::record::{FORMAT_VERSION, MediumHeader, Protection};
use capstan_idb::Medium;

use crate::Cell;
use crate::error::{CellError, Result};
use crate::observe::Observer;
use crate::request::BackupRequest;
use crate::session::{Ears, now_us};

/// Block size of new media: 512 KiB. Two frames fill it, and a few blocks stay in a core's cache.
const BLOCK_SIZE: u32 = 512 << 10;
/// Least space that a medium's file system must have for a session to begin.
const LEAST_SPACE: u64 = 8 << 20;

/// A device that is written to.
pub(super) struct Opened {
    pub device: Box<dyn Device>,
    pub header: MediumHeader,
    /// The medium, held until its version is locked, if it is to be.
    pub held: Option<HeldMedium>,
}

impl Cell {
    pub(super) fn open_device(
        &self,
        request: &BackupRequest,
        observer: &dyn Observer,
    ) -> Result<Opened> {
        let size = request.block_size.unwrap_or(BLOCK_SIZE);
        match &request.device {
            Address::Null { rate } => {
                let header = new_medium(&self.entropy, "null", size)
                    .map_err(CellError::io("read", "/dev/urandom"))?;
                Ok(Opened { device: Box::new(NullDevice::new(*rate)), header, held: None })
            }
            Address::File(path) => {
                let label = path.file_name().map_or("medium".into(), |n| n.to_string_lossy());
                let entropy = self.entropy.clone();
                let new = || new_medium(&entropy, &label, size);
                check_space(path)?;
                let device = FileDevice::open(path, new, request.block_size)?;
                let header = device.medium().header().clone();
                self.idb.put_medium(&Medium {
                    id: header.medium,
                    label: header.label.clone(),
                    device: absolute(path)?,
                    block_size: header.block_size,
                    created_us: header.created_us,
                })?;
                self.record_unknown(device.medium(), &Ears::new(observer))?;
                let held = request.keep.lock_until_us.map(|_| device.hold()).transpose()?;
                Ok(Opened { device: Box::new(device), header, held })
            }
        }
    }
}

fn new_medium(entropy: &Entropy, label: &str, block_size: u32) -> std::io::Result<MediumHeader> {
    Ok(MediumHeader {
        format: FORMAT_VERSION,
        incompatible: 0,
        compatible: 0,
        medium: MediumId(entropy.id()?),
        label: label.to_owned(),
        block_size,
        created_us: now_us(),
        protection: Protection::None,
    })
}

/// Refuses a destination without room before anything is made there.
fn check_space(path: &Path) -> Result<()> {
    let existing = path.ancestors().find(|p| p.exists()).unwrap_or(Path::new("."));
    let existing = if existing.as_os_str().is_empty() { Path::new(".") } else { existing };
    if let Ok(stat) = rustix::fs::statvfs(existing)
        // File systems that store nothing (proc, sysfs) count no blocks; they refuse for themselves.
        && stat.f_blocks > 0
        && stat.f_bavail.saturating_mul(stat.f_frsize) < LEAST_SPACE
    {
        return Err(CellError::BadInput(format!(
            "there is no room for a medium in {}: less than {} MiB are free; free space or name another device",
            path.display(),
            LEAST_SPACE >> 20
        )));
    }
    Ok(())
}

fn absolute(path: &Path) -> Result<String> {
    let path: PathBuf =
        std::fs::canonicalize(path).map_err(CellError::io("resolve", path.display()))?;
    Ok(format!("file:{}", path.display()))
}
