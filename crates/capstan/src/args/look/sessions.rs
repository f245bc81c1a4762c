//! The options of `sessions` and `versions`.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

const AFTER_SESSIONS: &str = "\
Examples:
  capstan sessions
  capstan sessions desk
  capstan sessions desk --kind restore --kind drill
  capstan sessions --kind all --limit 200
  capstan sessions --show 1f2e3d4c
  capstan sessions --json | jq -r '.sessions[] | select(.status != \"completed\") | .id'

Lists backups and consolidations, which both make versions. --kind lists others. Read: what a
session read from its source or its media. Stored: what it wrote. Protection: how long its version
is kept, if not by keep rules, or that it was removed or expired. Of a backup that was killed only
what it had committed is known: the bytes on the medium. `backup --resume` continues from there.";

/// Arguments of `sessions`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_SESSIONS)]
pub struct SessionsArgs {
    /// Only sessions of this object
    #[arg(value_name = "NAME", conflicts_with = "show")]
    pub name: Option<String>,
    /// Sessions of this kind instead of backups; can be given several times
    #[arg(long = "kind", value_enum, value_name = "KIND", conflicts_with = "show")]
    pub kinds: Vec<SessionKind>,
    /// Show the report of one session, by the first digits of its id
    #[arg(long, value_name = "ID")]
    pub show: Option<String>,
    /// List at most this many, newest first
    #[arg(long, value_name = "N", default_value_t = 50, conflicts_with = "show")]
    #[arg(allow_negative_numbers = true)]
    pub limit: u32,
    /// Print one JSON object with the list `sessions`
    #[arg(long)]
    pub json: bool,
}

/// `--kind`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SessionKind {
    /// Backups
    Backup,
    /// Consolidations
    Consolidate,
    /// Restores
    Restore,
    /// Drills
    Drill,
    /// Verifications
    Verify,
    /// Copies
    Copy,
    /// Moves from disk to tape
    Stage,
    /// Repairs of media
    Repair,
    /// Media that were retired
    Retire,
    /// Imports
    Import,
    /// Prunes
    Prune,
    /// All of these
    All,
}

impl SessionsArgs {
    /// The kinds of session that are asked for, by their names on record; none where all are.
    pub fn kinds(&self) -> Option<Vec<&'static str>> {
        match self.kinds.as_slice() {
            [] => Some(vec!["backup", "consolidate"]),
            kinds if kinds.contains(&SessionKind::All) => None,
            kinds => Some(kinds.iter().map(|kind| kind.name()).collect()),
        }
    }
}

impl SessionKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Backup => "backup",
            Self::Consolidate => "consolidate",
            Self::Restore => "restore",
            Self::Drill => "drill",
            Self::Verify => "verify",
            Self::Copy => "copy",
            Self::Stage => "stage",
            Self::Repair => "repair",
            Self::Retire => "retire",
            Self::Import => "import",
            Self::Prune => "prune",
            Self::All => "",
        }
    }
}

const AFTER_VERSIONS: &str = "\
Examples:
  capstan versions desk
  capstan versions desk:/etc/hosts
  capstan versions /etc/hosts
  capstan versions desk --json | jq -r '.versions[] | select(.state == \"completed\") | .session'

For an object, lists the versions that can be restored, newest first, with the state and the media
of each. For a path, lists the versions that have it: of one object with NAME:, else of all
objects. It says of each that is damaged, not whole, not at hand or incomplete. Relative paths start
at the working directory. A word that is the name of an object is not taken for a path. If there is
no version, standard error says so, and the exit code is 0.";

/// Arguments of `versions`.
#[derive(Debug, Args)]
#[command(after_help = AFTER_VERSIONS)]
pub struct VersionsArgs {
    /// The object's name; a path in it; or a path in any object
    #[arg(value_name = "NAME[:PATH]|PATH")]
    pub what: OsString,
    /// Print one JSON object with the list `versions`
    #[arg(long)]
    pub json: bool,
}
