//! Another drive for a tape that one drive cannot read.
//!
//! What one drive alone cannot read may be the drive's fault, and is no damage. The tape is brought to another drive that takes it:
//! one that is free, or that this host has for a tape which it reads no more; those that others have are waited for. Where none
//! could be tried, that is said ([`TapeError::Untried`]). What two drives cannot read is the tape's fault.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use capstan_engine::leaving;
use capstan_engine::problem::Explain;
use capstan_medium::host::ledger::{DriveOnRecord, SUSPECT};
use capstan_medium::tape::{DriveSession, TapeError};
use capstan_tape::Changer;

use super::doubts::on_record;
use super::fitting::Fitting;
use super::loaded::LoadedDrive;
use super::mount::Tape;
use super::moves::{Another, Left};

/// How often it is looked whether one is.
const PAUSE: Duration = Duration::from_millis(5);

/// Whether another drive is to be had.
enum Chance {
    /// Now, or when it was waited for.
    Is,
    /// Not now, and why not, in words.
    IsNot(String),
    /// Others are not tried.
    Never,
}

/// Whether a tape gives up its drive.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum GivesUp {
    Never,
    Later,
    Now,
}

/// Who has a drive.
enum Holder {
    Nobody,
    /// This host, for a tape that it writes.
    Written,
    /// This host, for a tape that it reads.
    Read(Arc<Tape>),
    /// Somebody else.
    Others(String),
}

impl Tape {
    /// Takes the tape out of a drive that cannot read it, if another drive is to try: one that takes the tape and did not fail. One
    /// that others have is waited for, while the tape lies in its slot.
    pub(super) fn leave_drive(&self, loaded: &mut Option<LoadedDrive>, why: &TapeError) -> Another {
        let Some((number, unsynced)) =
            loaded.as_ref().and_then(|loaded| Some((loaded.drive_number()?, loaded.is_unsynced())))
        else {
            return Another::None;
        };
        let Some(barcode) = self.barcode() else { return Another::None };
        // Another drive would synchronise without an error what only this one has in its buffer.
        if self.is_written(unsynced) || self.drive.is_some() {
            return Another::None;
        }
        if self.has_been_tried(number) {
            self.tapes.doubts.take_back(&self.library, barcode);
            self.tapes.take_back(barcode);
            return Another::None;
        }
        let Ok(mut library) = self.tapes.state.library(&self.library) else { return Another::None };
        let library = &mut *library;
        let fits = Fitting::of(library, barcode, self.pinned.load(Relaxed));
        let others = self.other_drives(library, &fits);
        if others.is_empty() {
            return Another::None;
        }
        let what = why.sentence();
        match self.chance_of(&others) {
            Chance::Is => {}
            Chance::IsNot(why) => {
                return Another::Busy(TapeError::Untried { drive: number, what, why });
            }
            Chance::Never => return Another::None,
        }
        let Some(mut loaded) = loaded.take() else { return Another::None };
        self.moves.is_in(None);
        Another::Tries(Box::new(Left { drive: number, session: loaded.session(), what }))
    }

    /// Notes that a drive could not read it. Whether no other one is to try: two drives could not, and not all of them are suspect; or
    /// another one could not before, and of this one no ill is known.
    fn has_been_tried(&self, number: u32) -> bool {
        let is_good = |n: &u32| self.tapes.doubts.of(&self.library, *n) == 0;
        let mut tried = self.moves.tried.lock();
        if tried.contains(&number) {
            return true;
        }
        tried.push(number);
        let mut unread_in = self.moves.unread_in.lock();
        if !unread_in.contains(&number) {
            unread_in.push(number);
        }
        tried.len() > 1 && !tried.iter().all(|n| self.is_suspect(*n))
            || unread_in.len() > 1 && is_good(&number)
    }

    /// Whether a drive could not read or write several tapes, which others can: in this session, or by what is on record.
    fn is_suspect(&self, number: u32) -> bool {
        let is_it = |of: &DriveOnRecord| of.drive == number && of.is_suspect;
        self.is_suspect_now(number) || self.drives_on_record().iter().any(is_it)
    }

