//! Places of media: one at which the database knows a medium, or a disk that is not mounted, never gets another medium by itself.
//!
//! Where a disk is not mounted its directory looks like any other that is new. A medium that is made there lies on another disk,
//! and the next mount hides it. A directory of another host is another place; a tape is told by its barcode.

use std::path::Path;

use capstan_address::{Address, StoreAddress, TapeAddress};
use capstan_format::id::MediumId;
use capstan_idb::Medium;
use capstan_medium::DeviceError;
use capstan_medium::host::DeviceHost;
use capstan_medium::host::stores::InStore;
use capstan_mounts::MountTables;

use super::{is_place_here, shown};
use crate::Cell;
use crate::error::{CellError, MediumRefusal, Result};

/// What every home has that was used.
const HOME_HAS: &str = "catalogs";
impl Cell {
    /// Refuses to make a medium where nothing is now and another one was, or where a disk is not mounted, unless that is asked
    /// for. Who finds a medium there, or anything else, says so himself. Nothing is touched.
    pub(crate) fn refuse_taken(&self, address: &Address, new_medium: bool) -> Result<()> {
        if new_medium || !is_bare(&*self.devices, address) {
            return Ok(());
        }
        self.refuse_taken_but(address, None)
    }

    /// The same of a place where a member of an array is to be written anew, which may have been there.
    pub(crate) fn refuse_taken_by_others(
        &self,
        address: &Address,
        array: MediumId,
        new_medium: bool,
    ) -> Result<()> {
        if new_medium || !is_bare(&*self.devices, address) {
            return Ok(());
        }
        self.refuse_taken_but(address, Some(array))
    }

    /// In words, that the medium at a place left the house: it is still there, or it was, and nothing is there now. Where another one
    /// may be made in its place, that is nobody's concern.
    pub(crate) fn exported_from(
        &self,
        address: &Address,
        new_medium: bool,
    ) -> Result<Option<String>> {
        if address.is_sequential() || matches!(address, Address::Null { .. }) {
            return Ok(None);
        }
        let there = self.devices.medium(address).ok().map(|there| there.header().clone());
        let last = match there {
            Some(header) => Some((header.medium, header.label)),
            None if new_medium => None,
            None => {
                let places: Vec<_> =
                    address.stores().iter().map(|s| self.devices.whole(s)).collect();
                let was_here = |row: &Medium| {
                    row.device.stores().iter().any(|s| places.contains(&self.devices.whole(s)))
                };
                let mut here = self.idb.media()?;
                here.retain(|row| is_place_here(&self.idb, row) && was_here(row));
                // Where disks take turns, one that should be there may be missing while another left the house.
                let out = self.idb.exported_media()?;
                let all_left = here.iter().all(|row| out.contains(&row.id));
                here.pop().filter(|_| all_left).map(|row| (row.id, row.label))
            }
        };
        let Some((id, label)) = last else { return Ok(None) };
        Ok(self.exported(id)?.map(|to| format!("{} {to}", shown(id, &label))))
    }

    fn refuse_taken_but(&self, address: &Address, but: Option<MediumId>) -> Result<()> {
        let known = self.idb.media()?;
        let known: Vec<(&Medium, &Address)> = known
            .iter()
            .filter(|medium| Some(medium.id) != but)
            .map(|medium| (medium, &medium.device))
            .collect();
        for store in address.stores() {
            let place = self.devices.whole(&store);
            let was_here =
                |of: &Address| of.stores().iter().any(|s| self.devices.whole(s) == place);
            let mut here: Vec<_> = known.iter().filter(|(_, of)| was_here(of)).collect();
            here.retain(|(medium, _)| is_place_here(&self.idb, medium));
            here.sort_by_key(|(medium, _)| medium.created_us);
            if let Some((medium, _)) = here.last() {
                return Err(taken(medium, &place.shown()));
            }
            if let Some(point) = self.devices.empty_mount_point(&store) {
                return Err(not_mounted(&place, &point));
            }
        }
        // The tapes of an array are looked at when it is made.
        if let Some((tape, _)) = address.as_named_tape() {
            let tape = tape.recorded();
            let is_it = |of: &TapeAddress| of.tape == tape.tape && of.library == tape.library;
            let was_here = |of: &Address| of.tapes().iter().any(|of| is_it(&of.recorded()));
            // One on which nothing is gets a header again.
            let empty = self.empty_on_tape(address)?.map(|medium| medium.id);
            let lies_here = |of: &&(&Medium, &Address)| was_here(of.1) && Some(of.0.id) != empty;
            if let Some((medium, _)) = known.iter().rfind(|of| lies_here(of)) {
                return Err(taken(medium, &tape.to_string()));
            }
        }
        Ok(())
    }
}

/// Refuses to make a home where its disk is not mounted: it would be that of another cell, which knows of no backup.
pub(crate) fn refuse_unmounted_home(home: &Path, mounts: &MountTables) -> Result<()> {
    // One that is there is asked for nothing.
    if home.join(HOME_HAS).exists() {
        return Ok(());
    }
    match mounts.empty_mount_point(home) {
        None => Ok(()),
        Some(point) => Err(MediumRefusal::HomeNotMounted { point, home: home.to_owned() }.into()),
    }
}

/// Refuses to make a medium of a pool in passing.
pub(crate) fn refuse_new_medium_of(pool: Option<&str>, new_medium: bool) -> Result<()> {
    match pool.filter(|_| new_medium) {
        None => Ok(()),
        Some(pool) => Err(MediumRefusal::PoolMakesNone { pool: pool.to_owned() }.into()),
    }
}

fn taken(medium: &Medium, place: &str) -> CellError {
    let label = &medium.label;
    MediumRefusal::PlaceTaken {
        medium: shown(medium.id, label),
        label: label.clone(),
        place: place.to_owned(),
    }
    .into()
}

fn not_mounted(place: &StoreAddress, point: &Path) -> CellError {
    MediumRefusal::PlaceNotMounted { point: point.to_owned(), place: place.shown() }.into()
}

/// Whether nothing is at a device, so that a medium would be made there.
fn is_bare(devices: &dyn DeviceHost, address: &Address) -> bool {
    match address {
        Address::Store(_) => match devices.medium(address) {
            Ok(_) => false,
            Err(DeviceError::Io { source, .. }) => source.kind() == std::io::ErrorKind::NotFound,
            Err(e) => matches!(e, DeviceError::NoMedium(_)),
        },
        Address::Tape(tape) if tape.tape.is_some() => {
            matches!(devices.medium(address), Err(DeviceError::NoMedium(_)))
        }
        // A drive that stands alone has another tape each time.
        Address::Tape(_) | Address::Null { .. } | Address::Unknown(_) => false,
        // An array is made where all of its members are; one that is there does without those that are not.
        Address::Array(_) => {
            let stores = address.stores();
            address.tapes().is_empty()
                && !stores.is_empty()
                && stores.iter().all(|store| is_bare_store(devices, store))
        }
    }
}

fn is_bare_store(devices: &dyn DeviceHost, store: &StoreAddress) -> bool {
    matches!(devices.look_in(store), Ok(InStore::Nothing))
}
