//! The drive's logic against a drive in memory. Real targets are in `tests/`.

mod model;

use std::time::Duration;

use super::*;
use crate as scsi;
use crate::answers::encryption::DriveKey;
use crate::answers::position::Position;
use crate::transport::{Outcome, TransportError};
use model::{Model, Object, Positions, check};

fn drive(model: &Model) -> Drive {
    Drive::on(Box::new(model.clone())).unwrap()
}

/// A drive at the beginning of an empty tape.
fn ready(model: &Model) -> Drive {
    let mut drive = drive(model);
    drive.rewind().unwrap();
    model.sent();
    drive
}

/// Three files of two blocks.
fn recorded(model: &Model) -> Drive {
    let mut drive = ready(model);
    for file in 0..3u8 {
        for block in 0..2u8 {
            assert_eq!(drive.write_block(&[file * 16 + block; 1000]).unwrap(), Written::Done);
        }
        assert_eq!(drive.write_filemarks(1, true).unwrap(), Written::Done);
    }
    drive
}

#[test]
fn what_is_written_is_read() {
    let model = Model::new();
    let mut drive = recorded(&model);
    assert_eq!(drive.sync().unwrap(), Written::Done);
    drive.rewind().unwrap();
    let mut buffer = vec![0; 4096];
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(1000));
    assert_eq!(buffer[..1000], [0; 1000]);
    assert_eq!(drive.read_block(&mut buffer[..1000]).unwrap(), Read::Block(1000));
    assert_eq!(buffer[..1000], [1; 1000]);
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Filemark);
    assert_eq!(drive.position().unwrap().counted(), Some((1, 0)));
    assert_eq!(drive.read_block(&mut buffer[..999]).unwrap(), Read::TooLong(1000));
    drive.space_to_end().unwrap();
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::EndOfData);
}

#[test]
fn what_is_erased_is_gone_from_the_begin() {
    for long in [false, true] {
        let model = Model::new();
        let mut drive = recorded(&model);
        model.sent();
        drive.erase(long).unwrap();
        let erases = model.with(|state| state.sent.clone());
        let erases: Vec<_> = erases.iter().filter(|cdb| cdb[0] == 0x19).collect();
        assert_eq!(erases, [&[0x19, u8::from(long), 0, 0, 0, 0]]);
        assert_eq!(drive.read_block(&mut [0; 4096]).unwrap(), Read::EndOfData);
        drive.rewind().unwrap();
        assert_eq!(drive.write_block(&[1; 64]).unwrap(), Written::Done);
    }
    // Some do nothing and say that all is well.
    let model = Model::new();
    let mut drive = recorded(&model);
    let good = Ok(Outcome::default());
    model.with(|state| state.instead.push_back((0x19, good)));
    let text = drive.erase(false).unwrap_err().to_string();
    assert!(text.contains("recorded as before"), "{text}");
    // One that failed, or whose answer was lost, leaves nobody writing where the tape stands; it is not sent twice.
    let model = Model::new();
    let mut drive = recorded(&model);
    model.fail(0x19, 3, None, (0x51, 0));
    model.sent();
    assert!(drive.erase(true).is_err());
    assert_eq!(model.sent().iter().filter(|code| **code == 0x19).count(), 1);
    assert!(matches!(drive.write_block(&[1; 64]), Err(Error::PositionUnknown { .. })));
}

#[test]
fn rewinding_sets_variable_blocks() {
    let model = Model::new();
    drive(&model).rewind().unwrap();
    assert_eq!(model.with(|state| state.block_len), 0);
}

#[test]
fn nothing_is_written_where_nobody_knows_where() {
    let model = Model::new();
    model.with(|state| state.positions = Positions::Lies);
    let mut drive = drive(&model);
    let text = drive.write_block(&[1; 64]).unwrap_err().to_string();
    assert!(text.contains("position") && text.contains("unknown"), "{text}");
    assert!(!drive.position().unwrap().is_known());
    assert!(!model.sent().contains(&0x0a));
    drive.rewind().unwrap();
    assert_eq!(drive.write_block(&[1; 64]).unwrap(), Written::Done);
    // A drive that says where it stands needs no rewind, but it must be asked.
    let model = Model::new();
    let mut drive = self::drive(&model);
    assert!(matches!(drive.write_block(&[1; 64]), Err(Error::PositionUnknown { .. })));
    assert_eq!(drive.position().unwrap().object, Some(0));
    assert_eq!(drive.write_block(&[1; 64]).unwrap(), Written::Done);
}

