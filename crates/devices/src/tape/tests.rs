//! Segments on tape: the numbers that drives have of them, and finding them by these.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use capstan_address::{Address, SpoolPlan, TapeAddress};
use capstan_format::block::{BlockKind, MaHeader};
use capstan_format::id::{BlockIndex, MediumId, SegmentId, SegmentNumber};
use capstan_format::keys::{Key32, drive_key};
use capstan_format::record::{FEATURE_DRIVE_KEY, FORMAT_VERSION, MediumHeader, Protection};
use capstan_medium::Device;
use capstan_medium::host::{Media, Tapes};
use capstan_medium::names::{SUFFIX, segment_name};
use capstan_medium::storage::{Recorded, Storage};
use capstan_medium::tape::{Place, Spot, Statistics, TapeError, TapeLibrary};
use capstan_tape::vtl::library::{Design, Library};
use capstan_tape::{DriveKey, Read, TapeDrive, Written};
use parking_lot::Mutex;

use super::storage::TapeStorage;
use super::writer::TapeDevice;
use crate::drives::Tape;
use crate::drives::loaded::{Found, LoadedDrive};
use crate::host::LocalDevices;

pub(super) const BLOCK: usize = 64 << 10;
/// More than what passed by last.
const BLOCKS: u32 = 600;

pub(super) fn address(dir: &Path) -> TapeAddress {
    address_of(dir, 400_000_000)
}

/// A tape that holds so many bytes.
pub(super) fn address_of(dir: &Path, capacity: u64) -> TapeAddress {
    let design = Design {
        model: "lto-9".into(),
        drives: 1,
        slots: 1,
        mail_slots: 0,
        alone: false,
        capacity: Some(capacity),
        scale: 1e6,
        ratio: 1.0,
    };
    let library = dir.join("vtl");
    Library::create(&library, &design, 1).unwrap();
    let name = format!("vtape:{}?tape=V00001L9", library.display());
    let Ok(Address::Tape(address)) = name.parse() else { panic!("{name}") };
    address
}

pub(super) fn plain_header() -> MediumHeader {
    MediumHeader {
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
    }
}

pub(super) fn open(host: &LocalDevices, address: &TapeAddress) -> TapeDevice {
    TapeDevice::open(host, address, || Ok(plain_header()), None).unwrap()
}

fn id(number: u32) -> SegmentId {
    SegmentId([number as u8; 16])
}

/// A block that says what it is; its last byte tells segments from each other too.
fn block(number: u32, index: u32) -> Vec<u8> {
    let mut block = vec![number as u8; BLOCK];
    let kind = if index == 0 { BlockKind::SegmentHeader } else { BlockKind::Data };
    let ma = MaHeader { kind, segment: id(number), index: BlockIndex(index), length: BLOCK as u32 };
    ma.encode(&mut block);
    block
}

pub(super) fn write(device: &mut TapeDevice, blocks: u32) {
    let number = device.begin_segment().unwrap().0;
    (0..blocks).for_each(|n| device.write(&block(number, n)).unwrap());
    device.begin_catalog().unwrap();
    device.write(&block(number, blocks)).unwrap();
    device.end_segment().unwrap();
}

/// A tape with segments; where they begin.
fn written(dir: &Path) -> (TapeAddress, Vec<u64>) {
    let (host, address) = (LocalDevices::default(), address(dir));
    let mut device = open(&host, &address);
    (0..3).for_each(|_| write(&mut device, BLOCKS));
    device.commit().unwrap();
    let objects = (1..=3).map(|n| device.object_of(SegmentNumber(n)).unwrap()).collect();
    (address, objects)
}

/// What kind of drive it is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Whole,
    /// It goes by filemarks whatever it is given, and does not say where it stands.
    Blind,
}

/// A drive that notes what it is asked for.
struct Noted {
    drive: Box<dyn TapeDrive>,
    kind: Kind,
    done: Arc<Mutex<Vec<String>>>,
}

