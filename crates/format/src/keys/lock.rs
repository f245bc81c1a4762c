//! Locks: a key pair's private halves, wrapped so that one secret opens them.

use super::ids::{LockKind, short_id};
use super::prim::{self, Bytes};
use super::secret::OpenPair;
use super::wrap::Wrap;
use super::{Key32, KeyError, PairId, Purpose, Recipient, RecoveryCode, Rng, Scope, Secret};

const LOCK_AD: &[u8] = b"capstan lock v1";
const KEY_FILE_INFO: &[u8] = b"capstan lock key file v1";
const RECOVERY_INFO: &[u8] = b"capstan lock recovery v1";
const SEAL_INFO: &[u8] = b"capstan lock seal v1";
const CHECK_INFO: &[u8] = b"capstan lock check v1";

/// Longest label in bytes.
const MAX_LABEL: usize = 128;
/// Longest passphrase that is accepted for a new lock, in bytes.
const MAX_PASSPHRASE: usize = 4096;
/// A key file's shortest and longest content in bytes.
const KEY_FILE: std::ops::RangeInclusive<usize> = 32..=1 << 20;

short_id! {
    /// One lock of a key ring.
    LockId
}

/// What a passphrase's derivation (Argon2id) costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct ArgonParams {
    /// Memory in KiB: at most 256 MiB.
    pub m_kib: u32,
    /// Passes: at most 16.
    pub t: u32,
    /// Lanes: at most 8.
    pub p: u32,
}

impl ArgonParams {
    /// 19 MiB, two passes, one lane: what OWASP recommends at least; 24 ms measured.
    pub const DEFAULT: Self = Self { m_kib: 19 * 1024, t: 2, p: 1 };

    /// Whether they are within the bounds of the format.
    fn check(self) -> Result<Self, KeyError> {
        let Self { m_kib, t, p } = self;
        let ok = (1..=8).contains(&p) && (1..=16).contains(&t);
        if ok && (8 * p..=256 * 1024).contains(&m_kib) {
            Ok(self)
        } else {
            Err(KeyError::Argon { m_kib, t, p })
        }
    }

    fn derive(self, passphrase: &str, salt: &[u8; 16]) -> Result<Key32, KeyError> {
        let Self { m_kib, t, p } = self.check()?;
        let params = argon2::Params::new(m_kib, t, p, Some(32)).map_err(|_| KeyError::Argon {
            m_kib,
            t,
            p,
        })?;
        let argon =
            argon2::Argon2::new(argon2::Algorithm::Argon2id, argon2::Version::V0x13, params);
        let mut out = Key32::default();
        argon.hash_password_into(passphrase.as_bytes(), salt, out.as_mut_slice()).map_err(|e| {
            match e {
                argon2::Error::OutOfMemory => KeyError::NoMemory { m_kib },
                _ => KeyError::Crypto("derive a key from the passphrase"),
            }
        })?;
        Ok(out)
    }
}

/// How much passphrase derivation one unlocking may cost, so that a forged ring cannot stall it.
pub(super) struct Work {
    left: u64,
}

impl Work {
    /// KiB times passes: 16 GiB·passes: 431 locks at defaults, and some 13 s at worst (4 times 3.25 s, measured).
    const BUDGET: u64 = 16 << 20;

    pub fn new() -> Self {
        Self { left: Self::BUDGET }
    }

    pub fn spend(&mut self, argon: ArgonParams) -> Result<(), KeyError> {
        argon.check()?;
        let cost = u64::from(argon.m_kib) * u64::from(argon.t);
        self.left = self.left.checked_sub(cost).ok_or(KeyError::TooMuch {
            what: "the work to try all passphrase locks of the key ring (KiB times passes)",
            limit: Self::BUDGET as usize,
            hint: "the ring may be forged; use the recovery code, a key file or another copy",
        })?;
        Ok(())
    }
}

