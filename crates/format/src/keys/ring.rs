//! The key ring: key pairs with their locks, the newest active, older ones kept for reading.

use std::collections::HashSet;

use super::lock::Lock;
use super::prim::{self, Bytes};
use super::secret::OpenPair;
use super::{
    KeyError, LockBy, LockId, LockInfo, NewLock, PairId, Purpose, Recipient, Rng, Scope, Unlocked,
};

/// Longest JSON of a key ring in bytes.
pub const MAX_RING_JSON: usize = 64 * 1024;
/// Most key pairs of a ring.
pub const MAX_PAIRS: usize = 64;
/// Most locks of a key pair.
pub const MAX_LOCKS: usize = 16;

const WHAT: &str = "the key ring";

/// One key pair: two public keys, when it was made, and its locks.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub(super) struct Pair {
    id: PairId,
    created: i64,
    names: Bytes<32>,
    contents: Bytes<32>,
    #[serde(default)]
    pub locks: Vec<Lock>,
}

impl Pair {
    fn new(public: Recipient, created: i64, lock: Lock) -> Self {
        let (names, contents) = (Bytes(public.names), Bytes(public.contents));
        Self { id: public.id(), created, names, contents, locks: vec![lock] }
    }

    pub fn id(&self) -> PairId {
        self.id
    }

    pub fn public(&self) -> Recipient {
        Recipient { names: self.names.0, contents: self.contents.0 }
    }
}

/// Key pairs with their locks. It holds nothing that is secret by itself, but who has it can try passphrases.
#[derive(Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct KeyRing {
    version: u64,
    /// Oldest first; the last is active. Never empty.
    pub(super) pairs: Vec<Pair>,
}

/// What a list of a ring's pairs shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairInfo {
    /// The pair's id.
    pub id: PairId,
    /// When it was made, in seconds since 1970.
    pub created: i64,
    /// Whether new sessions' keys are wrapped for it.
    pub active: bool,
    /// Its public half.
    pub public: Recipient,
    /// Its locks.
    pub locks: Vec<LockInfo>,
}

impl KeyRing {
    /// A new ring with one pair, and that pair unlocked. The lock has to open all.
    pub fn create(
        lock: &NewLock,
        created: i64,
        rng: &mut Rng,
    ) -> Result<(Self, Unlocked), KeyError> {
        let (pair, open) = new_pair(lock, created, rng)?;
        let mut unlocked = Unlocked::default();
        unlocked.add(open);
        Ok((Self { version: 1, pairs: vec![pair] }, unlocked))
    }

    /// A ring without locks for that recipient: a client that has it writes and cannot read.
    pub fn of_recipient(public: Recipient, created: i64) -> Self {
        let (names, contents) = (Bytes(public.names), Bytes(public.contents));
        let pair = Pair { id: public.id(), created, names, contents, locks: Vec::new() };
        Self { version: 1, pairs: vec![pair] }
    }

    /// The ring without its locks: for clients that only write, and media that shall carry no locks.
    #[must_use]
    pub fn public_only(&self) -> Self {
        let mut ring = self.clone();
        ring.pairs.iter_mut().for_each(|p| p.locks.clear());
        ring
    }

    /// The pair for which new sessions' keys are wrapped.
    pub fn active(&self) -> Result<Recipient, KeyError> {
        self.last().map(Pair::public)
    }

    /// All pairs with their locks, oldest first.
    pub fn list(&self) -> Vec<PairInfo> {
        let active = self.pairs.len().saturating_sub(1);
        let info = |(i, p): (usize, &Pair)| PairInfo {
            id: p.id,
            created: p.created,
            active: i == active,
            public: p.public(),
            locks: p.locks.iter().map(Lock::info).collect(),
        };
        self.pairs.iter().enumerate().map(info).collect()
    }

    /// Adds a lock to the active pair, which has to be open as far as the lock's scope goes.
    ///
    /// It gives access to older pairs as well, which the active one opens.
    pub fn add_lock(
        &mut self,
        unlocked: &Unlocked,
        lock: &NewLock,
        rng: &mut Rng,
    ) -> Result<LockId, KeyError> {
        let active = self.last()?;
        let open = unlocked
            .pair(&active.id)
            .ok_or(KeyError::Locked { pair: active.id, purpose: Purpose::Names })?;
        if active.locks.len() >= MAX_LOCKS {
            return Err(too_many_locks());
        }
        let lock = Lock::make(lock, open, rng)?;
        let id = lock.id().ok_or(KeyError::Crypto("draw a lock's id"))?;
        let mut ring = self.clone();
        if let Some(pair) = ring.pairs.last_mut() {
            pair.locks.push(lock);
        }
        ring.to_json()?;
        *self = ring;
        Ok(id)
    }