impl TapeDrive for Noted {
    fn name(&self) -> &str {
        self.drive.name()
    }

    fn write_block(&mut self, block: &[u8]) -> Result<Written, TapeError> {
        self.drive.write_block(block)
    }

    fn write_filemark(&mut self) -> Result<Written, TapeError> {
        self.drive.write_filemark()
    }

    fn sync(&mut self) -> Result<(), TapeError> {
        self.drive.sync()
    }

    fn erase(&mut self, long: bool) -> Result<(), TapeError> {
        self.drive.erase(long)
    }

    fn read_block(&mut self, into: &mut [u8]) -> Result<Read, TapeError> {
        self.done.lock().push("read".to_owned());
        self.drive.read_block(into)
    }

    fn locate(&mut self, to: Spot) -> Result<(), TapeError> {
        self.done.lock().push(match to.object {
            _ if (to.file, to.block) == (0, 0) => "rewind".to_owned(),
            Some(object) => format!("locate {object}"),
            None => format!("space {} {}", to.file, to.block),
        });
        let object = to.object.filter(|_| self.kind == Kind::Whole);
        self.drive.locate(Spot { object, ..to })
    }

    fn locate_end(&mut self) -> Result<Spot, TapeError> {
        self.drive.locate_end()
    }

    fn position(&mut self) -> Result<Option<u64>, TapeError> {
        self.done.lock().push("position".to_owned());
        if self.kind == Kind::Blind { Ok(None) } else { self.drive.position() }
    }

    fn block_max(&self) -> usize {
        self.drive.block_max()
    }

    fn capacity(&self) -> Option<u64> {
        self.drive.capacity()
    }

    fn unload(&mut self) -> Result<(), TapeError> {
        self.drive.unload()
    }

    fn statistics(&self) -> Option<Statistics> {
        self.drive.statistics()
    }
}

/// Reads blocks of the third segment, recorded there; what the drive was asked for.
fn read(dir: &Path, kind: Kind, recorded: Option<u64>, blocks: &[u32]) -> Vec<String> {
    let drive = Box::new(Library::open(&dir.join("vtl")).unwrap().drive(1).unwrap());
    let done = Arc::new(Mutex::new(Vec::new()));
    let tape = Tape::in_drive(
        LocalDevices::default().tapes(),
        Box::new(Noted { drive, kind, done: done.clone() }),
    );
    let storage = TapeStorage::new(tape);
    let number = SegmentNumber(3);
    let place = recorded.map(|object| Recorded { number, segment: id(3), object });
    storage.recall(place.into_iter().collect());
    let file = storage.open(&segment_name(number, SUFFIX)).unwrap();
    let mut found = vec![0; BLOCK];
    for index in blocks {
        let offset = u64::from(*index) * BLOCK as u64;
        assert_eq!(file.read_block(*index, offset, &mut found).unwrap(), BLOCK);
        assert!(found == block(3, *index), "block {index}");
    }
    drop(storage);
    drop(file);
    let done = done.lock();
    done.clone()
}

#[test]
fn a_writer_knows_the_numbers_of_its_segments() {
    let dir = tempfile::tempdir().unwrap();
    let (address, objects) = written(dir.path());
    let each = u64::from(BLOCKS) + 3;
    assert_eq!(objects, [2, 2 + each, 2 + 2 * each]);
    // What is appended later goes on from there; what was begun and given up is not counted.
    let mut device = open(&LocalDevices::default(), &address);
    device.begin_segment().unwrap();
    device.write(&block(4, 0)).unwrap();
    device.abandon_segment();
    assert_eq!(device.object_of(SegmentNumber(4)), None);
    write(&mut device, 5);
    write(&mut device, 5);
    assert_eq!(device.object_of(SegmentNumber(4)), Some(2 + 3 * each));
    assert_eq!(device.object_of(SegmentNumber(5)), Some(2 + 3 * each + 8));
}

