//! What opens a lock that is being made: passphrases, key files, recovery codes and the public keys of others.

use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use capstan_cell::CellError;
use capstan_cell::keyring::{self, ENV_PASSPHRASE};
use capstan_engine::durable;
use capstan_format::keys::{ArgonParams, LockBy, NewLock, Recipient, RecoveryCode, Scope};
use zeroize::Zeroizing;

use crate::admin::key::{Notes, draw};
use crate::args::LockArgs;
use crate::exit::{FAILED, Failure};
use crate::output::ask_secret;
use crate::process::environment::{self, ENV_NEW_PASSPHRASE};

/// Bytes of a key file that is made here.
const KEY_FILE_LEN: usize = 32;
/// Passphrases shorter than this, in characters, get a warning: who has a medium can try them at leisure.
const SHORT_PASSPHRASE: usize = 12;

/// What opens a lock that is being made.
pub(super) enum Opener {
    Passphrase(Zeroizing<String>),
    KeyFile(Zeroizing<Vec<u8>>),
    Code(RecoveryCode),
    Recipient(Recipient),
}

impl Opener {
    pub(super) fn lock<'a>(&'a self, scope: Scope, label: &'a str) -> NewLock<'a> {
        let by = match self {
            Self::Passphrase(text) => LockBy::Passphrase(text, ArgonParams::DEFAULT),
            Self::KeyFile(content) => LockBy::KeyFile(content),
            Self::Code(code) => LockBy::RecoveryCode(code),
            Self::Recipient(to) => LockBy::Recipient(to),
        };
        NewLock { by, scope, label }
    }
}

/// What is to open the new locks, in the order in which they are named.
pub(super) fn openers(
    args: &LockArgs,
    is_first: bool,
    notes: Notes,
) -> Result<Vec<Opener>, Failure> {
    let mut openers = Vec::new();
    if args.passphrase || args.is_empty() {
        openers.push(Opener::Passphrase(new_passphrase(is_first, notes)?));
    } else if args.recovery_code
        && args.key_file.is_none()
        && args.new_key_file.is_none()
        && is_first
    {
        // A ring that only a sheet of paper opens is of no use for daily work.
        openers.push(Opener::Passphrase(new_passphrase(is_first, notes)?));
    }
    if let Some(file) = &args.key_file {
        openers.push(Opener::KeyFile(keyring::read_key_file(file)?));
    }
    if let Some(file) = &args.new_key_file {
        openers.push(Opener::KeyFile(make_key_file(file, notes)?));
    }
    if args.recovery_code {
        openers.push(Opener::Code(draw(|rng| Ok(RecoveryCode::draw(rng)))?));
    }
    Ok(openers)
}

/// A new passphrase, from the environment or asked for twice.
fn new_passphrase(is_first: bool, notes: Notes) -> Result<Zeroizing<String>, Failure> {
    let names: &[&str] =
        if is_first { &[ENV_NEW_PASSPHRASE, ENV_PASSPHRASE] } else { &[ENV_NEW_PASSPHRASE] };
    for name in names {
        if let Some(text) = environment::secret_text(name)? {
            return Ok(checked(text, notes));
        }
    }
    let ask = |question: &str| -> Result<Zeroizing<String>, Failure> {
        let answer = ask_secret(question).map_err(CellError::io("read", "the passphrase"))?;
        answer.ok_or_else(|| {
            let names = names.join(" or ");
            Failure::bad_input(
                "there is no terminal to ask for a passphrase",
                &format!("set {names}, or use --key-file"),
            )
        })
    };
    let first = ask("New passphrase: ")?;
    if first != ask("Once more: ")? {
        return Err(Failure::bad_input(
            "the two passphrases differ",
            "type the same twice; nothing was changed",
        ));
    }
    Ok(checked(first, notes))
}

fn checked(passphrase: Zeroizing<String>, notes: Notes) -> Zeroizing<String> {
    if passphrase.chars().count() < SHORT_PASSPHRASE {
        notes.say(
            "warning: the passphrase is short; who has a medium can try many, so use several words",
        );
    }
    passphrase
}

/// Makes a key file that only its owner can read.
fn make_key_file(path: &Path, notes: Notes) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let content = draw(|rng| {
        let mut content = Zeroizing::new(vec![0; KEY_FILE_LEN]);
        rng(&mut content);
        Ok(content)
    })?;
    let write = || {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(&content)?;
        file.sync_all()?;
        durable::synchronise_name(path)
    };
    write().map_err(|e| {
        Failure::bad_input(
            format!("cannot make the key file {}: {e}", path.display()),
            "name a file that does not exist, in a directory that does",
        )
    })?;
    notes.say(&format!("{} is made; keep a copy where the media are not", path.display()));
    Ok(content)
}

pub(super) fn label(args: &LockArgs) -> &str {
    args.label.as_deref().unwrap_or_default()
}

pub(super) fn no_lock() -> Failure {
    let error = "no lock is named".to_owned();
    Failure::of(FAILED, error, Some("give --passphrase or --key-file"))
}
