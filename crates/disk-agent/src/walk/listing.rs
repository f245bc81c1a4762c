//! A directory's names in order, in flat memory: more than a few megabytes of them are sorted in runs on disk and merged.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

use capstan_format::entry::Kind;

use crate::linux::source::Listed;
use crate::spill::{of_spill, spill_file};

/// Bytes of names kept in memory before a run is written.
const IN_MEMORY: usize = 4 << 20;
/// What a name costs in memory beside its bytes.
const PER_NAME: usize = 64;

/// Gathers names in any order.
#[derive(Default)]
pub(crate) struct Gather {
    names: Vec<Listed>,
    bytes: usize,
    runs: Vec<File>,
}

impl Gather {
    /// Adds a name.
    pub fn add(&mut self, listed: Listed) -> io::Result<()> {
        self.bytes += listed.name.len() + PER_NAME;
        self.names.push(listed);
        if self.bytes > IN_MEMORY { self.spill() } else { Ok(()) }
    }

    fn spill(&mut self) -> io::Result<()> {
        self.write_run().map_err(of_spill)
    }

    fn write_run(&mut self) -> io::Result<()> {
        self.names.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let mut out = BufWriter::new(spill_file()?);
        for n in self.names.drain(..) {
            out.write_all(&(n.name.len() as u16).to_le_bytes())?;
            out.write_all(&[n.kind.map_or(u8::MAX, |k| k as u8)])?;
            out.write_all(&n.ino.to_le_bytes())?;
            out.write_all(&n.name)?;
        }
        let mut file = out.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.rewind()?;
        self.runs.push(file);
        self.bytes = 0;
        Ok(())
    }

    /// All names, in order.
    pub fn sorted(mut self) -> io::Result<Sorted> {
        if self.runs.is_empty() {
            self.names.sort_unstable_by(|a, b| a.name.cmp(&b.name));
            return Ok(Sorted::Memory(self.names.into_iter()));
        }
        self.spill()?;
        let mut runs: Vec<_> =
            self.runs.into_iter().map(|f| BufReader::with_capacity(32 << 10, f)).collect();
        let mut heads = BinaryHeap::new();
        for (i, run) in runs.iter_mut().enumerate() {
            if let Some(n) = read_name(run)? {
                heads.push(Reverse((n.name, i, n.kind, n.ino)));
            }
        }
        Ok(Sorted::Runs { runs, heads })
    }
}

type Head = Reverse<(Vec<u8>, usize, Option<Kind>, u64)>;

/// Names in order.
pub(crate) enum Sorted {
    Memory(std::vec::IntoIter<Listed>),
    Runs { runs: Vec<BufReader<File>>, heads: BinaryHeap<Head> },
}

impl Sorted {
    /// The next name.
    pub fn next(&mut self) -> io::Result<Option<Listed>> {
        match self {
            Self::Memory(names) => Ok(names.next()),
            Self::Runs { runs, heads } => {
                let Some(Reverse((name, i, kind, ino))) = heads.pop() else { return Ok(None) };
                if let Some(n) = read_name(&mut runs[i]).map_err(of_spill)? {
                    heads.push(Reverse((n.name, i, n.kind, n.ino)));
                }
                Ok(Some(Listed { name, kind, ino }))
            }
        }
    }
}

fn read_name(run: &mut BufReader<File>) -> io::Result<Option<Listed>> {
    let mut head = [0; 11];
    match run.read_exact(&mut head) {
        Ok(()) => {}
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(e) => return Err(e),
    }
    let mut name = vec![0; usize::from(u16::from_le_bytes([head[0], head[1]]))];
    run.read_exact(&mut name)?;
    let mut ino = [0; 8];
    ino.copy_from_slice(&head[3..]);
    Ok(Some(Listed { name, kind: Kind::from_u8(head[2]), ino: u64::from_le_bytes(ino) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_huge_directory_comes_in_order_from_disk() {
        let mut gather = Gather::default();
        let n = 150_000u64;
        for i in 0..n {
            let name = format!("{:010}", i.wrapping_mul(7_919) % n).into_bytes();
            gather.add(Listed { name, kind: Some(Kind::File), ino: i }).unwrap();
        }
        assert!(!gather.runs.is_empty());
        let mut sorted = gather.sorted().unwrap();
        for i in 0..n {
            let listed = sorted.next().unwrap().unwrap();
            assert_eq!(listed.name, format!("{i:010}").into_bytes());
            assert_eq!(listed.ino.wrapping_mul(7_919) % n, i);
        }
        assert!(sorted.next().unwrap().is_none());
    }
}
