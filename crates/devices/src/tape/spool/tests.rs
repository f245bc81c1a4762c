use std::fs::OpenOptions;
use std::path::Path;

use capstan_address::{Address, TapeAddress};
use capstan_format::id::MediumId;
use capstan_format::record::{FORMAT_VERSION, MediumHeader, Protection};
use capstan_medium::host::Media;
use capstan_tape::vtl::library::{Design, Library};

use super::*;
use crate::host::LocalDevices;

const BLOCK: usize = 64 << 10;

fn tape(dir: &Path) -> (LocalDevices, TapeAddress, TapeDevice) {
    let design = Design {
        model: "lto-9".into(),
        drives: 1,
        slots: 2,
        mail_slots: 0,
        alone: false,
        capacity: Some(100_000_000),
        scale: 1e5,
        ratio: 1.0,
    };
    let library = dir.join("vtl");
    Library::create(&library, &design, 1).unwrap();
    let name = format!("vtape:{}?tape=V00001L9", library.display());
    let Ok(Address::Tape(address)) = name.parse() else { panic!("{name}") };
    let host = LocalDevices::default();
    let device = open(&host, &address);
    (host, address, device)
}

fn open(host: &LocalDevices, address: &TapeAddress) -> TapeDevice {
    let header = || {
        Ok(MediumHeader {
            format: FORMAT_VERSION,
            incompatible: 0,
            compatible: 0,
            medium: MediumId([1; 16]),
            label: "m".to_owned(),
            block_size: BLOCK as u32,
            created_us: 0,
            protection: Protection::None,
            cell: None,
            array: None,
            drive_key: None,
        })
    };
    TapeDevice::open(host, address, header, None).unwrap()
}

fn segment(device: &mut dyn Device, blocks: u8) -> SegmentNumber {
    let number = device.begin_segment().unwrap();
    fill(device, blocks);
    number
}

fn fill(device: &mut dyn Device, blocks: u8) {
    for n in 0..blocks {
        device.write(&[n; BLOCK]).unwrap();
    }
    device.begin_catalog().unwrap();
    device.write(&[99; BLOCK]).unwrap();
    device.end_segment().unwrap();
}

fn spooled(tape: TapeDevice, dir: &Path, blocks: u64) -> SpooledTape {
    let plan = SpoolPlan { dir: dir.to_owned(), size: blocks * BLOCK as u64 };
    SpooledTape::new(tape, &plan).unwrap()
}

#[test]
fn what_was_spooled_is_on_the_tape_in_order_when_it_is_committed() {
    let dir = tempfile::tempdir().unwrap();
    let (host, address, tape) = tape(dir.path());
    let mut tape = Some(tape);
    // Once all of it fits, once it goes round many times.
    for (blocks, first) in [(500, 1), (4, 3)] {
        let device = tape.take().unwrap_or_else(|| open(&host, &address));
        let mut device = spooled(device, dir.path(), blocks);
        assert_eq!(segment(&mut device, 40).0, first);
        assert_eq!(segment(&mut device, 90).0, first + 1);
        device.commit().unwrap();
        // The header and its filemark; 40 blocks, 90 blocks, each with a catalog and two filemarks.
        let begin = 2 + u64::from(first / 2) * (43 + 93);
        assert_eq!(device.object_of(SegmentNumber(first)), Some(begin));
        assert_eq!(device.object_of(SegmentNumber(first + 1)), Some(begin + 43));
        drop(device);
        let read = crate::tape::open(&host, &address).unwrap();
        let numbers: Vec<_> = read.segments().unwrap().iter().map(|n| n.0).collect();
        assert_eq!(numbers, (1..=first + 1).collect::<Vec<_>>());
        let file = read.open_segment(SegmentNumber(first + 1)).unwrap();
        let mut block = vec![0; BLOCK];
        file.read_at(&mut block, 77 * BLOCK as u64).unwrap();
        assert!(block.iter().all(|b| *b == 77));
    }
}

#[test]
fn what_was_abandoned_is_written_over_and_an_error_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let (host, address, tape) = tape(dir.path());
    let mut device = spooled(tape, dir.path(), 16);
    assert_eq!(segment(&mut device, 30).0, 1);
    device.commit().unwrap();
    device.begin_segment().unwrap();
    (0..40).for_each(|n| device.write(&[n; BLOCK]).unwrap());
    device.abandon_segment();
    assert_eq!(segment(&mut device, 5).0, 2);
    device.commit().unwrap();
    drop(device);
    assert_eq!(crate::tape::open(&host, &address).unwrap().segments().unwrap().len(), 2);
    // More than the tape holds.
    let mut device = spooled(open(&host, &address), dir.path(), 16);
    device.begin_segment().unwrap();
    let failed = (0..2_000).find_map(|_| device.write(&[7; BLOCK]).err());
    let failed = failed.unwrap_or_else(|| device.commit().unwrap_err());
    assert!(failed.is_full(), "{failed}");
    assert!(device.is_ending());
    assert!(device.write(&[7; BLOCK]).is_err(), "it stays so");
}
#[test]
fn what_came_to_a_full_tape_whole_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let (host, address, tape) = tape(dir.path());
    let mut device = spooled(tape, dir.path(), 16);
    let mut one = || {
        device.begin_segment()?;
        (0..30).try_for_each(|n| device.write(&[n; BLOCK]))?;
        device.begin_catalog()?;
        device.write(&[1; BLOCK])?;
        device.end_segment()
    };
    let failed = (0..1_000).find_map(|_| one().err()).unwrap();
    assert!(failed.is_full(), "{failed}");
    let next = device.salvage().unwrap();
    assert!(next.0 > 2, "{next:?}");
    drop(device);
    let kept = crate::tape::open(&host, &address).unwrap().segments().unwrap();
    assert_eq!(kept.len() as u32, next.0 - 1);
}

