//! Media in whose place another one is, and media in two places.

use capstan_address::Address;
use capstan_format::FormatError;
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_idb::Medium;
use capstan_medium::DeviceError;
use capstan_medium::tape::TapeError;

use crate::Cell;
use crate::error::{MediumRefusal, Result, chain};
use crate::media::changed::ways::{BLANK, ON_IT, OTHERS, PART, other_ways};
use crate::media::{absent_tape, is_place_here, other_host, recorded, shown};

impl Cell {
    /// Refuses a medium that is at hand at another place too, where it was written last.
    pub(crate) fn refuse_twice(&self, id: MediumId, address: &Address) -> Result<()> {
        let Some(row) = self.idb.medium(id)? else { return Ok(()) };
        let last = &row.device;
        if self.is_place_of(&row, address) || !is_at_hand_elsewhere(self, id, last, address) {
            return Ok(());
        }
        Err(MediumRefusal::InTwoPlaces {
            medium: shown(id, &row.label),
            last: last.clone(),
            device: recorded(address),
            ways: other_ways(&row, address),
        }
        .into())
    }

    /// Refuses a tape whose barcode is that of a medium which is not on it any more, and marks that medium; or corrects what is recorded,
    /// where another medium of the library is there. `found` is what is on it now.
    pub(crate) fn refuse_overwritten(
        &self,
        address: &Address,
        found: std::result::Result<&MediumHeader, &DeviceError>,
    ) -> Result<()> {
        if address.as_named_tape().is_none() {
            return Ok(());
        }
        if let Ok(header) = found
            && let Some(exchanged) = self.set_right(address, header)?
        {
            return Err(exchanged);
        }
        let (what, is_blank) = match found {
            Ok(header) => (format!("{} {ON_IT}", shown(header.medium, &header.label)), false),
            Err(DeviceError::NoMedium(_)) => {
                let is_blank = self.devices.is_blank(address)?;
                (if is_blank { BLANK } else { OTHERS }.to_owned(), is_blank)
            }
            Err(DeviceError::Medium {
                source: FormatError::Newer { .. } | FormatError::UnknownFeatures(_),
                ..
            }) => return Ok(()),
            Err(DeviceError::ArrayMember { .. }) => (PART.to_owned(), true),
            Err(e) if e.is_no_medium() => (OTHERS.to_owned(), false),
            Err(e) if e.of_tape().is_some_and(TapeError::is_no_tape) => (chain(e), false),
            Err(e) if e.blames_medium() => return self.note_unreadable_at(address),
            // What is wrong with the drive or the library, says who opens it.
            Err(_) => return Ok(()),
        };
        let is_it = |row: &Medium| found.is_ok_and(|header| header.medium == row.id);
        let place = address.recorded();
        let mut of_here: Vec<Medium> = self.idb.media()?;
        of_here.retain(|row| row.device == place);
        if of_here.iter().any(is_it) {
            return Ok(());
        }
        let mut refused = None;
        for row in of_here {
            // Where nothing was written yet, nothing is lost; what can be written is.
            let holds = self.idb.last_segment_number(row.id)?.is_some();
            if holds || !is_blank && found.is_err() {
                refused = Some(self.mark_changed(&row, address, &what)?);
            }
        }
        refused.map_or(Ok(()), Err)
    }

    /// Whether a medium is recorded as lying there. A tape is the one with its barcode, wherever that is.
    pub(super) fn is_place_of(&self, row: &Medium, address: &Address) -> bool {
        let same_tape = |last: &Address| match (last, address) {
            (Address::Tape(last), Address::Tape(now)) => {
                last.tape.is_some() && last.tape == now.tape
            }
            _ => false,
        };
        let is_here = address.is_tape() || is_place_here(&self.idb, row);
        is_here && address.recorded() == row.device || same_tape(&row.device)
    }

    /// Whether another medium is known to lie by now where a medium was written last: then what is found of it elsewhere is no copy,
    /// but the medium itself.
    pub(super) fn is_place_taken(&self, row: &Medium) -> Result<bool> {
        if other_host(&self.idb, row).is_some() {
            return Ok(false);
        }
        let last = &row.device;
        if !last.is_tape() && self.is_at(row.id, last) {
            return Ok(false);
        }
        Ok(self.idb.media()?.iter().any(|other| other.id != row.id && other.device == row.device))
    }
}

/// Whether the medium is still where it was last, which is not the same place by another name.
fn is_at_hand_elsewhere(cell: &Cell, id: MediumId, last: &Address, now: &Address) -> bool {
    let has_it = || cell.is_at(id, last);
    match (last, now) {
        (Address::Store(_), Address::Store(_)) | (Address::Array(_), Address::Array(_)) => {
            let (last, now) = (last.stores(), now.stores());
            let shares = last.iter().any(|l| now.iter().any(|n| cell.devices.is_same(l, n)));
            !last.is_empty() && !shares && has_it()
        }
        // Nobody loads the one for the other: another barcode of the same medium is enough.
        (Address::Tape(last), Address::Tape(now)) => {
            last.tape.is_some() && now.tape.is_some() && absent_tape(&*cell.devices, last).is_none()
        }
        _ => false,
    }
}