    /// Whether a drive could not do that in this session.
    fn is_suspect_now(&self, number: u32) -> bool {
        self.tapes.doubts.of(&self.library, number) >= SUSPECT
    }

    /// Drives that somebody took out of service; none where one was named.
    fn out_of_service(&self) -> Vec<u32> {
        let mut all = self.drives_on_record();
        all.retain(|of| of.is_out && self.drive.is_none());
        all.iter().map(|of| of.drive).collect()
    }

    /// What is on record against the drives of its library.
    fn drives_on_record(&self) -> Vec<DriveOnRecord> {
        self.tapes.state.ledger.drives_on_record(&self.library)
    }

    /// The drives that are to try it, each with who has it. Those of which ill is known try it where there are no others.
    fn other_drives(&self, library: &mut dyn Changer, fits: &Fitting) -> Vec<(u32, Holder)> {
        let (failed, tried) = (self.failed_drives(), self.moves.tried.lock().clone());
        let out = self.out_of_service();
        let may = |n: &u32| {
            !failed.contains(n) && !tried.contains(n) && !out.contains(n) && fits.takes(*n)
        };
        let drives: Vec<u32> = (1..=library.elements().drives).filter(may).collect();
        let with = |library: &mut dyn Changer, n: u32| Some((n, self.holder(library, n)?));
        let mut others: Vec<_> = drives.iter().filter_map(|n| with(library, *n)).collect();
        if others.iter().any(|(n, _)| !self.is_suspect(*n)) {
            others.retain(|(n, _)| !self.is_suspect(*n));
        }
        others
    }

    /// Who has a drive; nothing where that cannot be said.
    fn holder(&self, library: &mut dyn Changer, number: u32) -> Option<Holder> {
        for other in self.tapes.all() {
            let is_there = other.library == self.library
                && !std::ptr::eq(&*other, self)
                && other.moves.drive.load(Relaxed) == number
                && other.loaded.try_lock().is_none_or(|loaded| loaded.is_some());
            if is_there {
                let is_written = other.pinned.load(Relaxed);
                return Some(if is_written { Holder::Written } else { Holder::Read(other) });
            }
        }
        let info = library.drive_info(number).ok()?;
        Some(info.in_use.map_or(Holder::Nobody, Holder::Others))
    }

    /// Whether one of these drives is to be had. A tape that this host reads no more gives its drive up.
    fn chance_of(&self, drives: &[(u32, Holder)]) -> Chance {
        if drives.iter().any(|(_, holder)| matches!(holder, Holder::Nobody)) {
            return Chance::Is;
        }
        // An array's tapes are read all at once: they would take the drives from each other.
        let is_member = self.moves.is_member.load(Relaxed);
        let read = |(_, holder): &(_, Holder)| match holder {
            Holder::Read(tape) if !is_member => Some(tape.clone()),
            _ => None,
        };
        let read: Vec<Arc<Tape>> = drives.iter().filter_map(read).collect();
        if !read.is_empty() && self.takes_from(&read) {
            return Chance::Is;
        }
        let others = |(_, holder): &(_, Holder)| match holder {
            Holder::Others(who) => Some(who.clone()),
            _ => None,
        };
        let mut others: Vec<String> = drives.iter().filter_map(others).collect();
        others.dedup();
        let waits = !is_member && self.is_waited_for() && !self.moves.is_in_vain.load(Relaxed);
        match (others.is_empty(), waits) {
            (true, _) if is_member => Chance::Never,
            (true, _) => Chance::IsNot("this session uses them itself".to_owned()),
            (false, true) => Chance::Is,
            (false, false) => Chance::IsNot(format!("in use by {}", others.join(" and "))),
        }
    }

    /// Gives up the drive of one of these tapes, as soon as it is used no more. False where that is not to be waited for: it waits for
    /// a drive itself.
    fn takes_from(&self, others: &[Arc<Tape>]) -> bool {
        let _waits = self.tapes.state.waits.begin();
        // Whoever opens a tape to write it has nothing else to read.
        let at_once = self.pinned.load(Relaxed);
        self.loading.store(true, Relaxed);
        let taken = loop {
            match others.iter().map(|other| other.gives_up(at_once)).max() {
                Some(GivesUp::Now) => break true,
                Some(GivesUp::Later) if leaving::nap(PAUSE) => {}
                _ => break false,
            }
        };
        self.loading.store(false, Relaxed);
        taken
    }

