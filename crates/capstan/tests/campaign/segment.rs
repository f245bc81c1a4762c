//! A segment, taken apart to its records, streams and frames, and put together again with all checksums and seals right.

use std::collections::HashMap;

use capstan_format::batch::Batch;
use capstan_format::block::{
    BLOCK_ALIGN, Block, BlockKind, DaHeader, MaHeader, NO_FRAME, PAYLOAD_AT,
};
use capstan_format::codec::{Codec, Compressor, Decompressor, Method};
use capstan_format::crc::payload_crc;
use capstan_format::frame::{CopiedFrame, FRAME_HEADER_LEN, FrameHeader, FrameType, padded};
use capstan_format::id::{BlockIndex, SegmentId, StreamId};
use capstan_format::index::{FramePlace, encode_index};
use capstan_format::keys::{FrameSealer, KeyRecord, Purpose, Secret};
use capstan_format::record::{decode_record, encode_record};
use serde_json::{Value, json};

/// The session keys of a medium, by the key file that opens its records.
pub struct Keys<'a>(pub Option<&'a [u8]>);

/// A frame as it is stored.
#[derive(Clone)]
pub struct Frame {
    pub header: FrameHeader,
    pub stored: Vec<u8>,
    /// How its header is written where it is to lie.
    pub raw: Option<[u8; FRAME_HEADER_LEN]>,
}

/// What of a stream lies in the segment.
#[derive(Clone)]
pub struct Stream {
    pub id: StreamId,
    /// Stored bytes before it.
    pub position: u64,
    pub frames: Vec<Frame>,
}

/// A segment.
pub struct Segment {
    pub id: SegmentId,
    pub header: Value,
    pub end: Value,
    pub streams: Vec<Stream>,
    block_size: usize,
    /// Blocks all of one length, as on tape.
    fixed: bool,
}

/// Changes to a segment's parts that are derived from the others.
#[derive(Default)]
pub struct Derived<'a> {
    /// To the end record, once all lengths are known.
    pub end: Option<Box<dyn FnOnce(&mut Value) + 'a>>,
    /// To the frames of the catalog before its end.
    pub catalog: Option<Box<dyn FnOnce(&mut Vec<Frame>) + 'a>>,
    /// To the places that the catalog's index tells.
    pub index: Option<Box<dyn FnOnce(&mut Vec<FramePlace>) + 'a>>,
    /// The catalog's copies of both records stay as they were.
    pub old_copies: bool,
}

/// A segment's blocks.
pub struct Built {
    pub blocks: Vec<Vec<u8>>,
    /// Where in them the catalog begins.
    pub catalog: usize,
}