#[test]
fn after_an_error_the_position_is_unknown_until_the_drive_says_it() {
    for positions in [Positions::Long, Positions::Short, Positions::Lies] {
        let model = Model::new();
        model.with(|state| state.positions = positions);
        let mut drive = recorded(&model);
        model.fail(0x0a, 0x03, None, (0x0c, 0));
        let error = drive.write_block(&[9; 64]).unwrap_err();
        assert_eq!(error.sense().map(|s| s.key), Some(3));
        let position = drive.position().unwrap();
        match positions {
            Positions::Long => assert_eq!((position.object, position.file), (Some(9), Some(3))),
            Positions::Short => assert_eq!((position.object, position.file), (Some(9), None)),
            Positions::Lies => assert!(!position.is_known()),
        }
        // Never a block number that nobody counted.
        assert_eq!(position.block, None);
    }
}

#[test]
fn a_deferred_error_is_no_early_warning() {
    let model = Model::new();
    let mut drive = ready(&model);
    let mut outcome = check(0x43, None, (0x0c, 0), 0);
    outcome.sense[0] = 0x71;
    model.with(|state| state.instead.push_back((0x0a, Ok(outcome))));
    let error = drive.write_block(&[9; 64]).unwrap_err();
    assert!(error.sense().unwrap().deferred);
}

#[test]
fn the_end_of_the_medium_comes_in_two_steps() {
    let model = Model::new();
    model.with(|state| (state.early_warning, state.capacity) = (3, 6));
    let mut drive = ready(&model);
    let mut written =
        |n| -> Vec<Written> { (0..n).map(|_| drive.write_block(&[1; 64]).unwrap()).collect() };
    assert_eq!(written(4), [Written::Done, Written::Done, Written::Done, Written::EarlyWarning]);
    assert_eq!(drive.write_filemarks(2, false).unwrap(), Written::EarlyWarning);
    assert_eq!(drive.position().unwrap().counted(), Some((2, 0)));
    assert_eq!(drive.write_block(&[1; 64]).unwrap(), Written::NoRoom);
    assert_eq!(model.with(|state| state.tape.len()), 6);
}

#[test]
fn blocks_that_do_not_fit_the_drive_are_not_sent() {
    let model = Model::new();
    let mut drive = ready(&model);
    // The transport carries less than the drive takes.
    assert_eq!(drive.block_limits().unwrap(), BlockLimits { min: 4, max: 4 << 20 });
    for len in [3, (4 << 20) + 1] {
        let text = drive.write_block(&vec![0; len]).unwrap_err().to_string();
        assert!(text.contains("4 to 4194304 bytes"), "{text}");
    }
    assert!(!model.sent().contains(&0x0a));
}

#[test]
fn locating_by_the_drives_numbers() {
    for locate in [0x92, 0x2b] {
        let model = Model::new();
        model.with(|state| state.locate = vec![locate]);
        let mut drive = recorded(&model);
        let end = drive.position().unwrap();
        assert_eq!((end.object, end.counted()), (Some(9), Some((3, 0))));
        let place =
            Position { object: Some(4), file: Some(1), block: Some(1), ..Position::UNKNOWN };
        drive.locate(&place).unwrap();
        let mut buffer = [0; 1000];
        assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(1000));
        assert_eq!(buffer[0], 0x11);
        assert_eq!(drive.position().unwrap().counted(), Some((1, 2)));
        let beyond = Position { object: Some(99), ..place };
        let text = drive.locate(&beyond).unwrap_err().to_string();
        assert!(text.contains("no object 99"), "{text}");
    }
}

