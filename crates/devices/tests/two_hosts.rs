//! Two device hosts in one process, at one virtual library: neither sees what the other has.

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use capstan_address::{Address, LibraryName};
use capstan_devices::host::LocalDevices;
use capstan_format::id::{MediumId, SegmentNumber};
use capstan_format::keys::Key32;
use capstan_format::record::{FEATURE_DRIVE_KEY, FORMAT_VERSION, MediumHeader, Protection};
use capstan_medium::host::ledger::Event;
use capstan_medium::host::operator::{Operator, Refused};
use capstan_medium::host::queue::Patience;
use capstan_medium::host::{DeviceHost, Media, Tapes};
use capstan_medium::tape::{ANOTHER_HOST, Place};
use capstan_medium::{Device, DeviceError};
use capstan_tape::vtl::library::{Design, Library};
use parking_lot::Mutex;

const BLOCK: usize = 64 << 10;

/// A library of two drives and two tapes.
fn library(dir: &Path) -> LibraryName {
    let design = Design {
        model: "lto-9".into(),
        drives: 2,
        slots: 4,
        mail_slots: 0,
        alone: false,
        capacity: Some(100_000_000),
        scale: 1e6,
        ratio: 1.0,
    };
    let path = dir.join("vtl");
    Library::create(&path, &design, 2).unwrap();
    LibraryName::Virtual(path)
}

fn tape(library: &LibraryName, number: u32) -> Address {
    format!("{library}?tape=V{number:05}L9").parse().unwrap()
}

fn header(id: u8) -> MediumHeader {
    MediumHeader {
        format: FORMAT_VERSION,
        incompatible: 0,
        compatible: 0,
        medium: MediumId([id; 16]),
        label: format!("m{id}"),
        block_size: BLOCK as u32,
        created_us: 0,
        protection: Protection::None,
        cell: None,
        array: None,
        drive_key: None,
    }
}

fn writer(host: &LocalDevices, tape: &Address, header: &MediumHeader) -> Box<dyn Device> {
    let opened = host.writable(tape, &|| Ok(header.clone()), None, &()).unwrap();
    opened.judged(|_, _| Ok::<(), DeviceError>(())).unwrap().into_device().unwrap()
}

fn write(device: &mut dyn Device, fill: u8) {
    device.begin_segment().unwrap();
    (0..4).for_each(|_| device.write(&[fill; BLOCK]).unwrap());
    device.begin_catalog().unwrap();
    device.write(&[fill; BLOCK]).unwrap();
    device.end_segment().unwrap();
    device.commit().unwrap();
}

fn first_byte(host: &LocalDevices, tape: &Address) -> Result<u8, DeviceError> {
    let file = host.medium(tape)?.open_segment(SegmentNumber(1))?;
    let mut byte = [0];
    file.read_at(&mut byte, 0).unwrap();
    Ok(byte[0])
}

fn is_busy<T>(result: Result<T, DeviceError>) -> bool {
    result.err().is_some_and(|e| e.is_busy())
}

#[test]
fn each_has_its_own_tapes_and_drives() {
    let dir = tempfile::tempdir().unwrap();
    let library = library(dir.path());
    let (one, other) = (LocalDevices::default(), LocalDevices::default());
    let tapes = [1, 2].map(|n| tape(&library, n));
    let mut devices =
        [(&one, &tapes[0], 1), (&other, &tapes[1], 2)].map(|(h, t, n)| writer(h, t, &header(n)));
    (1..).zip(&mut devices).for_each(|(n, device)| write(&mut **device, n));
    drop(devices);
    // Each reads its own, in the drive that it has, and meets the other's as one of another process.
    assert_eq!(first_byte(&one, &tapes[0]).unwrap(), 1);
    assert_eq!(first_byte(&other, &tapes[1]).unwrap(), 2);
    assert!(is_busy(other.medium(&tapes[0])) && is_busy(one.medium(&tapes[1])));
    // Nobody takes the other's drive for his own.
    let busy = other.medium(&tapes[0]).err().unwrap().to_string();
    assert!(busy.contains(ANOTHER_HOST), "{busy}");
    // What the drives did is told by who has them.
    let sessions = other.take_sessions();
    assert_eq!(sessions.len(), 1, "{sessions:?}");
    assert_eq!(sessions[0].tape.as_deref(), Some("V00002L9"));
    // Who gives his drives back gives back no others.
    other.release_idle();
    assert!(is_busy(other.medium(&tapes[0])));
    one.done_reading(&tapes[1]);
    assert_eq!(first_byte(&other, &tapes[1]).unwrap(), 2);
    one.release_idle();
    assert_eq!(first_byte(&other, &tapes[0]).unwrap(), 1);
}

