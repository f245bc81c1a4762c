//! What keys and locks are called: ids of eight bytes, and kinds of locks.

use std::fmt;

/// Declares an id of eight bytes, shown and stored as 16 hexadecimal digits.
macro_rules! short_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub [u8; 8]);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{:016x}", u64::from_be_bytes(self.0))
            }
        }
        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
        impl std::str::FromStr for $name {
            type Err = $crate::keys::ids::NoShortId;
            fn from_str(s: &str) -> Result<Self, Self::Err> {
                $crate::keys::ids::parse_short(s).map(Self)
            }
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let s = std::borrow::Cow::<'de, str>::deserialize(d)?;
                s.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub(super) use short_id;

/// A text that is no id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a key id is 16 hexadecimal digits")]
pub struct NoShortId;

/// The eight bytes of 16 hexadecimal digits.
pub(super) fn parse_short(s: &str) -> Result<[u8; 8], NoShortId> {
    let hex = s.len() == 16 && s.bytes().all(|b| b.is_ascii_hexdigit());
    hex.then(|| u64::from_str_radix(s, 16).ok()).flatten().map(u64::to_be_bytes).ok_or(NoShortId)
}

short_id! {
    /// A key pair: the first eight bytes of SHA-256 over its two public keys.
    PairId
}

/// What kind of secret opens a lock. The numbers are part of what a lock authenticates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum LockKind {
    /// A passphrase.
    Passphrase = 1,
    /// The content of a file.
    KeyFile = 2,
    /// A recovery code, on paper.
    RecoveryCode = 3,
    /// Another key pair, or a newer one of the same ring.
    Recipient = 4,
    /// A kind of a newer Capstan: kept, not opened.
    Unknown = 255,
}

impl fmt::Display for LockKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Passphrase => "passphrase",
            Self::KeyFile => "key file",
            Self::RecoveryCode => "recovery code",
            Self::Recipient => "key pair of another ring",
            Self::Unknown => "secret of unknown kind",
        })
    }
}
