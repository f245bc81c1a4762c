//! Multiplexing: blocks of several streams become segments on one device, each with its catalog and its commit.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use capstan_devices::Device;
use capstan_engine::entropy::Entropy;
use capstan_engine::link::FilledBlock;
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::block::{BLOCK_ALIGN, BlockKind, MaHeader};
use capstan_format::id::{BlockIndex, SegmentId, StreamId};
use capstan_format::index::FramePlace;
use capstan_format::record::{SegmentEnd, SegmentHeader, SessionEnd, StreamExtent, encode_record};

use crate::catalog::CatalogBuilder;
use crate::grants::Grants;
use crate::writer::{Committed, OnCommit, WriteError, WriterOptions, Written};

/// What a multiplexer is told.
pub(crate) enum Message {
    Block(FilledBlock),
    /// Look again whether the segment is complete.
    Poke,
    /// All streams have ended; with the session's end, if it ended well.
    Finish(Option<SessionEnd>),
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

/// Writes a session's blocks to a device.
pub(crate) struct Multiplexer {
    grants: Arc<Grants>,
    meters: Arc<Meters>,
    device: Box<dyn Device>,
    options: WriterOptions,
    entropy: Arc<Entropy>,
    on_commit: Box<OnCommit>,
    open: Option<OpenSegment>,
    /// Ordinal of the segment being written.
    current: u32,
    /// Blocks of later segments that came early.
    ahead: Vec<FilledBlock>,
    finish: Option<Option<SessionEnd>>,
    written: Written,
}

impl Multiplexer {
    pub fn new(
        grants: Arc<Grants>,
        meters: Arc<Meters>,
        device: Box<dyn Device>,
        options: WriterOptions,
        entropy: Arc<Entropy>,
        on_commit: Box<OnCommit>,
    ) -> Self {
        Self {
            grants,
            meters,
            device,
            options,
            entropy,
            on_commit,
            open: None,
            current: 0,
            ahead: Vec::new(),
            finish: None,
            written: Written::default(),
        }
    }

    /// Takes a message, if there is one, and ends the segments that are complete.
    pub fn take(&mut self, message: Option<Message>) -> Result<(), WriteError> {
        match message {
            Some(Message::Block(block)) if block.segment.0 == self.current => self.write(block)?,
            Some(Message::Block(block)) => self.ahead.push(block),
            Some(Message::Finish(end)) => self.finish = Some(end),
            Some(Message::Poke) | None => {}
        }
        let age = self.open.as_ref().map_or(Duration::ZERO, |o| o.begun.elapsed());
        if age >= self.options.segment_time {
            self.grants.close_current();
        }
        while self.grants.is_complete() {
            self.end_segment(None)?;
            self.take_ahead()?;
        }
        Ok(())
    }

    /// Whether all streams have ended and every block was written.
    pub fn is_finished(&self) -> bool {
        self.finish.is_some() && self.ahead.is_empty() && self.grants.is_drained()
    }

    /// Ends the session: after a failure what was begun is dropped, else it is committed. Nothing is granted afterwards.
    pub fn end(mut self, result: Result<(), WriteError>) -> Result<Written, WriteError> {
        let result = result.and_then(|()| {
            let end = self.finish.take().flatten();
            if self.open.is_some() || end.is_some() { self.end_segment(end) } else { Ok(()) }
        });
        if result.is_err() {
            self.device.abandon_segment();
        }
        self.grants.fail();
        result.map(|()| self.written)
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
        let meter = self.meters.of(Stage::Device);
        self.device.write(&block.buffer[..length as usize])?;
        meter.bytes(length.into());
        lap.busy(meter);
        self.grants.release(block.segment, block.buffer);
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
        lap.busy(self.meters.of(Stage::Device));
        self.written.bytes += bytes;
        self.written.segments.push(number);
        let committed =
            Committed { header: open.header, end, bytes, catalog: catalog.into_frames() };
        (self.on_commit)(&committed).map_err(WriteError::Commit)?;
        lap.busy(self.meters.of(Stage::Cell));
        self.current += 1;
        self.grants.next_segment();
        Ok(())
    }
}
