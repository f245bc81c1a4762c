//! The options of `restore` and of the commands that look at what is backed up.

use std::ffi::OsString;
use std::path::PathBuf;

use capstan_address::Address;
use capstan_cell::request::{Overwrite, VersionName};
use clap::{ArgGroup, Args, ValueEnum, ValueHint};

use crate::args::time::{When, parse_when};
use crate::args::version::parse_version;
use crate::text::sizes::parse_size;

const AFTER_RESTORE: &str = "\
Examples:
  capstan restore desk --into /tmp/restored
  capstan restore desk@1f2e3d4c /etc/hosts /etc/ssh --into /tmp/restored --strip 1
  capstan restore desk /home/ann/thesis --in-place --overwrite if-different
  capstan restore desk /home/ann --as-of '2026-11-20 14:30' --into /tmp/restored
  capstan restore desk --include '*.odt' --into /tmp/restored
  capstan restore desk /home --exclude '*.iso' --exclude cache/ --list
  capstan restore desk --files-from wanted --in-place
  capstan restore desk --and mail --and www --into /tmp/restored
  capstan restore desk --to-tar - | ssh host tar -x -C /srv

--into recreates the full path: /etc/hosts becomes DIR/etc/hosts, and with --strip 1 DIR/hosts. Nothing is written
outside DIR. Without @SESSION the newest complete version is restored. --and is refused if two of the
objects have a file at the same path.

PATH is a path in the backup, as `capstan ls` shows it. Relative paths start at the working
directory. Patterns are those of `backup`, anchored at /. What lies in an excluded directory is
left out with it. A PATH that you name is restored whatever patterns say. --include without
--exclude restores only what it matches, and each PATH that you name, with only what matches below
it. A pattern without effect is reported.

An existing file stays until the whole new file was written beside it (as .capstan-…), which takes
room for both. It is not replaced if the backup does not have all contents. A restore that is killed
leaves the file beside it. The next restore from this home into that directory removes it; other
homes leave it, and you may remove it when no restore runs.

--list prints each path that would be restored with its bytes, and a total, and restores nothing.
It needs no target, and lists what --into would restore.

--overwrite if-different and if-newer compare files by kind, size and time. What is the same is left
alone: its contents are neither read nor written. Its owner, mode, extended attributes and inode
flags are put right where they differ, as are those of directories. ACLs and file capabilities that
the backup does not have are removed; other attributes stay. --overwrite if-newer leaves files that
are newer than in the backup as they are, with all their metadata; never leaves all that exists so.
The report counts what was left alone, and what of it was put right.";

/// Arguments of `restore`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_RESTORE)]
#[command(group = ArgGroup::new("target").args(["into", "in_place", "to_tar"]))]
pub struct RestoreArgs {
    /// The object's name, and the session if not the newest complete one
    #[arg(value_name = "NAME[@SESSION]", value_parser = parse_version)]
    pub version: VersionName,
    /// Restore only these paths, as `capstan ls` shows them, and what is below them
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Restore this object at the same time: a tape that has several of them is read once (can be given several times)
    #[arg(long, value_name = "NAME[@SESSION]", value_parser = parse_version)]
    #[arg(conflicts_with_all = ["to_tar", "paths", "files_from"])]
    pub and: Vec<VersionName>,
    /// Restore below this directory, with full paths
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub into: Option<PathBuf>,
    /// Restore to the original place
    #[arg(long)]
    pub in_place: bool,
    /// Write a tar archive to a file (- is standard output)
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub to_tar: Option<PathBuf>,
    /// Strip this many leading components from each path
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "in_place")]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=1000))]
    #[arg(allow_negative_numbers = true)]
    pub strip: u16,
    /// Use the newest version begun by this time: 2d, yesterday, 2026-11-20, '2026-11-20 14:30', @SESSION
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub as_of: Option<When>,
    /// What to do with files that exist
    #[arg(long, value_enum, value_name = "WHEN", default_value = "if-different")]
    pub overwrite: OverwriteArg,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// Only list what would be restored
    #[arg(long)]
    pub list: bool,
    /// Restore owners and entries of ACLs by number, not by name
    #[arg(long)]
    pub numeric_ids: bool,
    /// Read tapes through a spool in this directory: for many small files, which are written more slowly than a drive reads
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub spool: Option<PathBuf>,
    /// The size of the spool
    #[arg(long, value_name = "SIZE", default_value = "16G", value_parser = parse_size, requires = "spool")]
    pub spool_size: u64,
    /// Print the report as one JSON object (on standard error with --to-tar -)
    #[arg(long)]
    pub json: bool,
    /// What of it.
    #[command(flatten)]
    pub select: RestoreSelectArgs,
}

