//! Sums frames: a checksum of each file's contents, so that a later backup can tell a file of which only metadata changed
//! from one that was written anew.
//!
//! A checksum is the CRC-64/NVME of the data bytes that a row has in its segment, holes left out. Those of the parts of a
//! file are [`combined`], in the order of their offsets, to that of the whole.

use crc_fast::{CrcAlgorithm, Digest, checksum_combine};

use crate::bytes::{Cursor, put_varint};
use crate::error::{FormatError, Result};

const ALGORITHM: CrcAlgorithm = CrcAlgorithm::Crc64Nvme;

/// A checksum of contents being made.
#[derive(Clone)]
pub struct ContentSum(Digest);

impl Default for ContentSum {
    fn default() -> Self {
        Self(Digest::new(ALGORITHM))
    }
}

impl ContentSum {
    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The checksum of what was added; begins anew.
    pub fn take(&mut self) -> u64 {
        self.0.finalize_reset()
    }
}

/// The checksum of two pieces of contents, one after the other; `len` is the length in bytes of the second.
pub fn combined(first: u64, second: u64, len: u64) -> u64 {
    checksum_combine(ALGORITHM, first, second, len)
}

/// Checksums of the rows of one batch that promise data, in order, from the first; there may be fewer than rows. `None` of a
/// row whose contents were not read as they are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sums {
    /// Sequence of the batch's frame.
    pub batch: u64,
    /// The checksums.
    pub sums: Vec<Option<u64>>,
    /// Checksums of the whole contents of files that promise no data here, as what a consolidation passed on has them: the
    /// row's number in the batch, ascending.
    pub whole: Vec<(u32, u64)>,
}

impl Sums {
    /// The frame's payload.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(12 + self.sums.len() * 8);
        put_varint(&mut out, self.batch);
        put_varint(&mut out, self.sums.len() as u64);
        for sum in &self.sums {
            // One that is 0 by chance counts as unknown: the file is stored once more.
            out.extend_from_slice(&sum.unwrap_or(0).to_le_bytes());
        }
        if !self.whole.is_empty() {
            put_varint(&mut out, self.whole.len() as u64);
            let mut last = 0;
            for (row, sum) in &self.whole {
                put_varint(&mut out, u64::from(row - last));
                out.extend_from_slice(&sum.to_le_bytes());
                last = *row;
            }
        }
        out
    }

    /// Reads a frame's payload.
    pub fn decode(plain: &[u8]) -> Result<Self> {
        const WHAT: &str = "checksums of contents";
        let mut c = Cursor::new(plain, WHAT);
        let batch = c.varint()?;
        let mut sums = Vec::new();
        for _ in 0..c.count()? {
            let sum = u64::from_le_bytes(c.array()?);
            sums.push((sum != 0).then_some(sum));
        }
        let (mut whole, mut last) = (Vec::new(), 0_u32);
        if !c.is_empty() {
            for _ in 0..c.count()? {
                let row = last.checked_add(c.varint_u32()?).ok_or(FormatError::Invalid(WHAT))?;
                whole.push((row, u64::from_le_bytes(c.array()?)));
                last = row;
            }
        }
        if !c.is_empty() {
            return Err(FormatError::Invalid(WHAT));
        }
        Ok(Self { batch, sums, whole })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn sum(bytes: &[u8]) -> u64 {
        let mut sum = ContentSum::default();
        sum.update(bytes);
        sum.take()
    }

    #[test]
    fn check_value_of_nvme() {
        assert_eq!(sum(b"123456789"), 0xae8b_1486_0a79_9888);
    }

    proptest! {
        #[test]
        fn parts_make_the_whole(a in prop::collection::vec(any::<u8>(), 0..300), b in prop::collection::vec(any::<u8>(), 0..300)) {
            let whole = sum(&[&a[..], &b[..]].concat());
            prop_assert_eq!(combined(sum(&a), sum(&b), b.len() as u64), whole);
        }

        #[test]
        fn any_sums_read_back(
            batch in any::<u64>(),
            sums in prop::collection::vec(prop::option::of(1..=u64::MAX), 0..40),
            whole in prop::collection::btree_map(any::<u32>(), any::<u64>(), 0..40),
        ) {
            let sums = Sums { batch, sums, whole: whole.into_iter().collect() };
            let bytes = sums.encode();
            prop_assert_eq!(Sums::decode(&bytes).unwrap(), sums);
        }

        #[test]
        fn what_is_no_sums_is_an_error_or_others(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
            let _ = Sums::decode(&bytes);
        }
    }
}
