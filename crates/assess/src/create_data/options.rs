//! What can be asked of the generator, and the presets.

use std::thread;

use serde::Serialize;

use super::error::CreateDataError;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// Largest ratio that can be asked for.
pub(super) const RATIO_MAX: f64 = 16.0;
/// Most writers: 64 buffers of 128 KiB keep the memory below 16 MiB.
const STREAMS_MAX: u32 = 64;

/// How much to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Amount {
    /// This many files.
    Files(u64),
    /// As many files as fit into this many bytes; less than the smallest size may stay unused.
    Bytes(u64),
}

/// What the sizes have in equal parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Distribution {
    /// Every size has the same number of files.
    Files,
    /// Every size has the same number of bytes, so there are many more small files than large.
    Bytes,
}

/// What the files contain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Pattern {
    /// Zero bytes.
    Zeros,
    /// One 64-bit word that depends on the seed, repeated.
    Fixed,
    /// Little-endian 64-bit words counting up; file number n starts at n times 2^32.
    Incremental,
    /// Incompressible bytes.
    Random,
    /// Random bytes and repetitions in the proportion that gives the asked ratio.
    Mixed,
}

impl Pattern {
    /// All patterns, in the order to list them.
    pub const ALL: [Self; 5] =
        [Self::Zeros, Self::Fixed, Self::Incremental, Self::Random, Self::Mixed];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zeros => "zeros",
            Self::Fixed => "fixed",
            Self::Incremental => "incremental",
            Self::Random => "random",
            Self::Mixed => "mixed",
        }
    }
}

/// Everything that decides what [`create_data`](super::create_data()) writes.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Options {
    /// Number of files, or bytes in all.
    pub amount: Amount,
    /// Smallest file size in bytes.
    pub size_min: u64,
    /// Largest file size in bytes. The sizes used are `size_min` times 1, 2, 3, ... where
    /// `size_max` is at most four times `size_min`, else `size_min` times 1, 2, 4, ...; the
    /// last size is always `size_max`.
    pub size_max: u64,
    /// What the sizes have in equal parts.
    pub distribution: Distribution,
    /// Compression ratio of [`Pattern::Mixed`], bytes in by bytes out, 1 to 16.
    pub ratio: f64,
    /// Spreads the ratios of the files over 1 to 2 `ratio` - 1; all together still give `ratio`.
    pub ratio_spread: bool,
    /// What the files contain.
    pub pattern: Pattern,
    /// Directory levels below the target; 0 puts all files into the target itself.
    pub depth: u32,
    /// Subdirectories in each directory above the lowest level.
    pub breadth: u32,
    /// Files in each directory below the target, filled depth first; directories that would stay
    /// empty are not created. Without it all directories are created and filled evenly.
    pub files_per_dir: Option<u64>,
    /// Writer threads. The result does not depend on it.
    pub streams: u32,
    /// Share of the files, in percent, laid out in many separate pieces on the disk.
    pub fragment_percent: u8,
    /// Decides the random parts and the order of the sizes: same seed, same tree.
    pub seed: u64,
    /// Waits until all is on the disk, so that the writing does not disturb the test that follows.
    pub sync: bool,
}

impl Default for Options {
    /// The preset `typical`.
    fn default() -> Self {
        Self {
            amount: Amount::Files(352),
            size_min: 64 * KIB,
            size_max: 64 * MIB,
            distribution: Distribution::Files,
            ratio: 2.0,
            ratio_spread: false,
            pattern: Pattern::Mixed,
            depth: 2,
            breadth: 4,
            files_per_dir: Some(32),
            streams: thread::available_parallelism().map_or(1, |n| n.get().min(4) as u32),
            fragment_percent: 0,
            seed: 1,
            sync: true,
        }
    }
}

impl Options {
    /// The names that [`preset`](Self::preset) knows, with what they are.
    pub const PRESETS: [(&'static str, &'static str); 3] = [
        ("typical", "4.29 GB in 352 files of 64 KiB to 64 MiB, 32 of each power of two"),
        ("small", "3.07 GB in 300,000 files of 4, 8, 12 and 16 KiB, 300 in a directory"),
        ("deep", "76 MB in 3,000 files of 4 to 64 KiB, in 120 nested directories"),
    ];

