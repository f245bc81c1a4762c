//! Blocks that do not say whose they are: to which stream each belongs follows from what that lacks.

use capstan_format::bytes::is_zero;
use capstan_format::frame::find_frame;
use capstan_format::id::{BlockIndex, StreamId};

use crate::read::scan::Scanner;

/// Most blocks without a sound header of their own that are kept until it shows whose they are.
pub(super) const ORPHANS: usize = 16;

/// A block that does not say whose it is, and its payload.
pub(super) struct Orphan {
    pub index: u32,
    pub payload: Vec<u8>,
}

impl Scanner<'_, '_> {
    /// Takes a block that does not say whose it is as the one that a stream lacks before its byte `position`, if only one can be it.
    pub(super) fn adopt(&mut self, stream: StreamId, position: u64) {
        let Some(passing) = self.streams.get(&stream) else { return };
        let Some(gap) = position.checked_sub(passing.position).filter(|gap| *gap > 0) else {
            return;
        };
        let fits = |orphan: &Orphan| {
            let rest = usize::try_from(gap).ok().and_then(|gap| orphan.payload.get(gap..));
            orphan.index > passing.last_block && rest.is_some_and(is_zero)
        };
        let mut fitting =
            self.orphans.iter().enumerate().filter(|(_, o)| fits(o)).map(|(at, _)| at);
        let (Some(at), None) = (fitting.next(), fitting.next()) else { return };
        let goes_on = passing.partial.is_some();
        let orphan = self.orphans.remove(at);
        let payload = &orphan.payload[..gap as usize];
        let first = match goes_on {
            true => 0,
            false => find_frame(stream, payload, 0).unwrap_or(payload.len()),
        };
        self.parse(stream, BlockIndex(orphan.index), payload, first, true);
        self.goes_on_at(stream, position, orphan.index);
    }

    fn goes_on_at(&mut self, stream: StreamId, position: u64, last_block: u32) {
        let passing = self.streams.entry(stream).or_default();
        passing.begun = true;
        passing.hurt = true;
        passing.position = position;
        passing.last_block = last_block;
    }

    /// Takes a block that does not say whose it is as a stream's first in the segment, where it begins with a frame of that.
    pub(super) fn adopt_first(&mut self, stream: StreamId, position: u64) {
        let begins = |o: &Orphan| find_frame(stream, &o.payload, 0) == Some(0);
        let Some(at) = self.orphans.iter().position(begins) else { return };
        let orphan = self.orphans.remove(at);
        self.parse(stream, BlockIndex(orphan.index), &orphan.payload, 0, true);
        self.goes_on_at(stream, position, orphan.index);
    }

    /// Finds the streams of what is left of blocks that do not say whose they are: nothing of theirs came behind them.
    pub(super) fn place_orphans(&mut self) {
        for orphan in std::mem::take(&mut self.orphans) {
            let promised = self.scan.contents.end.iter().flat_map(|end| &end.streams);
            let promised: Vec<StreamId> = promised.map(|e| e.stream).collect();
            for stream in promised {
                self.streams.entry(stream).or_default();
            }
            let able = || self.streams.iter().filter(|(_, p)| p.last_block < orphan.index);
            let begun = able().find(|(id, _)| find_frame(**id, &orphan.payload, 0).is_some());
            let owner = begun.or_else(|| able().find(|(_, p)| p.partial.is_some()));
            let Some((stream, passing)) = owner else { continue };
            let (stream, goes_on) = (*stream, passing.partial.is_some());
            let first = match goes_on {
                true => 0,
                false => find_frame(stream, &orphan.payload, 0).unwrap_or(0),
            };
            self.parse(stream, BlockIndex(orphan.index), &orphan.payload, first, true);
            if let Some(passing) = self.streams.get_mut(&stream) {
                passing.last_block = orphan.index;
            }
        }
    }
}
