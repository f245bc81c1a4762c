//! The one error of this crate: what is wrong with bytes that claim to be part of a medium.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Why bytes are not what the format says they should be. Nothing read from a medium causes a panic.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FormatError {
    /// The bytes do not begin with the magic of the thing expected.
    #[error("no {0} here")]
    NotA(&'static str),
    /// A checksum does not hold.
    #[error("the checksum of the {0} does not match: it is damaged")]
    Checksum(&'static str),
    /// The bytes end before the thing does.
    #[error("the {0} is cut short")]
    Truncated(&'static str),
    /// A value is outside what the format allows.
    #[error("the {0} holds a value the format does not allow")]
    Invalid(&'static str),
    /// Bytes that must be zero are not.
    #[error("the padding of the {0} is not zero: it is damaged")]
    Padding(&'static str),
    /// Written by a newer version of the format.
    #[error("the {what} is of format version {found}, this program reads up to {known}{then}", then = then(self.hint()))]
    Newer {
        /// What was read.
        what: Cow<'static, str>,
        /// The version found.
        found: u32,
        /// The newest version known.
        known: u32,
    },
    /// An incompatible feature bit is set that this version does not know.
    #[error("the medium uses features {0:#x} that this program does not know{then}", then = then(self.hint()))]
    UnknownFeatures(u64),
    /// A frame is encrypted and no key, or not the right one, is at hand.
    #[error("the {0} is encrypted and the key at hand does not open it")]
    Sealed(&'static str),
    /// Compressed data does not decompress to what was promised.
    #[error("the compressed {0} does not unpack to its stated length: it is damaged")]
    Codec(&'static str),
    /// What was read on another host is not what it should be, in its words.
    #[error("{0}")]
    Told(String),
}

/// The error as it is told to another host.
#[derive(Serialize, Deserialize)]
enum Form<'a> {
    Newer { what: Cow<'a, str>, found: u32, known: u32 },
    UnknownFeatures(u64),
    Told(String),
}

impl Serialize for FormatError {
    fn serialize<S: Serializer>(&self, s: S) -> std::result::Result<S::Ok, S::Error> {
        let form = match self {
            Self::Newer { what, found, known } => {
                Form::Newer { what: what.as_ref().into(), found: *found, known: *known }
            }
            Self::UnknownFeatures(bits) => Form::UnknownFeatures(*bits),
            other => Form::Told(other.to_string()),
        };
        form.serialize(s)
    }
}

impl<'de> Deserialize<'de> for FormatError {
    fn deserialize<D: Deserializer<'de>>(d: D) -> std::result::Result<Self, D::Error> {
        Ok(match Form::deserialize(d)? {
            Form::Newer { what, found, known } => {
                Self::Newer { what: what.into_owned().into(), found, known }
            }
            Form::UnknownFeatures(bits) => Self::UnknownFeatures(bits),
            Form::Told(text) => Self::Told(text),
        })
    }
}

impl FormatError {
    /// What to do about it, where that is known.
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Newer { .. } | Self::UnknownFeatures(_) => "use a newer capstan".to_owned(),
            Self::NotA(_)
            | Self::Checksum(_)
            | Self::Truncated(_)
            | Self::Invalid(_)
            | Self::Padding(_)
            | Self::Sealed(_)
            | Self::Codec(_)
            | Self::Told(_) => return None,
        })
    }
}

/// How a hint follows a sentence in a text; nothing where there is none.
pub fn then(hint: Option<String>) -> String {
    hint.map_or_else(String::new, |hint| format!("; {hint}"))
}

/// A result with [`FormatError`].
pub type Result<T> = std::result::Result<T, FormatError>;
