//! Getting a tape into a drive, and keeping it there while it is used.
//!
//! A host has one [`Tape`] for each tape it uses, however many readers share it. The tape is loaded when it is first
//! needed, and stays in its drive, which is this host's, until `LocalDevices::release_idle`. Where all drives are taken, a tape
//! that the host holds and does not just use makes room; one that is being written stays. Who is done with a tape before its process ends
//! says so (`LocalDevices::done_reading`, `LocalDevices::done_writing`), and gives its drive to others.

use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::{Duration, Instant};

use capstan_address::{Address, LibraryName, TapeAddress};
use capstan_engine::leaving;
use capstan_format::id::MediumId;
use capstan_format::record::MediumHeader;
use capstan_medium::host::Wanted;
use capstan_medium::host::operator::Refused;
use capstan_medium::tape::{Mount, TapeError};
use capstan_tape::{Changer, DriveKey, TapeDrive};
use parking_lot::Mutex;

use super::Tapes;
use super::abreast::Abreast;
use super::bring::{Bringing, Kept, no_drive};
use super::by_hand::awaited;
use super::fitting::Fitting;
use super::loaded::LoadedDrive;
use super::moves::{Another, Moves};

/// How long to wait before looking again whether a drive is free.
const PAUSE: Duration = Duration::from_millis(2);
/// How often a drive that somebody took first is looked for again.
const TRIES: usize = 5;
/// How often it is tried once more, with a tape that is read, after its drive failed: in another drive if there is one.
const TRIES_IN_DRIVES: usize = 2;
/// How long somebody who looks whether a drive of this host is free is waited for: he is told soon that it is not.
const LOOK: Duration = Duration::from_secs(5);

/// A medium that is tried, as one of several that would do: who has its tapes, or all drives, is not waited for. When this is dropped
/// and it is not written, the drives that it was loaded into are given back.
pub struct Trial {
    tapes: Vec<Arc<Tape>>,
    loaded: Vec<Arc<Tape>>,
}

impl Trial {
    /// Tries that medium.
    pub(crate) fn of(of: &Arc<Tapes>, medium: &Address) -> Self {
        let tapes: Vec<_> = medium.tapes().iter().map(|tape| Tape::of(of, tape)).collect();
        let is_unloaded = |tape: &&Arc<Tape>| tape.loaded.try_lock().is_some_and(|d| d.is_none());
        let loaded = tapes.iter().filter(is_unloaded).cloned().collect();
        for tape in &tapes {
            tape.leave_exported();
            tape.trials.fetch_add(1, Relaxed);
        }
        Self { tapes, loaded }
    }
}

impl capstan_medium::host::tapes::Trial for Trial {
    fn keep(mut self: Box<Self>) {
        self.loaded.clear();
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        for tape in &self.tapes {
            tape.trials.fetch_sub(1, Relaxed);
        }
        self.loaded.iter().for_each(|tape| tape.give_back(false));
    }
}

/// A tape that a host uses.
pub struct Tape {
    pub(super) tapes: Arc<Tapes>,
    pub(crate) library: LibraryName,
    pub(super) drive: Option<u32>,
    /// What is on its sticker, in a library.
    pub(crate) barcode: Option<String>,
    /// Which medium is to be in a drive that stands alone; whatever is in it, if neither is given.
    wanted: Option<Wanted>,
    pub(crate) loaded: Mutex<Option<LoadedDrive>>,
    /// Where its readers are.
    pub(crate) abreast: Abreast,
    /// It is written: it is not unloaded for another.
    pub(crate) pinned: AtomicBool,
    /// Who reads it waits while others have it, or all drives.
    patient: AtomicBool,
    /// Who wants to write it leaves it in its mail slot, if it is exported by record.
    leaves_exported: AtomicBool,
    /// Its drive failed, or was lost, while it was written.
    lost: AtomicBool,
    /// It was noted that its drive did not write it.
    pub(super) unwritten: AtomicBool,
    /// What is known of drives that could not read it.
    pub(crate) moves: Moves,
    /// How many try whether it will do.
    trials: AtomicU64,
    /// It is in a drive that reads tapes of its generation, and does not write them.
    only_read: AtomicBool,
    /// It waits for a drive.
    pub(super) loading: AtomicBool,
    /// When it was used last, counted in uses of all tapes; 0 for never.
    used: AtomicU64,
}

