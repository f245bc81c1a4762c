//! The bytes of a file.
//!
//! Mixed content is a row of segments of about 256 bytes (ratio 2) to 4 KiB. Each starts with
//! random bytes, whose number decides the ratio, and goes on by repeating the last 12 to 120 of
//! them. So every match is near, even within the 1 KiB history of a tape drive, a match is found
//! however the data is cut into frames, and no two files have a stretch in common. Short segments
//! keep the number of matches, and so the compressor's speed, like that of real data: zstd -1
//! takes ratio 2 at 1.0 GB/s per core, while making it runs at 3.7 GB/s.
//!
//! What codecs spend on describing a match differs: lz4 pays a byte for every 255 matched bytes,
//! zstd hardly anything for length. The random part is sized so that the two miss the ratio by
//! about the same in opposite directions: by up to 1.3 % at ratio 4, 3.5 % at ratio 16. Ratios
//! below 1.03 come out as 1, as the few matches they need are not found.

use std::ops::Range;

use super::options::Pattern;
use super::prng::Prng;

/// A segment ends at every multiple of this, so that a frame or block that starts there loses
/// nothing, and no segment is longer.
const SEGMENT_MAX: usize = 4096;
/// Random bytes of a segment, before jitter. Longer runs make lz4 skip more and miss matches.
const LITERALS: f64 = 128.0;
/// What the match of a segment saves at least; at ratios near 1 it needs more random bytes.
const SAVED_MIN: f64 = 24.0;
/// All distances are multiples of this. Compressors look at every second, third, fourth byte the
/// longer they find nothing, and see a match only if its source is one they looked at.
const DISTANCE_STEP: usize = 12;
/// Shorter matches cost more than they save.
const MATCH_MIN: usize = 12;
/// What zstd -1 spends on one match: codes and extra bits of lengths and distance. Measured.
const ZSTD_MATCH_COST: f64 = 3.0;
/// What compressing a file or frame costs beyond its matches, as the mean of lz4 and zstd with
/// and without frame headers. Weighs only in files of a few KiB.
const FILE_COST: f64 = 12.0;
/// Where the fixed pattern comes from under the seed; files use their number.
const FIXED_STREAM: u64 = u64::MAX - 1;

/// The bytes of one file, made from its start to its end.
pub(super) struct Content {
    source: Source,
    /// Bytes of the file not yet made.
    remaining: u64,
    /// A segment that did not fit into the caller's buffer, and what of it is still to give.
    carry: Box<[u8; SEGMENT_MAX]>,
    carried: Range<usize>,
}

enum Source {
    Words { next: u64, step: u64 },
    Random(Prng),
    Mixed(Mixed),
}

impl Content {
    /// The content of file number `index` with `size` bytes.
    pub(super) fn new(pattern: Pattern, seed: u64, index: u64, size: u64, ratio: f64) -> Self {
        let source = match pattern {
            Pattern::Zeros => Source::Words { next: 0, step: 0 },
            Pattern::Fixed => Source::Words { next: Prng::new(seed, FIXED_STREAM).next(), step: 0 },
            Pattern::Incremental => Source::Words { next: index << 32, step: 1 },
            Pattern::Random => Source::Random(Prng::new(seed, index)),
            Pattern::Mixed if ratio <= 1.0 => Source::Random(Prng::new(seed, index)),
            Pattern::Mixed => Source::Mixed(Mixed::new(Prng::new(seed, index), ratio)),
        };
        Self { source, remaining: size, carry: Box::new([0; SEGMENT_MAX]), carried: 0..0 }
    }

