//! `capstan key`: the key ring of the home. Here is what all its commands share.

mod list;
mod locks;
mod names_key;
mod openers;
mod recovery;
mod ring;

use std::cell::RefCell;
use std::io::Write as _;
use std::path::PathBuf;

use capstan_cell::guard::guard;
use capstan_cell::keyring::{self, Secrets, with_randomness};
use capstan_cell::{Cell, CellError};
use capstan_devices::host::LocalDevices;
use capstan_engine::entropy::Entropy;
use capstan_format::keys::{KeyError, KeyRing, Rng, Scope, Unlocked};
use capstan_port::Agents;
use zeroize::Zeroizing;

use crate::args::{Global, KeyArgs, KeyCommand, SecretArgs};
use crate::exit::{COMPLETED, Failure};
use crate::output::Output;
use crate::process::home;

/// Runs `key`.
pub fn run(global: &Global, args: &KeyArgs) -> Result<u8, Failure> {
    guard();
    let keys = Keys {
        home: home::home(global)?,
        json: args.json,
        notes: Notes { quiet: global.quiet },
        documents: RefCell::default(),
        public: RefCell::default(),
    };
    match &args.command {
        KeyCommand::Init { lock, recipient, no_names_key } => {
            keys.init(lock, recipient.as_ref(), !*no_names_key)
        }
        KeyCommand::Add { lock, recipient, names_only, secret } => {
            let scope = if *names_only { Scope::Names } else { Scope::All };
            keys.add(lock, recipient.as_ref(), scope, secret)
        }
        KeyCommand::Import { device, no_names_key, secret } => {
            keys.import(global, device, !*no_names_key, secret)
        }
        KeyCommand::Names { remove: true, .. } => keys.remove_names_key(),
        KeyCommand::Names { remove: false, secret } => keys.names(secret),
        KeyCommand::Remove { lock } => keys.remove(lock),
        KeyCommand::List => keys.list(),
        KeyCommand::Rotate { lock, secret } => keys.rotate(lock, secret),
        KeyCommand::Rewrap { secret } => keys.rewrap(secret),
        KeyCommand::Show => keys.show(),
        KeyCommand::Recovery { name, secret } => keys.recovery(name.as_deref(), secret),
    }?;
    keys.print_json()?;
    Ok(COMPLETED)
}

struct Keys {
    home: PathBuf,
    /// One JSON object is asked for: what would be printed goes into it.
    json: bool,
    notes: Notes,
    documents: RefCell<Vec<Zeroizing<String>>>,
    public: RefCell<Option<String>>,
}

impl Keys {
    /// Prints what somebody keeps, or puts it into the JSON.
    fn print(&self, text: &str) -> Result<(), Failure> {
        match self.json {
            true => self.documents.borrow_mut().push(Zeroizing::new(text.to_owned())),
            false => print(text)?,
        }
        Ok(())
    }

    fn ring(&self) -> Result<KeyRing, Failure> {
        keyring::load(&self.home)?.ok_or_else(|| {
            Failure::bad_input(
                format!("there is no key ring in {}", self.home.display()),
                "make one with `capstan key init`; backups are not encrypted until then",
            )
        })
    }

    fn unlock(&self, ring: &KeyRing, secret: &SecretArgs) -> Result<Unlocked, Failure> {
        Ok(keyring::unlock(ring, &self.secrets(secret)?)?)
    }

    fn secrets(&self, args: &SecretArgs) -> Result<Secrets, Failure> {
        let secrets = home::secrets()?;
        Ok(match &args.unlock_key_file {
            Some(file) => secrets.with_key_file(file),
            None => secrets,
        })
    }

    fn cell(&self) -> Result<Cell, Failure> {
        Ok(Cell::open(&self.home, Secrets::none(), Self::agents()?)?)
    }

    /// Keys are made and removed without a medium.
    fn agents() -> Result<Agents, CellError> {
        home::agents(LocalDevices::default())
    }
}

/// Runs what draws keys.
fn draw<T>(run: impl FnOnce(&mut Rng) -> Result<T, KeyError>) -> Result<T, Failure> {
    let entropy = Entropy::system().map_err(CellError::io("open", "/dev/urandom"))?;
    Ok(with_randomness(&entropy, run)?)
}

fn print(text: &str) -> Result<(), Failure> {
    let mut out = Output::new();
    out.text(text)?;
    out.finish()
}

/// What is said beside the output: with `--quiet` nothing.
#[derive(Clone, Copy)]
struct Notes {
    quiet: bool,
}

impl Notes {
    fn say(self, text: &str) {
        if !self.quiet {
            // Where nobody reads it, what was done remains.
            let _ = writeln!(std::io::stderr().lock(), "capstan: {text}");
        }
    }
}
