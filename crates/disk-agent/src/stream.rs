//! A stream: turns rows and file contents into frames, and frames into blocks that lie on the medium as they are.
//!
//! Contents that are not compressed are read straight into the block; others are gathered, compressed and placed. When
//! the media agent says that a segment ends, the stream ends its frame, says what reading found ([`Outcome`] rows) and
//! starts the next segment with its label and the rows whose data are still to come.
//!
//! [`Outcome`]: capstan_format::entry::Outcome

use std::collections::VecDeque;
use std::sync::Arc;

use capstan_engine::link::{BlockNotes, BlockPort, FilledBlock, FrameNote, Grant, LinkClosed};
use capstan_engine::link::SegmentOrdinal;
use capstan_engine::meter::{Lap, Meters, Stage};
use capstan_format::batch::BatchEncoder;
use capstan_format::block::{BLOCK_ALIGN, DaHeader, NO_FRAME, PAYLOAD_AT};
use capstan_format::codec::{Codec, Compressor, Method};
use capstan_format::crc::payload_crc;
use capstan_format::entry::{Entry, ExtentKind, Kind};
use capstan_format::frame::{
    FRAME_HEADER_LEN, FRAME_PLAIN_DEFAULT, FrameHeader, FrameType, MIN_ROOM, TAG_LEN, padded,
};
use capstan_format::id::StreamId;
use capstan_format::keys::FrameSealer;

use crate::owners::OwnerNames;
use crate::squeeze::Squeeze;

/// Plain bytes after which a batch is closed: 192 KiB, below the most a frame may hold.
const BATCH_BYTES: usize = 192 << 10;
/// Level for batches: they are small and repeat much.
const BATCH_METHOD: Method = Method::Zstd(3);
/// Least contents worth opening a frame for in what is left of a block.
const LEAST_DATA: usize = 4096;

/// What a stream is made with.
pub struct StreamOptions {
    /// Its identity: new at every run.
    pub stream: StreamId,
    /// The label's JSON, in clear.
    pub label: Vec<u8>,
    /// The names' JSON, secret where the session is encrypted.
    pub names: Vec<u8>,
    /// Sealers of the names and contents keys, where the session is encrypted.
    pub sealers: Option<Sealers>,
    /// Whether payloads of data carry a CRC.
    pub crc: bool,
    /// How to compress.
    pub squeeze: Squeeze,
}

/// The two keys of an encrypted session, made ready for one stream.
pub struct Sealers {
    /// Seals batches and names.
    pub names: FrameSealer,
    /// Seals contents.
    pub contents: FrameSealer,
}

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
    InBlock { len: usize, cap: usize },
    /// In `plain`, to be compressed.
    Gathered { len: usize, method: Method },
}

/// A row whose data are not all written yet.
struct Pending {
    entry: Entry,
    start: u64,
}

/// A stream being written.
pub struct StreamWriter {
    port: Arc<dyn BlockPort>,
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
    /// Outcomes that wait, each with the logical offset up to which its file's data go.
    outcomes: Vec<(u64, Entry)>,
}

#[derive(Clone, Copy, PartialEq)]
enum Secret {
    Open,
    Names,
    Contents,
}

impl StreamWriter {
    /// Opens the stream at the media agent's.
    pub fn open(
        port: Arc<dyn BlockPort>,
        meters: Arc<Meters>,
        owners: Arc<OwnerNames>,
        options: StreamOptions,
    ) -> Self {
        port.open_stream(options.stream);
        // A frame spans at most two blocks, so that it is known at its begin whether it fits its segment.
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
            outcomes: Vec::new(),
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
        self.close_frame()?;
        let mut from = self.promised;
        let mut at = from;
        let mut users: Vec<u32> = Vec::new();
        let mut groups: Vec<u32> = Vec::new();
        let mut sent = Vec::new();
        for entry in entries {
            if entry.kind.is_inode() {
                if !users.contains(&entry.uid) {
                    users.push(entry.uid);
                }
                if !groups.contains(&entry.gid) {
                    groups.push(entry.gid);
                }
            }
            self.encoder.push(&entry);
            let len = entry.logical_len();
            if len > 0 {
                sent.push(Pending { entry, start: at });
                at += len;
            }
            if self.encoder.bytes() >= BATCH_BYTES {
                self.send_batch(from, &mut users, &mut groups)?;
                self.pending.extend(sent.drain(..));
                from = at;
            }
        }
        if self.encoder.rows() > 0 {
            self.send_batch(from, &mut users, &mut groups)?;
        }
        self.pending.extend(sent);
        self.promised = at;
        Ok(())
    }

