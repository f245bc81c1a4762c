//! The options of `capstan assess`.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use capstan_assess::create_data::{Amount, Distribution, Options, Pattern};
use clap::{Args, Subcommand, ValueEnum, ValueHint};

use crate::text::sizes::{parse_range, parse_size};

const AFTER_CREATE: &str = "\
Examples:
  capstan assess create-data /mnt/test --preset small
  capstan assess create-data /mnt/test --bytes 20G --sizes 64K..64M --ratio 2.5 --seed 7

Presets: typical (4.29 GB in 352 files of 64 KiB to 64 MiB), small (3.07 GB in 300,000 files of 4 to 16 KiB), deep
(76 MB in 3,000 files in 120 nested directories). Options override what the preset says. The same options give the same
tree on every machine.";

/// The commands of `assess`.
#[derive(Debug, Subcommand)]
pub enum AssessCommand {
    /// Create deterministic test data of a given compressibility, sizes and directory shape
    #[command(after_help = AFTER_CREATE)]
    CreateData(CreateDataArgs),
}

/// Arguments of `assess create-data`.
#[derive(Debug, Args)]
pub struct CreateDataArgs {
    /// Directory to fill: empty or not existing
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub dir: PathBuf,
    /// Begin with these options
    #[arg(long, value_enum, default_value = "typical")]
    pub preset: PresetArg,
    /// Number of files
    #[arg(long, value_name = "N", conflicts_with = "bytes")]
    pub files: Option<u64>,
    /// Size of all files together
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub bytes: Option<u64>,
    /// Smallest and largest file: 64K..64M
    #[arg(long, value_name = "MIN..MAX", value_parser = parse_range)]
    pub sizes: Option<RangeInclusive<u64>>,
    /// What is distributed evenly over the sizes
    #[arg(long, value_enum)]
    pub distribution: Option<DistributionArg>,
    /// Compression ratio of mixed content, 1 to 16
    #[arg(long, value_name = "R")]
    pub ratio: Option<f64>,
    /// Spread the ratios of the files around that
    #[arg(long)]
    pub ratio_spread: bool,
    /// What the files contain
    #[arg(long, value_enum)]
    pub pattern: Option<PatternArg>,
    /// Directory levels
    #[arg(long, value_name = "D")]
    pub depth: Option<u32>,
    /// Subdirectories in each directory
    #[arg(long, value_name = "B")]
    pub breadth: Option<u32>,
    /// Files in each directory
    #[arg(long, value_name = "N")]
    pub files_per_dir: Option<u64>,
    /// Writers at once
    #[arg(long, value_name = "N")]
    pub streams: Option<u32>,
    /// Share of the files laid out in pieces, in percent
    #[arg(long, value_name = "PERCENT")]
    pub fragment: Option<u8>,
    /// Same seed, same tree
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Print the summary as one JSON object
    #[arg(long)]
    pub json: bool,
}

impl CreateDataArgs {
    /// The generator's options: those of the preset, and what is given.
    pub fn options(&self) -> Options {
        let mut options = Options::preset(self.preset.name()).unwrap_or_default();
        let amount = self.files.map(Amount::Files).or(self.bytes.map(Amount::Bytes));
        options.amount = amount.unwrap_or(options.amount);
        if let Some(sizes) = &self.sizes {
            (options.size_min, options.size_max) = (*sizes.start(), *sizes.end());
        }
        if let Some(distribution) = self.distribution {
            options.distribution = match distribution {
                DistributionArg::Files => Distribution::Files,
                DistributionArg::Bytes => Distribution::Bytes,
            };
        }
        if let Some(pattern) = self.pattern {
            options.pattern = match pattern {
                PatternArg::Zeros => Pattern::Zeros,
                PatternArg::Fixed => Pattern::Fixed,
                PatternArg::Incremental => Pattern::Incremental,
                PatternArg::Random => Pattern::Random,
                PatternArg::Mixed => Pattern::Mixed,
            };
        }
        options.ratio = self.ratio.unwrap_or(options.ratio);
        options.ratio_spread |= self.ratio_spread;
        options.depth = self.depth.unwrap_or(options.depth);
        options.breadth = self.breadth.unwrap_or(options.breadth);
        options.files_per_dir = self.files_per_dir.or(options.files_per_dir);
        options.streams = self.streams.unwrap_or(options.streams);
        options.fragment_percent = self.fragment.unwrap_or(options.fragment_percent);
        options.seed = self.seed.unwrap_or(options.seed);
        options
    }
}

/// `--preset`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PresetArg {
    /// 4.29 GB in 352 files of 64 KiB to 64 MiB
    Typical,
    /// 3.07 GB in 300,000 files of 4 to 16 KiB
    Small,
    /// 76 MB in 3,000 files in 120 nested directories
    Deep,
}

impl PresetArg {
    fn name(self) -> &'static str {
        match self {
            Self::Typical => "typical",
            Self::Small => "small",
            Self::Deep => "deep",
        }
    }
}

/// `--distribution`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum DistributionArg {
    /// Each size has the same number of files
    Files,
    /// Each size has the same number of bytes
    Bytes,
}

/// `--pattern`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum PatternArg {
    /// Zero bytes
    Zeros,
    /// One word, repeated
    Fixed,
    /// Words counting up
    Incremental,
    /// Incompressible bytes
    Random,
    /// As compressible as --ratio says
    Mixed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_exists() {
        for preset in PresetArg::value_variants() {
            assert!(Options::preset(preset.name()).is_some(), "{preset:?}");
        }
        assert_eq!(PresetArg::value_variants().len(), Options::PRESETS.len());
    }
}
