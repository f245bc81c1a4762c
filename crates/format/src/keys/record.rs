//! The key record: a session's two keys as they lie on the medium.

use super::prim::{self, Bytes};
use super::wrap::Wrap;
use super::{
    Cipher, Key32, KeyError, KeyRing, MAX_RING_JSON, PairId, Purpose, Recipient, Rng, Scope,
    SessionKeys, Unlocked,
};
use crate::id::KeyId;

/// Longest JSON of a key record in bytes.
pub const MAX_RECORD_JSON: usize = 128 * 1024;
/// Most recipients of a key.
pub const MAX_WRAPS: usize = 64;

const WHAT: &str = "the key record";
const KEY_AD: &[u8] = b"capstan session key v1";
const COMMIT_INFO: &[u8] = b"capstan commit v1";

/// A further party that is given a session's keys.
#[derive(Debug, Clone, Copy)]
pub struct Grant {
    /// Who.
    pub to: Recipient,
    /// How much.
    pub scope: Scope,
}

/// One key, wrapped for each that may have it, with a value that commits to it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct WrappedKey {
    commit: Commit,
    wraps: Vec<Wrap>,
}

#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
struct Commit(Bytes<32>);

impl std::fmt::Debug for Commit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("..")
    }
}

/// The keys of one session as they lie on the medium, with the ring that opens them.
///
/// So the medium alone and a secret (a passphrase) restore.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KeyRecord {
    version: u64,
    id: KeyId,
    cipher: Cipher,
    names: WrappedKey,
    contents: WrappedKey,
    ring: KeyRing,
}

impl KeyRecord {
    /// Wraps a session's keys for the active pair of the ring and for others.
    pub fn wrap(
        keys: &SessionKeys,
        cipher: Cipher,
        ring: &KeyRing,
        others: &[Grant],
        rng: &mut Rng,
    ) -> Result<Self, KeyError> {
        ring.check()?;
        let own = Grant { to: ring.active()?, scope: Scope::All };
        let grants: Vec<Grant> =
            std::iter::once(own).chain(others.iter().copied().filter(|g| g.to != own.to)).collect();
        if grants.len() > MAX_WRAPS {
            let hint = "give the keys to fewer recipients";
            return Err(KeyError::TooMuch { what: "the recipients", limit: MAX_WRAPS, hint });
        }
        let mut wrap = |purpose| {
            let ad = key_context(&keys.id, purpose, cipher);
            let to = grants.iter().filter(|g| purpose == Purpose::Names || g.scope == Scope::All);
            let wraps = to.map(|g| Wrap::seal(keys.key(purpose), &g.to, purpose, &ad, rng));
            let wraps = wraps.collect::<Result<_, _>>()?;
            let commit = commitment(&keys.id, purpose, cipher, keys.key(purpose))?;
            Ok::<_, KeyError>(WrappedKey { commit: Commit(Bytes(*commit)), wraps })
        };
        let (names, contents) = (wrap(Purpose::Names)?, wrap(Purpose::Contents)?);
        let record = Self { version: 1, id: keys.id, cipher, names, contents, ring: ring.clone() };
        ring.to_json()?;
        record.to_json()?;
        Ok(record)
    }

    /// The session key's id.
    pub fn id(&self) -> KeyId {
        self.id
    }

    /// The cipher of the session's frames.
    pub fn cipher(&self) -> Cipher {
        self.cipher
    }

    /// The ring as it was when the record was written: it opens the record, given a secret.
    ///
    /// Before a ring that came from a medium is used for new backups, unlock it and see that its active pair opened:
    /// a stranger could have added a pair of his own.
    pub fn ring(&self) -> &KeyRing {
        &self.ring
    }

