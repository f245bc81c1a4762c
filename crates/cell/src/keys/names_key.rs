//! The names key of a home: it opens names and metadata of the backups that this home makes, so that incrementals run with
//! nobody at hand who knows a secret. Contents stay closed to it.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use capstan_engine::entropy::Entropy;
use capstan_engine::message::Code;
use capstan_engine::regular;
use capstan_format::keys::{KeyRecord, KeyRing, MAX_NAMES_KEY_JSON, NamesKey, PairId, Purpose};
use zeroize::Zeroizing;

use crate::Cell;
use crate::error::{CellError, KeyRefusal, Result, chain};
use crate::keys::keyring::{self, with_randomness, write_as};
use crate::process::guard::guard;
use crate::session::{SessionLog, now_us};

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
    NamesKey::from_json(&json)
        .map(Some)
        .map_err(|e| CellError::from(KeyRefusal::NamesKeyDamaged { path, why: e.to_string() }))
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

/// The setting that says that a recovery did not bring the names key back; there until one is made, or refused.
const LOST: &str = "names key lost";
/// So many of the last sessions are looked at for one that was encrypted.
const LAST_SESSIONS: usize = 1000;

impl Cell {
    /// The names key, if the home has one. One that cannot be read costs no backup: it is said, and what is written is not opened
    /// by it.
    pub(crate) fn names_key_or_say(&self, log: &SessionLog<'_>) -> Option<NamesKey> {
        match load(&self.home) {
            Ok(names) => {
                // It was made since.
                if names.is_some() && self.idb.setting(LOST).ok().flatten().is_some() {
                    let _ = self.forget_names_key();
                }
                names
            }
            Err(e) => {
                let text =
                    format!("{}; until then backups are full unless a secret is given", chain(&e));
                log.say(
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
            (Ok(None), true) if self.idb.setting(LOST).ok().flatten().is_some() => Some(format!(
                "{FILE_NAME} is not there since the database was recovered, so that backups are full: `capstan key names`, with a secret at \
                 hand, makes it; `capstan key names --remove` says that it is not wanted"
            )),
            (Ok(_), _) => None,
        }
    }

    /// Makes the names key that the home had before its database was recovered, where a secret of the ring is at hand, and lets it open
    /// what was recorded. Else what is to be done is the text, and `status` says so until that is done. A home that did without one
    /// goes on without.
    pub(crate) fn names_key_again(&self) -> Result<Option<String>> {
        let Some(ring) = keyring::load(&self.home)? else { return Ok(None) };
        if load(&self.home)?.is_some() || !self.had_names_key(&ring)? {
            return Ok(None);
        }
        let path = self.home.join(FILE_NAME);
        let unlocked = match self.secrets.are_given() {
            true => keyring::unlock(&ring, &self.secrets).ok(),
            false => None,
        };
        let Some(unlocked) = unlocked else {
            self.idb.put_setting(LOST, &now_us().to_string())?;
            return Ok(Some(format!(
                "{} is not back, as it lies on no medium: backups are full until `capstan key names` makes it, with CAPSTAN_PASSPHRASE or \
                 another secret of the key ring at hand",
                path.display()
            )));
        };
        let _lock = keyring::lock(&self.home)?;
        let names = make(&self.home, now_us() / 1_000_000)?;
        keyring::rewrap(&self.idb, &unlocked, &ring, Some(&names))?;
        Ok(Some(format!(
            "{} is made anew, so that incrementals run unattended; `capstan key names --remove` removes it",
            path.display()
        )))
    }

    /// Whether what was backed up last was opened by a names key: its names are wrapped for a pair that the ring does not have.
    fn had_names_key(&self, ring: &KeyRing) -> Result<bool> {
        let pairs: Vec<PairId> = ring.list().iter().map(|pair| pair.id).collect();
        let is_of_names_key = |record: &KeyRecord| {
            let contents: Vec<PairId> = record.recipients(Purpose::Contents).collect();
            let mut names = record.recipients(Purpose::Names);
            names.any(|to| !contents.contains(&to) && !pairs.contains(&to))
        };
        for session in self.idb.sessions(LAST_SESSIONS)? {
            let Some(version) = session.version else { continue };
            let Some(key) = self.idb.version(version)?.and_then(|v| v.key) else { continue };
            let Some(row) = self.idb.key(key)? else { continue };
            return Ok(
                KeyRecord::from_json(row.record.as_bytes()).is_ok_and(|r| is_of_names_key(&r))
            );
        }
        Ok(false)
    }

    /// A names key that a recovery did not bring back is wanted no longer; `false` where it was not missed.
    pub fn forget_names_key(&self) -> Result<bool> {
        let is_missed = self.idb.setting(LOST)?.is_some();
        if is_missed {
            self.idb.remove_setting(LOST)?;
        }
        Ok(is_missed)
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
