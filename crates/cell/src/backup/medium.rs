//! The media that a session writes to: opened, or made where there is none.

use std::path::{Path, PathBuf};

use capstan_devices::DeviceError;
use capstan_devices::address::Address;
use capstan_devices::file::FileDevice;
use capstan_devices::null::NullDevice;
use capstan_engine::entropy::Entropy;
use capstan_engine::message::Code;
use capstan_format::id::MediumId;
use capstan_format::record::{FORMAT_VERSION, MediumHeader, Protection};
use capstan_idb::Medium;
use capstan_media_agent::mirror::Member;

use crate::Cell;
use crate::error::{CellError, Result};
use crate::observe::Observer;
use crate::request::BackupRequest;
use crate::session::{Ears, now_us};

/// Block size of new media: 512 KiB. Two frames fill it, and a few blocks stay in a core's cache.
const BLOCK_SIZE: u32 = 512 << 10;
/// Least space that a medium's file system must have for a session to begin.
const LEAST_SPACE: u64 = 8 << 20;

impl Cell {
    /// Opens the device and its mirrors. One that is not there does not keep the others from being written: it is said,
    /// and left.
    pub(super) fn open_devices(
        &self,
        request: &BackupRequest,
        observer: &dyn Observer,
        ears: &Ears<'_>,
    ) -> Result<Opened> {
        let mut opened = Opened { members: Vec::new(), lost: 0 };
        let mut failed = Vec::new();
        let mut size = request.block_size;
        for address in std::iter::once(&request.device).chain(&request.mirrors) {
            match self.open_device(address, size, observer) {
                Ok(member) => {
                    let id = member.medium.medium;
                    if opened.members.iter().any(|m| m.medium.medium == id) {
                        return Err(CellError::BadInput(format!(
                            "{address} holds the medium that is written already; name another as its mirror"
                        )));
                    }
                    // All have the same blocks.
                    size = Some(member.medium.block_size);
                    opened.members.push(member);
                }
                Err(e) if is_unavailable(&e) && !request.mirrors.is_empty() => {
                    failed.push((address, e));
                }
                Err(e) => return Err(e),
            }
        }
        if opened.members.is_empty() {
            let first = failed.into_iter().next().map(|f| f.1);
            return first.map_or(Ok(opened), Err);
        }
        for (address, e) in &failed {
            say_lost(&address.to_string(), &crate::error::chain(e), ears);
        }
        opened.lost = failed.len() as u64;
        Ok(opened)
    }

    /// Opens a device to write to, or makes a medium there, with blocks of `size` bytes.
    pub(crate) fn open_device(
        &self,
        address: &Address,
        size: Option<u32>,
        observer: &dyn Observer,
    ) -> Result<Member> {
        let new_size = size.unwrap_or(BLOCK_SIZE);
        match address {
            Address::Null { rate } => {
                let header = new_medium(&self.entropy, "null", new_size)
                    .map_err(CellError::io("read", "/dev/urandom"))?;
                Ok(Member::new(Box::new(NullDevice::new(*rate)), header))
            }
            Address::File(path) => {
                let label = path.file_name().map_or("medium".into(), |n| n.to_string_lossy());
                let entropy = self.entropy.clone();
                let new = || new_medium(&entropy, &label, new_size);
                check_space(path)?;
                let device = FileDevice::open(path, new, size)?;
                let header = device.medium().header().clone();
                self.idb.put_medium(&Medium {
                    id: header.medium,
                    label: header.label.clone(),
                    device: absolute(path)?,
                    block_size: header.block_size,
                    created_us: header.created_us,
                })?;
                self.record_unknown(device.medium(), &Ears::new(observer))?;
                Ok(Member::new(Box::new(device), header))
            }
        }
    }
}

/// The media that a session writes to.
pub(super) struct Opened {
    pub members: Vec<Member>,
    /// Mirrors that could not be opened.
    pub lost: u64,
}

/// Says that a mirror is not written any more.
pub(super) fn say_lost(what: &str, error: &str, ears: &Ears<'_>) {
    let text = format!("this mirror is not written any more, the others are: {error}");
    ears.say(Code::MirrorFailed, "media agent", what, text);
}

/// Whether it is the device that is not there now, rather than a mistake of who named it.
fn is_unavailable(error: &CellError) -> bool {
    match error {
        CellError::Device(e) => matches!(e, DeviceError::Io { .. } | DeviceError::Busy { .. }),
        CellError::Io { .. } => true,
        _ => false,
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
