//! Logging levels: what the database keeps of a catalog that it does not keep as a whole.
//!
//! A listing is a catalog with poorer rows: of all files their names, or directories alone. It is sealed as the catalog is,
//! and read only to list names where no medium of the segment is at hand: restores and whatever needs attributes read the
//! medium.

use capstan_format::batch::BatchEncoder;
use capstan_format::catalog::rebuild;
use capstan_format::catalog::{Contents, RawFrame, StreamContents};
use capstan_format::codec::{Codec, Compressor, Method};
use capstan_format::crc::payload_crc;
use capstan_format::entry::{Entry, Kind};
use capstan_format::frame::{FrameHeader, FrameType, TAG_LEN};
use capstan_format::id::SegmentId;
use capstan_format::keys::{FrameSealer, Purpose};
use capstan_idb::{Idb, LogLevel};

use crate::batch::batches_of;
use crate::error::{CatalogError, Result};
use crate::keys::VersionKeys;

/// Set in the sequence of a listing's batches: under the same key no sequence seals two texts.
const LISTING: u64 = 1 << 63;

/// Keeps of a committed segment's catalog what the level says.
pub fn keep(
    idb: &Idb,
    segment: SegmentId,
    catalog: &[u8],
    level: LogLevel,
    keys: &VersionKeys,
) -> Result<()> {
    match level {
        LogLevel::All => Ok(idb.write_catalog(segment, &[catalog])?),
        LogLevel::None => Ok(()),
        LogLevel::Files | LogLevel::Directories => {
            let format = |source| CatalogError::Format { what: "a catalog".to_owned(), source };
            let contents = Contents::from_catalog(segment, catalog).map_err(format)?;
            Ok(idb.write_listing(segment, &listing(contents, level, keys)?)?)
        }
    }
}

/// The listing of a segment.
fn listing(mut contents: Contents, level: LogLevel, keys: &VersionKeys) -> Result<Vec<u8>> {
    for s in &mut contents.streams {
        s.batches = batches(s, level, keys)?;
        // Where the data lie and what they sum to is on the medium, where they are.
        s.index.clear();
        s.sums.clear();
    }
    rebuild(&contents).ok_or(CatalogError::NoBeginOrEnd)
}

fn batches(s: &StreamContents, level: LogLevel, keys: &VersionKeys) -> Result<Vec<RawFrame>> {
    let label = s.label.as_ref().map(|l| &l.session);
    let sealer = keys.sealer(Purpose::Names, label, s.stream)?;
    let (mut encoder, mut compressor) = (BatchEncoder::new(), Compressor::default());
    let mut poorer = Vec::new();
    batches_of(keys, s, 0..s.batches.len(), &mut |index, batch, mut start| -> Result<()> {
        for entry in &batch.entries {
            let len = entry.logical_len();
            // One whose data begin in the next segment comes again there.
            if len == 0 || start < s.logical_end {
                poor(entry, level).iter().for_each(|e| encoder.push(e));
            }
            start = start.saturating_add(len);
        }
        let Some(raw) = s.batches.get(index) else { return Ok(()) };
        let mut plain = Vec::new();
        encoder.finish(0, &mut plain);
        poorer.push(sealed(s, &raw.header, &plain, &mut compressor, sealer.as_ref())?);
        Ok(())
    })?;
    Ok(poorer)
}

/// What is kept of a row, if anything.
fn poor(entry: &Entry, level: LogLevel) -> Option<Entry> {
    match (level, entry.kind) {
        (LogLevel::Directories, Kind::Dir | Kind::Tombstone) => Some(entry.clone()),
        (LogLevel::Files, Kind::Outcome | Kind::Tombstone) => Some(entry.clone()),
        (LogLevel::Files, kind) if kind.is_inode() => Some(Entry {
            kind,
            dir: entry.dir.clone(),
            name: entry.name.clone(),
            replaces: entry.replaces,
            ..Entry::default()
        }),
        _ => None,
    }
}

fn sealed(
    s: &StreamContents,
    of: &FrameHeader,
    plain: &[u8],
    compressor: &mut Compressor,
    sealer: Option<&FrameSealer>,
) -> Result<RawFrame> {
    let mut stored = Vec::new();
    let codec = compressor.compress(Method::Zstd(3), plain, &mut stored);
    if codec.is_none() {
        stored = plain.to_vec();
    }
    let mut header = FrameHeader {
        frame_type: FrameType::Batch,
        codec: codec.unwrap_or(Codec::None),
        sealed: sealer.is_some(),
        sequence: of.sequence | LISTING,
        logical: of.logical,
        length: plain.len() as u64,
        stored: (stored.len() + if sealer.is_some() { TAG_LEN } else { 0 }) as u32,
        payload_crc: Some(0),
    };
    if let Some(sealer) = sealer {
        let ad = header.associated_data();
        let tag = sealer.seal_in_place(header.sequence, &ad, &mut stored)?;
        stored.extend_from_slice(&tag);
    }
    header.payload_crc = Some(payload_crc(s.stream, header.sequence, &stored));
    Ok(RawFrame { header, stored })
}
