//! Drives and changer of a real tape library over iSCSI: Debian's tgt. What is on a tape is told by tgt's own tool.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

#[path = "support/signals.rs"]
mod signals;
mod support;

use capstan_address::iscsi::Target;
use capstan_scsi::element::ElementKind;
use capstan_scsi::inquiry::Kind;
use capstan_scsi::iscsi::Iscsi;
use capstan_scsi::transport::{Data, GOOD, Left, Transport, TransportError};
use capstan_scsi::{
    BLOCK_MAX, Changer, Drive, Error, Position, Read, Written, cdb, find, patience,
};
use signals::under_signals;
use std::cell::Cell;
use std::time::{Duration, Instant};
use support::block;
use support::tgt::{CHANGER, Library};

const DRIVE_1: u16 = 256;
const DRIVE_2: u16 = 257;
const SLOT_1: u16 = 1000;
const EXPORT: u16 = 10;
const KIB: usize = 1024;

/// A drive with the tape of slot 1, rewound.
fn loaded(library: &Library) -> (Changer, Drive) {
    let mut changer = Changer::open(&library.url(CHANGER)).unwrap();
    changer.move_medium(SLOT_1, DRIVE_1).unwrap();
    let mut drive = Drive::open(&library.url("1")).unwrap();
    drive.wait_ready(Duration::from_secs(10)).unwrap();
    drive.rewind().unwrap();
    (changer, drive)
}

#[test]
fn an_inventory_with_barcodes_and_drives() {
    let Some(library) = Library::start(4, None) else { return };
    let mut changer = Changer::open(&library.url(CHANGER)).unwrap();
    let serial = library.serial(CHANGER);
    assert_eq!(changer.identity().to_string(), format!("STK L700, serial number {serial}"));
    let inventory = changer.inventory().unwrap();
    let count = |kind| inventory.of(kind).count();
    let counts = ElementKind::ALL.map(count);
    assert_eq!(counts, [1, 8, 1, 2]);
    let barcodes: Vec<_> =
        inventory.of(ElementKind::Slot).map(|slot| slot.barcode.clone()).collect();
    let expected: Vec<_> = (1..=8).map(|n| (n <= 6).then(|| format!("TAPE0{n}L6"))).collect();
    assert_eq!(barcodes, expected);
    assert_eq!(inventory.find("TAPE04L6").map(|e| e.address), Some(1003));

    let drives = ["2", "1"].map(|lun| Drive::open(&library.url(lun)).unwrap().identity().clone());
    let serial = library.serial("1");
    assert_eq!(drives[1].to_string(), format!("HP Ultrium 6-SCSI, serial number {serial}"));
    let matched = inventory.match_drives(&drives);
    assert_eq!(matched.into_iter().collect::<Vec<_>>(), [(DRIVE_1, 1), (DRIVE_2, 0)]);
}

#[test]
fn a_host_is_asked_what_it_has() {
    let Some(library) = Library::start(4, None) else { return };
    let host = Target::parse_host(&format!("127.0.0.1:{}", library.port())).unwrap();
    let at_host = find::at_host(&host).unwrap();
    assert!(at_host.failed.is_empty(), "{:?}", at_host.failed);
    let found: Vec<_> = at_host.found.iter().map(|f| (f.name.clone(), f.kind)).collect();
    let expected = [("1", Kind::Tape), ("2", Kind::Tape), (CHANGER, Kind::Changer)];
    assert_eq!(found, expected.map(|(lun, kind)| (library.url(lun), kind)));
    assert_eq!(at_host.found[2].identity.serial, library.serial(CHANGER));
    drop(library);
    let text = find::at_host(&host).unwrap_err().to_string();
    assert!(text.contains("cannot connect to 127.0.0.1"), "{text}");
}

