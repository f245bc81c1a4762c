//! Erasing a medium: what was on it cannot be read by the usual means any more, and its device is blank.

use capstan_address::{Address, TapeAddress};
use capstan_format::record::MediumHeader;
use capstan_idb::Medium;
use capstan_medium::DeviceError;
use capstan_medium::host::Writable;

use crate::Cell;
use crate::error::{CellError, Result, TapeKnown, UpkeepRefusal};
use crate::media::{at_other_host, is_elsewhere, shown};
use crate::observe::Silent;
use crate::session::SessionLog;
use crate::session::waited::patiently;
use crate::upkeep::media::life::{refuse_lock_attached, refuse_locked};

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
    /// Whether all was to be overwritten.
    pub secure: bool,
    /// What was not overwritten, and only removed, as it was no file of the medium's own: each with why.
    pub not_overwritten: Vec<String>,
}

/// What was on a tape of which the database knows nothing, and is erased.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Foreign {
    /// Nothing.
    Blank,
    /// What no Capstan wrote, or what cannot be read any more.
    Other,
    /// A medium of a Capstan, with that label.
    Medium(String),
}

impl Cell {
    /// Erases a tape on which there is no medium that the database knows: another program's, another cell's, one that was begun
    /// and never became a medium. Refused while something on it is locked. `secure`: all of its length.
    pub fn erase_foreign(&self, tape: &str, secure: bool) -> Result<Foreign> {
        let tape = match tape.parse() {
            Ok(Address::Tape(tape)) => tape,
            _ => {
                return Err(UpkeepRefusal::NoTape { name: tape.to_owned() }.into());
            }
        };
        let on_it = match patiently(&*self.devices, || Ok(self.devices.member(&tape)?)) {
            Ok(medium) => {
                self.refuse_known(&tape, Some(medium.header()))?;
                // Of one whose drive encrypts it, without the key nobody knows whether it is locked.
                // That of an array's tape is the array's.
                let array = medium.header().of_array();
                self.open_drive_key(array.as_ref().unwrap_or(medium.header()))?;
                refuse_lock_attached(&medium, self.believed_us()?)?;
                Foreign::Medium(medium.header().label.clone())
            }
            Err(CellError::Device(DeviceError::NoMedium(_)))
                if self.devices.is_blank(&Address::Tape(tape.clone()))? =>
            {
                self.refuse_known(&tape, None)?;
                Foreign::Blank
            }
            Err(CellError::Device(e)) if e.is_no_medium() => {
                self.refuse_known(&tape, None)?;
                Foreign::Other
            }
            Err(e) => return Err(e),
        };
        self.devices.erase_tape(&tape, secure)?;
        self.remember_blank(&tape)?;
        Ok(on_it)
    }

    /// Refuses a tape that a medium lies on which the database knows, by what the tape says of itself and by where media were
    /// last.
    fn refuse_known(&self, tape: &TapeAddress, header: Option<&MediumHeader>) -> Result<()> {
        let array = header.and_then(|h| h.array.as_ref()).map(|place| place.array);
        for medium in self.idb.media()? {
            let lies_on =
                |same: &dyn Fn(&TapeAddress) -> bool| medium.device.tapes().iter().any(same);
            let is_it = header.is_some_and(|h| h.medium == medium.id);
            // A tape that was to become a member of an array, and did not, is none of those that the array is known to have.
            let is_member = array == Some(medium.id)
                && (tape.tape.is_none() || lies_on(&|t| t.tape == tape.tape));
            let was_here = tape.tape.is_some()
                && lies_on(&|t| {
                    t.tape == tape.tape && t.library.resolved() == tape.library.resolved()
                });
            if is_it || is_member || was_here {
                let label = &medium.label;
                let management = self.idb.management(medium.id)?;
                let known = match management.changed_us {
                    _ if management.is_other_cells() => TapeKnown::OfAnotherCell,
                    Some(_) => TapeKnown::Gone,
                    None => TapeKnown::There,
                };
                return Err(UpkeepRefusal::TapeOfMedium {
                    medium: shown(medium.id, label),
                    label: label.clone(),
                    known,
                }
                .into());
            }
        }
        Ok(())
    }

