//! A stream: turns rows and file contents into frames, and frames into blocks that lie on the medium as they are.
//!
//! Contents that are not compressed are read straight into the block; others are gathered, compressed and placed. When
//! the media agent says that a segment ends, the stream ends its frame, says what reading found ([`Outcome`] rows) and
//! starts the next segment with its label and the rows whose data are still to come.
//!
//! [`options`] is what a stream is made with, [`choice`] decides how hard to compress, [`owners`] has the names that rows go with.
//! [`contents`] is the way back: it opens frames.
//!
//! [`Outcome`]: capstan_format::entry::Outcome

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]

mod blocks;
pub mod choice;
pub mod contents;
mod frames;
pub mod options;
pub mod owners;
mod sums;

use std::collections::VecDeque;
use std::sync::Arc;

use capstan_engine::link::{BlockNotes, BlockPort, Grant, LinkClosed, SegmentOrdinal};
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::batch::BatchEncoder;
use capstan_format::block::{BLOCK_ALIGN, PAYLOAD_AT};
use capstan_format::codec::{Codec, Compressor, Method};
use capstan_format::crc::payload_crc;
use capstan_format::entry::Entry;
use capstan_format::frame::{FRAME_HEADER_LEN, FRAME_PLAIN_DEFAULT, FrameHeader, FrameType};

use crate::options::StreamOptions;
use crate::owners::{Named, OwnerNames};

use self::sums::RowSums;

/// Plain bytes after which a batch is closed: 192 KiB, below the most a frame may hold.
const BATCH_BYTES: usize = 192 << 10;
/// Least contents worth opening a frame for in what is left of a block.
const LEAST_DATA: usize = 4096;

/// A block being filled.
struct OpenBlock {
    grant: Grant,
    used: usize,
    first_frame: u32,
    notes: BlockNotes,
    /// Whether anything but labels and continuations was put into it or its segment.
    fresh: bool,
}

/// The data frame being filled.
enum OpenFrame {
    None,
    /// In the block itself, `len` of at most `cap` bytes.
    InBlock {
        len: usize,
        cap: usize,
    },
    /// In `plain`, to be compressed.
    Gathered {
        len: usize,
        method: Method,
    },
}

/// A row whose data are not all written yet.
struct Pending {
    entry: Entry,
    start: u64,
    /// Sequence of the batch frame that it is in.
    batch: u64,
}

/// A stream being written. It is closed at the media agent's when it is dropped, however that comes about; and a media
/// agent's writer is borrowed by its port, so it cannot be waited for while a stream is open.
pub struct StreamWriter<'p> {
    port: Arc<dyn BlockPort + 'p>,
    meters: Arc<Meters>,
    owners: Arc<OwnerNames>,
    options: StreamOptions,
    lap: Lap,
    sequence: u64,
    logical: u64,
    /// Logical offset up to which rows have been sent.
    promised: u64,
    /// Stored bytes in earlier blocks.
    position: u64,
    segment: Option<SegmentOrdinal>,
    block: Option<OpenBlock>,
    frame: OpenFrame,
    frame_max: usize,
    plain: Vec<u8>,
    packed: Vec<u8>,
    batch_plain: Vec<u8>,
    compressor: Compressor,
    batch_compressor: Compressor,
    encoder: BatchEncoder,
    pending: VecDeque<Pending>,
    sums: RowSums,
    /// Of the batch being encoded: rows that promise no data, and checksums of their contents.
    whole: Vec<(u32, u64)>,
    /// Outcomes that wait, each with the logical offset up to which its file's data go.
    outcomes: Vec<(u64, Entry)>,
    /// Whether the port was told that the stream ended.
    is_closed: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Secret {
    Open,
    Names,
    Contents,
}

impl<'p> StreamWriter<'p> {
    /// Opens the stream at the media agent's.
    pub fn open(
        port: Arc<dyn BlockPort + 'p>,
        meters: Arc<Meters>,
        owners: Arc<OwnerNames>,
        options: StreamOptions,
    ) -> Self {
        port.open_stream(options.stream);
        // A frame spans at most two blocks, so that it is known at its begin whether it fits its segment.
        let crc = options.crc;
        let frame_max = FRAME_PLAIN_DEFAULT.min(port.block_size() - BLOCK_ALIGN);
        Self {
            port,
            meters,
            owners,
            options,
            lap: Lap::start(),
            sequence: 0,
            logical: 0,
            promised: 0,
            position: 0,
            segment: None,
            block: None,
            frame: OpenFrame::None,
            frame_max,
            plain: Vec::new(),
            packed: Vec::new(),
            batch_plain: Vec::new(),
            compressor: Compressor::default(),
            batch_compressor: Compressor::default(),
            encoder: BatchEncoder::new(),
            pending: VecDeque::new(),
            sums: RowSums::new(crc),
            whole: Vec::new(),
            outcomes: Vec::new(),
            is_closed: false,
        }
    }

    /// Counts the time since the last mark as work of that stage.
    pub fn mark(&mut self, stage: Stage) {
        self.lap.busy(self.meters.of(stage));
    }

    /// Counts the time since the last mark as waiting for input.
    pub fn mark_wait_in(&mut self) {
        let time = self.lap.split();
        self.meters.of(Stage::Source).wait_in(time);
    }

    /// Sends rows. Exactly the bytes they promise must follow through [`Self::space`] or [`Self::fill`], in order.
    pub fn rows(&mut self, entries: Vec<Entry>) -> Result<(), LinkClosed> {
        self.rows_with_sums(entries.into_iter().map(|entry| (entry, None)))
    }