impl Tape {
    /// A tape of a library; it is loaded when it is first needed.
    pub(crate) fn of(tapes: &Arc<Tapes>, address: &TapeAddress) -> Arc<Self> {
        Self::known(tapes, address, None)
    }

    /// A known tape of a drive that stands alone; the operator is asked for it when it is needed.
    pub(crate) fn of_medium(
        tapes: &Arc<Tapes>,
        address: &TapeAddress,
        wanted: Wanted,
    ) -> Arc<Self> {
        Self::known(tapes, address, Some(wanted))
    }

    fn known(tapes: &Arc<Tapes>, address: &TapeAddress, wanted: Option<Wanted>) -> Arc<Self> {
        let address = address.resolved();
        let medium = wanted.as_ref().map(|wanted| wanted.medium);
        let key = (address.library.clone(), address.tape.clone(), medium);
        let new = || {
            Arc::new(Self::new(tapes.clone(), address.library, address.drive, address.tape, wanted))
        };
        tapes.all.lock().entry(key).or_insert_with(new).clone()
    }

    fn new(
        tapes: Arc<Tapes>,
        library: LibraryName,
        drive: Option<u32>,
        barcode: Option<String>,
        wanted: Option<Wanted>,
    ) -> Self {
        Self {
            tapes,
            library,
            drive,
            barcode,
            wanted,
            loaded: Mutex::default(),
            abreast: Abreast::default(),
            pinned: AtomicBool::new(false),
            patient: AtomicBool::new(false),
            leaves_exported: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            unwritten: AtomicBool::new(false),
            moves: Moves::default(),
            trials: AtomicU64::new(0),
            only_read: AtomicBool::new(false),
            loading: AtomicBool::new(false),
            used: AtomicU64::new(0),
        }
    }

    /// A tape that is in a drive of a test.
    #[cfg(test)]
    pub(crate) fn in_drive(tapes: &Arc<Tapes>, drive: Box<dyn TapeDrive>) -> Arc<Self> {
        let library = LibraryName::Virtual("test".into());
        let tape = Self::new(tapes.clone(), library, None, None, None);
        *tape.loaded.lock() = Some(LoadedDrive::new(drive, None, None));
        Arc::new(tape)
    }

    /// What it is called in messages.
    pub fn name(&self) -> String {
        match (&self.barcode, &self.wanted) {
            (Some(barcode), _) => format!("{}?tape={barcode}", self.library),
            (None, Some(wanted)) => format!("'{}' in {}", wanted.label, self.library),
            (None, None) => self.library.to_string(),
        }
    }

    /// Whether it is being written, or waits for a drive.
    pub(super) fn is_taken(&self) -> bool {
        self.pinned.load(Relaxed) || self.loading.load(Relaxed)
    }

    /// The medium that was asked for, where it is in the drive that stands alone.
    pub(super) fn wanted_there(&self) -> Option<MediumId> {
        let is_there = self.loaded.try_lock().is_none_or(|loaded| loaded.is_some());
        self.wanted.as_ref().filter(|_| is_there).map(|wanted| wanted.medium)
    }

    /// The library that it is in.
    pub(crate) fn library(&self) -> &LibraryName {
        &self.library
    }

    /// What is on its sticker, where there is a robot that reads it.
    pub fn barcode(&self) -> Option<&str> {
        self.barcode.as_deref()
    }

    /// The key that its drive needs behind that header; none where it does not encrypt.
    pub(crate) fn key_of(&self, header: &MediumHeader) -> Result<Option<DriveKey>, TapeError> {
        self.tapes.state.keys.of(header, &self.name())
    }

    /// Notes that it was written to, and what its drive says of the room on it.
    pub(crate) fn note_used(&self, medium: MediumId, room: Option<(u64, u64)>) {
        self.tapes.state.ledger.note_used(medium, self.library(), self.barcode(), room);
    }

