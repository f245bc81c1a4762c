//! Blocks: how frames are placed into them, and how one segment ends and the next begins.

use capstan_engine::link::{BlockNotes, FilledBlock, FrameNote, LinkClosed};
use capstan_engine::meter::Stage;
use capstan_format::block::{BLOCK_ALIGN, DaHeader, NO_FRAME, PAYLOAD_AT};
use capstan_format::entry::{Entry, ExtentKind, Kind};
use capstan_format::frame::{FRAME_HEADER_LEN, FrameHeader, FrameType, MIN_ROOM, padded};

use crate::owners::Named;

use super::{BATCH_BYTES, OpenBlock, Pending, Secret, StreamWriter};

impl StreamWriter<'_> {
    pub(super) fn room(&self) -> usize {
        self.block.as_ref().map_or(0, |b| b.grant.buffer.len() - PAYLOAD_AT - b.used)
    }

    /// Makes sure that a frame of `len` bytes can be placed: in the block at hand, or (`span`) across it and the next.
    /// May end a segment, unless the frame `must` go into it.
    pub(super) fn prepare(&mut self, len: usize, span: bool, must: bool) -> Result<(), LinkClosed> {
        loop {
            let Some(b) = &self.block else {
                self.next_block()?;
                continue;
            };
            let room = self.room();
            if padded(len) <= room {
                return Ok(());
            }
            let last = b.grant.last || self.port.is_closing(self.options.stream, b.grant.segment);
            let may_span = span && room >= MIN_ROOM;
            // A stream that asks for more than its last block is done with the segment: others would still be in it.
            if last && (must || b.fresh) {
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
    pub(super) fn end_segment(&mut self) -> Result<(), LinkClosed> {
        self.send_outcomes()?;
        self.send_last_sums()?;
        self.submit(true)
    }

    /// Gets a block; one of a new segment begins with label, names and the rows whose data are still to come.
    pub(super) fn next_block(&mut self) -> Result<(), LinkClosed> {
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
    pub(super) fn more_block(&mut self) -> Result<(), LinkClosed> {
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
    pub(super) fn continue_rows(&mut self) -> Result<(), LinkClosed> {
        let logical = self.logical;
        let rows: Vec<_> = self.pending.drain(..).flat_map(|p| rest_of(p, logical)).collect();
        let mut rows = rows.into_iter().peekable();
        let mut from = logical;
        while rows.peek().is_some() {
            let mut named = Named::default();
            let mut sent = Vec::new();
            let mut at = from;
            while self.encoder.bytes() < BATCH_BYTES
                && let Some((row, start)) = rows.next()
            {
                named.add(&row);
                self.encoder.push(&row);
                at = start + row.logical_len();
                sent.push((row, start));
            }
            self.put_rows_here(from, &mut named)?;
            let batch = self.sequence - 1;
            self.pending.extend(sent.into_iter().map(|(entry, start)| Pending {
                entry,
                start,
                batch,
            }));
            from = at;
        }
        Ok(())
    }

    pub(super) fn put_rows_here(
        &mut self,
        data_at: u64,
        named: &mut Named,
    ) -> Result<(), LinkClosed> {
        named.put(&self.owners, &mut self.encoder);
        let rows = self.encoder.rows() as u64;
        let mut plain = Vec::new();
        self.encoder.finish(data_at - self.logical, &mut plain);
        self.put_meta(FrameType::Batch, &plain, Secret::Names, rows, true)
    }

    pub(super) fn place(&mut self, header: &FrameHeader, frame: &[u8]) -> Result<(), LinkClosed> {
        let (head, payload) = frame.split_at(FRAME_HEADER_LEN);
        self.place_parts(header, head, payload)
    }

    /// Copies a frame into the block at hand and, where it does not fit, the next of the same segment.
    pub(super) fn place_parts(
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
    pub(super) fn span_block(&mut self) -> Result<(), LinkClosed> {
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
    pub(super) fn submit(&mut self, ends_segment: bool) -> Result<(), LinkClosed> {
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
pub(super) fn note_frame(b: &mut OpenBlock, header: &FrameHeader) {
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

/// The rows that say what of a pending row is still to come at `logical`, each with the logical offset of its data: the row
/// itself, or parts of it.
fn rest_of(p: Pending, logical: u64) -> Vec<(Entry, u64)> {
    if p.start >= logical {
        return vec![(p.entry, p.start)];
    }
    let mut done = logical - p.start;
    let mut at = logical;
    let mut rows = Vec::new();
    let mut part = |offset: u64, len: u64| {
        let entry = Entry {
            kind: Kind::Part,
            size: len,
            part_offset: offset,
            extents: Vec::new(),
            xattrs: Vec::new(),
            inode_flags: 0,
            // The row that this goes on with has replaced already.
            replaces: false,
            ..p.entry.clone()
        };
        rows.push((entry, at));
        at += len;
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
