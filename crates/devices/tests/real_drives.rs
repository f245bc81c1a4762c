//! The adapters of real drives and libraries, against software that others wrote: tgt (a changer and two drives without
//! LOCATE, that do not say where they stand) and istgt (a drive with LOCATE and READ POSITION).

#[path = "../../scsi/tests/support/mod.rs"]
mod support;

use capstan_address::LibraryName;
use capstan_devices::host::LocalDevices;
use capstan_medium::tape::{ANOTHER_HOST, Elements, Held, Place, Spot, TapeError};
use capstan_tape::{Changer, Read, TapeDrive};
use support::block;
use support::istgt::Istgt;
use support::tgt::{CHANGER, Library};

const KIB: usize = 1024;

fn open(url: &str) -> Box<dyn Changer> {
    LocalDevices::default().changer(&LibraryName::Scsi(url.to_owned())).unwrap()
}

fn spot(file: u64, block: u64) -> Spot {
    Spot { file, block, object: None }
}

/// Writes files of so many blocks, each block by its number, and returns where each block lies.
fn write(drive: &mut dyn TapeDrive, files: &[u64]) -> Vec<Spot> {
    let (mut places, mut object) = (Vec::new(), 0);
    for (file, blocks) in (0..).zip(files) {
        for n in 0..*blocks {
            places.push(Spot { object: Some(object), ..spot(file, n) });
            drive.write_block(&block(places.len() as u64, 64 * KIB)).unwrap();
            object += 1;
        }
        drive.write_filemark().unwrap();
        object += 1;
    }
    drive.sync().unwrap();
    places
}

fn check(drive: &mut dyn TapeDrive, places: &[Spot], order: &[usize]) {
    let mut buffer = vec![0; 64 * KIB];
    for n in order {
        drive.locate(places[*n]).unwrap();
        assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(64 * KIB));
        assert!(buffer == block(*n as u64 + 1, 64 * KIB), "block {n}");
    }
}

/// The end is found, wherever the tape stands, and it is where one can go on.
fn check_end(drive: &mut dyn TapeDrive, end: Spot) {
    let is_it = |found: Spot| {
        assert_eq!((found.file, found.block), (end.file, end.block));
        assert!(found.object.is_none() || found.object == end.object, "{found:?}");
    };
    is_it(drive.locate_end().unwrap());
    is_it(drive.locate_end().unwrap());
    drive.locate(spot(1, 1)).unwrap();
    is_it(drive.locate_end().unwrap());
    assert_eq!(drive.read_block(&mut [0; 9]).unwrap(), Read::EndOfData);
    drive.locate(Spot::BEGIN).unwrap();
    is_it(drive.locate_end().unwrap());
    drive.write_block(&block(99, 64 * KIB)).unwrap();
    drive.write_filemark().unwrap();
    drive.sync().unwrap();
    drive.locate(Spot { object: end.object, ..end }).unwrap();
    let mut buffer = vec![0; 64 * KIB];
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(64 * KIB));
    assert!(buffer == block(99, 64 * KIB));
}