/// By what a new lock is to be opened.
#[derive(Clone, Copy)]
pub enum LockBy<'a> {
    /// A passphrase (its UTF-8 bytes, as they are).
    Passphrase(&'a str, ArgonParams),
    /// The content of a key file: 32 random bytes or more.
    KeyFile(&'a [u8]),
    /// A recovery code.
    RecoveryCode(&'a RecoveryCode),
    /// Whoever holds the private half of that pair.
    Recipient(&'a Recipient),
}

/// A lock to be made.
#[derive(Clone, Copy)]
pub struct NewLock<'a> {
    /// By what it is opened.
    pub by: LockBy<'a>,
    /// How much it opens.
    pub scope: Scope,
    /// What people read in lists: at most 128 bytes, no control characters.
    pub label: &'a str,
}

/// What a list of locks shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockInfo {
    /// Its id, where it has one that this version understands.
    pub id: Option<LockId>,
    /// What opens it.
    pub kind: LockKind,
    /// How much it opens; `None` where the kind is unknown.
    pub scope: Option<Scope>,
    /// What people call it.
    pub label: String,
    /// Of a recipient's lock: whose.
    pub recipient: Option<PairId>,
}

/// Both private halves, sealed under keys from one secret.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
struct Sealed {
    salt: Bytes<16>,
    /// Derived from the secret: tells a wrong secret from damage, and binds the lock to one secret.
    check: Bytes<32>,
    names: Bytes<48>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    contents: Option<Bytes<48>>,
}

#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum Body {
    Passphrase {
        argon: ArgonParams,
        sealed: Sealed,
    },
    KeyFile {
        sealed: Sealed,
    },
    RecoveryCode {
        sealed: Sealed,
    },
    Recipient {
        names: Wrap,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        contents: Option<Wrap>,
    },
}

/// The kinds of [`Body`] as they are in JSON.
const KINDS: [&str; 4] = ["passphrase", "key_file", "recovery_code", "recipient"];

/// A lock of a kind that this version knows.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Known {
    id: LockId,
    scope: Scope,
    #[serde(default)]
    label: String,
    #[serde(flatten)]
    body: Body,
}

/// A lock as it is in the ring.
#[derive(Clone, PartialEq, Eq, serde::Serialize)]
#[serde(untagged)]
pub(super) enum Lock {
    Known(Box<Known>),
    /// Kept as it is, so that an older Capstan does not lose what a newer one wrote.
    Unknown(serde_json::Value),
}

impl<'de> serde::Deserialize<'de> for Lock {
    fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let value = serde_json::Value::deserialize(d)?;
        match value.get("kind").and_then(|k| k.as_str()) {
            Some(kind) if KINDS.contains(&kind) => serde_json::from_value(value).map(Self::Known),
            Some(_) => Ok(Self::Unknown(value)),
            None => Err(serde::de::Error::custom("a lock without a kind")),
        }
        .map_err(serde::de::Error::custom)
    }
}

/// What a lock authenticates beside the private halves: all that it is.
fn context(pair: &Recipient, kind: LockKind, scope: Scope, purpose: Purpose) -> Vec<u8> {
    let tail = [scope as u8, kind as u8, purpose as u8];
    [LOCK_AD, &pair.names, &pair.contents, &tail].concat()
}

impl Sealed {
    fn seal(
        root: &Key32,
        salt: [u8; 16],
        pair: &OpenPair,
        kind: LockKind,
        scope: Scope,
    ) -> Result<Self, KeyError> {
        let seal = |purpose, key: &Key32| {
            let with = prim::hkdf(&[], root.as_slice(), &[SEAL_INFO, &[purpose as u8]])?;
            let ad = context(&pair.public, kind, scope, purpose);
            let sealed = prim::seal_once(&with, &ad, key.as_slice())?;
            sealed.try_into().map(Bytes).map_err(|_| KeyError::Crypto("seal a lock"))
        };
        let contents = match scope {
            Scope::All => Some(seal(Purpose::Contents, pair.need(Purpose::Contents)?)?),
            Scope::Names => None,
        };
        let check = *prim::hkdf(&[], root.as_slice(), &[CHECK_INFO])?;
        let names = seal(Purpose::Names, &pair.names)?;
        Ok(Self { salt: Bytes(salt), check: Bytes(check), names, contents })
    }

    fn opens(&self, root: &Key32) -> Result<bool, KeyError> {
        let check = prim::hkdf(&[], root.as_slice(), &[CHECK_INFO])?;
        Ok(prim::same(check.as_slice(), &self.check.0))
    }