    /// Gives up its drive if it is used no more, or only not just now.
    fn gives_up(&self, at_once: bool) -> GivesUp {
        if self.pinned.load(Relaxed) {
            return GivesUp::Never;
        }
        match self.loaded.try_lock() {
            Some(loaded) if loaded.is_some() && !at_once && !self.moves.is_idle() => GivesUp::Later,
            Some(mut loaded) => {
                if let Some(loaded) = loaded.take() {
                    self.moves.is_in(None);
                    self.tapes.note_past(loaded);
                }
                GivesUp::Now
            }
            // One that waits for a drive itself has none, or waits for this one's.
            None if self.loading.load(Relaxed) => GivesUp::Never,
            None => GivesUp::Later,
        }
    }

    /// Notes of a drive that was left what it did. Where the `other` one reads what it could not, the drive is suspect.
    pub(super) fn note_left(&self, left: Option<Box<Left>>, other: Option<u32>) {
        let Some(left) = left else { return };
        let Left { drive, session, .. } = *left;
        let read_by = other.filter(|other| *other != drive);
        if let Some(barcode) = self.barcode().filter(|_| read_by.is_some()) {
            self.tapes.doubts.note_unread(&self.library, drive, barcode);
        }
        self.tapes.note_session(DriveSession { read_by, ..session });
    }

    /// The error for a drive that was left for another one, which others have.
    pub(super) fn waited_in_vain(&self, left: Box<Left>, busy: &TapeError) -> TapeError {
        self.moves.is_in_vain.store(true, Relaxed);
        let (drive, what, why) = (left.drive, left.what.clone(), busy.sentence());
        self.note_left(Some(left), None);
        TapeError::Untried { drive, what, why }
    }

    /// Drives that come last for it, the worst last: those against which something is on record, that could not read or write other
    /// tapes, that failed, that could not read this one.
    pub(super) fn come_last(&self) -> Vec<u32> {
        let barcode = self.barcode().unwrap_or_default();
        let mut all = on_record(&self.drives_on_record(), barcode);
        all.extend(self.tapes.doubts.all(&self.library));
        all.extend(self.failed_drives());
        all.extend(self.moves.unread_in.lock().iter());
        let last: Vec<u32> = all
            .iter()
            .enumerate()
            .filter(|(at, n)| !all[at + 1..].contains(n))
            .map(|(_, n)| *n)
            .collect();
        last
    }

    /// Drives that it is not brought to: those that could not read what is wanted just now, those that are out of service, and those that
    /// could not read or write several tapes, as long as there is another one.
    pub(super) fn shunned(&self, library: &mut dyn Changer, fits: &Fitting) -> Vec<u32> {
        let mut shunned = self.moves.tried.lock().clone();
        shunned.extend(self.out_of_service());
        if self.drive.is_some() || self.moves.is_in_vain.load(Relaxed) {
            return shunned;
        }
        let mut suspect = self.tapes.doubts.all(&self.library);
        suspect.retain(|n| self.is_suspect_now(*n));
        if suspect.is_empty() {
            return shunned;
        }
        let (failed, is_read) = (self.failed_drives(), !self.pinned.load(Relaxed));
        let is_good = |n: &u32| {
            !suspect.contains(n) && !shunned.contains(n) && !failed.contains(n) && fits.takes(*n)
        };
        let drives: Vec<u32> = (1..=library.elements().drives).filter(is_good).collect();
        // One that reads is not stopped for another one that may be read elsewhere.
        let is_there = drives.iter().any(|n| match self.holder(library, *n) {
            Some(Holder::Nobody | Holder::Others(_)) => true,
            Some(Holder::Read(tape)) => !is_read || tape.moves.is_idle(),
            Some(Holder::Written) | None => false,
        });
        if is_there {
            shunned.extend(suspect);
        }
        shunned
    }
}