#[test]
fn media_go_where_they_should() {
    let Some(library) = Library::start(4, None) else { return };
    let mut changer = Changer::open(&library.url(CHANGER)).unwrap();
    changer.move_medium(SLOT_1, DRIVE_1).unwrap();
    let inventory = changer.inventory().unwrap();
    let there = inventory.find("TAPE01L6").unwrap();
    assert_eq!((there.address, there.source), (DRIVE_1, Some(SLOT_1)));
    assert_eq!(inventory.home_of(there).map(|e| e.address), Some(SLOT_1));
    // Drive to drive, out through the import/export slot, and in again.
    changer.move_medium(DRIVE_1, DRIVE_2).unwrap();
    let export = changer.inventory().unwrap().free_export().unwrap().address;
    assert_eq!(export, EXPORT);
    changer.move_medium(DRIVE_2, export).unwrap();
    let inventory = changer.inventory().unwrap();
    assert_eq!(
        inventory.imports().map(|e| e.barcode.as_deref()).collect::<Vec<_>>(),
        [Some("TAPE01L6")]
    );
    assert!(inventory.free_export().is_none());
    changer.move_medium(export, SLOT_1).unwrap();

    let said = |error: Error| error.to_string();
    let full = said(changer.move_medium(SLOT_1, SLOT_1 + 1).unwrap_err());
    assert!(full.contains("moving a medium") && full.contains("the target is occupied"), "{full}");
    let empty = said(changer.move_medium(SLOT_1 + 7, DRIVE_1).unwrap_err());
    assert!(empty.contains("no medium in the source"), "{empty}");
    assert!(changer.move_medium(4711, DRIVE_1).is_err());
    // This changer has neither lock nor reservations, and says so.
    assert!(!changer.prevent_removal(true).unwrap() && !changer.reserve().unwrap());
    changer.release().unwrap();
    changer.rescan().unwrap();
}

#[test]
fn blocks_and_filemarks_are_what_another_tool_finds() {
    let Some(library) = Library::start(64, None) else { return };
    let (mut changer, mut drive) = loaded(&library);
    assert!(!drive.prepare().unwrap().write_protected);
    let max = drive.block_limits().unwrap().max;
    assert_eq!(max, 1024 * KIB);
    let files = [vec![64 * KIB; 5], vec![256 * KIB, 4 * KIB, 512 * KIB], vec![1024 * KIB; 4]];
    let mut seed = 0;
    for lengths in &files {
        for len in lengths {
            seed += 1;
            assert_eq!(drive.write_block(&block(seed, *len)).unwrap(), Written::Done);
        }
        assert_eq!(drive.write_filemarks(1, true).unwrap(), Written::Done);
    }
    assert_eq!(drive.sync().unwrap(), Written::Done);
    let here = drive.position().unwrap();
    // This drive does not say where it stands; what was counted holds.
    assert_eq!((here.object, here.counted()), (None, Some((3, 0))));
    let too_long = drive.write_block(&vec![0; max + 1]).unwrap_err();
    assert!(matches!(too_long, Error::BlockSize { max: 1_048_576, .. }), "{too_long}");

    drive.rewind().unwrap();
    let mut buffer = vec![0; 2 * max];
    seed = 0;
    for lengths in &files {
        for len in lengths {
            seed += 1;
            assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(*len));
            assert!(buffer[..*len] == block(seed, *len), "block {seed}");
        }
        assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Filemark);
    }
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::EndOfData);
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::EndOfData);

    drive.unload().unwrap();
    changer.move_medium(DRIVE_1, SLOT_1).unwrap();
    let want: Vec<_> =
        files.iter().flat_map(|file| file.iter().copied().map(Some).chain([None])).collect();
    assert_eq!(library.contents("TAPE01L6"), want);
}

#[test]
fn a_drive_that_cannot_erase_says_so_and_leaves_the_tape() {
    let Some(library) = Library::start(64, None) else { return };
    let (mut changer, mut drive) = loaded(&library);
    assert_eq!(drive.write_block(&block(1, 64 * KIB)).unwrap(), Written::Done);
    assert_eq!(drive.write_filemarks(1, false).unwrap(), Written::Done);
    for long in [false, true] {
        let error = drive.erase(long).unwrap_err();
        assert!(error.is_unsupported(), "{error}");
    }
    drive.unload().unwrap();
    changer.move_medium(DRIVE_1, SLOT_1).unwrap();
    assert_eq!(library.contents("TAPE01L6"), [Some(64 * KIB), None]);
}

