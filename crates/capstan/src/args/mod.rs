//! The command line: what each command and option is, from which parser, help, man pages and completions come.

mod admin;
mod destination;
mod encrypt;
mod look;
mod media;
mod time;
mod version;
mod work;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub use admin::assess::{AssessCommand, CreateDataArgs};
pub use admin::idb::{CatalogCommand, IdbCommand, LoadArgs, RecoverArgs, RecoveryKeyArgs};
pub use admin::key::{KeyArgs, KeyCommand, LockArgs, SecretArgs};
pub use admin::protect::{LockVersionArgs, ProtectArgs, ProtectMediumArgs, PruneArgs};
use capstan_devices::host::LocalDevices;
use capstan_medium::host::DeviceHost;
use clap::{Args, Parser, Subcommand, ValueHint};
use clap_complete::Shell;
pub use destination::Destination;
pub use look::diff::{CompareArgs, DiffArgs};
pub use look::export::ExportArgs;
pub use look::find::FindArgs;
pub use look::sessions::{SessionsArgs, VersionsArgs};
pub use look::status::StatusArgs;
use media::AFTER_MEDIA;
pub use media::library::{LibraryCommand, OfLibrary};
pub use media::pool::{PolicyArgs, PoolCommand};
pub use media::rait::RaitCommand;
pub use media::vtl::{CreateVtlArgs, VtlCommand};
pub use media::{InitArgs, MediaCommand, RetireArgs};
use time::{FOREVER, parse_reconnect, parse_wait};
pub use time::{Wait, When, parse_age, parse_span};
pub use work::backup::{BackupArgs, split_paths};
pub use work::consolidate::ConsolidateArgs;
pub use work::copy::{CopyArgs, CopyTargetArgs};
pub use work::drill::DrillArgs;
pub use work::restore::{ImportArgs, LsArgs, RestoreArgs, VerifyArgs};
pub use work::run::RunArgs;
pub use work::stage::StageArgs;

use crate::exit::Failure;

const AFTER: &str = "\
Examples:
  capstan backup /etc /home --to /mnt/backup
  capstan ls /etc,/home
  capstan restore /etc,/home /etc/hosts --into /tmp/restored

Exit codes:
  0    completed
  1    failed or incomplete: what was committed is kept, `backup --resume` continues it
  2    bad input: nothing was done
  3    completed with errors: the report names them
  4    `compare`: something differs
  5    `status`: a warning
  6    `status`: critical
  130  ended at once by a second SIGINT or SIGTERM (the first, or a SIGHUP, ends the session in order)

Environment:
  CAPSTAN_HOME            where the internal database and the key ring are (as --home)
  CAPSTAN_PASSPHRASE      opens the key ring
  CAPSTAN_KEY_FILE        path of a key file that opens the key ring
  CAPSTAN_RECOVERY_CODE   opens the key ring
  CAPSTAN_CHAP_SECRET     the secret of an iSCSI login whose user the device's name has
  CAPSTAN_IDB_RECOVERY    opens the backup of the internal database (`capstan idb recover`)
  CAPSTAN_TAPE_WAIT       how long to wait for somebody to put in a tape: 8h, or seconds (0)
  CAPSTAN_RECONNECT       how long to retry a lost connection to a tape drive or library (as --reconnect)
  CAPSTAN_WAIT            how long to wait for media and drives that other sessions use (as --wait)
  CAPSTAN_PROGRESS_EVERY  seconds between two lines of progress where there is no terminal (60)

Times: now, yesterday, today, tomorrow, 2026-11-20, '2026-11-20 14:30', 2026-11-20T14:30:00Z,
@SESSION (the start of that session), or a span: 90min, 26h, 2d, 2w, 6mo, 1y. A span counts back
from now; for a time in the future it counts from now on. A day without a time means its start,
00:00 local time, in every option: --as-of 2026-11-20 is what the night before left.

Sizes: K, M, G, T and KiB, MiB are powers of 1024 (as in tar and dd). KB, MB, GB are powers of
1000.";

/// Network backup and restore that keeps the medium streaming and names its bottleneck.
#[derive(Debug, Parser)]
#[command(name = "capstan", version, after_help = AFTER, max_term_width = 100)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub struct Cli {
    /// What holds for all commands.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every command has.
