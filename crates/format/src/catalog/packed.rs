//! Packed batches: how the catalog of a session that is over may rest in the internal database, in fewer bytes.
//!
//! A packed frame takes the place of the copies of some batches of one stream: their columns, those of one number together
//! and compressed by themselves, since what they have in common is not what other columns have. Another one has the
//! checksums of contents, which repeat nothing. What comes out are frames that say the same as those on the medium, only not
//! compressed. They are found in the internal database alone; encrypted batches stay as they are.
//!
//! ```text
//! u8 kind (1 batches, 2 checksums) · 16 bytes stream id · varint n · part: n heads · contents
//! part:                  u8 codec · varint length · varint stored length · stored bytes
//! head of a batch:       varint sequence − previous · varint logical − previous · varint rows · varint data_at
//!                        · varint columns, of each: u8 number · varint length
//! head of checksums:     varint sequence − previous · varint logical − previous · varint batch − previous · varint length
//! contents of batches:   for each number, ascending, a part: the columns of that number; none if they are empty. Behind the
//!                        columns 13 come, in the same part, those of 15, which has none of its own
//! contents of checksums: what the payloads have behind the batch's sequence
//! ```

use crate::FormatError;
use crate::bytes::{Cursor, put_bytes, put_varint};
use crate::crc::payload_crc;
use crate::frame::codec::{Codec, Compressor, Decompressor, Method};
use crate::frame::{FRAME_PLAIN_MAX, FrameHeader, FrameType};
use crate::id::StreamId;

use super::frames::RawFrame;

/// The type of a packed frame: its number is not given to any frame on a medium.
pub(super) const PACKED: FrameType = FrameType::Unknown(32);
/// Frames that are packed together: what must be unpacked to see one of them.
pub(super) const TOGETHER: usize = 16;
/// Levels beyond save a fiftieth and take three times as long.
const LEVEL: Method = Method::Zstd(3);
/// Most frames that a reader takes.
const FRAMES_MAX: usize = 1024;
const BATCHES: u8 = 1;
const SUMS: u8 = 2;
/// The version of batches that can be taken apart.
const BATCH_VERSION: u8 = 1;
const WHAT: &str = "packed batches";

/// A frame that is not sealed, with its opened payload.
pub(super) struct Opened<'a> {
    pub header: FrameHeader,
    pub plain: &'a [u8],
}

/// A batch, taken apart.
struct Parts<'a> {
    rows: u64,
    data_at: u64,
    /// By ascending numbers.
    columns: Vec<(u8, &'a [u8])>,
}

impl<'a> Parts<'a> {
    fn of(plain: &'a [u8]) -> Result<Self, FormatError> {
        let mut c = Cursor::new(plain, WHAT);
        if c.u8()? != BATCH_VERSION {
            return Err(FormatError::Invalid(WHAT));
        }
        let (rows, data_at) = (c.varint()?, c.varint()?);
        let mut columns: Vec<(u8, &[u8])> = Vec::new();
        while !c.is_empty() {
            let number = c.u8()?;
            if columns.last().is_some_and(|last| last.0 >= number) {
                return Err(FormatError::Invalid(WHAT));
            }
            columns.push((number, c.bytes()?));
        }
        Ok(Self { rows, data_at, columns })
    }

    fn join(&self) -> Vec<u8> {
        let mut out = vec![BATCH_VERSION];
        put_varint(&mut out, self.rows);
        put_varint(&mut out, self.data_at);
        for (number, bytes) in &self.columns {
            out.push(*number);
            put_bytes(&mut out, bytes);
        }
        out
    }
}

/// A packed frame's payload up to its contents.
fn begin(
    kind: u8,
    stream: StreamId,
    count: usize,
    heads: &[u8],
    compressor: &mut Compressor,
) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend_from_slice(stream.as_bytes());
    put_varint(&mut out, count as u64);
    put_part(&mut out, heads, compressor);
    out
}