#[test]
fn locating_without_locate_counts() {
    let model = Model::new();
    model.with(|state| (state.locate, state.positions) = (vec![], Positions::Lies));
    let mut drive = recorded(&model);
    let place = Position { object: None, file: Some(1), block: Some(1), ..Position::UNKNOWN };
    drive.locate(&place).unwrap();
    let mut buffer = [0; 1000];
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(1000));
    assert_eq!(buffer[0], 0x11);
    // What is ahead needs no rewind.
    model.sent();
    drive.locate(&Position { file: Some(2), block: Some(0), ..place }).unwrap();
    assert!(!model.sent().contains(&0x01));
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(1000));
    assert_eq!(buffer[0], 0x20);
    for (file, block, why) in [(1, 3, "file ends"), (7, 0, "data end"), (3, 1, "data end")] {
        let wanted =
            Position { object: None, file: Some(file), block: Some(block), ..Position::UNKNOWN };
        let text = drive.locate(&wanted).unwrap_err().to_string();
        assert!(text.contains(why), "{file} {block}: {text}");
    }
    let text =
        drive.locate(&Position { object: Some(4), ..Position::UNKNOWN }).unwrap_err().to_string();
    assert!(text.contains("no way to get to this place"), "{text}");
    // By blocks and filemarks: two, a mark, one.
    drive.locate(&Position { count: Some(4), ..Position::UNKNOWN }).unwrap();
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(1000));
    assert_eq!(buffer[0], 0x11);
    assert_eq!(drive.position().unwrap().count, Some(5));
    let beyond = Position { count: Some(99), ..Position::UNKNOWN };
    assert!(matches!(drive.locate(&beyond), Err(Error::NotThere { .. })));
    // Whoever did not get where it wanted does not write where it got.
    assert!(matches!(drive.write_block(&[1; 64]), Err(Error::PositionUnknown { .. })));
}

/// A drive that knows its files is not rewound to find one that lies behind it.
#[test]
fn places_behind_are_found_without_a_rewind() {
    let model = Model::new();
    let mut drive = recorded(&model);
    let place =
        |file, block| Position { file: Some(file), block: Some(block), ..Position::UNKNOWN };
    drive.position().unwrap();
    let all: Vec<(usize, Position)> = model.with(|state| {
        let (mut file, mut block) = (0, 0);
        let mut places = Vec::new();
        for (at, object) in state.tape.iter().enumerate() {
            places.push((at, place(file, block)));
            (file, block) = match object {
                Object::Filemark => (file + 1, 0),
                Object::Block(_) => (file, block + 1),
            };
        }
        places
    });
    for from in 0..all.len() {
        for (at, to) in &all {
            drive.locate(&all[from].1).unwrap();
            drive.space_to_end().unwrap();
            model.sent();
            drive.locate(to).unwrap();
            assert_eq!(model.with(|state| state.at), *at, "{to}");
            assert_eq!(model.sent().contains(&0x01), to.file == Some(0), "{to}");
            drive.locate(&all[from].1).unwrap();
            drive.locate(to).unwrap();
            assert_eq!(model.with(|state| state.at), *at, "{from} to {to}");
        }
    }
    assert!(matches!(drive.locate(&place(99, 0)), Err(Error::NotThere { .. })));
}

#[test]
fn a_drive_that_goes_elsewhere_is_caught() {
    let model = Model::new();
    let mut drive = recorded(&model);
    drive.position().unwrap();
    model.with(|state| {
        state.at = 2;
        state.instead.push_back((0x92, Ok(Outcome::default())));
    });
    let place = Position { object: Some(4), file: Some(1), block: Some(1), ..Position::UNKNOWN };
    let text = drive.locate(&place).unwrap_err().to_string();
    assert!(text.contains("went to object 2"), "{text}");
}

#[test]
fn a_reset_while_writing_ends_it() {
    let model = Model::new();
    model.with(|state| state.positions = Positions::Lies);
    let mut drive = recorded(&model);
    model.with(|state| state.block_len = 512);
    model.fail(0x0a, 0x06, None, (0x29, 0));
    let error = drive.write_block(&[7; 64]).unwrap_err();
    assert_eq!(error.sense().map(|s| s.code()), Some((0x29, 0)));
    assert!(matches!(drive.write_block(&[7; 64]), Err(Error::PositionUnknown { .. })));
    assert_eq!(model.with(|state| state.tape.len()), 9);
    // And the settings that it forgot are set again.
    drive.rewind().unwrap();
    assert_eq!(model.with(|state| state.block_len), 0);
}

/// The drive rewound, and says so. Whoever reads or writes on must not do so at the beginning.
#[test]
fn a_reset_that_something_else_noticed_stops_writing_and_reading() {
    for what in [0x4d, 0x1e, 0x1a] {
        let model = Model::new();
        let mut drive = recorded(&model);
        model.with(|state| state.at = 0);
        model.fail(what, 0x06, None, (0x29, 0));
        match what {
            0x4d => drop(drive.alerts().unwrap()),
            0x1e => drive.prevent_removal(true).unwrap(),
            _ => drop(drive.compression().unwrap()),
        }
        stopped(&model, &mut drive);
    }
}

