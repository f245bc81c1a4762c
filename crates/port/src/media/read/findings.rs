//! What a scan found: the contents, what is damaged, and which streams may lack rows.

use std::collections::HashSet;

use capstan_format::catalog::{Contents, StreamContents};
use capstan_format::id::StreamId;
use capstan_format::record::StreamExtent;

/// A piece of damage.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Damage {
    /// What is wrong, and where.
    pub what: String,
    /// The stream and the range of its logical bytes that it costs, if any.
    pub range: Option<(StreamId, u64, u64)>,
    /// It costs a batch of that stream; the catalog may have it.
    pub batch: Option<StreamId>,
}

/// What a scan found.
#[derive(Debug, Default)]
pub struct Scan {
    /// The contents, as far as they can be read.
    pub contents: Contents,
    /// What is damaged.
    pub damage: Vec<Damage>,
    /// Frames of types that this version does not know.
    pub unknown_frames: u64,
    /// Encrypted frames whose keys were not given.
    pub closed: u64,
    /// Whether the catalog, read beside the streams, is whole.
    pub catalog_whole: bool,
    /// What the catalog says, if it is whole.
    pub catalog: Option<Contents>,
    /// Streams of which rows may be lost: frames lack that may have been batches, and the catalog does not have them either.
    pub poor: HashSet<StreamId>,
}

impl Scan {
    /// How many bytes of the segment were read: up to the last block that was found.
    pub fn bytes(&self) -> u64 {
        let blocks = self.contents.blocks.iter().flat_map(|blocks| blocks.values());
        blocks.map(|(at, length)| at.saturating_add((*length).into())).max().unwrap_or(0)
    }

    /// Whether all rows of these streams are there.
    pub fn has_names_of(&self, streams: &[StreamId]) -> bool {
        let labelled = |id: &StreamId| {
            let found = self.contents.streams.iter().find(|s| s.stream == *id);
            found.is_some_and(|s| s.label.is_some())
        };
        streams.iter().all(|id| labelled(id) && !self.poor.contains(id))
    }

    /// Whether all frames that were written are there, or their copies: then its contents say where all of it lies, also on other
    /// media. Of data frames that are damaged they say nothing.
    pub fn is_complete(&self) -> bool {
        let has_lost = self.damage.iter().any(|damage| damage.range.is_some());
        !has_lost && self.poor.is_empty() && poor(&self.contents, &HashSet::new()).is_empty()
    }

    /// Whether anything is left that says what any of these streams has.
    pub fn has_any_of(&self, streams: &[StreamId]) -> bool {
        let is_left = |s: &StreamContents| s.label.is_some() || !s.batches.is_empty();
        let found = |s: &StreamContents| is_left(s) && streams.contains(&s.stream);
        self.contents.streams.iter().any(found)
    }
}

/// The streams that lack frames of which it is not known that they were data: their numbers, as the end record promises them, are
/// neither among those that were read nor among copies in the catalog. Without an end record nobody knows what lacks.
pub fn poor(contents: &Contents, data_lost: &HashSet<(StreamId, u64)>) -> HashSet<StreamId> {
    let Some(end) = &contents.end else {
        return contents.streams.iter().map(|s| s.stream).collect();
    };
    let lacks = |extent: &&StreamExtent| {
        let Some(s) = contents.streams.iter().find(|s| s.stream == extent.stream) else {
            return extent.frames > 0;
        };
        let places = s.index.iter().map(|p| p.sequence);
        let copies = [&s.label_frame, &s.names].into_iter().flatten();
        let copies = copies.chain(&s.batches).chain(&s.sums).map(|raw| raw.header.sequence);
        let lost = data_lost.iter().filter(|(of, _)| *of == s.stream).map(|(_, number)| *number);
        let known: HashSet<u64> = places.chain(copies).chain(lost).collect();
        let end = extent.first_sequence.saturating_add(extent.frames);
        let known = known.into_iter().filter(|n| (extent.first_sequence..end).contains(n));
        (known.count() as u64) < extent.frames
    };
    // What a consolidation passed on of a stream leaps, and has no rows.
    let streams = end.streams.iter().filter(|e| !e.sparse).filter(lacks);
    streams.map(|extent| extent.stream).collect()
}
