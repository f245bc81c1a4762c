//! The options of `diff` and `compare`.

use std::ffi::OsString;

use capstan_cell::request::VersionName;
use clap::Args;

use crate::args::time::{When, parse_when};
use crate::args::version::parse_version;

const AFTER_DIFF: &str = "\
Examples:
  capstan diff desk@1f2e3d4c desk
  capstan diff desk@1f2e3d4c desk@5a6b7c8d /etc
  capstan diff web1 web2 /etc/nginx
  capstan diff desk@1f2e3d4c desk --json | jq -r '.changes[] | select(.change == \"removed\") | .path'

Prints a line for each path that differs: + only in the second version, - only in the first, T
another kind of file, M other contents, U other metadata only. What differs follows. Contents are
compared by length and modification time; the versions' data are not read. If only ctime differs,
the contents may have changed and the time was put back. Owners are compared by name, not by
number. The last line is a total. --json prints one object: the list `changes`, a path a line,
with `before` and `after` as in `ls --json`, and `total`.

The exit code is 0 whether anything differs or not.";

/// Arguments of `diff`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_DIFF)]
pub struct DiffArgs {
    /// The first version: the object's name, and the session if not the newest complete one
    #[arg(value_name = "NAME[@SESSION]", value_parser = parse_version)]
    pub before: VersionName,
    /// The second version, of the same object or of another
    #[arg(value_name = "NAME[@SESSION]", value_parser = parse_version)]
    pub after: VersionName,
    /// Only these paths and what is below them. Relative paths start at the working directory
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Print one JSON object with the list `changes`
    #[arg(long)]
    pub json: bool,
}

const AFTER_COMPARE: &str = "\
Examples:
  capstan compare desk
  capstan compare desk@1f2e3d4c /etc --contents
  capstan compare desk --json | jq -r '.changes[] | select(.change == \"added\") | .path'

Prints a line for each path that differs, as `capstan diff` does: + is new in the file system, -
is gone from it. What the backup left out by its patterns and options is left out here, too. Files
are compared by kind, length, modification time and metadata. With --contents they are read from
the medium and compared byte by byte, so a different time alone no longer counts as other
contents. File systems without a change time of their own (FAT, exFAT, sshfs, squashfs) show other
contents of the same length and modification time only with --contents.

Exit codes: 0 nothing differs, 4 something differs, 3 something could not be compared (the messages name it), 1 stopped or
failed, 2 bad input.";

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_COMPARE)]
pub struct CompareArgs {
    /// The object's name, and the session if not the newest complete one
    #[arg(value_name = "NAME[@SESSION]", value_parser = parse_version)]
    pub version: VersionName,
    /// Only these paths and what is below them. Relative paths start at the working directory
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Use the newest version begun by this time: 2d, yesterday, 2026-11-20, '2026-11-20 14:30', @SESSION
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub as_of: Option<When>,
    /// Compare contents too, byte by byte
    #[arg(long)]
    pub contents: bool,
    /// Print one JSON object with the list `changes`
    #[arg(long)]
    pub json: bool,
}
