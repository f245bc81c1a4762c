//! What a segment has of one stream, apart from its batches: all that the order of paths does not show.

use capstan_format::FormatError;
use capstan_format::batch::{Batch, BatchEncoder};
use capstan_format::bytes::{Cursor, put_bytes, put_varint};
use capstan_format::entry::{Entry, Kind};
use capstan_format::frame::FRAME_PLAIN_DEFAULT;
use capstan_format::id::StreamId;
use capstan_format::record::SessionLabel;

use crate::row::PathKey;

/// Rows encoded together.
const CHUNK: usize = 4096;
const WHAT: &str = "outline of a segment";

/// A row that is not found by the order of paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Aside {
    /// Its place in the stream's part of the segment, as in [`crate::row::Ordinal`].
    pub row: u32,
    /// The stream's logical offset at which its data begin.
    pub start: u64,
    /// The checksum of the data that it has here.
    pub sum: Option<u64>,
    /// The row.
    pub entry: Entry,
}

/// What a segment has of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outline {
    /// The stream.
    pub stream: StreamId,
    /// Its label.
    pub label: Option<SessionLabel>,
    /// Where the stream's logical bytes in this segment begin.
    pub begin: u64,
    /// Where they end.
    pub end: u64,
    /// How many rows are further names.
    pub links: u64,
    /// How many rows have inode flags.
    pub flagged: u64,
    /// The first path of the rows that count here and are in order.
    pub first: Option<PathKey>,
    /// The last one.
    pub last: Option<PathKey>,
    /// Rows whose data begin in a later segment, if they came: their places, and where their data begin.
    pub ahead: Vec<(u32, u64)>,
    /// Outcomes, parts, and rows that come late.
    pub aside: Vec<Aside>,
}

impl Outline {
    /// Whether a row's data, if it has any, begin in this segment: else it comes again in the next.
    pub fn counts(&self, entry: &Entry, start: u64) -> bool {
        entry.logical_len() == 0 || start < self.end
    }

    /// All but the stream and its label, in few bytes.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for n in [self.begin, self.end, self.links, self.flagged] {
            put_varint(&mut out, n);
        }
        put_varint(&mut out, self.ahead.len() as u64);
        let mut before = (0, 0);
        for (row, start) in &self.ahead {
            // Both ascend, by little.
            put_varint(&mut out, row.wrapping_sub(before.0).into());
            put_varint(&mut out, start.wrapping_sub(before.1));
            before = (*row, *start);
        }
        put_varint(&mut out, self.aside.len() as u64);
        for a in &self.aside {
            out.extend_from_slice(&a.sum.unwrap_or(0).to_le_bytes());
            put_varint(&mut out, a.row.into());
            put_varint(&mut out, a.start);
        }
        let (first, last) = (self.first.as_ref().map(named), self.last.as_ref().map(named));
        out.push(u8::from(first.is_some()) | u8::from(last.is_some()) << 1);
        put_rows(&mut out, self.aside.iter().map(|a| &a.entry).chain(&first).chain(&last));
        out
    }

    /// Reads what [`Self::encode`] wrote.
    pub(super) fn decode(
        plain: &[u8],
        stream: StreamId,
        label: Option<SessionLabel>,
    ) -> Result<Self, FormatError> {
        let mut c = Cursor::new(plain, WHAT);
        let [begin, end, links, flagged] = [c.varint()?, c.varint()?, c.varint()?, c.varint()?];
        let mut ahead = Vec::new();
        let mut before = (0u32, 0u64);
        for _ in 0..c.count()? {
            before = (before.0.wrapping_add(c.varint_u32()?), before.1.wrapping_add(c.varint()?));
            ahead.push(before);
        }
        let mut places = Vec::new();
        for _ in 0..c.count()? {
            let sum = u64::from_le_bytes(c.array()?);
            places.push(((sum != 0).then_some(sum), c.varint_u32()?, c.varint()?));
        }
        let has = c.u8()?;
        let mut rows = rows(&mut c)?;
        let wanted = places.len() + usize::from(has & 1) + usize::from(has >> 1 & 1);
        if rows.len() != wanted {
            return Err(FormatError::Invalid(WHAT));
        }
        let mut path = |there: bool| {
            let row = if there { rows.pop() } else { None };
            row.map(|e| (e.dir, e.name))
        };
        let (last, first) = (path(has & 2 != 0), path(has & 1 != 0));
        let aside = places.into_iter().zip(rows);
        let aside =
            aside.map(|((sum, row, start), entry)| Aside { row, start, sum, entry }).collect();
        Ok(Self { stream, label, begin, end, links, flagged, first, last, ahead, aside })
    }
}

/// A row that is nothing but a path.
pub(super) fn named((dir, name): &PathKey) -> Entry {
    Entry { kind: Kind::Tombstone, dir: dir.clone(), name: name.clone(), ..Entry::default() }
}

/// Appends rows, to be read by [`rows`] or [`paths`].
pub(super) fn put_rows<'e>(out: &mut Vec<u8>, rows: impl Iterator<Item = &'e Entry>) {
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

/// The rows up to the end.
fn rows(c: &mut Cursor<'_>) -> Result<Vec<Entry>, FormatError> {
    let mut rows = Vec::new();
    while !c.is_empty() {
        rows.extend(c.bytes().and_then(Batch::decode)?.entries);
    }
    Ok(rows)
}

/// The paths of the rows up to the end.
pub(super) fn paths(c: &mut Cursor<'_>) -> Result<Vec<PathKey>, FormatError> {
    let mut paths = Vec::new();
    while !c.is_empty() {
        Batch::each_name(c.bytes()?, &mut |dir, name| {
            paths.push((dir.to_vec(), name.to_vec()));
            true
        })?;
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outline(asides: u32) -> Outline {
        let aside = |row| Aside {
            row,
            start: u64::from(row) << 30,
            sum: row.is_multiple_of(2).then_some(u64::from(row) + 1),
            entry: Entry { kind: Kind::Part, name: vec![b'n'; row as usize % 9], ..named(&key(9)) },
        };
        Outline {
            stream: StreamId([7; 16]),
            label: None,
            begin: 12,
            end: 1 << 40,
            links: 3,
            flagged: 4,
            first: Some(key(1)),
            last: Some(key(2)),
            ahead: vec![(65_536, 1 << 40), (65_537, (1 << 40) + 9)],
            aside: (0..asides).map(aside).collect(),
        }
    }

    fn key(n: u8) -> PathKey {
        (vec![b'd', n], vec![n])
    }

    #[test]
    fn outlines_read_back() {
        let none = Outline { first: None, last: None, ahead: Vec::new(), ..outline(0) };
        let hostile = Outline { ahead: vec![(9, u64::MAX), (3, 0)], ..outline(1) };
        for o in [outline(0), outline(3), outline(5000), none, hostile] {
            assert_eq!(Outline::decode(&o.encode(), o.stream, None).unwrap(), o);
        }
    }

    #[test]
    fn what_is_cut_or_other_is_an_error_or_another_outline() {
        let bytes = outline(4).encode();
        for at in 0..bytes.len() {
            let _ = Outline::decode(&bytes[..at], StreamId([7; 16]), None);
            for to in [0, 1, 0x7f, 0xff] {
                let mut other = bytes.clone();
                other[at] = to;
                let _ = Outline::decode(&other, StreamId([7; 16]), None);
            }
        }
    }
}