    /// The same, with the checksums of the contents of rows that promise no data, where they are known.
    pub fn rows_with_sums(
        &mut self,
        rows: impl IntoIterator<Item = (Entry, Option<u64>)>,
    ) -> Result<(), LinkClosed> {
        self.close_frame()?;
        self.send_sums()?;
        // What reading found of a file stands before the row that takes the place of its first one.
        self.send_outcomes()?;
        let mut from = self.promised;
        let mut at = from;
        let mut named = Named::default();
        let mut sent = Vec::new();
        for (entry, sum) in rows {
            named.add(&entry);
            let row = self.encoder.rows() as u32;
            self.encoder.push(&entry);
            let len = entry.logical_len();
            if let Some(sum) = sum.filter(|_| len == 0) {
                self.whole.push((row, sum));
            }
            if len > 0 {
                sent.push((entry, at));
                at += len;
            }
            if self.encoder.bytes() >= BATCH_BYTES {
                self.send_batch(from, &mut named, &mut sent)?;
                from = at;
            }
        }
        if self.encoder.rows() > 0 {
            self.send_batch(from, &mut named, &mut sent)?;
        }
        self.promised = at;
        Ok(())
    }

    fn send_batch(
        &mut self,
        data_at: u64,
        named: &mut Named,
        sent: &mut Vec<(Entry, u64)>,
    ) -> Result<(), LinkClosed> {
        named.put(&self.owners, &mut self.encoder);
        let rows = self.encoder.rows() as u64;
        let mut plain = std::mem::take(&mut self.batch_plain);
        self.encoder.finish(data_at - self.logical, &mut plain);
        let put = self.put_meta(FrameType::Batch, &plain, Secret::Names, rows, false);
        self.batch_plain = plain;
        put?;
        let batch = self.sequence - 1;
        self.sums.whole(batch, std::mem::take(&mut self.whole));
        self.pending.extend(sent.drain(..).map(|(entry, start)| Pending { entry, start, batch }));
        Ok(())
    }

    /// Says what reading found of a row sent before. It goes out in a batch of the segment that has the
    /// end of the file's data.
    pub fn outcome(&mut self, row: Entry) {
        let gathered = match &self.frame {
            OpenFrame::None => 0,
            OpenFrame::InBlock { len, .. } | OpenFrame::Gathered { len, .. } => *len as u64,
        };
        self.outcomes.push((self.logical + gathered, row));
    }

    /// Room for contents: what is put there and [`Self::advance`]d over is stored. Never empty.
    pub fn space(&mut self) -> Result<&mut [u8], LinkClosed> {
        if matches!(self.frame, OpenFrame::None) {
            self.open_frame()?;
        }
        Ok(match (&self.frame, &mut self.block) {
            (OpenFrame::InBlock { len, cap }, Some(b)) => {
                let at = PAYLOAD_AT + b.used + FRAME_HEADER_LEN;
                &mut b.grant.buffer[at + len..at + cap]
            }
            (OpenFrame::Gathered { len, .. }, _) => &mut self.plain[*len..self.frame_max],
            _ => return Err(LinkClosed),
        })
    }

    /// Takes the first `n` bytes of [`Self::space`] as contents.
    pub fn advance(&mut self, n: usize) -> Result<(), LinkClosed> {
        let full = match &mut self.frame {
            OpenFrame::InBlock { len, cap } => {
                *len += n;
                *len >= *cap
            }
            OpenFrame::Gathered { len, .. } => {
                *len += n;
                *len >= self.frame_max
            }
            OpenFrame::None => false,
        };
        if full { self.close_frame() } else { Ok(()) }
    }

    /// Puts `len` bytes of filling in place of contents that could not be read.
    pub fn fill(&mut self, len: u64) -> Result<(), LinkClosed> {
        if len == 0 {
            return Ok(());
        }
        self.close_frame()?;
        self.prepare(FRAME_HEADER_LEN, false, false)?;
        let header = FrameHeader {
            frame_type: FrameType::Fill,
            codec: Codec::None,
            sealed: false,
            sequence: self.sequence,
            logical: self.logical,
            length: len,
            stored: 0,
            payload_crc: Some(payload_crc(self.options.stream, self.sequence, &[])),
        };
        let mut bytes = [0; FRAME_HEADER_LEN];
        header.encode(self.options.stream, &mut bytes);
        self.place(&header, &bytes)?;
        self.sums.advance(&self.pending, self.logical, len, None);
        self.wrote_logical(len);
        Ok(())
    }

    /// Called by a stream that waits for input: lets a segment end that is to end. An error where nothing can be written any more.
    pub fn idle(&mut self) -> Result<(), LinkClosed> {
        if self.port.is_closed() {
            return Err(LinkClosed);
        }
        let stream = self.options.stream;
        if let Some(before) = self.segment.filter(|s| self.port.is_closing(stream, *s)) {
            self.close_frame()?;
            // Closing the frame may already have begun the next segment, which is not to end.
            if self.segment != Some(before) {
                return Ok(());
            }
            if self.block.is_some() {
                self.end_segment()?;
            } else {
                self.port.leave_segment(stream, before);
            }
        }
        Ok(())
    }

    /// Ends the stream: everything is on its way to the medium.
    pub fn finish(mut self) -> Result<(), LinkClosed> {
        self.close_frame()?;
        self.send_outcomes()?;
        self.send_sums()?;
        if self.block.is_some() {
            self.submit(true)?;
        }
        self.mark(Stage::Cpu);
        self.is_closed = true;
        self.port.close_stream(self.options.stream)
    }
}

impl Drop for StreamWriter<'_> {
    fn drop(&mut self) {
        if self.is_closed {
            return;
        }
        if let Some(b) = self.block.take() {
            self.port.give_back(self.options.stream, b.grant);
        }
        // Who gives a stream up knows that not all of it was taken.
        let _ = self.port.close_stream(self.options.stream);
    }
}
