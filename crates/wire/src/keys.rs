//! The keys that a job is given: those of one session, and no others.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use capstan_format::id::KeyId;
use capstan_format::keys::Cipher;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

/// The key of a session that opens the contents of its frames.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionKey {
    /// Which key it is, by the label of the session.
    pub id: KeyId,
    /// The key.
    pub contents: SecretKey,
    /// What it is used with.
    pub cipher: Cipher,
}

/// A key that opens frames: those of names and metadata, or those of contents.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FrameKey {
    /// Which key it is, by the label of the session.
    pub id: KeyId,
    /// Whether it opens names and metadata; else contents.
    pub is_of_names: bool,
    /// The key.
    pub key: SecretKey,
    /// What it is used with.
    pub cipher: Cipher,
}

/// A secret of 32 bytes; wiped when it is dropped, and not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretKey(pub Zeroizing<[u8; 32]>);

impl fmt::Debug for SecretKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretKey")
    }
}

impl Serialize for SecretKey {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_str(&Zeroizing::new(STANDARD.encode(self.0.as_slice())))
    }
}

impl<'de> Deserialize<'de> for SecretKey {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = Zeroizing::new(String::deserialize(d)?);
        let mut key = Zeroizing::new([0; 32]);
        let decoded = STANDARD.decode_slice(text.as_bytes(), key.as_mut_slice());
        match decoded {
            Ok(32) => Ok(Self(key)),
            // The error of the decoder would show a byte of it.
            _ => Err(serde::de::Error::custom("a key is not 32 bytes in base64")),
        }
    }
}

/// The keys of one encrypted session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobKeys {
    /// Seals names and metadata.
    pub names: SecretKey,
    /// Seals contents.
    pub contents: SecretKey,
    /// What they are used with.
    pub cipher: Cipher,
}
