use std::sync::LazyLock;

use capstan_medium::host::Tapes;
use capstan_medium::tape::{DriveInfo, Elements, TapeLibrary};
use capstan_tape::vtl::library::{Design, Library};

use super::*;

/// A library in which another process once puts another tape into the drive, before that is opened; and whose drives call
/// themselves so.
struct Swapped(Library, bool, &'static [&'static str]);

impl TapeLibrary for Swapped {
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

impl Changer for Swapped {
    fn open_drive(&mut self, number: u32) -> Result<Box<dyn TapeDrive>, TapeError> {
        if !std::mem::replace(&mut self.1, true) {
            self.0.move_tape(Place::Drive(1), Place::Slot(1))?;
            self.0.move_tape(Place::Slot(2), Place::Drive(1))?;
        }
        self.0.open_drive(number)
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
    assert!(matches!(&other, TapeError::NoDriveFree { holder, .. } if holder.starts_with(&own)));
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
    let host = crate::host::LocalDevices::default();
    let why = |barcode: &str| host.why_not_written(&name, barcode).unwrap();
    assert_eq!(
        why("A00001L9").as_deref(),
        Some("is LTO-9, which no drive of the library writes (LTO-6)")
    );
    assert_eq!((why("A00001L5"), why("NEW")), (None, None));
}