    /// Whether it is in a drive of the host now, and nobody is at it.
    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.try_lock().is_some_and(|loaded| loaded.is_some())
    }

    /// Has it waited for where others have it, or all drives, as long as it is only read. Who reads it takes it from a mail slot too: it
    /// looks the same there whether somebody takes it out, or brought it for whom it is read.
    pub fn be_patient(&self) {
        self.leaves_exported.store(false, Relaxed);
        self.patient.store(true, Relaxed);
    }

    /// Has it not waited for any more.
    pub fn be_impatient(&self) {
        self.patient.store(false, Relaxed);
    }

    /// Whether it is waited for.
    pub fn is_patient(&self) -> bool {
        self.patient.load(Relaxed)
    }

    /// Leaves it in its mail slot from here on, if it is exported by record: it is wanted to be written.
    pub(crate) fn leave_exported(&self) {
        self.leaves_exported.store(true, Relaxed);
    }

    /// Keeps it loaded while it is written. False if somebody writes it already.
    pub fn pin(&self) -> bool {
        // As a lock is taken: what the last one did to the tape is seen.
        let is_mine = !self.pinned.swap(true, AcqRel);
        if is_mine {
            self.moves.may_move_again();
        }
        is_mine
    }

    /// It is written no more.
    pub fn unpin(&self) {
        self.moves.leave();
        self.pinned.store(false, Release);
        // Whoever uses it next looks where it is: it may lie in its slot again, or be for another drive.
        let has_fault = self.unwritten.swap(false, Relaxed);
        if (self.lost.swap(false, AcqRel) || has_fault)
            && let Some(mut loaded) = self.loaded.try_lock()
        {
            *loaded = None;
        }
    }

    /// Does something with the tape in its drive; loads it if it is in none. Where a drive fails in reading, it is done again, in another
    /// drive if there is one. A block that a drive cannot read may be the drive's fault: [`Self::leave_drive`] has another drive try,
    /// before it counts as the tape's.
    pub fn with<R>(
        &self,
        mut work: impl FnMut(&mut LoadedDrive) -> Result<R, TapeError>,
    ) -> Result<R, TapeError> {
        let mut loaded = self.loaded.lock();
        if self.pinned.load(Relaxed) && self.only_read.swap(false, Relaxed) {
            *loaded = None;
        }
        self.used.store(1 + self.tapes.uses.fetch_add(1, Relaxed), Relaxed);
        self.moves.begin();
        let done = self.do_in_drives(&mut loaded, &mut work);
        self.moves.end();
        done
    }

    fn do_in_drives<R>(
        &self,
        loaded: &mut Option<LoadedDrive>,
        work: &mut dyn FnMut(&mut LoadedDrive) -> Result<R, TapeError>,
    ) -> Result<R, TapeError> {
        let (mut tries, mut left) = (0, None);
        loop {
            let mut at_work = None;
            let mut work = |loaded: &mut LoadedDrive| {
                at_work = Some(loaded.drive_number());
                work(loaded)
            };
            let mut done = self.once(loaded, &mut work);
            let was_at_work = at_work.is_some();
            if let (Err(e), Some(drive)) = (&done, at_work.flatten()) {
                self.note_fault(drive, loaded.as_ref(), e);
            }
            match (&done, left.take()) {
                (Err(e @ (TapeError::Medium { .. } | TapeError::BadTape { .. })), before)
                    if was_at_work =>
                {
                    self.note_left(before, None);
                    match self.leave_drive(loaded, e) {
                        Another::Tries(of) => {
                            left = Some(of);
                            continue;
                        }
                        Another::Busy(untried) => done = Err(untried),
                        Another::None => {}
                    }
                }
                (Err(busy), Some(before)) if !was_at_work && busy.is_busy() => {
                    return Err(self.waited_in_vain(before, busy));
                }
                (_, before) => {
                    let reads = loaded.as_ref().filter(|_| was_at_work);
                    self.note_left(before, reads.and_then(LoadedDrive::drive_number));
                }
            }
            // A tape that is written stays where it is. One that could not be loaded is told at once.
            let is_again = tries < TRIES_IN_DRIVES
                && loaded.is_none()
                && done.as_ref().is_err_and(TapeError::blames_drive)
                && (at_work.is_some() || tries > 0 || self.moves.has_died.swap(false, Relaxed));
            if !is_again {
                return done;
            }
            tries += 1;
        }
    }

    fn once<R>(
        &self,
        loaded: &mut Option<LoadedDrive>,
        work: &mut dyn FnMut(&mut LoadedDrive) -> Result<R, TapeError>,
    ) -> Result<R, TapeError> {
        let done = match &mut *loaded {
            Some(loaded) => work(loaded),
            none => {
                self.loading.store(true, Relaxed);
                let loaded = self.load();
                self.loading.store(false, Relaxed);
                work(none.insert(loaded?))
            }
        };
        if loaded.as_mut().is_some_and(LoadedDrive::has_read_again) {
            let medium = self.wanted.as_ref().map(|wanted| wanted.medium);
            let drive = loaded.as_ref().and_then(LoadedDrive::drive_number);
            let at = (self.barcode(), drive);
            self.tapes.state.ledger.note_read_again(medium, self.library(), at);
        }
        let is_empty = matches!(done, Err(TapeError::NoTape { .. }));
        // Whoever needs the tape next may find it another drive. Not while it is written: another drive would synchronise without
        // an error what only this one had in its buffer. A drive without a tape has nothing in it.
        let failed = done.as_ref().is_err_and(TapeError::blames_drive);
        let is_unsynced = loaded.as_ref().is_some_and(LoadedDrive::is_unsynced);
        let is_written = self.is_written(is_unsynced);
        if failed && is_written {
            self.lost.store(true, Release);
        }
        if is_empty || failed && !is_written {
            *loaded = None;
        }
        done
    }

    /// Loads it. One that is read and is not in its library is waited for, as long as somebody is there to bring it.
    fn load(&self) -> Result<LoadedDrive, TapeError> {
        let is_tried = self.trials.load(Relaxed) > 0;
        let is_read = self.patient.load(Relaxed) && !self.pinned.load(Relaxed) && !is_tried;
        let Some(barcode) = self.barcode.as_deref().filter(|_| is_read) else {
            return self.load_if_there();
        };
        let library = self.library.to_string();
        // It may take a day until somebody brings it. Where nobody does, what the host has stays in its drives: the other members
        // of an array are read without it.
        let idle = || self.tapes.give_back_idle();
        self.tapes.state.requests.insist_on_tape(
            &self.name(),
            &library,
            barcode,
            &idle,
            &mut || {
                self.load_if_there().map_err(|e| match e {
                    e @ TapeError::Away { .. } => Refused::Empty(e),
                    e => Refused::Failed(e),
                })
            },
        )
    }

    fn load_if_there(&self) -> Result<LoadedDrive, TapeError> {
        let _waits = self.tapes.state.waits.begin();
        let mut wait = self.tapes.state.queue.wait();
        loop {
            match self.load_now() {
                Err(e) if e.is_busy() && self.is_waited_for() => {
                    // Nobody waits for what the host has and does not use.
                    self.tapes.give_back_idle();
                    if !wait.again(&e) {
                        return Err(e);
                    }
                }
                loaded => return loaded,
            }
        }
    }

    pub(super) fn is_waited_for(&self) -> bool {
        self.patient.load(Relaxed)
            && self.trials.load(Relaxed) == 0
            && !self.pinned.load(Relaxed)
            && !self.tapes.has_all_drives(&self.library)
    }

    /// Gives its drive back, if it is not written and not just read. `report`: what the drive did belongs into the report of what was
    /// read.
    pub(crate) fn give_back(&self, report: bool) {
        if !self.pinned.load(Relaxed)
            && let Some(mut loaded) = self.loaded.try_lock()
            && let Some(loaded) = loaded.take()
            && report
        {
            self.tapes.note_past(loaded);
        }
    }

    fn load_now(&self) -> Result<LoadedDrive, TapeError> {
        let loading = self.tapes.loading.lock().entry(self.library.clone()).or_default().clone();
        let _one = loading.lock();
        let mut library = self.tapes.state.library(&self.library)?;
        self.moves.is_in(None);
        let (mut busy, mut kept, mut had_none) = (None, None, false);
        for _ in 0..TRIES {
            match self.mount(&mut *library, kept.as_ref()) {
                // Where others have the tape, a drive is of no use.
                Err(e) if self.needs_room(&e) => match self.make_room(&mut *library) {
                    Some(room) => (busy, kept) = (Some(e), room),
                    // Another thread may have given back the one drive since it was seen to be in use. No thread takes one now.
                    None if !had_none => (busy, had_none) = (Some(e), true),
                    None => return Err(e),
                },
                Ok(mounted) => {
                    // Before the next thread looks for a drive: this one has one, and waits no more.
                    self.loading.store(false, Relaxed);
                    return Ok(mounted);
                }
                failed => return failed,
            }
        }
        Err(busy.unwrap_or_else(|| no_drive(&self.library.to_string(), &[])))
    }

    fn loaded(&self, drive: Box<dyn TapeDrive>, mount: Option<Mount>) -> LoadedDrive {
        let spool = self.tapes.state.spool.lock().clone();
        LoadedDrive::new(drive, mount, spool.as_ref())
    }

    fn needs_room(&self, e: &TapeError) -> bool {
        // One that was named, or that stands alone.
        let has_one = || self.drive.is_some() || self.barcode.is_none();
        matches!(e, TapeError::NoDriveFree { .. }) || e.is_busy() && has_one()
    }

    fn mount(
        &self,
        library: &mut dyn Changer,
        kept: Option<&Kept>,
    ) -> Result<LoadedDrive, TapeError> {
        if let Some(barcode) = &self.barcode {
            let begun = Instant::now();
            let failed = self.come_last();
            if !failed.is_empty() {
                self.tapes.give_back_left(&self.library);
            }
            let ours = if self.drive.is_none() { self.drives_of_others() } else { Vec::new() };
            let of = &self.library;
            let fits = &Fitting::of(library, barcode, self.pinned.load(Relaxed));
            self.moves.has_one_drive.store(library.elements().drives < 2, Relaxed);
            let shunned = self.shunned(library, fits);
            let (ledger, drive) = (&self.tapes.state.ledger, self.drive);
            let note_dead = &|number: u32, e: &TapeError| {
                self.note_fault(number, None, e);
                self.moves.has_died.store(!self.drive_is_the_one(), Relaxed);
            };
            let bringing = Bringing {
                ledger,
                of,
                barcode,
                drive,
                ours,
                failed,
                shunned,
                kept,
                fits,
                leaves_exported: self.leaves_exported.load(Relaxed),
                note_dead,
            };
            let (number, drive) = bringing.bring(library)?;
            self.moves.is_in(Some(number));
            ledger.note_tab(of, barcode, drive.is_write_protected());
            self.only_read.store(!fits.writes(number), Relaxed);
            let (library, barcode) = (self.library.to_string(), barcode.clone());
            let took = begun.elapsed();
            return Ok(self.loaded(drive, Some(Mount { library, drive: number, barcode, took })));
        }
        match &self.wanted {
            Some(wanted) => awaited(&self.tapes.state, library, wanted),
            None => Ok(self.loaded(library.open_drive(self.drive.unwrap_or(1))?, None)),
        }
    }

    /// Drives of the library that failed, the last one last.
    pub(super) fn failed_drives(&self) -> Vec<u32> {
        self.tapes.doubts.failed(&self.library)
    }

    /// Drives of the library that the host has for other tapes, as far as these are not just used: nobody has to ask for them.
    fn drives_of_others(&self) -> Vec<u32> {
        let others = self.tapes.all();
        let of = |other: &Arc<Self>| {
            let same = other.library == self.library && !std::ptr::eq(&**other, self);
            same.then(|| other.loaded.try_lock()?.as_ref()?.drive_number()).flatten()
        };
        others.iter().filter_map(of).collect()
    }

    /// Gives up the drive of another tape of the library that the host has and does not write, when it is not just read. It is
    /// kept for this tape, as far as nobody else brings something there just now. Nothing where there is none.
    fn make_room(&self, library: &mut dyn Changer) -> Option<Option<Kept>> {
        let mut others = self.tapes.all();
        others.sort_by_key(|other| other.used.load(Relaxed));
        let same = |other: &&Arc<Self>| {
            other.library == self.library
                && !std::ptr::eq(&***other, self)
                && !other.pinned.load(Relaxed)
        };
        // One that is just read is given up when that is done; one that waits for a drive itself has none.
        loop {
            let mut in_use = false;
            for other in others.iter().filter(same) {
                match other.loaded.try_lock() {
                    Some(mut loaded) => {
                        if let Some(loaded) = loaded.take() {
                            let kept =
                                loaded.drive_number().and_then(|n| Kept::of(library, n, LOOK));
                            self.tapes.note_past(loaded);
                            return Some(kept);
                        }
                    }
                    None => in_use |= !other.loading.load(Relaxed),
                }
            }
            if !in_use || !leaving::nap(PAUSE) {
                return None;
            }
        }
    }
}
