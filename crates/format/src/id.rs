//! Distinct types for the identities and counts of the medium format.
//!
//! Every identity is 128 random bits. What is random is drawn by the caller: this crate does no I/O.

use std::fmt;
use std::str::FromStr;

/// A text that is not the 32 hexadecimal digits of an identity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not an id of 32 hexadecimal digits")]
pub struct BadId(pub String);

macro_rules! id {
    ($(#[$doc:meta] $name:ident;)*) => {$(
        #[$doc]
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub [u8; 16]);

        impl $name {
            /// The id's bytes as they lie on the medium.
            pub const fn as_bytes(&self) -> &[u8; 16] { &self.0 }
            /// The first eight hexadecimal digits: what people read and type.
            pub fn short(&self) -> String { self.to_string()[..8].to_owned() }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }
        impl FromStr for $name {
            type Err = BadId;
            fn from_str(s: &str) -> Result<Self, BadId> { parse_hex(s).map(Self) }
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
    )*};
}

fn parse_hex(s: &str) -> Result<[u8; 16], BadId> {
    let bad = || BadId(s.chars().take(64).collect());
    if s.len() != 32 || !s.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(bad());
    }
    let mut out = [0; 16];
    for (i, b) in out.iter_mut().enumerate() {
        *b = u8::from_str_radix(&s[2 * i..2 * i + 2], 16).map_err(|_| bad())?;
    }
    Ok(out)
}

id! {
    /// One cell: a home with its internal database, and the media it writes.
    CellId;
    /// One medium: a directory, a tape.
    MediumId;
    /// One segment; given once, before fan-out to mirrors or array members.
    SegmentId;
    /// One session: one run of a backup.
    SessionId;
    /// One object: what is backed up, through all its versions.
    ObjectId;
    /// One object version: its state from one session (or from that and those that resumed it).
    VersionId;
    /// One run of one stream: the origin of its frames, for life.
    StreamId;
    /// One session key pair (names and contents).
    KeyId;
}

/// The place of a segment in the order of one medium, from 1. A hint, not an identity.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct SegmentNumber(pub u32);

/// The place of a block in its segment, from 0 (the segment's header block).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct BlockIndex(pub u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_read_back_what_they_print() {
        let id = MediumId([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 254, 255]);
        assert_eq!(id.to_string().parse::<MediumId>().unwrap(), id);
        assert!("0".parse::<MediumId>().is_err());
        assert!("é".repeat(16).parse::<MediumId>().is_err());
        assert!("+1".repeat(16).parse::<MediumId>().is_err());
    }
}
