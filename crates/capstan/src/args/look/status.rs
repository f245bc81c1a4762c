//! The options of `status`.

use clap::Args;

use crate::args::time::{When, parse_when};

const AFTER: &str = "\
Examples:
  capstan status
  capstan status home mail --max-age 8d
  capstan status --object home
  capstan status --plugin --max-age 26h
  capstan status --json | jq -r '.objects[] | select(.health != \"ok\") | .name'

Critical: an object without a complete version; one whose last complete version was begun longer
than --max-age ago; one whose last drill could not prove files. Warning: the last backup or drill
did not complete, had errors, or looks unusual compared with earlier ones.

A medium that is missing although it was not exported is a warning, and critical if the last
complete version needs it. Keep rules are suspended until it is mounted, `capstan media export`
says that it was taken away, or `capstan media forget` says that it is lost. Objects that were
only ever written to null: are left out.

--object shows one object in detail: its versions, where the last one lies, and which paths,
patterns and options it was made with. If the next backup takes less, it says so.

After the objects come sessions that wait for something that others use, drives without a robot
that wait for a tape, media in poor condition, and media that are away.

Exit codes: 0 all is well, 5 a warning, 6 critical; 1 and 2 as everywhere. With --plugin they are
those of the Monitoring Plugins (Nagios, Icinga, Checkmk): 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN
(any other failure, except a mistake in the options), and the first line has performance data.";

/// Arguments of `status`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct StatusArgs {
    /// Only these objects
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,
    /// Show this object in detail: its versions, and what the last one was made with
    #[arg(long, value_name = "NAME", conflicts_with_all = ["names", "plugin"])]
    pub object: Option<String>,
    /// How old a last complete version may be: 90min, 26h, 8d, 2w; or a time before which it must not lie: yesterday, 2026-11-20
    #[arg(long, value_name = "TIME", default_value = "26h", value_parser = parse_when)]
    pub max_age: When,
    /// Use the exit codes and first line of a monitoring plugin
    #[arg(long, conflicts_with = "json")]
    pub plugin: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
