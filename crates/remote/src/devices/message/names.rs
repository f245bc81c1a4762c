//! Names of devices and stores in messages.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use capstan_address::{Address, LibraryName, StoreAddress, TapeAddress};
use capstan_medium::form;
use capstan_wire::as_text;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// A device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Dev(#[serde(with = "form::device")] pub Address);

/// A library, or a drive that stands alone.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Lib(#[serde(with = "form::text")] pub LibraryName);

/// A tape.
#[derive(Debug, Clone)]
pub struct TapeName(pub TapeAddress);

/// A store.
#[derive(Debug, Clone)]
pub struct Store(pub StoreAddress);

/// A store in a message.
#[derive(Serialize, Deserialize)]
struct StoreForm {
    kind: String,
    place: Dir,
}

impl From<&StoreAddress> for Store {
    fn from(of: &StoreAddress) -> Self {
        Self(of.clone())
    }
}

impl Serialize for Store {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let (kind, place) = (self.0.kind().to_owned(), self.0.place().into());
        StoreForm { kind, place }.serialize(s)
    }
}

impl<'de> Deserialize<'de> for Store {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let StoreForm { kind, place } = StoreForm::deserialize(d)?;
        match Address::of_record(format!("{kind}:x")) {
            Address::Store(store) if store.kind() == kind => Ok(Self(store.at(place.0))),
            _ => Err(de::Error::custom("it is no kind of store that is known here")),
        }
    }
}

/// A path of the device host.
#[derive(Debug, Clone)]
pub struct Dir(pub PathBuf);

impl From<&Address> for Dev {
    fn from(of: &Address) -> Self {
        Self(of.clone())
    }
}

impl From<&LibraryName> for Lib {
    fn from(of: &LibraryName) -> Self {
        Self(of.clone())
    }
}

impl From<&TapeAddress> for TapeName {
    fn from(of: &TapeAddress) -> Self {
        Self(of.clone())
    }
}

impl From<&Path> for Dir {
    fn from(of: &Path) -> Self {
        Self(of.to_owned())
    }
}

impl Serialize for TapeName {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for TapeName {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = String::deserialize(d)?;
        match text.parse() {
            Ok(Address::Tape(tape)) => Ok(Self(tape)),
            Ok(_) => Err(de::Error::custom("it is no tape")),
            Err(e) => Err(de::Error::custom(e)),
        }
    }
}

impl Serialize for Dir {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        as_text::serialize(self.0.as_os_str().as_bytes(), s)
    }
}

impl<'de> Deserialize<'de> for Dir {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        as_text::deserialize(d).map(|bytes| Self(OsString::from_vec(bytes).into()))
    }
}