fn put_part(out: &mut Vec<u8>, plain: &[u8], compressor: &mut Compressor) {
    let mut packed = Vec::new();
    let codec = compressor.compress(LEVEL, plain, &mut packed);
    out.push(codec.unwrap_or(Codec::None) as u8);
    put_varint(out, plain.len() as u64);
    put_bytes(out, if codec.is_some() { &packed } else { plain });
}

/// The numbers of columns up to the greatest there is, those of each part together.
fn parted(greatest: u8) -> impl Iterator<Item = &'static [u8]> {
    /// Each number, but that of the nanoseconds of ctime where those of mtime are: they often are the same.
    const NUMBERS: [u8; 256] = {
        let mut numbers = [0; 256];
        let mut n = 0;
        while n < 256 {
            numbers[n] = n as u8;
            n += 1;
        }
        numbers
    };
    const MTIME_NSEC: usize = 13;
    const CTIME_NSEC: usize = 15;
    (0..=usize::from(greatest)).filter(|n| *n != CTIME_NSEC).map(|n| match n {
        MTIME_NSEC => &[MTIME_NSEC as u8, CTIME_NSEC as u8],
        n => &NUMBERS[n..=n],
    })
}

/// Packs batches of a stream, in order. `None` if one of them cannot be taken apart or together they are too large: then they
/// are copied as they are.
pub(super) fn pack_batches(
    stream: StreamId,
    batches: &[Opened<'_>],
    compressor: &mut Compressor,
) -> Option<Vec<u8>> {
    let parts: Vec<_> =
        batches.iter().map(|b| Parts::of(b.plain)).collect::<Result<_, _>>().ok()?;
    let (mut heads, mut before) = (Vec::new(), (0, 0));
    for (b, parts) in batches.iter().zip(&parts) {
        put_place(&mut heads, &b.header, &mut before);
        put_varint(&mut heads, parts.rows);
        put_varint(&mut heads, parts.data_at);
        put_varint(&mut heads, parts.columns.len() as u64);
        for (number, bytes) in &parts.columns {
            heads.push(*number);
            put_varint(&mut heads, bytes.len() as u64);
        }
    }
    let mut out = begin(BATCHES, stream, batches.len(), &heads, compressor);
    let mut together = Vec::new();
    let greatest = parts.iter().filter_map(|p| p.columns.last()).map(|c| c.0).max();
    for numbers in parted(greatest.unwrap_or(0)) {
        together.clear();
        for number in numbers {
            let of_number = parts.iter().filter_map(|p| p.columns.iter().find(|c| c.0 == *number));
            of_number.for_each(|c| together.extend_from_slice(c.1));
        }
        if !together.is_empty() {
            put_part(&mut out, &together, compressor);
        }
    }
    checked(out, stream, batches, FrameType::Batch)
}

/// Packs the checksums of contents of a stream, in order; `None` as for batches.
pub(super) fn pack_sums(
    stream: StreamId,
    sums: &[Opened<'_>],
    compressor: &mut Compressor,
) -> Option<Vec<u8>> {
    let (mut heads, mut contents) = (Vec::new(), Vec::new());
    let (mut before, mut batch_before) = ((0, 0), 0u64);
    for s in sums {
        let mut c = Cursor::new(s.plain, WHAT);
        let batch = c.varint().ok()?;
        put_place(&mut heads, &s.header, &mut before);
        put_varint(&mut heads, batch.wrapping_sub(batch_before));
        put_varint(&mut heads, c.remaining() as u64);
        batch_before = batch;
        contents.extend_from_slice(c.take(c.remaining()).ok()?);
    }
    let mut out = begin(SUMS, stream, sums.len(), &heads, compressor);
    out.extend_from_slice(&contents);
    checked(out, stream, sums, FrameType::Sums)
}

fn put_place(out: &mut Vec<u8>, header: &FrameHeader, before: &mut (u64, u64)) {
    put_varint(out, header.sequence.wrapping_sub(before.0));
    put_varint(out, header.logical.wrapping_sub(before.1));
    *before = (header.sequence, header.logical);
}

/// What was packed, if just what went in comes out.
fn checked(
    packed: Vec<u8>,
    stream: StreamId,
    frames: &[Opened<'_>],
    frame_type: FrameType,
) -> Option<Vec<u8>> {
    if packed.len() > FRAME_PLAIN_MAX {
        return None;
    }
    let (of, out) = unpack(&packed).ok()?;
    let same = out.iter().zip(frames).all(|(raw, f)| {
        let (a, b) = (&raw.header, &f.header);
        (a.frame_type, a.sequence, a.logical) == (frame_type, b.sequence, b.logical)
            && raw.stored == f.plain
    });
    (same && of == stream && out.len() == frames.len()).then_some(packed)
}

/// The stream and the frames of a packed frame's payload.
pub(super) fn unpack(packed: &[u8]) -> Result<(StreamId, Vec<RawFrame>), FormatError> {
    let mut c = Cursor::new(packed, WHAT);
    let (kind, stream) = (c.u8()?, StreamId(c.array()?));
    let count = c.count()?;
    if count > FRAMES_MAX {
        return Err(FormatError::Invalid(WHAT));
    }
    let mut opener = PartOpener { decompressor: Decompressor::default(), left: FRAME_PLAIN_MAX };
    let heads = opener.part(&mut c)?;
    let mut heads = Cursor::new(&heads, WHAT);
    let frames = match kind {
        BATCHES => unpack_batches(&mut heads, &mut c, stream, count, &mut opener),
        SUMS => unpack_sums(&mut heads, &mut c, stream, count),
        _ => Err(FormatError::Invalid(WHAT)),
    }?;
    let all = c.is_empty() && heads.is_empty();
    if all { Ok((stream, frames)) } else { Err(FormatError::Invalid(WHAT)) }
}

struct PartOpener {
    decompressor: Decompressor,
    /// Bytes that the parts to come may have.
    left: usize,
}

impl PartOpener {
    fn part(&mut self, c: &mut Cursor<'_>) -> Result<Vec<u8>, FormatError> {
        let bad = || FormatError::Invalid(WHAT);
        let codec = Codec::from_u8(c.u8()?).ok_or_else(bad)?;
        let len = usize::try_from(c.varint()?).map_err(|_| bad())?;
        self.left = self.left.checked_sub(len).ok_or_else(bad)?;
        let mut out = Vec::new();
        self.decompressor.decompress(codec, c.bytes()?, len, &mut out, WHAT)?;
        Ok(out)
    }
}

/// The place of the next frame.
fn place(c: &mut Cursor<'_>, before: &mut (u64, u64)) -> Result<(u64, u64), FormatError> {
    *before = (before.0.wrapping_add(c.varint()?), before.1.wrapping_add(c.varint()?));
    Ok(*before)
}

/// A batch's head.
struct Head {
    place: (u64, u64),
    rows: u64,
    data_at: u64,
    /// Numbers and lengths of its columns.
    columns: Vec<(u8, usize)>,
}

impl Head {
    fn read(c: &mut Cursor<'_>, before: &mut (u64, u64)) -> Result<Self, FormatError> {
        let place = place(c, before)?;
        let (rows, data_at) = (c.varint()?, c.varint()?);
        let mut columns: Vec<(u8, usize)> = Vec::new();
        for _ in 0..c.count()? {
            let (number, len) = (c.u8()?, c.varint_u32()? as usize);
            if columns.last().is_some_and(|last| last.0 >= number) {
                return Err(FormatError::Invalid(WHAT));
            }
            columns.push((number, len));
        }
        Ok(Self { place, rows, data_at, columns })
    }

    fn len_of(&self, number: u8) -> usize {
        self.columns.iter().find(|c| c.0 == number).map_or(0, |c| c.1)
    }
}

fn unpack_batches(
    heads: &mut Cursor<'_>,
    c: &mut Cursor<'_>,
    stream: StreamId,
    count: usize,
    opener: &mut PartOpener,
) -> Result<Vec<RawFrame>, FormatError> {
    let mut before = (0, 0);
    let heads: Vec<_> =
        (0..count).map(|_| Head::read(heads, &mut before)).collect::<Result<_, _>>()?;
    let mut parts: Vec<(&[u8], Vec<u8>)> = Vec::new();
    let greatest = heads.iter().filter_map(|h| h.columns.last()).map(|c| c.0).max();
    for numbers in parted(greatest.unwrap_or(0)) {
        if heads.iter().any(|h| numbers.iter().any(|n| h.len_of(*n) > 0)) {
            parts.push((numbers, opener.part(c)?));
        }
    }
    let mut rest: Vec<(u8, Cursor<'_>)> = Vec::new();
    for (numbers, bytes) in &parts {
        let mut c = Cursor::new(bytes, WHAT);
        for number in *numbers {
            let lengths = heads.iter().map(|h| h.len_of(*number));
            let len = lengths.fold(0usize, |sum, len| sum.saturating_add(len));
            rest.push((*number, Cursor::new(c.take(len)?, WHAT)));
        }
        if !c.is_empty() {
            return Err(FormatError::Invalid(WHAT));
        }
    }
    let mut frames = Vec::with_capacity(count);
    for head in &heads {
        let (rows, data_at) = (head.rows, head.data_at);
        let mut parts = Parts { rows, data_at, columns: Vec::new() };
        for (number, len) in &head.columns {
            let column = rest.iter_mut().find(|r| r.0 == *number);
            parts.columns.push((*number, column.map_or(Ok(&[][..]), |r| r.1.take(*len))?));
        }
        frames.push(raw(FrameType::Batch, stream, head.place, parts.join()));
    }
    let all = rest.iter().all(|r| r.1.is_empty());
    if all { Ok(frames) } else { Err(FormatError::Invalid(WHAT)) }
}

fn unpack_sums(
    heads: &mut Cursor<'_>,
    c: &mut Cursor<'_>,
    stream: StreamId,
    count: usize,
) -> Result<Vec<RawFrame>, FormatError> {
    let mut frames = Vec::with_capacity(count);
    let (mut before, mut batch) = ((0, 0), 0u64);
    for _ in 0..count {
        let place = place(heads, &mut before)?;
        batch = batch.wrapping_add(heads.varint()?);
        let rest = c.take(heads.varint_u32()? as usize)?;
        let mut plain = Vec::with_capacity(10 + rest.len());
        put_varint(&mut plain, batch);
        plain.extend_from_slice(rest);
        frames.push(raw(FrameType::Sums, stream, place, plain));
    }
    Ok(frames)
}

fn raw(
    frame_type: FrameType,
    stream: StreamId,
    (sequence, logical): (u64, u64),
    stored: Vec<u8>,
) -> RawFrame {
    let header = FrameHeader {
        frame_type,
        codec: Codec::None,
        sealed: false,
        sequence,
        logical,
        length: stored.len() as u64,
        stored: stored.len() as u32,
        payload_crc: Some(payload_crc(stream, sequence, &stored)),
    };
    RawFrame { header, stored }
}

#[cfg(test)]
mod tests {
    use crate::rows::sums::Sums;
    use proptest::prelude::*;

    use super::*;

    const STREAM: StreamId = StreamId([5; 16]);

    /// The bytes of a batch of such columns.
    fn batch(rows: u64, data_at: u64, columns: &[(u8, Vec<u8>)]) -> Vec<u8> {
        let mut out = vec![BATCH_VERSION];
        put_varint(&mut out, rows);
        put_varint(&mut out, data_at);
        for (number, bytes) in columns {
            out.push(*number);
            put_bytes(&mut out, bytes);
        }
        out
    }

    fn columns() -> impl Strategy<Value = Vec<(u8, Vec<u8>)>> {
        let column = (any::<u8>(), prop::collection::vec(any::<u8>(), 0..40));
        prop::collection::btree_map(column.0, column.1, 0..8).prop_map(|m| m.into_iter().collect())
    }

    fn frames(frame_type: FrameType, plains: Vec<(u64, u64, Vec<u8>)>) -> Vec<RawFrame> {
        let of = |(sequence, logical, plain)| raw(frame_type, STREAM, (sequence, logical), plain);
        plains.into_iter().map(of).collect()
    }

    fn opened(frames: &[RawFrame]) -> Vec<Opened<'_>> {
        frames.iter().map(|f| Opened { header: f.header, plain: &f.stored }).collect()
    }

    fn same(packed: &[u8], frames: &[RawFrame]) {
        let (stream, out) = unpack(packed).unwrap();
        assert_eq!(stream, STREAM);
        assert_eq!(out.len(), frames.len());
        for (a, b) in out.iter().zip(frames) {
            assert_eq!((a.header, &a.stored), (b.header, &b.stored));
            a.header.check_payload(STREAM, &a.stored).unwrap();
        }
    }

    proptest! {
        #[test]
        fn what_is_packed_comes_out(
            batches in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), columns()), 0..9),
            sums in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), prop::collection::vec(prop::option::of(1..=u64::MAX), 0..40), prop::collection::btree_map(any::<u32>(), any::<u64>(), 0..3)), 0..9),
            at in any::<prop::sample::Index>(),
            to in any::<u8>(),
        ) {
            let batches = batches.iter().map(|(s, l, rows, at, c)| (*s, *l, batch(*rows, *at, c)));
            let batches = frames(FrameType::Batch, batches.collect());
            let packed = pack_batches(STREAM, &opened(&batches), &mut Compressor::default()).unwrap();
            same(&packed, &batches);
            let sums = sums.into_iter().map(|(s, l, batch, sums, whole)| {
                (s, l, Sums { batch, sums, whole: whole.into_iter().collect() }.encode())
            });
            let sums = frames(FrameType::Sums, sums.collect());
            let packed_sums = pack_sums(STREAM, &opened(&sums), &mut Compressor::default()).unwrap();
            same(&packed_sums, &sums);
            // Damaged or cut it is an error, or something else; the frame around it has a checksum.
            for mut bytes in [packed, packed_sums] {
                let at = at.index(bytes.len());
                bytes[at] = to;
                let _ = unpack(&bytes);
                let _ = unpack(&bytes[..at]);
            }
        }

        #[test]
        fn any_bytes_are_taken_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = unpack(&bytes);
            let kind = bytes.first().copied().unwrap_or(1) % 4;
            let (heads, contents) = bytes.split_at(bytes.len() / 2);
            let mut with_head = begin(kind, STREAM, bytes.len() / 16, heads, &mut Compressor::default());
            with_head.extend_from_slice(contents);
            let _ = unpack(&with_head);
        }
    }

    #[test]
    fn what_cannot_be_taken_apart_is_not_packed() {
        let mut compressor = Compressor::default();
        let good = batch(3, 0, &[(1, vec![1, 2, 3])]);
        let mut later = good.clone();
        later[0] = BATCH_VERSION + 1;
        let large = batch(1, 0, &[(1, vec![7; FRAME_PLAIN_MAX])]);
        for bad in [later, large, good[..good.len() - 1].to_vec(), Vec::new()] {
            let frames = frames(FrameType::Batch, vec![(0, 0, good.clone()), (1, 0, bad)]);
            assert_eq!(pack_batches(STREAM, &opened(&frames), &mut compressor), None);
        }
        let frames = frames(FrameType::Sums, vec![(0, 0, Vec::new())]);
        assert_eq!(pack_sums(STREAM, &opened(&frames), &mut compressor), None);
    }
}
