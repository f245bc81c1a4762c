//! What can go wrong with keys, each with what to do about it.

use crate::error::then;

use super::Purpose;
use super::ids::{LockKind, NoShortId, PairId};
use crate::id::{KeyId, StreamId};

/// A failure of key handling. No variant carries a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A record is not what its version says it is.
    #[error("cannot read {what}: {reason}{then}", then = then(self.hint()))]
    Malformed {
        /// Which record.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A record of a later version.
    #[error("{what} has version {version}, this Capstan reads version 1{then}", then = then(self.hint()))]
    Version {
        /// Which record.
        what: &'static str,
        /// The version found.
        version: u64,
    },
    /// A limit of the format would be exceeded.
    #[error("{what} exceeds its limit of {limit}{then}", then = then(self.hint()))]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        limit: usize,
        /// What to do.
        hint: &'static str,
    },
    /// No lock of the ring has the kind of the secret.
    #[error("the key ring has no lock that a {0} opens{then}", then = then(self.hint()))]
    NoLockOfKind(LockKind),
    /// The ring has no locks at all.
    #[error("the key ring holds public keys only: it can write encrypted backups and not read them{then}", then = then(self.hint()))]
    PublicOnly,
    /// A passphrase that opens nothing.
    #[error("wrong passphrase{then}", then = then(self.hint()))]
    WrongPassphrase,
    /// A key file that opens nothing.
    #[error("the key file does not open this key ring{then}", then = then(self.hint()))]
    WrongKeyFile,
    /// A recovery code that opens nothing.
    #[error("the recovery code is typed correctly but belongs to another key ring{then}", then = then(self.hint()))]
    WrongRecoveryCode,
    /// A lock was opened by the right secret, and what is in it does not hold.
    #[error("the lock {lock} of key pair {pair} is damaged{then}", then = then(self.hint()))]
    DamagedLock {
        /// The lock.
        lock: String,
        /// The pair it is of.
        pair: PairId,
    },
    /// A secret that is unfit to protect anything.
    #[error("the {kind} is refused: {reason}{then}", then = then(self.hint()))]
    WeakSecret {
        /// What it is.
        kind: LockKind,
        /// Why.
        reason: &'static str,
    },
    /// Key derivation parameters out of bounds.
    #[error("the passphrase parameters {m_kib} KiB, {t} passes, {p} lanes are out of bounds (at most 262144 KiB, 16, 8, and 8 \
         KiB per lane at least){then}", then = then(self.hint()))]
    Argon {
        /// Memory in KiB.
        m_kib: u32,
        /// Passes.
        t: u32,
        /// Lanes.
        p: u32,
    },
    /// Not enough memory for a passphrase's derivation.
    #[error("cannot get {m_kib} KiB of memory to check the passphrase{then}", then = then(self.hint()))]
    NoMemory {
        /// Memory in KiB.
        m_kib: u32,
    },
    /// The last lock that opens a pair cannot go.
    #[error("the lock {lock} is the last that opens all of key pair {pair}{then}", then = then(self.hint()))]
    LastLock {
        /// The lock.
        lock: String,
        /// The pair.
        pair: PairId,
    },
    /// The first lock of a pair has to open all of it.
    #[error("the first lock of a new key pair opens names only and nothing would open the contents{then}", then = then(self.hint()))]
    NoFullLock,
    /// No lock of that id.
    #[error("the key ring has no lock {0}{then}", then = then(self.hint()))]
    NoSuchLock(String),
    /// The operation needs a pair's private half.
    #[error("key pair {pair} has to be unlocked for {purpose:?} to do this{then}", then = then(self.hint()))]
    Locked {
        /// The pair.
        pair: PairId,
        /// For what.
        purpose: Purpose,
    },
    /// None of the unlocked pairs is a recipient of the session's keys.
    #[error("the keys of session key {id} are wrapped for {recipients} and none of these is unlocked{then}", then = then(self.hint()))]
    NotARecipient {
        /// The session key.
        id: KeyId,
        /// The pairs that can open it.
        recipients: String,
    },
    /// The unlocked pair opens names and not contents.
    #[error("session key {id}: what was unlocked gives access to names and not to contents{then}", then = then(self.hint()))]
    NamesOnly {
        /// The session key.
        id: KeyId,
    },
    /// What a secret opens is another pair than those that open a session's contents.
    #[error("the contents are encrypted for key pair {wanted}, and what was given opens key pair {opened}{then}", then = then(self.hint()))]
    OtherPair {
        /// The pairs that are open by it.
        opened: String,
        /// The pairs that can open the contents.
        wanted: String,
    },
    /// A wrap that does not open with the key it was made for.
    #[error("the {purpose:?} key of session key {id} is damaged{then}", then = then(self.hint()))]
    DamagedRecord {
        /// The session key.
        id: KeyId,
        /// Which of its keys.
        purpose: Purpose,
    },
    /// A key that opens its wrap and is not the one that the session committed to.
    #[error("the {purpose:?} key given for session key {id} is another key than the session's{then}", then = then(self.hint()))]
    WrongKey {
        /// The session key.
        id: KeyId,
        /// Which of its keys.
        purpose: Purpose,
    },
    /// A frame that does not open.
    #[error("frame {sequence} of stream {stream} does not decrypt: it is damaged or not of this key{then}", then = then(self.hint()))]
    Frame {
        /// The frame's sequence.
        sequence: u64,
        /// The frame's stream.
        stream: StreamId,
    },
    /// A recovery code's line that is not right.
    #[error("line {line} of the recovery code is wrong: {reason}{then}", then = then(self.hint()))]
    RecoveryLine {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A recovery code with the wrong number of characters.
    #[error("the recovery code has {found} characters and not 64{then}", then = then(self.hint()))]
    RecoveryLength {
        /// Characters found.
        found: usize,
    },
    /// A recipient text that is not one.
    #[error("'{text}' is not a recipient: {reason}{then}", then = then(self.hint()))]
    BadRecipient {
        /// Its beginning.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A public key with which no secret can be shared.
    #[error("the public key of {0} is not usable{then}", then = then(self.hint()))]
    BadPublicKey(PairId),
    /// The cryptographic library refused.
    #[error("the cryptographic library failed to {0}{then}", then = then(self.hint()))]
    Crypto(&'static str),
}

impl KeyError {
    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Malformed { .. } => {
                "it is damaged or of a newer Capstan, take it from another copy".to_owned()
            }
            Self::Version { .. } => "use a newer Capstan".to_owned(),
            Self::TooMuch { hint, .. } => (*hint).to_owned(),
            Self::NoLockOfKind(_) => "use one of the ring's other ways to unlock".to_owned(),
            Self::PublicOnly => "use the ring (or a medium) that has its locks".to_owned(),
            Self::WrongPassphrase => {
                "check keyboard layout and capitals, or use the recovery code".to_owned()
            }
            Self::WrongKeyFile => "use the file it was made with, byte for byte".to_owned(),
            Self::WrongRecoveryCode => "compare the ids".to_owned(),
            Self::DamagedLock { .. } | Self::BadPublicKey(_) => {
                "take the key ring from another copy".to_owned()
            }
            Self::Argon { .. } => "the key ring is damaged".to_owned(),
            Self::NoMemory { .. } => "free memory and try again".to_owned(),
            Self::LastLock { .. } => {
                "add another lock first, else its backups become unreadable".to_owned()
            }
            Self::NoFullLock => "give one of scope 'all' first".to_owned(),
            Self::NoSuchLock(_) => "list the locks to see their ids".to_owned(),
            Self::Locked { .. } => "unlock the key ring with a secret that opens it".to_owned(),
            Self::NotARecipient { .. } => "unlock a key ring that has one of them".to_owned(),
            Self::NamesOnly { .. } => "unlock with a secret of scope 'all'".to_owned(),
            Self::OtherPair { wanted, .. } => format!(
                "give a secret of {wanted}: after `capstan key rotate` that is the newest one (`capstan key list`)"
            ),
            Self::DamagedRecord { .. } => "take the record from another copy".to_owned(),
            Self::WrongKey { .. } => {
                "the record was altered or the key belongs to another session".to_owned()
            }
            Self::Frame { .. } => "read it from another copy of the medium".to_owned(),
            Self::RecoveryLine { .. } => "compare it with the sheet".to_owned(),
            Self::RecoveryLength { .. } => "type all four lines of the sheet".to_owned(),
            Self::BadRecipient { .. } => "copy it again, it begins with capstan-pub-".to_owned(),
            Self::Crypto(_) => "this is likely a bug, please report it".to_owned(),
            Self::WeakSecret { kind: LockKind::KeyFile, .. } => {
                "make one with --new-key-file".to_owned()
            }
            Self::WeakSecret { .. } => return None,
        })
    }
}

impl From<NoShortId> for KeyError {
    fn from(_: NoShortId) -> Self {
        Self::Malformed { what: "a key id", reason: "it is not 16 hexadecimal digits".into() }
    }
}
