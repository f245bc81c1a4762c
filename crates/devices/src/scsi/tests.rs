//! The adapter against a drive in memory that does what the standard says, with all that no emulation at hand has:
//! LOCATE(16), the long form of READ POSITION, tape alerts, counters.

#[allow(dead_code, reason = "other tests use the rest of it")]
#[path = "../../../scsi/src/drive/tests/model.rs"]
mod model;

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

use capstan_medium::tape::{Counters, Spot, TapeError};
use capstan_scsi as scsi;
use capstan_scsi::transport::TransportError;
use capstan_tape::{DriveKey, Read, TapeDrive, Written};
use model::{Model, Object, Positions};
use parking_lot::Mutex;

use super::drive::{Expect, ScsiDrive};
use super::{Initiator, Reconnects};

const MARK: Object = Object::Filemark;

fn block(n: u8) -> Object {
    Object::Block(vec![n; 1000])
}

fn spot(file: u64, block: u64, object: u64) -> Spot {
    Spot { file, block, object: Some(object) }
}

/// A drive with a serial number of its own: its lock is nobody else's.
fn model(serial: &'static str) -> Model {
    let model = Model::new();
    model.with(|state| state.serial = serial);
    model
}

fn open(model: &Model) -> ScsiDrive {
    open_at(&Arc::default(), model)
}

fn open_at(initiator: &Arc<Initiator>, model: &Model) -> ScsiDrive {
    let drive = scsi::Drive::on(Box::new(model.clone())).unwrap();
    let opened = ScsiDrive::on(initiator, drive, "model", "drive 1", Expect::Tape("A00001L9"));
    let serial = model.with(|state| state.serial);
    let name = format!("capstan-drive-{serial}.lock");
    let _ = std::fs::remove_file(std::path::Path::new("/run/lock").join(&name));
    let _ = std::fs::remove_file(std::env::temp_dir().join(name));
    opened.unwrap()
}

fn read(drive: &mut ScsiDrive) -> u8 {
    let mut buffer = vec![0; 1000];
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(1000));
    buffer[0]
}

#[test]
fn places_and_the_end_are_found_by_whatever_the_drive_can() {
    for (serial, positions, locate) in [
        ("T-LONG", Positions::Long, vec![0x92]),
        ("T-SHORT", Positions::Short, vec![0x2b]),
        ("T-LONG-ONLY", Positions::Long, vec![]),
        ("T-BLIND", Positions::Lies, vec![]),
    ] {
        let model = model(serial);
        let says = positions != Positions::Lies;
        model.with(|state| {
            (state.positions, state.locate) = (positions, locate);
            state.tape = vec![block(1), MARK, MARK, block(2), block(3), MARK, block(4), block(5)];
        });
        let mut drive = open(&model);
        let end = drive.locate_end().unwrap();
        assert_eq!((end.file, end.block), (3, 2), "{positions:?}");
        assert_eq!(end.object, says.then_some(8), "{positions:?}");
        assert_eq!(model.with(|state| state.at), 8);
        for (to, n) in
            [(spot(2, 1, 4), 3), (spot(3, 0, 6), 4), (spot(0, 0, 0), 1), (spot(2, 0, 3), 2)]
        {
            drive.locate(to).unwrap();
            assert_eq!(read(&mut drive), n, "{positions:?}");
            drive.locate_end().unwrap();
            drive.locate(Spot { object: None, ..to }).unwrap();
            assert_eq!(read(&mut drive), n, "{positions:?}");
        }
        let beyond = drive.locate(Spot { object: None, ..spot(5, 0, 0) }).unwrap_err();
        assert!(matches!(beyond, TapeError::BeyondEnd { .. }), "{beyond}");
        // To go on there is allowed.
        drive.locate_end().unwrap();
        assert_eq!(drive.write_block(&[6; 1000]).unwrap(), Written::default());
        drive.write_filemark().unwrap();
        assert_eq!(drive.locate_end().unwrap().file, 4);
        let tape = model.with(|state| state.tape.clone());
        assert_eq!(tape[6..], [block(4), block(5), block(6), MARK]);
    }
}

