//! Where a tape stands: what the drive says, and what was counted since a place that is certain.
//!
//! Nothing here guesses. A number that is not certain is absent, and a position without any is unknown.

use std::fmt;

use crate::bytes::{u8_at, u32_at, u64_at};

/// Length of READ POSITION's short form.
pub const SHORT_LEN: usize = 20;
/// Length of READ POSITION's long form.
pub const LONG_LEN: usize = 32;

/// A place on a tape.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Position {
    /// The drive's own number of the next block or filemark; what LOCATE takes. Only ever what a drive said.
    pub object: Option<u64>,
    /// Blocks and filemarks before it, counted from the beginning. Most drives' own numbers are the same, not all.
    pub count: Option<u64>,
    /// Filemarks before it, counted from the beginning.
    pub file: Option<u64>,
    /// Blocks between the last filemark and it.
    pub block: Option<u64>,
    /// Nothing is recorded after it.
    pub end_of_data: bool,
}

impl Position {
    /// The beginning of the tape.
    pub const BEGINNING: Self =
        Self { object: None, count: Some(0), file: Some(0), block: Some(0), end_of_data: false };
    /// Nobody knows.
    pub const UNKNOWN: Self =
        Self { object: None, count: None, file: None, block: None, end_of_data: false };

    /// Whether the place is certain by any account.
    pub fn is_known(&self) -> bool {
        self.object.or(self.count).is_some() || self.counted().is_some() || self.end_of_data
    }

    /// File and block, where both were counted.
    pub fn counted(&self) -> Option<(u64, u64)> {
        self.file.zip(self.block)
    }

    /// One block further on.
    pub fn after_block(self) -> Self {
        self.after_blocks(1)
    }

    /// Some blocks further on or back within the file.
    pub fn after_blocks(self, blocks: i64) -> Self {
        let add = |n: Option<u64>| n.and_then(|n| n.checked_add_signed(blocks));
        Self {
            object: None,
            count: add(self.count),
            block: add(self.block),
            end_of_data: false,
            ..self
        }
    }

    /// Behind filemarks that were written or read here, with nothing between them.
    pub fn after_filemarks(self, marks: u32) -> Self {
        if marks == 0 {
            return self;
        }
        let add = |n: Option<u64>| n.and_then(|n| n.checked_add(marks.into()));
        let (count, file) = (add(self.count), add(self.file));
        Self { object: None, count, file, block: Some(0), end_of_data: false }
    }

    /// Some filemarks further on, or back, over blocks that nobody counted. After going back the tape stands before a mark, at
    /// a block of the file before it that was not counted either.
    pub fn past_filemarks(self, marks: i64) -> Self {
        let file = self.file.and_then(|n| n.checked_add_signed(marks));
        let block = if marks > 0 { Some(0) } else { None };
        Self { object: None, count: None, file, block, end_of_data: false }
    }
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.object, self.counted(), self.count) {
            (Some(object), Some((file, block)), _) => {
                write!(f, "object {object} (file {file}, block {block})")
            }
            (Some(object), None, _) => write!(f, "object {object}"),
            (None, Some((file, block)), _) => write!(f, "file {file}, block {block}"),
            (None, None, Some(count)) => write!(f, "place {count}, counting blocks and filemarks"),
            _ if self.end_of_data => f.write_str("the end of the data"),
            _ => f.write_str("an unknown place"),
        }
    }
}

/// What READ POSITION said, where it knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reported {
    /// The partition.
    pub partition: u32,
    /// The next block or filemark.
    pub object: u64,
    /// Filemarks before it; only the long form has it.
    pub file: Option<u64>,
    /// It stands at the beginning.
    pub beginning: bool,
    /// It stands between early warning and the end of the medium.
    pub past_early_warning: bool,
}

const BEGINNING: u8 = 0x80;
const END: u8 = 0x40;

/// Decodes the short form. `None` where the drive says that it does not know, or where the number cannot be.
pub fn decode_short(bytes: &[u8]) -> Option<Reported> {
    // Unknown location, or a number too large for four bytes.
    const NOT_KNOWN: u8 = 0x04 | 0x02;
    let flags = u8_at(bytes, 0);
    if bytes.len() < SHORT_LEN || flags & NOT_KNOWN != 0 {
        return None;
    }
    let partition = u8_at(bytes, 1).into();
    believable(flags, partition, u32_at(bytes, 4).into(), None)
}

