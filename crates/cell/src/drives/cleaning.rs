//! Drives that ask to be cleaned: after the session, with a cleaning tape of their library.
//!
//! A drive that asks is dirty, or the tape in it is. Which it was shows when the tape asks again in another drive: then the
//! tape is at fault, and is written no more.

use capstan_address::{LibraryName, TapeAddress};
use capstan_engine::message::Code;
use capstan_format::id::MediumId;
use capstan_medium::host::DeviceHost;
use capstan_medium::tape::{DriveSession, Mount, Place};
use serde::{Deserialize, Serialize};

use crate::Cell;
use crate::drives::library::{self, Cleaned};
use crate::drives::on_record;
use crate::drives::uses::Uses;
use crate::error::{CellError, Result, chain};
use crate::media::DRIVES_MAX;
use crate::report::Report;
use crate::session::{SessionLog, now_us};

/// What the names of settings begin with: a drive that asks to be cleaned and was not, and a cleaning tape that was used.
const DIRTY: &str = "dirty-drive:";
const USED: &str = "cleaning-tape:";

/// A drive of a library that asks to be cleaned, and that no session could clean.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirtyDrive {
    /// The library, as devices are named.
    pub library: String,
    /// The drive's number there, from 1.
    pub drive: u32,
    /// When it asked last, in microseconds since 1970.
    pub asked_us: i64,
    /// Why it was not cleaned.
    pub why: String,
    /// The process that found it so.
    pub pid: u32,
}

impl Cell {
    /// Says which tapes are not what their stickers say, by the drives that had them in a session that is done, and which drives could
    /// not read what others could. Cleans the drives that
    /// asked for it, and says what came of it. What goes wrong is a warning:
    /// the session's data are on their media.
    pub(crate) fn clean_drives(
        &self,
        drives: &[DriveSession],
        report: &mut Report,
        log: &SessionLog<'_>,
    ) {
        // Those that were found to be others since they were looked for.
        self.say_changed(log);
        for drive in drives {
            if let (Some(what), tape) =
                (&drive.contradiction, drive.tape.as_deref().unwrap_or_default())
            {
                log.say(Code::Mislabelled, "media agent", tape, what.clone());
            }
        }
        // A session that writes has what it reads on the way in no report.
        let left = self.devices.take_suspects();
        let mut said: Vec<(&str, String)> = Vec::new();
        for drive in drives.iter().chain(&left) {
            let Some(other) = drive.read_by else { continue };
            let tape = drive.tape.as_deref().unwrap_or_default();
            let text = format!("it had errors with tape {tape}, and drive {other} has none");
            let one = (drive.name.as_str(), text);
            if !said.contains(&one) {
                log.say(Code::DriveSuspect, "media agent", one.0, one.1.clone());
                said.push(one);
            }
        }
        let all: Vec<DriveSession> = drives.iter().chain(&left).cloned().collect();
        if let Err(e) = self.judge_drives(&all, log) {
            log.say(Code::DriveSuspect, "cell", "drives", chain(&e));
        }
        let mut cleaned: Vec<&Mount> = Vec::new();
        for drive in drives.iter().filter(|d| !d.alerts.iter().any(|a| a.wants_cleaning)) {
            if let Some(mount) = &drive.mount {
                self.note_clean(mount);
            }
        }
        for drive in drives.iter().filter(|d| d.alerts.iter().any(|a| a.wants_cleaning)) {
            let warn = |text: String| log.say(Code::DriveDirty, "media agent", &drive.name, text);
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
            match clean(&*self.devices, mount) {
                Ok(by) => {
                    let noted = self.note_cleaned(&mount.library, mount.drive, &by);
                    report.notes.push(format!("{} was cleaned, {}", drive.name, how(&by)));
                    noted.unwrap_or_else(|e| warn(chain(&e)));
                }
                Err(e) => {
                    warn(format!("it asks to be cleaned, and was not: {}", chain(&e)));
                    self.note_dirty(mount, &e).unwrap_or_else(|e| warn(chain(&e)));
                }
            }
        }
    }

    /// The drives that ask to be cleaned and were not.
    pub fn dirty_drives(&self) -> Result<Vec<DirtyDrive>> {
        let recorded = self.idb.settings_of(DIRTY)?;
        Ok(recorded.iter().filter_map(|(_, json)| serde_json::from_str(json).ok()).collect())
    }

