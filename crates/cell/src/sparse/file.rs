//! The sparse index in a file beside its catalog. It can be made again at any time: what does not fit, is damaged, or
//! cannot be opened counts as missing.
//!
//! `CpSx`, its version, the length and CRC of a JSON header, the header, then sections: for each stream its outline and its
//! batches, each as frames of a stream of its own, sealed with the names key where the session is encrypted.

use std::fs::File;
use std::os::unix::fs::FileExt;

use capstan_engine::entropy::Entropy;
use capstan_format::FormatError;
use capstan_format::batch::{Batch, BatchEncoder};
use capstan_format::bytes::{Cursor, put_bytes, put_varint};
use capstan_format::codec::{Codec, Compressor, Decompressor, Method};
use capstan_format::crc::{crc32c_of, payload_crc};
use capstan_format::entry::{Entry, Kind};
use capstan_format::frame::{
    FRAME_HEADER_LEN, FRAME_PLAIN_DEFAULT, FrameHeader, FrameType, TAG_LEN, padded,
};
use capstan_format::id::{SegmentId, StreamId};
use capstan_format::keys::{FrameSealer, Purpose};
use capstan_format::record::SessionLabel;
use capstan_idb::Idb;
use capstan_media_agent::reader::CopyPlace;
use serde::{Deserialize, Serialize};

use super::{Aside, BatchPlace, Outline, PathKey, StreamIndex};
use crate::error::{CellError, Result};
use crate::version::VersionKeys;

const MAGIC: &[u8; 4] = b"CpSx";
const VERSION: u32 = 1;
const PREFIX: usize = 16;
/// Most bytes of the JSON header: a segment has tens of streams, not thousands.
const HEADER_MAX: usize = 1 << 20;
/// Most bytes of a section: the rows of a catalog are far fewer.
const SECTION_MAX: u64 = 256 << 20;
/// Rows encoded together.
const CHUNK: usize = 4096;
const WHAT: &str = "sparse index";

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// Drawn anew for each file: what sections are sealed under.
    id: StreamId,
    /// Length of the catalog file that it is of.
    catalog: u64,
    streams: Vec<Stream>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stream {
    stream: StreamId,
    label: Option<SessionLabel>,
    begin: u64,
    end: u64,
    links: u64,
    flagged: u64,
    outline: Section,
    batches: Section,
}

/// Frames of the file, one after the other.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
struct Section {
    /// Bytes after the header.
    at: u64,
    len: u64,
    /// The first frame's sequence.
    sequence: u64,
}

/// A sparse index on disk, open.
pub(crate) struct Saved {
    file: File,
    sections_at: u64,
    header: Header,
}

impl Saved {
    /// Opens a segment's sparse index, if there is one that fits the catalog.
    pub fn open(idb: &Idb, segment: SegmentId) -> Option<Self> {
        let catalog = idb.read_catalog(segment).ok()??.metadata().ok()?.len();
        let file = idb.read_index(segment).ok()??;
        let mut prefix = [0; PREFIX];
        file.read_exact_at(&mut prefix, 0).ok()?;
        let word =
            |at: usize| prefix[at..at + 4].iter().rev().fold(0, |n, b| n << 8 | u32::from(*b));
        let len = word(8) as usize;
        if !prefix.starts_with(MAGIC) || word(4) != VERSION || len > HEADER_MAX {
            return None;
        }
        let mut json = vec![0; len];
        file.read_exact_at(&mut json, PREFIX as u64).ok()?;
        let header: Header = serde_json::from_slice(&json).ok()?;
        let sections_at = (PREFIX + len) as u64;
        (crc32c_of(&[&json]) == word(12) && header.catalog == catalog).then_some(Self {
            file,
            sections_at,
            header,
        })
    }

    /// The labels of its streams, for which no key is needed.
    pub fn labels(&self) -> impl Iterator<Item = &SessionLabel> {
        self.header.streams.iter().filter_map(|s| s.label.as_ref())
    }

    /// What it says of each stream, apart from the places of batches.
    pub fn outlines(&self, keys: &VersionKeys) -> Result<Vec<Outline>> {
        self.header.streams.iter().map(|s| self.outline(s, keys)).collect()
    }

    fn outline(&self, s: &Stream, keys: &VersionKeys) -> Result<Outline> {
        let plain = self.section(s, s.outline, keys)?;
        let mut c = Cursor::new(&plain, WHAT);
        let mut places = Vec::new();
        for _ in 0..c.count().map_err(bad)? {
            let sum = u64::from_le_bytes(c.array().map_err(bad)?);
            let sum = (sum != 0).then_some(sum);
            places.push((c.varint_u32().map_err(bad)?, c.varint().map_err(bad)?, sum));
        }
        let has_last = c.u8().map_err(bad)? == 1;
        let mut rows = rows(&mut c)?;
        let last = has_last.then(|| rows.pop()).flatten().map(|e| (e.dir, e.name));
        let aside = places.into_iter().zip(rows);
        let aside =
            aside.map(|((row, start, sum), entry)| Aside { row, start, sum, entry }).collect();
        Ok(Outline {
            stream: s.stream,
            label: s.label.clone(),
            begin: s.begin,
            end: s.end,
            links: s.links,
            flagged: s.flagged,
            last,
            aside,
        })
    }

