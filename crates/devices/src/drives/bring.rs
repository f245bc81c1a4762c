//! Bringing a tape to a drive by the robot, beside others who do the same.
//!
//! A drive is claimed before a tape is brought there, and until it is open: from then on it is this host's. So nobody takes out,
//! or opens, what somebody else has just brought; a claim ends with its process.

use std::time::{Duration, Instant};

use capstan_tape::changer::{Held, Place, is_spare};
use capstan_tape::{Changer, TapeDrive, TapeError, leaving};

use super::fitting::Fitting;
use crate::state::ledger::Ledger;
use capstan_address::LibraryName;

/// How long to wait before looking again where tapes are.
const PAUSE: Duration = Duration::from_millis(2);
/// How often it is decided anew where a tape goes, as others move tapes too.
const MOVED_TRIES: usize = 20;
/// The same where nothing was seen to move.
const SAME_TRIES: usize = 3;
/// A program that is just being started has a drive open as long as who started it: it is looked again after that.
const FORK: Duration = Duration::from_millis(60);

/// A drive that is claimed for the next tape of this host.
pub(crate) struct Kept {
    number: u32,
    _claim: Box<dyn Send>,
}

impl Kept {
    /// Claims a drive that this host has; waits so long for others who look whether it is free.
    pub fn of(library: &mut dyn Changer, number: u32, patience: Duration) -> Option<Self> {
        let begun = Instant::now();
        loop {
            match library.claim_drive(number) {
                Ok(claim) => return Some(Self { number, _claim: claim }),
                Err(e) if e.is_busy() && begun.elapsed() < patience && leaving::nap(PAUSE) => {}
                Err(_) => return None,
            }
        }
    }
}

/// What is to be brought, and where it may go.
pub(crate) struct Bringing<'a> {
    /// Who is told that it was loaded.
    pub ledger: &'a Ledger,
    /// The library.
    pub of: &'a LibraryName,
    /// The tape.
    pub barcode: &'a str,
    /// The drive that it is to be in, where that was said.
    pub drive: Option<u32>,
    /// Drives that this host has.
    pub ours: Vec<u32>,
    /// Drives that failed in reading, the last one last: others come first.
    pub failed: Vec<u32>,
    /// Drives that are not taken: others may read what they could not.
    pub shunned: Vec<u32>,
    /// One that it has claimed.
    pub kept: Option<&'a Kept>,
    /// The drives that take it.
    pub fits: &'a Fitting,
    /// Whether it stays in its mail slot, if it is exported by record.
    pub leaves_exported: bool,
    /// Gets to know of a drive that fails as it is opened.
    pub note_dead: &'a dyn Fn(u32, &TapeError),
}