#[test]
fn a_block_is_read_whole_whatever_was_asked_for() {
    let Some(library) = Library::start(16, None) else { return };
    let (_changer, mut drive) = loaded(&library);
    for seed in 1..=3 {
        assert_eq!(drive.write_block(&block(seed, 300 * KIB)).unwrap(), Written::Done);
    }
    drive.rewind().unwrap();
    // tgt sends less than the block has where more is asked for; it is read again with its own length.
    let mut buffer = vec![0; 400 * KIB];
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(300 * KIB));
    assert!(buffer[..300 * KIB] == block(1, 300 * KIB));
    assert_eq!(drive.read_block(&mut buffer[..100 * KIB]).unwrap(), Read::TooLong(300 * KIB));
    assert_eq!(drive.read_block(&mut buffer[..300 * KIB]).unwrap(), Read::Block(300 * KIB));
    assert!(buffer[..300 * KIB] == block(3, 300 * KIB));
    assert_eq!(drive.position().unwrap().counted(), Some((0, 3)));
}

/// tgt states a limit of 1 MiB and takes more; the way there must carry the longest block that a tape of ours has.
#[test]
fn the_longest_blocks_pass_through_the_connection() {
    let Some(library) = Library::start(64, None) else { return };
    let (_changer, drive) = loaded(&library);
    drop(drive);
    let mut iscsi = Iscsi::open(Target::parse(&library.url("1")).unwrap()).unwrap();
    let long = block(7, BLOCK_MAX);
    let mut back = vec![0; BLOCK_MAX];
    let steps = [
        cdb::test_unit_ready(),
        cdb::rewind(),
        cdb::write(BLOCK_MAX),
        cdb::rewind(),
        cdb::read(BLOCK_MAX),
    ];
    for step in steps {
        let data = match step.opcode() {
            0x0a => Data::Out(&long),
            0x08 => Data::In(&mut back),
            _ => Data::None,
        };
        let outcome = iscsi.execute(step.bytes(), data, Duration::from_secs(60)).unwrap();
        // The first answer is news of the login.
        assert!(outcome.status == GOOD || step.opcode() == 0, "{} {outcome:?}", step.doing());
    }
    assert!(back == long);
}

#[test]
fn places_are_found_by_counting() {
    let Some(library) = Library::start(16, None) else { return };
    let (_changer, mut drive) = loaded(&library);
    let mut places = Vec::new();
    for seed in 0..12u64 {
        if seed % 4 == 0 && seed > 0 {
            assert_eq!(drive.write_filemarks(1, true).unwrap(), Written::Done);
        }
        places.push(drive.position().unwrap());
        assert_eq!(drive.write_block(&block(seed, 64 * KIB)).unwrap(), Written::Done);
    }
    let mut buffer = vec![0; 64 * KIB];
    for seed in [7, 2, 11, 0, 8] {
        drive.locate(&places[seed]).unwrap();
        assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(64 * KIB));
        assert!(buffer == block(seed as u64, 64 * KIB), "block {seed}");
    }
    // A write in the middle ends the tape there; only where that is known it is done.
    drive.locate(&places[5]).unwrap();
    assert_eq!(drive.write_block(&block(99, 4 * KIB)).unwrap(), Written::Done);
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::EndOfData);
    // Blocks and filemarks counted together lead there too.
    drive.locate(&Position { count: Some(3), ..Position::UNKNOWN }).unwrap();
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(64 * KIB));
    assert!(buffer == block(3, 64 * KIB));
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Filemark);
    drive.locate(&Position { count: Some(5), ..Position::UNKNOWN }).unwrap();
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(64 * KIB));
    assert!(buffer == block(4, 64 * KIB));
    let far = Position { object: None, file: Some(2), block: Some(0), ..Position::UNKNOWN };
    assert!(matches!(drive.locate(&far), Err(Error::NotThere { .. })));
    drive.space_to_end().unwrap();
    assert!(drive.position().unwrap().end_of_data);
    assert_eq!(drive.write_block(&block(100, 4 * KIB)).unwrap(), Written::Done);
    assert_eq!(drive.sync().unwrap(), Written::Done);
    let want = [vec![Some(64 * KIB); 4], vec![None, Some(64 * KIB), Some(4 * KIB), Some(4 * KIB)]]
        .concat();
    assert_eq!(library.contents("TAPE01L6"), want);
}

