//! What is on record against drives of libraries: that they failed, that they could not read or write tapes which others can, that
//! somebody took them out of service.
//!
//! A write that fails may be the tape's fault, or its drive's. It counts against both, until more is known. Where several tapes could not be
//! written in one drive, and another drive wrote these or others well since, the drive is suspect: its errors are taken back from the
//! tapes. Where another drive cannot write a tape either, it is the tape's fault. A session that writes well in a drive, or its cleaning,
//! takes back all that is on record against it. Of the only drive of a library, or one that stands alone, nothing is on record.

use std::collections::BTreeSet;

use capstan_address::{Address, LibraryName};
use capstan_engine::message::Code;
use capstan_engine::problem::Problem;
use capstan_format::id::MediumId;
use capstan_idb::Idb;
use capstan_medium::host::ledger::{DriveFault, DriveOnRecord, SUSPECT};
use capstan_medium::tape::DriveSession;
use serde::{Deserialize, Serialize};

use crate::Cell;
use crate::drives::library::of_tape;
use crate::error::{DriveRefusal, Result};
use crate::session::{SessionLog, now_us};

/// What the names of settings begin with that have a [`DriveRecord`].
const RECORD: &str = "drive-record:";

/// What is on record against a drive of a library.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DriveRecord {
    /// The library, as devices are named.
    pub library: String,
    /// The drive's number there, from 1.
    pub drive: u32,
    /// That it failed, and nothing says since that it is well.
    pub failed: Option<DriveFailure>,
    /// When somebody took it out of service, in microseconds since 1970.
    pub out_us: Option<i64>,
    /// The tapes that it could not read or write.
    tapes: Vec<TapeFailure>,
}

/// That a drive failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DriveFailure {
    /// When, in microseconds since 1970.
    pub at_us: i64,
    /// What it said, and in records of old also what to do.
    pub what: String,
    /// What to do about it.
    #[serde(default)]
    pub hint: Option<String>,
    /// Whether it failed in writing.
    is_written: bool,
}

/// A tape that a drive could not read or write.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct TapeFailure {
    tape: String,
    /// The medium on it, where an error of it was counted for that.
    counted: Option<MediumId>,
    at_us: i64,
    is_written: bool,
    /// The drive that could do it with this tape or, in writing, with another one.
    other: Option<u32>,
}

impl DriveRecord {
    /// The tapes that it could not read or write, while another drive can; nothing where they are too few to make it suspect.
    pub fn suspect_by(&self) -> Option<(Vec<&str>, u32)> {
        let tapes: BTreeSet<&str> =
            self.tapes.iter().filter(|of| of.other.is_some()).map(|of| of.tape.as_str()).collect();
        let other = self.tapes.iter().rev().find_map(|of| of.other)?;
        (tapes.len() >= SUSPECT).then(|| (tapes.into_iter().collect(), other))
    }

    /// Why somebody should see to it, in words that follow its name; nothing where nobody has to.
    pub fn why_ill(&self) -> Option<Problem> {
        match (&self.failed, self.suspect_by()) {
            (Some(failed), _) => {
                let what = Problem::new(format!("failed: {}", failed.what));
                Some(Problem { hint: failed.hint.clone(), ..what })
            }
            (None, Some((tapes, other))) => {
                let tapes = tapes.join(" and ");
                Some(format!("had errors with tapes {tapes}, and drive {other} has none").into())
            }
            (None, None) => None,
        }
    }

    /// When that was last, in microseconds since 1970.
    pub fn ill_us(&self) -> Option<i64> {
        let tapes = self.tapes.iter().map(|of| of.at_us).max();
        self.failed.as_ref().map(|failed| failed.at_us).or(tapes)
    }

    fn name(&self) -> String {
        format!("drive {} of {}", self.drive, self.library)
    }

    fn for_devices(&self) -> DriveOnRecord {
        DriveOnRecord {
            drive: self.drive,
            has_failed: self.failed.is_some(),
            is_suspect: self.suspect_by().is_some(),
            is_out: self.out_us.is_some(),
            tapes: self.tapes.iter().map(|of| of.tape.clone()).collect(),
        }
    }

    /// Takes back what a session says that used it well; all of it, where that wrote.
    fn used_well(&mut self, has_written: bool) {
        self.tapes.retain(|of| of.is_written && !has_written);
        self.failed.take_if(|failed| has_written || !failed.is_written);
    }
}

/// The records of all drives, or of those of a library.
fn records(idb: &Idb, library: &str) -> Result<Vec<DriveRecord>> {
    let recorded = idb.settings_of(RECORD)?;
    let all = recorded.iter().filter_map(|(_, json)| serde_json::from_str(json).ok());
    Ok(all.filter(|of: &DriveRecord| library.is_empty() || of.library == library).collect())
}

