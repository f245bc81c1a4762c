//! The options of `catalog export`.

use std::path::PathBuf;

use capstan_cell::request::VersionName;
use clap::{Args, ValueHint};

use crate::args::time::{When, parse_when};
use crate::args::version::parse_version;

const AFTER: &str = "\
Examples:
  capstan catalog export desk --parquet desk.parquet
  capstan catalog export desk@1f2e3d4c --parquet /srv/tables/desk-1f2e3d4c.parquet
  capstan catalog export desk --all-versions --parquet desk.parquet
  capstan catalog export desk --parquet - | ssh host 'cat >desk.parquet'
  duckdb -c \"SELECT user_name, sum(size) FROM 'desk.parquet' GROUP BY 1\"

Writes a row for each file of the version. docs/guide/duckdb.md describes the columns and has
queries. The file appears when it is complete, and replaces an existing one. Only its owner can
read it, since it has the names of encrypted backups in the clear (their key is needed here, too).
With --all-versions, versions that cannot be read are left out and named, and the exit code is 3.";

/// Arguments of `catalog export`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct ExportArgs {
    /// The object's name, and the session if not the newest complete one
    #[arg(value_name = "NAME[@SESSION]", value_parser = parse_version)]
    pub version: VersionName,
    /// Write a Parquet file (- is standard output)
    #[arg(long, value_name = "FILE", required = true, value_hint = ValueHint::FilePath)]
    pub parquet: PathBuf,
    /// All versions of the object, one after the other
    #[arg(long, conflicts_with = "as_of")]
    pub all_versions: bool,
    /// The newest complete version begun by this time: 2d, yesterday, 2026-11-20, '2026-11-20 14:30', @SESSION
    #[arg(long, value_name = "TIME", value_parser = parse_when)]
    pub as_of: Option<When>,
    /// Print one JSON object (on standard error with --parquet -)
    #[arg(long)]
    pub json: bool,
}
