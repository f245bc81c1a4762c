//! A second, independent target: istgt's DLT drive. It has what tgt lacks: LOCATE, READ POSITION, a medium that can be
//! full; and other faults of its own. It is started afresh for each test, on 127.0.0.1, and ended by its process id.

mod support;

use std::time::{Duration, Instant};

use capstan_scsi::{Drive, Error, Position, Read, Written};
use support::block;
use support::istgt::Istgt;

const KIB: usize = 1024;

/// The drive with its medium, rewound.
fn drive(istgt: &Istgt) -> Drive {
    // It takes connections a moment before it lets anybody log in.
    let end = Instant::now() + Duration::from_secs(20);
    let mut drive = loop {
        match Drive::open(&istgt.url()) {
            Ok(drive) => break drive,
            Err(e @ Error::Connect { .. }) => assert!(Instant::now() < end, "{e}"),
            Err(e) => panic!("{e}"),
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    drive.wait_ready(Duration::from_secs(20)).unwrap();
    drive.rewind().unwrap();
    drive
}

#[test]
fn the_drives_own_numbers_lead_back() {
    let Some(istgt) = Istgt::start("64MB") else { return };
    let mut drive = drive(&istgt);
    assert_eq!(drive.identity().product, "DLT8000");
    let mut places = Vec::new();
    for seed in 0..12u64 {
        if seed % 4 == 0 && seed > 0 {
            assert_eq!(drive.write_filemarks(1, false).unwrap(), Written::Done);
        }
        places.push(drive.position().unwrap());
        assert_eq!(drive.write_block(&block(seed, 64 * KIB)).unwrap(), Written::Done);
    }
    assert_eq!(drive.write_filemarks(1, false).unwrap(), Written::Done);
    assert_eq!(places[5].counted(), Some((1, 1)));
    let mut buffer = vec![0; 64 * KIB];
    for seed in [7, 2, 11, 0, 8] {
        // By the drive's number alone, as a database would have it.
        let place = Position { object: places[seed].object, ..Position::UNKNOWN };
        assert!(place.is_known(), "{:?}", places[seed]);
        drive.locate(&place).unwrap();
        assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(64 * KIB));
        assert!(buffer == block(seed as u64, 64 * KIB), "block {seed}");
    }
    let beyond = Position { object: Some(4711), ..Position::UNKNOWN };
    assert!(drive.locate(&beyond).is_err());
    assert!(drive.position().unwrap().counted().is_none());
}

#[test]
fn an_erased_tape_is_blank() {
    let Some(istgt) = Istgt::start("64MB") else { return };
    let mut drive = drive(&istgt);
    for seed in 0..4 {
        assert_eq!(drive.write_block(&block(seed, 64 * KIB)).unwrap(), Written::Done);
    }
    assert_eq!(drive.write_filemarks(1, false).unwrap(), Written::Done);
    // Its short form does nothing and says that all is well.
    let text = drive.erase(false).unwrap_err().to_string();
    assert!(text.contains("recorded as before"), "{text}");
    drive.erase(true).unwrap();
    let mut buffer = vec![0; 64 * KIB];
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::EndOfData);
    drive.rewind().unwrap();
    assert_eq!(drive.write_block(&block(9, 64 * KIB)).unwrap(), Written::Done);
}

#[test]
fn a_full_medium_is_full() {
    let Some(istgt) = Istgt::start("10MB") else { return };
    let mut drive = drive(&istgt);
    let mut written = 0;
    while drive.write_block(&block(written, 256 * KIB)).unwrap() == Written::Done {
        written += 1;
        assert!(written < 100, "it never ends");
    }
    // No early warning here: the block did not fit, and what came before is there.
    assert!(written > 30, "{written}");
    drive.rewind().unwrap();
    let mut buffer = vec![0; 256 * KIB];
    for seed in 0..written {
        assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(256 * KIB));
        assert!(buffer == block(seed, 256 * KIB), "block {seed}");
    }
}

#[test]
fn reserved_compressed_and_unloaded() {
    let Some(istgt) = Istgt::start("10MB") else { return };
    let mut drive = drive(&istgt);
    assert!(drive.reserve().unwrap());
    drive.release().unwrap();
    let on = drive.compression().unwrap().on;
    drive.set_compression(!on).unwrap();
    assert_eq!(drive.compression().unwrap().on, !on);
    assert_eq!(drive.write_block(&block(1, 64 * KIB)).unwrap(), Written::Done);
    assert_eq!(drive.write_filemarks(1, false).unwrap(), Written::Done);
    drive.unload().unwrap();
    assert!(!drive.is_loaded().unwrap());
    assert!(matches!(drive.wait_ready(Duration::ZERO), Err(Error::NoMedium { .. })));
    assert!(!drive.position().is_ok_and(|position| position.is_known()));
}