fn record_of(idb: &Idb, library: &str, drive: u32) -> Result<DriveRecord> {
    let new = || DriveRecord { library: library.to_owned(), drive, ..DriveRecord::default() };
    let recorded = idb.setting(&format!("{RECORD}{library}#{drive}"))?;
    Ok(recorded.and_then(|json| serde_json::from_str(&json).ok()).unwrap_or_else(new))
}

fn put(idb: &Idb, of: &DriveRecord) -> Result<()> {
    let name = format!("{RECORD}{}#{}", of.library, of.drive);
    match of.failed.is_none() && of.out_us.is_none() && of.tapes.is_empty() {
        true => Ok(idb.remove_setting(&name)?),
        false => Ok(idb.put_setting(&name, &serde_json::to_string(of).unwrap_or_default())?),
    }
}

/// What is on record against the drives of a library, for who chooses among them.
pub(crate) fn known_of(idb: &Idb, library: &LibraryName) -> Vec<DriveOnRecord> {
    // Without it the drives are taken as they come.
    let all = records(idb, &library.resolved().to_string()).unwrap_or_default();
    all.iter().map(DriveRecord::for_devices).collect()
}

/// Records that a drive failed.
pub(crate) fn note_failure(idb: &Idb, fault: &DriveFault) -> Result<()> {
    let mut record = record_of(idb, &fault.library.to_string(), fault.drive)?;
    let is_written = fault.is_written || record.failed.is_some_and(|of| of.is_written);
    record.failed = Some(DriveFailure {
        at_us: now_us(),
        what: fault.what.sentence.clone(),
        hint: fault.what.hint.clone(),
        is_written,
    });
    put(idb, &record)
}

/// Whether a drive of a library is suspect by what is on record.
pub(crate) fn is_suspect(idb: &Idb, library: &LibraryName, drive: Option<u32>) -> bool {
    let all = known_of(idb, library);
    all.iter().any(|of| Some(of.drive) == drive && of.is_suspect)
}

/// Takes back all that is on record against a drive, but that it is out of service.
pub(crate) fn forget(idb: &Idb, library: &str, drive: u32) -> Result<()> {
    let record = record_of(idb, library, drive)?;
    put(idb, &DriveRecord { failed: None, tapes: Vec::new(), ..record })
}

impl Cell {
    /// What is on record against drives.
    pub fn drive_records(&self) -> Result<Vec<DriveRecord>> {
        records(&self.idb, "")
    }

    /// The drives that failed or are suspect, and that nobody took out of service.
    pub fn ill_drives(&self) -> Result<Vec<DriveRecord>> {
        let mut all = self.drive_records()?;
        all.retain(|of| of.out_us.is_none() && of.why_ill().is_some());
        Ok(all)
    }

    /// Takes a drive of a library out of service, or back into it; then nothing is on record against it any more. What is on record of a
    /// library or drive that is gone can be forgotten too.
    pub fn set_drive_in_service(
        &self,
        library: &LibraryName,
        drive: u32,
        is_in: bool,
    ) -> Result<()> {
        let name = library.resolved().to_string();
        if is_in && records(&self.idb, &name)?.iter().any(|of| of.drive == drive) {
            let none = DriveRecord { library: name, drive, ..DriveRecord::default() };
            return put(&self.idb, &none);
        }
        let opened = self.devices.library(library).map_err(of_tape)?;
        let drives = opened.elements().drives;
        opened.elements().refuse_no_drive(opened.name(), drive).map_err(of_tape)?;
        drop(opened);
        if is_in {
            return Ok(());
        }
        let out = records(&self.idb, &name)?.into_iter().filter(|of| of.out_us.is_some());
        let out: Vec<u32> = out.map(|of| of.drive).collect();
        if (1..=drives).all(|n| n == drive || out.contains(&n)) {
            return Err(DriveRefusal::LastInService { drive, library: library.clone() }.into());
        }
        let mut record = record_of(&self.idb, &name, drive)?;
        record.out_us = record.out_us.or(Some(now_us()));
        put(&self.idb, &record)
    }

    /// What the drive did not do in which a medium was as it was last written, where several drives might have written it.
    pub(crate) fn drive_fault_of(&self, medium: MediumId) -> Option<DriveFault> {
        match self.device_of_medium(medium)? {
            Address::Tape(tape) => self.devices.drive_fault_of(&tape),
            _ => None,
        }
    }

