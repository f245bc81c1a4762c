//! Whether an open file has the very bytes that a version has of it.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use capstan_engine::frames::{FramePort, Lack};
use capstan_engine::meter::Lap;
use capstan_format::entry::Entry;
use capstan_port::disk::contents::Piece;
use capstan_stream::contents::{Bytes, Contents};
use rustix::io::Errno;

use crate::linux::source;
use crate::linux::source_file::{Reader, SourceFile};

/// Bytes compared at a time.
const CHUNK: usize = 256 << 10;

/// What comparing came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Same {
    /// Every byte is the same.
    Yes,
    /// Some byte differs.
    No,
    /// The file could not be read.
    Unreadable(Errno),
    /// What the version has could not be read.
    Lacking(Lack),
}

/// What the version has of files, read one after the other.
pub(super) struct Version<'a> {
    pub contents: Contents<'a>,
    pub frames: &'a mut dyn FramePort,
}

impl Version<'_> {
    /// Compares a file of the row's length with what the version has: its pieces, and zeros between them.
    pub fn is_in(
        &mut self,
        file: &SourceFile,
        entry: &Entry,
        pieces: &[Piece],
        stop: &AtomicBool,
    ) -> Same {
        let mut live = Live { file, reader: Reader::default(), buffer: vec![0; CHUNK], stop };
        let mut same = live.zeros_between(&entry.data_ranges(), entry.size);
        for piece in pieces {
            if same != Same::Yes {
                return same;
            }
            same = match piece.at {
                Some(at) => self.has(&mut live, piece, at),
                None => live.has_zeros(piece.offset, piece.len),
            };
        }
        same
    }

    fn has(
        &mut self,
        live: &mut Live<'_>,
        piece: &Piece,
        (stream, logical): (capstan_format::id::StreamId, u64),
    ) -> Same {
        let (mut done, mut lap) = (0, Lap::start());
        while done < piece.len {
            let (at, left) = (logical.saturating_add(done), piece.len - done);
            let offset = piece.offset.saturating_add(done);
            let (same, n) = match self.contents.get(self.frames, stream, at, left, &mut lap) {
                Bytes::Data(bytes) => (live.has(offset, bytes), bytes.len() as u64),
                Bytes::Zeros(n) => (live.has_zeros(offset, n), n),
                Bytes::Lacking(_, why) => return Same::Lacking(why),
            };
            if same != Same::Yes {
                return same;
            }
            done += n;
        }
        Same::Yes
    }
}

struct Live<'a> {
    file: &'a SourceFile,
    reader: Reader,
    buffer: Vec<u8>,
    stop: &'a AtomicBool,
}

impl Live<'_> {
    /// Whether the file has these bytes there.
    fn has(&mut self, mut offset: u64, mut bytes: &[u8]) -> Same {
        while !bytes.is_empty() {
            if self.stop.load(Relaxed) {
                return Same::Unreadable(Errno::INTR);
            }
            let want = bytes.len().min(CHUNK);
            let n = match self.reader.read_at(self.file, &mut self.buffer[..want], offset) {
                Ok(0) => return Same::No,
                Ok(n) => n,
                Err(e) => return Same::Unreadable(e),
            };
            if self.buffer[..n] != bytes[..n] {
                return Same::No;
            }
            (offset, bytes) = (offset + n as u64, &bytes[n..]);
        }
        Same::Yes
    }

    /// Whether the file has so many zeros there.
    fn has_zeros(&mut self, offset: u64, len: u64) -> Same {
        const ZEROS: [u8; 16 << 10] = [0; 16 << 10];
        let mut done = 0;
        while done < len {
            let n = (len - done).min(ZEROS.len() as u64);
            match self.has(offset.saturating_add(done), &ZEROS[..n as usize]) {
                Same::Yes => done += n,
                other => return other,
            }
        }
        Same::Yes
    }

    /// Whether all is zero where the version has holes.
    fn zeros_between(&mut self, ranges: &[(u64, u64)], size: u64) -> Same {
        let mut end = 0;
        let mut holes = Vec::new();
        for (from, len) in ranges.iter().chain([&(size, 0)]) {
            if *from > end {
                holes.push((end, *from));
            }
            end = from.saturating_add(*len);
        }
        if holes.is_empty() {
            return Same::Yes;
        }
        let data = match source::data_ranges(self.file, size) {
            Ok(data) => data,
            Err(e) => return Same::Unreadable(e),
        };
        for (from, to) in holes {
            for (start, len) in &data {
                let (at, stop) = (from.max(*start), to.min(start.saturating_add(*len)));
                match self.has_zeros(at, stop.saturating_sub(at)) {
                    Same::Yes => {}
                    other => return other,
                }
            }
        }
        Same::Yes
    }
}
