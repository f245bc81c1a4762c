//! Erasing a medium: what was on it cannot be read by the usual means any more, and its device is blank.

use capstan_devices::address::Address;
use capstan_devices::open::{self, Writable};
use capstan_idb::Medium;

use super::life::refuse_locked;
use super::shown;
use crate::Cell;
use crate::error::{CellError, Result};
use crate::observe::Silent;
use crate::session::Ears;

/// What erasing a medium gave up.
#[derive(Debug, Clone)]
pub struct Erased {
    /// The medium as it was.
    pub medium: Medium,
    /// Segments that are gone.
    pub segments: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Versions that are no more.
    pub versions: u64,
    /// Whether all was overwritten.
    pub secure: bool,
}

impl Cell {
    /// Erases a medium, and forgets it. Refused while something on it must stay. `secure`: all of it is overwritten once.
    ///
    /// A tape is forgotten when it is blank. Of other media the database forgets first what lies there, and the header goes as
    /// the last: what an interruption leaves can be erased again, or imported.
    pub fn media_erase(&self, name: &str, secure: bool) -> Result<Erased> {
        let medium = self.find_medium(name)?;
        let address: Address = medium.device.parse()?;
        let holds_nothing = self.idb.holdings(medium.id)?.segments == 0;
        match &address {
            Address::Tape(tape) if open::is_blank(&address).unwrap_or(false) => {
                // What another time began is brought to its end: it may have been interrupted in the middle of the tape.
                let erased = self.erasable(&medium, secure)?;
                if secure {
                    capstan_devices::tape::erase(tape, true)?;
                }
                self.forget_erased(&medium)?;
                Ok(erased)
            }
            Address::Tape(_) => {
                let (erased, device) = self.hold_to_erase(&medium, secure)?;
                device.erase(secure)?;
                self.forget_erased(&medium)?;
                Ok(erased)
            }
            _ if holds_nothing && open::is_blank(&address).unwrap_or(false) => {
                let erased = self.erasable(&medium, secure)?;
                self.forget_erased(&medium)?;
                Ok(erased)
            }
            _ => {
                let (erased, device) = self.hold_to_erase(&medium, secure)?;
                self.forget_contents(&medium)?;
                device.erase(secure)?;
                self.forget_erased(&medium)?;
                Ok(erased)
            }
        }
    }

    /// Holds a medium that is there and may be erased.
    fn hold_to_erase(&self, medium: &Medium, secure: bool) -> Result<(Erased, Writable)> {
        let device = self.hold(medium)?;
        if let (true, Some(problem)) =
            (matches!(device, Writable::Array(_)), device.medium().problems().first())
        {
            return Err(CellError::BadInput(format!(
                "{} cannot be erased: {problem}; what the member has would stay",
                shown(medium.id, &medium.label)
            )));
        }
        // A writer that was killed may have left more than is recorded.
        self.record_unknown(device.medium(), &Ears::new(&Silent))?;
        let erased = self.erasable(medium, secure)?;
        refuse_locked(device.medium())?;
        Ok((erased, device))
    }

    /// What erasing a medium will have given up. Refused while something on it must stay.
    fn erasable(&self, medium: &Medium, secure: bool) -> Result<Erased> {
        let info = self.medium_info(medium)?;
        self.refuse_kept(&info)?;
        let lost = self.idb.versions_only_on_medium(medium.id)?;
        Ok(Erased {
            medium: medium.clone(),
            segments: info.holdings.segments,
            bytes: info.holdings.bytes,
            versions: self.idb.with_dependants(&lost)?.len() as u64,
            secure,
        })
    }

    fn forget_contents(&self, medium: &Medium) -> Result<()> {
        let lost = self.idb.versions_only_on_medium(medium.id)?;
        let lost = self.idb.with_dependants(&lost)?;
        Ok(self.idb.forget_medium_contents(medium.id, &lost)?)
    }

    fn forget_erased(&self, medium: &Medium) -> Result<()> {
        self.forget_contents(medium)?;
        Ok(self.idb.remove_medium(medium.id)?)
    }
}
