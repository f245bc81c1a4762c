use std::path::Path;

use super::*;
use crate::vtl::cartridge::Label;

fn tape(dir: &Path, capacity: f64, write_protected: bool) -> Cartridge {
    let path = dir.join("A00001L9.tape");
    let barcode = "A00001L9".to_owned();
    let label = Label {
        barcode,
        capacity,
        write_protected,
        loads: 0,
        passes: 0.0,
        cleanings: None,
        media: None,
    };
    Cartridge::create(&path, &label).unwrap();
    Cartridge::open(&path).unwrap()
}

fn drive(model: &str) -> (VirtualDrive, Arc<Clock>) {
    let clock = Arc::new(Clock::virtual_time());
    let model = DriveModel::named(model).unwrap();
    (VirtualDrive::new("drive 1", model, clock.clone(), 1.0), clock)
}

#[test]
fn it_encrypts_with_the_key_that_it_is_given_and_forgets_it_with_the_tape() {
    let dir = tempfile::tempdir().unwrap();
    let (mut drive, _) = drive("lto-9");
    let (key, other) = (DriveKey::new([1; 32]), DriveKey::new([2; 32]));
    assert!(drive.encrypts());
    drive.load(tape(dir.path(), 1e9, false)).unwrap();
    drive.write_block(b"in clear").unwrap();
    drive.set_key(Some(&key)).unwrap();
    drive.write_block(b"encrypted").unwrap();
    let mut block = vec![0; 100];
    let mut read = |drive: &mut VirtualDrive, at| {
        drive.locate(Spot { file: 0, block: at, object: None }).unwrap();
        drive.read_block(&mut block)
    };
    assert_eq!(read(&mut drive, 0).unwrap(), Read::Block(8), "what is in clear is read too");
    assert_eq!(read(&mut drive, 1).unwrap(), Read::Block(9));
    drive.set_key(Some(&other)).unwrap();
    assert!(matches!(read(&mut drive, 1), Err(TapeError::CannotDecrypt { .. })));
    drive.set_key(Some(&key)).unwrap();
    let tape = drive.eject().unwrap();
    drive.load(tape).unwrap();
    assert!(matches!(read(&mut drive, 1), Err(TapeError::CannotDecrypt { .. })));
    let (mut old, _) = self::drive("lto-3");
    assert!(!old.encrypts());
    let refused = old.set_key(Some(&key)).unwrap_err().to_string();
    assert!(refused.contains("drive 1 cannot encrypt"), "{refused}");
    old.set_key(None).unwrap();
}

#[test]
fn blocks_and_filemarks_come_back_from_their_places() {
    let dir = tempfile::tempdir().unwrap();
    let (mut drive, clock) = drive("lto-9");
    let mut block = vec![0; 1000];
    assert!(matches!(drive.read_block(&mut block), Err(TapeError::NoTape { .. })));
    drive.load(tape(dir.path(), 1e9, false)).unwrap();
    assert_eq!(clock.now(), 16.0);
    for byte in 1..=3 {
        drive.write_block(&vec![byte; 300]).unwrap();
        drive.write_filemark().unwrap();
    }
    let spot = |file, block| Spot { file, block, object: None };
    drive.locate(spot(1, 0)).unwrap();
    assert_eq!(drive.read_block(&mut block).unwrap(), Read::Block(300));
    assert_eq!(block[299], 2);
    assert_eq!(drive.read_block(&mut block).unwrap(), Read::Filemark);
    let short = drive.read_block(&mut block[..10]).unwrap_err();
    assert!(matches!(short, TapeError::TooLong { at: 4, length: 300, asked: 10, .. }));
    assert_eq!(drive.read_block(&mut block).unwrap(), Read::Filemark, "behind it");
    assert_eq!(drive.locate_end().unwrap(), Spot { object: Some(6), ..spot(3, 0) });
    assert_eq!(drive.read_block(&mut block).unwrap(), Read::EndOfData);
    for beyond in [spot(3, 1), spot(1, 2), spot(4, 0)] {
        assert!(matches!(drive.locate(beyond), Err(TapeError::BeyondEnd { .. })));
    }
    // By its own number it goes there, whatever the rest says.
    drive.locate(Spot { object: Some(2), ..spot(0, 1) }).unwrap();
    assert_eq!(drive.position().unwrap(), Some(2));
    assert_eq!(drive.read_block(&mut block).unwrap(), Read::Block(300));
    assert_eq!(block[299], 2);
    let beyond = drive.locate(Spot { object: Some(7), ..spot(1, 0) });
    assert!(matches!(beyond, Err(TapeError::BeyondEnd { .. })));
    drive.locate(spot(2, 1)).unwrap();
    assert_eq!(drive.position().unwrap(), Some(5));
    assert_eq!(drive.read_block(&mut block).unwrap(), Read::Filemark);
    let large = vec![0; (8 << 20) + 1];
    assert!(matches!(drive.write_block(&large), Err(TapeError::BlockSize { .. })));
    let label = drive.eject().unwrap().label;
    assert!(label.loads == 1 && label.passes > 0.0, "{label:?}");
}

