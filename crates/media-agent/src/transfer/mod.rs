//! Writing frames that exist already, as they are: they are cut into blocks anew, stream by stream, segment by segment.
//!
//! Who brings the frames works beside a thread that writes; whole blocks go one way, empty buffers the other. Frames are brought by
//! [`copy`], of whole segments, and by [`pass`], of a consolidation.

mod copy;
pub mod pass;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use capstan_engine::buffer::Buffer;
use capstan_engine::entropy::Entropy;
use capstan_engine::frames::Lack;
use capstan_engine::link::{BlockNotes, FilledBlock, FrameNote, LinkClosed, SegmentOrdinal};
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_engine::queue::Queue;
use capstan_engine::threads::{self, NoThread};
use capstan_format::block::{BLOCK_ALIGN, DaHeader, NO_FRAME, PAYLOAD_AT};
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader, MIN_ROOM, padded};
use capstan_format::id::{SessionId, StreamId};
use capstan_format::record::{Lacks, SessionEnd, SessionEnds};

use crate::write::mirror::Mirrors;
use crate::write::segment::SegmentWriter;
use capstan_port::media::transfer::TransferOptions;
use capstan_port::media::write::committed::{Committed, OnCommit, Written};
use capstan_port::media::write::error::WriteError;
use capstan_port::media::write::heading::{Heading, Owner};
use capstan_port::media::write::members::{Drives, LostMirrors, Member};
use capstan_port::media::write::options::NextMedia;

/// Block buffers: some are filled while others are written.
const BUFFERS: usize = 6;
/// Most buffers, where several streams are filled at a time.
const BUFFERS_MAX: usize = 256;

/// What the writing thread is told.
enum Order {
    Begin(Box<Heading>),
    Block(FilledBlock, Owner),
    End(SessionEnds, Option<i64>, Lacks),
}

/// Closes the queues when the thread ends that serves them, also by a panic: whoever waits for it learns that.
struct Closing<'a>(&'a Queue<Order>, &'a Queue<Buffer>);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        self.0.close();
        self.1.close();
    }
}

/// Segments being written from frames that exist. One that is dropped without [`Self::finish`] is given up, and the media are
/// let go.
pub struct Transfer {
    orders: Arc<Queue<Order>>,
    free: Arc<Queue<Buffer>>,
    block_size: usize,
    /// Buffers that there are.
    buffers: AtomicUsize,
    meters: Arc<Meters>,
    now_us: fn() -> i64,
    /// Segments that were begun.
    begun: AtomicUsize,
    /// The last of them in which a medium warned that it ends soon, counted from 1.
    ending: Arc<AtomicUsize>,
    lost: LostMirrors,
    drives: Drives,
    /// Or why there is none.
    thread: Option<Result<JoinHandle<Result<(Vec<Member>, Written), WriteError>>, WriteError>>,
}

impl Transfer {
    /// Starts the writing thread; all media have the same block size. `next_media` gives those on which it goes on when one
    /// ends.
    pub fn start(members: Vec<Member>, entropy: Arc<Entropy>, options: TransferOptions) -> Self {
        let TransferOptions { meters, now_us, next_media, on_commit } = options;
        let block_size = members.first().map_or(0, |m| m.medium.block_size as usize);
        let orders = Arc::new(Queue::new(BUFFERS));
        let free = Arc::new(Queue::new(BUFFERS_MAX));
        for _ in 0..BUFFERS {
            let _ = free.give(Buffer::new(block_size));
        }
        let mirrors = Mirrors::new(members);
        let (lost, drives) = (mirrors.lost.clone(), mirrors.drives.clone());
        let writer = SegmentWriter::new(mirrors, entropy, meters.clone(), now_us);
        let ending = Arc::<AtomicUsize>::default();
        let started = threads::start("media agent", {
            let (orders, free, meters) = (orders.clone(), free.clone(), meters.clone());
            let ending = ending.clone();
            move || run(writer, &orders, &free, &meters, &ending, next_media, on_commit)
        });
        // Without a thread nothing is taken, and the end says why.
        let closed = |_: &NoThread| drop(Closing(&orders, &free));
        let thread = started.inspect_err(closed).map_err(WriteError::from);
        let buffers = AtomicUsize::new(BUFFERS);
        let (begun, thread) = (AtomicUsize::new(0), Some(thread));
        Self {
            orders,
            free,
            block_size,
            buffers,
            meters,
            now_us,
            begun,
            ending,
            lost,
            drives,
            thread,
        }
    }

    /// Mirrors that failed and were left.
    pub fn lost_mirrors(&self) -> LostMirrors {
        self.lost.clone()
    }

    /// What the tape drives did that were written to, one for each tape; whole when the transfer has finished.
    pub fn drives(&self) -> Drives {
        self.drives.clone()
    }

    /// Whether a medium warned in the segment that is open that it ends soon: it has little room left, and the next one goes on on
    /// another medium.
    pub fn is_ending(&self) -> bool {
        let begun = self.begun.load(Relaxed);
        begun > 0 && self.ending.load(Relaxed) == begun
    }

