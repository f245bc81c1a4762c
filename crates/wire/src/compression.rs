//! How a session compresses, as it is asked for.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use capstan_engine::problem::{Explain, then};
use capstan_format::codec::Method;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Levels of Zstandard, from the fastest to the strongest.
const LEVELS: RangeInclusive<i32> = -7..=19;
/// The level where none is said: Zstandard's own.
const LEVEL: i32 = 3;

/// How to compress. In text and JSON: `off`, `auto`, `lz4`, `zstd:LEVEL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Off,
    /// As hard as what limits allows.
    Auto,
    /// Always by that method.
    Fixed(Method),
}

/// What is no way to compress.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCompression {
    /// There is no such method.
    #[error("unknown compression method '{0}'{then}", then = then(self.hint()))]
    Method(String),
    /// The method has no such level.
    #[error("'{0}' is not a level of zstd{then}", then = then(self.hint()))]
    Level(String),
}

impl Explain for BadCompression {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Method(_) => "use off, auto, lz4 or zstd[:LEVEL]".to_owned(),
            Self::Level(_) => "use zstd:-7 to zstd:19".to_owned(),
        })
    }
}

impl FromStr for Compression {
    type Err = BadCompression;

    fn from_str(text: &str) -> Result<Self, BadCompression> {
        let (method, level) =
            text.split_once(':').map_or((text, None), |(method, level)| (method, Some(level)));
        match (method, level) {
            ("off", None) => Ok(Self::Off),
            ("auto", None) => Ok(Self::Auto),
            ("lz4", None) => Ok(Self::Fixed(Method::Lz4)),
            ("zstd", None) => Ok(Self::Fixed(Method::Zstd(LEVEL))),
            ("zstd", Some(level)) => {
                let number = level.parse().ok().filter(|level| LEVELS.contains(level));
                let found = number.map(|level| Self::Fixed(Method::Zstd(level)));
                found.ok_or_else(|| BadCompression::Level(level.to_owned()))
            }
            _ => Err(BadCompression::Method(text.to_owned())),
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off | Self::Fixed(Method::Store) => f.write_str("off"),
            Self::Auto => f.write_str("auto"),
            Self::Fixed(Method::Lz4) => f.write_str("lz4"),
            Self::Fixed(Method::Zstd(level)) => write!(f, "zstd:{level}"),
        }
    }
}

impl Serialize for Compression {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Compression {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(d)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_has_one_text() {
        for (text, means) in [
            ("off", Compression::Off),
            ("auto", Compression::Auto),
            ("lz4", Compression::Fixed(Method::Lz4)),
            ("zstd:3", Compression::Fixed(Method::Zstd(3))),
            ("zstd:-7", Compression::Fixed(Method::Zstd(-7))),
            ("zstd:19", Compression::Fixed(Method::Zstd(19))),
        ] {
            assert_eq!(text.parse(), Ok(means));
            assert_eq!(means.to_string(), text);
        }
        assert_eq!("zstd".parse(), Ok(Compression::Fixed(Method::Zstd(3))));
    }

    #[test]
    fn what_is_none_is_refused_with_what_there_is() {
        let refused = |text: &str| text.parse::<Compression>().unwrap_err().to_string();
        for text in ["zstd:20", "zstd:-8", "zstd:x", "zstd:"] {
            assert!(refused(text).contains("zstd:-7 to zstd:19"), "{text}");
        }
        for text in ["gzip", "lz4:1", "off:", "", "AUTO"] {
            assert!(refused(text).contains("off, auto, lz4 or zstd[:LEVEL]"), "{text}");
        }
    }
}
