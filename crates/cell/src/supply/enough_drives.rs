//! Whether libraries have the drives for what a session writes at a time: each tape of it is in a drive of its own.

use std::collections::BTreeMap;

use capstan_address::{Address, LibraryName, TapeAddress};
use capstan_medium::host::DeviceHost;

use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{Result, SupplyRefusal};
use crate::request::{BackupRequest, Turn};
use crate::supply::unfit::PassedOver;

/// Drives by library.
pub(crate) type Needs = BTreeMap<String, (LibraryName, u32)>;

/// How many of these tapes each library has.
pub(crate) fn tapes_in(tapes: &[TapeAddress]) -> Needs {
    let mut count = Needs::new();
    for library in tapes.iter().map(|tape| tape.library.resolved()) {
        count.entry(library.to_string()).or_insert((library, 0)).1 += 1;
    }
    count
}

/// Refuses a device and its mirrors that have more tapes in a library than that has drives. No tape is loaded for that. Of a library
/// that is away it is not known.
///
/// # Errors
/// [`SupplyRefusal::TooFewDrives`], which says of the library how many it has and how many it takes.
pub fn refuse_too_few_drives<'a>(
    host: &dyn DeviceHost,
    devices: impl IntoIterator<Item = &'a Address>,
) -> Result<()> {
    let devices: Vec<&Address> = devices.into_iter().collect();
    // An array says it of itself.
    if devices.len() < 2 {
        return Ok(());
    }
    let tapes: Vec<_> = devices.iter().flat_map(|device| device.tapes()).collect();
    for (library, takes) in tapes_in(&tapes).into_values() {
        let Ok(drives) = host.library(&library).map(|l| l.elements().drives) else { continue };
        if takes > drives {
            return Err(SupplyRefusal::TooFewDrives { library, drives, takes }.into());
        }
    }
    Ok(())
}

impl Cell {
    /// Passes over those media of a pool that would be taken and for which, beside the mirrors, their library has no drive. Refuses a
    /// pool that has no others. Nothing is given up or made for that.
    pub(crate) fn pass_over_without_drive(
        &self,
        pool: &str,
        request: &BackupRequest,
        passed: &mut Vec<PassedOver>,
    ) -> Result<()> {
        let by_drive = ByDrive::of_backup(request.encrypt);
        let mut none = None;
        while !request.mirrors.is_empty() {
            let would = self.allocate(pool, Turn::of_run(request.run_us), by_drive, passed, true);
            // Where there is none, whoever takes it says why.
            let Ok(would) = would else { break };
            let device = &would.device;
            let written = std::iter::once(device).chain(&request.mirrors);
            match refuse_too_few_drives(&*self.devices, written) {
                Ok(()) => return Ok(()),
                // One that is blank is no medium that could be passed over.
                Err(e) if self.idb.medium(would.id)?.is_none() => return Err(e),
                Err(e) => {
                    passed.push((would.id, "has no drive beside the mirrors".into()));
                    none.get_or_insert(e);
                }
            }
        }
        none.map_or(Ok(()), Err)
    }
}
