//! Packing catalogs: those of committed segments are written once more in fewer bytes, when nobody waits for it.

use std::io::BufReader;

use capstan_format::catalog::Contents;
use capstan_format::catalog::{can_be_packed, packed};
use capstan_format::id::SegmentId;
use capstan_idb::Idb;

use crate::error::Result;
use crate::keys::VersionKeys;
use crate::sparse::{self, StreamIndex};

/// How many segments are looked up at once.
const SEGMENTS_AT_ONCE: u32 = 1000;

/// What packing did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PackedCatalogs {
    /// How many catalogs were packed.
    pub catalogs: u64,
    /// How many bytes that saved.
    pub saved: u64,
}

/// Packs the catalogs that were not packed yet, but those of encrypted sessions, which would not get smaller. Ends early when `stop` says so.
pub fn pack_catalogs(idb: &Idb, stop: &dyn Fn() -> bool) -> Result<PackedCatalogs> {
    let mut done = PackedCatalogs::default();
    let mut last: Option<SegmentId> = None;
    loop {
        let segments = idb.segments_after(last, SEGMENTS_AT_ONCE)?;
        let Some(end) = segments.last() else { return Ok(done) };
        last = Some(*end);
        for segment in segments {
            if stop() {
                return Ok(done);
            }
            if let Some(saved) = pack_catalog(idb, segment)? {
                done.catalogs += 1;
                done.saved += saved;
            }
        }
    }
}

/// Returns how many bytes it saved, if it packed the catalog.
fn pack_catalog(idb: &Idb, segment: SegmentId) -> Result<Option<u64>> {
    let Some(stamp) = idb.catalog_stamp(segment)? else { return Ok(None) };
    let Some(file) = idb.read_catalog(segment)? else { return Ok(None) };
    if !can_be_packed(segment, &|buffer, at| file.read_exact_at(buffer, at)) {
        return Ok(None);
    }
    // What is damaged stays as it is: `idb check` names it.
    let contents = Contents::from_catalog(segment, BufReader::new(file)).ok();
    let Some(bytes) = contents.as_ref().and_then(packed) else { return Ok(None) };
    let Some(index) = index_of(segment, &bytes) else { return Ok(None) };
    let len = bytes.len() as u64;
    // Whoever wrote or removed it meanwhile knows better.
    if len >= stamp.len || idb.catalog_stamp(segment)? != Some(stamp) {
        return Ok(None);
    }
    idb.write_catalog(segment, &[&bytes])?;
    // Its places are others now. Who reads it next would make it.
    let _ = sparse::save(idb, segment, len, &index, &VersionKeys::default());
    Ok(Some(stamp.len - len))
}

/// The sparse index of a packed catalog, if it can be read.
fn index_of(segment: SegmentId, bytes: &[u8]) -> Option<Vec<StreamIndex>> {
    let contents = Contents::from_catalog(segment, bytes).ok()?;
    sparse::of(&contents, &VersionKeys::default()).ok()
}
