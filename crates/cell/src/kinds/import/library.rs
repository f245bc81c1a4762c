//! An import of all that lies in libraries: single tapes, and arrays of tapes, which are put together from what the tapes say.

use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use capstan_address::{Address, TapeAddress};
use capstan_engine::message::{Code, shell_word};
use capstan_engine::problem::Explain;
use capstan_format::id::VersionId;
use capstan_format::record::MediumHeader;
use capstan_idb::Status;
use capstan_medium::DeviceError;
use capstan_medium::host::found_arrays::{FoundArray, FoundTape, arrays_of};

use crate::Cell;
use crate::error::{CellError, ImportRefusal, Result, chain};
use crate::media::libraries::libraries_of;
use crate::observe::{Observer, Stop};
use crate::report::Report;
use crate::session::{SessionLog, now_us, rfc3339};
use crate::supply::tapes::arrays::is_of_libraries;
use crate::upkeep::media::tape_use::Before;

/// What is to be said of all media that are imported together.
#[derive(Debug, Default)]
pub(crate) struct Later {
    /// Versions of which something was imported.
    pub versions: Vec<VersionId>,
    /// Media that may be wanted besides.
    pub follows: Vec<Before>,
    /// How many belong to another cell.
    pub others_media: u64,
    /// Tapes that were read, and are no members of the array that is imported.
    pub others_on: Vec<TapeAddress>,
}

/// An import of several media.
struct All {
    /// When it began, by two clocks: to load tapes that are none of Capstan's takes time, too.
    begun: (Instant, i64),
    report: Option<Report>,
    later: Later,
    /// Tapes that were read.
    read: Vec<TapeAddress>,
    /// Those of them that are parts of arrays.
    members: Vec<FoundTape>,
    /// Tapes that are blank, or not of Capstan.
    others: Vec<String>,
    /// Media of which no key opens, and why the first does not.
    closed: Vec<String>,
    why_closed: Option<CellError>,
    /// Media that are not as they were last written, or in use, and why they were not taken.
    not_taken: Vec<(Address, String, CellError)>,
    /// What could not be read, and why the first could not.
    unread: Vec<String>,
    why_unread: Option<CellError>,
}

impl All {
    fn begun() -> Self {
        Self {
            begun: (Instant::now(), now_us()),
            report: None,
            later: Later::default(),
            read: Vec::new(),
            members: Vec::new(),
            others: Vec::new(),
            closed: Vec::new(),
            why_closed: None,
            not_taken: Vec::new(),
            unread: Vec::new(),
            why_unread: None,
        }
    }
}

impl Cell {
    /// Imports a medium, or all media of a library, or all arrays of tapes of libraries.
    pub fn import(&self, device: &Address, observer: &dyn Observer, stop: &Stop) -> Result<Report> {
        self.refuse_full_home()?;
        self.devices.refuse_no_drive(device)?;
        match device {
            Address::Tape(library)
                if library.tape.is_none() && !self.devices.is_by_hand(library)? =>
            {
                self.import_library(library, observer, stop)
            }
            Address::Array(array) if is_of_libraries(&*self.devices, array)? => {
                self.import_arrays(device, observer, stop)
            }
            _ => self.import_medium(device, None, observer, stop),
        }
    }

    /// Imports every tape of a library that is one of Capstan's, and the arrays that its tapes are.
    fn import_library(
        &self,
        library: &TapeAddress,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let mut all = All::begun();
        let tapes = self
            .barcodes(library)?
            .into_iter()
            .map(|barcode| TapeAddress { drive: library.drive, ..library.with_tape(&barcode) });
        self.import_tapes(tapes.collect(), &mut all, stop, &mut |tape, all| {
            self.import_tape(tape, all, observer, stop)
        })?;
        let library = Address::from(library.clone());
        self.import_found(&library, all, &|_| true, observer, stop)
    }

    /// Does something with each of these tapes, those first that can be had at once. Those that others have, or for which there is no drive,
    /// are waited for when these are done; where one was waited for in vain, the rest is tried once more. `each` returns why it could not
    /// have the tape.
    fn import_tapes(
        &self,
        tapes: Vec<TapeAddress>,
        all: &mut All,
        stop: &Stop,
        each: &mut dyn FnMut(&TapeAddress, &mut All) -> Result<Option<DeviceError>>,
    ) -> Result<()> {
        let mut left = Vec::new();
        for tape in tapes {
            if stop.0.load(Relaxed) {
                return Ok(());
            }
            if each(&tape, all)?.is_some() {
                left.push(tape.clone());
            }
            self.devices.done_reading(&Address::from(tape));
        }
        let mut is_patient = true;
        for tape in left {
            if stop.0.load(Relaxed) {
                break;
            }
            let device = Address::from(tape.clone());
            if is_patient {
                self.devices.wait_for(&device);
            }
            if let Some(in_use) = each(&tape, all)? {
                is_patient = false;
                all.unread(barcode_of(&tape), in_use);
            }
            self.devices.done_reading(&device);
        }
        Ok(())
    }

