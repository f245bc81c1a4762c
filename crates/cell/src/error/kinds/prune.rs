//! What a prune leaves as it is.

use capstan_engine::problem::Explain;

/// Why a prune does not do something.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PruneRefusal {
    /// Objects are to be given up and are not named, or rules are given with them.
    #[error("to give objects up they are named, and no keep rule is given")]
    GiveUpUnnamed,
    /// A host has no object.
    #[error("no object is of host '{host}'")]
    UnknownHost {
        /// The host.
        host: String,
    },
    /// No object has that name.
    #[error("no object is called '{name}'")]
    UnknownObject {
        /// The name.
        name: String,
    },
    /// Objects of that name are of other hosts.
    #[error("'{name}' is no object of host '{host}', but of {others}")]
    OfAnotherHost {
        /// The object.
        name: String,
        /// The host that was asked for.
        host: String,
        /// Hosts that have one of that name.
        others: String,
    },
    /// Nothing of a tape that is written once is removed.
    #[error(
        "the tape is WORM: what is on it cannot be overwritten or erased, and goes with the tape"
    )]
    StaysOnWorm,
    /// Nothing is removed from a tape.
    #[error(
        "a tape is given up as a whole: `capstan media recycle` does it when nothing on it must stay"
    )]
    TapeGoesAsAWhole,
    /// A base was not consolidated.
    #[error("{why}")]
    NotConsolidated {
        /// How the consolidation ended.
        why: String,
    },
    /// The full that was made of a base cannot take its place.
    #[error(
        "the full that session {session} made of it was given up meanwhile, or a session of the object runs"
    )]
    FullGivenUp {
        /// The session.
        session: String,
    },
    /// A full was not copied.
    #[error("{why}")]
    NotCopied {
        /// How the copy ended.
        why: String,
    },
    /// A medium with what is to stand in for something is not recorded.
    #[error("medium {medium} is not known")]
    MediumUnknown {
        /// Its id.
        medium: String,
    },
    /// Nothing on a medium may stand in for something.
    #[error("medium '{label}' {fault}")]
    MediumUnsound {
        /// Its label.
        label: String,
        /// Why not.
        fault: &'static str,
    },
}

impl Explain for PruneRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::GiveUpUnnamed => "name them, and leave the rules out".to_owned(),
            Self::UnknownHost { .. } | Self::UnknownObject { .. } => {
                "`capstan sessions` lists what there is".to_owned()
            }
            Self::OfAnotherHost { .. } => "--host HOST says of which host it is meant".to_owned(),
            Self::FullGivenUp { .. } => "prune again".to_owned(),
            Self::StaysOnWorm
            | Self::TapeGoesAsAWhole
            | Self::NotConsolidated { .. }
            | Self::NotCopied { .. }
            | Self::MediumUnknown { .. }
            | Self::MediumUnsound { .. } => return None,
        })
    }
}
