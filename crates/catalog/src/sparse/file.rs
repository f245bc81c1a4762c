//! The sparse index in a file beside its catalog, a file of sections: for each stream its outline, its batches and the
//! filter of its names.

use capstan_format::bytes::{Cursor, put_varint};
use capstan_format::catalog::CopyPlace;
use capstan_format::entry::Entry;
use capstan_format::id::{SegmentId, StreamId};
use capstan_format::keys::{FrameSealer, Purpose};
use capstan_format::record::SessionLabel;
use capstan_idb::{CatalogFile, Idb};
use serde::{Deserialize, Serialize};

use super::names::may_have;
use super::outline::{named, paths, put_rows};
use super::sections::{Form, Section, SectionFile, SectionWriter, bad};
use super::{BatchPlace, Outline, StreamIndex};
use crate::error::Result;
use crate::keys::VersionKeys;

const WHAT: &str = "sparse index";
const FORM: Form = Form { magic: b"CpSx", version: 2, what: WHAT };

#[derive(Debug, Serialize, Deserialize)]
struct Header {
    /// Drawn anew for each file: what sections are sealed under.
    id: StreamId,
    segment: SegmentId,
    /// Length of the segment's catalog file.
    catalog: u64,
    streams: Vec<Stream>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Stream {
    stream: StreamId,
    label: Option<SessionLabel>,
    /// The stream's logical offset at the segment's end.
    end: u64,
    outline: Section,
    batches: Section,
    names: Section,
}

/// A sparse index on disk, open, with its catalog.
pub struct Saved {
    file: SectionFile<Header>,
    catalog: CatalogFile,
}

/// What it has of a stream to read its batches.
pub struct SavedBatches {
    /// Its label.
    pub label: Option<SessionLabel>,
    /// The stream's logical offset at the segment's end.
    pub end: u64,
    /// Its batches, in order.
    pub places: Vec<BatchPlace>,
    /// The catalog file.
    pub catalog: CatalogFile,
}

impl Saved {
    /// Opens a segment's sparse index, if there is one that fits the catalog.
    pub fn open(idb: &Idb, segment: SegmentId) -> Option<Self> {
        let catalog = idb.read_catalog(segment).ok()??;
        let file = SectionFile::<Header>::open(&FORM, idb.read_index(segment).ok()??)?;
        let header = &file.header;
        let fits = header.segment == segment && header.catalog == catalog.len();
        fits.then_some(Self { file, catalog })
    }

    /// The labels of its streams, for which no key is needed.
    pub fn labels(&self) -> impl Iterator<Item = &SessionLabel> {
        self.file.header.streams.iter().filter_map(|s| s.label.as_ref())
    }

    /// What it says of each stream, apart from its batches.
    pub fn outlines(&self, keys: &VersionKeys) -> Result<Vec<Outline>> {
        let outline = |s: &Stream| {
            let plain = self.section(s, s.outline, keys)?;
            Outline::decode(&plain, s.stream, s.label.clone()).map_err(bad(WHAT))
        };
        self.file.header.streams.iter().map(outline).collect()
    }

    /// What is needed to read a stream's batches; none, if the segment has nothing of it.
    pub fn into_batches(self, stream: StreamId, keys: &VersionKeys) -> Result<SavedBatches> {
        let Some(s) = self.stream(stream) else {
            let (label, places) = (None, Vec::new());
            return Ok(SavedBatches { label, end: 0, places, catalog: self.catalog });
        };
        let places = decode_places(&self.section(s, s.batches, keys)?).map_err(bad(WHAT))?;
        let (label, end) = (s.label.clone(), s.end);
        Ok(SavedBatches { label, end, places, catalog: self.catalog })
    }

    /// Whether a stream may have a row of that name here.
    pub fn may_have(&self, stream: StreamId, name: &[u8], keys: &VersionKeys) -> Result<bool> {
        let Some(s) = self.stream(stream) else { return Ok(false) };
        Ok(may_have(&self.section(s, s.names, keys)?, name))
    }

    fn stream(&self, stream: StreamId) -> Option<&Stream> {
        self.file.header.streams.iter().find(|s| s.stream == stream)
    }

    fn section(&self, s: &Stream, section: Section, keys: &VersionKeys) -> Result<Vec<u8>> {
        let id = self.file.header.id;
        let sealer = keys.sealer(Purpose::Names, s.label.as_ref(), id)?;
        self.file.section(id, section, sealer.as_ref())
    }
}

/// Keeps a segment's sparse index beside its catalog.
pub fn save(
    idb: &Idb,
    segment: SegmentId,
    catalog: u64,
    streams: &[StreamIndex],
    keys: &VersionKeys,
) -> Result<()> {
    let mut writer = SectionWriter::new()?;
    let id = writer.id();
    let mut header = Header { id, segment, catalog, streams: Vec::new() };
    for s in streams {
        let label = s.outline.label.as_ref();
        let sealer = keys.sealer(Purpose::Names, label, id)?;
        header.streams.push(of_stream(s, &mut writer, sealer.as_ref())?);
    }
    Ok(idb.write_index(segment, &writer.finish(&FORM, &header)?)?)
}

fn of_stream(
    s: &StreamIndex,
    writer: &mut SectionWriter,
    sealer: Option<&FrameSealer>,
) -> Result<Stream> {
    let o = &s.outline;
    Ok(Stream {
        stream: o.stream,
        label: o.label.clone(),
        end: o.end,
        outline: writer.put(&o.encode(), sealer)?,
        batches: writer.put(&encode_places(&s.batches), sealer)?,
        names: writer.put(&s.names, sealer)?,
    })
}

fn encode_places(batches: &[BatchPlace]) -> Vec<u8> {
    let mut out = Vec::new();
    put_varint(&mut out, batches.len() as u64);
    let mut before = 0;
    for b in batches {
        put_varint(&mut out, b.copy.at.saturating_sub(before));
        put_varint(&mut out, b.copy.len.into());
        put_varint(&mut out, b.copy.number.into());
        out.push(u8::from(b.first.is_some()));
        // Checksums come behind their batch.
        let sums = b.sums.filter(|s| s.at > b.copy.at);
        put_varint(&mut out, sums.map_or(0, |s| s.at - b.copy.at));
        if let Some(sums) = sums {
            put_varint(&mut out, sums.len.into());
            put_varint(&mut out, sums.number.into());
        }
        before = b.copy.at;
    }
    let firsts: Vec<Entry> = batches.iter().filter_map(|b| b.first.as_ref()).map(named).collect();
    put_rows(&mut out, firsts.iter());
    out
}

fn decode_places(plain: &[u8]) -> capstan_format::Result<Vec<BatchPlace>> {
    let mut c = Cursor::new(plain, WHAT);
    let (mut places, mut at) = (Vec::new(), 0u64);
    for _ in 0..c.count()? {
        at = at.saturating_add(c.varint()?);
        let copy = CopyPlace { at, len: c.varint_u32()?, number: c.varint_u32()? };
        let has_first = c.u8()? == 1;
        let sums = match c.varint()? {
            0 => None,
            behind => {
                let at = at.saturating_add(behind);
                Some(CopyPlace { at, len: c.varint_u32()?, number: c.varint_u32()? })
            }
        };
        places.push((copy, sums, has_first));
    }
    let mut firsts = paths(&mut c)?.into_iter();
    let place = |(copy, sums, has_first): (CopyPlace, Option<CopyPlace>, bool)| BatchPlace {
        copy,
        sums,
        first: if has_first { firsts.next() } else { None },
    };
    Ok(places.into_iter().map(place).collect())
}
