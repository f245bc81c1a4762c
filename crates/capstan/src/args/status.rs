//! The options of `status`.

use clap::Args;

use super::time::{When, parse_when};

const AFTER: &str = "\
Examples:
  capstan status
  capstan status home mail --max-age 8d
  capstan status --object home
  capstan status --plugin --max-age 26h
  capstan status --json | jq -r '.objects[] | select(.health != \"ok\") | .name'

Critical is an object without a complete version, or whose last one was begun longer than --max-age ago, and one whose last
drill could not prove files. A warning is a last backup or drill that did not complete or had errors, and one that is out of
line with those before. A medium that is not where it was, though nobody is on record as having taken it away, is a warning, and critical
where the last complete version needs it: keep rules stand still until it is mounted, `capstan media export` says that it was
taken away, or `capstan media forget` that it is lost. Objects that were only ever written to null: are left out.

--object shows one object in detail: its versions, where the last one lies, and what that was told to take: paths, patterns and
options. What the next backup is told may differ; where it takes less, it says so.

Behind the objects come sessions that wait for what others have, drives without a robot that wait for a tape, which somebody is to
put in, media in poor condition, and media that are away.

Exit codes: 0 all is well, 5 a warning, 6 critical; 1 and 2 as everywhere. With --plugin they are those of the Monitoring
Plugins (Nagios, Icinga, Checkmk): 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN (whatever else went wrong, but a mistake in the options
themselves), and the first line has performance data.";

/// Arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct StatusArgs {
    /// Only these objects
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Show this object in detail: its versions, and what its last one was told to take
    #[arg(long, value_name = "NAME", conflicts_with_all = ["names", "plugin"])]
    pub object: Option<String>,
    /// How old a last complete version may be: 90min, 26h, 8d, 2w; or not from before yesterday, 2026-11-20
    #[arg(long, value_name = "TIME", default_value = "26h", value_parser = parse_when)]
    pub max_age: When,
    /// Exit codes and first line of a monitoring plugin
    #[arg(long, conflicts_with = "json")]
    pub plugin: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