#[test]
fn a_hint_that_is_wrong_is_found_out() {
    let model = model("T-HINT");
    model.with(|state| state.tape = vec![block(1), MARK, block(2), MARK, block(3)]);
    let mut drive = open(&model);
    // Another file's number, and one beyond the end.
    for object in [0, 4, 99] {
        drive.locate(spot(1, 0, object)).unwrap();
        assert_eq!(read(&mut drive), 2, "{object}");
    }
}

#[test]
fn the_end_of_the_tape_comes_in_two_steps() {
    let model = model("T-FULL");
    model.with(|state| (state.early_warning, state.capacity) = (2, 4));
    let mut drive = open(&model);
    let mut warned = Vec::new();
    let full = loop {
        match drive.write_block(&[1; 1000]) {
            Ok(written) => warned.push(written.early_warning),
            Err(e) => break e,
        }
    };
    assert_eq!(warned, [false, false, true, true]);
    assert!(matches!(&full, TapeError::EndOfMedium { tape } if tape == "A00001L9"), "{full}");
    let end = drive.locate_end().unwrap();
    assert_eq!((end.file, end.block, end.object), (0, 4, Some(4)));
}

#[test]
fn what_the_drive_raises_and_counts_is_told() {
    let model = model("T-ALERTS");
    let mut drive = open(&model);
    let alerts = drive.alerts();
    assert_eq!(alerts.iter().map(|a| a.wants_cleaning).collect::<Vec<_>>(), [true]);
    assert!(alerts[0].text.contains("must be cleaned now (tape alert 20); load"), "{alerts:?}");
    assert!(drive.alerts().is_empty(), "each comes once");
    // Nothing was counted since it was opened; the ratio is that of the tape.
    let counted = drive.counters();
    assert_eq!((counted.bytes_written, counted.bytes_on_tape), (Some(0), Some(0)));
    assert_ne!(counted, Counters::default());
    drive.set_compression(false).unwrap();
    assert!(!model.with(|state| state.compression));
    drive.set_compression(true).unwrap();
    assert!(model.with(|state| state.compression));
}

#[test]
fn blocks_are_read_with_room_for_any_but_not_more_is_asked_for_than_they_have() {
    let model = model("T-LONG-BLOCKS");
    let long = |n: u8| Object::Block(vec![n; 3 << 20]);
    model.with(|state| state.tape = vec![block(1), long(2), long(3), block(4)]);
    let mut drive = open(&model);
    model.with(|state| state.sent.clear());
    let mut buffer = vec![0; 4 << 20];
    for (n, length) in [(1, 1000), (2, 3 << 20), (3, 3 << 20), (4, 1000)] {
        assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(length));
        assert!(buffer[..length].iter().all(|byte| *byte == n));
    }
    let asked = |cdb: &Vec<u8>| u32::from_be_bytes([0, cdb[2], cdb[3], cdb[4]]);
    let reads = model.with(|state| state.sent.clone()).into_iter().filter(|cdb| cdb[0] == 0x08);
    let asked: Vec<u32> = reads.map(|cdb| asked(&cdb) >> 20).collect();
    assert_eq!(asked, [1, 1, 3, 3, 3], "MiB");
    drive.locate(Spot { object: None, ..spot(0, 1, 1) }).unwrap();
    let short = drive.read_block(&mut buffer[..2 << 20]).unwrap_err();
    assert!(matches!(short, TapeError::TooLong { at: 1, length: 3145728, .. }), "{short}");
}

