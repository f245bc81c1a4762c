//! A spool on disk between who writes and a drive, so that a source slower than the drive's lowest speed does not make it
//! stop and go back again and again.
//!
//! Blocks go into a file until it is filled to the high mark; then a thread brings them to the tape at the drive's speed, until
//! the low mark. A commit empties it: what is reported as durable is on the tape. The file has no name, so a kill leaves nothing.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use capstan_engine::buffer::Buffer;
use capstan_format::id::SegmentNumber;
use capstan_tape::{DriveSession, Speeds};
use parking_lot::{Condvar, Mutex};

use super::writer::TapeDevice;
use crate::file::io_error;
use crate::{Device, DeviceError};

/// The share of the spool at which the tape is started.
const HIGH: f64 = 0.8;
/// The share at which it may stand.
const LOW: f64 = 0.05;

/// Blocks that it holds at most when the tape is near its end.
const PLACES_AT_END: usize = 4;
/// Blocks that may come before a segment has ended after the warning: those on the way, and its catalog.
const BLOCKS_TO_END: usize = 32;

/// A spool to make.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SpoolPlan {
    /// The directory in which the file lies.
    pub dir: PathBuf,
    /// Its size in bytes.
    pub size: u64,
}

/// What is to be done on the tape, in order.
enum Order {
    Advance(SegmentNumber),
    Begin,
    /// A block in the spool: where, and how long.
    Block(u64, usize),
    /// One that is longer than a place in the spool.
    Long(Vec<u8>),
    Catalog,
    End,
}

#[derive(Default)]
struct State {
    orders: VecDeque<Order>,
    /// Places in the file that are free.
    free: Vec<u64>,
    /// Places in use.
    used: usize,
    /// All of it is to come to the tape.
    flush: bool,
    /// What the tape has left may not be enough for a full spool: no more is taken than goes to it at once.
    at_end: bool,
    /// An order is just carried out.
    at_work: bool,
    ending: bool,
    failed: Option<DeviceError>,
    closed: bool,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    tape: Mutex<TapeDevice>,
    file: File,
    path: String,
    places: usize,
}

/// A tape that is written through a spool.
pub struct SpooledTape {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    next: u32,
    place_size: usize,
    segment_size: Option<u64>,
}

impl SpooledTape {
    /// Puts a spool before a tape.
    pub fn new(tape: TapeDevice, plan: &SpoolPlan) -> Result<Self, DeviceError> {
        let place_size = tape.medium().header().block_size as usize;
        let places = usize::try_from(plan.size / place_size as u64).unwrap_or(usize::MAX).max(4);
        let path = plan.dir.display().to_string();
        let file = nameless(&plan.dir).map_err(io_error("make the spool in", &path))?;
        let (next, segment_size) = (tape.next_number().0, tape.segment_size());
        let at_end = has_little_room(&tape, places, place_size);
        let free = (0..places as u64).rev().map(|n| n * place_size as u64).collect();
        let shared = Arc::new(Shared {
            state: Mutex::new(State { free, at_end, ..State::default() }),
            changed: Condvar::new(),
            tape: Mutex::new(tape),
            file,
            path,
            places,
        });
        let thread = std::thread::spawn({
            let shared = shared.clone();
            move || shared.run(place_size)
        });
        Ok(Self { shared, thread: Some(thread), next, place_size, segment_size })
    }

    fn order(&self, order: Order) -> Result<(), DeviceError> {
        let mut state = self.shared.state.lock();
        state.refuse_failed()?;
        state.orders.push_back(order);
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Waits until all is on the tape, or it failed.
    fn drain(&self) -> Result<(), DeviceError> {
        let mut state = self.shared.state.lock();
        state.flush = true;
        self.shared.changed.notify_all();
        while state.failed.is_none() && (state.at_work || !state.orders.is_empty()) {
            self.shared.changed.wait(&mut state);
        }
        state.flush = false;
        state.refuse_failed()
    }
}

/// A file without a name in a directory.
pub(super) fn nameless(dir: &Path) -> io::Result<File> {
    let made = OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::TMPFILE.bits() as i32)
        .open(dir);
    if made.is_ok() {
        return made;
    }
    // File systems without O_TMPFILE.
    let path = dir.join(format!("capstan-spool-{}", std::process::id()));
    let file =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(path)?;
    Ok(file)
}

/// Blocks after which is looked again how much room the tape has left.
fn blocks_between_looks(places: usize) -> usize {
    (places / 8).max(1)
}

