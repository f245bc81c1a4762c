//! Which file has which size, ratio and layout: a function of the file's number, without a list
//! of files, so that the memory does not grow with their number.

use super::error::CreateDataError;
use super::options::{Amount, Distribution, Options};
use super::prng::Prng;

/// More files than any file system under test will want to hold; keeps the arithmetic in range.
const FILES_MAX: u64 = 4_000_000_000;
/// Where the largest size is up to this many times the smallest, sizes are multiples, not doubles.
const MULTIPLES_MAX: u64 = 4;
/// The stream number that decides the order of sizes; files use theirs, counted from 0.
const ORDER_STREAM: u64 = u64::MAX;

/// The files of one size.
#[derive(Debug, Clone, PartialEq)]
struct SizeClass {
    size: u64,
    count: u64,
    /// Shape of the spread of ratios in this class, see [`spread_ratio`].
    bend: f64,
}

/// What one file is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct FilePlan {
    pub(super) size: u64,
    pub(super) ratio: f64,
    /// Whether it is among the share to lay out in pieces.
    pub(super) fragmented: bool,
}

/// All files.
#[derive(Debug)]
pub(super) struct Plan {
    classes: Vec<SizeClass>,
    files: u64,
    bytes: u64,
    ratio: f64,
    ratio_spread: bool,
    fragment_percent: u64,
    /// File i takes the place (i * stride + offset) mod files in the list of files by size. The
    /// stride is near the golden section, so every stretch of files has a fair mix of sizes.
    stride: u64,
    offset: u64,
}

impl Plan {
    pub(super) fn new(options: &Options) -> Result<Self, CreateDataError> {
        let sizes = size_steps(options.size_min, options.size_max);
        let counts = match options.amount {
            Amount::Files(files) => {
                check_files(files.into(), "files")?;
                counts_by_files(&sizes, files, options.distribution)
            }
            Amount::Bytes(bytes) => {
                check_files((bytes / options.size_min).into(), "bytes")?;
                counts_by_bytes(&sizes, bytes, options.distribution)
            }
        };
        let files: u64 = counts.iter().sum();
        let bytes: u128 =
            sizes.iter().zip(&counts).map(|(&s, &c)| u128::from(s) * u128::from(c)).sum();
        let bytes = i64::try_from(bytes)
            .map_err(|_| {
                let problem = format!("asks for {bytes} bytes in all: lower the sizes or --files");
                CreateDataError::bad_option("sizes", problem)
            })?
            .unsigned_abs();

        let classes = sizes
            .into_iter()
            .zip(counts)
            .filter(|&(_, count)| count > 0)
            .map(|(size, count)| SizeClass { size, count, bend: bend(options.ratio, count) })
            .collect();
        let mut stride = ((u128::from(files) * 0x9e37_79b9_7f4a_7c15) >> 64) as u64;
        while gcd(stride, files) != 1 {
            stride += 1;
        }
        let offset = Prng::new(options.seed, ORDER_STREAM).next() % files;
        Ok(Self {
            classes,
            files,
            bytes,
            ratio: options.ratio,
            ratio_spread: options.ratio_spread,
            fragment_percent: options.fragment_percent.into(),
            stride,
            offset,
        })
    }

    /// Number of files, at least 1.
    pub(super) fn files(&self) -> u64 {
        self.files
    }

    /// Bytes in all files.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// File number `index`, which is below [`files`](Self::files).
    pub(super) fn file(&self, index: u64) -> FilePlan {
        let place = u128::from(index) * u128::from(self.stride) + u128::from(self.offset);
        let mut rank = (place % u128::from(self.files)) as u64;
        let mut class = &self.classes[0];
        for candidate in &self.classes {
            class = candidate;
            if rank < class.count {
                break;
            }
            rank -= class.count;
        }
        let ratio = if self.ratio_spread {
            spread_ratio(self.ratio, (rank as f64 + 0.5) / class.count as f64, class.bend)
        } else {
            self.ratio
        };
        // Exactly the asked number of every hundred files, evenly spaced.
        let of_hundred = index % 100 * self.fragment_percent;
        let fragmented = (of_hundred + self.fragment_percent) / 100 > of_hundred / 100;
        FilePlan { size: class.size, ratio, fragmented }
    }
}

