//! The adapters on nodes below `/dev`, of a kernel as a process (see support/uml.rs).

#[path = "../../scsi/tests/support/mod.rs"]
mod support;

use std::process::{Child, Command};
use std::time::Duration;

use capstan_address::LibraryName;
use capstan_devices::host::LocalDevices;
use capstan_medium::host::Tapes;
use capstan_medium::tape::{ANOTHER_HOST, Place, Spot, TapeError};
use capstan_tape::{Changer, Read};
use support::tgt::Library;
use support::{block, uml};

#[test]
fn a_library_of_this_machine() {
    uml::run_inside("");
}

#[test]
#[ignore = "is called inside user-mode-linux"]
fn power_off() {
    uml::power_off();
}

#[test]
#[ignore = "is called inside user-mode-linux"]
fn inside() {
    uml::inside(use_library);
}

fn open(host: &LocalDevices, node: &str) -> Box<dyn Changer> {
    host.changer(&LibraryName::Scsi(node.to_owned())).unwrap()
}

/// Waits until `child` has the name of its program: `spawn` can return a moment before.
fn named(child: &Child, program: &str) {
    let comm = format!("/proc/{}/comm", child.id());
    while std::fs::read_to_string(&comm).unwrap().trim_end() != program {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn use_library(tgt: &Library) {
    let host = LocalDevices::default();
    let seen = host.devices_here();
    assert_eq!(seen.len(), 3);
    assert!(seen.iter().any(|s| s.is_changer && s.info.model == "STK L700"), "{seen:?}");
    let mut library = open(&host, "/dev/sch0");
    for n in 1..=2 {
        let info = library.drive_info(n).unwrap();
        assert_eq!((info.serial, info.note), (Some(tgt.serial(&n.to_string())), None));
        assert!(info.device.unwrap().starts_with("/dev/sg"));
    }
    library.move_tape(Place::Slot(2), Place::Drive(2)).unwrap();
    let mut drive = library.open_drive(2).unwrap();
    for seed in 0..3 {
        drive.write_block(&block(seed, 64 << 10)).unwrap();
        drive.write_filemark().unwrap();
    }
    drive.sync().unwrap();
    let end = drive.locate_end().unwrap();
    assert_eq!((end.file, end.block), (3, 0));
    drive.locate(Spot { file: 1, block: 0, object: Some(2) }).unwrap();
    let mut buffer = vec![0; 64 << 10];
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(64 << 10));
    assert!(buffer == block(1, 64 << 10));
    // While a drive is used the robot is free, and the drive is nobody else's, by whatever name.
    let mut other = open(&host, "/dev/sg3");
    let in_use = other.drive_info(2).unwrap().in_use.unwrap();
    assert!(in_use.contains(&format!("process {}", std::process::id())), "{in_use}");
    let another = open(&LocalDevices::default(), "/dev/sch0").drive_info(2).unwrap().in_use;
    assert_eq!(another.as_deref(), Some(ANOTHER_HOST));
    other.move_tape(Place::Slot(1), Place::Slot(8)).unwrap();
    let kept = other.move_tape(Place::Drive(2), Place::Slot(2)).unwrap_err();
    assert!(matches!(kept, TapeError::Busy { .. }), "{kept}");
    for name in ["/dev/nst1", "/dev/sg2"] {
        let busy = open(&host, name).open_drive(1).err().unwrap();
        assert!(matches!(busy, TapeError::Busy { .. }), "{busy}");
    }
    drive.unload().unwrap();
    drop(drive);

    // A program that knows nothing of our locks keeps its tape, and is named.
    let node = std::fs::File::open("/dev/nst1").unwrap();
    let mut tar = Command::new("sleep").arg("60").stdin(node).spawn().unwrap();
    named(&tar, "sleep");
    let kept = library.move_tape(Place::Drive(2), Place::Slot(2)).unwrap_err().to_string();
    let opened = library.open_drive(2).err().unwrap().to_string();
    tar.kill().unwrap();
    tar.wait().unwrap();
    for text in [kept, opened] {
        assert!(text.contains("in use by sleep (process"), "{text}");
    }
    library.unload_drive(2).unwrap();
    library.move_tape(Place::Drive(2), Place::Slot(2)).unwrap();
    assert_eq!(library.inventory().unwrap().len(), 6);
}