impl Segment {
    /// Takes blocks apart, which follow each other; `None` if they are no segment.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let (first, header) = decode_record::<Value>(BlockKind::SegmentHeader, bytes).ok()?;
        let block_size = header["medium"]["block_size"].as_u64()? as usize;
        let (mut streams, mut payloads) = (Vec::<Stream>::new(), HashMap::<_, Vec<u8>>::new());
        let (mut at, mut end, mut fixed) = (0, None, true);
        while at < bytes.len() {
            let ma = MaHeader::decode(&bytes[at..]).ok()?;
            let block = bytes.get(at..at + ma.length as usize)?;
            fixed &= ma.length as usize >= block_size;
            match ma.kind {
                BlockKind::Data => {
                    let block = Block::decode(block).ok()?;
                    let id = block.da.stream;
                    if !payloads.contains_key(&id) {
                        streams.push(Stream {
                            id,
                            position: block.da.position,
                            frames: Vec::new(),
                        });
                    }
                    payloads.entry(id).or_default().extend_from_slice(block.payload);
                }
                BlockKind::SegmentEnd => {
                    end = Some(decode_record::<Value>(BlockKind::SegmentEnd, block).ok()?.1);
                }
                _ => {}
            }
            at += ma.length as usize;
        }
        for stream in &mut streams {
            stream.frames = frames_of(stream.id, &payloads[&stream.id])?;
        }
        Some(Self { id: first.segment, header, end: end?, streams, block_size, fixed })
    }

    /// Puts it together; `None` where a record is longer than any can be.
    pub fn build(&self, derived: Derived<'_>) -> Option<Built> {
        let record = |kind, index: usize, value: &Value| {
            let length = if self.fixed { self.block_size } else { BLOCK_ALIGN };
            encode_record(kind, self.id, BlockIndex(index as u32), value, length).ok()
        };
        let mut blocks = vec![record(BlockKind::SegmentHeader, 0, &self.header)?];
        let mut places = Vec::new();
        for stream in &self.streams {
            let mut writer = BlockWriter::new(self, BlockKind::Data, stream.id, stream.position);
            places.push(writer.write(&stream.frames, &mut blocks));
        }
        let catalog_at: usize = blocks.iter().map(Vec::len).sum();
        let short = blocks.iter().enumerate().filter(|(_, b)| b.len() != self.block_size);
        let short: Vec<_> = short.map(|(n, b)| json!([n, b.len()])).collect();
        let mut end = self.end.clone();
        put(&mut end, "data_blocks", json!(blocks.len() - 1));
        put(&mut end, "catalog_at", json!(catalog_at));
        put(&mut end, "short_blocks", json!(short));
        let catalog = blocks.len();
        let mut writer = BlockWriter::new(self, BlockKind::Catalog, StreamId(self.id.0), 0);
        let old_end = end.clone();
        let mut change = derived.end;
        // The number of blocks is known when the catalog is laid, whose length the record in it does not change by much.
        let mut summary = end.clone();
        put(&mut summary, "blocks", json!(0));
        if !derived.old_copies
            && let Some(change) = change.take()
        {
            change(&mut end);
            summary = end.clone();
            put(&mut summary, "blocks", json!(0));
            if let Some(blocks) = end.get("blocks").filter(|b| Some(*b) != old_end.get("blocks")) {
                put(&mut summary, "blocks", blocks.clone());
            }
        }
        let frames = self.catalog(&places, &summary, derived.catalog, derived.index);
        writer.write(&frames, &mut blocks);
        if end.get("blocks") == old_end.get("blocks") {
            put(&mut end, "blocks", json!(blocks.len() + 1));
        }
        if let Some(change) = change {
            change(&mut end);
        }
        blocks.push(record(BlockKind::SegmentEnd, blocks.len(), &end)?);
        Some(Built { blocks, catalog })
    }

    fn catalog(
        &self,
        places: &[Vec<FramePlace>],
        summary: &Value,
        change: Option<Box<dyn FnOnce(&mut Vec<Frame>) + '_>>,
        change_index: Option<Box<dyn FnOnce(&mut Vec<FramePlace>) + '_>>,
    ) -> Vec<Frame> {
        let mut frames = vec![plain(FrameType::Header, self.header.to_string().into_bytes())];
        for stream in &self.streams {
            for frame in stream.frames.iter().filter(|f| f.header.frame_type.is_metadata()) {
                let copy = CopiedFrame::encode(stream.id, &frame.bytes(stream.id));
                frames.push(Frame::stored(FrameType::Copy, copy));
            }
        }
        let mut indices: Vec<_> = self.streams.iter().zip(places.to_vec()).collect();
        if let (Some(change), Some((_, places))) = (change_index, indices.first_mut()) {
            change(places);
        }
        indices.sort_by_key(|(stream, _)| stream.id);
        for (stream, places) in indices {
            frames.push(plain(FrameType::Index, encode_index(stream.id, &ascending(places))));
        }
        frames.push(plain(FrameType::Summary, summary.to_string().into_bytes()));
        if let Some(change) = change {
            change(&mut frames);
        }
        for (sequence, frame) in frames.iter_mut().enumerate() {
            frame.header.sequence = sequence as u64;
            frame.mend(StreamId(self.id.0));
        }
        frames
    }

    /// What seals a stream's frames of a type; `None` where they are not sealed, or nothing opens them.
    pub fn sealer(
        &self,
        stream: StreamId,
        frame_type: FrameType,
        keys: &Keys<'_>,
    ) -> Option<FrameSealer> {
        let purpose = match frame_type {
            FrameType::Data => Purpose::Contents,
            FrameType::Batch | FrameType::Names | FrameType::Sums => Purpose::Names,
            _ => return None,
        };
        self.header["keys"].as_array()?.iter().find_map(|key| {
            let record = KeyRecord::from_json(key.to_string().as_bytes()).ok()?;
            let open = record.ring().unlock(&Secret::KeyFile(keys.0?)).ok()?;
            let key = record.unwrap_all(&open).ok()?;
            FrameSealer::new(key.key(purpose), purpose, stream, record.cipher()).ok()
        })
    }
}

/// An index says differences, which are never less than nothing.
fn ascending(places: Vec<FramePlace>) -> Vec<FramePlace> {
    let mut last = (0, 0, 0);
    let keep = |p: &FramePlace| {
        let now = (p.sequence, p.logical, p.block.0);
        let ascends = now.0 >= last.0 && now.1 >= last.1 && now.2 >= last.2;
        if ascends {
            last = now;
        }
        ascends
    };
    places.into_iter().filter(keep).collect()
}

fn frames_of(stream: StreamId, bytes: &[u8]) -> Option<Vec<Frame>> {
    let (mut at, mut frames) = (0, Vec::new());
    while at < bytes.len() {
        let header = FrameHeader::decode(stream, &bytes[at..]).ok()?;
        let from = at + FRAME_HEADER_LEN;
        let stored = bytes.get(from..from + header.stored as usize)?.to_vec();
        frames.push(Frame { header, stored, raw: None });
        at += header.total_len();
    }
    Some(frames)
}

/// A frame of a catalog.
fn plain(frame_type: FrameType, bytes: Vec<u8>) -> Frame {
    let mut frame = Frame::stored(frame_type, Vec::new());
    frame.put(&bytes);
    frame
}

