//! The options of `diff` and `compare`.

use std::ffi::OsString;

use capstan_cell::request::VersionName;
use clap::Args;

use super::restore::parse_version;
use super::time::{When, parse_when};

const AFTER_DIFF: &str = "\
Examples:
  capstan diff desk@1f2e3d4c desk
  capstan diff desk@1f2e3d4c desk@5a6b7c8d /etc
  capstan diff web1 web2 /etc/nginx
  capstan diff desk@1f2e3d4c desk --json | jq -r '.changes[] | select(.change == \"removed\") | .path'

A line per path that differs: + is in the second version only, - in the first only, T became another kind of thing, M has
other contents, U differs in metadata alone; what differs follows. Contents are told by length and time of change: the
versions' data are not read. Where ctime alone differs, they may have been changed and their time put back. Names of owners count, not their numbers. The last line is a total. With --json there
is one object: the list `changes`, a path a line, with `before` and `after` as `ls --json` has them, and `total`.

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
    /// Only these paths and what is below them; a relative one begins at the working directory
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

A line per path that differs, as `capstan diff` has them: + is new in the file system, - is gone from it. What the backup left
out by its patterns and options is left out here. Files are told by kind, length, time of change and metadata; with --contents
what the backup has of each is read from its medium and compared byte by byte, so that time alone no longer counts as other
contents.

Exit codes: 0 nothing differs, 4 something differs, 3 something could not be compared (the messages name it), 1 stopped or
failed, 2 bad input.";

/// Arguments of `compare`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_COMPARE)]
pub struct CompareArgs {
    /// The object's name, and the session if not the newest complete one
    #[arg(value_name = "NAME[@SESSION]", value_parser = parse_version)]
    pub version: VersionName,
    /// Only these paths and what is below them; a relative one begins at the working directory
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Not the newest version but the newest begun by this time: 2d, yesterday, 2026-11-20, '2026-11-20 14:30', @SESSION
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub as_of: Option<When>,
    /// Compare contents too, byte by byte
    #[arg(long)]
    pub contents: bool,
    /// Print one JSON object with the list `changes`
    #[arg(long)]
    pub json: bool,
}
