//! What of the contents that rows promise is on media.

use capstan_format::entry::{Extent, ExtentKind};
use capstan_format::id::StreamId;
use capstan_format::sums::combined;

use super::{Overview, PartOf};
use crate::row::Row;

/// A range of a file's contents that is on media.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SavedRange {
    /// Where in the file it begins.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The stream that has it.
    pub stream: StreamId,
    /// The stream's logical offset at which it begins.
    pub logical: u64,
}

impl Overview {
    /// Whether all data that the row promises are on media.
    pub fn is_whole(&self, row: &Row) -> bool {
        let e = &row.entry;
        let stream = row.data.stream;
        let elsewhere = |x: &Extent| match x.kind {
            ExtentKind::At(stream, at) => self.is_on_media(stream, at, x.len),
            ExtentKind::AsIn(_) => false,
            _ => true,
        };
        let own = self.is_on_media(stream, row.start, e.logical_len());
        if !own || !e.extents.iter().all(elsewhere) {
            return false;
        }
        let parts = e.extents.iter().filter(|x| x.kind == ExtentKind::Parts);
        let parts = parts.fold(self.goes_on(row), |sum, x| sum.saturating_add(x.len));
        let there = self.parts_of(row).fold(0_u64, |sum, p| sum.saturating_add(p.len));
        parts == 0 || there >= parts
    }

    /// How many of the bytes that begin with the row lie behind its segment: rows of parts say where. Where those are lost, nobody finds
    /// the bytes, though they are on media.
    fn goes_on(&self, row: &Row) -> u64 {
        let end = row.start.saturating_add(row.entry.logical_len());
        let spans = self.spans.get(&row.data.stream).map(Vec::as_slice).unwrap_or_default();
        let of_row = spans.iter().map(|span| span.1).filter(|to| *to > row.start).min();
        of_row.map_or(0, |to| end.saturating_sub(to))
    }

    /// The file's length as far as media bear it out: all that the row says where all of it is on media, else up to the last
    /// byte that is, or the last hole.
    pub fn believed_len(&self, row: &Row) -> u64 {
        let e = &row.entry;
        if self.is_whole(row) {
            return e.size;
        }
        let stream = row.data.stream;
        if e.extents.is_empty() {
            return self.covered_to(stream, row.start, e.size);
        }
        let (mut end, mut offset, mut logical) = (0_u64, 0_u64, row.start);
        for x in &e.extents {
            let here = match x.kind {
                ExtentKind::Data => {
                    let here = self.covered_to(stream, logical, x.len);
                    logical = logical.saturating_add(x.len);
                    here
                }
                ExtentKind::At(stream, at) => self.covered_to(stream, at, x.len),
                ExtentKind::Hole => x.len,
                ExtentKind::Parts => {
                    let ends = self.parts_of(row).map(|p| p.offset.saturating_add(p.len));
                    ends.max().unwrap_or(0).saturating_sub(offset).min(x.len)
                }
                ExtentKind::AsIn(_) | ExtentKind::Unknown(_) => 0,
            };
            if here > 0 {
                end = offset.saturating_add(here);
            }
            offset = offset.saturating_add(x.len);
        }
        end.min(e.size)
    }

    /// How many of so many bytes of a stream there are up to the last one that is on media.
    fn covered_to(&self, stream: StreamId, start: u64, len: u64) -> u64 {
        let end = start.saturating_add(len);
        let spans = self.spans.get(&stream).map(Vec::as_slice).unwrap_or_default();
        let ends = spans.iter().filter(|(from, to)| *from < end && start < *to);
        ends.map(|(_, to)| (*to).min(end) - start).max().unwrap_or(0)
    }

    /// The parts of the row's file. Those of an earlier session's try do not count.
    fn parts_of<'o>(&'o self, row: &'o Row) -> impl Iterator<Item = &'o PartOf> {
        let path = row.entry.path();
        let parts = self.parts.get(&path).map(Vec::as_slice).unwrap_or_default();
        let is_carried = row.data != row.ordinal;
        parts.iter().filter(move |part| {
            let of_this =
                part.ordinal.stream == row.data.stream || !row.data.is_newer_than(&part.ordinal);
            of_this
                && match is_carried {
                    true => part.ordinal.session <= row.data.session,
                    false => !self.is_replaced(&path, part.ordinal),
                }
        })
    }