fn check_files(files: u128, option: &'static str) -> Result<(), CreateDataError> {
    if files > u128::from(FILES_MAX) {
        let problem = format!("asks for up to {files} files: at most {FILES_MAX} are possible");
        return Err(CreateDataError::bad_option(option, problem));
    }
    Ok(())
}

/// The sizes between `min` and `max`: multiples of `min` for a narrow range, else doubles.
fn size_steps(min: u64, max: u64) -> Vec<u64> {
    let mut sizes = Vec::new();
    let mut size = min;
    while size < max {
        sizes.push(size);
        let step = if max <= min.saturating_mul(MULTIPLES_MAX) { min } else { size };
        size = size.saturating_add(step);
    }
    sizes.push(max);
    sizes
}

/// Shares out `files`; what does not divide goes to the smallest sizes.
fn counts_by_files(sizes: &[u64], files: u64, distribution: Distribution) -> Vec<u64> {
    let largest = sizes.iter().copied().max().unwrap_or(1);
    // Weights have 20 bits of fraction; times FILES_MAX they fit u128.
    let weight = |size: u64| match distribution {
        Distribution::Files => 1,
        Distribution::Bytes => (u128::from(largest) << 20) / u128::from(size),
    };
    let all: u128 = sizes.iter().map(|&size| weight(size)).sum();
    let mut counts: Vec<u64> =
        sizes.iter().map(|&size| (u128::from(files) * weight(size) / all) as u64).collect();
    // Rounding down loses less than one file per size.
    let rest = files - counts.iter().sum::<u64>();
    for count in counts.iter_mut().take(rest as usize) {
        *count += 1;
    }
    counts
}

/// Shares out `bytes`; what does not divide goes to the largest sizes that still fit.
fn counts_by_bytes(sizes: &[u64], bytes: u64, distribution: Distribution) -> Vec<u64> {
    let one_of_each: u128 = sizes.iter().map(|&size| u128::from(size)).sum();
    let share = bytes / sizes.len() as u64;
    let mut counts: Vec<u64> = sizes
        .iter()
        .map(|&size| match distribution {
            Distribution::Files => (u128::from(bytes) / one_of_each) as u64,
            Distribution::Bytes => share / size,
        })
        .collect();
    let used: u64 = sizes.iter().zip(&counts).map(|(&size, &count)| size * count).sum();
    let mut rest = bytes - used;
    for (&size, count) in sizes.iter().zip(&mut counts).rev() {
        *count += rest / size;
        rest %= size;
    }
    counts
}

/// The ratio at position `u` (0 to 1) of a class whose ratios run from 1 to 2 `ratio` - 1.
///
/// A Moebius curve instead of a power: it needs no function whose last bit depends on the C
/// library, which would make trees differ between machines.
fn spread_ratio(ratio: f64, u: f64, bend: f64) -> f64 {
    1.0 + 2.0 * (ratio - 1.0) * u / (u + bend * (1.0 - u))
}

