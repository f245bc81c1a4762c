//! What of a session is not committed yet, kept in a file beside the media: for sources that cannot be read a second time.
//!
//! Each block that was written is appended to the file. A commit empties it. Where the media fail before, the session goes on on
//! others, and what is in the file is written there first: the same segments with the same blocks under the same ids. So what a
//! failed medium has of them after all is no second version of anything, but a mirror.
//!
//! Where the file takes no more, the segment that is open is ended soon and committed, and the keeping begins anew behind it.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use capstan_engine::buffer::Buffer;
use capstan_engine::link::{BlockNotes, FilledBlock, FrameNote, SegmentOrdinal};
use capstan_format::crc::crc32c_of;
use capstan_format::id::{SegmentId, StreamId, VersionId};
use capstan_format::record::SessionEnds;

use capstan_port::media::write::error::WriteError;
use capstan_port::media::write::heading::{Heading, Owner};
use capstan_port::media::write::options::Keeping;

/// Bytes before a block in the file: the lengths of notes and block, and the CRC of both.
const HEAD: usize = 12;

/// A segment that is kept.
#[derive(Debug, Clone)]
pub(crate) struct KeptSegment {
    pub heading: Heading,
    pub id: SegmentId,
    /// Where its blocks begin in the file, and how many there are.
    at: u64,
    pub blocks: u64,
    /// With what it was ended, and when, if it was.
    pub ended: Option<(SessionEnds, i64)>,
}

/// The uncommitted blocks of a session.
pub(crate) struct Keep {
    file: File,
    path: String,
    room: u64,
    /// Where the next block goes.
    end: u64,
    segments: VecDeque<KeptSegment>,
    /// It does not have all that is not committed.
    broken: bool,
}

impl Keep {
    /// In a file without a name, with so much room.
    pub fn new(keeping: &mut Keeping) -> io::Result<Self> {
        let file = keeping.file.try_clone()?;
        let (path, room) = (keeping.path.clone(), keeping.room);
        Ok(Self { file, path, room, end: 0, segments: VecDeque::new(), broken: false })
    }

    /// Whether it has all that is not committed.
    pub fn is_whole(&self) -> bool {
        !self.broken
    }

    /// Whether what was ended is to be committed at once: it lacks some of it, or has little room left.
    pub fn is_due(&self) -> bool {
        self.broken || self.end >= Self::commit_bytes(self.room)
    }

    /// Bytes after which segments are to be committed, so that there is room for one more and what is on the way.
    pub fn commit_bytes(room: u64) -> u64 {
        room / 2
    }

    /// Bytes of a segment at most.
    pub fn segment_bytes(room: u64) -> u64 {
        room / 4
    }

    /// What a segment is begun with.
    pub fn begin(&mut self, heading: Heading, id: SegmentId, written_us: i64) {
        let heading = Heading { written_us: Some(written_us), ..heading };
        let (at, ended) = (self.end, None);
        self.segments.push_back(KeptSegment { heading, id, at, blocks: 0, ended });
    }

    /// Takes a block of the segment begun last, that was written. Why it cannot, the first time.
    pub fn block(&mut self, block: &FilledBlock, owner: Owner) -> Option<String> {
        if self.broken {
            return None;
        }
        let result = self.append(block, owner);
        let why = result.err()?;
        self.broken = true;
        Some(format!("{}: {why}", self.path))
    }

    fn append(&mut self, block: &FilledBlock, owner: Owner) -> io::Result<()> {
        let Some(segment) = self.segments.back_mut() else {
            return Err(io::Error::other("a block came before its segment"));
        };
        let notes = encode(block, owner);
        let crc = crc32c_of(&[&notes, &block.buffer]);
        let lens = [notes.len() as u32, block.buffer.len() as u32, crc];
        let mut head: Vec<u8> = lens.into_iter().flat_map(u32::to_le_bytes).collect();
        head.extend(notes);
        let len = (head.len() + block.buffer.len()) as u64;
        if self.end.saturating_add(len) > self.room {
            return Err(io::Error::other(format!(
                "more came than its room of {} bytes",
                self.room
            )));
        }
        self.file.write_all_at(&head, self.end)?;
        self.file.write_all_at(&block.buffer, self.end + head.len() as u64)?;
        self.end += len;
        segment.blocks += 1;
        Ok(())
    }

    /// The segment begun last was ended.
    pub fn ended(&mut self, ends: SessionEnds, written_us: i64) {
        if let Some(segment) = self.segments.back_mut() {
            segment.ended = Some((ends, written_us));
        }
    }

    /// These became durable.
    pub fn committed(&mut self, committed: &[SegmentId]) {
        self.segments.retain(|s| !committed.contains(&s.id));
        if self.segments.is_empty() {
            self.end = 0;
            // What cannot be given back is overwritten.
            self.broken = false;
            let _ = self.file.set_len(0);
        }
    }