    fn send_batch(
        &mut self,
        data_at: u64,
        users: &mut Vec<u32>,
        groups: &mut Vec<u32>,
    ) -> Result<(), LinkClosed> {
        for uid in users.drain(..) {
            if let Some(name) = self.owners.user(uid) {
                self.encoder.user(uid, &name);
            }
        }
        for gid in groups.drain(..) {
            if let Some(name) = self.owners.group(gid) {
                self.encoder.group(gid, &name);
            }
        }
        let rows = self.encoder.rows() as u64;
        let mut plain = std::mem::take(&mut self.batch_plain);
        self.encoder.finish(data_at - self.logical, &mut plain);
        let sent = self.put_meta(FrameType::Batch, &plain, Secret::Names, rows, false);
        self.batch_plain = plain;
        sent
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
        self.wrote_logical(len);
        Ok(())
    }

    /// Called by a stream that waits for input: lets a segment end that is to end.
    pub fn idle(&mut self) -> Result<(), LinkClosed> {
        let before = self.segment;
        let closing = before.is_some_and(|s| self.port.is_closing(s));
        if closing {
            self.close_frame()?;
            // Closing the frame may already have begun the next segment, which is not to end.
            if self.segment != before {
                return Ok(());
            }
            if self.block.is_some() {
                self.end_segment()?;
            } else {
                self.port.leave_segment(self.options.stream);
            }
        }
        Ok(())
    }

    /// Ends the stream: everything is on its way to the medium.
    pub fn finish(mut self) -> Result<(), LinkClosed> {
        self.close_frame()?;
        self.send_outcomes()?;
        if self.block.is_some() {
            self.submit(true)?;
        }
        self.mark(Stage::Cpu);
        Ok(())
    }

    fn open_frame(&mut self) -> Result<(), LinkClosed> {
        let method = self.options.squeeze.next();
        if method == Method::Store {
            let overhead = FRAME_HEADER_LEN + self.tag_len();
            self.prepare(overhead + LEAST_DATA, false, false)?;
            let room = self.room() - overhead;
            // Room for the frame's padding is kept by rounding down.
            let cap = (room & !7).min(self.frame_max);
            self.frame = OpenFrame::InBlock { len: 0, cap };
        } else {
            if self.plain.len() < self.frame_max {
                self.plain.resize(self.frame_max, 0);
            }
            self.frame = OpenFrame::Gathered { len: 0, method };
        }
        Ok(())
    }

    fn tag_len(&self) -> usize {
        if self.options.sealers.is_some() { TAG_LEN } else { 0 }
    }

    /// Ends the open data frame, if any.
    fn close_frame(&mut self) -> Result<(), LinkClosed> {
        match std::mem::replace(&mut self.frame, OpenFrame::None) {
            OpenFrame::None | OpenFrame::InBlock { len: 0, .. } => Ok(()),
            OpenFrame::Gathered { len: 0, .. } => Ok(()),
            OpenFrame::InBlock { len, .. } => {
                self.close_in_block(len)
            }
            OpenFrame::Gathered { len, method } => self.close_gathered(len, method),
        }
    }

