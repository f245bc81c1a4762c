//! Errors of the operating system as values, for who hears of them on another host: the same kind, and the same words.

use std::io::{Error, ErrorKind};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An error of the operating system, or of what reads and writes files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct OsError {
    /// Its number on Linux.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<i32>,
    /// Its kind, where it has no number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Its words, where they do not follow from these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Kinds that an error may have without a number. What is not named here is [`ErrorKind::Other`].
const KINDS: [ErrorKind; 31] = [
    ErrorKind::NotFound,
    ErrorKind::PermissionDenied,
    ErrorKind::ConnectionRefused,
    ErrorKind::ConnectionReset,
    ErrorKind::HostUnreachable,
    ErrorKind::NetworkUnreachable,
    ErrorKind::ConnectionAborted,
    ErrorKind::NotConnected,
    ErrorKind::AddrInUse,
    ErrorKind::NetworkDown,
    ErrorKind::BrokenPipe,
    ErrorKind::AlreadyExists,
    ErrorKind::WouldBlock,
    ErrorKind::NotADirectory,
    ErrorKind::IsADirectory,
    ErrorKind::DirectoryNotEmpty,
    ErrorKind::ReadOnlyFilesystem,
    ErrorKind::StaleNetworkFileHandle,
    ErrorKind::InvalidInput,
    ErrorKind::InvalidData,
    ErrorKind::TimedOut,
    ErrorKind::WriteZero,
    ErrorKind::StorageFull,
    ErrorKind::QuotaExceeded,
    ErrorKind::FileTooLarge,
    ErrorKind::ResourceBusy,
    ErrorKind::Deadlock,
    ErrorKind::Interrupted,
    ErrorKind::Unsupported,
    ErrorKind::UnexpectedEof,
    ErrorKind::OutOfMemory,
];

/// The name of a kind.
pub fn name_of(kind: ErrorKind) -> String {
    format!("{kind:?}")
}

/// The kind of that name.
pub fn kind_of(name: &str) -> ErrorKind {
    KINDS.into_iter().find(|kind| name_of(*kind) == name).unwrap_or(ErrorKind::Other)
}

impl From<&Error> for OsError {
    fn from(e: &Error) -> Self {
        match e.raw_os_error() {
            Some(number) => Self { number: Some(number), ..Self::default() },
            None => {
                let text = e.get_ref().map(ToString::to_string);
                Self { number: None, kind: Some(name_of(e.kind())), text }
            }
        }
    }
}

impl From<OsError> for Error {
    fn from(e: OsError) -> Self {
        let kind = e.kind.as_deref().map_or(ErrorKind::Other, kind_of);
        match (e.number, e.text) {
            (Some(number), _) => Self::from_raw_os_error(number),
            (None, Some(text)) => Self::new(kind, text),
            (None, None) => kind.into(),
        }
    }
}

/// For a field with an error.
pub fn serialize<S: Serializer>(e: &Error, s: S) -> Result<S::Ok, S::Error> {
    OsError::from(e).serialize(s)
}

/// For a field with an error.
pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Error, D::Error> {
    OsError::deserialize(d).map(Error::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_crossed_reads_as_before() {
        let named = KINDS.into_iter().map(Error::from);
        let told = KINDS.into_iter().map(|kind| Error::new(kind, "what it says"));
        let numbered = (1..40).map(Error::from_raw_os_error);
        for e in named.chain(told).chain(numbered).chain([Error::other("else")]) {
            let again = Error::from(OsError::from(&e));
            assert_eq!((again.kind(), again.to_string()), (e.kind(), e.to_string()));
            assert_eq!(again.raw_os_error(), e.raw_os_error());
        }
    }
}