#[test]
fn a_long_erase_takes_as_long_as_writing_the_tape() {
    for long in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (mut drive, clock) = drive("lto-9");
        drive.load(tape(dir.path(), 400e9, false)).unwrap();
        for byte in 1..=3 {
            drive.write_block(&[byte; 3000]).unwrap();
            drive.write_filemark().unwrap();
        }
        drive.sync().unwrap();
        let begun = clock.now();
        drive.erase(long).unwrap();
        let (took, native) = (clock.now() - begun, DriveModel::named("lto-9").unwrap().native());
        let pass = 400e9 / native;
        assert_eq!(long, took > pass, "{took} s of {pass} s");
        assert!(took < pass + 200.0, "{took} s");
        assert_eq!(drive.read_block(&mut [0; 4000]).unwrap(), Read::EndOfData);
        assert_eq!(drive.locate_end().unwrap(), Spot::BEGIN);
        let file = std::fs::read(dir.path().join("A00001L9.tape")).unwrap();
        assert_eq!(file.len(), 16, "nothing of it is in the file");
        drive.write_block(&[7; 10]).unwrap();
    }
    let dir = tempfile::tempdir().unwrap();
    let (mut drive, _) = drive("lto-9");
    drive.load(tape(dir.path(), 1e9, true)).unwrap();
    assert!(matches!(drive.erase(false), Err(TapeError::WriteProtected { .. })));
}

#[test]
fn the_end_of_the_tape_is_warned_of_and_then_comes() {
    let dir = tempfile::tempdir().unwrap();
    let (mut drive, _) = drive("lto-9");
    drive.load(tape(dir.path(), 100e6, false)).unwrap();
    let block = vec![7; 1 << 20];
    let mut blocks = 0;
    while !drive.write_block(&block).unwrap().early_warning {
        blocks += 1;
    }
    assert!((70..=90).contains(&blocks), "{blocks}");
    let error = loop {
        if let Err(e) = drive.write_block(&block) {
            break e;
        }
        blocks += 1;
    };
    assert!(matches!(error, TapeError::EndOfMedium { .. }), "{error}");
    assert!((93..=95).contains(&blocks), "{blocks}");
    assert!(drive.write_filemark().is_ok(), "a mark has room");
}

