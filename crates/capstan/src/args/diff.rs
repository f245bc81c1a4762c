//! The options of `diff` and `compare`.

use std::ffi::OsString;

use capstan_cell::request::VersionName;
use clap::Args;

use super::restore::parse_version;

const AFTER_DIFF: &str = "\
Examples:
  capstan diff desk@1f2e3d4c desk
  capstan diff desk@1f2e3d4c desk@5a6b7c8d /etc
  capstan diff web1 web2 /etc/nginx
  capstan diff desk@1f2e3d4c desk --json | jq -r 'select(.change == \"removed\") | .path'

A line per path that differs: + is in the second version only, - in the first only, T became another kind of thing, M has
other contents, U differs in metadata alone; what differs follows. Contents are told by length and time of change: the
versions' data are not read. Names of owners count, not their numbers. The last line is a total. With --json each path is one
object on a line of its own, with `before` and `after` as `ls --json` has them, and the last one is `total`.

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
    /// Only these paths, from the root of the file system, and what is below them
    #[arg(value_name = "PATH")]
    pub paths: Vec<OsString>,
    /// Print a JSON object per path
    #[arg(long)]
    pub json: bool,
}