    /// The segments that are not committed, in order.
    pub fn segments(&self) -> Vec<KeptSegment> {
        self.segments.iter().cloned().collect()
    }

    /// Reads the blocks of a segment back, in order.
    pub fn blocks(
        &self,
        segment: &KeptSegment,
        each: &mut dyn FnMut(FilledBlock, Owner) -> Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        let mut at = segment.at;
        for _ in 0..segment.blocks {
            let read = self.read(&mut at);
            let failed = |source| WriteError::Kept { path: self.path.clone(), source };
            let (block, owner) = read.map_err(failed)?;
            each(block, owner)?;
        }
        Ok(())
    }

    fn read(&self, at: &mut u64) -> io::Result<(FilledBlock, Owner)> {
        let damaged = || {
            io::Error::new(
                io::ErrorKind::InvalidData,
                "it gives back other bytes than were written",
            )
        };
        let mut head = [0; HEAD];
        self.file.read_exact_at(&mut head, *at)?;
        let mut fields = Fields(&head);
        let (Some(notes_len), Some(len), Some(crc)) = (fields.u32(), fields.u32(), fields.u32())
        else {
            return Err(damaged());
        };
        let behind = *at + HEAD as u64 + u64::from(notes_len) + u64::from(len);
        if behind > self.end {
            return Err(damaged());
        }
        let mut notes = vec![0; notes_len as usize];
        self.file.read_exact_at(&mut notes, *at + HEAD as u64)?;
        let mut buffer = Buffer::new(len as usize);
        let bytes = buffer.get_mut(..len as usize).ok_or_else(damaged)?;
        self.file.read_exact_at(bytes, *at + HEAD as u64 + u64::from(notes_len))?;
        if crc32c_of(&[&notes, bytes]) != crc {
            return Err(damaged());
        }
        *at = behind;
        decode(&notes, buffer).ok_or_else(damaged)
    }
}

fn encode(block: &FilledBlock, owner: Owner) -> Vec<u8> {
    let notes = &block.notes;
    let mut out = Vec::new();
    out.extend(block.short_len.to_le_bytes());
    out.extend(block.stream.0);
    out.extend(block.segment.0.to_le_bytes());
    out.extend([u8::from(block.ends_segment), u8::from(owner.sparse)]);
    out.extend(owner.version.0);
    out.extend(notes.rows.to_le_bytes());
    out.extend(notes.logical_end.to_le_bytes());
    out.extend((notes.frames.len() as u32).to_le_bytes());
    for frame in &notes.frames {
        out.push(u8::from(frame.logical_frame));
        out.extend(frame.sequence.to_le_bytes());
        out.extend(frame.logical.to_le_bytes());
        out.extend(frame.byte.to_le_bytes());
    }
    out.extend((notes.copies.len() as u32).to_le_bytes());
    for copy in &notes.copies {
        out.extend((copy.len() as u32).to_le_bytes());
        out.extend(copy);
    }
    out
}

fn decode(bytes: &[u8], buffer: Buffer) -> Option<(FilledBlock, Owner)> {
    let mut fields = Fields(bytes);
    let short_len = fields.u32()?;
    let stream = StreamId(fields.id()?);
    let segment = SegmentOrdinal(fields.u32()?);
    let (ends_segment, sparse) = (fields.bool()?, fields.bool()?);
    let version = VersionId(fields.id()?);
    let (rows, logical_end) = (fields.u64()?, fields.u64()?);
    let mut notes = BlockNotes { rows, logical_end, ..BlockNotes::default() };
    for _ in 0..fields.u32()? {
        notes.frames.push(FrameNote {
            logical_frame: fields.bool()?,
            sequence: fields.u64()?,
            logical: fields.u64()?,
            byte: fields.u32()?,
        });
    }
    for _ in 0..fields.u32()? {
        let len = fields.u32()? as usize;
        notes.copies.push(fields.take(len)?.to_vec());
    }
    let block = FilledBlock { buffer, short_len, stream, segment, ends_segment, notes };
    fields.0.is_empty().then_some((block, Owner { version, sparse }))
}