    /// The checksum of the contents of a file that [`Self::is_whole`], holes left out, where all of it is known.
    pub fn content_sum(&self, row: &Row) -> Option<u64> {
        let e = &row.entry;
        let is_elsewhere = |x: &Extent| matches!(x.kind, ExtentKind::At(..) | ExtentKind::Hole);
        if !e.extents.is_empty() && e.extents.iter().all(is_elsewhere) {
            // Where all of it was passed on by a consolidation, that said what it is.
            return row.sum;
        }
        // Of what was passed on in part nothing is known.
        if !e
            .extents
            .iter()
            .all(|x| matches!(x.kind, ExtentKind::Data | ExtentKind::Hole | ExtentKind::Parts))
        {
            return None;
        }
        let mut pieces: Vec<(u64, u64, u64)> = Vec::new();
        let mut len: u64 = e.logical_len();
        if len > 0 {
            let ends = self.spans.get(&row.data.stream)?.iter().map(|span| span.1);
            let end = ends.filter(|end| *end > row.start).min()?;
            pieces.push((0, len.min(end - row.start), row.sum?));
        }
        len += e.extents.iter().filter(|x| x.kind == ExtentKind::Parts).map(|x| x.len).sum::<u64>();
        for part in self.parts_of(row) {
            pieces.push((part.offset, part.len, part.sum?));
        }
        pieces.sort_unstable();
        let (_, first_len, first) = *pieces.first()?;
        let (sum, summed) = pieces[1..].iter().fold((first, first_len), |(sum, summed), piece| {
            (combined(sum, piece.2, piece.1), summed.saturating_add(piece.1))
        });
        // Something twice, or missing, shows in the length.
        (summed == len).then_some(sum)
    }

    /// Whether not even the begin of the data that the row promises is on media: the row does not come again.
    pub fn is_unkept(&self, stream: StreamId, row: &Row) -> bool {
        row.entry.logical_len() > 0 && !self.is_on_media(stream, row.start, 1)
    }

    pub(super) fn is_on_media(&self, stream: StreamId, start: u64, len: u64) -> bool {
        self.up_to(stream, start) >= start.saturating_add(len)
    }

    /// Up to where a stream's bytes are on media from `start` on.
    fn up_to(&self, stream: StreamId, start: u64) -> u64 {
        let mut at = start;
        for (from, to) in self.spans.get(&stream).map(Vec::as_slice).unwrap_or_default() {
            if (*from..*to).contains(&at) {
                at = *to;
            }
        }
        at
    }

    /// What of the contents that the row promises is on media, ascending and apart.
    pub fn saved_of(&self, row: &Row) -> Vec<SavedRange> {
        let e = &row.entry;
        let mut saved = Vec::new();
        let mut add = |offset, stream, logical, len: u64| {
            let len = len.min(self.up_to(stream, logical).saturating_sub(logical));
            if len > 0 {
                saved.push(SavedRange { offset, len, stream, logical });
            }
        };
        let whole = [Extent { len: e.size, kind: ExtentKind::Data }];
        let extents = if e.extents.is_empty() { &whole[..] } else { &e.extents };
        let (mut offset, mut logical): (u64, _) = (0, row.start);
        for x in extents {
            match x.kind {
                ExtentKind::Data => {
                    add(offset, row.data.stream, logical, x.len);
                    logical = logical.saturating_add(x.len);
                }
                ExtentKind::At(stream, at) => add(offset, stream, at, x.len),
                ExtentKind::Parts => {
                    let end = offset.saturating_add(x.len);
                    for part in self.parts_of(row).filter(|p| (offset..end).contains(&p.offset)) {
                        add(part.offset, part.ordinal.stream, part.start, part.len);
                    }
                }
                ExtentKind::Hole => {}
                ExtentKind::AsIn(_) | ExtentKind::Unknown(_) => return Vec::new(),
            }
            offset = offset.saturating_add(x.len);
        }
        saved.sort_by_key(|s| s.offset);
        let mut end = 0;
        saved.retain(|s| {
            let apart = s.offset >= end;
            end = end.max(s.offset.saturating_add(s.len));
            apart
        });
        saved
    }
}