#[test]
fn the_drives_of_one_that_ends_are_free_but_for_what_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let library = library(dir.path());
    let (one, other) = (LocalDevices::default(), LocalDevices::default());
    let tapes = [1, 2].map(|n| tape(&library, n));
    for (tape, n) in tapes.iter().zip(1..) {
        write(&mut *writer(&one, tape, &header(n)), n);
    }
    let open = one.medium(&tapes[0]).unwrap();
    let clone = one.clone();
    drop(one);
    assert!(is_busy(other.medium(&tapes[1])), "a clone is the same host");
    drop(clone);
    assert_eq!(first_byte(&other, &tapes[1]).unwrap(), 2);
    assert!(is_busy(other.medium(&tapes[0])), "it is read still");
    assert_eq!(open.segments().unwrap().len(), 1);
    drop(open);
    assert_eq!(first_byte(&other, &tapes[0]).unwrap(), 1);
}

#[test]
fn what_one_holds_idle_makes_no_room_for_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let library = library(dir.path());
    let (one, other) = (LocalDevices::default(), LocalDevices::default());
    for n in [1, 2] {
        write(&mut *writer(&one, &tape(&library, n), &header(n as u8)), n as u8);
    }
    let LibraryName::Virtual(path) = &library else { panic!() };
    let third = capstan_tape::vtl::library::NewTape {
        barcode: Some("V00003L9".to_owned()),
        ..Default::default()
    };
    Library::open(path).unwrap().add_tape(&third).unwrap();
    let third = tape(&library, 3);
    assert!(is_busy(other.is_blank(&third)));
    // To its own host it gives one.
    assert!(one.is_blank(&third).unwrap());
}

#[test]
fn the_keys_of_one_open_nothing_for_the_other() {
    let dir = tempfile::tempdir().unwrap();
    let library = library(dir.path());
    let (one, other) = (LocalDevices::default(), LocalDevices::default());
    let tape = tape(&library, 1);
    let medium = MediumId([7; 16]);
    let key = Some(serde_json::json!({"id": medium.to_string()}));
    let encrypted = MediumHeader { incompatible: FEATURE_DRIVE_KEY, drive_key: key, ..header(7) };
    one.open_key(medium, Key32::new([7; 32]));
    assert!(one.has_key(medium) && !other.has_key(medium));
    write(&mut *writer(&one, &tape, &encrypted), 9);
    assert_eq!(first_byte(&one, &tape).unwrap(), 9);
    one.release_idle();
    let there = other.medium(&tape).unwrap();
    let closed = there.open_segment(SegmentNumber(1)).err().unwrap();
    let closed = closed.of_tape().unwrap().to_string();
    assert!(closed.contains("its key is not open"), "{closed}");
}