    /// In which drive writing to a medium failed, to be read on behind its name; nothing where no other might have done it.
    pub(crate) fn failed_in(&self, medium: MediumId) -> String {
        let fault = self.drive_fault_of(medium);
        fault.map_or(String::new(), |fault| format!(" in {}", fault.drive_name()))
    }

    /// What is said of a medium where another one, of that label, goes on: it is full, or writing to it failed.
    pub(crate) fn gone_on(
        &self,
        is_full: bool,
        medium: MediumId,
        label: &str,
        why: &str,
    ) -> (Code, String) {
        if is_full {
            return (Code::Adapted, format!("'{label}' goes on: {why}"));
        }
        let place = self.failed_in(medium);
        (Code::MediumFailed, format!("writing to it{place} failed, and '{label}' goes on: {why}"))
    }

    /// Counts an error of a medium that could not be written: against its drive and the medium, or against the one that the evidence
    /// shows.
    pub(crate) fn note_unwritten(&self, medium: MediumId) -> Result<()> {
        let count = || Ok(self.idb.add_medium_error(medium, now_us(), false)?);
        let Some(fault) = self.drive_fault_of(medium).filter(|of| !of.is_failure) else {
            return count();
        };
        let library = fault.library.to_string();
        let is_it = |of: &TapeFailure| of.is_written && of.tape == fault.tape;
        let mut is_tapes_fault = false;
        for mut other in records(&self.idb, &library)? {
            if other.drive != fault.drive && other.tapes.iter().any(is_it) {
                // Neither drive can write it.
                other.tapes.retain(|of| !is_it(of));
                put(&self.idb, &other)?;
                is_tapes_fault = true;
            }
        }
        if is_tapes_fault {
            return count();
        }
        let mut record = record_of(&self.idb, &library, fault.drive)?;
        let is_suspect = record.suspect_by().is_some();
        record.tapes.push(TapeFailure {
            tape: fault.tape,
            counted: (!is_suspect).then_some(medium),
            at_us: now_us(),
            is_written: true,
            other: None,
        });
        put(&self.idb, &record)?;
        if is_suspect { Ok(()) } else { count() }
    }

    /// Says which drives failed in a session that is done, and takes from what its drives did what there is to know of drives.
    pub(crate) fn judge_drives(&self, drives: &[DriveSession], log: &SessionLog<'_>) -> Result<()> {
        for fault in self.devices.take_drive_faults().iter().filter(|of| of.is_failure) {
            let did = if fault.is_written { "wrote" } else { "read" };
            let text = format!(
                "it failed as it {did} tape {}, and other drives are taken before it: {}",
                fault.tape, fault.what
            );
            log.say(Code::DriveFailed, "media agent", &fault.drive_name(), text);
        }
        for drive in drives {
            let (Some(mount), Some(other)) = (&drive.mount, drive.read_by) else { continue };
            let mut record = record_of(&self.idb, &mount.library, mount.drive)?;
            let tape = mount.barcode.clone();
            record.tapes.retain(|of| of.is_written || of.tape != tape);
            let (at_us, other) = (now_us(), Some(other));
            record.tapes.push(TapeFailure { tape, counted: None, at_us, is_written: false, other });
            put(&self.idb, &record)?;
        }
        for drive in drives {
            let Some(mount) = &drive.mount else { continue };
            let library: LibraryName = mount.library.parse()?;
            if self.devices.is_drive_sound(&library, mount.drive) {
                self.note_used_well((&mount.library, mount.drive), drive.has_written, log)?;
            }
        }
        Ok(())
    }

    /// Notes that a session used a drive well. What others could not write since is held against them, where it wrote.
    fn note_used_well(
        &self,
        (library, drive): (&str, u32),
        has_written: bool,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        for mut record in records(&self.idb, library)? {
            let was = record.clone();
            if record.drive == drive {
                record.used_well(has_written);
            } else if has_written {
                let unsettled = record.tapes.iter_mut().filter(|of| of.other.is_none());
                unsettled.for_each(|of| of.other = Some(drive));
            }
            if record == was {
                continue;
            }
            if let Some((tapes, other)) = record.suspect_by()
                && was.suspect_by().is_none()
            {
                let text = format!(
                    "it had errors with tapes {}, and drive {other} has none; other drives are taken before it",
                    tapes.join(" and ")
                );
                log.say(Code::DriveSuspect, "media agent", &record.name(), text);
            }
            if record.suspect_by().is_some() {
                for of in &mut record.tapes {
                    if let Some(medium) = of.counted.take() {
                        self.idb.take_back_error(medium)?;
                    }
                }
            }
            put(&self.idb, &record)?;
        }
        Ok(())
    }
}