#[test]
fn a_drive_is_asked_once_for_a_number_and_not_for_each_block() {
    let dir = tempfile::tempdir().unwrap();
    let (_, objects) = written(dir.path());
    let drive = Box::new(Library::open(&dir.path().join("vtl")).unwrap().drive(1).unwrap());
    let done = Arc::new(Mutex::new(Vec::new()));
    let tape = Tape::in_drive(
        LocalDevices::default().tapes(),
        Box::new(Noted { drive, kind: Kind::Whole, done: done.clone() }),
    );
    // Overwrites from the third segment on, as a writer that was there before does.
    let found = tape.with(|loaded| {
        for file in [5, 7] {
            for block in 0..20 {
                loaded.write(Spot { file, block, object: None }, &[1; BLOCK])?;
            }
            loaded.mark(Spot { file, block: 20, object: None })?;
            loaded.mark(Spot { file: file + 1, block: 0, object: None })?;
        }
        loaded.write(Spot { file: 9, block: 0, object: None }, &[1; BLOCK])?;
        Ok(loaded.begin_of(9))
    });
    assert_eq!(found.unwrap(), Some(objects[2] + 2 * 22));
    assert_eq!(*done.lock(), ["space 5 0", "position"]);
}

#[test]
fn a_block_is_located_by_its_number_and_read() {
    let dir = tempfile::tempdir().unwrap();
    let (_, objects) = written(dir.path());
    let done = read(dir.path(), Kind::Whole, Some(objects[2]), &[500, 501, 9]);
    let [at, back] = [500, 9].map(|n| format!("locate {}", objects[2] + n));
    assert_eq!(done, ["rewind", "read", &at, "read", "read", &back, "read"]);
}

#[test]
fn a_wrong_number_costs_a_look_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let (_, objects) = written(dir.path());
    // In the same segment, in another one, on a filemark, and behind the end.
    for wrong in [objects[2] + 1, objects[1], objects[2] - 501, 1 << 40] {
        let done = read(dir.path(), Kind::Whole, Some(wrong), &[500, 9]);
        assert_eq!(done.iter().filter(|d| d.starts_with("space")).count(), 1, "{done:?}");
        // The drive said where the block is, so the next one is located.
        assert_eq!(done[done.len() - 2], format!("locate {}", objects[2] + 9), "{done:?}");
    }
}

#[test]
fn a_drive_that_cannot_locate_finds_everything_by_filemarks() {
    let dir = tempfile::tempdir().unwrap();
    let (_, objects) = written(dir.path());
    for recorded in [None, Some(objects[2]), Some(3)] {
        read(dir.path(), Kind::Blind, recorded, &[500, 501, 9]);
    }
    let done = read(dir.path(), Kind::Blind, None, &[500, 9]);
    assert_eq!(
        done,
        ["rewind", "read", "space 5 500", "position", "read", "space 5 9", "position", "read"]
    );
}

#[test]
fn what_is_not_recorded_is_learnt_from_the_drive() {
    let dir = tempfile::tempdir().unwrap();
    let (address, objects) = written(dir.path());
    let medium = LocalDevices::default().medium(&Address::Tape(address)).unwrap();
    // Twice, since the second time the block is not read from the tape again.
    for _ in 0..2 {
        let file = medium.open_segment(SegmentNumber(2)).unwrap();
        assert_eq!(file.object(), None);
        file.read_at(&mut [0; BLOCK], 0).unwrap();
        assert_eq!(file.object(), Some(objects[1]));
    }
}

/// Blocks that are more than its buffer many times.
const READ_SLOWLY: u32 = 1800;

