//! Names of files in JSON: as text where they are UTF-8, as they mostly are, else as the list of their bytes.

use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A name or path being encoded.
struct Name<'a>(&'a [u8]);

impl Serialize for Name<'_> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match std::str::from_utf8(self.0) {
            Ok(text) => s.serialize_str(text),
            Err(_) => s.collect_seq(self.0),
        }
    }
}

/// One that was decoded.
struct Owned(Vec<u8>);

impl<'de> Deserialize<'de> for Owned {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        d.deserialize_any(OfName)
    }
}

struct OfName;

impl<'de> Visitor<'de> for OfName {
    type Value = Owned;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a text, or a list of bytes")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Owned, E> {
        Ok(Owned(text.as_bytes().to_vec()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut of: A) -> Result<Owned, A::Error> {
        let mut bytes = Vec::new();
        while let Some(byte) = of.next_element()? {
            bytes.push(byte);
        }
        Ok(Owned(bytes))
    }
}

/// For a field with a name.
pub fn serialize<S: Serializer>(name: &[u8], s: S) -> Result<S::Ok, S::Error> {
    Name(name).serialize(s)
}

/// For a field with a name.
pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<u8>, D::Error> {
    Owned::deserialize(d).map(|name| name.0)
}

/// For a field with a list of names.
pub mod list {
    use super::{Deserialize, Deserializer, Name, Owned, Serializer};

    /// For a field with a list of names.
    pub fn serialize<S: Serializer>(names: &[Vec<u8>], s: S) -> Result<S::Ok, S::Error> {
        s.collect_seq(names.iter().map(|name| Name(name)))
    }

    /// For a field with a list of names.
    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Vec<u8>>, D::Error> {
        let names = Vec::<Owned>::deserialize(d)?;
        Ok(names.into_iter().map(|name| name.0).collect())
    }
}
