//! Copies and consolidations that are not made.

use std::path::PathBuf;

use capstan_address::LibraryName;
use capstan_engine::problem::Explain;

/// Why nothing is copied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CopyRefusal {
    /// The null device is to get a copy.
    #[error("the null device keeps no copy")]
    NullKeepsNoCopy,
    /// A session wrote nothing that could be copied.
    #[error("session '{prefix}' wrote nothing that could be copied")]
    NothingWritten {
        /// What the session's id begins with.
        prefix: String,
    },
    /// A library has no drive to read one tape while it writes another.
    #[error(
        "medium '{label}' cannot be read while {target} is written: {library} has no drive for it beside"
    )]
    NoDriveToRead {
        /// The label of the medium that is to be read.
        label: String,
        /// What is to be written.
        target: String,
        /// The library.
        library: LibraryName,
    },
}

impl Explain for CopyRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NullKeepsNoCopy => "name a directory".to_owned(),
            Self::NothingWritten { .. } => "name one of kind backup".to_owned(),
            Self::NoDriveToRead { .. } => {
                "name a library with a drive of its own, or a directory".to_owned()
            }
        })
    }
}

/// Why no full is made of a chain.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConsolidateRefusal {
    /// A version builds on nothing.
    #[error("that version of '{name}' is a full one already, there is nothing to consolidate")]
    FullAlready {
        /// The object.
        name: String,
    },
    /// A version is not whole.
    #[error("that version of '{name}' is not whole, and no full is made of it: {why}")]
    NotWhole {
        /// The object.
        name: String,
        /// What of it is lost.
        why: String,
    },
    /// A version is encrypted, and nothing encrypts what is made of it.
    #[error("'{name}' is encrypted, and there is no key ring in {} to encrypt what is made of it", home.display())]
    NoRing {
        /// The object.
        name: String,
        /// The home.
        home: PathBuf,
    },
    /// The null device is to get the full.
    #[error("the null device keeps nothing to restore from")]
    NullKeepsNothing,
    /// Nothing says where the full goes.
    #[error("it is not known on which device the version is")]
    UnknownTarget,
    /// A tape is to be read and written at a time.
    #[error(
        "tape '{label}' has what is to be consolidated, and cannot be read and written at a time"
    )]
    SourceIsTarget {
        /// Its label.
        label: String,
    },
    /// Versions refer to what the full does not have.
    #[error(
        "files were moved since, and versions that build on it refer to {frames} frames that the full does not have"
    )]
    LacksReferred {
        /// How many frames.
        frames: u64,
    },
}

impl Explain for ConsolidateRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::FullAlready { .. } => "`capstan copy` puts it on another medium".to_owned(),
            Self::NotWhole { .. } => "name another version".to_owned(),
            Self::NoRing { .. } => "take it over with `capstan key import`".to_owned(),
            Self::NullKeepsNothing => "name a directory".to_owned(),
            Self::UnknownTarget => "name one with --to".to_owned(),
            Self::SourceIsTarget { .. } => {
                "name its library, another tape or a directory with --to".to_owned()
            }
            Self::LacksReferred { .. } => return None,
        })
    }
}