/// Decodes the long form. `None` where the drive says that it does not know, or where the numbers cannot be.
pub fn decode_long(bytes: &[u8]) -> Option<Reported> {
    const OBJECT_NOT_KNOWN: u8 = 0x04;
    const FILE_NOT_KNOWN: u8 = 0x08;
    let flags = u8_at(bytes, 0);
    if bytes.len() < LONG_LEN || flags & OBJECT_NOT_KNOWN != 0 {
        return None;
    }
    let (object, file) = (u64_at(bytes, 8), u64_at(bytes, 16));
    let file = (flags & FILE_NOT_KNOWN == 0).then_some(file);
    // Each filemark is an object of its own.
    if file.is_some_and(|file| file > object) {
        return None;
    }
    believable(flags, u32_at(bytes, 4), object, file)
}

/// Object 0 is the beginning, and only that: a target that answers nothing but zeros (tgt does) says nothing.
fn believable(flags: u8, partition: u32, object: u64, file: Option<u64>) -> Option<Reported> {
    let beginning = flags & BEGINNING != 0;
    if object == 0 && !beginning {
        return None;
    }
    Some(Reported { partition, object, file, beginning, past_early_warning: flags & END != 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(flags: u8, object: u32) -> Vec<u8> {
        let mut bytes = vec![0; SHORT_LEN];
        bytes[0] = flags;
        bytes[4..8].copy_from_slice(&object.to_be_bytes());
        bytes
    }

    fn long(flags: u8, object: u64, file: u64) -> Vec<u8> {
        let mut bytes = vec![0; LONG_LEN];
        bytes[0] = flags;
        bytes[8..16].copy_from_slice(&object.to_be_bytes());
        bytes[16..24].copy_from_slice(&file.to_be_bytes());
        bytes
    }

    #[test]
    fn what_real_drives_say() {
        assert_eq!(decode_short(&short(0x80, 0)).map(|p| (p.object, p.beginning)), Some((0, true)));
        assert_eq!(decode_short(&short(0x30, 77)).map(|p| p.object), Some(77));
        let known = decode_long(&long(0, 1 << 33, 12)).unwrap();
        assert_eq!((known.object, known.file), (1 << 33, Some(12)));
        assert_eq!(decode_long(&long(0x08, 5, 0)).unwrap().file, None);
        assert!(decode_long(&long(0x40, 5, 1)).unwrap().past_early_warning);
    }

    #[test]
    fn unknown_is_not_zero() {
        // tgt: the short form admits that it does not know, the long form claims to.
        assert_eq!(decode_short(&short(0x14, 0)), None);
        assert_eq!(decode_long(&long(0x20, 0, 0)), None);
        assert_eq!(decode_short(&short(0x02, 5)), None);
        assert_eq!(decode_long(&long(0x04, 5, 1)), None);
        assert_eq!(decode_short(&short(0x80, 0)[..19]), None);
        assert_eq!(decode_long(&long(0, 3, 4)), None);
    }

    #[test]
    fn counting_ends_where_it_is_not_certain() {
        let start = Position::BEGINNING;
        let there = start.after_block().after_block();
        assert_eq!((there.counted(), there.count), (Some((0, 2)), Some(2)));
        let behind = there.after_filemarks(2);
        assert_eq!((behind.counted(), behind.count), (Some((2, 0)), Some(4)));
        assert_eq!(there.after_filemarks(0), there);
        // On the way to the mark there may be blocks.
        let past = there.past_filemarks(1);
        assert_eq!((past.counted(), past.count), (Some((1, 0)), None));
        let back = past.past_filemarks(-1);
        assert_eq!((back.file, back.block, back.is_known()), (Some(0), None, false));
        assert_eq!(start.past_filemarks(-1).file, None);
        assert_eq!(there.after_blocks(-3), Position { file: Some(0), ..Position::UNKNOWN });
        assert!(!Position::UNKNOWN.after_block().is_known());
    }
}
