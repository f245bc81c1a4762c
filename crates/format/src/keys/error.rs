//! What can go wrong with keys, each with what to do about it.

use super::Purpose;
use super::ids::{LockKind, NoShortId, PairId};
use crate::id::{KeyId, StreamId};

/// A failure of key handling. No variant carries a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// A record is not what its version says it is.
    #[error(
        "cannot read {what}: {reason}; it is damaged or of a newer Capstan, take it from another copy"
    )]
    Malformed {
        /// Which record.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// A record of a later version.
    #[error("{what} has version {version}, this Capstan reads version 1; use a newer Capstan")]
    Version {
        /// Which record.
        what: &'static str,
        /// The version found.
        version: u64,
    },
    /// A limit of the format would be exceeded.
    #[error("{what} exceeds its limit of {limit}; {hint}")]
    TooMuch {
        /// What there is too much of.
        what: &'static str,
        /// How much is allowed.
        limit: usize,
        /// What to do.
        hint: &'static str,
    },
    /// No lock of the ring has the kind of the secret.
    #[error(
        "the key ring has no lock that a {0} opens; use one of the ring's other ways to unlock"
    )]
    NoLockOfKind(LockKind),
    /// The ring has no locks at all.
    #[error(
        "the key ring holds public keys only: it can write encrypted backups and not read them; \
         use the ring (or a medium) that has its locks"
    )]
    PublicOnly,
    /// A passphrase that opens nothing.
    #[error("wrong passphrase; check keyboard layout and capitals, or use the recovery code")]
    WrongPassphrase,
    /// A key file that opens nothing.
    #[error(
        "the key file does not open this key ring; use the file it was made with, byte for byte"
    )]
    WrongKeyFile,
    /// A recovery code that opens nothing.
    #[error(
        "the recovery code is typed correctly but belongs to another key ring; compare the ids"
    )]
    WrongRecoveryCode,
    /// A lock was opened by the right secret, and what is in it does not hold.
    #[error("the lock {lock} of key pair {pair} is damaged; take the key ring from another copy")]
    DamagedLock {
        /// The lock.
        lock: String,
        /// The pair it is of.
        pair: PairId,
    },
    /// A secret that is unfit to protect anything.
    #[error("the {kind} is refused: {reason}{}", weak_hint(*.kind))]
    WeakSecret {
        /// What it is.
        kind: LockKind,
        /// Why.
        reason: &'static str,
    },
    /// Key derivation parameters out of bounds.
    #[error(
        "the passphrase parameters {m_kib} KiB, {t} passes, {p} lanes are out of bounds \
         (at most 262144 KiB, 16, 8, and 8 KiB per lane at least); the key ring is damaged"
    )]
    Argon {
        /// Memory in KiB.
        m_kib: u32,
        /// Passes.
        t: u32,
        /// Lanes.
        p: u32,
    },
    /// Not enough memory for a passphrase's derivation.
    #[error("cannot get {m_kib} KiB of memory to check the passphrase; free memory and try again")]
    NoMemory {
        /// Memory in KiB.
        m_kib: u32,
    },
    /// The last lock that opens a pair cannot go.
    #[error(
        "the lock {lock} is the last that opens all of key pair {pair}; add another lock first, \
         else its backups become unreadable"
    )]
    LastLock {
        /// The lock.
        lock: String,
        /// The pair.
        pair: PairId,
    },
    /// The first lock of a pair has to open all of it.
    #[error(
        "the first lock of a new key pair opens names only and nothing would open the contents; \
         give one of scope 'all' first"
    )]
    NoFullLock,
    /// No lock of that id.
    #[error("the key ring has no lock {0}; list the locks to see their ids")]
    NoSuchLock(String),
    /// The operation needs a pair's private half.
    #[error(
        "key pair {pair} has to be unlocked for {purpose:?} to do this; unlock the key ring with a \
         secret that opens it"
    )]
    Locked {
        /// The pair.
        pair: PairId,
        /// For what.
        purpose: Purpose,
    },
    /// None of the unlocked pairs is a recipient of the session's keys.
    #[error(
        "the keys of session key {id} are wrapped for {recipients} and none of these is unlocked; \
         unlock a key ring that has one of them"
    )]
    NotARecipient {
        /// The session key.
        id: KeyId,
        /// The pairs that can open it.
        recipients: String,
    },
    /// The unlocked pair opens names and not contents.
    #[error(
        "session key {id}: what was unlocked gives access to names and not to contents; \
         unlock with a secret of scope 'all'"
    )]
    NamesOnly {
        /// The session key.
        id: KeyId,
    },
    /// What a secret opens is another pair than those that open a session's contents.
    #[error(
        "the contents are encrypted for key pair {wanted}, and what was given opens key pair {opened}; give a secret of {wanted}: after \
         `capstan key rotate` that is the newest one (`capstan key list`)"
    )]
    OtherPair {
        /// The pairs that are open by it.
        opened: String,
        /// The pairs that can open the contents.
        wanted: String,
    },
    /// A wrap that does not open with the key it was made for.
    #[error(
        "the {purpose:?} key of session key {id} is damaged; take the record from another copy"
    )]
    DamagedRecord {
        /// The session key.
        id: KeyId,
        /// Which of its keys.
        purpose: Purpose,
    },
    /// A key that opens its wrap and is not the one that the session committed to.
    #[error(
        "the {purpose:?} key given for session key {id} is another key than the session's; \
         the record was altered or the key belongs to another session"
    )]
    WrongKey {
        /// The session key.
        id: KeyId,
        /// Which of its keys.
        purpose: Purpose,
    },
    /// A frame that does not open.
    #[error(
        "frame {sequence} of stream {stream} does not decrypt: it is damaged or not of this key; \
         read it from another copy of the medium"
    )]
    Frame {
        /// The frame's sequence.
        sequence: u64,
        /// The frame's stream.
        stream: StreamId,
    },
    /// A recovery code's line that is not right.
    #[error("line {line} of the recovery code is wrong: {reason}; compare it with the sheet")]
    RecoveryLine {
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// A recovery code with the wrong number of characters.
    #[error(
        "the recovery code has {found} characters and not 64; type all four lines of the sheet"
    )]
    RecoveryLength {
        /// Characters found.
        found: usize,
    },
    /// A recipient text that is not one.
    #[error("'{text}' is not a recipient: {reason}; copy it again, it begins with capstan-pub-")]
    BadRecipient {
        /// Its beginning.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A public key with which no secret can be shared.
    #[error("the public key of {0} is not usable; take the key ring from another copy")]
    BadPublicKey(PairId),
    /// The cryptographic library refused.
    #[error("the cryptographic library failed to {0}; this is likely a bug, please report it")]
    Crypto(&'static str),
}

/// What to do where the reason does not say it.
fn weak_hint(kind: LockKind) -> &'static str {
    match kind {
        LockKind::KeyFile => "; make one with --new-key-file",
        _ => "",
    }
}

impl From<NoShortId> for KeyError {
    fn from(_: NoShortId) -> Self {
        Self::Malformed { what: "a key id", reason: "it is not 16 hexadecimal digits".into() }
    }
}
