//! How versions are, as far as is known: complete or not, whole or damaged.

use std::collections::HashSet;

use capstan_format::id::VersionId;
use capstan_idb::{Status, Version};

use crate::Cell;
use crate::error::Result;
use crate::versions::damaged::UnsoundVersions;

/// How a version is, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VersionState {
    /// All of it is there.
    Completed,
    /// Something could not be backed up.
    WithErrors,
    /// Its session came to no end: what it had committed is there.
    Incomplete,
    /// A medium has lost something of it for good.
    NotWhole,
    /// Some of it is only on media that were retired or exported, and do not have it or are not at hand.
    NotAtHand,
    /// Some of it is damaged, and no other medium has that.
    Damaged,
}

impl VersionState {
    /// The words for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::WithErrors => "completed with errors",
            Self::Incomplete => "incomplete",
            Self::NotWhole => "not whole",
            Self::NotAtHand => "not at hand",
            Self::Damaged => "damaged",
        }
    }
}

/// What is known of all versions.
pub(crate) struct States {
    lost: HashSet<VersionId>,
    unsound: UnsoundVersions,
}

impl States {
    /// How a version is.
    pub fn of(&self, version: &Version) -> VersionState {
        match version.status {
            _ if self.unsound.damaged.contains_key(&version.id) => VersionState::Damaged,
            _ if self.unsound.out_of_use.contains_key(&version.id) => VersionState::NotAtHand,
            _ if self.lost.contains(&version.id) => VersionState::NotWhole,
            _ if !version.is_complete_by(None) => VersionState::Incomplete,
            Status::Completed => VersionState::Completed,
            _ => VersionState::WithErrors,
        }
    }
}

impl Cell {
    /// How all versions are.
    pub(crate) fn states(&self) -> Result<States> {
        let lost = self.idb.lost_versions()?.iter().map(|of| of.version).collect();
        let unsound = self.with_changed_tapes(self.unsound_places()?)?.of_this_host();
        Ok(States { lost, unsound: self.unsound_versions(&unsound)? })
    }
}
