//! Frames: how data and metadata become them.

use capstan_engine::link::LinkClosed;
use capstan_engine::meter::Stage;
use capstan_format::block::PAYLOAD_AT;
use capstan_format::codec::{Codec, Method};
use capstan_format::crc::payload_crc;
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader, FrameType, TAG_LEN, padded};

use super::blocks::note_frame;
use super::{BATCH_BYTES, LEAST_DATA, OpenFrame, Secret, StreamWriter};

/// Level for batches: they are small and repeat much.
const BATCH_METHOD: Method = Method::Zstd(3);

impl StreamWriter<'_> {
    pub(super) fn open_frame(&mut self) -> Result<(), LinkClosed> {
        let method = self.options.choice.method();
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

    pub(super) fn tag_len(&self) -> usize {
        if self.options.sealers.is_some() { TAG_LEN } else { 0 }
    }

    /// Ends the open data frame, if any.
    pub(super) fn close_frame(&mut self) -> Result<(), LinkClosed> {
        match std::mem::replace(&mut self.frame, OpenFrame::None) {
            OpenFrame::None | OpenFrame::InBlock { len: 0, .. } => Ok(()),
            OpenFrame::Gathered { len: 0, .. } => Ok(()),
            OpenFrame::InBlock { len, .. } => self.close_in_block(len),
            OpenFrame::Gathered { len, method } => self.close_gathered(len, method),
        }
    }

    pub(super) fn close_in_block(&mut self, len: usize) -> Result<(), LinkClosed> {
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
            payload_crc: self.options.has_payload_crc().then_some(0),
        };
        let Some(b) = &mut self.block else { return Err(LinkClosed) };
        let at = PAYLOAD_AT + b.used;
        let end = at + FRAME_HEADER_LEN + len + tag_len;
        let payload_at = at + FRAME_HEADER_LEN;
        let plain = &b.grant.buffer[payload_at..payload_at + len];
        self.sums.advance(&self.pending, self.logical, len as u64, Some(plain));
        if let Some(sealers) = &self.options.sealers {
            let ad = header.associated_data();
            let buffer = &mut b.grant.buffer[payload_at..payload_at + len];
            let tag = sealers.contents.seal_in_place(header.sequence, &ad, buffer);
            let tag = tag.map_err(|_| LinkClosed)?;
            b.grant.buffer[end - tag_len..end].copy_from_slice(&tag);
        }
        if self.options.has_payload_crc() {
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
        self.stored(len, header.stored);
        self.mark(Stage::Cpu);
        Ok(())
    }

    pub(super) fn close_gathered(&mut self, len: usize, method: Method) -> Result<(), LinkClosed> {
        self.mark(Stage::Source);
        let mut packed = std::mem::take(&mut self.packed);
        let codec = self.compressor.compress(method, &self.plain[..len], &mut packed);
        self.options.choice.learn(codec.is_some());
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
                payload_crc: self.options.has_payload_crc().then_some(0),
            };
            let crc = self.options.has_payload_crc();
            let header = self.seal(header, Secret::Contents, crc, &mut packed)?;
            let mut head = [0; FRAME_HEADER_LEN];
            header.encode(self.options.stream, &mut head);
            self.place_parts(&header, &head, &packed)?;
            let plain = Some(&self.plain[..len]);
            self.sums.advance(&self.pending, self.logical, len as u64, plain);
            Ok(())
        });
        self.packed = packed;
        result?;
        self.stored(len, stored as u32);
        self.mark(Stage::Cpu);
        Ok(())
    }

    /// Encrypts `stored` in place where there is a key, appends the tag, and completes the header's checksum.
    pub(super) fn seal(
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

    /// Counts a frame of contents: `len` bytes of them, which take `stored`.
    fn stored(&mut self, len: usize, stored: u32) {
        self.meters.of(Stage::Cpu).bytes(stored.into());
        self.wrote_logical(len as u64);
    }

    pub(super) fn wrote_logical(&mut self, len: u64) {
        self.logical += len;
        let done = self.logical;
        while self.pending.front().is_some_and(|p| p.start + p.entry.logical_len() <= done) {
            self.pending.pop_front();
        }
    }

    /// Writes a frame of metadata: label, names or batch. `must` keeps it in the segment at hand.
    pub(super) fn put_meta(
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
    pub(super) fn send_outcomes(&mut self) -> Result<(), LinkClosed> {
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
}