#[test]
fn the_operator_of_one_is_not_asked_for_the_other_and_each_counts_its_own_waits() {
    let (one, other) = (LocalDevices::default(), LocalDevices::default());
    let told = Arc::new(Mutex::new(Vec::new()));
    let hears = told.clone();
    one.operator().set(Operator {
        patience: Some(Duration::from_secs(60)),
        tell: Box::new(move |text| hears.lock().push(text.to_owned())),
        board: Box::new(|_, _| ()),
    });
    assert!(one.operator().is_there() && !other.operator().is_there());
    let mut looked = 0;
    let mut attempt = || match looked {
        0 => {
            looked += 1;
            Err(Refused::Empty("empty"))
        }
        _ => Ok(()),
    };
    assert_eq!(one.operator().insist("drive", "tape 'a'", &mut attempt), Ok(()));
    let mut empty = || Err::<(), _>(Refused::Empty("empty"));
    assert_eq!(other.operator().insist("drive", "tape 'b'", &mut empty), Err("empty"));
    assert_eq!(*told.lock(), ["drive: put in tape 'a'"]);
    assert!(one.waits().waited() > Duration::ZERO);
    assert_eq!(other.waits().waited(), Duration::ZERO);
    assert!(one.operator().take_waited() > Duration::ZERO);
    assert_eq!(other.operator().take_waited(), Duration::ZERO);
}

#[test]
fn one_waits_for_what_others_have_where_the_other_does_not() {
    let (one, other) = (LocalDevices::default(), LocalDevices::default());
    let seen = Arc::new(Mutex::new(Vec::new()));
    let board = seen.clone();
    one.queue().set(Patience {
        most: None,
        name: Box::new(|text| format!("{text}, who is known")),
        tell: Box::new(|_| ()),
        board: Box::new(move |_, why| board.lock().push(why.map(|(why, _)| why.to_owned()))),
    });
    assert!(
        one.queue()
            .wait()
            .again(&capstan_medium::tape::TapeError::OthersAway("others have it".into()))
    );
    assert!(
        !other
            .queue()
            .wait()
            .again(&capstan_medium::tape::TapeError::OthersAway("others have it".into()))
    );
    let named = "others have it, who is known";
    assert_eq!(*seen.lock(), [Some(named.to_owned()), None]);
    assert_eq!(
        (one.queue().name("x"), other.queue().name("x")),
        ("x, who is known".into(), "x".into())
    );
}

#[test]
fn waits_of_two_hosts_are_not_one_on_record() {
    let numbers = [(); 2].map(|()| {
        let (host, seen) = (LocalDevices::default(), Arc::new(Mutex::new(Vec::new())));
        let board = seen.clone();
        host.queue().set(Patience {
            most: None,
            name: Box::new(str::to_owned),
            tell: Box::new(|_| ()),
            board: Box::new(move |number, _| board.lock().push(number)),
        });
        (0..2).for_each(|_| host.queue().notice().put_up("a drive"));
        seen
    });
    let [one, other] = numbers.each_ref().map(|seen| seen.lock());
    assert!(!one.is_empty() && one.iter().all(|n| !other.contains(n)), "{one:?} {other:?}");
}

#[test]
fn loads_and_planned_faults_are_told_where_they_happen() {
    let dir = tempfile::tempdir().unwrap();
    let library = library(dir.path());
    let (one, other) = (LocalDevices::default(), LocalDevices::default());
    let heard = [Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new()))];
    for (host, heard) in [&one, &other].into_iter().zip(&heard) {
        let heard = heard.clone();
        host.keep_with(Box::new(move |event| {
            if let Event::Loaded { barcode, .. } = event {
                heard.lock().push(barcode);
            }
        }));
    }
    write(&mut *writer(&one, &tape(&library, 1), &header(1)), 1);
    write(&mut *writer(&other, &tape(&library, 2), &header(2)), 2);
    assert_eq!(*heard[0].lock(), ["V00001L9"]);
    assert_eq!(*heard[1].lock(), ["V00002L9"]);
    let LibraryName::Virtual(path) = &library else { panic!() };
    Library::open(path).unwrap().plan_faults(None, "move:1=jam").unwrap();
    one.release_idle();
    let moved = one.library(&library).unwrap().move_tape(Place::Drive(1), Place::Slot(1));
    assert!(moved.is_err());
    assert!(other.take_struck().is_empty());
    assert_eq!(one.take_struck().len(), 1);
    assert!(one.take_struck().is_empty(), "it is taken once");
}