    /// The places of a stream's batches.
    pub fn batches(&self, stream: StreamId, keys: &VersionKeys) -> Result<Vec<BatchPlace>> {
        let Some(s) = self.header.streams.iter().find(|s| s.stream == stream) else {
            return Ok(Vec::new());
        };
        let plain = self.section(s, s.batches, keys)?;
        let mut c = Cursor::new(&plain, WHAT);
        let (mut places, mut at) = (Vec::new(), 0);
        for _ in 0..c.count().map_err(bad)? {
            at += c.varint().map_err(bad)?;
            let (len, has_first) = (c.varint_u32().map_err(bad)?, c.u8().map_err(bad)? == 1);
            let sums = match c.varint().map_err(bad)? {
                0 => None,
                behind => {
                    let len = c.varint_u32().map_err(bad)?;
                    Some(CopyPlace { at: at.saturating_add(behind), len })
                }
            };
            places.push((CopyPlace { at, len }, sums, has_first));
        }
        let mut firsts = rows(&mut c)?.into_iter().map(|e| (e.dir, e.name));
        let place = |(copy, sums, has_first): (CopyPlace, Option<CopyPlace>, bool)| BatchPlace {
            copy,
            sums,
            first: if has_first { firsts.next() } else { None },
        };
        Ok(places.into_iter().map(place).collect())
    }

    fn section(&self, s: &Stream, section: Section, keys: &VersionKeys) -> Result<Vec<u8>> {
        let cut = || bad(FormatError::Truncated(WHAT));
        if section.len > SECTION_MAX {
            return Err(cut());
        }
        let mut bytes = vec![0; section.len as usize];
        let at = self.sections_at.saturating_add(section.at);
        self.file.read_exact_at(&mut bytes, at).map_err(|_| cut())?;
        let sealer = keys.sealer(Purpose::Names, s.label.as_ref(), self.header.id)?;
        let (mut d, mut scratch, mut plain) = (Decompressor::default(), Vec::new(), Vec::new());
        let (mut all, mut rest, mut sequence) = (Vec::new(), &bytes[..], section.sequence);
        while !rest.is_empty() {
            let header = FrameHeader::decode(self.header.id, rest).map_err(bad)?;
            let stored = rest.get(FRAME_HEADER_LEN..FRAME_HEADER_LEN + header.stored as usize);
            let stored = stored.ok_or_else(cut)?;
            header.check_payload(self.header.id, stored).map_err(bad)?;
            if header.sequence != sequence {
                return Err(cut());
            }
            header.open(stored, sealer.as_ref(), &mut d, &mut scratch, &mut plain).map_err(bad)?;
            all.extend_from_slice(&plain);
            rest = rest.get(header.total_len()..).ok_or_else(cut)?;
            sequence += 1;
        }
        Ok(all)
    }
}

/// Keeps a segment's sparse index beside its catalog.
pub(crate) fn save(
    idb: &Idb,
    segment: SegmentId,
    catalog: u64,
    streams: &[StreamIndex],
    keys: &VersionKeys,
) -> Result<()> {
    let entropy = Entropy::system().map_err(CellError::io("read", "/dev/urandom"))?;
    let id = StreamId(entropy.id().map_err(CellError::io("read", "/dev/urandom"))?);
    let mut writer =
        Sections { id, sequence: 0, bytes: Vec::new(), compressor: Compressor::default() };
    let mut header = Header { id, catalog, streams: Vec::new() };
    for s in streams {
        let o = &s.outline;
        let sealer = keys.sealer(Purpose::Names, o.label.as_ref(), id)?;
        header.streams.push(Stream {
            stream: o.stream,
            label: o.label.clone(),
            begin: o.begin,
            end: o.end,
            links: o.links,
            flagged: o.flagged,
            outline: writer.put(&outline_bytes(o), sealer.as_ref())?,
            batches: writer.put(&batches_bytes(&s.batches), sealer.as_ref())?,
        });
    }
    let json = serde_json::to_vec(&header)
        .map_err(|e| CellError::BadInput(format!("a sparse index is not JSON: {e}")))?;
    let mut out = Vec::with_capacity(PREFIX + json.len() + writer.bytes.len());
    out.extend_from_slice(MAGIC);
    for word in [VERSION, json.len() as u32, crc32c_of(&[&json])] {
        out.extend_from_slice(&word.to_le_bytes());
    }
    out.extend_from_slice(&json);
    out.extend_from_slice(&writer.bytes);
    Ok(idb.write_index(segment, &out)?)
}