impl Frame {
    fn stored(frame_type: FrameType, stored: Vec<u8>) -> Self {
        let header = FrameHeader {
            frame_type,
            codec: Codec::None,
            sealed: false,
            sequence: 0,
            logical: 0,
            length: stored.len() as u64,
            stored: stored.len() as u32,
            payload_crc: Some(0),
        };
        Self { header, stored, raw: None }
    }

    /// Its payload, opened.
    pub fn open(&self, sealer: Option<&FrameSealer>) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let (mut decompressor, mut scratch) = (Decompressor::default(), Vec::new());
        self.header.open(&self.stored, sealer, &mut decompressor, &mut scratch, &mut out).ok()?;
        Some(out)
    }

    /// Gives it another payload.
    pub fn put(&mut self, bytes: &[u8]) {
        let mut packed = Vec::new();
        let codec = Compressor::default().compress(Method::Zstd(1), bytes, &mut packed);
        if codec.is_none() {
            packed = bytes.to_vec();
        }
        self.header.codec = codec.unwrap_or(Codec::None);
        self.header.length = bytes.len() as u64;
        self.stored = packed;
        self.header.stored = self.stored.len() as u32;
    }

    /// Seals what was put into it.
    pub fn seal(&mut self, sealer: &FrameSealer) {
        self.header.sealed = true;
        self.header.stored = self.stored.len() as u32 + 16;
        let ad = self.header.associated_data();
        let tag = sealer.seal_in_place(self.header.sequence, &ad, &mut self.stored).unwrap();
        self.stored.extend_from_slice(&tag);
    }

    /// Makes its checksum right again.
    pub fn mend(&mut self, stream: StreamId) {
        if self.header.payload_crc.is_some() {
            let crc = payload_crc(stream, self.header.sequence, &self.stored);
            self.header.payload_crc = Some(crc);
        }
    }

    /// Header and payload.
    pub fn bytes(&self, stream: StreamId) -> Vec<u8> {
        let mut out = vec![0; FRAME_HEADER_LEN];
        match &self.raw {
            Some(raw) => out.copy_from_slice(raw),
            None => self.header.encode(stream, &mut out),
        }
        out.extend_from_slice(&self.stored);
        out
    }

    /// The batch in it.
    pub fn batch(&self, sealer: Option<&FrameSealer>) -> Option<Batch> {
        Batch::decode(&self.open(sealer)?).ok()
    }
}

struct BlockWriter {
    kind: BlockKind,
    segment: SegmentId,
    stream: StreamId,
    position: u64,
    block_size: usize,
    fixed: bool,
    payload: Vec<u8>,
    first: u32,
}

impl BlockWriter {
    fn new(of: &Segment, kind: BlockKind, stream: StreamId, position: u64) -> Self {
        Self {
            kind,
            segment: of.id,
            stream,
            position,
            block_size: of.block_size,
            fixed: of.fixed,
            payload: Vec::new(),
            first: NO_FRAME,
        }
    }

    fn room(&self) -> usize {
        self.block_size - PAYLOAD_AT - self.payload.len()
    }

    fn write(&mut self, frames: &[Frame], blocks: &mut Vec<Vec<u8>>) -> Vec<FramePlace> {
        let mut places = Vec::new();
        for frame in frames {
            if self.room() < FRAME_HEADER_LEN {
                self.flush(blocks);
            }
            let (h, byte) = (&frame.header, self.payload.len() as u32);
            let block = BlockIndex(blocks.len() as u32);
            places.push(FramePlace::of(h.frame_type, h.sequence, h.logical, block, byte));
            if self.first == NO_FRAME {
                self.first = byte;
            }
            let mut bytes = frame.bytes(self.stream);
            bytes.resize(padded(bytes.len()), 0);
            let mut rest = &bytes[..];
            while !rest.is_empty() {
                if self.room() == 0 {
                    self.flush(blocks);
                }
                let (now, then) = rest.split_at(rest.len().min(self.room()));
                self.payload.extend_from_slice(now);
                rest = then;
            }
        }
        if !self.payload.is_empty() {
            self.flush(blocks);
        }
        places
    }

    fn flush(&mut self, blocks: &mut Vec<Vec<u8>>) {
        let used = self.payload.len();
        let length = match self.fixed {
            true => self.block_size,
            false => (PAYLOAD_AT + used).next_multiple_of(BLOCK_ALIGN),
        };
        let mut block = vec![0; length];
        block[PAYLOAD_AT..PAYLOAD_AT + used].copy_from_slice(&self.payload);
        let (stream, position) = (self.stream, self.position);
        DaHeader { stream, position, used: used as u32, first_frame: self.first }
            .encode(&mut block);
        let index = BlockIndex(blocks.len() as u32);
        MaHeader { kind: self.kind, segment: self.segment, index, length: length as u32 }
            .encode(&mut block);
        self.position = self.position.wrapping_add(used as u64);
        self.payload.clear();
        self.first = NO_FRAME;
        blocks.push(block);
    }
}

/// Sets a field of a record; of what a mutant made something else than a record it has none.
fn put(record: &mut Value, field: &str, value: Value) {
    if let Some(fields) = record.as_object_mut() {
        fields.insert(field.to_owned(), value);
    }
}
