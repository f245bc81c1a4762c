//! Locks of versions: until when no command removes what a version needs. On a file device each is a file of its own,
//! one record block, since segments are never written again.

use serde::{Deserialize, Serialize};

use crate::block::{BLOCK_ALIGN, BlockKind};
use crate::error::{FormatError, Result};
use crate::id::{BlockIndex, SegmentId, SegmentNumber, VersionId};
use crate::record::{decode_record, encode_record};

const WHAT: &str = "lock";

/// The lock of one version on one medium.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionLock {
    /// The version.
    pub version: VersionId,
    /// Until when it holds, in microseconds since 1970.
    pub until_us: i64,
    /// Numbers of the version's segments on this medium: first and last of each run, ascending.
    pub segments: Vec<(SegmentNumber, SegmentNumber)>,
}

impl VersionLock {
    /// The lock of a version that has these segments.
    pub fn new(version: VersionId, until_us: i64, numbers: &[SegmentNumber]) -> Self {
        let none = Self { version, until_us, segments: Vec::new() };
        none.joined(&Self { segments: numbers.iter().map(|n| (*n, *n)).collect(), ..none.clone() })
    }

    /// This lock and another one of the same version: the later time, and all segments.
    pub fn joined(&self, other: &Self) -> Self {
        let runs = self.segments.iter().chain(&other.segments);
        let mut runs: Vec<_> = runs.copied().collect();
        runs.sort_unstable();
        let mut segments: Vec<(SegmentNumber, SegmentNumber)> = Vec::new();
        for (first, last) in runs {
            match segments.last_mut() {
                Some((_, end)) if first.0 <= end.0.saturating_add(1) => *end = last.max(*end),
                _ => segments.push((first, last)),
            }
        }
        Self { version: self.version, until_us: self.until_us.max(other.until_us), segments }
    }

    /// Whether it is of the segment with that number.
    pub fn covers(&self, number: SegmentNumber) -> bool {
        self.segments.iter().any(|(first, last)| (*first..=*last).contains(&number))
    }

    /// As a record block.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let (segment, index) = (SegmentId([0; 16]), BlockIndex(0));
        encode_record(BlockKind::VersionLock, segment, index, self, BLOCK_ALIGN)
    }

    /// From a record block.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let (_, lock) = decode_record::<Self>(BlockKind::VersionLock, bytes)?;
        lock.check()?;
        Ok(lock)
    }

    /// Refuses runs of segments that do not ascend.
    pub(crate) fn check(&self) -> Result<()> {
        let mut end = 0;
        for (first, last) in &self.segments {
            if first.0 <= end || last < first {
                return Err(FormatError::Invalid(WHAT));
            }
            end = last.0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(numbers: &[u32]) -> VersionLock {
        let numbers: Vec<_> = numbers.iter().copied().map(SegmentNumber).collect();
        VersionLock::new(VersionId([7; 16]), 1_800_000_000_000_000, &numbers)
    }

    #[test]
    fn runs_of_segments_are_kept_short() {
        let lock = lock(&[9, 3, 1, 2, 3]);
        let run = |first, last| (SegmentNumber(first), SegmentNumber(last));
        assert_eq!(lock.segments, [run(1, 3), run(9, 9)]);
        let covered: Vec<u32> = (0..12).filter(|n| lock.covers(SegmentNumber(*n))).collect();
        assert_eq!(covered, [1, 2, 3, 9]);
    }

    #[test]
    fn joined_it_has_all_that_either_has() {
        let later = VersionLock { until_us: i64::MAX, ..lock(&[4, 8]) };
        let joined = lock(&[1, 2, 3, 9]).joined(&later);
        assert_eq!(joined, VersionLock { until_us: i64::MAX, ..lock(&[1, 2, 3, 4, 8, 9]) });
    }

    #[test]
    fn it_reads_back_and_every_flipped_bit_is_found() {
        let lock = lock(&[1, 2, 700]);
        let block = lock.encode().unwrap();
        assert_eq!(VersionLock::decode(&block), Ok(lock));
        for at in 0..block.len() * 8 {
            let mut bad = block.clone();
            bad[at / 8] ^= 1 << (at % 8);
            assert!(VersionLock::decode(&bad).is_err(), "bit {at}");
        }
    }

    #[test]
    fn runs_that_do_not_ascend_are_refused() {
        let mut lock = lock(&[1, 2, 9]);
        lock.segments.swap(0, 1);
        assert!(VersionLock::decode(&lock.encode().unwrap()).is_err());
    }
}
