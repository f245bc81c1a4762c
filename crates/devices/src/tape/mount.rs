//! Getting a tape into a drive, and keeping it there while it is used.
//!
//! A process has one [`Tape`] for each tape it uses, however many readers share it. The tape is loaded when it is first
//! needed, and stays in its drive, which is this process's, until [`release_idle`]. Where all drives are taken, a tape that
//! this process holds and does not just use makes room; one that is being written stays.

use std::collections::HashMap;
use std::sync::atomic::{
    AtomicBool, AtomicU64,
    Ordering::{AcqRel, Relaxed, Release},
};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use capstan_format::id::MediumId;
use capstan_tape::changer::{Held, Place, is_spare};
use capstan_tape::{Changer, DriveSession, Mount, TapeDrive, TapeError, leaving};
use parking_lot::Mutex;

use super::abreast::Abreast;
use super::by_hand::{Wanted, awaited};
use super::deck::Deck;
use super::ledger::{self, Event};
use crate::address::{LibraryName, TapeAddress};
use crate::library;
use crate::operator::{self, Refused};
use crate::queue::Wait;
use crate::waits::Waiting;

/// How long to wait before looking again whether a drive is free.
const PAUSE: Duration = Duration::from_millis(2);
/// How often a drive that somebody took first is looked for again.
const TRIES: usize = 5;
/// How often it is decided anew where a tape goes, as others move tapes too.
const MOVED_TRIES: usize = 20;
/// The same where nothing was seen to move.
const SAME_TRIES: usize = 3;

type Key = (LibraryName, Option<String>, Option<MediumId>);
static TAPES: LazyLock<Mutex<HashMap<Key, Arc<Tape>>>> = LazyLock::new(Mutex::default);

/// One tape of a library is loaded at a time: else two that take turns in one drive would take it from each other before it is
/// used.
static LOADING: LazyLock<Mutex<HashMap<LibraryName, Arc<Mutex<()>>>>> =
    LazyLock::new(Mutex::default);

/// Counts uses of tapes: the one that was used last longest ago makes room for others. An array's are used by turns, and would
/// take the drives from each other.
static USES: AtomicU64 = AtomicU64::new(1);

type Inventories = HashMap<LibraryName, (Instant, Vec<Held>)>;
static INVENTORIES: LazyLock<Mutex<Inventories>> = LazyLock::new(Mutex::default);
/// For so long a library is not asked again: a list of media asks for each of them.
const INVENTORY_TIME: Duration = Duration::from_secs(2);

/// What lies in a library, by place, as it was at most two seconds ago.
pub fn inventory(name: &LibraryName) -> Result<Vec<Held>, TapeError> {
    let mut known = INVENTORIES.lock();
    known.retain(|_, (asked, _)| asked.elapsed() < INVENTORY_TIME);
    if let Some((_, held)) = known.get(name) {
        return Ok(held.clone());
    }
    let held = library::open(name)?.inventory()?;
    known.insert(name.clone(), (Instant::now(), held.clone()));
    Ok(held)
}

/// The same, as it is now.
pub fn inventory_now(name: &LibraryName) -> Result<Vec<Held>, TapeError> {
    INVENTORIES.lock().remove(name);
    inventory(name)
}

/// Gives back the drives of all tapes that are not being written; the tapes stay in them.
pub fn release_idle() {
    let all: Vec<_> = TAPES.lock().values().cloned().collect();
    for tape in all.iter().filter(|tape| !tape.pinned.load(Relaxed)) {
        if let Some(mut deck) = tape.deck.try_lock() {
            *deck = None;
        }
    }
}

/// Whether this process writes with every drive of a library: there is none to wait for.
pub fn has_all_drives(library: &LibraryName) -> bool {
    let all: Vec<_> = TAPES.lock().values().cloned().collect();
    let written = |tape: &&Arc<Tape>| tape.library == *library && tape.pinned.load(Relaxed);
    let written = all.iter().filter(written).count();
    written > 0 && library::open(library).is_ok_and(|l| l.elements().drives as usize <= written)
}

/// What drives did since they were opened, of tapes that this process read and gave up.
static PAST: Mutex<Vec<DriveSession>> = Mutex::new(Vec::new());
/// More are not kept.
const PAST_MOST: usize = 1000;

/// What the drives did that this process reads tapes in, or did since it was asked.
pub fn take_sessions() -> Vec<DriveSession> {
    let mut sessions = std::mem::take(&mut *PAST.lock());
    let all: Vec<_> = TAPES.lock().values().cloned().collect();
    for tape in all.iter().filter(|tape| !tape.pinned.load(Relaxed)) {
        sessions.extend(tape.deck.lock().as_mut().map(Deck::session));
    }
    sessions
}

