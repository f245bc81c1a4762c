//! What each side of a connection says first: which version of the protocol it speaks, and what else it can.

use serde::{Deserialize, Serialize};

/// The newest version of the protocol that this program speaks.
pub const PROTOCOL: u32 = 1;
/// The oldest one.
pub const OLDEST_PROTOCOL: u32 = 1;

/// The first message of each side. Its fields never change their meaning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// The newest version of the protocol that the sender speaks.
    pub protocol: u32,
    /// The oldest one.
    pub oldest: u32,
    /// The program's version, for people.
    pub program: String,
    /// What it can do beyond its protocol's version.
    #[serde(default)]
    pub capabilities: Vec<String>,
}

/// The two sides have no version of the protocol in common.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the other side runs capstan {program}, which speaks versions {oldest} to {newest} of the protocol; this one speaks {OLDEST_PROTOCOL} to {PROTOCOL}; bring both to the same version"
)]
pub struct NoCommonVersion {
    program: String,
    oldest: u32,
    newest: u32,
}

impl Default for Hello {
    fn default() -> Self {
        Self {
            protocol: PROTOCOL,
            oldest: OLDEST_PROTOCOL,
            program: env!("CARGO_PKG_VERSION").to_owned(),
            capabilities: Vec::new(),
        }
    }
}

impl Hello {
    /// The version that both speak: the newest one.
    pub fn common(&self) -> Result<u32, NoCommonVersion> {
        let version = self.protocol.min(PROTOCOL);
        match version >= self.oldest.max(OLDEST_PROTOCOL) {
            true => Ok(version),
            false => Err(NoCommonVersion {
                program: self.program.chars().take(64).filter(|c| !c.is_control()).collect(),
                oldest: self.oldest,
                newest: self.protocol,
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_common_version_is_spoken() {
        let of = |oldest, protocol| Hello { protocol, oldest, ..Hello::default() }.common();
        assert_eq!(of(1, 1), Ok(1));
        assert_eq!(of(1, 7), Ok(1));
        assert!(of(2, 7).unwrap_err().to_string().contains("versions 2 to 7"));
        assert!(of(0, 0).is_err());
    }

    #[test]
    fn its_form_never_changes_and_unknown_fields_are_left_alone() {
        let hello =
            br#"{"protocol":1,"oldest":1,"program":"0.1.0","capabilities":[],"more":{"x":1}}"#;
        let hello: Hello = crate::decode(hello).unwrap();
        assert_eq!((hello.protocol, hello.oldest), (1, 1));
        let hello: Hello = crate::decode(br#"{"protocol":1,"oldest":1,"program":"x"}"#).unwrap();
        assert!(hello.capabilities.is_empty());
    }
}