/// Fields of fixed length, one after the other.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn bool(&mut self) -> Option<bool> {
        Some(*self.take(1)?.first()? != 0)
    }

    fn id(&mut self) -> Option<[u8; 16]> {
        self.take(16)?.try_into().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keep(room: u64) -> Keep {
        let (replace, lost) = (
            Box::new(|members: Vec<_>, _: &_| Ok(members.into_iter().map(Ok).collect())),
            Box::new(drop),
        );
        let file = tempfile::tempfile().unwrap();
        let mut keeping = Keeping { file, path: "here".to_owned(), room, replace, lost };
        Keep::new(&mut keeping).unwrap()
    }

    fn heading() -> Heading {
        let label = format!(
            r#"{{"session":"{0}","object":"{0}","version":"{0}","started_us":1}}"#,
            "01".repeat(16)
        );
        let session = serde_json::from_str(&label).unwrap();
        Heading { session, keys: Vec::new(), copy_of: None, written_us: None }
    }

    fn block(fill: u8) -> FilledBlock {
        let mut buffer = Buffer::new(4096);
        buffer.fill(fill);
        let (stream, segment) = (StreamId([4; 16]), SegmentOrdinal(0));
        let notes = BlockNotes::default();
        FilledBlock { buffer, short_len: 4096, stream, segment, ends_segment: false, notes }
    }

    const OWNER: Owner = Owner { version: VersionId([6; 16]), sparse: false };

    #[test]
    fn it_keeps_what_is_not_committed_within_its_room() {
        let mut keep = keep(20_000);
        let (first, second) = (SegmentId([1; 16]), SegmentId([2; 16]));
        keep.begin(heading(), first, 7);
        assert!(keep.block(&block(1), OWNER).is_none() && keep.block(&block(2), OWNER).is_none());
        keep.ended(SessionEnds::default(), 8);
        keep.begin(heading(), second, 9);
        assert!(keep.block(&block(3), OWNER).is_none() && keep.is_due() && keep.is_whole());
        keep.committed(&[first]);
        let left = keep.segments();
        assert_eq!((left.len(), left[0].id, left[0].heading.written_us), (1, second, Some(9)));
        let mut read = Vec::new();
        let mut each = |block: FilledBlock, _| {
            read.push(block.buffer[4000]);
            Ok(())
        };
        keep.blocks(&left[0], &mut each).unwrap();
        assert_eq!(read, [3]);
        assert!(keep.block(&block(4), OWNER).is_none());
        let why = keep.block(&block(5), OWNER).unwrap();
        assert!(why.contains("20000 bytes") && !keep.is_whole(), "{why}");
        assert!(keep.block(&block(6), OWNER).is_none(), "it is said once");
        // With the next commit it begins anew.
        keep.committed(&[second]);
        assert!(keep.is_whole() && !keep.is_due() && keep.segments().is_empty());
        keep.begin(heading(), first, 10);
        assert!(keep.block(&block(7), OWNER).is_none());
    }

    #[test]
    fn what_the_disk_gives_back_otherwise_is_refused() {
        let mut keep = keep(20_000);
        keep.begin(heading(), SegmentId([1; 16]), 7);
        keep.block(&block(1), OWNER);
        let segment = keep.segments().remove(0);
        for at in [0, 5, 9, 40, 300] {
            let mut was = [0];
            keep.file.read_exact_at(&mut was, at).unwrap();
            keep.file.write_all_at(&[was[0] ^ 4], at).unwrap();
            let read = keep.blocks(&segment, &mut |_, _| Ok(()));
            assert!(matches!(read, Err(WriteError::Kept { .. })), "{at}");
            keep.file.write_all_at(&was, at).unwrap();
        }
        keep.blocks(&segment, &mut |_, _| Ok(())).unwrap();
    }

    #[test]
    fn what_is_kept_comes_back() {
        let mut buffer = Buffer::new(8192);
        buffer[100..104].copy_from_slice(b"some");
        let frame =
            |n: u64| FrameNote { logical_frame: n > 1, sequence: n, logical: n * 7, byte: 9 };
        let notes = BlockNotes {
            frames: vec![frame(1), frame(2)],
            copies: vec![b"a label".to_vec(), Vec::new()],
            rows: 3,
            logical_end: 1 << 40,
        };
        let (stream, segment) = (StreamId([4; 16]), SegmentOrdinal(5));
        let block =
            FilledBlock { buffer, short_len: 4096, stream, segment, ends_segment: true, notes };
        let owner = Owner { version: VersionId([6; 16]), sparse: false };
        let encoded = encode(&block, owner);
        let (again, of) = decode(&encoded, Buffer::new(8192)).unwrap();
        assert_eq!(
            (again.notes.frames, again.notes.copies),
            (block.notes.frames, block.notes.copies)
        );
        assert_eq!((again.short_len, again.stream, again.segment), (4096, stream, segment));
        assert_eq!(
            (again.ends_segment, again.notes.rows, again.notes.logical_end),
            (true, 3, 1 << 40)
        );
        assert_eq!(of, owner);
        for len in 0..encoded.len() {
            assert!(decode(&encoded[..len], Buffer::new(8192)).is_none(), "{len}");
        }
    }
}