    /// Fills `out` with the next bytes of the file; the caller never asks for more than its size.
    pub(super) fn fill(&mut self, mut out: &mut [u8]) {
        while !out.is_empty() {
            if !self.carried.is_empty() {
                let length = self.carried.len().min(out.len());
                let (now, later) = out.split_at_mut(length);
                let start = self.carried.start;
                now.copy_from_slice(&self.carry[start..start + length]);
                self.carried.start += length;
                out = later;
                continue;
            }
            let length = self.source.next_length(self.remaining);
            debug_assert!(length > 0, "asked for more than the file has");
            if length == 0 {
                return;
            }
            self.remaining -= length as u64;
            if length <= out.len() {
                let (now, later) = out.split_at_mut(length);
                self.source.write(now);
                out = later;
            } else {
                self.source.write(&mut self.carry[..length]);
                self.carried = 0..length;
            }
        }
    }
}

impl Source {
    /// Length of the next segment when `remaining` bytes are left; does not depend on how the
    /// caller cuts its reads.
    fn next_length(&mut self, remaining: u64) -> usize {
        match self {
            Self::Words { .. } | Self::Random(_) => remaining.min(SEGMENT_MAX as u64) as usize,
            Self::Mixed(mixed) => mixed.next_length(remaining),
        }
    }

    fn write(&mut self, segment: &mut [u8]) {
        match self {
            Self::Words { next, step } => {
                // Only the last segment of a file can end within a word.
                for word in segment.chunks_mut(8) {
                    word.copy_from_slice(&next.to_le_bytes()[..word.len()]);
                    *next = next.wrapping_add(*step);
                }
            }
            Self::Random(prng) => prng.fill(segment),
            Self::Mixed(mixed) => mixed.write(segment),
        }
    }
}

/// State of ratio-controlled content.
struct Mixed {
    prng: Prng,
    out_per_in: f64,
    /// Segment length before jitter.
    base: usize,
    /// How many multiples of [`DISTANCE_STEP`] are in use: few at high ratios, where a frame cut
    /// within a repetition would pay for a long distance.
    distance_steps: u32,
    /// Bytes made so far.
    made: u64,
    /// Compressed bytes that are due and not yet spent: carries what rounding leaves over.
    budget: f64,
}

impl Mixed {
    fn new(prng: Prng, ratio: f64) -> Self {
        let saved = 1.0 - 1.0 / ratio;
        let base = (LITERALS * ratio).max(SAVED_MIN / saved).min(SEGMENT_MAX as f64);
        Self {
            prng,
            out_per_in: 1.0 / ratio,
            base: base as usize,
            distance_steps: (32.0 / ratio).clamp(2.0, 10.0) as u32,
            budget: -FILE_COST,
            made: 0,
        }
    }

    fn next_length(&mut self, remaining: u64) -> usize {
        // Three to five quarters of the base, so that nothing has a fixed rhythm.
        let jitter = self.prng.below(self.base as u32 / 2) as usize;
        let length = self.base - self.base / 4 + jitter;
        // A short rest joins the last segment: it would be too small for a match.
        let grid = SEGMENT_MAX as u64;
        let to_cut = (grid - self.made % grid).min(remaining);
        let length =
            if to_cut < (length + self.base / 2) as u64 { to_cut as usize } else { length };
        self.made += length as u64;
        length
    }

    fn write(&mut self, segment: &mut [u8]) {
        let length = segment.len();
        self.budget += length as f64 * self.out_per_in;
        let wanted = self.budget - match_cost(self.budget, length);
        let mut literals = (wanted.max(1.0).round() as usize).min(length);
        if length - literals < MATCH_MIN {
            literals = length;
        }
        if literals == length {
            self.prng.fill(segment);
            // Nothing to balance against: the debt must not turn into matches later.
            self.budget = 0.0;
            return;
        }
        self.budget -= literals as f64 + match_cost(literals as f64, length);
        self.prng.fill(&mut segment[..literals]);
        let steps = self.prng.below(self.distance_steps) as usize + 1;
        let distance = (steps * DISTANCE_STEP).min(literals);
        repeat(segment, literals, distance);
    }
}

/// Compressed bytes for one segment beyond its literals: the mean of what lz4 and zstd need.
fn match_cost(literals: f64, length: usize) -> f64 {
    let matched = length as f64 - literals;
    let extension = |bytes: f64| if bytes < 0.0 { 0.0 } else { 1.0 + (bytes / 255.0).floor() };
    let lz4 = 3.0 + extension(literals - 15.0) + extension(matched - 19.0);
    (lz4 + ZSTD_MATCH_COST) / 2.0
}