/// Backhitches of a drive that is read at half its speed.
fn backhitches(dir: &Path, plan: Option<&SpoolPlan>) -> u64 {
    let design = Design {
        model: "dlt-4000".into(),
        drives: 1,
        slots: 1,
        mail_slots: 0,
        alone: false,
        capacity: Some(400_000_000),
        scale: 1.0,
        ratio: 1.0,
    };
    let path = dir.join(if plan.is_some() { "spooled" } else { "plain" });
    let mut library = Library::create(&path, &design, 1).unwrap().in_virtual_time();
    library.move_tape(Place::Slot(1), Place::Drive(1)).unwrap();
    {
        let mut drive = library.drive(1).unwrap();
        for n in 0..READ_SLOWLY {
            drive.write_block(&block(1, n)).unwrap();
        }
        drive.write_filemark().unwrap();
        drive.sync().unwrap();
    }
    let half = BLOCK as f64 / (0.5 * 1.45e6);
    let mut loaded = LoadedDrive::new(Box::new(library.drive(1).unwrap()), None, plan);
    for n in 0..READ_SLOWLY {
        let spot = Spot { file: 0, block: n.into(), object: None };
        match loaded.block(spot, BLOCK, &|_| true).unwrap() {
            Found::Block(found) => assert_eq!(found, block(1, n)),
            _ => panic!("block {n} is not there"),
        }
        while loaded.read_ahead(BLOCK).unwrap() {}
        library.clock().pass(half);
    }
    loaded.session().statistics.unwrap().backhitches
}

#[test]
fn a_spool_spares_a_drive_that_is_read_slowly() {
    let dir = tempfile::tempdir().unwrap();
    let plan = SpoolPlan { dir: dir.path().to_owned(), size: 128 << 20 };
    let (plain, spooled) = (backhitches(dir.path(), None), backhitches(dir.path(), Some(&plan)));
    assert!(plain >= 10 && plain >= 10 * spooled, "{plain} without, {spooled} with a spool");
}

/// A drive that notes which keys it was given.
struct Keyed {
    drive: Box<dyn TapeDrive>,
    given: Arc<Mutex<Vec<Option<u8>>>>,
}

impl TapeDrive for Keyed {
    fn name(&self) -> &str {
        self.drive.name()
    }
    fn write_block(&mut self, block: &[u8]) -> Result<Written, TapeError> {
        self.drive.write_block(block)
    }
    fn write_filemark(&mut self) -> Result<Written, TapeError> {
        self.drive.write_filemark()
    }
    fn sync(&mut self) -> Result<(), TapeError> {
        self.drive.sync()
    }
    fn erase(&mut self, long: bool) -> Result<(), TapeError> {
        self.drive.erase(long)
    }
    fn read_block(&mut self, into: &mut [u8]) -> Result<Read, TapeError> {
        self.drive.read_block(into)
    }
    fn locate(&mut self, to: Spot) -> Result<(), TapeError> {
        self.drive.locate(to)
    }
    fn locate_end(&mut self) -> Result<Spot, TapeError> {
        self.drive.locate_end()
    }
    fn position(&mut self) -> Result<Option<u64>, TapeError> {
        self.drive.position()
    }
    fn block_max(&self) -> usize {
        self.drive.block_max()
    }
    fn capacity(&self) -> Option<u64> {
        self.drive.capacity()
    }
    fn unload(&mut self) -> Result<(), TapeError> {
        self.drive.unload()
    }
    fn statistics(&self) -> Option<Statistics> {
        self.drive.statistics()
    }
    fn encrypts(&mut self) -> bool {
        self.drive.encrypts()
    }
    fn set_key(&mut self, key: Option<&DriveKey>) -> Result<(), TapeError> {
        let key_byte = key.map(|key| key.bytes()[0]);
        let mut given = self.given.lock();
        if given.last() != Some(&key_byte) {
            given.push(key_byte);
        }
        self.drive.set_key(key)
    }
}

fn encrypted_header(medium: MediumId) -> MediumHeader {
    let key = Some(serde_json::json!({"id": medium.to_string()}));
    let incompatible = FEATURE_DRIVE_KEY;
    MediumHeader { medium, incompatible, drive_key: key, ..plain_header() }
}