    /// Erases a medium, and forgets it. Refused while something on it must stay. `secure`: all of it is overwritten once.
    ///
    /// A tape is forgotten when it is blank. Of other media the database forgets first what lies there, and the header goes as
    /// the last: what an interruption leaves can be erased again, or imported.
    pub fn media_erase(&self, name: &str, secure: bool, give_up: bool) -> Result<Erased> {
        let medium = self.settled(self.find_medium(name)?)?;
        let address = &medium.device;
        // A directory that is blank here is no medium of another host's.
        if !address.is_tape()
            && is_elsewhere(self, &medium)
            && let Some(e) = at_other_host(&self.idb, &medium)
        {
            return Err(e);
        }
        let holds_nothing = self.idb.holdings(medium.id)?.segments == 0;
        match &address {
            Address::Tape(tape)
                if patiently(&*self.devices, || Ok(self.devices.is_blank(address)?))
                    .unwrap_or(false) =>
            {
                // What another time began is brought to its end: it may have been interrupted in the middle of the tape.
                let erased = self.erasable(&medium, secure)?;
                if secure {
                    self.devices.erase_tape(tape, true)?;
                }
                self.forget_erased(&medium)?;
                self.remember_blank(tape)?;
                Ok(erased)
            }
            Address::Tape(tape) => {
                let (erased, device) = self.hold_to_erase(&medium, secure, give_up)?;
                device.erase(secure)?;
                self.forget_erased(&medium)?;
                self.remember_blank(tape)?;
                Ok(erased)
            }
            _ if holds_nothing && self.devices.is_blank(address).unwrap_or(false) => {
                let erased = self.erasable(&medium, secure)?;
                self.forget_erased(&medium)?;
                Ok(erased)
            }
            _ => {
                let (mut erased, device) = self.hold_to_erase(&medium, secure, give_up)?;
                self.forget_contents(&medium)?;
                erased.not_overwritten = device.erase(secure)?;
                self.forget_erased(&medium)?;
                Ok(erased)
            }
        }
    }

    /// Holds a medium that is there and may be erased.
    fn hold_to_erase(
        &self,
        medium: &Medium,
        secure: bool,
        give_up: bool,
    ) -> Result<(Erased, Box<dyn Writable>)> {
        let device = self.hold(medium)?;
        let is_array = medium.device.as_array().is_some();
        if let (true, Some(problem)) = (is_array, device.medium().problems().first()) {
            return Err(UpkeepRefusal::MemberNotErased {
                medium: shown(medium.id, &medium.label),
                why: problem.clone(),
            }
            .into());
        }
        // A writer that was killed may have left more than is recorded.
        self.record_unknown(device.medium(), &SessionLog::new(&Silent))?;
        let erased = self.erasable(medium, secure)?;
        refuse_locked(device.medium(), self.believed_us()?)?;
        device.refuse_worm()?;
        self.refuse_last(medium, give_up, "erase")?;
        Ok((erased, device))
    }

    /// What erasing a medium will have given up. Refused while something on it must stay.
    fn erasable(&self, medium: &Medium, secure: bool) -> Result<Erased> {
        let info = self.medium_info(medium)?;
        self.refuse_kept(&info)?;
        self.refuse_read(medium.id)?;
        let lost = self.idb.versions_only_on_medium(medium.id)?;
        Ok(Erased {
            medium: medium.clone(),
            segments: info.holdings.segments,
            bytes: info.holdings.bytes,
            versions: self.idb.with_dependants(&lost)?.len() as u64,
            secure,
            not_overwritten: Vec::new(),
        })
    }

    fn forget_contents(&self, medium: &Medium) -> Result<()> {
        let lost = self.idb.versions_only_on_medium(medium.id)?;
        let lost = self.idb.with_dependants(&lost)?;
        Ok(self.idb.forget_medium_contents(medium.id, &lost)?)
    }

    pub(crate) fn forget_erased(&self, medium: &Medium) -> Result<()> {
        self.leaves_set(medium.id)?;
        self.forget_contents(medium)?;
        Ok(self.idb.remove_medium(medium.id)?)
    }
}
