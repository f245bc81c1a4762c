//! The options of `capstan key`.

use std::path::PathBuf;

use capstan_devices::address::Address;
use capstan_format::keys::{LockId, Recipient};
use clap::{Args, Subcommand, ValueHint};

const AFTER_INIT: &str = "\
Examples:
  capstan key init                          a passphrase, asked for twice (or CAPSTAN_PASSPHRASE)
  capstan key init --recovery-code > sheet  a passphrase, and a recovery sheet to print
  capstan key init --new-key-file /root/capstan.key
  capstan key init --recipient capstan-pub-…   this machine can write backups and not read them

From then on every backup of this home is encrypted. Every medium carries what the secret opens. A names key is left in the
home (names.key, for its owner alone): it opens names and metadata of this home's backups, so that incrementals run with
nobody at hand who knows the secret. Contents stay closed to it.";
const AFTER_NAMES: &str = "\
Examples:
  capstan key names
  capstan key names --remove

With it incrementals run unattended, and `ls` and `find` need no secret: whoever can read the home can list what its backups
hold, but not read it. What was backed up before opens too where the secret is given; else the next backup is a full one.
Without it each backup is a full one where no secret is at hand, and its report says so.";
const AFTER_ADD: &str = "\
Examples:
  capstan key add --key-file /media/stick/capstan.key --label stick
  capstan key add --passphrase --names-only --label operators
  capstan key add --recipient capstan-pub-…";
const AFTER_REMOVE: &str = "\
Example:
  capstan key remove 1f2e3d4c5b6a7988

Media that are written keep the lock: who has its secret can still read them. `capstan key rotate` as well keeps them
out of later backups.";
const AFTER_ROTATE: &str = "\
Example:
  capstan key rotate

Backups from now on are encrypted for a new key pair, opened by the lock given here (a passphrase by default). The
recorded keys of older backups are wrapped for it too; data are not rewritten. Other locks are not carried over.";
const AFTER_IMPORT: &str = "\
Examples:
  capstan key import /mnt/backup
  CAPSTAN_RECOVERY_CODE=... capstan key import /mnt/backup

After the loss of the home: backups are encrypted from then on as they were on the medium. What you
give has to open its newest key: only who knows it can have made that key's lock. Compare the key's
id with your recovery sheet or with `capstan key list` of another machine.";
const AFTER_RECOVERY: &str = "\
Example:
  capstan key recovery | lpr";

/// What opens the key ring, where the environment does not say.
#[derive(Debug, Args)]
#[command(next_help_heading = "Unlocking")]
pub struct SecretArgs {
    /// Open the key ring with this key file
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub unlock_key_file: Option<PathBuf>,
}

/// A lock to make.
#[derive(Debug, Args)]
#[command(next_help_heading = "Lock")]
pub struct LockArgs {
    /// A passphrase: CAPSTAN_NEW_PASSPHRASE, else asked for twice (the default)
    #[arg(long)]
    pub passphrase: bool,
    /// The content of a file: 32 random bytes or more
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub key_file: Option<PathBuf>,
    /// A key file that is made here
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "key_file")]
    pub new_key_file: Option<PathBuf>,
    /// A new recovery code, whose sheet is printed
    #[arg(long)]
    pub recovery_code: bool,
    /// What people read in lists
    #[arg(long, value_name = "TEXT")]
    pub label: Option<String>,
}

impl LockArgs {
    /// Whether no kind of lock is named.
    pub fn is_empty(&self) -> bool {
        !self.passphrase
            && !self.recovery_code
            && self.key_file.is_none()
            && self.new_key_file.is_none()
    }
}

/// `key`: what is done, and how it is told.
#[derive(Debug, Args)]
pub struct KeyArgs {
    /// What is done.
    #[command(subcommand)]
    pub command: KeyCommand,
    /// Print one JSON object: the ring as it is then, and what else would be printed
    #[arg(long, global = true)]
    pub json: bool,
}

/// The commands of `key`.
#[derive(Debug, Subcommand)]
pub enum KeyCommand {
    /// Make a key ring: backups are encrypted from then on
    #[command(after_help = AFTER_INIT)]
    Init {
        /// By what it opens.
        #[command(flatten)]
        lock: LockArgs,
        /// Encrypt for this public key; this machine cannot read its backups then
        #[arg(long, value_name = "KEY", conflicts_with_all = ["passphrase", "key_file", "new_key_file",
            "recovery_code", "label"])]
        recipient: Option<Recipient>,
        /// Leave no names key in the home: incrementals then need a secret, and are full backups without one
        #[arg(long)]
        no_names_key: bool,
    },
    /// Add a lock: a further way to open the keys
    #[command(after_help = AFTER_ADD)]
    Add {
        /// By what it opens.
        #[command(flatten)]
        lock: LockArgs,
        /// Give access to whoever holds the private half of this public key
        #[arg(long, value_name = "KEY")]
        recipient: Option<Recipient>,
        /// It opens names and metadata only, not contents
        #[arg(long)]
        names_only: bool,
        /// What opens the ring.
        #[command(flatten)]
        secret: SecretArgs,
    },
    /// Take over the key ring that a medium carries: backups are encrypted from then on
    #[command(after_help = AFTER_IMPORT)]
    Import {
        /// Device whose medium has the ring: a directory or file:/path
        #[arg(value_name = "DEVICE", value_hint = ValueHint::DirPath)]
        device: Address,
        /// Leave no names key in the home, as with `key init`
        #[arg(long)]
        no_names_key: bool,
        /// What opens the ring.
        #[command(flatten)]
        secret: SecretArgs,
    },
    /// Remove a lock
    #[command(after_help = AFTER_REMOVE)]
    Remove {
        /// The lock's id, as `capstan key list` shows it
        #[arg(value_name = "LOCK", value_parser = parse_lock)]
        lock: LockId,
    },
    /// List key pairs and their locks
    #[command(after_help = "Examples:\n  capstan key list\n  capstan key list --json")]
    List,
    /// Encrypt later backups for a new key pair
    #[command(after_help = AFTER_ROTATE)]
    Rotate {
        /// By what the new pair opens.
        #[command(flatten)]
        lock: LockArgs,
        /// What opens the ring.
        #[command(flatten)]
        secret: SecretArgs,
    },
    /// Make the names key, with which incrementals run unattended, or remove it
    #[command(after_help = AFTER_NAMES)]
    Names {
        /// Remove it: later backups are not wrapped for it
        #[arg(long)]
        remove: bool,
        /// What opens the ring.
        #[command(flatten)]
        secret: SecretArgs,
    },
    /// Wrap the recorded keys of all backups for the active key pair; data are not rewritten
    #[command(after_help = "Example:\n  capstan key rewrap")]
    Rewrap {
        /// What opens the ring.
        #[command(flatten)]
        secret: SecretArgs,
    },
    /// Print the public key, with which other machines can write backups for this one
    #[command(after_help = "Example:\n  capstan key show")]
    Show,
    /// Make a recovery code, add it as a lock and print its sheet
    #[command(after_help = AFTER_RECOVERY)]
    Recovery {
        /// Of which machine or cell the keys are [default: the host's name]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// What opens the ring.
        #[command(flatten)]
        secret: SecretArgs,
    },
}

fn parse_lock(text: &str) -> Result<LockId, String> {
    text.parse()
        .map_err(|_| "it is not 16 hexadecimal digits; `capstan key list` shows the ids".to_owned())
}
