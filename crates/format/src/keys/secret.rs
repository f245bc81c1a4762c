//! What somebody has to open a key ring with, and what is open then.

use super::ids::{LockKind, PairId};
use super::recovery::RecoveryCode;
use super::wrap::Recipient;
use super::{Key32, KeyError, Purpose, Scope, prim};

/// What somebody has to open a key ring with.
#[derive(Clone, Copy)]
pub enum Secret<'a> {
    /// A passphrase.
    Passphrase(&'a str),
    /// The content of a key file.
    KeyFile(&'a [u8]),
    /// A recovery code as typed back.
    RecoveryCode(&'a RecoveryCode),
    /// Another ring, already unlocked, that this one has a lock for.
    Ring(&'a Unlocked),
}

impl Secret<'_> {
    pub(super) fn kind(&self) -> LockKind {
        match self {
            Self::Passphrase(_) => LockKind::Passphrase,
            Self::KeyFile(_) => LockKind::KeyFile,
            Self::RecoveryCode(_) => LockKind::RecoveryCode,
            Self::Ring(_) => LockKind::Recipient,
        }
    }

    pub(super) fn wrong(&self) -> KeyError {
        match self {
            Self::Passphrase(_) => KeyError::WrongPassphrase,
            Self::KeyFile(_) => KeyError::WrongKeyFile,
            Self::RecoveryCode(_) => KeyError::WrongRecoveryCode,
            Self::Ring(_) => KeyError::NoLockOfKind(LockKind::Recipient),
        }
    }
}

/// One key pair with its private halves, or with that of names alone.
pub(super) struct OpenPair {
    pub public: Recipient,
    pub names: Key32,
    pub contents: Option<Key32>,
}

impl OpenPair {
    /// Draws a new pair.
    pub fn draw(rng: &mut super::Rng) -> Result<Self, KeyError> {
        let (names, contents) = (prim::draw32(rng), prim::draw32(rng));
        let public =
            Recipient { names: prim::public_of(&names)?, contents: prim::public_of(&contents)? };
        Ok(Self { public, names, contents: Some(contents) })
    }

    /// The pair, if the private halves are those of the public ones.
    pub fn checked(
        public: Recipient,
        names: Key32,
        contents: Option<Key32>,
    ) -> Result<Option<Self>, KeyError> {
        let fits = prim::public_of(&names)? == public.names
            && match &contents {
                Some(key) => prim::public_of(key)? == public.contents,
                None => true,
            };
        Ok(fits.then_some(Self { public, names, contents }))
    }

    pub fn scope(&self) -> Scope {
        if self.contents.is_some() { Scope::All } else { Scope::Names }
    }

    pub fn private(&self, purpose: Purpose) -> Option<&Key32> {
        match purpose {
            Purpose::Names => Some(&self.names),
            Purpose::Contents => self.contents.as_ref(),
        }
    }

    /// The private half, or the error that says it is not open.
    pub fn need(&self, purpose: Purpose) -> Result<&Key32, KeyError> {
        self.private(purpose).ok_or_else(|| KeyError::Locked { pair: self.public.id(), purpose })
    }
}

/// The private halves that a secret gave. Overwritten when dropped.
#[derive(Default)]
pub struct Unlocked {
    pub(super) pairs: Vec<OpenPair>,
    pub(super) problems: Vec<KeyError>,
}

impl Unlocked {
    /// How much of that pair is open.
    pub fn scope(&self, id: &PairId) -> Option<Scope> {
        self.pair(id).map(OpenPair::scope)
    }

    /// The ids of the open pairs.
    pub fn pairs(&self) -> impl Iterator<Item = PairId> + '_ {
        self.pairs.iter().map(|p| p.public.id())
    }

    /// Damaged locks met on the way, of pairs that stayed closed or open for names only.
    pub fn problems(&self) -> &[KeyError] {
        &self.problems
    }

    /// Adds what another secret or ring gave.
    pub fn merge(&mut self, other: Self) {
        other.pairs.into_iter().for_each(|p| self.add(p));
        self.problems.extend(other.problems);
    }

    pub(super) fn pair(&self, id: &PairId) -> Option<&OpenPair> {
        self.pairs.iter().find(|p| p.public.id() == *id)
    }

    pub(super) fn add(&mut self, pair: OpenPair) {
        match self.pairs.iter_mut().find(|p| p.public == pair.public) {
            Some(old) if old.contents.is_none() => *old = pair,
            Some(_) => {}
            None => self.pairs.push(pair),
        }
    }
}

impl std::fmt::Debug for Unlocked {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.pairs.iter().map(|p| (p.public.id(), p.scope()))).finish()
    }
}