    fn close_in_block(&mut self, len: usize) -> Result<(), LinkClosed> {
        self.mark(Stage::Source);
        let stream = self.options.stream;
        let tag_len = self.tag_len();
        let mut header = FrameHeader {
            frame_type: FrameType::Data,
            codec: Codec::None,
            sealed: tag_len > 0,
            sequence: self.sequence,
            logical: self.logical,
            length: len as u64,
            stored: (len + tag_len) as u32,
            payload_crc: self.options.crc.then_some(0),
        };
        let Some(b) = &mut self.block else { return Err(LinkClosed) };
        let at = PAYLOAD_AT + b.used;
        let end = at + FRAME_HEADER_LEN + len + tag_len;
        let payload_at = at + FRAME_HEADER_LEN;
        if let Some(sealers) = &self.options.sealers {
            let ad = header.associated_data();
            let buffer = &mut b.grant.buffer[payload_at..payload_at + len];
            let tag = sealers.contents.seal_in_place(header.sequence, &ad, buffer);
            let tag = tag.map_err(|_| LinkClosed)?;
            b.grant.buffer[end - tag_len..end].copy_from_slice(&tag);
        }
        if self.options.crc {
            let stored = &b.grant.buffer[payload_at..end];
            header.payload_crc = Some(payload_crc(stream, header.sequence, stored));
        }
        header.encode(stream, &mut b.grant.buffer[at..]);
        let used = padded(end - PAYLOAD_AT);
        b.grant.buffer[end..PAYLOAD_AT + used].fill(0);
        note_frame(b, &header);
        b.used = used;
        b.fresh = false;
        self.sequence += 1;
        self.wrote_logical(len as u64);
        self.mark(Stage::Cpu);
        Ok(())
    }

    fn close_gathered(&mut self, len: usize, method: Method) -> Result<(), LinkClosed> {
        self.mark(Stage::Source);
        let mut packed = std::mem::take(&mut self.packed);
        let codec = self.compressor.compress(method, &self.plain[..len], &mut packed);
        self.options.squeeze.learn(codec.is_some());
        if codec.is_none() {
            packed.clear();
            packed.extend_from_slice(&self.plain[..len]);
        }
        self.mark(Stage::Cpu);
        let stored = packed.len() + self.tag_len();
        let result = self.prepare(FRAME_HEADER_LEN + stored, true, false).and_then(|()| {
            let header = FrameHeader {
                frame_type: FrameType::Data,
                codec: codec.unwrap_or(Codec::None),
                sealed: self.tag_len() > 0,
                sequence: self.sequence,
                logical: self.logical,
                length: len as u64,
                stored: stored as u32,
                payload_crc: self.options.crc.then_some(0),
            };
            let crc = self.options.crc;
            let header = self.seal(header, Secret::Contents, crc, &mut packed)?;
            let mut head = [0; FRAME_HEADER_LEN];
            header.encode(self.options.stream, &mut head);
            self.place_parts(&header, &head, &packed)
        });
        self.packed = packed;
        result?;
        self.wrote_logical(len as u64);
        self.mark(Stage::Cpu);
        Ok(())
    }

    /// Encrypts `stored` in place where there is a key, appends the tag, and completes the header's checksum.
    fn seal(
        &self,
        mut header: FrameHeader,
        secret: Secret,
        crc: bool,
        stored: &mut Vec<u8>,
    ) -> Result<FrameHeader, LinkClosed> {
        let sealer = match (&self.options.sealers, secret) {
            (Some(s), Secret::Names) => Some(&s.names),
            (Some(s), Secret::Contents) => Some(&s.contents),
            _ => None,
        };
        if let Some(sealer) = sealer {
            let ad = header.associated_data();
            let tag = sealer.seal_in_place(header.sequence, &ad, stored);
            let tag = tag.map_err(|_| LinkClosed)?;
            stored.extend_from_slice(&tag);
        }
        if crc {
            let sum = payload_crc(self.options.stream, header.sequence, stored);
            header.payload_crc = Some(sum);
        }
        Ok(header)
    }

    fn wrote_logical(&mut self, len: u64) {
        self.logical += len;
        let done = self.logical;
        while self.pending.front().is_some_and(|p| p.start + p.entry.logical_len() <= done) {
            self.pending.pop_front();
        }
    }