#[test]
fn the_end_of_the_medium_is_announced() {
    let Some(library) = Library::start(4, None) else { return };
    let (_changer, mut drive) = loaded(&library);
    let mut whole = 0;
    loop {
        match drive.write_block(&block(whole, 256 * KIB)).unwrap() {
            Written::Done => whole += 1,
            Written::EarlyWarning => break,
            Written::NoRoom => panic!("no room without a warning"),
        }
        assert!(whole < 64, "no early warning");
    }
    assert!((14..=17).contains(&whole), "{whole} blocks of 256 KiB before the end of 4 MiB");
    // The block that brought the warning is on the tape, and so is a mark after it.
    let _ = drive.write_filemarks(1, false).unwrap();
    let found = library.contents("TAPE01L6");
    assert_eq!(found.len() as u64, whole + 2);
    assert_eq!(found.last(), Some(&None));
}

#[test]
fn what_this_drive_lacks_is_found_out() {
    let Some(library) = Library::start(4, None) else { return };
    let mut drive = Drive::open(&library.url("1")).unwrap();
    assert!(!drive.is_loaded().unwrap());
    assert!(matches!(drive.wait_ready(Duration::ZERO), Err(Error::NoMedium { .. })));
    let mut changer = Changer::open(&library.url(CHANGER)).unwrap();
    changer.move_medium(SLOT_1, DRIVE_1).unwrap();
    drive.wait_ready(Duration::from_secs(10)).unwrap();
    assert!(drive.alerts().unwrap().is_empty());
    assert_eq!(drive.statistics().unwrap(), Default::default());
    assert_eq!(drive.encryption().unwrap(), None);
    assert!(!drive.reserve().unwrap());
    // Before a rewind nobody knows where the tape stands: the long form of READ POSITION claims to, with zeros.
    assert!(!drive.position().unwrap().is_known());
    assert!(matches!(drive.write_block(&[0; 512]), Err(Error::PositionUnknown { .. })));
    let wrong = Drive::open(&library.url(CHANGER)).err().unwrap().to_string();
    assert!(wrong.contains("is a changer, not a tape drive"), "{wrong}");
    let nothing = Drive::open(&library.url("9")).err().unwrap().to_string();
    assert!(nothing.contains("no device has this LUN"), "{nothing}");
}

#[test]
fn a_locked_medium_stays() {
    let Some(library) = Library::start(4, None) else { return };
    let (mut changer, mut drive) = loaded(&library);
    drive.prevent_removal(true).unwrap();
    let text = changer.move_medium(DRIVE_1, SLOT_1).unwrap_err().to_string();
    assert!(text.contains("locked") && text.contains("end the session"), "{text}");
    drive.prevent_removal(false).unwrap();
    changer.move_medium(DRIVE_1, SLOT_1).unwrap();
}

#[test]
fn chap_lets_in_who_knows_the_secret() {
    let Some(library) = Library::start(4, Some(("backup", "correct-horse1"))) else { return };
    Drive::open(&library.url_with("backup%correct-horse1", "1")).unwrap();
    for login in ["backup%wrong-staple1", "other%correct-horse1"] {
        let text = Drive::open(&library.url_with(login, "1")).err().unwrap().to_string();
        assert!(text.contains("check user and secret"), "{text}");
        assert!(!text.contains("horse") && !text.contains("staple"), "{text}");
    }
    assert!(matches!(Drive::open(&library.url("1")), Err(Error::Connect { .. })));
}

#[test]
fn a_cut_connection_is_an_error_and_nothing_is_written_blindly() {
    let Some(mut library) = Library::start(64, None) else { return };
    let (mut changer, mut drive) = loaded(&library);
    for seed in 0..4 {
        assert_eq!(drive.write_block(&block(seed, 256 * KIB)).unwrap(), Written::Done);
    }
    library.kill();
    let error = drive.write_block(&block(4, 256 * KIB)).unwrap_err();
    assert!(
        error.is_lost() && error.to_string().contains("writing a block: the connection broke"),
        "{error}"
    );
    // It stays lost: nobody connects behind our back.
    library.restart();
    assert!(drive.is_loaded().unwrap_err().is_lost());
    assert!(matches!(drive.write_block(&block(4, 256 * KIB)), Err(Error::PositionUnknown { .. })));
    drive.reconnect(&patience::Reconnects::default()).unwrap();
    assert!(matches!(
        drive.write_block(&block(4, 256 * KIB)),
        Err(Error::PositionUnknown { .. } | Error::NoMedium { .. })
    ));

    assert!(changer.inventory().unwrap_err().is_lost());
    changer.reconnect(&patience::Reconnects::default()).unwrap();
    // After its restart all tapes are in their slots.
    changer.move_medium(SLOT_1, DRIVE_1).unwrap();
    drive.wait_ready(Duration::from_secs(10)).unwrap();
    drive.rewind().unwrap();
    let mut buffer = vec![0; 256 * KIB];
    for seed in 0..4 {
        assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(256 * KIB));
        assert!(buffer == block(seed, 256 * KIB), "block {seed}");
    }
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::EndOfData);
}

