//! What is wrong with the devices of a session is said before any of them becomes a medium.

use std::collections::HashSet;

use capstan_address::{Address, TapeAddress};
use capstan_medium::DeviceError;

use crate::Cell;
use crate::error::{BackupRefusal, Result};
use crate::kinds::backup::media::away::is_unavailable;
use crate::media::absent_tape;
use crate::request::BackupRequest;
use crate::supply::enough_drives::refuse_too_few_drives;

impl Cell {
    /// Refuses devices of which one cannot be written, while none was opened. One that is not there now is left to who opens
    /// them. Gives the size of blocks that is asked for, or that those have which are there: all have the same.
    pub(in crate::kinds::backup) fn foresee_devices(
        &self,
        request: &BackupRequest,
    ) -> Result<Option<u32>> {
        let devices = std::iter::once(&request.device).chain(&request.mirrors).collect();
        let (written, _) = self.without_away(request, devices)?;
        for address in written.iter().filter(|address| !address.is_tape()) {
            self.refuse_taken(address, request.new_medium)?;
        }
        let mut size = request.block_size;
        if written.len() < 2 {
            return Ok(size);
        }
        self.refuse_same_place(&written)?;
        refuse_too_few_drives(&*self.devices, written.iter().copied())?;
        for address in written {
            let have = match self.foresee_device(address) {
                Err(e) if is_unavailable(&e) => None,
                foreseen => foreseen?,
            };
            match (have, size) {
                (Some(have), Some(want)) if have != want => {
                    let path = address.to_string();
                    return Err(DeviceError::BlockSize { path, have, want }.into());
                }
                (have, _) => size = size.or(have),
            }
        }
        Ok(size)
    }

    /// The size of the blocks of the medium on a device, where one is there. No tape is loaded for that.
    fn foresee_device(&self, address: &Address) -> Result<Option<u32>> {
        for tape in address.tapes() {
            self.devices.library(&tape.library).map_err(DeviceError::from)?;
            if let Some(why) = absent_tape(&*self.devices, &tape) {
                return Err(BackupRefusal::TapeAbsent { tape: tape.to_string(), why }.into());
            }
        }
        let size = match address.as_store() {
            Some(store) => self.devices.foresee(store)?,
            None if !address.tapes().is_empty() => return Ok(None),
            // Who makes an array looks at all of its members first.
            None => self.devices.medium(address).ok().map(|there| there.header().block_size),
        };
        if size.is_some() {
            self.refuse_others(address)?;
        }
        Ok(size)
    }

    /// Refuses to write the same place twice.
    fn refuse_same_place(&self, devices: &[&Address]) -> Result<()> {
        let mut known = HashSet::new();
        for address in devices {
            let stores = address.stores();
            let stores = stores.iter().map(|store| self.devices.whole(store).shown());
            let has_barcode = |tape: &TapeAddress| tape.tape.is_some();
            let tapes = address.tapes().into_iter().filter(has_barcode);
            for place in stores.chain(tapes.map(|tape| tape.recorded().to_string())) {
                if !known.insert(place.clone()) {
                    return Err(BackupRefusal::PlaceTwice { place }.into());
                }
            }
        }
        Ok(())
    }
}