    fn open(
        &self,
        root: &Key32,
        pair: &Recipient,
        kind: LockKind,
        scope: Scope,
    ) -> Result<Option<OpenPair>, KeyError> {
        let open = |purpose, sealed: &Bytes<48>| -> Result<Option<Key32>, KeyError> {
            let with = prim::hkdf(&[], root.as_slice(), &[SEAL_INFO, &[purpose as u8]])?;
            let ad = context(pair, kind, scope, purpose);
            let plain = prim::open_once(&with, &ad, &sealed.0)?;
            Ok(plain.and_then(|p| p.as_slice().try_into().ok()).map(Key32::new))
        };
        let Some(names) = open(Purpose::Names, &self.names)? else { return Ok(None) };
        let contents = match &self.contents {
            None => None,
            Some(sealed) => match open(Purpose::Contents, sealed)? {
                None => return Ok(None),
                found => found,
            },
        };
        OpenPair::checked(*pair, names, contents)
    }
}

/// What trying a lock came to, where it was of the secret's kind.
pub(super) enum Tried {
    Opened(OpenPair),
    WrongSecret,
    Damaged,
}

impl Lock {
    /// Makes a lock for a pair whose private halves are open as far as the scope goes.
    pub fn make(new: &NewLock, pair: &OpenPair, rng: &mut Rng) -> Result<Self, KeyError> {
        check_label(new.label)?;
        let id = LockId(prim::draw(rng));
        let scope = new.scope;
        let body = if let LockBy::Recipient(to) = new.by {
            let mut wrap = |purpose, key: &Key32| {
                let ad = context(&pair.public, LockKind::Recipient, scope, purpose);
                Wrap::seal(key, to, purpose, &ad, rng)
            };
            let names = wrap(Purpose::Names, &pair.names)?;
            let contents = match scope {
                Scope::All => Some(wrap(Purpose::Contents, pair.need(Purpose::Contents)?)?),
                Scope::Names => None,
            };
            Body::Recipient { names, contents }
        } else {
            let salt = prim::draw(rng);
            let (kind, root) = new.by.root(&salt)?;
            let sealed = Sealed::seal(&root, salt, pair, kind, scope)?;
            match new.by {
                LockBy::Passphrase(_, argon) => Body::Passphrase { argon, sealed },
                LockBy::KeyFile(_) => Body::KeyFile { sealed },
                _ => Body::RecoveryCode { sealed },
            }
        };
        Ok(Self::Known(Box::new(Known { id, scope, label: new.label.to_owned(), body })))
    }

    /// Tries the secret; `None` where the lock is not of its kind.
    pub fn open(
        &self,
        pair: &Recipient,
        secret: &Secret,
        work: &mut Work,
    ) -> Result<Option<Tried>, KeyError> {
        let Self::Known(lock) = self else { return Ok(None) };
        let (kind, sealed, root) = match (&lock.body, secret) {
            (Body::Passphrase { argon, sealed }, Secret::Passphrase(text)) => {
                work.spend(*argon)?;
                (LockKind::Passphrase, sealed, argon.derive(text, &sealed.salt.0)?)
            }
            (Body::KeyFile { sealed }, Secret::KeyFile(file)) => {
                let (kind, root) = LockBy::KeyFile(file).root(&sealed.salt.0)?;
                (kind, sealed, root)
            }
            (Body::RecoveryCode { sealed }, Secret::RecoveryCode(code)) => {
                let (kind, root) = LockBy::RecoveryCode(code).root(&sealed.salt.0)?;
                (kind, sealed, root)
            }
            (Body::Recipient { names, contents }, Secret::Ring(other)) => {
                let Some(with) = other.pair(&names.to) else { return Ok(None) };
                let open = |wrap: &Wrap, purpose, key: &Key32| {
                    let ad = context(pair, LockKind::Recipient, lock.scope, purpose);
                    wrap.open(key, with.public.public(purpose), &ad)
                };
                let Some(first) = open(names, Purpose::Names, &with.names)? else {
                    return Ok(Some(Tried::Damaged));
                };
                // Who holds only the names half of the recipient gets only the names half here.
                let second = match (contents, &with.contents) {
                    (Some(wrap), Some(key)) => match open(wrap, Purpose::Contents, key)? {
                        None => return Ok(Some(Tried::Damaged)),
                        found => found,
                    },
                    _ => None,
                };
                let opened = OpenPair::checked(*pair, first, second)?;
                return Ok(Some(opened.map_or(Tried::Damaged, Tried::Opened)));
            }
            _ => return Ok(None),
        };
        if !sealed.opens(&root)? {
            return Ok(Some(Tried::WrongSecret));
        }
        let opened = sealed.open(&root, pair, kind, lock.scope)?;
        Ok(Some(opened.map_or(Tried::Damaged, Tried::Opened)))
    }