#[test]
fn errors_say_whose_fault_they_are() {
    let model = model("T-FAULTS");
    let mut drive = open(&model);
    drive.write_block(&[1; 1000]).unwrap();
    model.fail(0x0a, 0x03, None, (0x0c, 0x00));
    let tape = drive.write_block(&[2; 1000]).unwrap_err();
    assert!(tape.blames_tape() && tape.to_string().contains("tape A00001L9"), "{tape}");
    // Nothing is written where nobody knows where; who goes to the end knows.
    assert!(drive.write_block(&[2; 1000]).is_err());
    assert_eq!(drive.locate_end().unwrap(), spot(0, 1, 1));
    model.fail(0x0a, 0x04, None, (0x44, 0x00));
    let broken = drive.write_block(&[2; 1000]).unwrap_err();
    assert!(broken.blames_drive() && broken.is_failure(), "{broken}");
    drive.locate(Spot::BEGIN).unwrap();
    assert_eq!(read(&mut drive), 1);
}

#[test]
fn a_key_goes_to_the_drive_once_and_is_taken_away() {
    let model = model("T-KEY");
    let mut drive = open(&model);
    assert!(drive.encrypts());
    let (key, other) = (DriveKey::new([0x42; 32]), DriveKey::new([0x17; 32]));
    let in_drive = || model.with(|state| (state.encrypting, state.key.clone()));
    drive.set_key(None).unwrap();
    assert_eq!(in_drive(), (false, Vec::new()));
    drive.set_key(Some(&key)).unwrap();
    assert_eq!(in_drive(), (true, vec![0x42; 32]));
    model.sent();
    drive.set_key(Some(&key)).unwrap();
    assert!(model.sent().is_empty(), "it has the key");
    drive.write_block(&[1; 1000]).unwrap();
    drive.set_key(Some(&other)).unwrap();
    assert_eq!(in_drive(), (true, vec![0x17; 32]));
    // A reset: nothing is written, until the key is given again.
    model.with(|state| state.encrypting = false);
    model.fail(0x0a, 0x06, None, (0x29, 0));
    assert!(drive.write_block(&[1; 1000]).is_err());
    drive.locate_end().unwrap();
    let lost = drive.write_block(&[1; 1000]).unwrap_err().to_string();
    assert!(lost.contains("lost its encryption key"), "{lost}");
    drive.set_key(Some(&other)).unwrap();
    drive.write_block(&[1; 1000]).unwrap();
    assert_eq!(in_drive(), (true, vec![0x17; 32]));
    drive.set_key(None).unwrap();
    assert_eq!(in_drive(), (false, Vec::new()));
}

#[test]
fn a_key_that_somebody_left_is_not_used() {
    let model = model("T-LEFT-KEY");
    model.with(|state| (state.encrypting, state.key) = (true, vec![9; 32]));
    let mut drive = open(&model);
    drive.write_block(&[1; 1000]).unwrap();
    assert_eq!(model.with(|state| (state.encrypting, state.key.clone())), (false, Vec::new()));
}

/// Has the drive's next LOCATE left at work for so long, as by who was told to end.
fn leave_at_work(model: &Model, time: Duration) {
    let left = TransportError::Lost("it was left to it".to_owned());
    model.with(|state| {
        state.instead.push_back((0x92, Err(left)));
        state.at_work = Some(Instant::now() + time);
    });
}

/// Tells the drives what they were not told; what is said to somebody meanwhile.
fn settle(initiator: &Initiator) -> Vec<String> {
    let said = RefCell::new(Vec::new());
    initiator.debts.settle(&|drive| initiator.reconnect(drive), Duration::MAX, &|words| {
        said.borrow_mut().push(words.to_owned())
    });
    said.into_inner()
}

