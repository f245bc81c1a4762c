//! What is known against drives: what they did not do for this host, and what is on record of before.
//!
//! A drive fails where it does not answer, or says that it is broken. Where it could not read or write a tape, the tape may be at fault:
//! several tapes that others can, and none of them a fault of its own, make the drive suspect. Who keeps a record says what it has
//! (`LocalDevices::doubt_drives_by`).

use std::sync::atomic::Ordering::{AcqRel, Relaxed};

use capstan_address::{LibraryName, TapeAddress};
use capstan_engine::problem::Explain;
use capstan_medium::host::ledger::{DriveFault, DriveOnRecord};
use capstan_medium::tape::TapeError;
use parking_lot::Mutex;

use super::loaded::LoadedDrive;
use super::mount::Tape;

/// What a host knows against drives.
#[derive(Default)]
pub(crate) struct Doubts(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Drives that could not read or write tapes which others may, with the tape.
    tapes: Vec<(LibraryName, u32, String)>,
    /// Drives that failed, the last one last.
    failed: Vec<(LibraryName, u32)>,
    /// What drives did not do, as it happened.
    faults: Vec<DriveFault>,
    /// So many of them were told.
    told: usize,
}

impl Doubts {
    /// A drive could not read a tape that another one reads.
    pub fn note_unread(&self, library: &LibraryName, drive: u32, barcode: &str) {
        self.0.lock().note_tape(library, drive, barcode);
    }

    /// A drive failed, or could not write a tape.
    pub fn note_fault(&self, fault: DriveFault) {
        let mut known = self.0.lock();
        let (library, drive) = (&fault.library, fault.drive);
        if fault.is_failure {
            known.failed.retain(|of| (&of.0, of.1) != (library, drive));
            known.failed.push((library.clone(), drive));
        } else {
            known.note_tape(library, drive, &fault.tape);
        }
        known.faults.push(fault);
    }

    /// No drive could read that tape.
    pub fn take_back(&self, library: &LibraryName, barcode: &str) {
        self.0.lock().tapes.retain(|(of, _, tape)| (of, tape.as_str()) != (library, barcode));
    }

    /// How often a drive could not do what others may: how many tapes it could not read or write, and how often it failed in writing.
    pub fn of(&self, library: &LibraryName, drive: u32) -> usize {
        let known = self.0.lock();
        let tapes = known.tapes.iter().filter(|(of, n, _)| (of, *n) == (library, drive));
        let lost = known.faults.iter().filter(|of| of.is_failure && of.is_written);
        tapes.count() + lost.filter(|of| of.is_of(library, drive)).count()
    }

    /// The drives of a library that could not read or write some tape.
    pub fn all(&self, library: &LibraryName) -> Vec<u32> {
        let known = self.0.lock();
        let lost = known.faults.iter().filter(|of| of.is_failure && of.is_written);
        let lost = lost.filter(|of| of.library == *library).map(|of| of.drive);
        let tapes = known.tapes.iter().filter(|(of, ..)| of == library).map(|(_, n, _)| *n);
        tapes.chain(lost).collect()
    }

    /// Drives of a library that failed, the last one last.
    pub fn failed(&self, library: &LibraryName) -> Vec<u32> {
        let known = self.0.lock();
        known.failed.iter().filter(|(of, _)| of == library).map(|(_, n)| *n).collect()
    }

    /// Whether a drive could do all that it was to do for this host.
    pub fn is_sound(&self, library: &LibraryName, drive: u32) -> bool {
        let known = self.0.lock();
        !known.tapes.iter().any(|(of, n, _)| (of, *n) == (library, drive))
            && !known.faults.iter().any(|of| of.is_of(library, drive))
    }

    /// What drives did not do, since that was asked last.
    pub fn take_faults(&self) -> Vec<DriveFault> {
        let mut known = self.0.lock();
        let news = known.faults.get(known.told..).unwrap_or_default().to_vec();
        known.told = known.faults.len();
        news
    }

    /// What the drive did not do in which that tape was last, as it was written.
    pub fn fault_of(&self, tape: &TapeAddress) -> Option<DriveFault> {
        let known = self.0.lock();
        let is_it = |of: &&DriveFault| {
            of.is_written && of.library == tape.library && Some(&of.tape) == tape.tape.as_ref()
        };
        known.faults.iter().rev().find(is_it).cloned()
    }
}

impl Known {
    fn note_tape(&mut self, library: &LibraryName, drive: u32, barcode: &str) {
        let of = (library.clone(), drive, barcode.to_owned());
        if !self.tapes.contains(&of) {
            self.tapes.push(of);
        }
    }
}

impl Tape {
    /// Whether it is written in its drive, in whose buffer something of it may be. One that is only opened for that is not.
    pub(super) fn is_written(&self, is_unsynced: bool) -> bool {
        let stays = is_unsynced || self.moves.stays.load(Relaxed);
        let stays = stays && !self.moves.begins.load(Relaxed);
        self.pinned.load(Relaxed) && (stays || self.drive_is_the_one())
    }

    /// Whether there is no other drive to go to.
    pub(super) fn drive_is_the_one(&self) -> bool {
        self.moves.has_one_drive.load(Relaxed) || self.barcode.is_none()
    }

    /// Notes that its drive failed, or could not write it: as long as it is in the drive, once.
    pub(super) fn note_fault(&self, drive: u32, loaded: Option<&LoadedDrive>, e: &TapeError) {
        let is_written = self.is_written(loaded.is_some_and(LoadedDrive::is_unsynced));
        let is_failure = e.blames_drive();
        let is_news = match is_written {
            true => (is_failure || e.tells_on_tape()) && !self.unwritten.swap(true, AcqRel),
            false => is_failure,
        };
        let Some(barcode) = self.barcode().filter(|_| is_news && !self.drive_is_the_one()) else {
            return;
        };
        let fault = DriveFault {
            library: self.library.clone(),
            drive,
            tape: barcode.to_owned(),
            is_written,
            is_failure,
            what: e.problem(),
        };
        self.tapes.state.ledger.note_fault(&fault);
        self.tapes.doubts.note_fault(fault);
    }
}

/// Drives by what is on record against them, the worst last, for that tape: those that are suspect, that failed, that could not do it with
/// this tape.
pub(super) fn on_record(of: &[DriveOnRecord], barcode: &str) -> Vec<u32> {
    let that = |is_it: &dyn Fn(&DriveOnRecord) -> bool| {
        of.iter().filter(|of| is_it(of)).map(|of| of.drive).collect::<Vec<_>>()
    };
    let mut all = that(&|of| of.is_suspect);
    all.extend(that(&|of| of.has_failed));
    all.extend(that(&|of| of.tapes.iter().any(|tape| tape == barcode)));
    all
}
