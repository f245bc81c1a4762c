//! What was found on tapes of libraries that hold no medium which is known: another program's, another cell's, write-protected,
//! unreadable, blank ones. It is remembered, so that the next search for a tape does not load them again.
//!
//! That holds as long as the library shows the tape in the slot in which it was then, or in a drive to which it came from there. What
//! lies elsewhere, came by a mail slot, or was away at any look, is forgotten; so is all of a library that says that somebody may have
//! changed tapes in it, or that was told to look into its slots anew. A tape is read before it is written, whatever was found on it.

use std::collections::HashMap;

use capstan_address::{Address, LibraryName, TapeAddress};
use capstan_format::record::MediumHeader;
use capstan_idb::{SeenTape, TapeIs};
use capstan_medium::DeviceError;
use capstan_medium::tape::{Held, OnTape, Place, TapeError};

use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::media::write_protected::is_write_protected;
use crate::names::{TEXT_MAX, bounded};
use crate::session::{local, now_us};

impl Cell {
    /// What is remembered of tapes of a library that lie there so, by barcode. What lies there otherwise is forgotten.
    pub(crate) fn seen_in(
        &self,
        library: &LibraryName,
        held: &[Held],
    ) -> Result<HashMap<String, SeenTape>> {
        let name = library.resolved().to_string();
        let (mut seen, mut moved) = (HashMap::new(), Vec::new());
        for one in self.idb.seen_tapes(&name)? {
            match slot_of(held, &one.barcode) == Some(one.slot) {
                true => drop(seen.insert(one.barcode.clone(), one)),
                false => moved.push(one.barcode),
            }
        }
        if !moved.is_empty() {
            self.idb.forget_seen_tapes(&name, Some(&moved))?;
        }
        Ok(seen)
    }

    /// Forgets what is remembered of all tapes of a library.
    pub(crate) fn forget_seen_in(&self, library: &LibraryName) -> Result<()> {
        Ok(self.idb.forget_seen_tapes(&library.resolved().to_string(), None)?)
    }

    /// Forgets what is remembered of a tape that leaves a library, or comes back.
    pub(crate) fn forget_seen_tape(&self, library: &LibraryName, barcode: &str) -> Result<()> {
        let name = library.resolved().to_string();
        Ok(self.idb.forget_seen_tapes(&name, Some(&[barcode.to_owned()]))?)
    }

    /// Forgets what is remembered of these tapes: a medium that is known is on them now.
    pub(crate) fn forget_seen(&self, device: &Address) -> Result<()> {
        for tape in device.tapes() {
            let name = tape.library.resolved().to_string();
            if let Some(barcode) = &tape.tape
                && self.idb.seen_tapes(&name)?.iter().any(|seen| seen.barcode == *barcode)
            {
                self.idb.forget_seen_tapes(&name, Some(std::slice::from_ref(barcode)))?;
            }
        }
        Ok(())
    }

    /// Remembers why a tape on which no medium is known could not be written, where that is a matter of the tape, and stays.
    pub(crate) fn remember_unfit(
        &self,
        tape: &TapeAddress,
        why: &CellError,
    ) -> Result<Option<SeenTape>> {
        let found = match why {
            e if is_write_protected(e) => Some((TapeIs::WriteProtected, String::new())),
            CellError::Device(e) if matches!(e.of_tape(), Some(TapeError::Cleans { .. })) => {
                Some((TapeIs::Cleaning, String::new()))
            }
            CellError::Device(e) if matches!(e.of_tape(), Some(TapeError::Unsuited { .. })) => {
                Some((TapeIs::Unsuited, chain(why)))
            }
            CellError::Device(e) if is_unreadable(e) => Some((TapeIs::Unreadable, chain(why))),
            e if e.is_out_of_reach() => None,
            CellError::Device(e) if e.of_tape().is_some_and(TapeError::is_no_tape) => None,
            _ => self.found_on(tape)?,
        };
        match found {
            Some((is, detail)) if is != TapeIs::Blank => self.remember(tape, is, detail),
            _ => Ok(None),
        }
    }

    /// Remembers what is on a tape that this process has in a drive, and on which no medium is known.
    pub(crate) fn remember_what_is_on(&self, tape: &TapeAddress) -> Result<()> {
        if let Some((is, detail)) = self.found_on(tape)? {
            self.remember(tape, is, detail)?;
        }
        Ok(())
    }

    /// Remembers that a tape was made blank.
    pub(crate) fn remember_blank(&self, tape: &TapeAddress) -> Result<()> {
        self.remember(tape, TapeIs::Blank, String::new()).map(drop)
    }

