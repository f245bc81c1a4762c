//! Known media where they were last seen: to read, or held for changes.

use capstan_address::Address;
use capstan_format::id::MediumId;
use capstan_idb::Medium;
use capstan_medium::{HeldMedium, OpenMedium};

use crate::Cell;
use crate::error::{CellError, MediumRefusal, Result};
use crate::media::exchanged::Looked;
use crate::reading::known::media::{another, not_there, refuse_exported};
use crate::session::waited::patiently;

impl Cell {
    /// A known medium, if it is where it was last seen.
    pub(crate) fn medium_at_hand(&self, id: MediumId) -> Result<OpenMedium> {
        let (row, address) = self.place_of(id)?;
        self.open_known(&row, &address)
    }

    /// Whether a medium is at a device now, as far as that can be opened.
    pub(crate) fn is_at(&self, medium: MediumId, address: &Address) -> bool {
        self.devices.medium(address).is_ok_and(|there| there.header().medium == medium)
    }

    /// Opens a known medium, if it is where it was last seen. A tape on which nothing or something else is now is marked, and said. Where
    /// labels were exchanged it is looked for where it is by that.
    pub(crate) fn open_known(&self, row: &Medium, address: &Address) -> Result<OpenMedium> {
        let (mut row, mut address, mut looked) = (row.clone(), address.clone(), Looked::default());
        while looked.is_new(row.id, &row.device) {
            match self.open_known_at(&row, &address) {
                Err(CellError::Exchanged(_)) => {
                    row = self.idb.medium(row.id)?.unwrap_or(row);
                    address = row.device.clone();
                    self.devices.wait_for(&address);
                }
                opened => return opened,
            }
        }
        Err(self.not_on_exchanged(&row))
    }

    fn open_known_at(&self, row: &Medium, address: &Address) -> Result<OpenMedium> {
        let opened = self.devices.known(address, self.wanted(row));
        self.refuse_overwritten(address, opened.as_ref().map(OpenMedium::header))?;
        let medium = opened.map_err(|e| not_there(self, e, row))?;
        self.refuse_another(&medium, row)?;
        self.note_lost_header(&medium)?;
        // One that is itself again is marked no more; where that cannot be told now, the mark stays.
        if self.idb.management(row.id)?.changed_us.is_some() {
            let _ = self.note_changed(address, &medium);
        }
        Ok(medium)
    }

    /// The same, of this cell and in the house: to say what a change would be.
    pub(crate) fn medium_to_change(&self, id: MediumId) -> Result<OpenMedium> {
        let (row, address) = self.place_of(id)?;
        refuse_exported(&self.idb, &row)?;
        let medium = self.open_known(&row, &address)?;
        self.refuse_other_cells(medium.header(), medium.path())?;
        Ok(medium)
    }

    /// A known medium of this cell, held: nobody else writes to it. One that others have is waited for, so the caller has no other. One
    /// that is out of the house by record is changed by nobody until it is imported, also where it is mounted again. One that is not as
    /// it was last written is refused: another disk may be in its place.
    pub(crate) fn hold_medium(&self, id: MediumId) -> Result<HeldMedium> {
        patiently(&*self.devices, || self.hold_medium_now(id))
    }

    /// The same, at once.
    pub(crate) fn hold_medium_now(&self, id: MediumId) -> Result<HeldMedium> {
        let held = self.hold_whatever_its_end(id)?;
        self.refuse_changed(&self.place_of(id)?.1, held.medium())?;
        Ok(held)
    }

    /// The same of one that is mended: whoever asks knows whether its end is as it was last written.
    pub(crate) fn hold_medium_as_it_is(&self, id: MediumId) -> Result<HeldMedium> {
        patiently(&*self.devices, || self.hold_whatever_its_end(id))
    }

    fn hold_whatever_its_end(&self, id: MediumId) -> Result<HeldMedium> {
        let (mut place, mut looked) = (self.place_of(id)?, Looked::default());
        while looked.is_new(id, &place.0.device) {
            let (row, address) = &place;
            refuse_exported(&self.idb, row)?;
            let held = self.devices.held(address).map_err(|e| not_there(self, e, row))?;
            let header = held.medium().header();
            if header.medium != id && self.set_right(address, header)?.is_some() {
                place = self.place_of(id)?;
                continue;
            }
            self.refuse_another(held.medium(), row)?;
            self.refuse_other_cells(header, held.medium().path())?;
            return Ok(held);
        }
        Err(self.not_on_exchanged(&place.0))
    }

    /// Whether a known medium is a tape, or an array of tapes.
    pub(crate) fn is_on_tape(&self, id: MediumId) -> Result<bool> {
        Ok(self.place_of(id)?.1.is_sequential())
    }

    fn refuse_another(&self, there: &OpenMedium, row: &Medium) -> Result<()> {
        match there.header().medium {
            found if found == row.id => Ok(()),
            found => Err(another(self, found, row)),
        }
    }

    /// What is recorded of a medium, and where it lies.
    pub(crate) fn place_of(&self, id: MediumId) -> Result<(Medium, Address)> {
        let row = self.idb.medium(id)?.ok_or(MediumRefusal::UnknownId(id))?;
        let address = row.device.clone();
        Ok((row, address))
    }
}
