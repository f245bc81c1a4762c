//! The file of a virtual tape: its records, and the segments in them.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::dice::Dice;
use crate::segment::{Built, Segment};
use crate::values::number;

const MAGIC: usize = 16;
const HEADER: usize = 8;

/// A block or a filemark.
#[derive(Clone)]
pub struct Record {
    /// As it is in the file, with the length that it claims.
    pub header: [u8; HEADER],
    pub bytes: Vec<u8>,
}

impl Record {
    fn block(bytes: Vec<u8>) -> Self {
        let mut header = [0; HEADER];
        header[0] = b'B';
        header[1..3].copy_from_slice(&256_u16.to_le_bytes());
        header[4..].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        Self { header, bytes }
    }

    pub fn mark() -> Self {
        Self { header: [b'F', 0, 0, 0, 0, 0, 0, 0], bytes: Vec::new() }
    }

    pub fn is_mark(&self) -> bool {
        self.header[0] == b'F'
    }

    /// Gives the block other bytes.
    pub fn put(&mut self, bytes: Vec<u8>) {
        self.header[4..].copy_from_slice(&(bytes.len() as u32).to_le_bytes());
        self.bytes = bytes;
    }
}

pub struct Tape {
    path: PathBuf,
    magic: [u8; MAGIC],
    pub records: Vec<Record>,
}

impl Tape {
    pub fn read(path: &Path) -> Option<Self> {
        let bytes = crate::mutate::contents(path)?;
        let magic = bytes.get(..MAGIC)?.try_into().ok()?;
        let (mut at, mut records) = (MAGIC, Vec::new());
        while let Some(header) = bytes.get(at..at + HEADER) {
            let header: [u8; HEADER] = header.try_into().ok()?;
            let length = u32::from_le_bytes(header[4..].try_into().ok()?) as usize;
            let bytes = bytes.get(at + HEADER..at + HEADER + length)?.to_vec();
            at += HEADER + length;
            records.push(Record { header, bytes });
        }
        Some(Self { path: path.to_owned(), magic, records })
    }

    pub fn write(&self) {
        let mut out = self.magic.to_vec();
        for record in &self.records {
            out.extend_from_slice(&record.header);
            out.extend_from_slice(&record.bytes);
        }
        fs::write(&self.path, out).unwrap();
    }

    /// Where the numbers of segments and attachments lie, without their last filemark.
    pub fn numbers(&self) -> Vec<Range<usize>> {
        let marks: Vec<_> =
            (0..self.records.len()).filter(|n| self.records[*n].is_mark()).collect();
        let ends: Vec<_> = marks.iter().skip(2).step_by(2).copied().collect();
        let begins = marks.iter().step_by(2).map(|m| m + 1);
        begins.zip(ends).map(|(from, to)| from..to).collect()
    }

    pub fn segment(&self, at: &Range<usize>) -> Option<Segment> {
        let bytes: Vec<u8> =
            self.records[at.clone()].iter().flat_map(|r| r.bytes.clone()).collect();
        Segment::parse(&bytes)
    }

    pub fn put(&mut self, at: Range<usize>, built: Built) {
        let mut blocks: Vec<_> = built.blocks.into_iter().map(Record::block).collect();
        blocks.insert(built.catalog, Record::mark());
        self.records.splice(at, blocks);
    }

    /// Changes the order or the headers of the records.
    pub fn change(&mut self, dice: &mut Dice) -> String {
        let (at, other) = (dice.below(self.records.len()), dice.below(self.records.len()));
        let what = match dice.below(9) {
            0 => {
                self.records.remove(at);
                "is gone"
            }
            1 => {
                let one = self.records[at].clone();
                self.records.insert(other, one);
                "comes twice"
            }
            2 => {
                self.records.swap(at, other);
                "takes another's place"
            }
            3 => {
                self.records.insert(at, Record::mark());
                "has a filemark before it"
            }
            4 => {
                self.records.truncate(at);
                "and what follows is gone"
            }
            5 => {
                let marks = 1 + dice.below(3_000);
                self.records.splice(at..at, std::iter::repeat_n(Record::mark(), marks));
                "has many filemarks before it"
            }
            6 => {
                let length = number(dice, self.records[at].bytes.len() as u64) as u32;
                self.records[at].header[4..].copy_from_slice(&length.to_le_bytes());
                "claims another length"
            }
            7 => {
                self.records[at].header[dice.below(4)] = dice.next() as u8;
                "is of another kind"
            }
            _ => {
                let length = [1, 64, 4096, 65_535, 65_537, 200_000][dice.below(6)];
                let mut bytes = self.records[at].bytes.clone();
                bytes.resize(length, 0);
                self.records[at].put(bytes);
                "has another length"
            }
        };
        format!("record {at} {what}")
    }
}
