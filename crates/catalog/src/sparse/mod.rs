//! A sparse index: what a segment's catalog has and where, without its rows.
//!
//! With it the rows of a version are read batch by batch in the order of the walk, or from any path on, and nothing that
//! grows with the tree is held. It is made when a catalog is first read and kept beside it (`file`); where there is no
//! catalog file, or none that is whole, it is made from the medium each time.

mod file;
mod names;
mod outline;
mod sections;
mod table;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use capstan_format::catalog::{Contents, CopyPlace, RawFrame, StreamContents, read_copies};
use capstan_format::entry::{Kind, path_order};
use capstan_format::id::{SegmentId, StreamId};
use capstan_format::keys::{FrameSealer, Purpose};
use capstan_idb::CatalogFile;

use crate::batch::{BatchOpener, batches_of};
use crate::error::Result;
use crate::keys::VersionKeys;
use crate::row::{PathKey, is_after, is_ordered, row_number};
use names::NameGatherer;

pub use file::{Saved, SavedBatches, save};
pub use outline::{Aside, Outline};
pub use table::{Table, TableMaker, state_of};

/// A batch: where it is copied in the catalog, and the first path of those of its rows that count and are in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchPlace {
    /// Where it is copied.
    pub copy: CopyPlace,
    /// Where the checksums of its rows' contents are copied.
    pub sums: Option<CopyPlace>,
    /// That path.
    pub first: Option<PathKey>,
}

/// The sparse index of one stream in a segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamIndex {
    /// All but its batches.
    pub outline: Outline,
    /// Its batches, in order.
    pub batches: Vec<BatchPlace>,
    /// The filter of the names of its rows.
    pub names: Vec<u8>,
}

/// Makes the sparse index of a segment from what its catalog has.
pub fn of(contents: &Contents, keys: &VersionKeys) -> Result<Vec<StreamIndex>> {
    contents.streams.iter().map(|s| of_stream(s, keys)).collect()
}

fn of_stream(s: &StreamContents, keys: &VersionKeys) -> Result<StreamIndex> {
    let mut outline = Outline {
        stream: s.stream,
        label: s.label.as_ref().map(|l| l.session.clone()),
        begin: s.index.iter().find(|p| p.logical_frame).map_or(s.logical_end, |p| p.logical),
        end: s.logical_end,
        links: 0,
        flagged: 0,
        first: None,
        last: None,
        ahead: Vec::new(),
        aside: Vec::new(),
    };
    let mut names = NameGatherer::default();
    let mut batches = Vec::with_capacity(s.batches.len());
    let sums = sums_of(s, keys)?;
    batches_of(keys, s, 0..s.batches.len(), &mut |index, batch, mut start| -> Result<()> {
        let mut first: Option<PathKey> = None;
        let found = s.batches.get(index).and_then(|raw| sums.get(&raw.header.sequence));
        let mut sums = found.into_iter().flat_map(|(sums, _)| sums).copied();
        for (at, entry) in batch.entries.into_iter().enumerate() {
            let len = entry.logical_len();
            let sum = if len > 0 { sums.next().flatten() } else { None };
            let counts = outline.counts(&entry, start);
            if counts && entry.kind.is_inode() {
                outline.links += u64::from(entry.link);
                outline.flagged += u64::from(entry.inode_flags != 0);
            }
            if is_ordered(entry.kind) {
                names.add(&entry.name);
            }
            if is_ordered(entry.kind) && counts && is_after(outline.last.as_ref(), &entry) {
                let key = (entry.dir, entry.name);
                if first.is_none() {
                    first = Some(key.clone());
                }
                outline.last = Some(key);
            } else if counts {
                let row = row_number(index, at);
                outline.aside.push(Aside { row, start, sum, entry });
            } else if entry.kind != Kind::Part {
                outline.ahead.push((row_number(index, at), start));
            }
            start = start.saturating_add(len);
        }
        let copy = s.places.get(index).copied().unwrap_or(CopyPlace { at: 0, len: 0, number: 0 });
        batches.push(BatchPlace { copy, sums: found.and_then(|(_, place)| *place), first });
        Ok(())
    })?;
    outline.first = batches.iter().find_map(|b| b.first.clone());
    Ok(StreamIndex { outline, batches, names: names.finish() })
}

/// The checksums of contents that a stream has in a segment, by the sequence of the batch, with the place of their copies.
fn sums_of(
    s: &StreamContents,
    keys: &VersionKeys,
) -> Result<HashMap<u64, (Vec<Option<u64>>, Option<CopyPlace>)>> {
    let label = s.label.as_ref().map(|l| &l.session);
    let sealer = keys.sealer(Purpose::Names, label, s.stream)?;
    let mut opener = BatchOpener::default();
    let mut all = HashMap::new();
    for (n, raw) in s.sums.iter().enumerate() {
        let sums = opener.sums(raw, sealer.as_ref())?;
        all.insert(sums.batch, (sums.sums, s.sum_places.get(n).copied()));
    }
    Ok(all)
}

/// A stream's batches in a segment, to be read one by one.
pub struct Batches {
    /// The number of the version's session, that of the segment, and the stream.
    pub of: (u32, u32, StreamId),
    /// The segment.
    pub segment: SegmentId,
    /// The stream's logical offset at the segment's end.
    pub end: u64,
    /// What opens them, where they are encrypted.
    pub sealer: Option<FrameSealer>,
    /// Whether the checksums of contents are wanted.
    pub with_sums: bool,
    /// Where they are read from.
    pub source: Source,
}

/// Where batches are read from.
pub enum Source {
    /// The catalog file.
    Catalog(CatalogBatches),
    /// What was read of the medium.
    Medium(Arc<Contents>),
}

/// The batches of a stream in a catalog file.
pub struct CatalogBatches {
    /// The file.
    pub catalog: CatalogFile,
    /// Its batches, in order.
    pub places: Vec<BatchPlace>,
    /// The frames read last, with their place: those of batches and of checksums. Some are packed together.
    last: [Option<(u64, Vec<RawFrame>)>; 2],
}

impl CatalogBatches {
    /// Those at these places of a file.
    pub fn new(catalog: CatalogFile, places: Vec<BatchPlace>) -> Self {
        Self { catalog, places, last: [None, None] }
    }

    /// The frame at a place, that of a batch or (`sums`) of checksums; `None` if it is damaged.
    pub fn frame(&mut self, segment: SegmentId, place: CopyPlace, sums: bool) -> Option<&RawFrame> {
        let last = &mut self.last[usize::from(sums)];
        if last.as_ref().is_none_or(|(at, _)| *at != place.at) {
            let read = |buffer: &mut [u8], at| self.catalog.read_exact_at(buffer, at);
            *last = Some((place.at, read_copies(segment, &read, place).ok()?));
        }
        last.as_ref()?.1.get(place.number as usize)
    }
}

impl Batches {
    /// The first batch that can have a path at or after `from`.
    pub fn first_at(&self, from: &PathKey) -> usize {
        let Source::Catalog(CatalogBatches { places, .. }) = &self.source else { return 0 };
        let mut at = 0;
        // Some have no path that could be compared: nothing but outcomes, or parts.
        for (number, first) in
            places.iter().enumerate().filter_map(|(n, b)| Some((n, b.first.as_ref()?)))
        {
            if path_order((&first.0, &first.1), (&from.0, &from.1)).is_gt() {
                break;
            }
            at = number;
        }
        at
    }
}