/// Takes the tape out of a drive that stands alone; this process gives the drive up, if it does not write there.
pub fn eject(address: &TapeAddress) -> Result<(), TapeError> {
    let library = address.resolved().library;
    let all: Vec<_> = TAPES.lock().values().cloned().collect();
    let idle = |tape: &&Arc<Tape>| tape.library == library && !tape.pinned.load(Relaxed);
    all.iter().filter(idle).for_each(|tape| *tape.deck.lock() = None);
    library::open(&library)?.unload_drive(address.drive.unwrap_or(1))
}

/// A tape that this process uses.
pub struct Tape {
    library: LibraryName,
    drive: Option<u32>,
    /// What is on its sticker, in a library.
    barcode: Option<String>,
    /// Which medium is to be in a drive that stands alone; whatever is in it, if neither is given.
    wanted: Option<Wanted>,
    deck: Mutex<Option<Deck>>,
    /// Where its readers are.
    pub(super) abreast: Abreast,
    /// It is written: it is not unloaded for another.
    pinned: AtomicBool,
    /// Who reads it waits while others have it, or all drives.
    patient: AtomicBool,
    /// Its drive failed, or was lost, while it was written.
    lost: AtomicBool,
    /// It waits for a drive.
    loading: AtomicBool,
    /// When it was used last, by [`USES`].
    used: AtomicU64,
}

impl Tape {
    /// A tape of a library; it is loaded when it is first needed.
    pub fn of(address: &TapeAddress) -> Arc<Self> {
        Self::known(address, None)
    }

    /// A known tape of a drive that stands alone; the operator is asked for it when it is needed.
    pub fn of_medium(address: &TapeAddress, wanted: Wanted) -> Arc<Self> {
        Self::known(address, Some(wanted))
    }

    fn known(address: &TapeAddress, wanted: Option<Wanted>) -> Arc<Self> {
        let address = address.resolved();
        let medium = wanted.as_ref().map(|wanted| wanted.medium);
        let key = (address.library.clone(), address.tape.clone(), medium);
        let new = || Arc::new(Self::new(address.library, address.drive, address.tape, wanted));
        TAPES.lock().entry(key).or_insert_with(new).clone()
    }

    fn new(
        library: LibraryName,
        drive: Option<u32>,
        barcode: Option<String>,
        wanted: Option<Wanted>,
    ) -> Self {
        Self {
            library,
            drive,
            barcode,
            wanted,
            deck: Mutex::default(),
            abreast: Abreast::default(),
            pinned: AtomicBool::new(false),
            patient: AtomicBool::new(false),
            lost: AtomicBool::new(false),
            loading: AtomicBool::new(false),
            used: AtomicU64::new(0),
        }
    }