    /// Begins a segment.
    pub fn begin(&self, heading: Heading) -> Result<(), LinkClosed> {
        self.begun.fetch_add(1, Relaxed);
        self.order(Order::Begin(Box::new(heading)))
    }

    /// Makes room for so many streams that are filled at a time: each has a block in hand.
    pub fn widen(&self, streams: usize) {
        let wanted = (2 * streams + BUFFERS).min(BUFFERS_MAX);
        let there = self.buffers.fetch_max(wanted, Relaxed);
        for _ in there..wanted {
            let _ = self.free.give(Buffer::new(self.block_size));
        }
    }

    /// Begins a stream's part of the segment. `position` is what the stream's earlier parts have of bytes, `rows` are those
    /// of its batches here.
    pub fn stream(&self, stream: StreamId, owner: Owner, position: u64, rows: u64) -> Cutter<'_> {
        Cutter { transfer: self, stream, owner, position, rows, logical: 0, block: None }
    }

    /// Ends the segment: it will be durable and recorded.
    pub fn end(
        &self,
        ends: impl Into<SessionEnds>,
        written_us: Option<i64>,
    ) -> Result<(), LinkClosed> {
        self.end_copy(ends, written_us, Lacks::default())
    }

    /// The same of a copy that lacks that of its original.
    pub fn end_copy(
        &self,
        ends: impl Into<SessionEnds>,
        written_us: Option<i64>,
        lacks: Lacks,
    ) -> Result<(), LinkClosed> {
        self.order(Order::End(ends.into(), written_us, lacks))
    }

    /// Waits until all is written; gives the media back, and what was written. A segment that was not ended is dropped.
    pub fn finish(mut self) -> Result<(Vec<Member>, Written), WriteError> {
        self.orders.close();
        let thread = self.thread.take().unwrap_or(Err(WriteError::Thread))?;
        thread.join().unwrap_or(Err(WriteError::Thread))
    }

    fn order(&self, order: Order) -> Result<(), LinkClosed> {
        self.orders.give(order).map(drop).map_err(|_| LinkClosed)
    }

    fn buffer(&self) -> Result<Buffer, LinkClosed> {
        let mut waited = Duration::ZERO;
        let buffer = self.free.take(&mut waited);
        self.meters.of(Stage::Source).wait_out(waited);
        buffer.ok_or(LinkClosed)
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.orders.close();
        if let Some(Ok(thread)) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Of two reasons for places of the same data the one that is told: that a medium is not to be had now comes before what others lack,
/// as the data may be there.
fn told(known: Lack, next: Option<Lack>) -> Lack {
    let is_away = |lack: &Lack| matches!(lack, Lack::Away { .. });
    match next {
        Some(next) if !is_away(&known) && is_away(&next) => next,
        _ => known,
    }
}

/// The writing thread.
fn run(
    mut writer: SegmentWriter,
    orders: &Queue<Order>,
    free: &Queue<Buffer>,
    meters: &Meters,
    ending: &AtomicUsize,
    mut next_media: Option<Box<NextMedia>>,
    mut on_commit: Box<OnCommit>,
) -> Result<(Vec<Member>, Written), WriteError> {
    let closing = Closing(orders, free);
    let mut written = Written::default();
    // Bytes of the segments of each session, and of which session the open one is: a copy brings those of several.
    let mut of_sessions: HashMap<SessionId, u64> = HashMap::new();
    let mut session = None;
    let mut record = |committed: &[Committed]| -> Result<(), WriteError> {
        let mut lap = Lap::start();
        for segment in committed {
            on_commit(segment).map_err(WriteError::Commit)?;
        }
        lap.busy(meters.of(Stage::Cell));
        Ok(())
    };
    let mut one = |order: Order, writer: &mut SegmentWriter| -> Result<(), WriteError> {
        match order {
            Order::Begin(heading) => {
                if writer.is_ending()
                    && let Some(next) = &mut next_media
                {
                    writer.change(next, &mut record)?;
                }
                session = Some(heading.session.session);
                writer.begin(*heading)
            }
            Order::Block(mut block, owner) => {
                writer.write(&mut block, owner)?;
                let _ = free.give(block.buffer);
                record(&writer.commit_before_end()?)
            }
            Order::End(ends, written_us, lacks) => {
                let before = session.map(|session| of_sessions.entry(session).or_default());
                let bytes_written = before.as_deref().copied().unwrap_or(0);
                let own = ends.own.map(|e| SessionEnd { bytes_written, ..e });
                let ended = writer.end_copy(SessionEnds { own, ..ends }, written_us, lacks)?;
                before.into_iter().for_each(|before| *before += ended.bytes);
                written.bytes += ended.bytes;
                written.segments.push(ended.number);
                record(&ended.committed)
            }
        }
    };
    let mut result = Ok(());
    let mut begun = 0;
    let mut waited = Duration::ZERO;
    while let Some(order) = orders.take(&mut waited) {
        meters.of(Stage::Device).wait_in(std::mem::take(&mut waited));
        begun += usize::from(matches!(order, Order::Begin(_)));
        result = one(order, &mut writer);
        if result.is_err() {
            break;
        }
        if writer.is_ending() {
            ending.store(begun, Relaxed);
        }
    }
    // Whoever brings more learns that nothing is taken.
    drop(closing);
    if result.is_ok() {
        result = writer.commit().and_then(|committed| record(&committed));
    }
    if let Err(failure) = &result {
        let saved = writer.salvage(failure);
        // What cannot be recorded is found when the medium is written next.
        let _ = record(&saved);
    }
    writer.abandon();
    result.map(|()| (writer.into_members(), written))
}

/// A block being filled.
struct OpenBlock {
    buffer: Buffer,
    used: usize,
    first_frame: u32,
    notes: BlockNotes,
}

/// Cuts a stream's frames into blocks. One that is dropped gives its buffer back, so that others do not wait for it in vain.
pub struct Cutter<'a> {
    transfer: &'a Transfer,
    stream: StreamId,
    owner: Owner,
    position: u64,
    /// Rows that no block was said to have yet.
    rows: u64,
    logical: u64,
    block: Option<OpenBlock>,
}