    /// Removes a lock, unless it is the last of its pair that opens all (or, without such, that opens anything).
    ///
    /// Copies of the ring on media keep it: who had its secret can still read those. To shut them out of what comes,
    /// [`rotate`](Self::rotate) as well.
    pub fn remove_lock(&mut self, lock: &LockId) -> Result<(), KeyError> {
        for pair in &mut self.pairs {
            let Some(at) = pair.locks.iter().position(|l| l.id() == Some(*lock)) else { continue };
            let rest = || pair.locks.iter().enumerate().filter(|(i, _)| *i != at);
            let all = Some(Scope::All);
            let last = if pair.locks[at].scope() == all {
                !rest().any(|(_, l)| l.scope() == all)
            } else {
                rest().next().is_none()
            };
            if last {
                return Err(KeyError::LastLock { lock: lock.to_string(), pair: pair.id });
            }
            pair.locks.remove(at);
            return Ok(());
        }
        Err(KeyError::NoSuchLock(lock.to_string()))
    }

    /// Adds a new pair, active from now on, with that lock, and unlocks it.
    ///
    /// The new pair opens the former one (by a lock for it), and so all before. Other locks are not carried over,
    /// since their secrets are not at hand: add them again to the new pair.
    pub fn rotate(
        &mut self,
        unlocked: &mut Unlocked,
        lock: &NewLock,
        created: i64,
        rng: &mut Rng,
    ) -> Result<PairId, KeyError> {
        let former = self.last()?;
        let locked = |purpose| KeyError::Locked { pair: former.id, purpose };
        let open = unlocked.pair(&former.id).ok_or_else(|| locked(Purpose::Names))?;
        if self.pairs.len() >= MAX_PAIRS {
            let hint = "begin a new key ring; media carry the old one";
            return Err(KeyError::TooMuch { what: "the ring's key pairs", limit: MAX_PAIRS, hint });
        }
        if former.locks.len() >= MAX_LOCKS {
            return Err(too_many_locks());
        }
        let (pair, new) = new_pair(lock, created, rng)?;
        let label = format!("newer pair {}", pair.id);
        let by = LockBy::Recipient(&new.public);
        let chain = Lock::make(&NewLock { by, scope: Scope::All, label: &label }, open, rng)?;
        let mut ring = self.clone();
        if let Some(former) = ring.pairs.last_mut() {
            former.locks.push(chain);
        }
        let id = pair.id;
        ring.pairs.push(pair);
        ring.to_json()?;
        *self = ring;
        unlocked.add(new);
        Ok(id)
    }

    /// The ring as JSON, at most [`MAX_RING_JSON`] bytes.
    pub fn to_json(&self) -> Result<Vec<u8>, KeyError> {
        prim::to_json(WHAT, MAX_RING_JSON, self)
    }

    /// Reads a ring that need not be trusted.
    pub fn from_json(json: &[u8]) -> Result<Self, KeyError> {
        let ring: Self = prim::from_json(WHAT, MAX_RING_JSON, json)?;
        ring.check()?;
        Ok(ring)
    }

    /// Whether the parts agree with each other and the bounds hold.
    pub(super) fn check(&self) -> Result<(), KeyError> {
        let bad = |reason: &str| KeyError::Malformed { what: WHAT, reason: reason.to_owned() };
        if self.version != 1 {
            return Err(KeyError::Version { what: WHAT, version: self.version });
        }
        if self.pairs.is_empty() || self.pairs.len() > MAX_PAIRS {
            return Err(bad("it has no key pair or more than 64"));
        }
        let (mut pairs, mut locks) = (HashSet::new(), HashSet::new());
        for pair in &self.pairs {
            if pair.id != pair.public().id() {
                return Err(bad("a key pair's id is not that of its public keys"));
            }
            if !pairs.insert(pair.id)
                || !pair.locks.iter().all(|l| l.id().is_none_or(|i| locks.insert(i)))
            {
                return Err(bad("two of its key pairs or locks have the same id"));
            }
            if pair.locks.len() > MAX_LOCKS {
                return Err(bad("a key pair has more than 16 locks"));
            }
            pair.locks.iter().try_for_each(Lock::check)?;
        }
        Ok(())
    }

    fn last(&self) -> Result<&Pair, KeyError> {
        self.pairs.last().ok_or(KeyError::Crypto("find the active key pair"))
    }
}

fn new_pair(lock: &NewLock, created: i64, rng: &mut Rng) -> Result<(Pair, OpenPair), KeyError> {
    if lock.scope != Scope::All {
        return Err(KeyError::NoFullLock);
    }
    let open = OpenPair::draw(rng)?;
    let lock = Lock::make(lock, &open, rng)?;
    Ok((Pair::new(open.public, created, lock), open))
}

fn too_many_locks() -> KeyError {
    let hint = "remove one that is no longer needed";
    KeyError::TooMuch { what: "the key pair's locks", limit: MAX_LOCKS, hint }
}

impl std::fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("KeyRing").field(&self.list()).finish()
    }
}