/// Whether a spool that is full now would come near the end of its tape, or behind it: then its warning would come too late. Not
/// where the drive does not know what is left.
fn has_little_room(tape: &TapeDevice, places: usize, place_size: usize) -> bool {
    let blocks = places + places / 4 + blocks_between_looks(places) + BLOCKS_TO_END;
    tape.room().is_some_and(|room| room < blocks as u64 * place_size as u64)
}

impl State {
    /// An error is told once as it is; later callers learn that there was one.
    fn refuse_failed(&mut self) -> Result<(), DeviceError> {
        match self.failed.take() {
            None => Ok(()),
            Some(e) => {
                self.failed = Some(DeviceError::SpoolFailed(e.to_string()));
                Err(e)
            }
        }
    }
}

impl Shared {
    /// The thread that writes the tape.
    fn run(&self, place_size: usize) {
        let mut buffer = Buffer::new(place_size);
        let high = (self.places as f64 * HIGH) as usize;
        let low = (self.places as f64 * LOW) as usize;
        let (mut moving, mut looked) = (false, 0);
        loop {
            let mut state = self.state.lock();
            let order = loop {
                if state.closed || state.failed.is_some() {
                    return;
                }
                let all = state.flush || state.at_end;
                moving = all || state.used >= high || moving && state.used > low;
                if moving && let Some(order) = state.orders.pop_front() {
                    break order;
                }
                self.changed.wait(&mut state);
            };
            state.at_work = true;
            drop(state);
            let place = if let Order::Block(at, _) = order { Some(at) } else { None };
            let done = self.carry_out(order, &mut buffer);
            looked += usize::from(place.is_some());
            let look = looked >= blocks_between_looks(self.places);
            let at_end = look && {
                looked = 0;
                has_little_room(&self.tape.lock(), self.places, place_size)
            };
            let mut state = self.state.lock();
            state.at_work = false;
            state.at_end |= at_end;
            if let Some(at) = place {
                state.free.push(at);
                state.used -= 1;
            }
            match done {
                Ok(ending) => state.ending |= ending,
                Err(e) => state.failed = Some(e),
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    fn carry_out(&self, order: Order, buffer: &mut Buffer) -> Result<bool, DeviceError> {
        let mut tape = self.tape.lock();
        match order {
            Order::Advance(to) => tape.advance(to),
            Order::Begin => tape.begin_segment().map(drop)?,
            Order::Block(at, length) => {
                let block = &mut buffer[..length];
                let read = self.file.read_exact_at(block, at);
                read.map_err(io_error("read the spool in", &self.path))?;
                tape.write(block)?;
            }
            Order::Long(block) => tape.write(&block)?,
            Order::Catalog => tape.begin_catalog()?,
            Order::End => tape.end_segment()?,
        }
        Ok(tape.is_ending())
    }
}

impl Device for SpooledTape {
    fn next_number(&self) -> SegmentNumber {
        SegmentNumber(self.next)
    }

    fn advance(&mut self, to: SegmentNumber) {
        self.next = self.next.max(to.0);
        // Where that fails, what is written next fails too.
        let _ = self.order(Order::Advance(to));
    }

    fn can_leave_out_numbers(&self) -> bool {
        false
    }

    fn begin_segment(&mut self) -> Result<SegmentNumber, DeviceError> {
        self.order(Order::Begin)?;
        Ok(SegmentNumber(self.next))
    }

    fn write(&mut self, block: &[u8]) -> Result<(), DeviceError> {
        if block.len() > self.place_size {
            return self.order(Order::Long(block.to_vec()));
        }
        let at = {
            let mut state = self.shared.state.lock();
            loop {
                state.refuse_failed()?;
                let has_place = !state.at_end || state.used < PLACES_AT_END;
                if has_place && let Some(at) = state.free.pop() {
                    state.used += 1;
                    break at;
                }
                self.shared.changed.wait(&mut state);
            }
        };
        let written = self.shared.file.write_all_at(block, at);
        if let Err(e) = written {
            let mut state = self.shared.state.lock();
            state.free.push(at);
            state.used -= 1;
            return Err(io_error("write the spool in", &self.shared.path)(e));
        }
        self.order(Order::Block(at, block.len()))
    }

    fn begin_catalog(&mut self) -> Result<(), DeviceError> {
        self.order(Order::Catalog)
    }

    fn end_segment(&mut self) -> Result<(), DeviceError> {
        self.order(Order::End)?;
        self.next += 1;
        Ok(())
    }

    fn commit(&mut self) -> Result<(), DeviceError> {
        self.drain()?;
        self.shared.tape.lock().commit()
    }

    fn salvage(&mut self) -> Result<SegmentNumber, DeviceError> {
        self.abandon_segment();
        self.shared.tape.lock().salvage()
    }

    fn object_of(&self, segment: SegmentNumber) -> Option<u64> {
        self.shared.tape.lock().object_of(segment)
    }

    fn abandon_segment(&mut self) {
        let mut state = self.shared.state.lock();
        for order in std::mem::take(&mut state.orders) {
            if let Order::Block(at, _) = order {
                state.free.push(at);
                state.used -= 1;
            }
        }
        while state.at_work {
            self.shared.changed.wait(&mut state);
        }
        drop(state);
        let mut tape = self.shared.tape.lock();
        tape.abandon_segment();
        self.next = tape.next_number().0;
    }

    fn short_blocks(&self) -> bool {
        false
    }

    fn commits_each_segment(&self) -> bool {
        false
    }

    fn is_ending(&self) -> bool {
        self.shared.state.lock().ending
    }

    fn segment_size(&self) -> Option<u64> {
        self.segment_size
    }

    fn compresses(&mut self) -> bool {
        self.shared.tape.lock().compresses()
    }

    fn set_compression(&mut self, on: bool) -> Result<(), DeviceError> {
        self.shared.tape.lock().set_compression(on)
    }

    /// The drive's; the spool makes it stream at any rate.
    fn speeds(&self) -> Option<Speeds> {
        let speeds = self.shared.tape.lock().speeds();
        speeds.map(|speeds| Speeds { lowest: 0.0, ..speeds })
    }

    fn drive_sessions(&mut self) -> Vec<DriveSession> {
        self.shared.tape.lock().drive_sessions()
    }
}

impl Drop for SpooledTape {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::{Address, TapeAddress};
    use capstan_format::id::MediumId;
    use capstan_format::record::{FORMAT_VERSION, MediumHeader, Protection};
    use capstan_tape::library::{Design, Library};

    const BLOCK: usize = 64 << 10;

    fn tape(dir: &Path) -> (TapeAddress, TapeDevice) {
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
        (address.clone(), open(&address))
    }

    fn open(address: &TapeAddress) -> TapeDevice {
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
        TapeDevice::open(address, header, None).unwrap()
    }

    fn segment(device: &mut dyn Device, blocks: u8) -> SegmentNumber {
        let number = device.begin_segment().unwrap();
        for n in 0..blocks {
            device.write(&[n; BLOCK]).unwrap();
        }
        device.begin_catalog().unwrap();
        device.write(&[99; BLOCK]).unwrap();
        device.end_segment().unwrap();
        number
    }

    fn spooled(tape: TapeDevice, dir: &Path, blocks: u64) -> SpooledTape {
        let plan = SpoolPlan { dir: dir.to_owned(), size: blocks * BLOCK as u64 };
        SpooledTape::new(tape, &plan).unwrap()
    }

    #[test]
    fn what_was_spooled_is_on_the_tape_in_order_when_it_is_committed() {
        let dir = tempfile::tempdir().unwrap();
        let (address, tape) = tape(dir.path());
        let mut tape = Some(tape);
        // Once all of it fits, once it goes round many times.
        for (blocks, first) in [(500, 1), (4, 3)] {
            let device = tape.take().unwrap_or_else(|| open(&address));
            let mut device = spooled(device, dir.path(), blocks);
            assert_eq!(segment(&mut device, 40).0, first);
            assert_eq!(segment(&mut device, 90).0, first + 1);
            device.commit().unwrap();
            // The header and its filemark; 40 blocks, 90 blocks, each with a catalog and two filemarks.
            let begin = 2 + u64::from(first / 2) * (43 + 93);
            assert_eq!(device.object_of(SegmentNumber(first)), Some(begin));
            assert_eq!(device.object_of(SegmentNumber(first + 1)), Some(begin + 43));
            drop(device);
            let read = super::super::open(&address).unwrap();
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
        let (address, tape) = tape(dir.path());
        let mut device = spooled(tape, dir.path(), 16);
        assert_eq!(segment(&mut device, 30).0, 1);
        device.commit().unwrap();
        device.begin_segment().unwrap();
        (0..40).for_each(|n| device.write(&[n; BLOCK]).unwrap());
        device.abandon_segment();
        assert_eq!(segment(&mut device, 5).0, 2);
        device.commit().unwrap();
        drop(device);
        assert_eq!(super::super::open(&address).unwrap().segments().unwrap().len(), 2);
        // More than the tape holds.
        let mut device = spooled(open(&address), dir.path(), 16);
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
        let (address, tape) = tape(dir.path());
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
        let kept = super::super::open(&address).unwrap().segments().unwrap();
        assert_eq!(kept.len() as u32, next.0 - 1);
    }
}
