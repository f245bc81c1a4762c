//! Which tape drives and changers there are: on this machine by sysfs, which also tells of those that others use, and at
//! iSCSI hosts by asking for their targets and logical units.

use std::fs;
use std::path::{Path, PathBuf};

use capstan_address::iscsi::Target;

use crate::answers::inquiry::{self, Identity, Kind};
use crate::bytes::{part, u8_at, u16_at, u32_at};
use crate::device::Device;
use crate::transport::iscsi::{self, Iscsi};
use crate::transport::sg::Sg;
use crate::transport::{Data, node};
use crate::{Error, cdb};

/// A tape drive or changer that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The name by which it is opened; without a secret.
    pub name: String,
    /// What it is.
    pub kind: Kind,
    /// Maker, model, serial number.
    pub identity: Identity,
    /// The node of the tape driver, on this machine.
    pub tape_node: Option<PathBuf>,
    /// Host, channel, target and logical unit on this machine; nothing over iSCSI.
    pub address: Option<[u32; 4]>,
    /// Numbers of its device nodes, by which who uses it is found.
    pub numbers: Vec<u64>,
}

/// Tape drives and changers of this machine, in the order of their addresses.
pub fn local() -> Vec<Found> {
    local_below(Path::new("/sys/class/scsi_generic"))
}

fn local_below(class: &Path) -> Vec<Found> {
    let entries = fs::read_dir(class).into_iter().flatten().flatten();
    let mut found: Vec<Found> = entries
        .filter_map(|entry| {
            let node = Path::new("/dev").join(entry.file_name());
            of_sysfs(&entry.path().join("device"), &node)
        })
        .collect();
    found.sort_by_key(|f| f.address);
    found
}

fn of_sysfs(device: &Path, node: &Path) -> Option<Found> {
    let text = |name: &str| {
        let bytes = fs::read(device.join(name)).unwrap_or_default();
        crate::bytes::name(bytes.trim_ascii_end())
    };
    let kind = match text("type").as_str() {
        "1" => Kind::Tape,
        "8" => Kind::Changer,
        _ => return None,
    };
    let page = fs::read(device.join("vpd_pg80")).unwrap_or_default();
    let nodes = node::resolve(node).ok();
    let mut identity = Identity {
        vendor: text("vendor"),
        product: text("model"),
        revision: text("rev"),
        serial: inquiry::serial(&page).unwrap_or_default(),
    };
    if identity.serial.is_empty()
        && let Ok((_, asked)) = Sg::open(node).and_then(|sg| Device::identify(Box::new(sg)))
    {
        // The kernel did not ask for it. One that is in use is not disturbed: it has no serial number then.
        identity = asked;
    }
    Some(Found {
        name: node.display().to_string(),
        kind,
        identity,
        tape_node: nodes.as_ref().and_then(|nodes| nodes.tape.clone()),
        address: address(device),
        numbers: nodes.map(|nodes| nodes.numbers).unwrap_or_default(),
    })
}

/// From the name of the device's directory: `2:0:3:1`.
fn address(device: &Path) -> Option<[u32; 4]> {
    let at = fs::canonicalize(device).ok()?;
    let numbers: Option<Vec<u32>> =
        at.file_name()?.to_str()?.split(':').map(|n| n.parse().ok()).collect();
    numbers?.try_into().ok()
}

/// Tape drives and changers of one target of an iSCSI host, in the order of their logical units.
pub fn units(target: &Target) -> Result<Vec<Found>, Error> {
    let mut found = Vec::new();
    for lun in luns(target)? {
        let unit = target.unit(&target.name, lun);
        let name = unit.to_string();
        let (kind, identity) = Device::identify(Box::new(Iscsi::open(unit)?))?;
        if matches!(kind, Kind::Tape | Kind::Changer) {
            let (tape_node, address, numbers) = (None, None, Vec::new());
            found.push(Found { name, kind, identity, tape_node, address, numbers });
        }
    }
    Ok(found)
}

/// What was found at an iSCSI host, and the targets that could not be asked.
#[derive(Debug, Default)]
pub struct AtHost {
    /// Drives and changers.
    pub found: Vec<Found>,
    /// Targets that do not let us in, and why.
    pub failed: Vec<(String, Error)>,
}