    /// The pairs that open the key of that purpose.
    pub fn recipients(&self, purpose: Purpose) -> impl Iterator<Item = PairId> + '_ {
        self.part(purpose).wraps.iter().map(|w| w.to)
    }

    /// The key of names and metadata.
    pub fn unwrap_names(&self, unlocked: &Unlocked) -> Result<Key32, KeyError> {
        self.unwrap(unlocked, Purpose::Names)
    }

    /// The key of contents.
    pub fn unwrap_contents(&self, unlocked: &Unlocked) -> Result<Key32, KeyError> {
        self.unwrap(unlocked, Purpose::Contents)
    }

    /// Both keys.
    pub fn unwrap_all(&self, unlocked: &Unlocked) -> Result<SessionKeys, KeyError> {
        let names = self.unwrap(unlocked, Purpose::Names)?;
        let contents = self.unwrap(unlocked, Purpose::Contents)?;
        Ok(SessionKeys { id: self.id, names, contents })
    }

    /// Whether that key is the one the session was written with.
    pub fn verify(&self, purpose: Purpose, key: &[u8; 32]) -> Result<(), KeyError> {
        let commit = commitment(&self.id, purpose, self.cipher, key)?;
        if prim::same(commit.as_slice(), &self.part(purpose).commit.0.0) {
            Ok(())
        } else {
            Err(KeyError::WrongKey { id: self.id, purpose })
        }
    }

    /// The same keys wrapped for another ring and other recipients; the session's data stay as they are.
    pub fn rewrap(
        &mut self,
        unlocked: &Unlocked,
        ring: &KeyRing,
        others: &[Grant],
        rng: &mut Rng,
    ) -> Result<(), KeyError> {
        let keys = self.unwrap_all(unlocked)?;
        *self = Self::wrap(&keys, self.cipher, ring, others, rng)?;
        Ok(())
    }

    /// The record as JSON, at most [`MAX_RECORD_JSON`] bytes.
    pub fn to_json(&self) -> Result<Vec<u8>, KeyError> {
        prim::to_json(WHAT, MAX_RECORD_JSON, self)
    }

    /// Reads a record that need not be trusted.
    pub fn from_json(json: &[u8]) -> Result<Self, KeyError> {
        let record: Self = prim::from_json(WHAT, MAX_RECORD_JSON, json)?;
        let bad = |reason: &str| Err(KeyError::Malformed { what: WHAT, reason: reason.to_owned() });
        if [&record.names, &record.contents].iter().any(|k| k.wraps.len() > MAX_WRAPS) {
            return bad("a key has more than 64 recipients");
        }
        record.ring.check()?;
        if record.ring.to_json().is_err() {
            return bad(&format!("its key ring is longer than {MAX_RING_JSON} bytes"));
        }
        Ok(record)
    }

    fn part(&self, purpose: Purpose) -> &WrappedKey {
        match purpose {
            Purpose::Names => &self.names,
            Purpose::Contents => &self.contents,
        }
    }

    fn unwrap(&self, unlocked: &Unlocked, purpose: Purpose) -> Result<Key32, KeyError> {
        let id = self.id;
        let ad = key_context(&id, purpose, self.cipher);
        let mut problem = None;
        for wrap in &self.part(purpose).wraps {
            let Some(pair) = unlocked.pair(&wrap.to) else { continue };
            let Some(private) = pair.private(purpose) else { continue };
            match wrap.open(private, pair.public.public(purpose), &ad)? {
                None => problem = Some(KeyError::DamagedRecord { id, purpose }),
                Some(key) => match self.verify(purpose, &key) {
                    Ok(()) => return Ok(key),
                    Err(wrong) => problem = Some(wrong),
                },
            }
        }
        if let Some(problem) = problem {
            return Err(problem);
        }
        // A pair that is open for names may also have been granted names only.
        let partly = self.recipients(Purpose::Names).any(|to| unlocked.pair(&to).is_some());
        if purpose == Purpose::Contents && partly {
            return Err(KeyError::NamesOnly { id });
        }
        let recipients: Vec<_> = self.recipients(purpose).map(|to| to.to_string()).collect();
        Err(KeyError::NotARecipient { id, recipients: recipients.join(", ") })
    }
}

/// What a wrap of a session key authenticates: which key it is.
fn key_context(id: &KeyId, purpose: Purpose, cipher: Cipher) -> Vec<u8> {
    [KEY_AD, id.as_bytes(), &[purpose as u8, cipher as u8]].concat()
}

/// A value that only this key gives, and that does not give the key.
fn commitment(
    id: &KeyId,
    purpose: Purpose,
    cipher: Cipher,
    key: &[u8; 32],
) -> Result<Key32, KeyError> {
    prim::hkdf(&[], key, &[COMMIT_INFO, id.as_bytes(), &[purpose as u8, cipher as u8]])
}