/// Writes sections as frames.
struct Sections {
    id: StreamId,
    sequence: u64,
    bytes: Vec<u8>,
    compressor: Compressor,
}

impl Sections {
    fn put(&mut self, plain: &[u8], sealer: Option<&FrameSealer>) -> Result<Section> {
        let (at, sequence) = (self.bytes.len() as u64, self.sequence);
        for some in plain.chunks(FRAME_PLAIN_DEFAULT) {
            self.frame(some, sealer)?;
        }
        Ok(Section { at, len: self.bytes.len() as u64 - at, sequence })
    }

    fn frame(&mut self, plain: &[u8], sealer: Option<&FrameSealer>) -> Result<()> {
        let mut stored = Vec::new();
        let codec = self.compressor.compress(Method::Zstd(1), plain, &mut stored);
        if codec.is_none() {
            stored = plain.to_vec();
        }
        let tag = if sealer.is_some() { TAG_LEN } else { 0 };
        let mut header = FrameHeader {
            frame_type: FrameType::Batch,
            codec: codec.unwrap_or(Codec::None),
            sealed: sealer.is_some(),
            sequence: self.sequence,
            logical: 0,
            length: plain.len() as u64,
            stored: (stored.len() + tag) as u32,
            payload_crc: None,
        };
        if let Some(sealer) = sealer {
            // The checksum is no part of what is authenticated, but that there is one is.
            header.payload_crc = Some(0);
            let tag =
                sealer.seal_in_place(self.sequence, &header.associated_data(), &mut stored)?;
            stored.extend_from_slice(&tag);
        }
        header.payload_crc = Some(payload_crc(self.id, self.sequence, &stored));
        let at = self.bytes.len();
        self.bytes.resize(at + FRAME_HEADER_LEN, 0);
        header.encode(self.id, &mut self.bytes[at..]);
        self.bytes.extend_from_slice(&stored);
        self.bytes.resize(padded(self.bytes.len()), 0);
        self.sequence += 1;
        Ok(())
    }
}

fn bad(source: FormatError) -> CellError {
    CellError::Format { what: WHAT.to_owned(), source }
}

fn outline_bytes(o: &Outline) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, o.aside.len() as u64);
    for a in &o.aside {
        out.extend_from_slice(&a.sum.unwrap_or(0).to_le_bytes());
        put_varint(&mut out, a.row.into());
        put_varint(&mut out, a.start);
    }
    out.push(u8::from(o.last.is_some()));
    let last = o.last.as_ref().map(named);
    put_rows(&mut out, o.aside.iter().map(|a| &a.entry).chain(&last));
    out
}

fn batches_bytes(batches: &[BatchPlace]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, batches.len() as u64);
    let mut before = 0;
    for b in batches {
        put_varint(&mut out, b.copy.at.saturating_sub(before));
        put_varint(&mut out, b.copy.len.into());
        out.push(u8::from(b.first.is_some()));
        // Checksums come behind their batch.
        let sums = b.sums.filter(|s| s.at > b.copy.at);
        put_varint(&mut out, sums.map_or(0, |s| s.at - b.copy.at));
        if let Some(sums) = sums {
            put_varint(&mut out, sums.len.into());
        }
        before = b.copy.at;
    }
    let firsts: Vec<Entry> = batches.iter().filter_map(|b| b.first.as_ref()).map(named).collect();
    put_rows(&mut out, firsts.iter());
    out
}

/// A row that is nothing but a path.
fn named((dir, name): &PathKey) -> Entry {
    Entry { kind: Kind::Tombstone, dir: dir.clone(), name: name.clone(), ..Entry::default() }
}

fn put_rows<'e>(out: &mut Vec<u8>, rows: impl Iterator<Item = &'e Entry>) {
    let (mut encoder, mut bytes) = (BatchEncoder::new(), Vec::new());
    let mut flush = |encoder: &mut BatchEncoder| {
        if encoder.rows() > 0 {
            encoder.finish(0, &mut bytes);
            put_bytes(out, &bytes);
        }
    };
    for e in rows {
        encoder.push(e);
        if encoder.rows() == CHUNK || encoder.bytes() > FRAME_PLAIN_DEFAULT {
            flush(&mut encoder);
        }
    }
    flush(&mut encoder);
}

fn rows(c: &mut Cursor<'_>) -> Result<Vec<Entry>> {
    let mut rows = Vec::new();
    while !c.is_empty() {
        let batch = c.bytes().and_then(Batch::decode).map_err(bad)?;
        rows.extend(batch.entries);
    }
    Ok(rows)
}