/// The bend with which `count` files of equal size compress by `ratio` when taken together.
fn bend(ratio: f64, count: u64) -> f64 {
    let points = count.min(512);
    let compressed = |bend: f64| {
        let sum: f64 = (0..points)
            .map(|i| 1.0 / spread_ratio(ratio, (i as f64 + 0.5) / points as f64, bend))
            .sum();
        sum / points as f64
    };
    let (mut low, mut high) = (1e-6_f64, 1e6_f64);
    for _ in 0..64 {
        let middle = (low * high).sqrt();
        // A larger bend holds the ratios down for longer.
        if compressed(middle) < 1.0 / ratio {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low * high).sqrt()
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// Counts files per size by asking for each file, as the writers do.
    fn census(options: &Options) -> BTreeMap<u64, u64> {
        let plan = Plan::new(options).unwrap();
        let mut census = BTreeMap::new();
        for index in 0..plan.files() {
            *census.entry(plan.file(index).size).or_default() += 1;
        }
        let bytes: u64 = census.iter().map(|(size, count)| size * count).sum();
        assert_eq!(bytes, plan.bytes());
        census
    }

    #[test]
    fn preset_totals() {
        let typical = Options::preset("typical").unwrap();
        let counts = census(&typical);
        let sizes: Vec<u64> = (16..=26).map(|power| 1 << power).collect();
        assert_eq!(counts.keys().copied().collect::<Vec<_>>(), sizes);
        assert!(counts.values().all(|&count| count == 32));
        assert_eq!(Plan::new(&typical).unwrap().bytes(), 4_292_870_144);

        let small = Options::preset("small").unwrap();
        let quarter = 75_000;
        let expected = [(4096, quarter), (8192, quarter), (12288, quarter), (16384, quarter)];
        assert_eq!(census(&small), BTreeMap::from(expected));
        assert_eq!(Plan::new(&small).unwrap().bytes(), 3_072_000_000);
    }

    #[test]
    fn equal_bytes_per_size() {
        let options = Options {
            amount: Amount::Bytes(7 << 24),
            size_min: 1 << 10,
            size_max: 1 << 16,
            distribution: Distribution::Bytes,
            ..Options::default()
        };
        for (size, count) in census(&options) {
            assert_eq!(size * count, 1 << 24);
        }
        let by_files = Options { amount: Amount::Files(1016), ..options };
        let counts = census(&by_files);
        assert_eq!(counts.values().sum::<u64>(), 1016);
        for (size, count) in counts {
            assert!((size * count).abs_diff(8 << 16) <= 2 * size, "{count} files of {size}");
        }
    }

    #[test]
    fn byte_totals_are_met_to_less_than_the_smallest_size() {
        for distribution in [Distribution::Files, Distribution::Bytes] {
            for bytes in [1000, 1999, 123_456, 98_765_432] {
                let options = Options {
                    amount: Amount::Bytes(bytes),
                    size_min: 1000,
                    size_max: 70_000,
                    distribution,
                    ..Options::default()
                };
                let plan = Plan::new(&options).unwrap();
                assert!(plan.bytes() <= bytes && bytes - plan.bytes() < 1000);
            }
        }
    }

    #[test]
    fn steps_end_with_the_largest_size() {
        assert_eq!(size_steps(4, 16), [4, 8, 12, 16]);
        assert_eq!(size_steps(4, 32), [4, 8, 16, 32]);
        assert_eq!(size_steps(10, 100), [10, 20, 40, 80, 100]);
        assert_eq!(size_steps(5, 5), [5]);
        assert_eq!(size_steps(1, u64::MAX).len(), 65);
    }

    #[test]
    fn too_much_is_refused() {
        let too_many = Options { amount: Amount::Files(u64::MAX), ..Options::default() };
        assert!(Plan::new(&too_many).unwrap_err().is_bad_input());
        let too_large = Options { size_max: u64::MAX, ..Options::default() };
        assert!(Plan::new(&too_large).unwrap_err().is_bad_input());
    }

    #[test]
    fn spread_covers_the_range_and_keeps_the_mean() {
        for ratio in [1.0, 1.5, 2.0, 5.0, 16.0] {
            let options = Options {
                amount: Amount::Files(5000),
                ratio,
                ratio_spread: true,
                ..Options::default()
            };
            let plan = Plan::new(&options).unwrap();
            let (mut least, mut most, mut bytes_in, mut bytes_out) = (99.0_f64, 0.0_f64, 0.0, 0.0);
            for file in (0..plan.files()).map(|index| plan.file(index)) {
                least = least.min(file.ratio);
                most = most.max(file.ratio);
                bytes_in += file.size as f64;
                bytes_out += file.size as f64 / file.ratio;
            }
            assert!((bytes_in / bytes_out / ratio - 1.0).abs() < 0.01, "ratio {ratio}");
            assert!(least < 1.0 + 0.1 * (ratio - 1.0) + 1e-9, "{ratio} has least {least}");
            assert!(most > 1.9 * (ratio - 1.0) + 1.0 - 1e-9, "{ratio} has most {most}");
        }
    }

    #[test]
    fn every_directory_of_files_has_a_mix_of_sizes() {
        let plan = Plan::new(&Options::preset("typical").unwrap()).unwrap();
        for first in (0..plan.files()).step_by(32) {
            let large = (first..first + 32).filter(|&i| plan.file(i).size >= 1 << 25).count();
            assert!((4..=8).contains(&large), "{large} of 32 from {first}");
        }
    }

    #[test]
    fn share_to_fragment_is_exact() {
        let options = Options { fragment_percent: 30, ..Options::preset("deep").unwrap() };
        let plan = Plan::new(&options).unwrap();
        let fragmented = (0..plan.files()).filter(|&i| plan.file(i).fragmented).count();
        assert_eq!(fragmented, 900);
    }
}
