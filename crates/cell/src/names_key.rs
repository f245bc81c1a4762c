//! The names key of a home: it opens names and metadata of the backups that this home makes, so that incrementals run with
//! nobody at hand who knows a secret. Contents stay closed to it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use capstan_engine::entropy::Entropy;
use capstan_engine::message::Code;
use capstan_engine::regular;
use capstan_format::keys::{MAX_NAMES_KEY_JSON, NamesKey};
use zeroize::Zeroizing;

use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::guard::guard;
use crate::keyring::{self, with_randomness, write_as};
use crate::session::Ears;

/// Its file below the home, readable for the home's owner alone.
pub const FILE_NAME: &str = "names.key";

/// The names key of that home, if it has one.
pub fn load(home: &Path) -> Result<Option<NamesKey>> {
    let path = home.join(FILE_NAME);
    let io = |action| CellError::io(action, path.display());
    let file = match regular::open(&path) {
        Ok(file) => file,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(io("open the names key")(e)),
    };
    guard();
    let mut json = Zeroizing::new(Vec::with_capacity(MAX_NAMES_KEY_JSON + 1));
    file.take(MAX_NAMES_KEY_JSON as u64 + 1)
        .read_to_end(&mut json)
        .map_err(io("read the names key"))?;
    NamesKey::from_json(&json).map(Some).map_err(|e| {
        CellError::BadInput(format!(
            "the names key {} is damaged: {e}; `capstan key names` makes a new one",
            path.display()
        ))
    })
}

/// Makes the names key of that home; one that was there is replaced. Whoever calls holds the lock of the ring.
pub fn make(home: &Path, created: i64) -> Result<NamesKey> {
    guard();
    let entropy = Entropy::system().map_err(CellError::io("open", "/dev/urandom"))?;
    let key = with_randomness(&entropy, |rng| NamesKey::draw(created, rng))?;
    write_as(home, FILE_NAME, &key.to_json()?)?;
    Ok(key)
}

/// Removes the names key of that home; `false` where there is none.
pub fn remove(home: &Path) -> Result<bool> {
    let path = home.join(FILE_NAME);
    match std::fs::remove_file(&path) {
        Ok(()) => {
            let synced = File::open(home).and_then(|dir| dir.sync_all());
            synced.map_err(CellError::io("remove the names key", path.display()))?;
            Ok(true)
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(false),
        Err(e) => Err(CellError::io("remove the names key", path.display())(e)),
    }
}

impl Cell {
    /// The names key, if the home has one. One that cannot be read costs no backup: it is said, and what is written is not opened
    /// by it.
    pub(crate) fn names_key_or_say(&self, ears: &Ears<'_>) -> Option<NamesKey> {
        match load(&self.home) {
            Ok(names) => names,
            Err(e) => {
                let text =
                    format!("{}; until then backups are full unless a secret is given", chain(&e));
                ears.say(
                    Code::NoBase,
                    "cell",
                    &self.home.join(FILE_NAME).display().to_string(),
                    text,
                );
                None
            }
        }
    }

    /// What is wrong with the keys of the home, which lets unattended backups fail or be full.
    pub(crate) fn fault_of_keys(&self) -> Option<String> {
        match (load(&self.home), self.home.join(keyring::FILE_NAME).exists()) {
            (Err(e), _) => Some(chain(&e)),
            (Ok(Some(_)), false) => Some(format!(
                "{} is not there, though {FILE_NAME} is: bring it back, or take it over from a medium with `capstan key import`",
                self.home.join(keyring::FILE_NAME).display()
            )),
            (Ok(_), _) => None,
        }
    }

    /// Lets the names key of the home open what the secrets at hand do, so that the next backup builds on what was imported though
    /// nobody is there who knows them. Without a names key, a ring or a secret of it nothing is done.
    pub(crate) fn grant_to_names_key(&self) -> Result<()> {
        if !self.secrets.are_given() {
            return Ok(());
        }
        let (Some(ring), Some(names)) = (keyring::load(&self.home)?, load(&self.home)?) else {
            return Ok(());
        };
        // What opened the medium may be of another ring.
        if let Ok(unlocked) = keyring::unlock(&ring, &self.secrets) {
            let _lock = keyring::lock(&self.home)?;
            keyring::rewrap(&self.idb, &unlocked, &ring, Some(&names))?;
        }
        Ok(())
    }
}