    /// Writes a frame of metadata: label, names or batch. `must` keeps it in the segment at hand.
    fn put_meta(
        &mut self,
        frame_type: FrameType,
        plain: &[u8],
        secret: Secret,
        rows: u64,
        must: bool,
    ) -> Result<(), LinkClosed> {
        self.mark(Stage::Metadata);
        let mut frame = vec![0; FRAME_HEADER_LEN];
        let mut packed = Vec::new();
        let codec = self.batch_compressor.compress(BATCH_METHOD, plain, &mut packed);
        if codec.is_none() {
            packed.clear();
            packed.extend_from_slice(plain);
        }
        let sealed = secret != Secret::Open && self.options.sealers.is_some();
        let stored = packed.len() + if sealed { TAG_LEN } else { 0 };
        let total = FRAME_HEADER_LEN + stored;
        let before = self.logical;
        self.prepare(total, true, must)?;
        debug_assert_eq!(before, self.logical);
        let header = FrameHeader {
            frame_type,
            codec: codec.unwrap_or(Codec::None),
            sealed,
            sequence: self.sequence,
            logical: self.logical,
            length: plain.len() as u64,
            stored: stored as u32,
            payload_crc: Some(0),
        };
        let header = self.seal(header, secret, true, &mut packed)?;
        header.encode(self.options.stream, &mut frame);
        frame.extend_from_slice(&packed);
        self.place(&header, &frame)?;
        if let Some(b) = &mut self.block {
            b.notes.copies.push(frame);
            b.notes.rows += rows;
            b.fresh &= must;
        }
        self.mark(Stage::Cpu);
        Ok(())
    }