fn stopped(model: &Model, drive: &mut Drive) {
    assert!(matches!(drive.write_block(&[7; 64]), Err(Error::PositionUnknown { .. })));
    assert!(matches!(drive.read_block(&mut [0; 64]), Err(Error::PositionUnknown { .. })));
    assert_eq!(model.with(|state| state.tape.len()), 9);
    let position = drive.position().unwrap();
    assert_eq!((position.object, position.counted()), (Some(0), Some((0, 0))));
    assert!(matches!(drive.write_block(&[7; 64]), Err(Error::PositionUnknown { .. })));
    drive.rewind().unwrap();
    assert_eq!(drive.read_block(&mut [0; 1000]).unwrap(), Read::Block(1000));
}

#[test]
fn another_medium_is_not_located_on() {
    let model = Model::new();
    let mut drive = recorded(&model);
    let end = drive.position().unwrap();
    model.fail(0x92, 0x06, None, (0x28, 0));
    let error = drive.locate(&end).unwrap_err();
    assert_eq!(error.sense().map(|s| s.code()), Some((0x28, 0)));
    assert!(matches!(drive.write_block(&[7; 64]), Err(Error::PositionUnknown { .. })));
}

#[test]
fn synchronising_is_no_end_of_data() {
    let model = Model::new();
    let mut drive = recorded(&model);
    drive.rewind().unwrap();
    assert_eq!(drive.sync().unwrap(), Written::Done);
    assert!(!drive.position().unwrap().end_of_data);
    assert_eq!(model.with(|state| state.tape.len()), 9);
}

#[test]
fn other_news_do_not_disturb() {
    let model = Model::new();
    let mut drive = ready(&model);
    model.fail(0x0a, 0x06, None, (0x2a, 1));
    assert_eq!(drive.write_block(&[7; 64]).unwrap(), Written::Done);
    assert_eq!(model.with(|state| state.tape.len()), 1);
}

#[test]
fn a_lost_connection_leaves_nothing_known() {
    let model = Model::new();
    model.with(|state| state.positions = Positions::Lies);
    let mut drive = ready(&model);
    model
        .with(|state| state.instead.push_back((0x0a, Err(TransportError::Lost("cut".to_owned())))));
    let error = drive.write_block(&[7; 64]).unwrap_err();
    assert!(error.is_lost() && error.to_string().contains("writing a block: cut"), "{error}");
    drive.reconnect(&Reconnects::default()).unwrap();
    assert!(matches!(drive.write_block(&[7; 64]), Err(Error::PositionUnknown { .. })));
    model.with(|state| state.serial = "SN2");
    let text = drive.reconnect(&Reconnects::default()).unwrap_err().to_string();
    assert!(text.contains("serial number SN2"), "{text}");
}

#[test]
fn data_that_did_not_come_are_read_again() {
    let model = Model::new();
    let mut drive = recorded(&model);
    drive.rewind().unwrap();
    // As tgt does: 1000 bytes of room 1500 are stated, and 500 come.
    model.with(|state| {
        state.at = 1;
        state.instead.push_back((0x08, Ok(check(0x20, Some(500), (0, 0), 1000))));
    });
    let mut buffer = [0xee; 1500];
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(1000));
    assert_eq!(buffer[..1000], [0; 1000]);
    assert_eq!(drive.position().unwrap().counted(), Some((0, 1)));
}

#[test]
fn lengths_that_cannot_be_are_errors() {
    let model = Model::new();
    let mut drive = recorded(&model);
    drive.rewind().unwrap();
    for information in [None, Some(0), Some(5000), Some(1000)] {
        model.fail(0x08, 0x20, information, (0, 0));
        let error = drive.read_block(&mut [0; 1000]).unwrap_err();
        assert!(matches!(error, Error::Answer { .. }), "{error}");
    }
}

#[test]
fn drive_encryption_is_never_off_by_accident() {
    let model = Model::new();
    let mut drive = ready(&model);
    drive.set_encryption_key(&DriveKey::new([0x42; 32])).unwrap();
    assert_eq!(model.with(|state| state.key.clone()), [0x42; 32]);
    assert!(drive.has_key());
    assert_eq!(drive.write_block(&[7; 64]).unwrap(), Written::Done);
    // A reset: the drive has no key, and says nothing about it.
    model.with(|state| state.encrypting = false);
    model.fail(0x00, 0x06, None, (0x29, 0));
    drive.is_loaded().unwrap();
    drive.rewind().unwrap();
    let text = drive.write_block(&[7; 64]).unwrap_err().to_string();
    assert!(text.contains("lost its encryption key"), "{text}");
    assert!(!drive.has_key());
    assert!(matches!(drive.read_block(&mut [0; 64]), Err(Error::KeyLost { .. })));
    drive.set_encryption_key(&DriveKey::new([0x42; 32])).unwrap();
    assert_eq!(drive.write_block(&[7; 64]).unwrap(), Written::Done);
    drive.clear_encryption_key().unwrap();
    assert!(!model.with(|state| state.encrypting));
    // One that takes the key and does not use it.
    model.with(|state| state.instead.push_back((0xb5, Ok(Outcome::default()))));
    let text = drive.set_encryption_key(&DriveKey::new([1; 32])).unwrap_err().to_string();
    assert!(text.contains("does not encrypt"), "{text}");
}