    /// What is on a tape that this process has in a drive, beside media of this cell.
    fn found_on(&self, tape: &TapeAddress) -> Result<Option<(TapeIs, String)>> {
        Ok(match self.devices.seen_on(tape) {
            Some(OnTape::Blank) => Some((TapeIs::Blank, String::new())),
            Some(OnTape::Foreign(seems)) => Some((TapeIs::Foreign, seems)),
            // The next array that is made may take it.
            Some(OnTape::Medium(_)) if self.left_of_making(tape)?.is_some() => None,
            Some(OnTape::Medium(header)) => self.not_ours(&header)?,
            None => None,
        })
    }

    fn not_ours(&self, header: &MediumHeader) -> Result<Option<(TapeIs, String)>> {
        let is = match self.other_cell(header)? {
            Some(_) => TapeIs::OtherCell,
            None if header.is_array() => TapeIs::Member,
            None => return Ok(None),
        };
        Ok(Some((is, format!("'{}'", header.label))))
    }

    /// Remembers that of a tape, as long as it lies where it lies.
    pub(crate) fn remember(
        &self,
        tape: &TapeAddress,
        is: TapeIs,
        detail: String,
    ) -> Result<Option<SeenTape>> {
        let tape = tape.resolved();
        let Some(barcode) = tape.tape.clone() else { return Ok(None) };
        // Who cannot say where it lies cannot say later either whether it lies there still.
        let held = self.devices.inventory(&tape.library).unwrap_or_default();
        let Some(slot) = slot_of(&held, &barcode) else { return Ok(None) };
        let seen = SeenTape {
            library: tape.library.to_string(),
            barcode,
            slot,
            is,
            detail: bounded(detail, TEXT_MAX),
            seen_us: now_us(),
        };
        self.idb.put_seen_tape(&seen)?;
        Ok(Some(seen))
    }
}

/// Whether the drive could not read the tape, for its being bad.
fn is_unreadable(error: &DeviceError) -> bool {
    error.blames_medium()
}

/// The slot in which a tape belongs: where it lies, or from where it came to its drive. Nothing where that is not certain: it is in a
/// mail slot, from which anybody may have taken it; two have that barcode, or it has none.
fn slot_of(held: &[Held], barcode: &str) -> Option<u32> {
    let mut with = held.iter().filter(|h| h.barcode == barcode && !barcode.is_empty());
    let tape = with.next().filter(|_| with.next().is_none())?;
    match (tape.place, tape.from) {
        (Place::Slot(n), _) | (Place::Drive(_), Some(Place::Slot(n))) => Some(n),
        _ => None,
    }
}

/// Why a tape cannot be written, in words that follow its name; nothing of one that can.
pub(crate) fn why_not(seen: &SeenTape) -> Option<String> {
    let since = format!("seen {}", local(seen.seen_us));
    let with = |what: &str| match seen.detail.as_str() {
        "" => format!("{what} ({since})"),
        detail => format!("{what} ({detail}; {since})"),
    };
    match seen.is {
        TapeIs::Blank => None,
        TapeIs::Foreign => Some(with("is not blank and not of Capstan")),
        TapeIs::WriteProtected => Some(with("is write-protected")),
        TapeIs::Unreadable => Some(with("cannot be read")),
        TapeIs::OtherCell => Some(with("belongs to another cell")),
        TapeIs::Member => Some(with("is a part of an array")),
        TapeIs::Unsuited => Some(with("is none for its drives")),
        TapeIs::Cleaning => Some(with("cleans drives")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(barcode: &str, place: Place, from: Option<Place>) -> Held {
        Held { place, barcode: barcode.to_owned(), from }
    }

    #[test]
    fn a_tape_belongs_where_it_lies_or_came_from() {
        let all = [
            held("A", Place::Slot(3), Some(Place::Mail(1))),
            held("B", Place::Drive(1), Some(Place::Slot(4))),
            held("C", Place::Drive(2), None),
            held("D", Place::Mail(1), None),
            held("E", Place::Drive(3), Some(Place::Mail(2))),
            held("", Place::Slot(5), None),
            held("F", Place::Slot(6), None),
            held("F", Place::Slot(7), None),
        ];
        let of = |barcode: &str| slot_of(&all, barcode);
        assert_eq!((of("A"), of("B")), (Some(3), Some(4)));
        for nowhere in ["C", "D", "E", "", "F", "G"] {
            assert_eq!(of(nowhere), None, "{nowhere}");
        }
    }
}