/// Selection.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection")]
pub struct RestoreSelectArgs {
    /// Read further paths from a file (- is standard input): one per line, or separated by zero bytes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files_from: Option<PathBuf>,
    /// Leave out what matches a pattern; later patterns override earlier ones, and those of files
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Leave out what matches the patterns in a file, written as a .gitignore
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub exclude_from: Vec<PathBuf>,
    /// Restore what matches a pattern although it is excluded (not below an excluded directory). Without --exclude: only what
    /// matches, and each PATH that you name
    #[arg(long, value_name = "PATTERN")]
    pub include: Vec<String>,
}

/// `--overwrite`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum OverwriteArg {
    /// Keep what exists
    Never,
    /// Replace what differs in kind, size or time of last change
    IfDifferent,
    /// Replace what is older than in the backup
    IfNewer,
    /// Replace all
    Always,
}

impl From<OverwriteArg> for Overwrite {
    fn from(arg: OverwriteArg) -> Self {
        match arg {
            OverwriteArg::Never => Self::Never,
            OverwriteArg::IfDifferent => Self::IfDifferent,
            OverwriteArg::IfNewer => Self::IfNewer,
            OverwriteArg::Always => Self::Always,
        }
    }
}

const AFTER_LS: &str = "\
Examples:
  capstan ls desk
  capstan ls -l desk@1f2e3d4c /etc/ssh
  capstan ls desk --depth 1 /home
  capstan ls desk --json | jq -r '.files[] | select(.size > 1e9) | .path'

PATH is a path in the backup. Relative paths start at the working directory. If the backup does
not have one, the others are listed, and the exit code is 2. --json prints one object with the
list `files`, a file a line. A path that is not UTF-8 also has its bytes in `path_bytes`, as
base64.";

/// Arguments of `ls`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_LS)]
pub struct LsArgs {
    /// The object's name, and the session if not the newest complete one
    #[arg(value_name = "NAME[@SESSION]", value_parser = parse_version)]
    pub version: VersionName,
    /// List only these paths and what is below them
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Use the newest version begun by this time: 2d, yesterday, 2026-11-20, '2026-11-20 14:30', @SESSION
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub as_of: Option<When>,
    /// List at most this many levels below each PATH; 1: what is directly in it
    #[arg(long, value_name = "N")]
    pub depth: Option<usize>,
    /// Show mode, owner, group, size and time
    #[arg(long, short)]
    pub long: bool,
    /// Print one JSON object with the list `files`
    #[arg(long)]
    pub json: bool,
}

const AFTER_VERIFY: &str = "\
Examples:
  capstan verify desk
  capstan verify desk@1f2e3d4c --json
  capstan verify --medium /mnt/backup

Encrypted data are opened with the secret from CAPSTAN_PASSPHRASE, CAPSTAN_KEY_FILE or the
terminal, and the files that damage costs are named. Without a secret only checksums are verified.";

/// Arguments of `verify`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_VERIFY)]
#[command(group = ArgGroup::new("what").required(true).args(["version", "medium"]))]
pub struct VerifyArgs {
    /// The object's name, and the session if not the newest complete one
    #[arg(value_name = "NAME[@SESSION]", value_parser = parse_version)]
    pub version: Option<VersionName>,
    /// Verify a medium: its label, the first digits of its id, or its device
    #[arg(long, value_name = "MEDIUM")]
    pub medium: Option<String>,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

const AFTER_IMPORT: &str = "\
Examples:
  capstan import /mnt/backup
  CAPSTAN_HOME=/tmp/other capstan import file:/mnt/backup --json

You can import an encrypted medium without its secret. Names then stay encrypted until you import
it again with the secret. `capstan key import` takes its key ring over for later backups.";

/// Arguments of `import`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_IMPORT)]
pub struct ImportArgs {
    /// Device whose medium to record: a directory or file:/path
    #[arg(value_name = "DEVICE", value_hint = ValueHint::DirPath)]
    pub device: Address,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}
