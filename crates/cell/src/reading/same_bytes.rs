//! Whether an open file has the very bytes that a version has of it.

use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::row::Row;
use capstan_disk_agent::linux::source;
use capstan_disk_agent::linux::source_file::{Reader, SourceFile};
use rustix::io::Errno;

use crate::error::{CellError, Result};
use crate::observe::Stop;
use crate::reading::contents::{FileContents, data_ranges};

/// Bytes compared at a time.
const CHUNK: usize = 256 << 10;

/// What comparing came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Same {
    /// Every byte is the same.
    Yes,
    /// Some byte differs.
    No,
    /// The file could not be read.
    Unreadable(Errno),
}

/// Compares a file of the row's length with what the version has; an error if the version's data cannot be read.
pub(crate) fn same_bytes(
    contents: &mut FileContents<'_>,
    row: &Row,
    file: &SourceFile,
    stop: &Stop,
) -> Result<Same> {
    let ranges = data_ranges(&row.entry);
    let mut live = Live { file, reader: Reader::default(), buffer: vec![0; CHUNK], stop };
    let mut found = live.zeros_between(&ranges, row.entry.size);
    // Where in which range the next bytes belong.
    let mut at = ranges.iter();
    let mut here = (0, 0);
    let read = found == Same::Yes;
    let result = if read {
        let mut compare = |mut bytes: &[u8]| {
            while !bytes.is_empty() {
                if here.1 == 0 {
                    let Some(range) = at.next() else { return Err(stopped()) };
                    here = *range;
                    continue;
                }
                let n = bytes.len().min(usize::try_from(here.1).unwrap_or(usize::MAX));
                found = live.has(here.0, &bytes[..n]);
                if found != Same::Yes {
                    return Err(stopped());
                }
                bytes = &bytes[n..];
                here = (here.0 + n as u64, here.1 - n as u64);
            }
            Ok(())
        };
        contents.read(row, &mut |chunk| chunk.each(&mut compare))
    } else {
        Ok(())
    };
    match result {
        Err(e) if found == Same::Yes => Err(e),
        _ => Ok(found),
    }
}

/// Ends the reading of a file that is known to differ.
fn stopped() -> CellError {
    CellError::BadInput("more data than the file's row has".to_owned())
}

struct Live<'a> {
    file: &'a SourceFile,
    reader: Reader,
    buffer: Vec<u8>,
    stop: &'a Stop,
}

impl Live<'_> {
    /// Whether the file has these bytes there.
    fn has(&mut self, mut offset: u64, mut bytes: &[u8]) -> Same {
        while !bytes.is_empty() {
            if self.stop.0.load(Relaxed) {
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
        let zeros = vec![0; CHUNK];
        for (from, to) in holes {
            for (start, len) in &data {
                let (mut at, stop) = (from.max(*start), to.min(start.saturating_add(*len)));
                while at < stop {
                    let n = (stop - at).min(CHUNK as u64);
                    match self.has(at, &zeros[..n as usize]) {
                        Same::Yes => at += n,
                        other => return other,
                    }
                }
            }
        }
        Same::Yes
    }
}
