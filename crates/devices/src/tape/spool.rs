//! A spool on disk between who writes and a drive, so that a source slower than the drive's lowest speed does not make it
//! stop and go back again and again.
//!
//! Blocks go into a file until it is filled to the high mark; then a thread brings them to the tape at the drive's speed, until
//! the low mark. A commit empties it: what is reported as durable is on the tape. The file has no name, so a kill leaves nothing.
//!
//! Where its disk takes no more, that is no fault of the tape: what is in the spool comes to the tape, and the blocks after it go
//! there without it.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::thread::JoinHandle;

use capstan_address::SpoolPlan;
use capstan_engine::buffer::Buffer;
use capstan_engine::nameless::nameless;
use capstan_engine::problem::Explain;
use capstan_engine::threads;
use capstan_format::crc::crc32c;
use capstan_format::id::SegmentNumber;
use capstan_medium::tape::{DriveSession, Speeds};
use capstan_medium::{Device, DeviceError};
use parking_lot::{Condvar, Mutex};

use super::writer::TapeDevice;

/// The share of the spool at which the tape is started.
const HIGH: f64 = 0.8;
/// The share at which it may stand.
const LOW: f64 = 0.05;

/// Blocks that it holds at most when the tape is near its end.
const PLACES_AT_END: usize = 4;
/// Things to do that wait at most where the spool is lost, each with its block.
const ORDERS_WITHOUT: usize = 4;
/// Blocks that may come before a segment has ended after the warning: those on the way, and its catalog.
const BLOCKS_TO_END: usize = 32;

/// What is to be done on the tape, in order.
enum Order {
    Advance(SegmentNumber),
    Begin,
    /// A block in the spool.
    Block(Spooled),
    /// One that is not in the spool: it is longer than a place there, or the spool is lost.
    Unspooled(Vec<u8>),
    Catalog,
    End,
}

/// Where a block lies in the spool's file.
#[derive(Clone, Copy)]
struct Spooled {
    at: u64,
    length: usize,
    /// Some disks (thin volumes, network file systems) lose what they took, and say so to nobody who reads.
    crc: u32,
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
    /// Its file takes no more: all goes to the tape at once.
    lost: bool,
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
    /// Why the spool was lost, until it is said.
    unsaid: Option<String>,
}

impl SpooledTape {
    /// Puts a spool before a tape.
    pub fn new(tape: TapeDevice, plan: &SpoolPlan) -> Result<Self, DeviceError> {
        let path = plan.dir.display().to_string();
        let file = nameless(&plan.dir).map_err(spool_error("make", &path))?;
        Self::on(tape, plan.size, file, path)
    }

    /// The same, in a file of that directory.
    fn on(tape: TapeDevice, size: u64, file: File, path: String) -> Result<Self, DeviceError> {
        let place_size = tape.medium().header().block_size as usize;
        let places = usize::try_from(size / place_size as u64).unwrap_or(usize::MAX).max(4);
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
        let thread = threads::start("spool", {
            let shared = shared.clone();
            move || shared.run(place_size)
        })?;
        Ok(Self { shared, thread: Some(thread), next, place_size, segment_size, unsaid: None })
    }

    fn order(&self, order: Order) -> Result<(), DeviceError> {
        let mut state = self.shared.state.lock();
        state.refuse_failed()?;
        state.orders.push_back(order);
        drop(state);
        self.shared.changed.notify_all();
        Ok(())
    }

    /// Orders a block that is not in the spool.
    fn order_unspooled(&self, block: &[u8]) -> Result<(), DeviceError> {
        let mut state = self.shared.state.lock();
        while state.lost && state.failed.is_none() && state.orders.len() >= ORDERS_WITHOUT {
            self.shared.changed.wait(&mut state);
        }
        drop(state);
        self.order(Order::Unspooled(block.to_vec()))
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

/// Refuses a spool that cannot be made.
pub(crate) fn check(plan: &SpoolPlan) -> Result<(), DeviceError> {
    let made = nameless(&plan.dir).map(drop);
    made.map_err(spool_error("make", &plan.dir.display().to_string()))
}

/// What went wrong with a spool, in words that say so: it is no fault of the tape.
fn spool_error(action: &'static str, path: &str) -> impl FnOnce(io::Error) -> DeviceError {
    move |source| DeviceError::Spool { action: action.into(), path: path.to_owned(), source }
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
                self.failed = Some(DeviceError::SpoolFailed(e.problem()));
                Err(e)
            }
        }
    }
}

/// The thread that writes the tape: when it ends, also by a panic, nobody waits for it.
struct Serving<'a>(&'a Shared);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.at_work = false;
        if !state.closed {
            let ended = || DeviceError::SpoolFailed("its thread ended unexpectedly".into());
            state.failed.get_or_insert_with(ended);
        }
        drop(state);
        self.0.changed.notify_all();
    }
}

impl Shared {
    /// The thread that writes the tape.
    fn run(&self, place_size: usize) {
        let _serving = Serving(self);
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
                let all = state.flush || state.at_end || state.lost;
                moving = all || state.used >= high || moving && state.used > low;
                if moving && let Some(order) = state.orders.pop_front() {
                    break order;
                }
                self.changed.wait(&mut state);
            };
            state.at_work = true;
            drop(state);
            let place = if let Order::Block(spooled) = order { Some(spooled.at) } else { None };
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
            Order::Block(spooled) => {
                let block = &mut buffer[..spooled.length];
                let read = self.file.read_exact_at(block, spooled.at).and_then(|()| {
                    match crc32c(block) == spooled.crc {
                        true => Ok(()),
                        false => Err(io::Error::other("it gives back other bytes than it took")),
                    }
                });
                read.map_err(spool_error("read", &self.path))?;
                tape.write(block)?;
            }
            Order::Unspooled(block) => tape.write(&block)?,
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
        let at = {
            let mut state = self.shared.state.lock();
            if block.len() > self.place_size || state.lost {
                drop(state);
                return self.order_unspooled(block);
            }
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
            state.lost = true;
            drop(state);
            self.shared.changed.notify_all();
            self.unsaid = Some(spool_error("write", &self.shared.path)(e).to_string());
            return self.order_unspooled(block);
        }
        self.order(Order::Block(Spooled { at, length: block.len(), crc: crc32c(block) }))
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
        // Where it is another medium that is full, what the spool has is to come to the tape.
        let _ = self.drain();
        self.abandon_segment();
        self.shared.tape.lock().salvage()
    }

    fn cut(&mut self, from: SegmentNumber) -> bool {
        let _ = self.drain();
        self.abandon_segment();
        let cut = self.shared.tape.lock().cut(from);
        self.next = self.shared.tape.lock().next_number().0;
        cut
    }

    fn object_of(&self, segment: SegmentNumber) -> Option<u64> {
        self.shared.tape.lock().object_of(segment)
    }

    fn abandon_segment(&mut self) {
        let mut state = self.shared.state.lock();
        for order in std::mem::take(&mut state.orders) {
            if let Order::Block(Spooled { at, .. }) = order {
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

    fn take_lost_spool(&mut self) -> Option<String> {
        self.unsaid.take()
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
mod tests;
