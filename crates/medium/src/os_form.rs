//! How errors of the operating system are told to other hosts. One that hands on what a drive said has that in it.

use std::io::Error;

use capstan_engine::os_error::{OsError, kind_of, name_of};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::tape::TapeError;

#[derive(Serialize)]
enum Told<'a> {
    Tape(String, &'a TapeError),
    System(OsError),
}

#[derive(Deserialize)]
enum Heard {
    Tape(String, TapeError),
    System(OsError),
}

/// An error as a value.
#[derive(Debug)]
pub struct Form(pub Error);

impl Serialize for Form {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        serialize(&self.0, s)
    }
}

impl<'de> Deserialize<'de> for Form {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        deserialize(d).map(Self)
    }
}

/// For a field with an error.
pub fn serialize<S: Serializer>(e: &Error, s: S) -> Result<S::Ok, S::Error> {
    let tape = e.get_ref().and_then(|inner| inner.downcast_ref::<TapeError>());
    let told = match tape {
        Some(tape) => Told::Tape(name_of(e.kind()), tape),
        None => Told::System(OsError::from(e)),
    };
    told.serialize(s)
}

/// For a field with an error.
pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Error, D::Error> {
    Ok(match Heard::deserialize(d)? {
        Heard::Tape(kind, tape) => Error::new(kind_of(&kind), tape),
        Heard::System(e) => e.into(),
    })
}