    /// A tape that is in a drive of a test.
    #[cfg(test)]
    pub(super) fn in_drive(drive: Box<dyn TapeDrive>) -> Arc<Self> {
        let tape = Self::new(LibraryName::Virtual("test".into()), None, None, None);
        *tape.deck.lock() = Some(Deck::new(drive, None));
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

    /// The library that it is in.
    pub(super) fn library(&self) -> &LibraryName {
        &self.library
    }

    /// What is on its sticker, where there is a robot that reads it.
    pub fn barcode(&self) -> Option<&str> {
        self.barcode.as_deref()
    }

    /// Whether it is in a drive of this process now, and nobody is at it.
    pub(super) fn is_loaded(&self) -> bool {
        self.deck.try_lock().is_some_and(|deck| deck.is_some())
    }

    /// Has it waited for where others have it, or all drives, as long as it is only read.
    pub fn be_patient(&self) {
        self.patient.store(true, Relaxed);
    }

    /// Keeps it loaded while it is written. False if somebody writes it already.
    pub fn pin(&self) -> bool {
        // As a lock is taken: what the last one did to the tape is seen.
        !self.pinned.swap(true, AcqRel)
    }

    /// It is written no more.
    pub fn unpin(&self) {
        self.pinned.store(false, Release);
        // Whoever uses it next looks where it is: it may lie in its slot again.
        if self.lost.swap(false, AcqRel)
            && let Some(mut deck) = self.deck.try_lock()
        {
            *deck = None;
        }
    }

    /// Does something with the tape in its drive; loads it if it is in none. Where a drive fails in reading, it is done once more,
    /// in another drive if there is one.
    pub fn with<R>(
        &self,
        mut work: impl FnMut(&mut Deck) -> Result<R, TapeError>,
    ) -> Result<R, TapeError> {
        let mut deck = self.deck.lock();
        self.used.store(USES.fetch_add(1, Relaxed), Relaxed);
        let was_loaded = deck.is_some();
        match self.once(&mut deck, &mut work) {
            Err(e) if e.blames_drive() && was_loaded && deck.is_none() => {
                self.once(&mut deck, &mut work)
            }
            done => done,
        }
    }

    fn once<R>(
        &self,
        deck: &mut Option<Deck>,
        work: &mut dyn FnMut(&mut Deck) -> Result<R, TapeError>,
    ) -> Result<R, TapeError> {
        let done = match &mut *deck {
            Some(deck) => work(deck),
            none => {
                self.loading.store(true, Relaxed);
                let loaded = self.load();
                self.loading.store(false, Relaxed);
                work(none.insert(loaded?))
            }
        };
        let is_empty = matches!(done, Err(TapeError::NoTape { .. }));
        // Whoever needs the tape next may find it another drive. Not while it is written: another drive would synchronise without
        // an error what only this one had in its buffer. A drive without a tape has nothing in it.
        let failed = done.as_ref().is_err_and(TapeError::blames_drive);
        if failed && self.pinned.load(Relaxed) {
            self.lost.store(true, Release);
        }
        if is_empty || failed && !self.pinned.load(Relaxed) {
            *deck = None;
        }
        done
    }

    /// Loads it. One that is read and is not in its library is waited for, as long as somebody is there to bring it.
    fn load(&self) -> Result<Deck, TapeError> {
        let is_read = self.patient.load(Relaxed) && !self.pinned.load(Relaxed);
        let Some(barcode) = self.barcode.as_deref().filter(|_| is_read) else {
            return self.load_if_there();
        };
        let library = self.library.to_string();
        operator::insist_on_tape(&self.name(), &library, barcode, &mut || {
            self.load_if_there().map_err(|e| match e {
                e @ TapeError::Away { .. } => Refused::Empty(e),
                e => Refused::Failed(e),
            })
        })
    }

    fn load_if_there(&self) -> Result<Deck, TapeError> {
        let _waits = Waiting::begin();
        let mut wait = Wait::begin();
        loop {
            match self.load_now() {
                Err(e @ TapeError::Busy { .. })
                    if self.patient.load(Relaxed)
                        && !self.pinned.load(Relaxed)
                        && !has_all_drives(&self.library)
                        && wait.again(&e) => {}
                loaded => return loaded,
            }
        }
    }

    fn load_now(&self) -> Result<Deck, TapeError> {
        let loading = LOADING.lock().entry(self.library.clone()).or_default().clone();
        let _one = loading.lock();
        let mut library = library::open(&self.library)?;
        let mut busy = None;
        for _ in 0..TRIES {
            match self.mount(&mut *library) {
                Err(e @ TapeError::Busy { .. }) if self.make_room() => busy = Some(e),
                mounted => return mounted,
            }
        }
        Err(busy.unwrap_or_else(|| in_use(self.library.to_string())))
    }

    fn mount(&self, library: &mut dyn Changer) -> Result<Deck, TapeError> {
        if let Some(barcode) = &self.barcode {
            let begun = Instant::now();
            let (number, drive) = self.mount_tape(library, barcode)?;
            let (library, barcode) = (self.library.to_string(), barcode.clone());
            let took = begun.elapsed();
            return Ok(Deck::new(drive, Some(Mount { library, drive: number, barcode, took })));
        }
        match &self.wanted {
            Some(wanted) => awaited(library, wanted),
            None => Ok(Deck::new(library.open_drive(self.drive.unwrap_or(1))?, None)),
        }
    }

    /// Puts the tape into a drive, and opens that; with its number. Where somebody else moved tapes meanwhile, what was decided no
    /// longer fits, and it is decided anew.
    fn mount_tape(
        &self,
        library: &mut dyn Changer,
        barcode: &str,
    ) -> Result<(u32, Box<dyn TapeDrive>), TapeError> {
        let (mut left, mut unmoved) = (MOVED_TRIES, SAME_TRIES);
        loop {
            let held = library.inventory()?;
            let mounted = self.mount_among(library, barcode, held.clone());
            let moved = match &mounted {
                // Until it was opened, anybody could put another tape into the drive. From then on nobody can.
                Ok((n, _)) => !is_in_drive(&library.inventory()?, barcode, *n),
                Err(e) => matches!(
                    e,
                    TapeError::Library { .. } | TapeError::Away { .. } | TapeError::NoTape { .. }
                ),
            };
            if !moved {
                return mounted;
            }
            // All may lie as before where another session moved a tape there and back.
            match library.inventory()? == held && mounted.is_err() {
                true if unmoved == 0 => return mounted,
                true => unmoved -= 1,
                false if left == 0 => return Err(in_use(self.name())),
                false => left -= 1,
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The same, with the tapes where they were seen.
    fn mount_among(
        &self,
        library: &mut dyn Changer,
        barcode: &str,
        mut held: Vec<Held>,
    ) -> Result<(u32, Box<dyn TapeDrive>), TapeError> {
        if let Some(drive) = self.drive {
            library.elements().refuse_no_drive(library.name(), drive)?;
        }
        let mut here = find(library, &held, barcode)?;
        let mut offline = None;
        let mut left = None;
        if let Place::Drive(n) = here.place {
            match library.open_drive(n) {
                Err(e) if e.blames_drive() && self.drive.is_none() => {
                    // Where it comes out, another drive may read it.
                    if put_away(library, n, &here, &held).is_err() {
                        return Err(e);
                    }
                    (offline, left) = (Some(e), Some(n));
                    held = library.inventory()?;
                    here = find(library, &held, barcode)?;
                }
                opened => return Ok((n, opened?)),
            }
        }
        let in_drive = |n| held.iter().find(|h| h.place == Place::Drive(n));
        let mut drives: Vec<u32> = match self.drive {
            Some(n) => vec![n],
            None => (1..=library.elements().drives).collect(),
        };
        drives.retain(|n| Some(*n) != left);
        if self.drive.is_none() {
            let ours = self.drives_of_others();
            drives.retain(|n| !ours.contains(n));
        }
        // Empty ones first: nothing has to be put away.
        drives.sort_by_key(|n| in_drive(*n).is_some());
        for n in drives {
            let moved = (|| {
                if let Some(there) = in_drive(n) {
                    put_away(library, n, there, &held)?;
                }
                library.move_tape(here.place, Place::Drive(n))
            })();
            match moved {
                // What goes wrong from here on goes wrong with the tape in this drive.
                Ok(()) => {
                    ledger::note(|| Event::Loaded {
                        library: self.library.clone(),
                        barcode: barcode.to_owned(),
                    });
                    return Ok((n, library.open_drive(n)?));
                }
                Err(TapeError::Busy { .. }) => {}
                Err(e) if e.blames_drive() => offline = Some(e),
                Err(e) => return Err(e),
            }
        }
        Err(offline.unwrap_or_else(|| in_use(format!("every drive of library {}", library.name()))))
    }

    /// Drives of the library that this process has for other tapes, as far as these are not just used: nobody has to ask for them.
    fn drives_of_others(&self) -> Vec<u32> {
        let others: Vec<_> = TAPES.lock().values().cloned().collect();
        let of = |other: &Arc<Self>| {
            let same = other.library == self.library && !std::ptr::eq(&**other, self);
            same.then(|| other.deck.try_lock()?.as_ref()?.drive_number()).flatten()
        };
        others.iter().filter_map(of).collect()
    }

    /// Gives up the drive of another tape of the library that this process has and does not write, when it is not just read.
    /// False if there is none.
    fn make_room(&self) -> bool {
        let mut others: Vec<_> = TAPES.lock().values().cloned().collect();
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
                match other.deck.try_lock() {
                    Some(mut deck) => {
                        if let Some(mut deck) = deck.take() {
                            let mut past = PAST.lock();
                            if past.len() < PAST_MOST {
                                past.push(deck.session());
                            }
                            return true;
                        }
                    }
                    None => in_use |= !other.loading.load(Relaxed),
                }
            }
            if !in_use || !leaving::nap(PAUSE) {
                return false;
            }
        }
    }
}

/// The tape with that barcode. A drive that gets one that cleans cleans itself, and ejects it.
fn find(library: &dyn Changer, held: &[Held], barcode: &str) -> Result<Held, TapeError> {
    let refused =
        |problem: String| TapeError::Library { library: library.name().to_owned(), problem };
    match held.iter().find(|h| h.barcode == barcode) {
        Some(tape) if tape.is_cleaning() => Err(refused(format!(
            "tape {barcode} cleans drives and takes no data; name another, or use `capstan library clean` to clean a drive"
        ))),
        Some(tape) => Ok(tape.clone()),
        None => Err(TapeError::Away {
            library: library.name().to_owned(),
            problem: format!(
                "tape {barcode} is not in it; put it into a mail slot and `capstan library import` it"
            ),
        }),
    }
}

fn is_in_drive(held: &[Held], barcode: &str, drive: u32) -> bool {
    held.iter().any(|h| (h.place, h.barcode.as_str()) == (Place::Drive(drive), barcode))
}

fn in_use(what: String) -> TapeError {
    TapeError::Busy { what, holder: "other sessions".to_owned() }
}

/// Brings the tape that is in a drive back to where it came from, or to any free slot.
fn put_away(
    library: &mut dyn Changer,
    drive: u32,
    there: &Held,
    held: &[Held],
) -> Result<(), TapeError> {
    library.unload_drive(drive)?;
    if !is_in_drive(&library.inventory()?, &there.barcode, drive) {
        return Err(in_use(format!("drive {drive} of library {}", library.name())));
    }
    let free = |place: &Place| held.iter().all(|h| h.place != *place);
    let home = there.from.filter(free);
    let elements = library.elements();
    let slots = (1..=elements.slots).map(Place::Slot);
    // In need a mail slot will do, and in the end the slot of a tape that is in another drive.
    let places: Vec<Place> = slots.chain((1..=elements.mail_slots).map(Place::Mail)).collect();
    let spare = places.iter().find(|place| is_spare(held, **place)).copied();
    let any = || places.iter().copied().find(free);
    let Some(home) = home.or(spare).or_else(any) else {
        return Err(TapeError::Library {
            library: library.name().to_owned(),
            problem: format!(
                "there is no free slot for tape {}, which is in drive {drive}; take a tape out of the library",
                there.barcode
            ),
        });
    };
    library.move_tape(Place::Drive(drive), home)
}

#[cfg(test)]
mod tests {
    use super::*;
    use capstan_tape::changer::{DriveInfo, Elements};
    use capstan_tape::library::{Design, Library};

    /// A library in which another process once puts another tape into the drive, before that is opened.
    struct Swapped(Library, bool);

    impl Changer for Swapped {
        fn name(&self) -> &str {
            self.0.name()
        }
        fn robot(&self) -> String {
            self.0.robot()
        }
        fn elements(&self) -> Elements {
            self.0.elements()
        }
        fn inventory(&mut self) -> Result<Vec<Held>, TapeError> {
            self.0.inventory()
        }
        fn move_tape(&mut self, from: Place, to: Place) -> Result<(), TapeError> {
            self.0.move_tape(from, to)
        }
        fn open_drive(&mut self, number: u32) -> Result<Box<dyn TapeDrive>, TapeError> {
            if !std::mem::replace(&mut self.1, true) {
                self.0.move_tape(Place::Drive(1), Place::Slot(1))?;
                self.0.move_tape(Place::Slot(2), Place::Drive(1))?;
            }
            self.0.open_drive(number)
        }
        fn unload_drive(&mut self, number: u32) -> Result<(), TapeError> {
            self.0.unload_drive(number)
        }
        fn drive_info(&mut self, number: u32) -> Result<DriveInfo, TapeError> {
            self.0.drive_info(number)
        }
        fn clean(&mut self, drive: u32, tape_at: Place) -> Result<Option<u32>, TapeError> {
            self.0.clean(drive, tape_at)
        }
    }

    #[test]
    fn a_tape_that_somebody_else_put_into_the_drive_is_not_taken_for_the_one_that_is_meant() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vtl");
        let design = Design {
            model: "lto-9".into(),
            drives: 1,
            slots: 2,
            mail_slots: 0,
            alone: false,
            capacity: Some(1_000_000),
            scale: 1e6,
            ratio: 1.0,
        };
        let mut library = Swapped(Library::create(&path, &design, 2).unwrap(), false);
        let tape = Tape::new(LibraryName::Virtual(path), None, Some("V00001L9".into()), None);
        let (number, mut drive) = tape.mount_tape(&mut library, "V00001L9").unwrap();
        assert!(library.1, "it was swapped once");
        assert!(is_in_drive(&library.inventory().unwrap(), "V00001L9", number));
        drive.write_block(&[7; 4096]).unwrap();
        drop(drive);
        let written = |n: u32| {
            std::fs::metadata(dir.path().join(format!("vtl/tapes/V{n:05}L9.tape")))
                .map_or(0, |m| m.len())
        };
        assert!(written(1) > written(2), "{} {}", written(1), written(2));
    }
}
