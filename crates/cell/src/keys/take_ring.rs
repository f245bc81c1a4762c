//! Taking a medium's key ring over for the backups of a home that has none.

use std::cmp::Reverse;

use capstan_address::Address;
use capstan_engine::message::{Code, shell_word};
use capstan_format::keys::{KeyRecord, KeyRing, Scope, Unlocked};
use capstan_port::Agents;

use crate::Cell;
use crate::error::{CellError, KeyRefusal, Result};
use crate::keys::keyring::{self, Secrets};
use crate::keys::names_key;
use crate::keys::records::key_records;
use crate::keys::unlock::more_helpful;
use crate::request::BackupRequest;
use crate::session::SessionLog;

/// A key ring that was taken from a medium.
#[derive(Debug)]
pub struct TakenRing {
    /// The ring.
    pub ring: KeyRing,
    /// What the secret opened of it.
    pub unlocked: Unlocked,
    /// The wrapped keys of the medium's backups.
    pub records: Vec<KeyRecord>,
}

/// The newest key ring of a medium whose active pair a secret opens, with what that opens.
///
/// Whoever can alter a medium can put a ring of his own there, and would read what is written for it. Only who knows
/// the secret can have made a lock of the active pair that it opens; older pairs and recipient locks prove nothing.
pub fn ring_of_medium(agents: &Agents, device: &Address, secrets: &Secrets) -> Result<TakenRing> {
    agents.devices.wait_for(device);
    let medium = agents.devices.medium(device)?;
    let mut rings: Vec<KeyRing> = Vec::new();
    let records = match medium.header().drive_key_record() {
        // What is behind the header does not open yet.
        Some(record) => vec![record?],
        None => key_records(&*agents.media, &medium, &medium.segments()?),
    };
    for record in records.iter().rev() {
        if !rings.contains(record.ring()) {
            rings.push(record.ring().clone());
        }
    }
    if rings.is_empty() {
        return Err(KeyRefusal::NoRingOnMedium { label: medium.header().label.clone() }.into());
    }
    // Of rings with as many pairs the one written last: locks come and go.
    rings.sort_by_key(|ring| Reverse(ring.list().len()));
    let mut failure = None;
    for ring in &rings {
        let active = ring.active()?.id();
        match keyring::unlock(ring, secrets) {
            Ok(open) if open.scope(&active) == Some(Scope::All) => {
                return match rings.iter().find_map(|other| successor(other, ring)) {
                    None => Ok(TakenRing { ring: ring.clone(), unlocked: open, records }),
                    Some(newer) => {
                        Err(KeyRefusal::KeyReplaced { active: active.to_string(), newer }.into())
                    }
                };
            }
            Ok(_) => {
                let e = CellError::from(KeyRefusal::OlderKeysOnly { active: active.to_string() });
                failure = Some(more_helpful(failure, e));
            }
            Err(e) => failure = Some(more_helpful(failure, e)),
        }
    }
    Err(failure.unwrap_or_else(|| CellError::from(KeyRefusal::NoRingOpens)))
}

/// The active pair of a ring in which the active pair of `older` is a former one.
fn successor(ring: &KeyRing, older: &KeyRing) -> Option<String> {
    let former = older.active().ok()?.id();
    let pairs = ring.list();
    let (active, others) = pairs.split_last()?;
    others.iter().any(|p| p.id == former).then(|| active.id.to_string())
}

impl Cell {
    /// Says it where later backups are not encrypted, though those of an imported medium are.
    pub(crate) fn warn_without_ring(
        &self,
        device: &Address,
        label: &str,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        if keyring::load(&self.home)?.is_none() {
            let text = format!(
                "new backups of this home are not encrypted: it has no key ring; `capstan key import {}` takes over \
                 that of the medium",
                shell_word(device)
            );
            log.say(Code::NotEncrypted, "cell", label, text);
        }
        Ok(())
    }

    /// Refuses a backup that would lie in clear though this home's are encrypted: its key ring was lost. Nothing is refused where
    /// that is asked for.
    pub(crate) fn refuse_in_clear(&self, request: &BackupRequest, name: &str) -> Result<()> {
        if request.encrypt.is_some() || keyring::load(&self.home)?.is_some() {
            return Ok(());
        }
        let host = self.host();
        let objects = self.idb.objects_by_name(name)?;
        let last = match objects.into_iter().find(|o| o.host == host) {
            Some(object) => self.idb.versions_of(object.id)?.into_iter().find(|v| !v.null_device),
            None => None,
        };
        let names = self.home.join(names_key::FILE_NAME);
        let why = match last {
            Some(v) if v.key.is_some() => "the last one of this name is encrypted".to_owned(),
            // Nobody is surprised a second time.
            Some(_) => return Ok(()),
            None if names.exists() => format!("{} is of one", names.display()),
            None => return Ok(()),
        };
        Err(KeyRefusal::WouldBeInClear {
            name: name.to_owned(),
            home: self.home.clone(),
            why,
            ring: keyring::FILE_NAME,
        }
        .into())
    }

    /// Says it where a backup is not encrypted, though earlier ones of the same name are.
    pub(crate) fn warn_not_encrypted(&self, name: &str, log: &SessionLog<'_>) -> Result<()> {
        for object in self.idb.objects_by_name(name)? {
            if self.idb.versions_of(object.id)?.iter().any(|v| v.key.is_some()) {
                let text = format!(
                    "this backup is not encrypted, as there is no key ring in {}; earlier ones of this name are",
                    self.home.display()
                );
                log.say(Code::NotEncrypted, "cell", name, text);
                break;
            }
        }
        Ok(())
    }
}
