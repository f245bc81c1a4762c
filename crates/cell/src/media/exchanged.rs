//! Tapes of a library whose labels were exchanged: a tape is the medium that its header says, whatever its barcode is.
//!
//! What is recorded is corrected as soon as such a tape is opened: its medium lies there. The one that was recorded there lies where
//! that medium was, for all that is known. Whoever opens it there finds out: that tape may have a third one on it, whose place is the
//! next to look at.

use capstan_address::{Address, TapeAddress};
use capstan_engine::message::Code;
use capstan_engine::problem::Problem;
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_idb::{Management, Medium};

use super::changed::ways::ON_IT;
use super::shown;
use crate::Cell;
use crate::error::{CellError, Result};

/// The places at which media were looked for: one is looked for at each of them once.
#[derive(Debug, Default)]
pub(crate) struct Looked(Vec<(MediumId, String)>);

impl Looked {
    /// Whether a medium was not looked for there yet.
    pub fn is_new(&mut self, medium: MediumId, place: impl ToString) -> bool {
        let at = (medium, place.to_string());
        let is_new = !self.0.contains(&at);
        if is_new {
            self.0.push(at);
        }
        is_new
    }
}

impl Cell {
    /// Corrects what is recorded of a tape that has another medium of its library on it than the one that is recorded there. Returns the
    /// error for who wanted that one; nothing where it is not so.
    pub(crate) fn set_right(
        &self,
        address: &Address,
        found: &MediumHeader,
    ) -> Result<Option<CellError>> {
        let Some((here, barcode)) = address.as_named_tape() else {
            return Ok(None);
        };
        let Some(other) = self.idb.medium(found.medium)?.filter(|_| !found.is_array()) else {
            return Ok(None);
        };
        let (here, there) = (here.recorded(), &other.device);
        let Some((there, its_barcode)) = there.as_named_tape() else {
            return Ok(None);
        };
        let media = self.idb.media()?;
        let mut of_here = media.into_iter().filter(|row| row.device == Address::from(here.clone()));
        let is_of_library = there.library.resolved() == here.library.resolved();
        let Some(first) = of_here.next().filter(|_| is_of_library && there.recorded() != here)
        else {
            return Ok(None);
        };
        let of_other = self.idb.management(other.id)?;
        let (name, wanted) = (shown(other.id, &other.label), shown(first.id, &first.label));
        for row in std::iter::once(first).chain(of_here) {
            self.lies_at(&row, there, &of_other)?;
        }
        self.lies_at(&other, &here, &Management::default())?;
        let text = format!(
            "by its header tape {barcode} is {name}, not {wanted}: its label and that of tape {its_barcode} are exchanged. Each is \
             used as what it is"
        );
        self.note_passed(Code::Mislabelled, barcode, text.clone());
        Ok(Some(CellError::Exchanged(Problem::new(text).hint("give the command again"))))
    }

    /// The error for a medium that is on none of the tapes whose labels were exchanged, by what they say: it is marked.
    pub(crate) fn not_on_exchanged(&self, medium: &Medium) -> CellError {
        let mark = || self.mark_changed(medium, &medium.device, &format!("another medium {ON_IT}"));
        mark().unwrap_or_else(|e| e)
    }

    /// Records that a medium lies on a tape, in the house or not as that says. That another one was in its place is no mark any more.
    fn lies_at(&self, medium: &Medium, tape: &TapeAddress, out: &Management) -> Result<()> {
        let row = Medium { device: Address::from(tape.recorded()), ..medium.clone() };
        self.idb.place_medium(&row, self.host(), |_| medium.label.clone())?;
        self.idb.set_exported_as(medium.id, out)?;
        let why = self.idb.management(medium.id)?.changed_why;
        if why.is_some_and(|why| why.ends_with(ON_IT)) {
            self.idb.set_medium_changed(medium.id, None)?;
        }
        Ok(())
    }
}