    /// The lock's id, where it has one.
    pub fn id(&self) -> Option<LockId> {
        match self {
            Self::Known(lock) => Some(lock.id),
            Self::Unknown(value) => value.get("id")?.as_str()?.parse().ok(),
        }
    }

    /// How much it opens, where this version knows.
    pub fn scope(&self) -> Option<Scope> {
        match self {
            Self::Known(lock) => Some(lock.scope),
            Self::Unknown(_) => None,
        }
    }

    /// What a list shows.
    pub fn info(&self) -> LockInfo {
        let (kind, label, recipient) = match self {
            Self::Unknown(_) => (LockKind::Unknown, String::new(), None),
            Self::Known(lock) => {
                let (kind, recipient) = match &lock.body {
                    Body::Passphrase { .. } => (LockKind::Passphrase, None),
                    Body::KeyFile { .. } => (LockKind::KeyFile, None),
                    Body::RecoveryCode { .. } => (LockKind::RecoveryCode, None),
                    Body::Recipient { names, .. } => (LockKind::Recipient, Some(names.to)),
                };
                (kind, lock.label.clone(), recipient)
            }
        };
        LockInfo { id: self.id(), kind, scope: self.scope(), label, recipient }
    }

    /// Whether the parts agree with each other.
    pub fn check(&self) -> Result<(), KeyError> {
        let Self::Known(lock) = self else { return Ok(()) };
        check_label(&lock.label)?;
        let agree = match &lock.body {
            Body::Passphrase { sealed, .. }
            | Body::KeyFile { sealed }
            | Body::RecoveryCode { sealed } => {
                sealed.contents.is_some() == (lock.scope == Scope::All)
            }
            Body::Recipient { names, contents } => {
                contents.is_some() == (lock.scope == Scope::All)
                    && contents.as_ref().is_none_or(|c| c.to == names.to)
            }
        };
        if agree { Ok(()) } else { Err(malformed("a lock holds other than its scope says")) }
    }
}

impl LockBy<'_> {
    /// The key that a secret and a salt give. Recipients have none.
    fn root(&self, salt: &[u8; 16]) -> Result<(LockKind, Key32), KeyError> {
        let weak = |kind, reason| KeyError::WeakSecret { kind, reason };
        match self {
            Self::Passphrase(text, argon) => {
                let kind = LockKind::Passphrase;
                if text.is_empty() {
                    return Err(weak(kind, "it is empty; give at least a few words"));
                }
                if text.len() > MAX_PASSPHRASE {
                    return Err(weak(kind, "it is longer than 4096 bytes; use a key file"));
                }
                Ok((kind, argon.derive(text, salt)?))
            }
            Self::KeyFile(file) => {
                let kind = LockKind::KeyFile;
                if !KEY_FILE.contains(&file.len()) {
                    return Err(weak(
                        kind,
                        "it has to hold 32 random bytes or more, at most 1 MiB",
                    ));
                }
                Ok((kind, prim::hkdf(salt, file, &[KEY_FILE_INFO])?))
            }
            Self::RecoveryCode(code) => {
                Ok((LockKind::RecoveryCode, prim::hkdf(salt, code.bytes(), &[RECOVERY_INFO])?))
            }
            Self::Recipient(_) => Err(KeyError::Crypto("derive a key from a recipient")),
        }
    }
}

fn check_label(label: &str) -> Result<(), KeyError> {
    if label.len() > MAX_LABEL || label.chars().any(char::is_control) {
        return Err(malformed("a lock's label is longer than 128 bytes or has control characters"));
    }
    Ok(())
}

fn malformed(reason: &str) -> KeyError {
    KeyError::Malformed { what: "the key ring", reason: reason.to_owned() }
}
