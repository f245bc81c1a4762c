//! Names of hosts.

use std::fmt;
use std::ops::Deref;
use std::str::FromStr;

use capstan_engine::problem::{Explain, then};

/// The longest name, in bytes.
const MOST: usize = 255;

/// What a host is called in its cell.
///
/// A name that somebody gives is checked ([`FromStr`]). One that is on record, or that the system gives, is taken as it is
/// ([`Self::recorded`]).
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(transparent)]
pub struct HostName(String);

/// A text that is no name of a host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{}' is no host's name{then}", .0.escape_debug(), then = then(self.hint()))]
pub struct NoHostName(String);

impl Explain for NoHostName {
    fn hint(&self) -> Option<String> {
        Some("write it as `uname -n` gave it".to_owned())
    }
}

impl HostName {
    /// A name that is on record.
    pub fn recorded(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for HostName {
    type Err = NoHostName;

    fn from_str(text: &str) -> Result<Self, NoHostName> {
        let is_of_name = |c: char| !c.is_whitespace() && !c.is_control();
        match !text.is_empty() && text.len() <= MOST && text.chars().all(is_of_name) {
            true => Ok(Self(text.to_owned())),
            false => Err(NoHostName(text.to_owned())),
        }
    }
}

impl Deref for HostName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl From<HostName> for String {
    fn from(name: HostName) -> Self {
        name.0
    }
}

impl PartialEq<str> for HostName {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<String> for HostName {
    fn eq(&self, other: &String) -> bool {
        self.0 == *other
    }
}

impl PartialEq<HostName> for String {
    fn eq(&self, other: &HostName) -> bool {
        *self == other.0
    }
}

impl PartialEq<&Self> for HostName {
    fn eq(&self, other: &&Self) -> bool {
        self.0 == other.0
    }
}

impl PartialEq<&str> for HostName {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_given_is_checked_and_one_on_record_is_not() {
        assert_eq!("web1.example.org".parse::<HostName>().unwrap(), "web1.example.org");
        let long = "x".repeat(256);
        for wrong in ["", "two words", "a\nb", "bell\u{7}", &long] {
            let error = wrong.parse::<HostName>().unwrap_err();
            assert!(error.to_string().contains("is no host's name"), "{error}");
            assert_eq!(HostName::recorded(wrong), *wrong);
        }
    }
}