/// Tape drives and changers of all targets of an iSCSI host.
pub fn at_host(host: &Target) -> Result<AtHost, Error> {
    let mut at_host = AtHost::default();
    for name in iscsi::discover(host)? {
        match units(&host.unit(&name, 0)) {
            Ok(mut units) => at_host.found.append(&mut units),
            Err(e) => at_host.failed.push((name, e)),
        }
    }
    Ok(at_host)
}

fn luns(target: &Target) -> Result<Vec<u16>, Error> {
    /// Room for 2047 logical units; there are no more than a few dozen drives at a target.
    const LEN: u32 = 16 * 1024;
    let transport = Box::new(Iscsi::open(target.unit(&target.name, 0))?);
    let mut device = Device::unknown(transport);
    let mut bytes = vec![0; LEN as usize];
    device.run(cdb::report_luns(LEN), Data::In(&mut bytes))?;
    Ok(decode_luns(&bytes))
}

/// Logical units that have a plain number, from REPORT LUNS.
fn decode_luns(bytes: &[u8]) -> Vec<u16> {
    let list = part(bytes, 8, u32_at(bytes, 0) as usize);
    let number = |lun: &[u8]| {
        let below = u16_at(lun, 2) == 0 && u32_at(lun, 4) == 0;
        match u8_at(lun, 0) >> 6 {
            0 if below && lun[0] == 0 => Some(u16::from(u8_at(lun, 1))),
            1 if below => Some(u16_at(lun, 0) & 0x3fff),
            _ => None,
        }
    };
    let mut luns: Vec<u16> = list.chunks_exact(8).filter_map(number).collect();
    luns.sort_unstable();
    luns.dedup();
    luns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machines_drives_are_read_from_sysfs() {
        let sys = tempfile::tempdir().unwrap();
        let device = |sg: &str, address: &str, kind: &str, serial: &[u8]| {
            let at = sys.path().join("devices").join(address);
            fs::create_dir_all(&at).unwrap();
            fs::write(at.join("type"), format!("{kind}\n")).unwrap();
            fs::write(at.join("vendor"), "HP      \n").unwrap();
            fs::write(at.join("model"), "Ultrium 9-SCSI  \n").unwrap();
            fs::write(at.join("vpd_pg80"), serial).unwrap();
            let class = sys.path().join("class").join(sg);
            fs::create_dir_all(&class).unwrap();
            std::os::unix::fs::symlink(&at, class.join("device")).unwrap();
        };
        device("sg9", "0:0:10:0", "1", b"\x01\x80\x00\x03SN2");
        device("sg3", "0:0:2:0", "1", b"\x01\x80\x00\x03SN1");
        device("sg4", "0:0:2:1", "8", b"\x08\x80\x00\x04CHG1");
        device("sg0", "0:0:0:0", "0", b"\x00\x80\x00\x04DISK");
        let found = local_below(&sys.path().join("class"));
        let shown: Vec<_> =
            found.iter().map(|f| format!("{} {:?} {}", f.name, f.kind, f.identity)).collect();
        assert_eq!(
            shown,
            [
                "/dev/sg3 Tape HP Ultrium 9-SCSI, serial number SN1",
                "/dev/sg4 Changer HP Ultrium 9-SCSI, serial number CHG1",
                "/dev/sg9 Tape HP Ultrium 9-SCSI, serial number SN2",
            ]
        );
        assert!(local_below(&sys.path().join("nowhere")).is_empty());
    }

    #[test]
    fn lists_of_logical_units() {
        let mut bytes = vec![0, 0, 0, 48, 0, 0, 0, 0];
        let plain: [[u8; 2]; 5] = [[0, 3], [0, 0], [0, 3], [0x40, 9], [0x41, 0]];
        for lun in plain {
            bytes.extend_from_slice(&[lun[0], lun[1], 0, 0, 0, 0, 0, 0]);
        }
        // Behind another one: not by a plain number.
        bytes.extend_from_slice(&[0, 1, 0, 2, 0, 0, 0, 0]);
        assert_eq!(decode_luns(&bytes), [0, 3, 9, 256]);
        assert!(decode_luns(&[0xff; 7]).is_empty());
        assert!(decode_luns(&bytes[..15]).is_empty());
    }
}