#[test]
fn what_is_behind_the_header_takes_the_key() {
    let dir = tempfile::tempdir().unwrap();
    let (host, address) = (LocalDevices::default(), address(dir.path()));
    let medium = MediumId([0x77; 16]);
    let open = || TapeDevice::open(&host, &address, || Ok(encrypted_header(medium)), None).unwrap();
    let mut device = open();
    let closed = device.begin_segment().unwrap_err().to_string();
    assert!(
        closed.contains("V00001L9 is encrypted by its drive and its key is not open"),
        "{closed}"
    );
    host.open_key(medium, Key32::new([7; 32]));
    write(&mut device, 3);
    device.commit().unwrap();
    drop(device);
    host.release_idle();
    let file = std::fs::read(dir.path().join("vtl/tapes/V00001L9.tape")).unwrap();
    let count = |text: &[u8]| file.windows(text.len()).filter(|w| *w == text).count();
    assert_eq!((count(b"CpMA"), count(b"drive_key")), (1, 1), "the header alone is in clear");
    let mut device = open();
    assert_eq!(device.begin_segment().unwrap(), SegmentNumber(2), "it is appended to");
    drop(device);
    let storage = TapeStorage::new(Tape::of(host.tapes(), &address));
    let segment = storage.open(&segment_name(SegmentNumber(1), SUFFIX)).unwrap();
    let mut found = vec![0; BLOCK];
    segment.read_at(&mut found, BLOCK as u64).unwrap();
    assert!(found == block(1, 1));
}

#[test]
fn a_drive_has_a_key_as_long_as_it_is_used() {
    let dir = tempfile::tempdir().unwrap();
    let (host, address) = (LocalDevices::default(), address(dir.path()));
    let medium = MediumId([0x78; 16]);
    host.open_key(medium, Key32::new([9; 32]));
    let key = drive_key(&[9; 32], medium).unwrap()[0];
    let new = || Ok(encrypted_header(medium));
    let mut device = TapeDevice::open(&host, &address, new, None).unwrap();
    write(&mut device, 3);
    device.commit().unwrap();
    drop(device);
    host.release_idle();
    let given = Arc::new(Mutex::new(Vec::new()));
    let drive = Box::new(Library::open(&dir.path().join("vtl")).unwrap().drive(1).unwrap());
    let tape = Tape::in_drive(host.tapes(), Box::new(Keyed { drive, given: given.clone() }));
    let storage = TapeStorage::new(tape);
    assert_eq!(storage.list().unwrap().len(), 2);
    assert!(given.lock().is_empty(), "what is on it is listed without");
    let segment = storage.open(&segment_name(SegmentNumber(1), SUFFIX)).unwrap();
    segment.read_at(&mut vec![0; BLOCK], 0).unwrap();
    assert_eq!(*given.lock(), [Some(key)]);
    drop((storage, segment));
    assert_eq!(*given.lock(), [Some(key), None]);
}

/// A drive is given back at any time, also just after another thread saw it in use.
#[test]
fn threads_that_take_turns_in_one_drive_all_get_it() {
    let dir = tempfile::tempdir().unwrap();
    let first = address(dir.path());
    let two = dir.path().join("two");
    let design = Library::open(&dir.path().join("vtl")).unwrap().design().clone();
    Library::create(&two, &Design { slots: 2, ..design }, 2).unwrap();
    let host = &LocalDevices::default();
    std::thread::scope(|threads| {
        for barcode in ["V00001L9", "V00002L9"] {
            let library = capstan_address::LibraryName::Virtual(two.clone());
            let address = TapeAddress { library, ..first.with_tape(barcode) };
            threads.spawn(move || {
                let tape = Tape::of(host.tapes(), &address);
                for n in 0..200 {
                    assert_eq!(tape.with(LoadedDrive::end).unwrap(), Spot::BEGIN);
                    std::thread::sleep(Duration::from_micros(n * 37 % 1500));
                    host.done_reading(&Address::Tape(address.clone()));
                }
            });
        }
    });
}
