//! Stores: devices that are read at random, and in which the medium stays where it is.
//!
//! A directory is one. A kind of store is told by what the names of its stores begin with. What a store is made of is the business of the
//! device host that has it: here it is a kind and a text.

use std::fmt;
use std::path::{Path, PathBuf};

/// What the names of directories begin with.
pub const DIRECTORY: &str = "file";
/// What the names of stores in memory begin with.
pub const MEMORY: &str = "mem";

/// A kind of store.
struct Kind {
    /// What the names of its stores begin with.
    name: &'static str,
    /// Nobody gives such a name on a command line. A device host has the kind only where a test gave it one.
    is_for_tests: bool,
}

/// All kinds of stores. A device host says which of them it drives.
const KINDS: &[Kind] =
    &[Kind { name: DIRECTORY, is_for_tests: false }, Kind { name: MEMORY, is_for_tests: true }];

/// Who wrote the name of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// Somebody who uses the program.
    Person,
    /// The program, in its database or in a message.
    Program,
}

/// A store: its kind, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct StoreAddress {
    kind: &'static str,
    place: PathBuf,
}

impl StoreAddress {
    /// What its name begins with.
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Where it is: what its name has behind the kind.
    pub fn place(&self) -> &Path {
        &self.place
    }

    /// A store of the same kind at another place.
    pub fn at(&self, place: impl Into<PathBuf>) -> Self {
        Self { kind: self.kind, place: place.into() }
    }

    /// The directory that it is, if it is one.
    pub fn directory(&self) -> Option<&Path> {
        (self.kind == DIRECTORY).then_some(&*self.place)
    }

    /// What a medium in it is called if nobody says: as the last part of its place.
    pub fn last_part(&self) -> Option<String> {
        self.place.file_name().map(|name| name.to_string_lossy().into_owned())
    }

    /// As it is shown: a directory by its path alone.
    pub fn shown(&self) -> String {
        match self.directory() {
            Some(path) => path.display().to_string(),
            None => self.to_string(),
        }
    }

    /// The same as it is recorded: a directory by its whole path, with symbolic links followed where it is there.
    pub fn recorded(&self) -> Self {
        self.directory().map_or_else(|| self.clone(), |path| self.at(crate::whole(path)))
    }

    /// The same whatever the working directory is; links are not followed.
    pub fn absolute(&self) -> Self {
        let path = self.directory().and_then(|path| std::path::absolute(path).ok());
        path.map_or_else(|| self.clone(), |path| self.at(path))
    }

    /// Reads a name that begins as that of a store does.
    pub(crate) fn parse(text: &str, writer: Writer) -> Option<Self> {
        let (name, place) = text.split_once(':')?;
        let kind = KINDS.iter().find(|kind| kind.name == name)?;
        let may_be = writer == Writer::Program || !kind.is_for_tests;
        (may_be && !place.is_empty()).then(|| Self { kind: kind.name, place: place.into() })
    }
}

/// A directory.
impl From<PathBuf> for StoreAddress {
    fn from(place: PathBuf) -> Self {
        Self { kind: DIRECTORY, place }
    }
}

/// A directory.
impl From<&Path> for StoreAddress {
    fn from(place: &Path) -> Self {
        place.to_owned().into()
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.kind, self.place.display())
    }
}

#[cfg(test)]
mod tests {
    use crate::Address;

    #[test]
    fn only_the_program_names_what_is_for_tests() {
        for text in ["mem:a", "rait1:mem:a,mem:b", "rait1:mem:a,/b"] {
            assert!(text.parse::<Address>().is_err(), "{text}");
            let recorded = Address::of_record(text.to_owned());
            assert!(recorded.is_on_stores(), "{text}");
            assert_eq!(Address::of_record(recorded.to_string()), recorded);
        }
        let memory = Address::of_record("mem:a/b".to_owned());
        assert_eq!((memory.to_string().as_str(), memory.recorded()), ("mem:a/b", memory.clone()));
        assert!(memory.directories().is_empty() && memory.stores().len() == 1);
        let store = memory.as_store().unwrap();
        assert_eq!((store.shown().as_str(), store.directory()), ("mem:a/b", None));
        assert_eq!(store.last_part().as_deref(), Some("b"));
        assert!(matches!(Address::of_record("mem:".to_owned()), Address::Unknown(_)));
    }
}