#[test]
fn a_library_has_numbered_places_and_its_robot_moves_tapes() {
    let Some(tgt) = Library::start(8, None) else { return };
    let mut library = open(&tgt.url(CHANGER));
    assert_eq!(library.elements(), Elements { drives: 2, slots: 8, mail_slots: 1 });
    let tape = |place, n: u32, from| Held { place, barcode: format!("TAPE0{n}L6"), from };
    let all: Vec<_> = (1..=6).map(|n| tape(Place::Slot(n), n, None)).collect();
    assert_eq!(library.inventory().unwrap(), all);
    library.rescan().unwrap();

    library.move_tape(Place::Slot(2), Place::Drive(2)).unwrap();
    let there = library.inventory().unwrap();
    assert_eq!(there[0], tape(Place::Drive(2), 2, Some(Place::Slot(2))));
    let mut says = |from, to, words: &str| {
        let error = library.move_tape(from, to).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    says(Place::Slot(2), Place::Drive(1), "slot 2 holds no tape");
    says(Place::Slot(1), Place::Drive(2), "drive 2 holds tape TAPE02L6 already");
    says(Place::Slot(9), Place::Drive(1), "no slot 9");
    says(Place::Mail(0), Place::Drive(1), "no mail slot 0");
    library.move_tape(Place::Drive(2), Place::Mail(1)).unwrap();
    // Another process sees the same.
    let there = open(&tgt.url(CHANGER)).inventory().unwrap();
    assert_eq!(there.last(), Some(&tape(Place::Mail(1), 2, None)));
}

#[test]
fn a_drive_in_use_is_nobody_elses_and_keeps_its_tape() {
    let Some(tgt) = Library::start(8, None) else { return };
    let mut library = open(&tgt.url(CHANGER));
    for n in 1..=2 {
        let info = library.drive_info(n).unwrap();
        assert_eq!(info.model, "HP Ultrium 6-SCSI");
        assert_eq!(info.serial, Some(tgt.serial(&n.to_string())), "in the order of its elements");
        assert_eq!(info.device, Some(tgt.url(&n.to_string())));
        assert_eq!((info.in_use, info.note), (None, None));
    }
    library.move_tape(Place::Slot(1), Place::Drive(1)).unwrap();
    let mut drive = library.open_drive(1).unwrap();
    drive.write_block(b"some text").unwrap();
    let own = format!("process {} (", std::process::id());
    assert!(library.drive_info(1).unwrap().in_use.unwrap().starts_with(&own));
    let mut other = open(&tgt.url(CHANGER));
    assert_eq!(other.drive_info(1).unwrap().in_use.as_deref(), Some(ANOTHER_HOST));
    let busy = other.open_drive(1).err().unwrap();
    assert!(matches!(&busy, TapeError::Busy { holder, .. } if holder == ANOTHER_HOST), "{busy}");
    let kept = other.move_tape(Place::Drive(1), Place::Slot(1)).unwrap_err();
    assert!(matches!(kept, TapeError::Busy { .. }), "{kept}");
    // By itself the drive is the same drive.
    let alone = open(&tgt.url("1")).open_drive(1).err().unwrap();
    assert!(matches!(alone, TapeError::Busy { .. }), "{alone}");
    drive.unload().unwrap();
    assert!(matches!(drive.write_block(b"some text"), Err(TapeError::NoTape { .. })));
    drop(drive);
    other.move_tape(Place::Drive(1), Place::Slot(1)).unwrap();
    let mut empty = other.open_drive(1).unwrap();
    let nothing = empty.read_block(&mut [0; 9]).unwrap_err();
    assert!(matches!(nothing, TapeError::NoTape { .. }), "{nothing}");
    assert!(other.open_drive(3).err().unwrap().to_string().contains("no drive 3"));
}

#[test]
fn places_are_found_on_a_drive_that_cannot_say_where_it_stands() {
    let Some(tgt) = Library::start(16, None) else { return };
    let mut library = open(&tgt.url(CHANGER));
    library.move_tape(Place::Slot(3), Place::Drive(1)).unwrap();
    let mut drive = library.open_drive(1).unwrap();
    assert_eq!(drive.block_max(), 1 << 20);
    assert_eq!(drive.locate_end().unwrap().to_string(), spot(0, 0).to_string());
    let places = write(&mut *drive, &[1, 4, 2, 3]);
    check(&mut *drive, &places, &[9, 2, 0, 6, 5]);
    check_end(&mut *drive, Spot { object: Some(14), ..spot(4, 0) });
    // Blocks without a filemark behind them, as a crash leaves them.
    drive.locate(spot(2, 0)).unwrap();
    drive.write_block(&block(1, 10)).unwrap();
    drive.write_block(&block(2, 10)).unwrap();
    drive.sync().unwrap();
    drop(drive);
    let mut drive = library.open_drive(1).unwrap();
    check_end(&mut *drive, Spot { object: Some(9), ..spot(2, 2) });
    let beyond = drive.locate(spot(7, 0)).unwrap_err();
    assert!(matches!(&beyond, TapeError::BeyondEnd { tape, .. } if tape == "TAPE03L6"), "{beyond}");
    drive.locate(Spot::BEGIN).unwrap();
    let short = drive.read_block(&mut [0; 100]).unwrap_err();
    assert!(matches!(short, TapeError::TooLong { at: 0, length: 65536, .. }), "{short}");
    // This drive has neither alerts nor counters nor a switch for its compression.
    assert!(drive.alerts().is_empty());
    assert_eq!(drive.counters(), Default::default());
}

#[test]
fn the_end_of_the_tape_is_warned_of() {
    let Some(tgt) = Library::start(4, None) else { return };
    let mut library = open(&tgt.url(CHANGER));
    library.move_tape(Place::Slot(1), Place::Drive(1)).unwrap();
    let mut drive = library.open_drive(1).unwrap();
    let mut blocks = 1;
    while !drive.write_block(&block(blocks, 256 * KIB)).unwrap().early_warning {
        blocks += 1;
        assert!(blocks < 64, "no early warning");
    }
    drive.write_filemark().unwrap();
    drive.sync().unwrap();
    assert_eq!(tgt.contents("TAPE01L6").len() as u64, blocks + 1);
}

#[test]
fn a_lost_drive_writes_nothing_until_somebody_goes_to_a_place() {
    let Some(mut tgt) = Library::start(16, None) else { return };
    let mut library = open(&tgt.url(CHANGER));
    library.move_tape(Place::Slot(1), Place::Drive(1)).unwrap();
    let mut drive = library.open_drive(1).unwrap();
    let places = write(&mut *drive, &[1, 2]);
    tgt.kill();
    let lost = drive.write_block(&block(9, 64 * KIB)).unwrap_err();
    assert!(
        matches!(&lost, TapeError::Unreachable(_)) && lost.to_string().contains("lost"),
        "{lost}"
    );
    tgt.restart();
    assert!(drive.write_block(&block(9, 64 * KIB)).is_err(), "nobody connects behind our back");
    // After its restart all tapes are in their slots.
    // We hold the drive: the robot brings it nothing.
    let busy = library.move_tape(Place::Slot(1), Place::Drive(1)).unwrap_err();
    assert!(matches!(busy, TapeError::Busy { .. }), "{busy}");
    assert!(matches!(drive.locate(places[1]), Err(TapeError::NoTape { .. })));
    drop(drive);
    library.move_tape(Place::Slot(1), Place::Drive(1)).unwrap();
    let mut drive = library.open_drive(1).unwrap();
    check(&mut *drive, &places, &[1, 0, 2]);
    check_end(&mut *drive, Spot { object: Some(5), ..spot(2, 0) });
}

#[test]
fn a_drive_that_stands_alone_is_a_library_of_one_drive() {
    let Some(istgt) = Istgt::start("64MB") else { return };
    let mut library = open(&istgt.url());
    assert_eq!(library.elements(), Elements { drives: 1, slots: 0, mail_slots: 0 });
    let there = library.inventory().unwrap();
    assert_eq!(there, [Held { place: Place::Drive(1), barcode: String::new(), from: None }]);
    assert_eq!(library.drive_info(1).unwrap().model, "QUANTUM DLT8000");
    let by_hand = library.move_tape(Place::Drive(1), Place::Slot(1)).unwrap_err().to_string();
    assert!(by_hand.contains("no robot; put the tape in by hand"), "{by_hand}");
    assert!(library.open_drive(2).err().unwrap().to_string().contains("no drive 2"));
    let mut drive = library.open_drive(1).unwrap();
    drive.unload().unwrap();
    drop(drive);
    assert!(library.inventory().unwrap().is_empty());
}

#[test]
fn a_drive_with_locate_goes_by_its_own_numbers() {
    let Some(istgt) = Istgt::start("64MB") else { return };
    let mut library = open(&istgt.url());
    let mut drive = library.open_drive(1).unwrap();
    let places = write(&mut *drive, &[1, 4, 2, 3]);
    assert_eq!(drive.position().unwrap(), Some(14), "known from the first block of a blank tape");
    // With its numbers, and without.
    check(&mut *drive, &places, &[9, 2, 0, 6, 5]);
    let counted: Vec<_> = places.iter().map(|place| Spot { object: None, ..*place }).collect();
    check(&mut *drive, &counted, &[9, 2, 0, 6, 5]);
    // A wrong number is a hint that did not help.
    drive.locate(Spot { object: Some(4711), ..places[3] }).unwrap();
    check_end(&mut *drive, Spot { object: Some(14), ..spot(4, 0) });
    drive.set_compression(false).unwrap();
    drive.set_compression(true).unwrap();
    drop(drive);
    let mut drive = library.open_drive(1).unwrap();
    check(&mut *drive, &places, &[3]);
    drop(drive);
    // Whoever reads the first block need not go back for the drive's way to count.
    let mut drive = library.open_drive(1).unwrap();
    check(&mut *drive, &places, &[0]);
    assert_eq!(drive.position().unwrap(), Some(1));
    drive.locate(spot(1, 2)).unwrap();
    assert_eq!(drive.position().unwrap(), Some(4));
}

/// No software has drives that clean themselves: this one takes the tape for one with data, which is seen, and the tape put
/// back.
#[test]
fn a_drive_that_does_not_clean_itself_is_found_out() {
    let Some(tgt) = Library::start(4, None) else { return };
    tgt.add_cleaning_tape("CLN001L6");
    let mut library = open(&tgt.url(CHANGER));
    let there = library.inventory().unwrap();
    assert!(there.iter().any(|h| h.is_cleaning() && h.place == Place::Slot(7)), "{there:?}");
    let why = library.clean(2, Place::Slot(7)).unwrap_err().to_string();
    assert!(why.contains("drive 2 was not cleaned"), "{why}");
    assert_eq!(library.inventory().unwrap(), there);
}
