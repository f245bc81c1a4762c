//! Drives for an array's tapes: each tape is in a drive of its own, all at the same time.

use std::collections::HashMap;

use capstan_address::{Address, ArrayAddress, LibraryName, TapeAddress};
use capstan_medium::DeviceError;

use crate::host::LocalDevices;

/// The drives of the libraries that an array's tapes lie in.
pub(super) struct Drives(HashMap<LibraryName, Count>);

#[derive(Default)]
struct Count {
    /// The array's tapes there.
    tapes: u32,
    /// Drives that the library has, once it was asked.
    drives: Option<u32>,
    /// Those of them that are taken.
    taken: u32,
}

impl Drives {
    /// For the tapes of an array.
    pub fn of(array: &ArrayAddress) -> Self {
        Self::of_members(&array.members)
    }

    /// For the tapes of these members.
    pub fn of_members(members: &[Address]) -> Self {
        let mut counts: HashMap<LibraryName, Count> = HashMap::new();
        for tape in members.iter().flat_map(Address::tapes) {
            counts.entry(tape.library.resolved()).or_default().tapes += 1;
        }
        Self(counts)
    }

    /// Takes a drive for a tape.
    pub fn take(&mut self, host: &LocalDevices, tape: &TapeAddress) -> Result<(), DeviceError> {
        let name = tape.library.resolved();
        let Some(count) = self.0.get_mut(&name) else { return Ok(()) };
        let drives = match count.drives {
            Some(drives) => drives,
            None => host.changer(&name)?.elements().drives,
        };
        count.drives = Some(drives);
        if count.taken >= drives {
            return Err(DeviceError::TooFewDrives {
                library: name.to_string(),
                drives,
                tapes: count.tapes,
            });
        }
        count.taken += 1;
        Ok(())
    }

    /// A tape needs no drive after all.
    pub fn give_back(&mut self, tape: &TapeAddress) {
        if let Some(count) = self.0.get_mut(&tape.library.resolved()) {
            count.taken = count.taken.saturating_sub(1);
        }
    }
}

/// Refuses an array that cannot be written, as it has more tapes in a library than that has drives. Tapes of a library that is not
/// there are lost members, like any others.
pub fn check(host: &LocalDevices, array: &ArrayAddress) -> Result<(), DeviceError> {
    let mut drives = Drives::of(array);
    let tapes = Address::Array(array.clone()).tapes();
    tapes.iter().try_for_each(|tape| match drives.take(host, tape) {
        Err(e @ DeviceError::TooFewDrives { .. }) => Err(e),
        _ => Ok(()),
    })
}
