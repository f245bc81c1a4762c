//! What sessions do not do while others use the same versions.

use capstan_engine::problem::Explain;
use capstan_format::id::VersionId;

/// Why a session leaves a version or medium alone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefusal {
    /// A version that is to be read was given up.
    #[error("version {} has expired and may be removed at any time", version.short())]
    VersionExpired {
        /// The version.
        version: VersionId,
    },
    /// No client is called so.
    #[error("'{host}' is no client of this cell")]
    UnknownClient {
        /// What was asked for.
        host: String,
    },
    /// Somebody reads a version of which something lies on a medium.
    #[error("{reader} reads {version}, which has something on medium '{label}'")]
    MediumRead {
        /// Who reads.
        reader: String,
        /// The version.
        version: String,
        /// The medium's label.
        label: String,
    },
}

impl Explain for SessionRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::VersionExpired { .. } => {
                "name one that is kept, `capstan sessions` lists them".to_owned()
            }
            Self::UnknownClient { .. } => "name one that is, or none for this host".to_owned(),
            Self::MediumRead { .. } => "do it again when that is done".to_owned(),
        })
    }
}
