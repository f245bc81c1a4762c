//! The options of `find`.

use capstan_format::entry::Kind;
use clap::{ArgGroup, Args, ValueEnum};

use crate::args::time::{When, parse_when};
use crate::text::sizes::parse_size;

const AFTER: &str = "\
Examples:
  capstan find hosts
  capstan find '*.odt' --all-versions
  capstan find '/home/ann/**/thesis*' --json
  capstan find --name '*.pst' --larger 1G --changed-since 7d --all-versions
  capstan find '/srv/**' --type f --changed-before 2020-01-01 --as-of 2026-01-31

All conditions must hold. PATTERN matches paths as in a .gitignore; --name matches the last
component only. Braces have no special meaning. Only files have a size. Times are modification
times. If nothing is found, standard error says so, and the exit code is 0.";

/// Arguments of `find`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
#[command(group = ArgGroup::new("condition").required(true).multiple(true).args(
    ["pattern", "name", "larger", "smaller", "changed_since", "changed_before", "kinds"]))]
pub struct FindArgs {
    /// A name or pattern (*, ?, [a-z]), as in a .gitignore
    #[arg(value_name = "PATTERN")]
    pub pattern: Option<String>,
    /// Only files of this name, or pattern of a name
    #[arg(long, value_name = "GLOB")]
    pub name: Option<String>,
    /// Only files larger than this
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub larger: Option<u64>,
    /// Only files smaller than this
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub smaller: Option<u64>,
    /// Only what was last changed since then: 7d, yesterday, 2026-11-20, '2026-11-20 14:30', @SESSION
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub changed_since: Option<When>,
    /// Only what was last changed before
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub changed_before: Option<When>,
    /// Only files, directories or symbolic links; can be given several times
    #[arg(long = "type", value_enum, value_name = "TYPE")]
    pub kinds: Vec<KindArg>,
    /// Look into all versions, not only the newest of each object
    #[arg(long, conflicts_with = "as_of")]
    pub all_versions: bool,
    /// Look into the newest version of each object begun by this time
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub as_of: Option<When>,
    /// Print one JSON object with the list `files`
    #[arg(long)]
    pub json: bool,
}

/// `--type`, by the letters of find(1).
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum KindArg {
    /// Files
    #[value(name = "f")]
    File,
    /// Directories
    #[value(name = "d")]
    Dir,
    /// Symbolic links
    #[value(name = "l")]
    Symlink,
}

impl From<KindArg> for Kind {
    fn from(arg: KindArg) -> Self {
        match arg {
            KindArg::File => Self::File,
            KindArg::Dir => Self::Dir,
            KindArg::Symlink => Self::Symlink,
        }
    }
}
