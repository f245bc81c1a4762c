//! Media that are not repaired.

use capstan_address::Address;
use capstan_engine::problem::Explain;
use capstan_format::id::VersionId;

/// Why a medium is not repaired; nothing was written to it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RepairRefusal {
    /// A directory has a member of an array.
    #[error(
        "{0} has a member of an array, whose header is written anew with the member: `capstan rait rebuild`"
    )]
    MemberOfArray(String),
    /// Nothing says which medium is in a directory.
    #[error("neither the {segments} segments in {path} nor the database say which medium it is")]
    UnknownHeader {
        /// The directory.
        path: String,
        /// How many segments it has.
        segments: usize,
    },
    /// What says which medium is in a directory is not of one mind.
    #[error(
        "it is not certain which medium is in {}, so its header is not written anew: its segments are of {of_segments}, the database \
         knows {known} there",
        path
    )]
    UncertainHeader {
        /// The directory.
        path: String,
        /// The media of its segments.
        of_segments: String,
        /// The media that are recorded there.
        known: String,
    },
    /// A session writes to a medium.
    #[error("a session that runs writes version {} to medium '{label}'", version.short())]
    SessionWrites {
        /// The version.
        version: VersionId,
        /// The medium's label.
        label: String,
    },
    /// A medium is to be repaired from itself.
    #[error("'{label}' cannot be repaired from itself")]
    FromItself {
        /// Its label.
        label: String,
    },
    /// Another medium is in the place of the one that is repaired.
    #[error("{device} holds medium '{found}', not '{wanted}'")]
    AnotherThere {
        /// The place.
        device: Address,
        /// The label of the medium that is there.
        found: String,
        /// The label of the one that should be.
        wanted: String,
    },
}

impl Explain for RepairRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::UnknownHeader { .. } => "restore from a copy of what it holds".to_owned(),
            Self::UncertainHeader { .. } => {
                "bring back what belongs there, or move the segments of other media away".to_owned()
            }
            Self::SessionWrites { .. } => "repair it when that is done".to_owned(),
            Self::FromItself { .. } => "name another medium with --from, or none".to_owned(),
            Self::MemberOfArray(_) | Self::AnotherThere { .. } => return None,
        })
    }
}