/// A file that takes so many blocks and no more.
fn small_file(blocks: u64) -> File {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
    let file = File::from(memfd_create("spool", MemfdFlags::ALLOW_SEALING).unwrap());
    file.set_len(blocks * BLOCK as u64).unwrap();
    fcntl_add_seals(&file, SealFlags::GROW).unwrap();
    file
}

#[test]
fn a_spool_whose_disk_takes_no_more_is_done_without() {
    let dir = tempfile::tempdir().unwrap();
    let (host, address, tape) = tape(dir.path());
    let mut device =
        SpooledTape::on(tape, 40 * BLOCK as u64, small_file(8), "/sp".to_owned()).unwrap();
    assert_eq!(device.begin_segment().unwrap().0, 1);
    // What writes the tape waits for more.
    std::thread::sleep(std::time::Duration::from_millis(50));
    fill(&mut device, 60);
    let why = device.take_lost_spool().unwrap();
    assert!(why.contains("write the spool in /sp"), "{why}");
    assert_eq!(segment(&mut device, 90).0, 2);
    assert_eq!(device.take_lost_spool(), None, "it is said once");
    device.commit().unwrap();
    // What is begun and abandoned is written over as ever, and the end of the tape is seen.
    device.begin_segment().unwrap();
    (0..40).for_each(|n| device.write(&[n; BLOCK]).unwrap());
    device.abandon_segment();
    assert_eq!(segment(&mut device, 5).0, 3);
    device.commit().unwrap();
    device.begin_segment().unwrap();
    let failed = (0..2_000).find_map(|_| device.write(&[7; BLOCK]).err()).unwrap();
    assert!(failed.is_full() && !failed.is_of_spool(), "{failed}");
    assert!(device.is_ending());
    drop(device);
    let read = crate::tape::open(&host, &address).unwrap();
    assert_eq!(read.segments().unwrap().len(), 3);
    for (segment, blocks) in [(1, 60), (2, 90), (3, 5)] {
        let file = read.open_segment(SegmentNumber(segment)).unwrap();
        for n in 0..blocks {
            let mut block = vec![0; BLOCK];
            file.read_at(&mut block, u64::from(n) * BLOCK as u64).unwrap();
            assert!(block.iter().all(|b| *b == n), "block {n} of {segment}");
        }
    }
}

#[test]
fn a_spool_that_cannot_be_read_or_made_is_no_full_tape() {
    let dir = tempfile::tempdir().unwrap();
    let (host, address, tape) = tape(dir.path());
    let unreadable = OpenOptions::new().write(true).open("/dev/null").unwrap();
    let mut device =
        SpooledTape::on(tape, 40 * BLOCK as u64, unreadable, "/sp".to_owned()).unwrap();
    segment(&mut device, 20);
    let failed = device.commit().unwrap_err();
    assert!(failed.is_of_spool() && !failed.is_full(), "{failed}");
    drop(device);
    // Nothing is made where there is none.
    let plan = SpoolPlan { dir: dir.path().join("none"), size: 1 << 20 };
    let address = Address::Tape(TapeAddress { spool: Some(plan), ..address.with_tape("V00002L9") });
    let nobody = || -> io::Result<MediumHeader> { panic!("a header is made") };
    let failed = host.writable(&address, &nobody, None, &()).err().unwrap();
    assert!(failed.is_of_spool(), "{failed}");
}

#[test]
fn what_the_spool_gives_back_otherwise_does_not_come_to_the_tape() {
    let dir = tempfile::tempdir().unwrap();
    let (host, address, tape) = tape(dir.path());
    let file = nameless(dir.path()).unwrap();
    let behind = file.try_clone().unwrap();
    let mut device = SpooledTape::on(tape, 500 * BLOCK as u64, file, "spool".to_owned()).unwrap();
    assert_eq!(segment(&mut device, 40).0, 1);
    // The fifth block, as a disk that had no room for it after all.
    behind.write_all_at(&[0; 512], 4 * BLOCK as u64).unwrap();
    let failed = device.commit().unwrap_err();
    assert!(failed.is_of_spool(), "{failed}");
    assert!(failed.to_string().contains("other bytes"), "{failed}");
    drop(device);
    assert!(crate::tape::open(&host, &address).unwrap().segments().unwrap().is_empty());
}