#[test]
fn compression_is_switched_and_checked() {
    let model = Model::new();
    let mut drive = ready(&model);
    drive.set_compression(false).unwrap();
    assert!(!model.with(|state| state.compression));
    assert!(!drive.compression().unwrap().on);
    model.with(|state| state.compression_sticks = true);
    assert!(matches!(drive.set_compression(true), Err(Error::Unsupported { .. })));
}

#[test]
fn alerts_and_counters() {
    let model = Model::new();
    let mut drive = ready(&model);
    let alerts = drive.alerts().unwrap();
    assert_eq!(alerts.iter().map(|a| a.number()).collect::<Vec<_>>(), [20]);
    let statistics = drive.statistics().unwrap();
    assert_eq!((statistics.bytes_written, statistics.compression_ratio), (Some(0x300), Some(1.5)));
    // A drive without them says nothing, and is not asked for pages that it does not list.
    for _ in 0..2 {
        model.fail(0x4d, 0x05, None, (0x20, 0));
    }
    assert!(drive.alerts().unwrap().is_empty());
    assert_eq!(drive.statistics().unwrap(), Default::default());
}

#[test]
fn waiting_for_a_medium() {
    let model = Model::new();
    let mut drive = drive(&model);
    model.fail(0x00, 0x02, None, (0x3a, 0));
    assert!(!drive.is_loaded().unwrap());
    model.fail(0x00, 0x02, None, (0x04, 1));
    drive.wait_ready(Duration::from_secs(5)).unwrap();
    model.fail(0x00, 0x02, None, (0x3a, 0));
    assert!(matches!(drive.wait_ready(Duration::ZERO), Err(Error::NoMedium { .. })));
    model.fail(0x00, 0x04, None, (0x44, 0));
    assert!(matches!(drive.wait_ready(Duration::from_secs(5)), Err(Error::Check { .. })));
}

#[test]
fn who_ends_waits_for_no_drive() {
    use crate::patience::tests::{OVER, asks_over};
    asks_over();
    let model = Model::new();
    let mut drive = ready(&model);
    OVER.set(true);
    (0..8).for_each(|_| model.fail(0x00, 0x02, None, (0x04, 1)));
    let begun = std::time::Instant::now();
    assert!(drive.wait_ready(Duration::from_secs(60)).is_err());
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    OVER.set(false);
    drive.wait_ready(Duration::from_secs(60)).unwrap();
}

#[test]
fn another_host_has_it() {
    let model = Model::new();
    let mut drive = ready(&model);
    let conflict = Outcome { status: crate::transport::RESERVATION_CONFLICT, ..Outcome::default() };
    model.with(|state| state.instead.push_back((0x0a, Ok(conflict))));
    let text = drive.write_block(&[1; 64]).unwrap_err().to_string();
    assert!(text.contains("reserved by another host"), "{text}");
    model.fail(0x16, 0x05, None, (0x20, 0));
    assert!(!drive.reserve().unwrap());
}

#[test]
fn spacing_back_leaves_only_what_is_certain() {
    let model = Model::new();
    model.with(|state| state.positions = Positions::Lies);
    let mut drive = recorded(&model);
    assert!(drive.space_filemarks(-1).unwrap());
    assert!(!drive.position().unwrap().is_known());
    drive.rewind().unwrap();
    assert!(!drive.space_blocks(5).unwrap());
    assert_eq!(drive.position().unwrap().counted(), Some((1, 0)));
    assert!(!drive.space_blocks(-1).unwrap());
    assert_eq!(model.with(|state| state.at), 2);
    assert!(!drive.space_filemarks(9).unwrap());
    assert!(drive.position().unwrap().end_of_data);
    assert_eq!(model.with(|state| state.tape[2].clone()), Object::Filemark);
}