#[test]
fn a_target_that_hangs_is_not_waited_for_forever() {
    let Some(library) = Library::start(4, None) else { return };
    let mut iscsi = Iscsi::open(Target::parse(&library.url("1")).unwrap()).unwrap();
    let ask = |iscsi: &mut Iscsi| iscsi.execute(&[0; 6], Data::None, Duration::from_millis(300));
    // The first answer is news of the login.
    assert_eq!(ask(&mut iscsi).unwrap().status, 2);
    library.hang(true);
    assert_eq!(ask(&mut iscsi), Err(TransportError::TimedOut));
    library.hang(false);
    // Its late answer reaches nobody: the connection is closed.
    assert!(matches!(ask(&mut iscsi), Err(TransportError::Lost(_))));
    iscsi.reconnect().unwrap();
    assert!(ask(&mut iscsi).is_ok());
}

thread_local! {
    /// When nobody waits any more, of each test by itself.
    static OVER: Cell<Option<Instant>> = const { Cell::new(None) };
}

#[test]
fn what_was_left_at_work_gives_the_way_back_when_it_answers() {
    patience::ends_when(|| OVER.get().is_some_and(|over| Instant::now() >= over));
    let Some(library) = Library::start(4, None) else { return };
    let (mut changer, mut drive) = loaded(&library);
    drive.prevent_removal(true).unwrap();
    library.hang(true);
    OVER.set(Some(Instant::now() + Duration::from_millis(300)));
    let begun = Instant::now();
    assert!(drive.rewind().unwrap_err().is_lost());
    assert!(begun.elapsed() < Duration::from_secs(3), "{:?}", begun.elapsed());
    // Somebody else tells it what is to be told.
    let mut later = drive.hand_over();
    assert!(
        drive.rewind().unwrap_err().is_lost()
            && drive.reconnect(&patience::Reconnects::default()).is_err()
    );
    assert_eq!(later.left(Duration::ZERO), Left::Over);
    let begun = Instant::now();
    assert!(later.reconnect(&patience::Reconnects::default()).is_err(), "it hangs");
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    library.hang(false);
    later.reconnect(&patience::Reconnects::default()).unwrap();
    assert_eq!(later.left(Duration::ZERO), Left::No);
    later.prevent_removal(false).unwrap();
    OVER.set(None);
    // As soon as the target has noticed that the first connection is gone.
    let begun = Instant::now();
    while let Err(e) = changer.move_medium(DRIVE_1, SLOT_1) {
        assert!(begun.elapsed() < Duration::from_secs(20), "{e}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn signals_neither_lose_nor_double_a_block() {
    let Some(library) = Library::start(64, None) else { return };
    let (_changer, mut drive) = loaded(&library);
    under_signals(|| {
        for seed in 0..100 {
            assert_eq!(drive.write_block(&block(seed, 256 * KIB)).unwrap(), Written::Done);
        }
        assert_eq!(drive.sync().unwrap(), Written::Done);
    });
    assert_eq!(library.contents("TAPE01L6"), [Some(256 * KIB); 100]);
}

#[test]
fn a_target_that_is_not_there() {
    let Some(mut library) = Library::start(4, None) else { return };
    let url = library.url("1").replace("capstan:lib", "capstan:other");
    let text = Drive::open(&url).err().unwrap().to_string();
    assert!(text.contains("check the target's name"), "{text}");
    library.kill();
    let text = Drive::open(&library.url("1")).err().unwrap().to_string();
    assert!(
        text.contains("cannot connect to iscsi://127.0.0.1") && text.contains("check host"),
        "{text}"
    );
}
