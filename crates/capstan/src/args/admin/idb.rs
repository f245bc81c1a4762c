//! The options of `capstan idb` and `capstan catalog`.

use std::path::PathBuf;

use capstan_address::Address;
use capstan_cell::request::VersionName;
use clap::{ArgGroup, Args, Subcommand, ValueHint};

use crate::args::look::export::ExportArgs;
use crate::args::version::parse_version;

const AFTER_CHECK: &str = "\
Examples:
  capstan idb check
  capstan idb check --json | jq -r '.findings[].advice'

Checks rows and what they refer to, the catalog file of each segment, and the media that are at
hand. It does not read data: `capstan verify` does that. The exit code is 3 if something was
found.";
const AFTER_KEY: &str = "\
Example:
  capstan idb recovery-key > sheet

From then on each session writes a backup of the database beside its data: pools, protection,
names, wrapped keys, reports of sessions. It is sealed for this key. The key's code is shown once
and stored nowhere. A directory keeps the last three backups, a tape keeps all.";
const AFTER_RECOVER: &str = "\
Examples:
  capstan idb recover /mnt/backup
  capstan idb recover /mnt/backup --code-file sheet
  capstan idb recover 'vtape:/srv/vtl?tape=V00007L9'
  capstan idb recover scsi:/dev/sg3
  CAPSTAN_IDB_RECOVERY=\"$(cat code)\" capstan idb recover /mnt/backup --json

The home must be empty. The newest backup of the database on that medium, or on any tape of that
library, is opened with the code of `capstan idb recovery-key`: from CAPSTAN_IDB_RECOVERY, a file,
or typed. Then the catalogs are read from the media that it names. It says which of these are not
at hand, and which tapes of the library could not be looked at. Then the exit code is 3, as the
newest backup may be on such a tape. If the newest backup is damaged, the one before it is taken. A
warning says so, and what is missing, and the exit code is 3.";
const AFTER_MOVE: &str = "\
Examples:
  echo 'database = \"postgres://capstan@db.example/capstan\"' >> /var/lib/capstan/capstan.toml
  capstan idb move

Moves the tables of the home to the PostgreSQL database that capstan.toml in the home names. That
database must be empty. The old file stays as capstan.db.moved. Catalogs stay in the home. Keep
the password in ~/.pgpass.";
const AFTER_LOAD: &str = "\
Examples:
  capstan catalog load desk
  capstan catalog load desk@1f2e3d4c
  capstan catalog load --medium monday";

/// The commands of `idb`.
#[derive(Debug, Subcommand)]
pub enum IdbCommand {
    /// Check whether rows, catalogs and media agree
    #[command(after_help = AFTER_CHECK)]
    Check {
        /// Print one JSON object with the list `findings`
        #[arg(long)]
        json: bool,
    },
    /// Show how much is recorded
    #[command(after_help = "Examples:\n  capstan idb stats\n  capstan idb stats --json")]
    Stats {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Make the key for backups of the database, and print its recovery sheet
    #[command(after_help = AFTER_KEY)]
    RecoveryKey(RecoveryKeyArgs),
    /// Move the tables of the home to the PostgreSQL server that its capstan.toml names
    #[command(after_help = AFTER_MOVE)]
    Move {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Recover the database of a lost home from a medium
    #[command(after_help = AFTER_RECOVER)]
    Recover(RecoverArgs),
}

/// Arguments of `idb recovery-key`.
#[derive(Debug, Args)]
pub struct RecoveryKeyArgs {
    /// Name of the machine or cell on the sheet [default: the host's name]
    #[arg(long, value_name = "NAME")]
    pub name: Option<String>,
    /// Make another key for later backups. Backups already written still need the first key
    #[arg(long)]
    pub replace: bool,
    /// Print one JSON object: the code, and what it opens
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `idb recover`.
#[derive(Debug, Args)]
pub struct RecoverArgs {
    /// Device of a session: a directory, a tape, a drive, or a tape library
    #[arg(value_name = "DEVICE", value_hint = ValueHint::DirPath)]
    pub device: Address,
    /// Read the recovery code from a file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub code_file: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// The commands of `catalog`.
#[derive(Debug, Subcommand)]
pub enum CatalogCommand {
    /// Read catalogs from the media again: missing and damaged ones, and those that were not kept
    #[command(after_help = AFTER_LOAD)]
    Load(LoadArgs),
    /// Write the files of a version as a table that DuckDB and others read
    Export(ExportArgs),
}

/// Arguments of `catalog load`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("what").required(true).args(["version", "medium"]))]
pub struct LoadArgs {
    /// The object's name, and the session if not the newest complete one
    #[arg(value_name = "NAME[@SESSION]", value_parser = parse_version)]
    pub version: Option<VersionName>,
    /// Those of all that is recorded for a medium: its label, the begin of its id, or its device
    #[arg(long, value_name = "MEDIUM")]
    pub medium: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
