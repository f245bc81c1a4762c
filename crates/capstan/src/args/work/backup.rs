//! The options of `capstan backup`.

use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use capstan_address::Address;
use capstan_cell::request::{Compression, Locked, LogLevel, ReadMode};
use capstan_engine::problem::Problem;
use clap::{Args, ValueEnum, ValueHint};

use crate::args::admin::protect::KeepArgs;
use crate::args::destination::Destination;
use crate::args::encrypt::EncryptArg;
use crate::args::time::parse_pause;
use crate::text::sizes::{parse_range, parse_size, parse_size_u32};

const AFTER: &str = "\
Examples:
  capstan backup /etc /home --to /mnt/backup --name desk --exclude '*.o' --exclude /home/*/.cache
  capstan backup / --to file:/mnt/backup --one-file-system --exclude-caches --compress zstd:9
  capstan backup /home --to /mnt/backup --name home --full
  capstan backup /home --to /mnt/backup --mirror /mnt/off-site --name home
  capstan backup /srv/books --to /mnt/backup --name books --protect 10y --lock-until 90d
  capstan backup --from-command 'pg_dump shop' --stdin-name shop.sql --name shop --to /mnt/backup
  find /srv -newer stamp -print0 | capstan backup --files-from - --name new --to /mnt/backup
  capstan backup /home --to null: --json | jq .bottleneck
  capstan backup /home --to pool:office
  capstan backup /home --to /mnt/backup --exclude '*.iso' --dry-run --list
  capstan backup /home --to pool:tapes --encrypt drive
  capstan backup /srv --to rait5:/mnt/a,/mnt/b,/mnt/c --name srv
  capstan backup /srv --to rait5:vtape:/vtl,vtape:/vtl,vtape:/vtl --name srv

Patterns are those of .gitignore files, anchored at /: '*.o' matches everywhere, '/tmp/' matches
that directory in the root. Braces have no special meaning. What --include matches is kept.
Capstan's own home and all media that it knows are left out, but a medium that you name as a PATH
is backed up.

The device is a directory (file:/path or just its path), or null:, which keeps nothing, or an
array of devices: rait0:A,B (stripes), rait1:A,B (the same on each), rait5:A,B,C (stripes with
parity: any one may be lost), rait:N+K:A,B,... (any K may be lost). Put arrays within arrays in
parentheses. If a member fails, the others go on and the session completes with errors;
`capstan rait` shows the members and rebuilds a lost one. If all members are tape libraries, a
session takes a tape for each, and continues on a next array of tapes when one is full.

A backup stores what changed since the object's last version on the same medium, or on media of
the same pool or library. On another medium it stores everything, so that each of several disks in
rotation is enough by itself. To a rotation set of a pool it builds on what a slower set keeps for
longer, or stores everything. --incr builds on the last version wherever it lies. Exported media
count as if they were at hand. If the last version is damaged or away, or is not encrypted and
this one is, the backup stores everything and a warning says why. --full and --level override
this.

--dry-run --list prints a line for each path: new, changed, metadata (its contents are not stored
again), unchanged, removed, left out (with the rule), failed. It does not list what is in a
directory that is left out.

If a mirror fails, the others go on and the session completes with errors. The session fails only
if all of them fail. A first SIGINT or SIGTERM ends the session in order, and so does a SIGHUP
that is not ignored (nohup): what was read is committed, and --resume continues from there.";

/// Arguments of `backup`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct BackupArgs {
    /// Files and directories to back up. A symbolic link is stored as a link; PATH/ means what it leads to
    #[arg(value_name = "PATH", value_hint = ValueHint::AnyPath)]
    #[arg(required_unless_present_any = ["files_from", "stdin", "from_command"])]
    pub paths: Vec<PathBuf>,
    /// Device to write to: a directory, file:/path, an array as rait5:A,B,C, or null:; or pool:NAME, whose policy chooses
    /// the medium
    #[arg(long, value_name = "DEVICE", value_hint = ValueHint::DirPath)]
    pub to: Destination,
    /// Write the same data to another device, too; can be given several times
    #[arg(long, value_name = "DEVICE", value_hint = ValueHint::DirPath)]
    pub mirror: Vec<Address>,
    /// Name of the object [default: the paths, joined by commas]
    #[arg(long)]
    pub name: Option<String>,
    /// Back up everything
    #[arg(long, conflicts_with_all = ["resume", "incr", "level"])]
    pub full: bool,
    /// Back up what changed since the object's last version, on whatever medium; everything, if there is none
    #[arg(long, conflicts_with = "level")]
    pub incr: bool,
    /// Back up what changed since the last version of a lower level, 1 to 9; full ones are the lowest
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=9))]
    pub level: Option<u8>,
    /// Continue the object's last incomplete backup
    #[arg(long)]
    pub resume: bool,
    /// At the end, move the tapes that were written to mail slots, or eject the tape of a drive that stands alone, and record
    /// them as exported to this place
    #[arg(long, value_name = "LOCATION")]
    pub eject_to: Option<String>,
    /// Make a medium there even if the database knows another one in that place, or no disk is mounted there
    #[arg(long)]
    pub new_medium: bool,
    /// Only say what would be done
    #[arg(long)]
    pub dry_run: bool,
    /// List each path, and what the backup would do with it
    #[arg(long, requires = "dry_run")]
    pub list: bool,
    /// Tag the session; can be given several times, or once with several joined by commas
    #[arg(long = "tag", value_name = "TAG[,TAG]")]
    pub tags: Vec<String>,
    /// What the internal database keeps of the catalogs: all; files (names without attributes); directories; none. The
    /// medium always has everything, so all can be restored. `capstan catalog load` fetches what was not kept
    #[arg(long, value_name = "LEVEL", default_value_t)]
    pub log_level: LogLevel,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
    /// What to read instead of paths.
    #[command(flatten)]
    pub input: InputArgs,
    /// What to leave out.
    #[command(flatten)]
    pub select: SelectArgs,
    /// What to do about files that others use.
    #[command(flatten)]
    pub busy: BusyArgs,
    /// Until when it is kept.
    #[command(flatten)]
    pub keep: KeepArgs,
    /// How the medium is written.
    #[command(flatten)]
    pub tune: TuneArgs,
}

/// Other sources than paths.
#[derive(Debug, Args)]
#[command(next_help_heading = "Input")]
pub struct InputArgs {
    /// Read further paths from a file (- is standard input): one per line, or separated by zero bytes
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub files_from: Option<PathBuf>,
    /// Back up standard input as one file
    #[arg(long, conflicts_with_all = ["paths", "files_from", "from_command"])]
    pub stdin: bool,
    /// Back up the output of a command as one file. If the command fails, the session fails. It is run by bash
    /// -o pipefail -c, so a pipe fails if any of its commands fails; without bash, by /bin/sh
    #[arg(long, value_name = "COMMAND", conflicts_with_all = ["paths", "files_from"])]
    pub from_command: Option<String>,
    /// Name or path of that one file. Leading slashes are removed, components . and .. are refused
    #[arg(long, value_name = "NAME", default_value = "stdin")]
    pub stdin_name: String,
}

/// Selection.
#[derive(Debug, Args)]
#[command(next_help_heading = "Selection")]
pub struct SelectArgs {
    /// Leave out what matches a pattern; later patterns override earlier ones, and those of files
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Leave out what matches the patterns in a file, written as a .gitignore
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub exclude_from: Vec<PathBuf>,
    /// Keep what matches a pattern although it is excluded (not below an excluded directory)
    #[arg(long, value_name = "PATTERN")]
    pub include: Vec<String>,
    /// Leave out directories tagged as caches by a CACHEDIR.TAG file
    #[arg(long)]
    pub exclude_caches: bool,
    /// Leave out the contents of directories that hold a file of this name
    #[arg(long, value_name = "NAME")]
    pub exclude_if_present: Vec<String>,
    /// Take only files of these sizes: 1M..10G, ..64K, 1G..
    #[arg(long, value_name = "RANGE", value_parser = parse_range)]
    pub files_of_size: Option<RangeInclusive<u64>>,
    /// Do not enter other file systems
    #[arg(long)]
    pub one_file_system: bool,
    /// Store each name of a hard-linked file as a file of its own
    #[arg(long)]
    pub hard_links_as_files: bool,
}

/// Files in use.
#[derive(Debug, Args)]
#[command(next_help_heading = "Files in use")]
pub struct BusyArgs {
    /// Hold a shared lock on each file while it is read
    #[arg(long)]
    pub lock_files: bool,
    /// What to do with files that are locked or open for writing
    #[arg(long, value_enum, default_value = "warn", value_name = "ACTION")]
    pub locked: LockedArg,
    /// Read a file again if it changed while it was read, at most this many times
    #[arg(long, value_name = "N", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100))]
    #[arg(allow_negative_numbers = true)]
    pub retries: u32,
    /// How long to wait before reading it again: seconds as 0.5, or 10s, 2min
    #[arg(long, value_name = "SECONDS", default_value = "1", value_parser = parse_pause)]
    #[arg(allow_negative_numbers = true)]
    pub retry_wait: Duration,
}

/// How many streams feed the device at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Concurrency {
    /// As suits source and device.
    Auto,
    /// At most so many.
    AtMost(u16),
}

impl Concurrency {
    /// The number, if one was given.
    pub fn most(self) -> Option<usize> {
        match self {
            Self::Auto => None,
            Self::AtMost(n) => Some(n.into()),
        }
    }
}

fn parse_concurrency(text: &str) -> Result<Concurrency, Problem> {
    match text.parse() {
        Ok(n) if (1..=1024).contains(&n) => Ok(Concurrency::AtMost(n)),
        _ if text == "auto" => Ok(Concurrency::Auto),
        _ => Err(Problem::new("it is neither auto nor a number from 1 to 1024")),
    }
}

/// Speed and layout.
#[derive(Debug, Args)]
#[command(next_help_heading = "Data path")]
pub struct TuneArgs {
    /// Streams that read at once [default: as many as processors, 2 to 8]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    #[arg(allow_negative_numbers = true)]
    pub streams: Option<u16>,
    /// Streams that feed the device at once, at most. auto: all; for a tape drive as few as keep it streaming, which a second
    /// of reading shows
    #[arg(long, value_name = "auto|N", default_value = "auto", value_parser = parse_concurrency)]
    #[arg(allow_negative_numbers = true)]
    pub concurrency: Concurrency,
    /// Block size of a new medium, 64K to 8M
    #[arg(long, value_name = "SIZE", value_parser = parse_size_u32)]
    #[arg(allow_negative_numbers = true)]
    pub block_size: Option<u32>,
    /// Size after which a segment ends and is committed
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    #[arg(allow_negative_numbers = true)]
    pub segment_size: Option<u64>,
    /// Block buffers between streams and device
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=65536))]
    #[arg(allow_negative_numbers = true)]
    pub buffers: Option<u32>,
    /// off, auto (harder while something else than the processors is the limit), lz4, zstd or zstd:LEVEL with LEVEL -7 to 19
    #[arg(long, value_name = "METHOD", default_value = "auto")]
    pub compress: Compression,
    /// Who encrypts. software: the session; this is the default if the home has a key ring. drive: the tape drive, which needs a
    /// key ring too; a drive encrypts all of a tape or none of it. off: nobody, in a home without a key ring; you have to say so once
    /// if earlier backups are encrypted
    #[arg(long, value_enum, value_name = "BY")]
    pub encrypt: Option<EncryptArg>,
    /// Write no checksums of data frames; encrypted frames keep theirs. Damage to a frame without one shows in a restore, if at all: no
    /// copy, verification or repair finds it
    #[arg(long)]
    pub no_crc: bool,
    /// How to read files: through the page cache, past it, or whichever is best
    #[arg(long, value_enum, default_value = "auto", value_name = "MODE")]
    pub read: ReadArg,
}

/// `--locked`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum LockedArg {
    /// Back them up and say so
    Warn,
    /// Leave them out and say so
    Skip,
    /// Back them up and count them as errors
    Error,
}

impl From<LockedArg> for Locked {
    fn from(arg: LockedArg) -> Self {
        match arg {
            LockedArg::Warn => Self::Warn,
            LockedArg::Skip => Self::Skip,
            LockedArg::Error => Self::Error,
        }
    }
}

/// `--read`.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum ReadArg {
    /// Whichever is best for the file system and the file
    Auto,
    /// Through the page cache
    Buffered,
    /// Past the page cache, if the file system can
    Direct,
}

impl From<ReadArg> for ReadMode {
    fn from(arg: ReadArg) -> Self {
        match arg {
            ReadArg::Auto => Self::Auto,
            ReadArg::Buffered => Self::Buffered,
            ReadArg::Direct => Self::Direct,
        }
    }
}

/// The paths in what `--files-from` names.
pub fn split_paths(content: &[u8]) -> Vec<PathBuf> {
    use std::os::unix::ffi::OsStringExt;
    // No path has a zero byte, so one tells that they end the paths.
    let end = if content.contains(&0) { 0 } else { b'\n' };
    content
        .split(|b| *b == end)
        .filter(|path| !path.is_empty())
        .map(|path| PathBuf::from(OsString::from_vec(path.to_vec())))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn paths_end_by_zero_bytes_if_there_are_any() {
        let bytes = |c: &[u8]| -> Vec<Vec<u8>> {
            split_paths(c).iter().map(|p| p.as_os_str().as_bytes().to_vec()).collect()
        };
        assert_eq!(bytes(b"/a b\n\n/c\xff\n"), [b"/a b".to_vec(), b"/c\xff".to_vec()]);
        assert_eq!(bytes(b"/a\nb\0/c\0"), [b"/a\nb".to_vec(), b"/c".to_vec()]);
        assert!(bytes(b"").is_empty());
    }
}