    /// The options of a preset, all with ratio 2.
    pub fn preset(name: &str) -> Option<Self> {
        let typical = Self::default();
        match name {
            "typical" => Some(typical),
            "small" => Some(Self {
                amount: Amount::Files(300_000),
                size_min: 4 * KIB,
                size_max: 16 * KIB,
                depth: 3,
                breadth: 10,
                files_per_dir: Some(300),
                ..typical
            }),
            "deep" => Some(Self {
                amount: Amount::Files(3000),
                size_min: 4 * KIB,
                size_max: 64 * KIB,
                depth: 120,
                breadth: 1,
                files_per_dir: Some(25),
                ..typical
            }),
            _ => None,
        }
    }

    /// Checks every value on its own; what depends on several is checked by the plan and the tree.
    pub(super) fn validate(&self) -> Result<(), CreateDataError> {
        let bad = |option, problem: String| Err(CreateDataError::bad_option(option, problem));
        match self.amount {
            Amount::Files(0) => return bad("files", "is 0: give 1 or more".into()),
            Amount::Bytes(bytes) if bytes < self.size_min => {
                let min = self.size_min;
                return bad(
                    "bytes",
                    format!(
                        "is {bytes}, less than one file of {min} bytes: give more bytes or smaller \
                         --sizes"
                    ),
                );
            }
            _ => {}
        }
        if self.size_min == 0 {
            return bad("sizes", "starts at 0: the smallest size is 1 byte".into());
        }
        if self.size_max < self.size_min {
            let (min, max) = (self.size_min, self.size_max);
            return bad("sizes", format!("is {min}..{max}: give the smaller size first"));
        }
        if !(1.0..=RATIO_MAX).contains(&self.ratio) {
            return bad("ratio", format!("is {}: give 1 to {RATIO_MAX}", self.ratio));
        }
        if self.depth > 0 && self.breadth == 0 {
            return bad("breadth", "is 0: give 1 or more, or --depth 0".into());
        }
        if self.files_per_dir == Some(0) {
            return bad("files-per-dir", "is 0: give 1 or more".into());
        }
        if !(1..=STREAMS_MAX).contains(&self.streams) {
            return bad("streams", format!("is {}: give 1 to {STREAMS_MAX}", self.streams));
        }
        if self.fragment_percent > 100 {
            return bad("fragment", format!("is {}: give 0 to 100", self.fragment_percent));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn presets_are_valid() {
        for (name, _) in Options::PRESETS {
            Options::preset(name).unwrap().validate().unwrap();
        }
        assert!(Options::preset("huge").is_none());
        assert_eq!(Options::preset("typical").unwrap(), Options::default());
    }

    #[test]
    fn every_bad_value_names_its_option() {
        let d = Options::default;
        let cases = [
            ("files", Options { amount: Amount::Files(0), ..d() }),
            ("bytes", Options { amount: Amount::Bytes(65_535), ..d() }),
            ("sizes", Options { size_min: 0, ..d() }),
            ("sizes", Options { size_min: 10, size_max: 9, ..d() }),
            ("ratio", Options { ratio: 0.99, ..d() }),
            ("ratio", Options { ratio: 16.01, ..d() }),
            ("ratio", Options { ratio: f64::NAN, ..d() }),
            ("breadth", Options { breadth: 0, ..d() }),
            ("files-per-dir", Options { files_per_dir: Some(0), ..d() }),
            ("streams", Options { streams: 0, ..d() }),
            ("streams", Options { streams: 65, ..d() }),
            ("fragment", Options { fragment_percent: 101, ..d() }),
        ];
        for (expected, options) in cases {
            let error = options.validate().unwrap_err();
            assert!(error.is_bad_input());
            match error {
                CreateDataError::BadOption { option, .. } => assert_eq!(option, expected),
                other => panic!("{other:?}"),
            }
        }
    }
}
