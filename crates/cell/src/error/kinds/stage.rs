//! Media that are not staged or retired.

use capstan_address::Address;
use capstan_engine::problem::{Explain, Problem};
use capstan_format::id::{SessionId, VersionId};

/// Why a medium is not staged or retired as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StageRefusal {
    /// A pool is to be staged to itself.
    #[error("a pool cannot be staged to itself")]
    PoolToItself,
    /// The null device is to get copies.
    #[error("the null device keeps no copy")]
    NullKeepsNoCopy,
    /// A pool and a medium have one name.
    #[error("'{name}' is the name of a pool and of a medium")]
    NameAmbiguous {
        /// The name.
        name: String,
    },
    /// A tape is to be staged.
    #[error("medium '{label}' is a tape: only disk is staged")]
    SourceIsTape {
        /// Its label.
        label: String,
    },
    /// Neither a pool nor a medium has that name.
    #[error("neither a pool nor a medium is called '{name}'")]
    UnknownSource {
        /// The name.
        name: String,
    },
    /// A pool has no disk here.
    #[error(
        "pool '{pool}' has no medium on a disk of this host, so there is nothing to stage from it"
    )]
    NoDiskInPool {
        /// The pool.
        pool: String,
    },
    /// The target is what is to be staged.
    #[error("{device} is what is to be staged")]
    SourceIsTarget {
        /// The device.
        device: Address,
    },
    /// Damage was found on the target.
    #[error("damage was found on medium '{label}'")]
    TargetDamaged {
        /// Its label.
        label: String,
    },
    /// A medium cannot be held, so that nothing of it is given back.
    #[error("{0}")]
    SourceNotHeld(String),
    /// A tape in a drive without a robot is not retired by itself.
    #[error("its drive has no robot, so somebody has to change the tapes")]
    NoRobot,
    /// A session failed to retire a tape lately.
    #[error("session {} tried it less than a day ago", .0.short())]
    TriedLately(SessionId),
    /// A tape was not retired.
    #[error("session {session} ended as {status}")]
    NotRetired {
        /// The session that was to do it.
        session: String,
        /// How it ended.
        status: String,
    },
    /// A session writes to a medium that is to be retired.
    #[error("a session that runs writes version {} to medium '{label}'", version.short())]
    SessionWrites {
        /// The version.
        version: VersionId,
        /// The medium's label.
        label: String,
    },
    /// A medium whose retirement was to be taken back is not retired.
    #[error("medium '{label}' is not retired")]
    NotAmongRetired {
        /// Its label.
        label: String,
    },
    /// Nothing says where goes what a medium holds.
    #[error(
        "medium '{label}' holds what must stay, and is in no pool and no library whose other media could take it"
    )]
    NowhereToGo {
        /// Its label.
        label: String,
    },
    /// A medium is not there to be copied.
    #[error("medium '{label}' cannot be read: {}", why.sentence)]
    Unreadable {
        /// Its label.
        label: String,
        /// Where it is.
        why: Problem,
    },
    /// There is no drive to read a medium while another is written.
    #[error("medium '{label}' cannot be read while another is written: {why}")]
    NoSecondDrive {
        /// Its label.
        label: String,
        /// Who has the drives.
        why: String,
    },
}

impl Explain for StageRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::PoolToItself => "name another pool".to_owned(),
            Self::NullKeepsNoCopy => "name a tape library, a pool or a directory".to_owned(),
            Self::NameAmbiguous { name } => format!("write pool:{name}, or the medium's device"),
            Self::SourceIsTape { .. } => "`capstan copy --medium` copies a tape".to_owned(),
            Self::UnknownSource { .. } => {
                "`capstan pool list` and `capstan media list` show them".to_owned()
            }
            Self::SourceIsTarget { .. } => "name another target".to_owned(),
            Self::TargetDamaged { .. } => "stage to another one".to_owned(),
            Self::NoRobot => "use `capstan media retire`".to_owned(),
            Self::SessionWrites { .. } => "retire it when that is done".to_owned(),
            Self::NotAmongRetired { .. } => "nothing was changed".to_owned(),
            Self::NowhereToGo { .. } => "name where it goes with --to".to_owned(),
            Self::Unreadable { why, .. } => {
                let way = "bring it back, or say --no-copy if nothing of it can be had";
                return why.clone().hint_too(way).hint;
            }
            Self::NoSecondDrive { .. } => {
                "two drives have to be free, or name a place with --to that needs none".to_owned()
            }
            Self::NoDiskInPool { .. }
            | Self::SourceNotHeld(_)
            | Self::TriedLately(_)
            | Self::NotRetired { .. } => return None,
        })
    }
}