#[test]
fn a_drive_that_is_left_at_work_forgets_its_key_before_the_process_ends() {
    let initiator = Arc::default();
    let model = model("T-LEFT-AT-WORK");
    model.with(|state| state.tape = vec![block(1), block(2)]);
    let mut drive = open_at(&initiator, &model);
    drive.set_key(Some(&DriveKey::new([0x42; 32]))).unwrap();
    leave_at_work(&model, Duration::from_millis(2500));
    assert!(drive.locate(spot(0, 1, 1)).is_err());
    drop(drive);
    assert!(model.with(|state| state.encrypting), "it hears nothing now");
    let again = scsi::Drive::on(Box::new(model.clone())).unwrap();
    let Err(busy) = ScsiDrive::on(&initiator, again, "model", "drive 1", Expect::Anything) else {
        panic!("it was opened while it was at work");
    };
    assert!(busy.to_string().contains("at which it still is"), "{busy}");
    model.sent();
    let said = settle(&initiator);
    assert_eq!(model.with(|state| (state.encrypting, state.key.clone())), (false, Vec::new()));
    // Its tape may be taken out, and it is reserved no more.
    let sent = model.sent();
    assert!(sent.contains(&0x1e) && sent.contains(&0x17), "{sent:x?}");
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("drive 1 has the encryption key of tape A00001L9"), "{said:?}");
    open_at(&initiator, &model);
}

#[test]
fn a_drive_without_a_key_that_is_left_at_work_is_not_waited_for() {
    let initiator = Arc::default();
    let model = model("T-LEFT-IN-CLEAR");
    model.with(|state| state.tape = vec![block(1), block(2)]);
    for (time, is_told) in [(Duration::from_secs(60), false), (Duration::ZERO, true)] {
        let mut drive = open_at(&initiator, &model);
        leave_at_work(&model, time);
        assert!(drive.locate(spot(0, 1, 1)).is_err());
        drop(drive);
        model.sent();
        let begun = Instant::now();
        assert_eq!(settle(&initiator), [""; 0]);
        assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
        assert_eq!(model.sent().contains(&0x17), is_told, "{time:?}");
    }
}

#[test]
fn a_lost_drive_with_a_key_forgets_it_by_who_opens_it_next() {
    let initiator = Arc::default();
    let model = model("T-LOST-KEY");
    model.with(|state| state.tape = vec![block(1), block(2)]);
    let lost = || Err(TransportError::Lost("the link is down".to_owned()));
    let mut drive = open_at(&initiator, &model);
    drive.set_key(Some(&DriveKey::new([0x42; 32]))).unwrap();
    model.with(|state| state.instead.push_back((0x92, lost())));
    assert!(drive.locate(spot(0, 1, 1)).is_err());
    drop(drive);
    // The same process, which has its lock already.
    drop(open_at(&initiator, &model));
    assert!(!model.with(|state| state.encrypting));
    model.sent();
    assert_eq!(settle(&initiator), [""; 0]);
    assert!(model.sent().is_empty(), "nothing is left to be told");
}

#[test]
fn a_host_that_is_dropped_waits_for_no_drive_and_says_which_may_have_a_key() {
    for (serial, time, is_told) in
        [("T-DROPPED", Duration::ZERO, true), ("T-DROPPED-AT-WORK", Duration::from_secs(60), false)]
    {
        let (initiator, said) = (Arc::<Initiator>::default(), Arc::new(Mutex::new(Vec::new())));
        let hears = said.clone();
        let tell = Box::new(move |text: &str| hears.lock().push(text.to_owned()));
        let most = Duration::from_secs(120);
        assert!(initiator.reconnects.set(Reconnects { most, tell }).is_ok());
        let model = model(serial);
        model.with(|state| state.tape = vec![block(1), block(2)]);
        let mut drive = open_at(&initiator, &model);
        drive.set_key(Some(&DriveKey::new([0x42; 32]))).unwrap();
        leave_at_work(&model, time);
        assert!(drive.locate(spot(0, 1, 1)).is_err());
        drop(drive);
        let begun = Instant::now();
        drop(initiator);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
        assert_ne!(model.with(|state| state.encrypting), is_told);
        let said = said.lock();
        assert_eq!(said.len(), usize::from(!is_told), "{said:?}");
        assert!(said.iter().all(|text| text.contains("may still have the encryption key")));
    }
}