impl Bringing<'_> {
    /// Puts the tape into a drive, and opens that; with its number. Where somebody else moved tapes meanwhile, what was decided no
    /// longer fits, and it is decided anew.
    pub fn bring(&self, library: &mut dyn Changer) -> Result<(u32, Box<dyn TapeDrive>), TapeError> {
        let (mut left, mut unmoved) = (MOVED_TRIES, SAME_TRIES);
        loop {
            let held = library.inventory()?;
            let brought = self.bring_among(library, held.clone());
            let moved = match &brought {
                // Until it was opened, anybody could put another tape into the drive. From then on nobody can.
                Ok((n, _)) => !is_in_drive(&library.inventory()?, self.barcode, *n),
                Err(e) => matches!(
                    e,
                    TapeError::Library { .. } | TapeError::Away { .. } | TapeError::NoTape { .. }
                ),
            };
            if !moved {
                return brought;
            }
            // All may lie as before where another session moved a tape there and back.
            match library.inventory()? == held && brought.is_err() {
                true if unmoved == 0 => return brought,
                true => unmoved -= 1,
                false if left == 0 => {
                    let what = format!("tape {} of library {}", self.barcode, library.name());
                    return Err(TapeError::Busy { what, holder: OTHERS.to_owned() });
                }
                false => left -= 1,
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The same, with the tapes where they were seen.
    fn bring_among(
        &self,
        library: &mut dyn Changer,
        mut held: Vec<Held>,
    ) -> Result<(u32, Box<dyn TapeDrive>), TapeError> {
        if let Some(drive) = self.drive {
            library.elements().refuse_no_drive(library.name(), drive)?;
        }
        let mut here = find(library, &held, self.barcode)?;
        self.refuse_exported(library, &here)?;
        self.fits.refuse_none(library.name(), self.barcode, self.drive)?;
        let (mut offline, mut left) = (None, None);
        if let Place::Drive(n) = here.place
            && !self.fits.takes(n)
            && self.drive.is_none()
        {
            let _claim = self.claim(library, n)?;
            put_away(library, n, &here, &held)?;
            held = library.inventory()?;
            here = find(library, &held, self.barcode)?;
        }
        if let Place::Drive(n) = here.place
            && (self.shunned.contains(&n)
                || self.drive.is_some_and(|drive| drive != n)
                || self.failed.contains(&n) && self.has_another(library, n))
        {
            let _claim = self.claim(library, n)?;
            // Where it does not come out it is read where it is.
            if put_away(library, n, &here, &held).is_ok() {
                held = library.inventory()?;
                here = find(library, &held, self.barcode)?;
            }
        }
        if let Place::Drive(n) = here.place {
            let _claim = self.claim(library, n)?;
            match library.open_drive(n) {
                Err(e) if e.blames_drive() && self.drive.is_none() => {
                    (self.note_dead)(n, &e);
                    // Where it comes out, another drive may read it.
                    if put_away(library, n, &here, &held).is_err() {
                        return Err(e);
                    }
                    (offline, left) = (Some(e), Some(n));
                    held = library.inventory()?;
                    here = find(library, &held, self.barcode)?;
                }
                opened => return Ok((n, opened?)),
            }
        }
        let in_drive = |n| held.iter().find(|h| h.place == Place::Drive(n));
        let mut drives: Vec<u32> = match self.drive {
            Some(n) => vec![n],
            None => (1..=library.elements().drives).collect(),
        };
        let may = |n: &u32| !self.ours.contains(n) && !self.shunned.contains(n);
        drives.retain(|n| Some(*n) != left && may(n) && self.fits.takes(*n));
        // Those first that can write it as well, and empty ones: nothing has to be put away.
        drives.sort_by_key(|n| {
            (self.rank_of_failed(*n), !self.fits.writes(*n), in_drive(*n).is_some())
        });
        let (mut holders, mut unreached) = (Vec::new(), None);
        for n in drives {
            let _claim = match self.claim(library, n) {
                Ok(claim) => claim,
                Err(TapeError::Busy { holder, .. }) => {
                    holders.push(holder);
                    continue;
                }
                // The robot reaches it, and this host does not.
                Err(e @ TapeError::Library { .. }) => {
                    unreached = Some(e);
                    continue;
                }
                Err(e) => return Err(e),
            };
            let moved = (|| {
                if let Some(there) = in_drive(n) {
                    put_away(library, n, there, &held)?;
                }
                library.move_tape(here.place, Place::Drive(n))
            })();
            match moved {
                // What goes wrong from here on goes wrong with the tape in this drive.
                Ok(()) => {
                    self.ledger.note_loaded(self.of, self.barcode);
                    let opened = library.open_drive(n);
                    if let Err(e) = &opened
                        && e.blames_drive()
                    {
                        (self.note_dead)(n, e);
                    }
                    return Ok((n, opened?));
                }
                Err(TapeError::Busy { holder, .. }) => holders.push(holder),
                Err(e) if e.blames_drive() => offline = Some(e),
                Err(e) => return Err(e),
            }
        }
        let none_reached = unreached.filter(|_| holders.is_empty() && self.ours.is_empty());
        let none_free = || no_drive(library.name(), &holders);
        Err(offline.or(none_reached).unwrap_or_else(none_free))
    }

    /// Refuses a tape that waits in a mail slot for somebody to take it out. It is asked of the record each time that it is decided what
    /// is moved: who waited may have missed that.
    fn refuse_exported(&self, library: &dyn Changer, here: &Held) -> Result<(), TapeError> {
        let may_be_out = self.leaves_exported && matches!(here.place, Place::Mail(_));
        let exported = || self.ledger.exported(self.of, self.barcode);
        match may_be_out.then(exported).flatten() {
            Some(exported) => Err(TapeError::Away {
                library: library.name().to_owned(),
                problem: format!(
                    "tape {} {exported}, and lies in a mail slot; `capstan library import` takes it back",
                    self.barcode
                ),
            }),
            None => Ok(()),
        }
    }

    /// When a drive failed in reading: those that did come last, of them first the one whose failure is the longest ago.
    fn rank_of_failed(&self, number: u32) -> Option<usize> {
        self.failed.iter().position(|n| *n == number)
    }

    /// Whether there is a drive for the tape that did not fail, and that nobody has.
    fn has_another(&self, library: &mut dyn Changer, failed: u32) -> bool {
        let may = |n: &u32| {
            *n != failed
                && !self.failed.contains(n)
                && !self.shunned.contains(n)
                && !self.ours.contains(n)
                && self.fits.takes(*n)
        };
        self.drive.is_none()
            && (1..=library.elements().drives)
                .filter(may)
                .any(|n| library.drive_info(n).is_ok_and(|info| info.in_use.is_none()))
    }

    /// Claims a drive, unless that is done. Who has it open is not disturbed by that.
    fn claim(
        &self,
        library: &mut dyn Changer,
        number: u32,
    ) -> Result<Option<Box<dyn Send>>, TapeError> {
        if self.kept.is_some_and(|kept| kept.number == number) {
            return Ok(None);
        }
        let user = |library: &mut dyn Changer| library.drive_info(number).map(|info| info.in_use);
        if user(library)?.is_some()
            && leaving::nap(FORK)
            && let Some(holder) = user(library)?
        {
            let what = format!("drive {number} of library {}", library.name());
            return Err(TapeError::Busy { what, holder });
        }
        library.claim_drive(number).map(Some)
    }
}

/// Whoever it is.
const OTHERS: &str = "other sessions";

/// The error that others have all drives.
pub(crate) fn no_drive(library: &str, holders: &[String]) -> TapeError {
    let mut named: Vec<&str> = Vec::new();
    for holder in holders {
        if !named.contains(&holder.as_str()) {
            named.push(holder);
        }
    }
    let holder = if named.is_empty() { OTHERS.to_owned() } else { named.join(" and ") };
    TapeError::NoDriveFree { library: library.to_owned(), holder }
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

/// Brings the tape that is in a drive back to where it came from, or to any free slot.
fn put_away(
    library: &mut dyn Changer,
    drive: u32,
    there: &Held,
    held: &[Held],
) -> Result<(), TapeError> {
    library.unload_drive(drive)?;
    if !is_in_drive(&library.inventory()?, &there.barcode, drive) {
        return Err(TapeError::Library {
            library: library.name().to_owned(),
            problem: format!("tape {} is not in drive {drive} any more", there.barcode),
        });
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
    use capstan_tape::vtl::library::{Design, Library};
    use std::sync::LazyLock;

    /// A library in which another process once puts another tape into the drive, before that is opened; and whose drives call
    /// themselves so.
    struct Swapped(Library, bool, &'static [&'static str]);

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
            let info = self.0.drive_info(number)?;
            let model = self.2.get(number as usize - 1).map_or(info.model, |m| (*m).to_owned());
            Ok(DriveInfo { model, ..info })
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
        let mut library = Swapped(Library::create(&path, &design, 2).unwrap(), false, &[]);
        let of = &LibraryName::Virtual(path);
        let fits = &Fitting::any();
        let bringing = Bringing { of, fits, ..bringing("V00001L9", None) };
        let (number, mut drive) = bringing.bring(&mut library).unwrap();
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

    fn library(drives: u32) -> (tempfile::TempDir, Library) {
        let dir = tempfile::tempdir().unwrap();
        let design = Design {
            model: "lto-9".into(),
            drives,
            slots: 4,
            mail_slots: 0,
            alone: false,
            capacity: Some(1_000_000),
            scale: 1e6,
            ratio: 1.0,
        };
        let library = Library::create(&dir.path().join("vtl"), &design, 3).unwrap();
        (dir, library)
    }

    fn bringing<'a>(barcode: &'a str, kept: Option<&'a Kept>) -> Bringing<'a> {
        static OF: LazyLock<LibraryName> = LazyLock::new(|| LibraryName::Virtual("vtl".into()));
        static LEDGER: Ledger = Ledger::kept_by_nobody();
        static FITS: Fitting = Fitting::any();
        let (ours, failed, shunned) = (Vec::new(), Vec::new(), Vec::new());
        let (ledger, of, fits, drive) = (&LEDGER, &OF, &FITS, None);
        let note_dead = &|_: u32, _: &TapeError| {};
        Bringing {
            ledger,
            of,
            barcode,
            drive,
            ours,
            failed,
            shunned,
            kept,
            fits,
            leaves_exported: false,
            note_dead,
        }
    }

    #[test]
    fn what_somebody_brings_is_not_opened_or_taken_out_by_another() {
        let (_dir, mut library) = library(1);
        // As another process, between its move and its opening of the drive.
        let claim = library.claim_drive(1).unwrap();
        library.move_tape(Place::Slot(1), Place::Drive(1)).unwrap();
        let own = format!("process {} (", std::process::id());
        let same = bringing("V00001L9", None).bring(&mut library).err().unwrap();
        assert!(matches!(&same, TapeError::Busy { holder, .. } if holder.starts_with(&own)));
        let other = bringing("V00002L9", None).bring(&mut library).err().unwrap();
        assert!(
            matches!(&other, TapeError::NoDriveFree { holder, .. } if holder.starts_with(&own))
        );
        assert!(is_in_drive(&library.inventory().unwrap(), "V00001L9", 1));
        drop(claim);
        let (number, _drive) = bringing("V00002L9", None).bring(&mut library).unwrap();
        assert_eq!(number, 1);
    }

    #[test]
    fn a_drive_that_is_kept_is_had_by_who_keeps_it() {
        let (_dir, mut library) = library(1);
        let drive = bringing("V00001L9", None).bring(&mut library).unwrap();
        let kept = Kept::of(&mut library, 1, Duration::ZERO).unwrap();
        drop(drive);
        assert!(bringing("V00002L9", None).bring(&mut library).err().unwrap().is_busy());
        assert_eq!(bringing("V00002L9", Some(&kept)).bring(&mut library).unwrap().0, 1);
    }

    #[test]
    fn many_who_bring_tapes_at_once_have_each_a_drive_of_its_own() {
        let (dir, _) = library(3);
        for _ in 0..10 {
            let opened: Vec<_> = std::thread::scope(|scope| {
                let one = |n: u32| {
                    let mut library = Library::open(&dir.path().join("vtl")).unwrap();
                    bringing(&format!("V{n:05}L9"), None).bring(&mut library)
                };
                let all: Vec<_> = (1..=3).map(|n| scope.spawn(move || one(n))).collect();
                all.into_iter().map(|one| one.join().unwrap()).collect()
            });
            let mut drives: Vec<u32> = opened.iter().map(|o| o.as_ref().unwrap().0).collect();
            drives.sort_unstable();
            assert_eq!(drives, [1, 2, 3]);
        }
    }

    /// Drives of generations in one library: a tape goes where it can be read, and written where it is to be.
    #[test]
    fn a_tape_goes_into_a_drive_of_a_generation_that_takes_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("vtl");
        let design = Design {
            model: "lto-6".into(),
            drives: 3,
            slots: 4,
            mail_slots: 0,
            alone: false,
            capacity: Some(1_000_000),
            scale: 1e6,
            ratio: 1.0,
        };
        let library = Library::create(&path, &design, 1).unwrap();
        for barcode in ["A00001L4", "A00001L9"] {
            let barcode = Some(barcode.to_owned());
            let tape = capstan_tape::vtl::library::NewTape { barcode, ..Default::default() };
            library.add_tape(&tape).unwrap();
        }
        let models: &[&str] = &["IBM ULTRIUM-TD9", "HP Ultrium 7-SCSI", "IBM ULT3580-TD6"];
        let mut library = Swapped(library, true, models);
        let name = LibraryName::Virtual(path.clone());
        let brought = |library: &mut Swapped, barcode: &str, to_write: bool| {
            let fits = &Fitting::of(library, barcode, to_write);
            let bringing = Bringing { of: &name, fits, ..bringing(barcode, None) };
            bringing.bring(library).map(|(number, _)| (number, fits.writes(number)))
        };
        let mut goes_to = |barcode: &str, to_write: bool| {
            let brought = brought(&mut library, barcode, to_write);
            if let Ok((number, _)) = brought {
                library.unload_drive(number).unwrap();
                let from = library.inventory().unwrap().into_iter();
                let from = from.filter_map(|h| h.from.filter(|_| h.barcode == barcode)).next();
                library.move_tape(Place::Drive(number), from.unwrap()).unwrap();
            }
            brought.map_err(|e| e.to_string())
        };
        assert_eq!(goes_to("V00001L6", true), Ok((2, true)));
        assert_eq!(goes_to("V00001L6", false), Ok((2, true)));
        assert_eq!(goes_to("A00001L4", false), Ok((3, false)));
        let refused = goes_to("A00001L4", true).unwrap_err();
        assert!(
            refused.contains("LTO-4, which no drive")
                && refused.contains("writes (LTO-6, LTO-7, LTO-9)"),
            "{refused}"
        );
        // In a drive that does not take it, it is not left.
        library.move_tape(Place::Slot(1), Place::Drive(1)).unwrap();
        assert_eq!(brought(&mut library, "V00001L6", false).unwrap().0, 2);
        let host = crate::host::DeviceHost::default();
        let why = |barcode: &str| host.why_not_written(&name, barcode).unwrap();
        assert_eq!(
            why("A00001L9").as_deref(),
            Some("is LTO-9, which no drive of the library writes (LTO-6)")
        );
        assert_eq!((why("A00001L5"), why("NEW")), (None, None));
    }
}
