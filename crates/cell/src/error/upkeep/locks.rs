//! Locks of versions.

use capstan_engine::problem::{Explain, Problem};

/// Why a version is not locked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LockRefusal {
    /// A lock was to become shorter.
    #[error("{version} is locked until {until} already: a lock can be prolonged, not shortened")]
    Shortened {
        /// The version.
        version: String,
        /// Until when it is locked.
        until: String,
    },
    /// A version that was to be locked is not complete.
    #[error("{version} is not complete ({status})")]
    NotComplete {
        /// The version.
        version: String,
        /// How its backup ended.
        status: String,
    },
    /// A version that was to be locked is not recorded.
    #[error("'{name}' is not recorded")]
    NotRecorded {
        /// What it is called.
        name: String,
    },
    /// No medium takes the lock of a part of a version.
    #[error("{version} cannot be locked: {why}")]
    NotOnMedia {
        /// The version.
        version: String,
        /// Why a medium does not take it.
        why: String,
    },
    /// A medium cannot record locks.
    #[error("{medium} is an array of tapes and directories, which records no lock")]
    RecordsNone {
        /// The medium.
        medium: String,
    },
    /// A tape on which a lock was to be recorded is away.
    #[error("tape '{label}': {}", why.sentence)]
    TapeAway {
        /// Its label.
        label: String,
        /// Where it is.
        why: Problem,
    },
}

impl Explain for LockRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Shortened { .. } => "name a later time".to_owned(),
            Self::NotComplete { .. } => "lock one that is, or go on with it first".to_owned(),
            Self::TapeAway { why, .. } => return why.hint.clone(),
            Self::NotRecorded { .. } | Self::NotOnMedia { .. } => return None,
            Self::RecordsNone { .. } => {
                "copy the version to another medium, and lock it then".to_owned()
            }
        })
    }
}
