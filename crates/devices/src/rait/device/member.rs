//! A member that is written to: a thread of its own, with a short queue before it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use capstan_engine::buffer::Buffer;
use capstan_engine::threads::{self, NoThread};
use capstan_format::id::SegmentNumber;
use capstan_medium::tape::DriveSession;
use capstan_medium::{Device, DeviceError};
use parking_lot::Mutex;

/// Bytes that wait before a member, about; at least two blocks.
const QUEUE_BYTES: usize = 2 << 20;

/// Blocks on their way, whose memory is used again.
#[derive(Clone)]
pub(super) struct Pool {
    free: Arc<Mutex<Vec<Buffer>>>,
    size: usize,
}

/// A block on its way to members.
pub(super) struct Piece {
    buffer: Option<Buffer>,
    len: usize,
    pool: Pool,
}

impl Pool {
    /// A pool of blocks of `size` bytes.
    pub fn new(size: usize) -> Self {
        Self { free: Arc::default(), size }
    }

    /// The size of its blocks.
    pub fn size(&self) -> usize {
        self.size
    }

    /// A block of `len` bytes, whatever they are.
    pub fn take(&self, len: usize) -> Piece {
        let fits = len <= self.size;
        let free = if fits { self.free.lock().pop() } else { None };
        let buffer = free.unwrap_or_else(|| Buffer::new(len.max(self.size)));
        Piece { buffer: Some(buffer), len, pool: self.clone() }
    }
}

impl Piece {
    /// Its bytes, those that are used.
    pub fn bytes(&self) -> &[u8] {
        self.buffer.as_deref().map_or(&[], |b| &b[..self.len])
    }

    /// Its bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let len = self.len;
        self.buffer.as_deref_mut().map_or(&mut [], |b| &mut b[..len])
    }

    /// Cuts it.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take().filter(|b| b.len() == self.pool.size) {
            self.pool.free.lock().push(buffer);
        }
    }
}

/// What a member is told to do.
pub(super) enum Order {
    /// Begin the segment of that number.
    Begin(SegmentNumber),
    /// The catalog comes next.
    Catalog,
    /// Append a block.
    Write(Arc<Piece>),
    /// End the segment, and say so.
    End,
    /// Make what was ended durable, and say so.
    Commit,
    /// Drop the segment that was begun, and say so.
    Abandon,
    /// Note what the tape drives did, and say so.
    Report,
}

/// A member while it is written to.
pub(super) struct Member {
    /// Its device, as people name it.
    pub name: String,
    /// Its medium ends soon.
    pub ending: Arc<AtomicBool>,
    orders: Option<SyncSender<Order>>,
    done: Receiver<()>,
    noted: Arc<Noted>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread leaves behind.
#[derive(Default)]
struct Noted {
    failure: Mutex<Option<DeviceError>>,
    drives: Mutex<Vec<DriveSession>>,
}

impl Member {
    /// Starts the thread that writes to a device.
    pub fn start(
        name: String,
        device: Box<dyn Device>,
        block_size: usize,
    ) -> Result<Self, NoThread> {
        let depth = (QUEUE_BYTES / block_size.max(1)).max(2);
        let (orders, queue) = sync_channel(depth);
        let (say_done, done) = channel();
        let noted = Arc::<Noted>::default();
        let ending = Arc::new(AtomicBool::new(device.is_ending()));
        let (notes, ends) = (noted.clone(), ending.clone());
        let thread = threads::start("member of an array", move || {
            if let Err(e) = serve(device, &queue, &say_done, &ends, &notes) {
                *notes.failure.lock() = Some(e);
            }
        })?;
        Ok(Self { name, ending, orders: Some(orders), done, noted, thread: Some(thread) })
    }

    /// Tells it to do something, and waits while its queue is full. `false` if it has failed.
    pub fn tell(&self, order: Order) -> bool {
        self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok())
    }

    /// Waits until it has done what it was told last. `false` if it has failed.
    pub fn wait(&self) -> bool {
        self.done.recv().is_ok()
    }

    /// What its tape drives did since they were opened; nothing if it has failed.
    pub fn drives(&self) -> Vec<DriveSession> {
        if self.tell(Order::Report) {
            self.wait();
        }
        std::mem::take(&mut *self.noted.drives.lock())
    }

    /// Stops it; returns why it failed, if it did, and what its tape drives did until then.
    pub fn stop(mut self) -> (Option<DeviceError>, Vec<DriveSession>) {
        self.join();
        let failure = self.noted.failure.lock().take();
        (failure, std::mem::take(&mut *self.noted.drives.lock()))
    }

    fn join(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            let source = std::io::Error::other("the thread that writes to it ended by a panic");
            let failure =
                DeviceError::Io { action: "write to".into(), path: self.name.clone(), source };
            self.noted.failure.lock().get_or_insert(failure);
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.join();
    }
}

/// Does what is ordered until nobody orders any more, or something fails; then the device is let go.
fn serve(
    mut device: Box<dyn Device>,
    orders: &Receiver<Order>,
    done: &Sender<()>,
    ending: &AtomicBool,
    noted: &Noted,
) -> Result<(), DeviceError> {
    while let Ok(order) = orders.recv() {
        let answer = matches!(order, Order::End | Order::Commit | Order::Abandon | Order::Report);
        let result = match order {
            Order::Begin(number) => begin(&mut *device, number),
            Order::Catalog => device.begin_catalog(),
            Order::Write(piece) => device.write(piece.bytes()),
            Order::End => device.end_segment(),
            Order::Commit => device.commit(),
            Order::Abandon => {
                device.abandon_segment();
                Ok(())
            }
            Order::Report => {
                *noted.drives.lock() = device.drive_sessions();
                Ok(())
            }
        };
        if let Err(e) = result {
            device.abandon_segment();
            *noted.drives.lock() = device.drive_sessions();
            return Err(e);
        }
        ending.store(device.is_ending(), Relaxed);
        if answer {
            // Nobody waits any more: the array is let go.
            let _ = done.send(());
        }
    }
    Ok(())
}

/// Begins the segment of that number, which all members give it.
fn begin(device: &mut dyn Device, number: SegmentNumber) -> Result<(), DeviceError> {
    device.advance(number);
    let given = device.begin_segment()?;
    match given == number {
        true => Ok(()),
        false => Err(DeviceError::ArrayOutOfStep { given, number }),
    }
}