impl Drop for Cutter<'_> {
    fn drop(&mut self) {
        if let Some(open) = self.block.take() {
            let _ = self.transfer.free.give(open.buffer);
        }
    }
}

impl Cutter<'_> {
    /// Adds the stream's next frame, as it is stored.
    pub fn frame(&mut self, header: &FrameHeader, stored: &[u8]) -> Result<(), LinkClosed> {
        let room = self.block.as_ref().map_or(0, |b| b.buffer.len() - PAYLOAD_AT - b.used);
        if padded(FRAME_HEADER_LEN + stored.len()) > room && room < MIN_ROOM {
            self.submit(false)?;
        }
        let stream = self.stream;
        let b = self.open()?;
        if b.first_frame == NO_FRAME {
            b.first_frame = b.used as u32;
        }
        b.notes.frames.push(FrameNote {
            logical_frame: header.frame_type.is_logical(),
            sequence: header.sequence,
            logical: header.logical,
            byte: b.used as u32,
        });
        let at = PAYLOAD_AT + b.used;
        header.encode(stream, &mut b.buffer[at..]);
        b.used += FRAME_HEADER_LEN;
        self.logical = header.logical.saturating_add(header.logical_len());
        let mut rest = stored;
        loop {
            let b = self.open()?;
            let room = b.buffer.len() - PAYLOAD_AT - b.used;
            let (now, later) = rest.split_at(rest.len().min(room));
            let at = PAYLOAD_AT + b.used;
            b.buffer[at..at + now.len()].copy_from_slice(now);
            b.used += now.len();
            rest = later;
            if rest.is_empty() {
                break;
            }
            self.submit(false)?;
        }
        let is_meta = header.frame_type.is_metadata();
        let rows = if is_meta { std::mem::take(&mut self.rows) } else { 0 };
        let b = self.open()?;
        // A frame's padding never crosses a block: payloads of blocks are multiples of the alignment.
        let end = padded(b.used);
        b.buffer[PAYLOAD_AT + b.used..PAYLOAD_AT + end].fill(0);
        b.used = end;
        b.notes.rows += rows;
        if is_meta {
            let mut copy = vec![0; FRAME_HEADER_LEN];
            header.encode(stream, &mut copy);
            copy.extend_from_slice(stored);
            b.notes.copies.push(copy);
        }
        Ok(())
    }

    /// Ends the stream's part of the segment. Returns what its parts have of bytes.
    pub fn finish(mut self) -> Result<u64, LinkClosed> {
        self.submit(true)?;
        Ok(self.position)
    }

    fn open(&mut self) -> Result<&mut OpenBlock, LinkClosed> {
        let transfer = self.transfer;
        match &mut self.block {
            Some(_) => {}
            none => {
                *none = Some(OpenBlock {
                    buffer: transfer.buffer()?,
                    used: 0,
                    first_frame: NO_FRAME,
                    notes: BlockNotes::default(),
                });
            }
        }
        self.block.as_mut().ok_or(LinkClosed)
    }

    fn submit(&mut self, ends_segment: bool) -> Result<(), LinkClosed> {
        let Some(mut b) = self.block.take() else { return Ok(()) };
        let end = PAYLOAD_AT + b.used;
        b.buffer[end..].fill(0);
        let header = DaHeader {
            stream: self.stream,
            position: self.position,
            used: b.used as u32,
            first_frame: b.first_frame,
        };
        header.encode(&mut b.buffer);
        // What a medium claims may be near the end of all numbers.
        self.position = self.position.wrapping_add(b.used as u64);
        b.notes.logical_end = self.logical;
        let block = FilledBlock {
            short_len: end.next_multiple_of(BLOCK_ALIGN) as u32,
            buffer: b.buffer,
            stream: self.stream,
            segment: SegmentOrdinal(0),
            ends_segment,
            notes: b.notes,
        };
        self.transfer.order(Order::Block(block, self.owner))
    }
}