#[test]
fn what_is_planned_goes_wrong() {
    let dir = tempfile::tempdir().unwrap();
    let (mut drive, _) = drive("lto-9");
    drive.set_faults("write:2=error,write:40=power".parse().unwrap());
    drive.load(tape(dir.path(), 1e9, false)).unwrap();
    let block = vec![1; 1 << 20];
    drive.write_block(&block).unwrap();
    assert!(matches!(drive.write_block(&block), Err(TapeError::Medium { at: 1, .. })));
    drive.write_filemark().unwrap();
    drive.sync().unwrap();
    let failed = (0..50).find_map(|_| drive.write_block(&block).err()).unwrap();
    assert!(matches!(failed, TapeError::Offline { .. }), "{failed}");
    assert!(matches!(drive.eject(), Err(TapeError::Offline { .. })));
    // What was synchronised is there, what was in the buffer is not.
    let tape = Cartridge::open(&dir.path().join("A00001L9.tape")).unwrap();
    assert_eq!(tape.len(), 2);
}

#[test]
fn a_power_cut_takes_nothing_that_was_synchronised_or_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let (mut drive, clock) = drive("lto-9");
    // Where rounding errors are large.
    clock.wait_until(1e9);
    drive.load(tape(dir.path(), 1e9, false)).unwrap();
    let mut block = vec![1; 1 << 20];
    for _ in 0..4 {
        drive.write_block(&block).unwrap();
    }
    drive.write_filemark().unwrap();
    drive.sync().unwrap();
    let path = dir.path().join("A00001L9.tape");
    for plan in ["write:1=power", "read:2=power"] {
        drive.set_faults(plan.parse().unwrap());
        drive
            .locate(Spot {
                file: if plan.starts_with('r') { 0 } else { 1 },
                block: 0,
                object: None,
            })
            .unwrap();
        let failed = (0..3).any(|_| match plan.starts_with('r') {
            true => drive.read_block(&mut block).is_err(),
            false => drive.write_block(&block).is_err(),
        });
        assert!(failed, "{plan}");
        assert_eq!(Cartridge::open(&path).unwrap().len(), 5, "{plan}");
        drive.offline = false;
    }
}

#[test]
fn a_tape_with_its_tab_set_is_only_read() {
    let dir = tempfile::tempdir().unwrap();
    let (mut drive, _) = drive("lto-9");
    drive.load(tape(dir.path(), 1e9, true)).unwrap();
    assert!(matches!(drive.write_block(b"x"), Err(TapeError::WriteProtected { .. })));
    assert!(matches!(drive.write_filemark(), Err(TapeError::WriteProtected { .. })));
    assert_eq!(drive.read_block(&mut [0; 9]).unwrap(), Read::EndOfData);
}

#[test]
fn compressed_data_take_less_tape_and_less_time() {
    let dir = tempfile::tempdir().unwrap();
    let clock = Arc::new(Clock::virtual_time());
    let model = DriveModel::named("lto-9").unwrap();
    let mut drive = VirtualDrive::new("d", model, clock.clone(), 2.0);
    drive.load(tape(dir.path(), 40e6, false)).unwrap();
    let block = vec![1; 1 << 20];
    for _ in 0..10 {
        drive.write_block(&block).unwrap();
    }
    // What is written from now on is not compressed; what was is.
    drive.set_compression(false).unwrap();
    for _ in 0..10 {
        drive.write_block(&block).unwrap();
    }
    let counted = drive.counters();
    assert_eq!(counted.bytes_written.zip(counted.bytes_on_tape), Some((20 << 20, 15 << 20)));
    assert_eq!(drive.room_from(20), 40e6 - f64::from(15 << 20));
    drive.set_compression(true).unwrap();
    let blocks = 20 + std::iter::from_fn(|| drive.write_block(&block).ok()).count();
    assert_eq!(blocks, 66, "40 MB are 38.1 MiB: 15 and 23 for 46 blocks");
    let s = drive.statistics().unwrap();
    drive.write_filemark().unwrap();
    assert!(s.medium_bytes <= 40e6 && s.host_bytes == 66 << 20, "{s:?}");
    drop(drive);
    // The tape knows, not the drive.
    let tape = Cartridge::open(&dir.path().join("A00001L9.tape")).unwrap();
    assert_eq!(tape.medium_before(20), f64::from(15 << 20));
}