#[derive(Debug, Args)]
pub struct Global {
    /// Where the internal database and the key ring are [default: /var/lib/capstan for root, else
    /// $XDG_DATA_HOME/capstan or ~/.local/share/capstan]
    #[arg(long, value_name = "DIR", env = "CAPSTAN_HOME", hide_env_values = true)]
    #[arg(global = true, value_hint = ValueHint::DirPath)]
    pub home: Option<PathBuf>,
    /// Wait this long for a medium or drive that another session uses: 30min, 2h; 0: not at all; without a value: as long as it
    /// takes [default: 1h]
    #[arg(long, value_name = "FOR", env = "CAPSTAN_WAIT", hide_env_values = true, global = true)]
    #[arg(num_args = 0..=1, default_missing_value = FOREVER, value_parser = parse_wait)]
    pub wait: Option<Wait>,
    /// Retry a lost connection to a tape drive or library for this long: 30s, 10min; 0: not at all [default: 2min]
    #[arg(
        long,
        value_name = "FOR",
        env = "CAPSTAN_RECONNECT",
        hide_env_values = true,
        global = true
    )]
    #[arg(value_parser = parse_reconnect)]
    pub reconnect: Option<Duration>,
    /// Show notes as well as warnings and errors
    #[arg(long, short, global = true)]
    pub verbose: bool,
    /// Print errors only: no progress, no warnings, no report. Output that you ask for (a list, --json) is printed
    #[arg(long, short, global = true, conflicts_with = "verbose")]
    pub quiet: bool,
    /// What was typed, in a few words, for whoever sees that it waits.
    #[arg(skip)]
    pub typed: String,
    /// Who is told of tapes that are wanted, beside whoever reads standard error.
    #[arg(skip)]
    pub told: Option<Told>,
    /// The host at which this process opens media, libraries and drives.
    #[arg(skip)]
    pub devices: LocalDevices,
}

impl Global {
    /// The options, with the home that a specification names where they name none, and who is told of tapes that are wanted.
    pub fn of_home(&self, home: Option<PathBuf>, told: Option<Told>) -> Self {
        Self {
            home: self.home.clone().or(home),
            typed: self.typed.clone(),
            told,
            devices: self.devices.clone(),
            ..*self
        }
    }

    /// The same, for a cell.
    pub fn device_host(&self) -> Arc<dyn DeviceHost> {
        Arc::new(self.devices.clone())
    }

    /// A failure, with the sessions that have what it takes, as far as they are on record.
    pub fn named(&self, failure: Failure) -> Failure {
        failure.named(self.devices.queue())
    }
}

/// Is told, in a sentence, what tapes are wanted.
#[derive(Clone)]
pub struct Told(pub Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Told")
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Back up trees, standard input or a command's output to a device
    Backup(Box<BackupArgs>),
    /// Run an unattended backup by a specification: back up objects, run commands, call a webhook
    Run(RunArgs),
    /// Restore files into a directory, to where they came from, or as a tar archive
    Restore(RestoreArgs),
    /// List the files of a backup
    Ls(LsArgs),
    /// Find files in all backups by name, size, time and kind
    Find(FindArgs),
    /// Show what differs between a backup and the file system now
    Compare(CompareArgs),
    /// Show what differs between two backups
    Diff(DiffArgs),
    /// List backups and other sessions, or show the report of one
    Sessions(SessionsArgs),
    /// Show the backup status of each object, for people and for monitoring
    Status(StatusArgs),
    /// List the versions of an object, or of a file, that can be restored
    Versions(VersionsArgs),
    /// Read and check all that a backup or medium holds
    Verify(VerifyArgs),
    /// Prove that a backup can be restored: restore a sample of its files and check it
    Drill(DrillArgs),
    /// Copy backups to another medium
    Copy(CopyArgs),
    /// Move versions from disk to tape: copy them, verify the copy, free the disk's space
    Stage(StageArgs),
    /// Make a new full version from a full and its incrementals, without reading the source
    Consolidate(ConsolidateArgs),
    /// Record what is on a medium, for example after the loss of the internal database
    Import(ImportArgs),
    /// Manage media: labels, pools, condition, repair, export, erasure
    #[command(subcommand, after_help = AFTER_MEDIA)]
    Media(MediaCommand),
    /// Show tape libraries and move their tapes
    #[command(subcommand)]
    Library(LibraryCommand),
    /// Make virtual tape libraries, and plan faults in them
    #[command(subcommand)]
    Vtl(VtlCommand),
    /// Manage pools of media and their policies
    #[command(subcommand)]
    Pool(PoolCommand),
    /// Show arrays of devices and the state of their members; rebuild a lost member
    #[command(subcommand)]
    Rait(RaitCommand),
    /// Check the internal database, back it up with the data, recover it
    #[command(subcommand)]
    Idb(IdbCommand),
    /// Make catalogs again from the media, or write them as tables
    #[command(subcommand)]
    Catalog(CatalogCommand),
    /// Set how long a version is kept
    Protect(ProtectArgs),
    /// Lock a version until a date: no command removes it before that
    Lock(LockVersionArgs),
    /// Remove versions that no keep rule and no protection keeps, and free their space
    Prune(PruneArgs),
    /// Manage the keys of encrypted backups
    Key(KeyArgs),
    /// Assess performance
    #[command(subcommand)]
    Assess(AssessCommand),
    /// Print a completion script for a shell
    #[command(after_help = "Example:\n  capstan completions bash > /etc/bash_completion.d/capstan")]
    Completions {
        /// The shell
        #[arg(value_name = "SHELL")]
        shell: Shell,
        /// Print one JSON object with the script
        #[arg(long)]
        json: bool,
    },
    /// Print the manual page, or write those of all commands to a directory
    #[command(after_help = "Example:\n  capstan man --dir /usr/local/share/man/man1")]
    Man {
        /// Write capstan.1, capstan-backup.1, … there
        #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
        dir: Option<PathBuf>,
        /// Print one JSON object with the page, or the files that were written
        #[arg(long)]
        json: bool,
    },
}
