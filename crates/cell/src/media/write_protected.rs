//! Media whose tapes are write-protected, found so when they were to be written.
//!
//! Two things are recorded. That the tape is passed over holds as long as it lies where it lay then ([`crate::supply::tapes::seen`]): whoever
//! moves its tab takes it out for that. That it is write-protected stays on record until a drive says that it is not.

use capstan_address::{LibraryName, TapeAddress};
use capstan_format::id::MediumId;
use capstan_idb::{Idb, Medium, TapeIs};
use capstan_medium::tape::TapeError;
use serde::{Deserialize, Serialize};

use crate::Cell;
use crate::error::{CellError, Result};
use crate::session::now_us;

/// What the names of settings begin with that say so of a tape.
const TAB: &str = "write-protected:";

/// A tape of a medium that was to be written, and is write-protected.
#[derive(Debug, Clone)]
pub struct ProtectedTape {
    /// Its medium.
    pub medium: Medium,
    /// When that was seen last, in microseconds since 1970.
    pub seen_us: i64,
}

/// What is recorded of such a tape.
#[derive(Serialize, Deserialize)]
struct Tab {
    medium: String,
    seen_us: i64,
}

/// Whether a tape was not written as it is write-protected.
pub(crate) fn is_write_protected(e: &CellError) -> bool {
    let CellError::Device(e) = e else { return false };
    matches!(e.of_tape(), Some(TapeError::WriteProtected { .. }))
}

/// Forgets that a tape is write-protected.
pub(crate) fn forget_tab(idb: &Idb, library: &LibraryName, barcode: &str) -> Result<()> {
    let (name, library) = (setting(library, barcode), library.resolved().to_string());
    if idb.setting(&name)?.is_some() {
        idb.remove_setting(&name)?;
    }
    let is_it =
        |seen: &capstan_idb::SeenTape| seen.barcode == barcode && seen.is == TapeIs::WriteProtected;
    if idb.seen_tapes(&library)?.iter().any(is_it) {
        idb.forget_seen_tapes(&library, Some(&[barcode.to_owned()]))?;
    }
    Ok(())
}

/// Where it is recorded of a tape.
fn setting(library: &LibraryName, barcode: &str) -> String {
    format!("{TAB}{}#{barcode}", library.resolved())
}

impl Cell {
    /// Records that a medium which was to be written is write-protected. Returns what a session says of that; nothing of one that
    /// is not on a tape of a library.
    pub(crate) fn note_write_protected(&self, id: MediumId) -> Result<Option<String>> {
        let Some(tape @ TapeAddress { tape: Some(_), .. }) = self.tape_of(id) else {
            return Ok(None);
        };
        let barcode = tape.tape.as_deref().unwrap_or_default();
        let tab = Tab { medium: id.to_string(), seen_us: now_us() };
        let json = serde_json::to_string(&tab).unwrap_or_default();
        self.idb.put_setting(&setting(&tape.library, barcode), &json)?;
        self.remember(&tape, TapeIs::WriteProtected, String::new())?;
        Ok(Some(format!(
            "tape {barcode} was to be written and is write-protected, so another one is taken for it"
        )))
    }

    /// Since when a medium is known to be write-protected, if its tape lies where it lay then.
    pub(crate) fn protected_since(&self, medium: &Medium) -> Result<Option<i64>> {
        let Some(tape @ TapeAddress { tape: Some(_), .. }) = self.tape_of(medium.id) else {
            return Ok(None);
        };
        let barcode = tape.tape.as_deref().unwrap_or_default();
        let Some(tab) = self.tab(&setting(&tape.library, barcode), medium.id)? else {
            return Ok(None);
        };
        let Ok(held) = self.devices.inventory(&tape.library) else { return Ok(None) };
        let seen = self.seen_in(&tape.library, &held)?;
        let is_there = seen.get(barcode).is_some_and(|seen| seen.is == TapeIs::WriteProtected);
        Ok(is_there.then_some(tab.seen_us))
    }

    /// The media that were to be written and are write-protected, as far as they are not retired.
    pub fn write_protected(&self) -> Result<Vec<ProtectedTape>> {
        let mut all = Vec::new();
        if self.idb.settings_of(TAB)?.is_empty() {
            return Ok(all);
        }
        for medium in self.idb.media()? {
            let Some(TapeAddress { tape: Some(barcode), library, .. }) = self.tape_of(medium.id)
            else {
                continue;
            };
            if let Some(tab) = self.tab(&setting(&library, &barcode), medium.id)?
                && self.idb.management(medium.id)?.retired_us.is_none()
            {
                all.push(ProtectedTape { medium, seen_us: tab.seen_us });
            }
        }
        Ok(all)
    }

    /// What is recorded of the tape of a medium.
    fn tab(&self, name: &str, medium: MediumId) -> Result<Option<Tab>> {
        let json = self.idb.setting(name)?;
        let tab: Option<Tab> = json.and_then(|json| serde_json::from_str(&json).ok());
        Ok(tab.filter(|tab| tab.medium == medium.to_string()))
    }
}
