//! Writing a session to a device: takes whole blocks from its streams, stamps their place, writes them, and at each
//! segment's end writes its catalog and commits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use capstan_devices::{Device, DeviceError};
use capstan_engine::entropy::Entropy;
use capstan_engine::link::{BlockPort, FilledBlock, Grant, LinkClosed, SegmentOrdinal};
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_engine::queue::{Queue, Taken};
use capstan_format::FormatError;
use capstan_format::block::{BLOCK_ALIGN, BlockKind, MaHeader};
use capstan_format::id::{BlockIndex, SegmentId, SegmentNumber, StreamId};
use capstan_format::index::FramePlace;
use capstan_format::record::{
    MediumHeader, SegmentEnd, SegmentHeader, SessionEnd, SessionLabel, StreamExtent, encode_record,
};

use crate::catalog::CatalogBuilder;
use crate::grants::{Grants, Limits};

/// Catalog bytes after which a segment ends, by default: 1 MiB, some 50,000 small files. A catalog is held in memory
/// while its segment is written and read; smaller ones cost more commits.
pub const CATALOG_LIMIT_DEFAULT: u64 = 1 << 20;

/// Why a session's writing ended early.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The device failed.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A record could not be encoded.
    #[error("cannot encode a record of the segment: {0}")]
    Format(#[from] FormatError),
    /// The catalog's end record could not be encoded.
    #[error("cannot encode the segment's end record: {0}")]
    Json(#[from] serde_json::Error),
    /// The operating system gave no randomness.
    #[error("cannot draw a segment's id: {0}")]
    Entropy(#[source] std::io::Error),
    /// The internal database did not take a commit.
    #[error("{0}")]
    Commit(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The writing thread ended without a word.
    #[error(
        "the media agent's thread ended unexpectedly; this is a fault of capstan, please report it"
    )]
    Thread,
}

/// What a writer needs to know.
pub struct WriterOptions {
    /// The medium.
    pub medium: MediumHeader,
    /// The session, in clear.
    pub session: SessionLabel,
    /// The session's wrapped keys.
    pub keys: Vec<serde_json::Value>,
    /// Bytes after which a segment ends.
    pub segment_size: u64,
    /// Bytes of catalog after which a segment ends.
    pub catalog_limit: u64,
    /// Time after which a segment ends although it is small, so that a slow source is committed too.
    pub segment_time: Duration,
    /// Block buffers in all.
    pub buffers: usize,
    /// Now, in microseconds since 1970.
    pub now_us: fn() -> i64,
}

/// A segment that is durable on its medium.
pub struct Committed {
    /// The segment's begin.
    pub header: SegmentHeader,
    /// The segment's end.
    pub end: SegmentEnd,
    /// Its bytes on the medium.
    pub bytes: u64,
    /// The catalog's frames.
    pub catalog: Vec<u8>,
}

/// Records a commit where sessions are recorded. Called after the medium is durable and before anybody is told.
pub type OnCommit =
    dyn FnMut(&Committed) -> Result<(), Box<dyn std::error::Error + Send + Sync>> + Send;

enum Message {
    Block(FilledBlock),
    /// Look again whether the segment is complete.
    Poke,
    /// All streams have ended; with the session's end, if it ended well.
    Finish(Option<SessionEnd>),
}

struct Shared {
    grants: Grants,
    queue: Queue<Message>,
    meters: Arc<Meters>,
}

/// The disk agents' end of a writer.
#[derive(Clone)]
pub struct Port(Arc<Shared>);

/// A session being written.
pub struct Writer {
    shared: Arc<Shared>,
    thread: JoinHandle<Result<Written, WriteError>>,
}

/// What was written.
#[derive(Debug, Default, Clone)]
pub struct Written {
    /// Bytes on the medium, all included.
    pub bytes: u64,
    /// Segments.
    pub segments: Vec<SegmentNumber>,
}

impl Writer {
    /// Starts the writing thread.
    pub fn start(
        device: Box<dyn Device>,
        options: WriterOptions,
        entropy: Arc<Entropy>,
        meters: Arc<Meters>,
        on_commit: Box<OnCommit>,
    ) -> Self {
        let block_size = options.medium.block_size as usize;
        let limits = Limits {
            block_size,
            blocks: u32::try_from(options.segment_size / block_size as u64)
                .unwrap_or(u32::MAX / 2)
                .clamp(1, u32::MAX / 2),
            catalog: options.catalog_limit,
            buffers: options.buffers.max(2),
        };
        let shared = Arc::new(Shared {
            queue: Queue::new(limits.buffers * 2 + 256),
            grants: Grants::new(limits),
            meters,
        });
        let state = Thread {
            shared: shared.clone(),
            device,
            options,
            entropy,
            on_commit,
            open: None,
            current: 0,
            ahead: Vec::new(),
            written: Written::default(),
        };
        let thread = std::thread::spawn(move || state.run());
        Self { shared, thread }
    }

    /// The end that disk agents use.
    pub fn port(&self) -> Port {
        Port(self.shared.clone())
    }

    /// Lets the current segment end and be committed soon.
    pub fn commit_soon(&self) {
        self.shared.grants.close_current();
        let _ = self.shared.queue.give(Message::Poke);
    }

    /// Ends the session: what is left is written and committed, with the session's end record if there is one. All
    /// streams have been closed.
    pub fn finish(self, end: Option<SessionEnd>) -> Result<Written, WriteError> {
        let _ = self.shared.queue.give(Message::Finish(end));
        self.thread.join().unwrap_or(Err(WriteError::Thread))
    }
}

impl BlockPort for Port {
    fn block_size(&self) -> usize {
        self.0.grants.limits().block_size
    }
    fn open_stream(&self, stream: StreamId) {
        self.0.grants.open_stream(stream);
    }
    fn grant(&self, stream: StreamId) -> Result<Grant, LinkClosed> {
        self.0.grants.grant(stream)
    }
    fn grant_more(&self, _: StreamId, segment: SegmentOrdinal) -> Result<Grant, LinkClosed> {
        self.0.grants.grant_more(segment)
    }
    fn submit(&self, block: FilledBlock) -> Result<(), LinkClosed> {
        let catalog = block.notes.copies.iter().map(|c| c.len() as u64).sum();
        self.0.grants.filled(block.stream, block.segment, catalog, block.ends_segment)?;
        self.0.queue.give(Message::Block(block)).map(|_| ()).map_err(|_| LinkClosed)
    }
    fn give_back(&self, stream: StreamId, grant: Grant) {
        self.0.grants.leave(stream);
        self.0.grants.release(grant.segment, grant.buffer);
        let _ = self.0.queue.give(Message::Poke);
    }
    fn is_closing(&self, segment: SegmentOrdinal) -> bool {
        self.0.grants.is_closing(segment)
    }
    fn leave_segment(&self, stream: StreamId) {
        self.0.grants.leave(stream);
        let _ = self.0.queue.give(Message::Poke);
    }
    fn close_stream(&self, stream: StreamId) {
        self.0.grants.close_stream(stream);
        let _ = self.0.queue.give(Message::Poke);
    }
}

/// The segment being written.
struct OpenSegment {
    header: SegmentHeader,
    catalog: CatalogBuilder,
    streams: BTreeMap<StreamId, (StreamExtent, Vec<FramePlace>)>,
    short_blocks: Vec<(u32, u32)>,
    next_index: u32,
    bytes: u64,
    begun: Instant,
}

struct Thread {
    shared: Arc<Shared>,
    device: Box<dyn Device>,
    options: WriterOptions,
    entropy: Arc<Entropy>,
    on_commit: Box<OnCommit>,
    open: Option<OpenSegment>,
    /// Ordinal of the segment being written.
    current: u32,
    /// Blocks of later segments that came early.
    ahead: Vec<FilledBlock>,
    written: Written,
}

impl Thread {
    fn run(mut self) -> Result<Written, WriteError> {
        let result = self.work();
        if result.is_err() {
            self.device.abandon_segment();
        }
        self.shared.grants.fail();
        self.shared.queue.close();
        result.map(|()| self.written)
    }

    fn work(&mut self) -> Result<(), WriteError> {
        let shared = self.shared.clone();
        let mut finish = None;
        loop {
            let mut waited = Duration::ZERO;
            let message = shared.queue.take_within(Duration::from_millis(500), &mut waited);
            shared.meters.of(Stage::Device).wait_in(waited);
            match message {
                Taken::Item(Message::Block(block)) if block.segment.0 == self.current => {
                    self.write(block)?;
                }
                Taken::Item(Message::Block(block)) => self.ahead.push(block),
                Taken::Item(Message::Finish(end)) => finish = Some(end),
                Taken::Item(Message::Poke) => {}
                Taken::Nothing => {}
                Taken::Closed => return Err(WriteError::Thread),
            }
            let age = self.open.as_ref().map_or(Duration::ZERO, |o| o.begun.elapsed());
            if age >= self.options.segment_time {
                shared.grants.close_current();
            }
            while shared.grants.is_complete() {
                self.end_segment(None)?;
                self.take_ahead()?;
            }
            if finish.is_some() && self.ahead.is_empty() && shared.grants.is_drained() {
                break;
            }
        }
        let end = finish.flatten();
        if self.open.is_some() || end.is_some() {
            self.end_segment(end)?;
        }
        Ok(())
    }

    /// The next segment is current: writes what came early for it.
    fn take_ahead(&mut self) -> Result<(), WriteError> {
        let (now, later) = std::mem::take(&mut self.ahead)
            .into_iter()
            .partition(|b: &FilledBlock| b.segment.0 == self.current);
        self.ahead = later;
        now.into_iter().try_for_each(|b| self.write(b))
    }

    fn begin(&mut self) -> Result<&mut OpenSegment, WriteError> {
        if self.open.is_none() {
            let number = self.device.begin_segment()?;
            let segment = SegmentId(self.entropy.id().map_err(WriteError::Entropy)?);
            let header = SegmentHeader {
                medium: self.options.medium.clone(),
                segment,
                number,
                session: self.options.session.clone(),
                keys: self.options.keys.clone(),
                written_us: (self.options.now_us)(),
            };
            let length = if self.device.short_blocks() {
                BLOCK_ALIGN
            } else {
                self.options.medium.block_size as usize
            };
            let block =
                encode_record(BlockKind::SegmentHeader, segment, BlockIndex(0), &header, length)?;
            self.device.write(&block)?;
            self.open = Some(OpenSegment {
                catalog: CatalogBuilder::new(&header)?,
                header,
                streams: BTreeMap::new(),
                short_blocks: if block.len() == self.options.medium.block_size as usize {
                    Vec::new()
                } else {
                    vec![(0, block.len() as u32)]
                },
                next_index: 1,
                bytes: block.len() as u64,
                begun: Instant::now(),
            });
        }
        self.open.as_mut().ok_or(WriteError::Thread)
    }

    fn write(&mut self, mut block: FilledBlock) -> Result<(), WriteError> {
        let mut lap = Lap::start();
        let short = self.device.short_blocks();
        let version = self.options.session.version;
        let open = self.begin()?;
        let index = open.next_index;
        open.next_index += 1;
        let full = block.buffer.len() as u32;
        let length = if short && block.ends_segment { block.short_len } else { full };
        if length != full {
            open.short_blocks.push((index, length));
        }
        let ma = MaHeader {
            kind: BlockKind::Data,
            segment: open.header.segment,
            index: BlockIndex(index),
            length,
        };
        ma.encode(&mut block.buffer);
        let notes = &block.notes;
        let (extent, places) = open.streams.entry(block.stream).or_insert_with(|| {
            let first = notes.frames.first();
            let extent = StreamExtent {
                stream: block.stream,
                version,
                logical_start: first.map_or(0, |f| f.logical),
                logical_end: 0,
                first_sequence: first.map_or(0, |f| f.sequence),
                frames: 0,
                rows: 0,
            };
            (extent, Vec::new())
        });
        extent.logical_end = notes.logical_end;
        extent.frames += notes.frames.len() as u64;
        extent.rows += notes.rows;
        places.extend(notes.frames.iter().map(|f| FramePlace {
            logical_frame: f.logical_frame,
            sequence: f.sequence,
            logical: f.logical,
            block: BlockIndex(index),
            byte: f.byte,
        }));
        for copy in &notes.copies {
            open.catalog.copy(block.stream, copy);
        }
        open.bytes += u64::from(length);
        let meter = self.shared.meters.of(Stage::Device);
        self.device.write(&block.buffer[..length as usize])?;
        meter.bytes(length.into());
        lap.busy(meter);
        self.shared.grants.release(block.segment, block.buffer);
        Ok(())
    }

    fn end_segment(&mut self, session_end: Option<SessionEnd>) -> Result<(), WriteError> {
        let mut lap = Lap::start();
        self.begin()?;
        let Some(mut open) = self.open.take() else { return Err(WriteError::Thread) };
        let (segment, number) = (open.header.segment, open.header.number);
        let short = self.device.short_blocks();
        let block_size = self.options.medium.block_size as usize;
        let data_blocks = open.next_index - 1;
        let catalog_at = open.bytes;
        for (stream, (_, places)) in &open.streams {
            open.catalog.index(*stream, places);
        }
        let session_end =
            session_end.map(|e| SessionEnd { bytes_written: self.written.bytes, ..e });
        let mut end = SegmentEnd {
            segment,
            number,
            session: self.options.session.session,
            data_blocks,
            blocks: 0,
            catalog_at,
            short_blocks: open.short_blocks,
            streams: open.streams.into_values().map(|(extent, _)| extent).collect(),
            session_end,
            written_us: (self.options.now_us)(),
        };
        let catalog = open.catalog.finish(&end)?;
        let mut bytes = open.bytes;
        let mut index = BlockIndex(open.next_index);
        let device = &mut self.device;
        catalog.write_blocks(segment, index, block_size, short, |block| {
            index.0 += 1;
            bytes += block.len() as u64;
            device.write(block)
        })?;
        end.blocks = index.0 + 1;
        let length = if short { BLOCK_ALIGN } else { block_size };
        let block = encode_record(BlockKind::SegmentEnd, segment, index, &end, length)?;
        device.write(&block)?;
        bytes += block.len() as u64;
        device.end_segment()?;
        device.commit()?;
        lap.busy(self.shared.meters.of(Stage::Device));
        self.written.bytes += bytes;
        self.written.segments.push(number);
        let committed =
            Committed { header: open.header, end, bytes, catalog: catalog.into_frames() };
        (self.on_commit)(&committed).map_err(WriteError::Commit)?;
        lap.busy(self.shared.meters.of(Stage::Cell));
        self.current += 1;
        self.shared.grants.next_segment();
        Ok(())
    }
}

/// Buffers that a writer with `streams` streams needs at least, so that reading and writing overlap.
pub fn default_buffers(streams: usize) -> usize {
    2 * streams + 4
}