    /// Imports a tape by itself, or notes of which array it is, or that nothing is on it. Returns why it could not be had, where others
    /// have it.
    fn import_tape(
        &self,
        tape: &TapeAddress,
        all: &mut All,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Option<DeviceError>> {
        let (barcode, device) = (barcode_of(tape), Address::from(tape.clone()));
        let header = self.devices.header_on(tape);
        all.note_read(tape, &header);
        match header {
            // Members are read together: not all in that drive.
            Ok(header) if header.is_array() => all.members.push((tape.recorded(), header)),
            Ok(_) => self.import_one(&device, barcode, all, observer, stop)?,
            Err(e) if e.is_busy() => return Ok(Some(e)),
            // It may have had a medium that is known.
            Err(e) => match self.refuse_overwritten(&device, Err(&e)).err() {
                None if e.is_no_medium() => {
                    self.remember_what_is_on(tape)?;
                    all.others.push(barcode.to_owned());
                }
                None => {
                    let why = e.into();
                    self.remember_unfit(tape, &why)?;
                    all.unread(barcode, why);
                }
                // That one may be found on another tape.
                Some(changed) => all.not_taken.push((device, barcode.to_owned(), changed)),
            },
        }
        Ok(None)
    }

    /// Imports the arrays whose tapes lie in the libraries that an array names.
    fn import_arrays(
        &self,
        array: &Address,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let mut all = All::begun();
        let mut tapes = Vec::new();
        for library in libraries_of(array) {
            tapes.extend(self.barcodes(&library)?.iter().map(|barcode| library.with_tape(barcode)));
        }
        self.import_tapes(tapes, &mut all, stop, &mut |tape, all| {
            let header = self.devices.header_on(tape);
            all.note_read(tape, &header);
            match header {
                Ok(header) if header.is_array() => all.members.push((tape.recorded(), header)),
                Ok(_) => {}
                Err(e) if e.is_busy() => return Ok(Some(e)),
                Err(e) if e.is_no_medium() => {}
                Err(e) => all.unread(barcode_of(tape), e),
            }
            Ok(None)
        })?;
        let Some(named) = array.as_array() else { return Err(none_of(array)) };
        let is_one = |found: &FoundArray| found.address.layout == named.layout;
        self.import_found(array, all, &is_one, observer, stop)
    }

    /// Imports the arrays among what was found that are wanted, and says what came of all.
    fn import_found(
        &self,
        device: &Address,
        mut all: All,
        is_wanted: &dyn Fn(&FoundArray) -> bool,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let log = SessionLog::new(observer);
        let mut broken = Vec::new();
        for found in arrays_of(std::mem::take(&mut all.members), &self.known_members()) {
            if stop.0.load(Relaxed) {
                break;
            }
            if !is_wanted(&found) {
                continue;
            }
            match found.is_enough() {
                true => {
                    let address = Address::from(found.address);
                    // What is on another tape now is not known to be where it was.
                    let members = address.tapes();
                    let is_other = |tape: &&TapeAddress| !members.contains(tape);
                    all.later.others_on = all.read.iter().filter(is_other).cloned().collect();
                    self.import_one(&address, &found.label, &mut all, observer, stop)?;
                    self.devices.done_reading(&address);
                }
                false => broken.push(too_few(&found)),
            }
        }
        self.try_again(&mut all, observer, stop)?;
        all.reported(self, device, broken, &log)
    }

    /// Imports once more what was not taken, now that it is known what lies where: a tape that is in the case of another one is not a
    /// copy of what lies there.
    fn try_again(&self, all: &mut All, observer: &dyn Observer, stop: &Stop) -> Result<()> {
        for (device, name, why) in std::mem::take(&mut all.not_taken) {
            let can_help = matches!(why, CellError::Changed(_)) && !stop.0.load(Relaxed);
            match can_help {
                true => self.import_one(&device, &name, all, observer, stop)?,
                false => all.unread(&name, why),
            }
        }
        for (_, name, why) in std::mem::take(&mut all.not_taken) {
            all.unread(&name, why);
        }
        Ok(())
    }

    fn import_one(
        &self,
        device: &Address,
        name: &str,
        all: &mut All,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<()> {
        match self.import_medium(device, Some(&mut all.later), observer, stop) {
            Ok(report) => all.report = Some(report.after(all.report.take())),
            Err(CellError::Device(e)) if e.is_no_medium() => all.others.push(name.to_owned()),
            Err(e @ (CellError::Changed(_) | CellError::InUse(_))) => {
                all.not_taken.push((device.clone(), name.to_owned(), e));
            }
            Err(e) if e.is_of_keys() => {
                all.closed.push(name.to_owned());
                all.why_closed.get_or_insert(e);
            }
            // Here is no more to be recorded.
            Err(e @ (CellError::Idb(_) | CellError::Io { .. } | CellError::NoThread(_))) => {
                return Err(e);
            }
            // The others are wanted all the same.
            Err(e) => all.unread(name, e),
        }
        Ok(())
    }
}

impl All {
    /// Notes a tape of which it is known what is on it.
    fn note_read(
        &mut self,
        tape: &TapeAddress,
        header: &std::result::Result<MediumHeader, DeviceError>,
    ) {
        if matches!(header, Ok(_) | Err(DeviceError::NoMedium(_) | DeviceError::NotOurs(_))) {
            self.read.push(tape.recorded());
        }
    }

    fn unread(&mut self, name: &str, why: impl Into<CellError>) {
        let why = why.into();
        self.unread.push(format!("{name} was not imported, or not all of it: {}", chain(&why)));
        self.why_unread.get_or_insert(why);
    }

    /// The report of all.
    fn reported(
        self,
        cell: &Cell,
        device: &Address,
        broken: Vec<ImportRefusal>,
        log: &SessionLog<'_>,
    ) -> Result<Report> {
        let Self { begun, report, later, others, closed, why_closed, unread, why_unread, .. } =
            self;
        let texts = broken.iter().map(|of| of.problem().to_string());
        let texts: Vec<String> = unread.into_iter().chain(texts).collect();
        let mut report = match (report, why_closed) {
            (Some(report), None) => report,
            (Some(mut report), Some(why)) => {
                let closed = closed.join(", ");
                let text = format!("not imported, as their keys do not open: {closed} ({why})");
                report.notes.push(text);
                with_errors(&mut report);
                report
            }
            (None, Some(why)) => return Err(why),
            (None, None) => {
                for text in &texts {
                    log.say(Code::Missing, "cell", &device.to_string(), text.clone());
                }
                let broken = || broken.into_iter().next().map(CellError::from);
                return Err(why_unread.or_else(broken).unwrap_or_else(|| none_of(device)));
            }
        };
        (report.start, report.end) = (rfc3339(begun.1), rfc3339(now_us()));
        report.elapsed_s = begun.0.elapsed().as_secs_f64();
        report.rate_mb_s = report.bytes_read as f64 / 1e6 / report.elapsed_s.max(1e-9);
        for text in texts {
            log.say(Code::Missing, "cell", &device.to_string(), text);
        }
        cell.say_not_imported(&later.versions, &device.to_string(), log)?;
        if log.error_count() > 0 {
            let mut said = Report::default();
            log.fill(&*cell.devices, &mut said);
            report.errors.append(&mut said.errors);
            report.faults.append(&mut said.faults);
            report.error_count += said.error_count;
            with_errors(&mut report);
        }
        cell.note_left(&later.follows)?;
        report.notes.extend(cell.wanted_before(&later.follows)?);
        if later.others_media > 0 {
            let mut adopt: Vec<String> = Vec::new();
            for tape in device.tapes() {
                let command = format!("`capstan media adopt {}`", shell_word(&tape.library));
                if !adopt.contains(&command) {
                    adopt.push(command);
                }
            }
            report.notes.push(format!(
                "{} of the media belong to another cell: {} makes them this cell's, to write to them",
                later.others_media,
                adopt.join(" and ")
            ));
        }
        if !others.is_empty() {
            report.notes.push(format!("blank, or not of Capstan: {}", others.join(", ")));
        }
        Ok(report)
    }
}

fn barcode_of(tape: &TapeAddress) -> &str {
    tape.tape.as_deref().unwrap_or_default()
}

fn with_errors(report: &mut Report) {
    if report.exit_code() == 0 {
        report.status = Status::CompletedWithErrors.to_string();
    }
}

fn none_of(device: &Address) -> CellError {
    let what = if let Address::Array(_) = device { "array" } else { "tape" };
    ImportRefusal::NoneOfCapstan { what, device: device.clone() }.into()
}

/// That too few members of an array are there.
fn too_few(found: &FoundArray) -> ImportRefusal {
    let layout = found.address.layout;
    ImportRefusal::TooFewMembers {
        label: found.label.clone(),
        layout,
        found: found.found,
        members: layout.members(),
        needed: layout.data(),
    }
}