    /// Cleans a drive with the first cleaning tape that is fit for it.
    pub fn library_clean(&self, name: &LibraryName, drive: u32) -> Result<Cleaned> {
        let cleaned = library::clean(&*self.devices, name, drive)?;
        self.note_cleaned(&name.resolved().to_string(), drive, &cleaned)?;
        Ok(cleaned)
    }

    /// How often a cleaning tape of a library was used, as far as this cell did, and what was left then.
    pub(crate) fn uses_of(&self, library: &str, barcode: &str) -> Result<Uses> {
        let recorded = self.idb.setting(&format!("{USED}{library}#{barcode}"))?;
        Ok(recorded.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_default())
    }

    fn note_cleaned(&self, library: &str, drive: u32, by: &Cleaned) -> Result<()> {
        self.idb.remove_setting(&format!("{DIRTY}{library}#{drive}"))?;
        on_record::forget(&self.idb, library, drive)?;
        let used = self.uses_of(library, &by.barcode)?.used.saturating_add(1);
        let json = serde_json::to_string(&Uses { used, left: by.left }).unwrap_or_default();
        Ok(self.idb.put_setting(&format!("{USED}{library}#{}", by.barcode), &json)?)
    }

    fn note_dirty(&self, mount: &Mount, why: &CellError) -> Result<()> {
        let Mount { library, drive, .. } = mount;
        let dirty = DirtyDrive {
            library: library.clone(),
            drive: *drive,
            asked_us: now_us(),
            why: chain(why),
            pid: std::process::id(),
        };
        let json = serde_json::to_string(&dirty).unwrap_or_default();
        Ok(self.idb.put_setting(&format!("{DIRTY}{library}#{drive}"), &json)?)
    }

    /// Takes back that a drive asks, as it did not ask in this session: somebody cleaned it. Of its own process a drive asks once.
    fn note_clean(&self, mount: &Mount) {
        let is_it = |of: &DirtyDrive| (&of.library, of.drive) == (&mount.library, mount.drive);
        let known = self.dirty_drives().unwrap_or_default();
        if known.iter().any(|of| is_it(of) && of.pid != std::process::id()) {
            // It stays on record until it can be taken back.
            let _ = self.idb.remove_setting(&format!("{DIRTY}{}#{}", mount.library, mount.drive));
        }
    }

    /// Records that a drive asked with this tape in it. Returns what the tape is called, if that makes it suspect. A drive that asked before
    /// and was not cleaned since asks whatever tape is in it.
    fn note_asked(&self, mount: &Mount) -> Result<Option<String>> {
        let is_it = |of: &DirtyDrive| (&of.library, of.drive) == (&mount.library, mount.drive);
        if self.dirty_drives()?.iter().any(is_it) {
            return Ok(None);
        }
        let Some((medium, label)) = self.medium_mounted(mount)? else { return Ok(None) };
        let drive = format!("drive {} of {}", mount.drive, mount.library);
        let drives = self.idb.add_cleaning_drive(medium, &drive)?;
        Ok((drives >= DRIVES_MAX).then_some(label))
    }

    fn medium_mounted(&self, mount: &Mount) -> Result<Option<(MediumId, String)>> {
        for medium in self.idb.media()? {
            let device = &medium.device;
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

/// Cleans the drive that a tape was in, which goes back to its slot.
fn clean(devices: &dyn DeviceHost, mount: &Mount) -> Result<Cleaned> {
    let name: LibraryName = mount.library.parse()?;
    // This process has the drive still.
    devices.release_idle();
    let held = library::open(devices, &name)?.inventory().map_err(library::of_tape)?;
    if held.iter().any(|h| h.place == Place::Drive(mount.drive)) {
        library::unload(devices, &name, mount.drive)?;
    }
    library::clean(devices, &name, mount.drive)
}

/// With what a drive was cleaned.
fn how(cleaned: &Cleaned) -> String {
    match cleaned.left {
        Some(left) => format!("tape {} has {left} uses left", cleaned.barcode),
        None => format!("by tape {}", cleaned.barcode),
    }
}
