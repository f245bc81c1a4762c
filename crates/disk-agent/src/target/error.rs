//! What can go wrong with one file of a restore.

use capstan_engine::problem::{Explain, then};

use std::fmt::{self, Write as _};
use std::io::ErrorKind;

use crate::linux::restore::Errno;

/// A path as bytes, shown so that a terminal and a log stand it: what is no UTF-8 and control
/// characters as `\xNN`, a backslash doubled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShownPath(pub Vec<u8>);

impl fmt::Display for ShownPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("the target directory");
        }
        for chunk in self.0.utf8_chunks() {
            for c in chunk.valid().chars() {
                match c {
                    '\\' => f.write_str("\\\\")?,
                    c if c.is_control() => {
                        let mut utf8 = [0; 4];
                        for byte in c.encode_utf8(&mut utf8).bytes() {
                            write!(f, "\\x{byte:02x}")?;
                        }
                    }
                    c => f.write_char(c)?,
                }
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

/// Why a file, or something of it, could not be restored. Others are not concerned.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// The operating system refused.
    #[error("cannot {doing} {path}: {source}{then}", then = then(self.hint()))]
    Io {
        /// The path below the target.
        path: ShownPath,
        /// What was being done, to follow "cannot".
        doing: &'static str,
        /// What the system said.
        source: std::io::Error,
    },
    /// What is there is of a kind that is not replaced.
    #[error("{path} is {found} where {wanted} belongs and was left as it is{then}", then = then(self.hint()))]
    Conflict {
        /// The path below the target of what is in the way.
        path: ShownPath,
        /// What it is.
        found: &'static str,
        /// What belongs there.
        wanted: &'static str,
    },
    /// A name that no file can have, or that would lead elsewhere.
    #[error("'{path}' is not restored, for {why}{then}", then = then(self.hint()))]
    BadName {
        /// The name, or the path that has it.
        path: ShownPath,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl Explain for TargetError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Conflict { .. } => "move it away, or restore into another directory".to_owned(),
            Self::BadName { .. } => {
                "the medium is damaged or was tampered with: verify it".to_owned()
            }
            Self::Io { source, .. } => return hint(source).map(str::to_owned),
        })
    }
}

impl TargetError {
    pub(crate) fn io(doing: &'static str, path: Vec<u8>, errno: Errno) -> Self {
        Self::Io { path: ShownPath(path), doing, source: errno.into() }
    }

    /// The path below the target that it speaks of.
    pub fn path(&self) -> &[u8] {
        match self {
            Self::Io { path, .. } | Self::Conflict { path, .. } | Self::BadName { path, .. } => {
                &path.0
            }
        }
    }

    /// Whether what it speaks of is not there.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Io { source, .. } if source.kind() == ErrorKind::NotFound)
    }

    /// Whether the target is full: going on with other files is of little use.
    pub fn is_no_space(&self) -> bool {
        // An attribute may be too large for a file system that has room.
        matches!(self, Self::Io { source, doing, .. } if !doing.contains("attribute")
            && matches!(source.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded))
    }
}

fn hint(source: &std::io::Error) -> Option<&'static str> {
    Some(match source.kind() {
        ErrorKind::PermissionDenied => {
            "restore as a user who may write there, and see with lsattr whether it is immutable"
        }
        ErrorKind::StorageFull => "free space there, then restore what is missing",
        ErrorKind::QuotaExceeded => "have the quota raised, then restore what is missing",
        ErrorKind::ReadOnlyFilesystem => "mount it writable, or restore into another directory",
        ErrorKind::InvalidFilename => "restore to a file system that takes such long names",
        ErrorKind::FileTooLarge => {
            "raise the limit (ulimit -f), or restore to a file system that takes such large files"
        }
        ErrorKind::NotADirectory => "restore into another directory",
        ErrorKind::NotFound => {
            "see whether something removes it, or restore into another directory"
        }
        ErrorKind::TooManyLinks => "restore to a file system that takes so many links of a file",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_shown_safely() {
        let path = ShownPath(b"a\xffb/\x1b[31m\\\xc3\xa4\xc2\x85".to_vec());
        assert_eq!(path.to_string(), "a\\xffb/\\x1b[31m\\\\ä\\xc2\\x85");
    }

    #[test]
    fn message_names_path_and_remedy() {
        let e = TargetError::io("write", b"d/f".to_vec(), Errno::NOSPC);
        let text = e.to_string();
        assert!(text.starts_with("cannot write d/f: No space left"), "{text}");
        assert!(text.ends_with("free space there, then restore what is missing"), "{text}");
        assert!(e.is_no_space());
        let e = TargetError::io("set an extended attribute of", b"f".to_vec(), Errno::NOSPC);
        assert!(!e.is_no_space());
    }
}