    /// The outcomes of files whose data are all placed, as batches of the segment at hand.
    fn send_outcomes(&mut self) -> Result<(), LinkClosed> {
        let placed = self.logical;
        let (mut ready, later): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.outcomes).into_iter().partition(|(at, _)| *at <= placed);
        self.outcomes = later;
        while !ready.is_empty() {
            let mut rows = 0;
            while rows < ready.len() && self.encoder.bytes() < BATCH_BYTES {
                self.encoder.push(&ready[rows].1);
                rows += 1;
            }
            let mut plain = Vec::new();
            self.encoder.finish(0, &mut plain);
            ready.drain(..rows);
            self.put_meta(FrameType::Batch, &plain, Secret::Names, rows as u64, true)?;
        }
        Ok(())
    }

    fn room(&self) -> usize {
        self.block.as_ref().map_or(0, |b| b.grant.buffer.len() - PAYLOAD_AT - b.used)
    }

    /// Makes sure that a frame of `len` bytes can be placed: in the block at hand, or (`span`) across it and the next.
    /// May end a segment, unless the frame `must` go into it.
    fn prepare(&mut self, len: usize, span: bool, must: bool) -> Result<(), LinkClosed> {
        loop {
            let Some(b) = &self.block else {
                self.next_block()?;
                continue;
            };
            let room = self.room();
            if padded(len) <= room {
                return Ok(());
            }
            let last = b.grant.last || self.port.is_closing(b.grant.segment);
            let may_span = span && room >= MIN_ROOM;
            if must || (last && b.fresh) {
                if may_span {
                    return Ok(());
                }
                self.more_block()?;
            } else if last {
                self.end_segment()?;
            } else if may_span {
                return Ok(());
            } else {
                self.submit(false)?;
            }
        }
    }

    /// Ends the stream's part of the segment at hand.
    fn end_segment(&mut self) -> Result<(), LinkClosed> {
        self.send_outcomes()?;
        self.submit(true)
    }

    /// Gets a block; one of a new segment begins with label, names and the rows whose data are still to come.
    fn next_block(&mut self) -> Result<(), LinkClosed> {
        self.mark(Stage::Cpu);
        let grant = self.port.grant(self.options.stream)?;
        let waited = self.lap.split();
        self.meters.of(Stage::Source).wait_out(waited);
        let new_segment = self.segment != Some(grant.segment);
        self.segment = Some(grant.segment);
        self.block = Some(OpenBlock {
            grant,
            used: 0,
            first_frame: NO_FRAME,
            notes: BlockNotes::default(),
            fresh: new_segment,
        });
        if new_segment {
            let label = self.options.label.clone();
            self.put_meta(FrameType::Label, &label, Secret::Open, 0, true)?;
            let names = self.options.names.clone();
            self.put_meta(FrameType::Names, &names, Secret::Names, 0, true)?;
            self.continue_rows()?;
        }
        Ok(())
    }

    /// One more block of the segment at hand although its last was granted.
    fn more_block(&mut self) -> Result<(), LinkClosed> {
        let Some(segment) = self.segment else { return Err(LinkClosed) };
        let fresh = self.block.as_ref().is_some_and(|b| b.fresh);
        // Asked for first: while a block is granted, the segment cannot end.
        let grant = self.port.grant_more(self.options.stream, segment)?;
        self.submit(false)?;
        self.block = Some(OpenBlock {
            grant,
            used: 0,
            first_frame: NO_FRAME,
            notes: BlockNotes::default(),
            fresh,
        });
        Ok(())
    }

    /// Begins a new segment with the rows whose data, or the rest of it, will follow in it.
    fn continue_rows(&mut self) -> Result<(), LinkClosed> {
        let pending = std::mem::take(&mut self.pending);
        let mut from = self.logical;
        let mut at = from;
        let mut users = Vec::new();
        let mut groups = Vec::new();
        let mut result = Ok(());
        for p in &pending {
            let end = p.start + p.entry.logical_len();
            for row in rest_of(p, self.logical) {
                if row.kind.is_inode() {
                    users.extend((!users.contains(&row.uid)).then_some(row.uid));
                    groups.extend((!groups.contains(&row.gid)).then_some(row.gid));
                }
                self.encoder.push(&row);
            }
            at = at.max(end);
            if self.encoder.bytes() >= BATCH_BYTES {
                result = self.put_rows_here(from, &mut users, &mut groups);
                from = at;
            }
            if result.is_err() {
                break;
            }
        }
        if result.is_ok() && self.encoder.rows() > 0 {
            result = self.put_rows_here(from, &mut users, &mut groups);
        }
        self.pending = pending;
        result
    }

    fn put_rows_here(
        &mut self,
        data_at: u64,
        users: &mut Vec<u32>,
        groups: &mut Vec<u32>,
    ) -> Result<(), LinkClosed> {
        for uid in users.drain(..) {
            if let Some(name) = self.owners.user(uid) {
                self.encoder.user(uid, &name);
            }
        }
        for gid in groups.drain(..) {
            if let Some(name) = self.owners.group(gid) {
                self.encoder.group(gid, &name);
            }
        }
        let rows = self.encoder.rows() as u64;
        let mut plain = Vec::new();
        self.encoder.finish(data_at - self.logical, &mut plain);
        self.put_meta(FrameType::Batch, &plain, Secret::Names, rows, true)
    }

    fn place(&mut self, header: &FrameHeader, frame: &[u8]) -> Result<(), LinkClosed> {
        let (head, payload) = frame.split_at(FRAME_HEADER_LEN);
        self.place_parts(header, head, payload)
    }

    /// Copies a frame into the block at hand and, where it does not fit, the next of the same segment.
    fn place_parts(
        &mut self,
        header: &FrameHeader,
        head: &[u8],
        payload: &[u8],
    ) -> Result<(), LinkClosed> {
        let Some(b) = &mut self.block else { return Err(LinkClosed) };
        note_frame(b, header);
        self.sequence += 1;
        let at = PAYLOAD_AT + b.used;
        b.grant.buffer[at..at + FRAME_HEADER_LEN].copy_from_slice(head);
        b.used += FRAME_HEADER_LEN;
        if header.frame_type.is_logical() {
            b.fresh = false;
        }
        let mut rest = payload;
        loop {
            let room = self.room();
            let Some(b) = &mut self.block else { return Err(LinkClosed) };
            let (now, later) = rest.split_at(rest.len().min(room));
            let at = PAYLOAD_AT + b.used;
            b.grant.buffer[at..at + now.len()].copy_from_slice(now);
            b.used += now.len();
            rest = later;
            if rest.is_empty() {
                // A frame's padding never crosses a block: payloads of blocks are multiples of the alignment.
                let end = PAYLOAD_AT + padded(b.used);
                b.grant.buffer[PAYLOAD_AT + b.used..end].fill(0);
                b.used = end - PAYLOAD_AT;
                return Ok(());
            }
            self.span_block()?;
        }
    }

    /// Goes on with a frame in the next block of the same segment.
    fn span_block(&mut self) -> Result<(), LinkClosed> {
        let Some(b) = &self.block else { return Err(LinkClosed) };
        if b.grant.last {
            return self.more_block();
        }
        let (segment, fresh) = (b.grant.segment, b.fresh);
        self.submit(false)?;
        self.mark(Stage::Cpu);
        let grant = self.port.grant(self.options.stream)?;
        let waited = self.lap.split();
        self.meters.of(Stage::Source).wait_out(waited);
        debug_assert_eq!(grant.segment, segment);
        self.block = Some(OpenBlock {
            grant,
            used: 0,
            first_frame: NO_FRAME,
            notes: BlockNotes::default(),
            fresh,
        });
        Ok(())
    }

    /// Hands the block at hand over.
    fn submit(&mut self, ends_segment: bool) -> Result<(), LinkClosed> {
        let Some(mut b) = self.block.take() else { return Ok(()) };
        let end = PAYLOAD_AT + b.used;
        b.grant.buffer[end..].fill(0);
        let header = DaHeader {
            stream: self.options.stream,
            position: self.position,
            used: b.used as u32,
            first_frame: b.first_frame,
        };
        header.encode(&mut b.grant.buffer);
        self.position += b.used as u64;
        b.notes.logical_end = self.logical;
        self.port.submit(FilledBlock {
            short_len: end.next_multiple_of(BLOCK_ALIGN) as u32,
            buffer: b.grant.buffer,
            stream: self.options.stream,
            segment: b.grant.segment,
            ends_segment,
            notes: b.notes,
        })
    }
}