/// Fills `segment` from `from` by repeating the `distance` bytes before it.
fn repeat(segment: &mut [u8], from: usize, distance: usize) {
    let source = from - distance;
    let mut at = from;
    while at < segment.len() {
        // All from `source` has the period, so each round can copy twice as much.
        let length = (at - source).min(segment.len() - at);
        segment.copy_within(source..source + length, at);
        at += length;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(pattern: Pattern, index: u64, size: usize, ratio: f64, step: usize) -> Vec<u8> {
        let mut content = Content::new(pattern, 42, index, size as u64, ratio);
        let mut bytes = vec![0; size];
        for part in bytes.chunks_mut(step) {
            content.fill(part);
        }
        bytes
    }

    #[test]
    fn reads_may_be_cut_anywhere() {
        for pattern in Pattern::ALL {
            let whole = bytes(pattern, 3, 300_001, 3.0, 300_001);
            for step in [1, 7, 4096, 65_536, 131_072] {
                assert!(bytes(pattern, 3, 300_001, 3.0, step) == whole, "{pattern:?} by {step}");
            }
        }
    }

    /// Published measurements name a seed: what it gives must not change.
    #[test]
    fn content_is_frozen() {
        let fnv = |bytes: Vec<u8>| {
            bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
            })
        };
        let hashes = Pattern::ALL.map(|pattern| fnv(bytes(pattern, 7, 100_003, 2.5, 4096)));
        let expected = [
            0x16ee_2f1f_a3a7_e137,
            0xc442_8aca_89ee_daf5,
            0x515e_b9fe_27b8_272b,
            0xb491_7e1f_0146_8eab,
            0xc3b9_12c9_1554_10f5,
        ];
        assert_eq!(hashes, expected);
    }

    #[test]
    fn plain_patterns() {
        assert!(bytes(Pattern::Zeros, 1, 10_003, 2.0, 4096).iter().all(|&byte| byte == 0));
        let fixed = bytes(Pattern::Fixed, 1, 10_003, 2.0, 4096);
        assert!(fixed.iter().zip(&fixed[8..]).all(|(a, b)| a == b));
        assert_ne!(fixed[..8], [0; 8]);
        assert_eq!(fixed, bytes(Pattern::Fixed, 2, 10_003, 2.0, 4096));
        let incremental = bytes(Pattern::Incremental, 5, 10_003, 2.0, 4096);
        for (n, word) in incremental.chunks_exact(8).enumerate() {
            assert_eq!(word, ((5_u64 << 32) + n as u64).to_le_bytes());
        }
        assert_ne!(bytes(Pattern::Random, 1, 100, 2.0, 8), bytes(Pattern::Random, 2, 100, 2.0, 8));
    }

    #[test]
    fn any_size_and_ratio_works() {
        for ratio in [1.0, 1.0001, 1.01, 1.3, 2.0, 16.0, 31.0] {
            for size in [1, 2, 11, 12, 13, 100, 255, 256, 257, 4095, 70_000] {
                assert_eq!(bytes(Pattern::Mixed, 9, size, ratio, size).len(), size);
            }
        }
    }

    #[test]
    fn no_stretch_of_mixed_data_occurs_twice() {
        // 64 aligned bytes shorter than any random part: none may be seen again within or
        // between files, except inside one repetition, which is shorter than 2 KiB here.
        let mut seen = std::collections::HashMap::new();
        for index in 0..8 {
            let data = bytes(Pattern::Mixed, index, 1 << 20, 4.0, 1 << 17);
            for (n, stretch) in data.chunks_exact(64).enumerate() {
                let place = (index << 32) + n as u64 * 64;
                if let Some(before) = seen.insert(stretch.to_vec(), place) {
                    assert!(place - before < 2048, "{before:x} and {place:x}");
                }
            }
        }
    }
}
