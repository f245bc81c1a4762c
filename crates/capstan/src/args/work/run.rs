//! The options of `run`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

const AFTER: &str = "\
Examples:
  capstan run --check /etc/capstan/desk.toml
  capstan run /etc/capstan/desk.toml
  systemctl enable --now capstan@desk.timer

A specification:

  device = \"/mnt/backup\"             # where to; an object may have its own: to = \"…\"
  [options]                          # of all objects, as `capstan backup` has them, without --
  compress = \"zstd:9\"
  exclude-caches = true
  [[object]]
  name = \"home\"
  paths = [\"/home\"]
  exclude = [\"*.o\", \"/home/*/.cache\"]
  [[object]]
  name = \"shop\"
  from-command = \"pg_dump shop\"
  stdin-name = \"shop.sql\"
  [commands]
  pre = [\"mount /mnt/backup\"]        # if one fails, nothing is backed up
  post = [\"umount /mnt/backup\"]      # run always, with CAPSTAN_STATUS, CAPSTAN_EXIT_CODE, CAPSTAN_SESSIONS
  [notify]
  mail = \"root@example.org\"        # gets the report if something went wrong; smtp = \"HOST\", else sendmail
  [webhook]
  url = \"https://monitor.example.org/capstan\"   # gets the report as JSON

docs/specifications.md has all keys. --check names all mistakes at once, each with its line.

Exit codes are those of `backup`; the most severe one counts. If a command or the webhook fails
after the backups, a run that otherwise completed ends with errors (3).";

/// Arguments of `run`.
#[derive(Debug, Args)]
#[command(after_help = AFTER)]
pub struct RunArgs {
    /// The specification, a TOML file
    #[arg(value_name = "SPEC.toml", value_hint = ValueHint::FilePath)]
    pub spec: PathBuf,
    /// Only check the specification
    #[arg(long)]
    pub check: bool,
    /// Report by mail, and in `status`, that a run was killed or could not start. The systemd unit capstan-failure@NAME calls
    /// this
    #[arg(long, conflicts_with_all = ["check", "json"])]
    pub failed: bool,
    /// Print the report of the run as one JSON object
    #[arg(long)]
    pub json: bool,
}
