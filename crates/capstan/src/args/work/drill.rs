//! The options of `drill`.

use std::path::PathBuf;

use capstan_cell::request::VersionName;
use capstan_engine::problem::Problem;
use clap::{Args, ValueHint};

use crate::args::version::parse_version;

const AFTER: &str = "\
Examples:
  capstan drill desk
  capstan drill desk --sample 5% --scratch /srv/scratch
  capstan drill desk@1f2e3d4c --sample 100% --json | jq .drill

A drill restores a sample of the files to a directory of its own in --scratch, by the code of
every restore. It checks the files, and removes them. Each drill of an object continues where the
last one ended, until all files were checked. It takes at least one file. Every file must come
back with the recorded length and metadata. If the live file has the recorded inode and times, the
contents are compared with it byte by byte; otherwise the checksums of all that was read prove
them. The report says how many were checked in which way, and `capstan sessions --kind drill`
lists it.

Exit codes: 0 all files were proved, 3 some were not (the report names them), 1 the drill failed
or was stopped, 2 bad input.";

/// Arguments of `drill`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct DrillArgs {
    /// The object's name, and the session if not the newest complete one
    #[arg(value_name = "NAME[@SESSION]", value_parser = parse_version)]
    pub version: VersionName,
    /// Share of the files to restore
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = parse_share)]
    pub sample: f64,
    /// Directory below which to restore them, and remove them again
    #[arg(long, value_name = "DIR", default_value = "/var/tmp", value_hint = ValueHint::DirPath)]
    pub scratch: PathBuf,
    /// Print the report as one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Reads `1%` or `0.5%` as a share of 1.
fn parse_share(text: &str) -> Result<f64, Problem> {
    let percent = text.strip_suffix('%').and_then(|n| n.trim().parse::<f64>().ok());
    percent.filter(|n| *n > 0.0 && *n <= 100.0).map(|n| n / 100.0).ok_or_else(|| {
        Problem::new(format!("'{text}' is not a share"))
            .hint("use more than 0% and at most 100%, for example 1% or 0.5%")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_percent() {
        assert_eq!((parse_share("1%"), parse_share("100%")), (Ok(0.01), Ok(1.0)));
        for bad in ["", "1", "0%", "-1%", "101%", "NaN%", "inf%", "%"] {
            assert!(parse_share(bad).is_err(), "{bad}");
        }
    }
}
