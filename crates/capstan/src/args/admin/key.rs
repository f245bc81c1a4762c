//! The options of `capstan key`.

use std::path::PathBuf;

use capstan_address::Address;
use capstan_engine::problem::Problem;
use capstan_format::keys::{LockId, Recipient};
use clap::{Args, Subcommand, ValueHint};

const AFTER_INIT: &str = "\
Examples:
  capstan key init                          a passphrase, asked for twice (or CAPSTAN_PASSPHRASE)
  capstan key init --recovery-code > sheet  a passphrase, and a recovery sheet to print
  capstan key init --new-key-file /root/capstan.key
  capstan key init --recipient capstan-pub-…   this machine can write backups and not read them

From then on every backup of this home is encrypted. Every medium carries the key, which the
secret opens. A names key stays in the home (names.key, readable by its owner only). It opens
names and metadata of this home's backups, so that incrementals run unattended. It does not open
contents.";
const AFTER_NAMES: &str = "\
Examples:
  capstan key names
  capstan key names --remove

With a names key incrementals run unattended, and `ls` and `find` need no secret. Whoever can read
the home can list what its backups hold, but cannot read contents. Give the secret, so that the
names key also opens earlier backups; otherwise the next backup is a full one. Without a names
key, each backup without a secret is a full one, and its report says so.";
const AFTER_ADD: &str = "\
Examples:
  capstan key add --key-file /media/stick/capstan.key --label stick
  capstan key add --passphrase --names-only --label operators
  capstan key add --recipient capstan-pub-…";
const AFTER_REMOVE: &str = "\
Example:
  capstan key remove 1f2e3d4c5b6a7988

Media that are already written keep the lock: whoever has its secret can still read them. To lock
that person out of later backups, also run `capstan key rotate`.";
const AFTER_ROTATE: &str = "\
Example:
  capstan key rotate

Later backups are encrypted for a new key pair. The lock that you give here opens it (a passphrase
by default). The recorded keys of older backups are wrapped for it, too; data are not rewritten.
Other locks are not carried over.";
const AFTER_IMPORT: &str = "\
Examples:
  capstan key import /mnt/backup
  CAPSTAN_RECOVERY_CODE=... capstan key import /mnt/backup

Use this after the loss of the home: later backups are encrypted as those on the medium. The
secret that you give must open the newest key of the medium: this proves that the key is yours.
Compare the key's id with your recovery sheet, or with `capstan key list` of another machine.";
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
    /// A passphrase, from CAPSTAN_NEW_PASSPHRASE or asked for twice (the default)
    #[arg(long)]
    pub passphrase: bool,
    /// The content of a file: 32 random bytes or more
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub key_file: Option<PathBuf>,
    /// A key file that is created now
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, conflicts_with = "key_file")]
    pub new_key_file: Option<PathBuf>,
    /// A new recovery code, whose sheet is printed
    #[arg(long)]
    pub recovery_code: bool,
    /// A label for lists
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
    /// Print one JSON object: the resulting key ring, and all other output
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
        /// Encrypt for this public key. This machine then cannot read its own backups
        #[arg(long, value_name = "KEY", conflicts_with_all = ["passphrase", "key_file", "new_key_file",
            "recovery_code", "label"])]
        recipient: Option<Recipient>,
        /// Leave no names key in the home. Backups without a secret are then full ones
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
        /// The lock opens names and metadata only, not contents
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
    /// Make or remove the names key, with which incrementals run unattended
    #[command(after_help = AFTER_NAMES)]
    Names {
        /// Remove it. Later backups are not wrapped for it
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
        /// Name of the machine or cell on the sheet [default: the host's name]
        #[arg(long, value_name = "NAME")]
        name: Option<String>,
        /// What opens the ring.
        #[command(flatten)]
        secret: SecretArgs,
    },
}

fn parse_lock(text: &str) -> Result<LockId, Problem> {
    text.parse().map_err(|_| {
        Problem::new("it is not 16 hexadecimal digits").hint("`capstan key list` shows the ids")
    })
}
