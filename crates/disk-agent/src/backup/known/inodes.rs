//! A table of files by inode number, in flat memory: sorted, and beyond a few megabytes on disk, where runs are merged into one.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::FileExt;

use capstan_format::entry::Timestamp;

use crate::spill::{of_spill, spill_file};

/// Bytes of a file on disk.
const LEN: usize = 80;
/// Files that are kept in memory: 4 MiB of them.
const IN_MEMORY: usize = (4 << 20) / size_of::<Known>();
/// Files on disk of which one is known by its number in memory, and that are read together.
const GROUP: usize = 64;

/// A file that can be referred to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub ino: u64,
    pub dev: u64,
    pub size: u64,
    pub mtime: Timestamp,
    pub ctime: Timestamp,
    /// The checksum of its contents.
    pub sum: Option<u64>,
    pub place: Place,
}

/// Where its contents are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// All in one stream, from a logical offset on. Streams go by their numbers in a table.
    Run { stream: u32, logical: u64 },
    /// As a row says: the stream, the segment, the row's number there.
    Row { stream: u32, segment: u32, row: u32 },
}

impl Known {
    fn encode(&self) -> [u8; LEN] {
        let (kind, stream, at) = match self.place {
            Place::Run { stream, logical } => (0_u32, stream, logical),
            Place::Row { stream, segment, row } => {
                (1, stream, u64::from(segment) << 32 | u64::from(row))
            }
        };
        let kind = kind | u32::from(self.sum.is_some()) << 1;
        let words = [
            self.ino,
            self.dev,
            self.size,
            self.mtime.sec as u64,
            self.ctime.sec as u64,
            u64::from(self.mtime.nsec) << 32 | u64::from(self.ctime.nsec),
            self.sum.unwrap_or(0),
            u64::from(kind) << 32 | u64::from(stream),
            at,
            0,
        ];
        let mut bytes = [0; LEN];
        for (out, word) in bytes.chunks_exact_mut(8).zip(words) {
            out.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Self {
        let word = |n: usize| {
            let word = bytes.get(n * 8..n * 8 + 8).and_then(|word| word.try_into().ok());
            u64::from_le_bytes(word.unwrap_or_default())
        };
        let (kind, stream, at) = ((word(7) >> 32) as u32, word(7) as u32, word(8));
        let place = match kind & 1 {
            0 => Place::Run { stream, logical: at },
            _ => Place::Row { stream, segment: (at >> 32) as u32, row: at as u32 },
        };
        Self {
            ino: word(0),
            dev: word(1),
            size: word(2),
            mtime: Timestamp { sec: word(3) as i64, nsec: (word(5) >> 32) as u32 },
            ctime: Timestamp { sec: word(4) as i64, nsec: word(5) as u32 },
            sum: (kind & 2 != 0).then(|| word(6)),
            place,
        }
    }
}

/// What was sorted and has gone to disk.
struct Run {
    /// Where it begins in its file, and where it ends, in bytes.
    at: u64,
    end: u64,
}

/// Reads a run from begin to end, a few groups at a time.
struct RunReader {
    run: Run,
    bytes: Vec<u8>,
    next: usize,
}

impl RunReader {
    fn next(&mut self, file: &File) -> io::Result<Option<Known>> {
        if self.next == self.bytes.len() {
            let len = (self.run.end - self.run.at).min((4 * GROUP * LEN) as u64);
            self.bytes.resize(len as usize, 0);
            file.read_exact_at(&mut self.bytes, self.run.at)?;
            self.run.at += len;
            self.next = 0;
        }
        let known = self.bytes.get(self.next..self.next + LEN).map(Known::decode);
        self.next = (self.next + LEN).min(self.bytes.len());
        Ok(known)
    }
}

/// All files, sorted, on disk.
struct Sorted {
    file: File,
    len: usize,
    /// The inode number of the first file of each group.
    firsts: Vec<u64>,
}

/// Files by inode number.
pub(super) struct Table {
    memory: Vec<Known>,
    most: usize,
    runs: Vec<Run>,
    spill: Option<File>,
    sorted: Option<Sorted>,
}

impl Default for Table {
    fn default() -> Self {
        Self { memory: Vec::new(), most: IN_MEMORY, runs: Vec::new(), spill: None, sorted: None }
    }
}

impl Table {
    /// Adds a file; an error if there is no room on disk.
    pub fn add(&mut self, known: Known) -> io::Result<()> {
        if self.memory.len() >= self.most {
            self.spill().map_err(of_spill)?;
        }
        self.memory.push(known);
        Ok(())
    }

    /// To be called when all are added, before any is looked for.
    pub fn finish(&mut self) -> io::Result<()> {
        self.memory.sort_unstable_by_key(|known| known.ino);
        if !self.runs.is_empty() {
            self.spill().and_then(|()| self.merge()).map_err(of_spill)?;
            self.memory = Vec::new();
        }
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        self.memory.sort_unstable_by_key(|known| known.ino);
        let file = match &self.spill {
            Some(file) => file,
            None => self.spill.insert(spill_file()?),
        };
        let at = self.runs.last().map_or(0, |run| run.end);
        let mut out = BufWriter::with_capacity(256 << 10, file);
        for known in &self.memory {
            out.write_all(&known.encode())?;
        }
        out.flush()?;
        self.runs.push(Run { at, end: at + (self.memory.len() * LEN) as u64 });
        self.memory.clear();
        Ok(())
    }

    /// Makes one run of all.
    fn merge(&mut self) -> io::Result<()> {
        let Some(file) = self.spill.take() else { return Ok(()) };
        let reader = |run| RunReader { run, bytes: Vec::new(), next: 0 };
        let mut runs: Vec<RunReader> = self.runs.drain(..).map(reader).collect();
        let mut heads = Vec::with_capacity(runs.len());
        let mut order = BinaryHeap::with_capacity(runs.len());
        for (at, run) in runs.iter_mut().enumerate() {
            let head = run.next(&file)?;
            order.extend(head.map(|known| Reverse((known.ino, at))));
            heads.push(head);
        }
        let mut out = BufWriter::with_capacity(256 << 10, spill_file()?);
        let (mut len, mut firsts) = (0_usize, Vec::new());
        while let Some(Reverse((ino, at))) = order.pop() {
            let Some(known) = heads[at].take() else { continue };
            if len.is_multiple_of(GROUP) {
                firsts.push(ino);
            }
            out.write_all(&known.encode())?;
            len += 1;
            heads[at] = runs[at].next(&file)?;
            order.extend(heads[at].map(|known| Reverse((known.ino, at))));
        }
        let file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        self.sorted = Some(Sorted { file, len, firsts });
        Ok(())
    }

    /// All files of an inode number.
    pub fn find(&self, ino: u64) -> io::Result<Vec<Known>> {
        let Some(Sorted { file, len, firsts }) = &self.sorted else {
            let first = self.memory.partition_point(|known| known.ino < ino);
            let here = self.memory[first..].iter().take_while(|known| known.ino == ino);
            return Ok(here.copied().collect());
        };
        let mut found = Vec::new();
        let mut bytes = vec![0; GROUP * LEN];
        let group = firsts.partition_point(|first| *first < ino).saturating_sub(1);
        for (group, first) in firsts.iter().enumerate().skip(group) {
            if *first > ino {
                break;
            }
            let bytes = &mut bytes[..GROUP.min(len - group * GROUP) * LEN];
            file.read_exact_at(bytes, (group * GROUP * LEN) as u64)?;
            let all = bytes.chunks_exact(LEN).map(Known::decode);
            found.extend(all.filter(|known| known.ino == ino));
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(ino: u64, n: u64) -> Known {
        let time = |sec: i64| Timestamp { sec, nsec: (n % 1_000_000_000) as u32 };
        Known {
            ino,
            dev: n,
            size: u64::MAX - n,
            mtime: time(-5),
            ctime: time(n as i64),
            sum: (!n.is_multiple_of(3)).then_some(n << 40),
            place: match n % 2 {
                0 => Place::Run { stream: 7, logical: n << 50 },
                _ => Place::Row { stream: u32::MAX, segment: n as u32, row: 9 },
            },
        }
    }

    #[test]
    fn files_are_found_in_memory_and_on_disk() {
        for most in [16, 130, 100_000] {
            let mut table = Table { most, ..Table::default() };
            // Each number three times, far apart and in no order; one of them often.
            let number = |n: u64| if n.is_multiple_of(10) { 4000 } else { n * 7919 % 1000 * 2 };
            (0..3000).for_each(|n| table.add(known(number(n), n)).unwrap());
            table.finish().unwrap();
            assert_eq!(table.sorted.is_none(), most > 3000);
            for ino in (0..2010).chain([4000, 5000, u64::MAX]) {
                let mut found = table.find(ino).unwrap();
                found.sort_by_key(|known| known.dev);
                let wanted: Vec<_> =
                    (0..3000).filter(|n| number(*n) == ino).map(|n| known(ino, n)).collect();
                assert_eq!(found, wanted, "{ino} of runs of {most}");
            }
        }
    }
}
