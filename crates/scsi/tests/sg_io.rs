//! SG_IO for real: `/dev/sgN` and `/dev/nstN` of a kernel as a process (see support/uml.rs).

#![allow(clippy::disallowed_methods, reason = "a test may panic")]

#[path = "support/signals.rs"]
mod signals;
mod support;

use std::process::Command;
use std::time::Duration;

use capstan_scsi::element::ElementKind;
use capstan_scsi::inquiry::Kind;
use capstan_scsi::{Changer, Drive, Error, Read, Written, find};
use rustix::fs::{Mode, OFlags};
use signals::under_signals;
use support::tgt::{CHANGER, Library};
use support::{block, uml};

#[test]
fn commands_go_through_the_kernels_own_drivers() {
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
    uml::inside(|library| {
        find_all(library);
        use_library("/dev/sch0", "/dev/nst0");
        hold_and_name("/dev/nst1");
    });
}

/// The kernel says what there is, also of what is in use.
fn find_all(library: &Library) {
    let _drive = Drive::open("/dev/nst1").unwrap();
    let found = find::local();
    let kinds: Vec<_> = found.iter().map(|f| (f.kind, f.identity.serial.clone())).collect();
    let tape = |lun| (Kind::Tape, library.serial(lun));
    assert_eq!(kinds, [tape("1"), tape("2"), (Kind::Changer, library.serial(CHANGER))]);
    assert_eq!(found[1].tape_node.as_deref(), Some("/dev/nst1".as_ref()));
    assert!(found[1].numbers.len() >= 3 && found[0].name.starts_with("/dev/sg"), "{found:?}");
}

/// The same as over iSCSI of our own, in short.
fn use_library(changer: &str, tape: &str) {
    let mut changer = Changer::open(changer).unwrap();
    let inventory = changer.inventory().unwrap();
    assert_eq!(
        inventory.find("TAPE06L6").map(|e| (e.kind, e.address)),
        Some((ElementKind::Slot, 1005))
    );
    let mut drive = Drive::open(tape).unwrap();
    let element = *inventory.match_drives(&[drive.identity().clone()]).keys().next().unwrap();
    changer.move_medium(1000, element).unwrap();
    drive.wait_ready(Duration::from_secs(10)).unwrap();
    drive.rewind().unwrap();
    let longest = drive.block_limits().unwrap().max.min(512 * 1024);
    // A signal would make the kernel start the ioctl again, and the block would be there twice.
    under_signals(|| {
        for seed in 0..8 {
            assert_eq!(drive.write_block(&block(seed, longest)).unwrap(), Written::Done);
        }
    });
    assert_eq!(drive.write_filemarks(1, false).unwrap(), Written::Done);
    drive.rewind().unwrap();
    let mut buffer = vec![0; longest];
    for seed in 0..8 {
        assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Block(longest));
        assert!(buffer == block(seed, longest), "block {seed}");
    }
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::Filemark);
    assert_eq!(drive.read_block(&mut buffer).unwrap(), Read::EndOfData);
    let full = changer.move_medium(1001, element).unwrap_err().to_string();
    assert!(full.contains("occupied"), "{full}");
}

/// Who has a device open, by whichever node, keeps us out and is named; and we keep others out, by whichever node.
fn hold_and_name(tape: &str) {
    let generic = "/dev/sg2";
    for node in [tape, generic] {
        // A tape node without a tape opens only for those who do not wait.
        let file =
            rustix::fs::open(node, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
        let mut holder = Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
        let error = Drive::open(tape).err().unwrap();
        holder.kill().unwrap();
        holder.wait().unwrap();
        let Error::Busy { holders, .. } = &error else { panic!("{error}") };
        assert_eq!(
            holders.iter().map(|h| (h.pid, h.path.as_str())).collect::<Vec<_>>(),
            [(holder.id(), node)]
        );
        assert!(error.to_string().contains("sleep (process"), "{error}");
    }
    let drive = Drive::open(tape).unwrap();
    for node in [tape, generic] {
        let opened = rustix::fs::open(node, OFlags::RDWR | OFlags::NONBLOCK, Mode::empty());
        assert_eq!(opened.err(), Some(rustix::io::Errno::BUSY), "{node}");
    }
    let error = Drive::open(tape).err().unwrap().to_string();
    assert!(error.contains("this program itself"), "{error}");
    drop(drive);
    Drive::open(tape).unwrap();
}