/// Notes that a frame begins at the block's used length, and counts it.
fn note_frame(b: &mut OpenBlock, header: &FrameHeader) {
    if b.first_frame == NO_FRAME {
        b.first_frame = b.used as u32;
    }
    b.notes.frames.push(FrameNote {
        logical_frame: header.frame_type.is_logical(),
        sequence: header.sequence,
        logical: header.logical,
        byte: b.used as u32,
    });
}

/// The rows that say what of a pending row is still to come at `logical`: the row itself, or parts of it.
fn rest_of(p: &Pending, logical: u64) -> Vec<Entry> {
    if p.start >= logical {
        return vec![p.entry.clone()];
    }
    let mut done = logical - p.start;
    let mut rows = Vec::new();
    let mut part = |offset: u64, len: u64| {
        rows.push(Entry {
            kind: Kind::Part,
            size: len,
            part_offset: offset,
            extents: Vec::new(),
            xattrs: Vec::new(),
            inode_flags: 0,
            ..p.entry.clone()
        });
    };
    if p.entry.kind == Kind::Part {
        part(p.entry.part_offset + done, p.entry.size - done);
    } else if p.entry.extents.is_empty() {
        part(done, p.entry.size - done);
    } else {
        let mut offset = 0;
        for extent in &p.entry.extents {
            if extent.kind == ExtentKind::Data {
                let skip = done.min(extent.len);
                done -= skip;
                if skip < extent.len {
                    part(offset + skip, extent.len - skip);
                }
            }
            offset += extent.len;
        }
    }
    rows
}

impl Drop for StreamWriter {
    fn drop(&mut self) {
        if let Some(b) = self.block.take() {
            self.port.give_back(self.options.stream, b.grant);
        }
        self.port.close_stream(self.options.stream);
    }
}