#[test]
fn a_key_of_which_giving_it_failed_is_taken_away_too() {
    let initiator = Arc::default();
    let model = model("T-HALF-KEY");
    let mut drive = open_at(&initiator, &model);
    // It takes the key, and does not answer whether it encrypts.
    model.with(|state| state.deaf_after = Some(0xb5));
    assert!(drive.set_key(Some(&DriveKey::new([0x42; 32]))).is_err());
    assert!(model.with(|state| state.encrypting));
    drop(drive);
    settle(&initiator);
    assert!(!model.with(|state| state.encrypting));
}

#[test]
fn a_drive_that_still_moves_its_tape_for_who_was_killed_is_waited_for() {
    let model = model("T-STILL-MOVES");
    model.with(|state| state.tape = vec![block(1)]);
    model.with(|state| (state.encrypting, state.key) = (true, vec![9; 32]));
    // News, as ever, when it is opened; then the limits of its blocks, and whether it is ready.
    for opcode in [0x00, 0x05, 0x00, 0x00] {
        model.fail(opcode, 0x02, None, (0x04, 0x07));
    }
    let mut drive = open(&model);
    assert_eq!(read(&mut drive), 1);
    assert!(!model.with(|state| state.encrypting));
}

#[test]
fn a_drive_without_encryption_says_so_and_is_not_asked_for_it() {
    let model = model("T-NO-AES");
    let unsupported = || model::check(0x05, None, (0x20, 0), 0);
    model.with(|state| state.instead.push_back((0xa2, Ok(unsupported()))));
    let mut drive = open(&model);
    assert!(!drive.encrypts());
    let refused = drive.set_key(Some(&DriveKey::new([1; 32]))).unwrap_err();
    assert!(matches!(refused, TapeError::CannotEncrypt { .. }), "{refused}");
    drive.set_key(None).unwrap();
    drive.write_block(&[1; 1000]).unwrap();
    assert!(!model.sent().contains(&0xb5));
}

#[test]
fn what_does_not_decrypt_is_told_from_what_is_damaged() {
    let model = model("T-CLOSED");
    model.with(|state| state.tape = vec![block(1), block(2)]);
    let mut drive = open(&model);
    model.fail(0x08, 0x07, None, (0x74, 0x02));
    let closed = drive.read_block(&mut [0; 1000]).unwrap_err();
    assert!(matches!(closed, TapeError::CannotDecrypt { .. }), "{closed}");
    assert!(closed.to_string().contains("tape A00001L9 is encrypted"), "{closed}");
}

#[test]
fn a_drive_that_does_not_come_back_is_waited_for_once_until_it_is_back() {
    let (initiator, told) = (Arc::<Initiator>::default(), Arc::new(Mutex::new(0)));
    let counts = told.clone();
    let (most, tell) = (Duration::from_millis(600), Box::new(move |_: &str| *counts.lock() += 1));
    assert!(initiator.reconnects.set(Reconnects { most, tell }).is_ok());
    let model = model("T-GONE");
    model.with(|state| state.tape = vec![block(1), block(2)]);
    let mut drive = open_at(&initiator, &model);
    let lost = || Err(TransportError::Lost("the link is down".to_owned()));
    // Each time that it is lost is a new one.
    for times in [1, 2] {
        model.with(|state| {
            state.instead.push_back((0x92, lost()));
            state.unreachable = true;
        });
        assert!(drive.locate(spot(0, 1, 1)).is_err());
        let mut takes = || {
            let begun = Instant::now();
            assert!(drive.locate(spot(0, 1, 1)).err().unwrap().is_unreachable());
            begun.elapsed()
        };
        assert!(takes() >= most);
        let again: Vec<_> = (0..20).map(|_| takes()).collect();
        assert!(again.iter().sum::<Duration>() < most, "{again:?}");
        assert_eq!(*told.lock(), times);
        model.with(|state| state.unreachable = false);
        // After a look that took long, nobody looks for a while.
        let by = Instant::now() + Duration::from_secs(60);
        while let Err(e) = drive.locate(spot(0, 1, 1)) {
            assert!(e.is_unreachable() && Instant::now() < by, "{e}");
        }
        assert_eq!(read(&mut drive), 2);
    }
}
