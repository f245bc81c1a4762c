//! Drives that ask to be cleaned: after the session, with a cleaning tape of their library.
//!
//! A drive that asks is dirty, or the tape in it is. Which it was shows when the tape asks again in another drive: then the
//! tape is at fault, and is written no more.

use capstan_devices::address::{Address, LibraryName, TapeAddress};
use capstan_engine::message::Code;
use capstan_format::id::MediumId;
use capstan_tape::changer::Place;
use capstan_tape::{DriveSession, Mount};

use crate::Cell;
use crate::error::{Result, chain};
use crate::library;
use crate::report::Report;
use crate::session::Ears;

/// In so many drives a tape may have asked for cleaning before it is thought to be at fault.
pub(crate) const DRIVES_MAX: usize = 2;

impl Cell {
    /// Cleans the drives that asked for it in a session that is done, and says what came of it. What goes wrong is a warning:
    /// the session's data are on their media.
    pub(crate) fn clean_drives(
        &self,
        drives: &[DriveSession],
        report: &mut Report,
        ears: &Ears<'_>,
    ) {
        let mut cleaned: Vec<&Mount> = Vec::new();
        for drive in drives.iter().filter(|d| d.alerts.iter().any(|a| a.wants_cleaning)) {
            let warn = |text: String| ears.say(Code::DriveDirty, "media agent", &drive.name, text);
            let Some(mount) = &drive.mount else {
                warn("it asks to be cleaned".to_owned());
                continue;
            };
            match self.note_asked(mount) {
                Ok(None) => {}
                Ok(Some(label)) => warn(format!(
                    "tape {label} has asked for cleaning in {DRIVES_MAX} drives: it is at fault itself and is written no more"
                )),
                Err(e) => warn(chain(&e)),
            }
            let same = |m: &&Mount| (&m.library, m.drive) == (&mount.library, mount.drive);
            if cleaned.iter().any(same) {
                continue;
            }
            cleaned.push(mount);
            match clean(mount) {
                Ok(how) => report.notes.push(format!("{} was cleaned, {how}", drive.name)),
                Err(e) => warn(format!("it asks to be cleaned, and was not: {}", chain(&e))),
            }
        }
    }

    /// Records that a drive asked with this tape in it. Returns what the tape is called, if that makes it suspect.
    fn note_asked(&self, mount: &Mount) -> Result<Option<String>> {
        let Some((medium, label)) = self.medium_mounted(mount)? else { return Ok(None) };
        let drive = format!("drive {} of {}", mount.drive, mount.library);
        let drives = self.idb.add_cleaning_drive(medium, &drive)?;
        Ok((drives >= DRIVES_MAX).then_some(label))
    }

    fn medium_mounted(&self, mount: &Mount) -> Result<Option<(MediumId, String)>> {
        for medium in self.idb.media()? {
            let Ok(device) = medium.device.parse::<Address>() else { continue };
            let is_it = |tape: &TapeAddress| {
                let library = tape.library.resolved().to_string();
                library == mount.library && tape.tape.as_ref() == Some(&mount.barcode)
            };
            if device.tapes().iter().any(is_it) {
                return Ok(Some((medium.id, medium.label)));
            }
        }
        Ok(None)
    }
}

/// Cleans the drive that a tape was in, which goes back to its slot; says with what.
fn clean(mount: &Mount) -> Result<String> {
    let name: LibraryName = mount.library.parse()?;
    // This process has the drive still.
    capstan_devices::tape::release_idle();
    let held = library::open(&name)?.inventory().map_err(library::of_tape)?;
    if held.iter().any(|h| h.place == Place::Drive(mount.drive)) {
        library::unload(&name, mount.drive)?;
    }
    let cleaned = library::clean(&name, mount.drive)?;
    Ok(match cleaned.left {
        Some(left) => format!("tape {} has {left} uses left", cleaned.barcode),
        None => format!("by tape {}", cleaned.barcode),
    })
}
