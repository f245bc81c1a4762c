//! Objects and versions that are named and are not there, or not as they are wanted.

use capstan_engine::problem::Explain;

use super::sessions_hint;

/// Why a version is not what was asked for; nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum VersionRefusal {
    /// What stands behind the `@` of a name is no session's id.
    #[error("'{object}' has no session '{session}': ids are hexadecimal digits")]
    NoSessionId {
        /// The object.
        object: String,
        /// What was given as its session.
        session: String,
    },
    /// No object has that name.
    #[error("no object is called '{name}'")]
    UnknownObject {
        /// The name.
        name: String,
        /// What there is instead.
        known: KnownObjects,
    },
    /// Several sessions of an object have ids that begin so.
    #[error("session prefix '{prefix}' of '{name}' is ambiguous")]
    PrefixAmbiguous {
        /// The object.
        name: String,
        /// What the ids begin with.
        prefix: String,
    },
    /// The version of a session has expired.
    #[error("session '{prefix}' of '{name}' has expired and may be removed at any time")]
    SessionExpired {
        /// The object.
        name: String,
        /// What the session's id begins with.
        prefix: String,
    },
    /// An object has no session whose id begins so.
    #[error("'{name}' has no session '{prefix}'")]
    UnknownSession {
        /// The object.
        name: String,
        /// What the id should begin with.
        prefix: String,
    },
    /// A session ended before it committed anything.
    #[error(
        "session '{prefix}' of '{name}' committed nothing before it ended: there is nothing of it to read"
    )]
    NothingCommitted {
        /// The object.
        name: String,
        /// What the session's id begins with.
        prefix: String,
    },
    /// The first complete version of an object is later than the time that was asked for.
    #[error("'{name}' has no complete version of that time: its first is of {first}")]
    NoneOfThatTime {
        /// The object.
        name: String,
        /// When its first complete version was made.
        first: String,
    },
    /// No version of an object is complete.
    #[error("'{name}' has no complete version")]
    NoneComplete {
        /// The object.
        name: String,
    },
    /// A session made no version, or its version is gone.
    #[error("session {session} is no backup, or its version was removed")]
    NoVersion {
        /// The session.
        session: String,
    },
    /// A version has expired.
    #[error("{version} has expired and may be removed at any time")]
    Expired {
        /// The version.
        version: String,
    },
    /// A version was never on a medium.
    #[error("{version} went to the null device, which keeps nothing")]
    OnNullDevice {
        /// The version.
        version: String,
    },
    /// A lock was asked for of what is written to the null device.
    #[error("the null device keeps nothing to lock")]
    NothingToLock,
    /// A time until which something is to be kept is over.
    #[error("protection in the past: {until} is over")]
    ProtectionInThePast {
        /// The time.
        until: String,
    },
}

/// What objects there are, where one is named that is not there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KnownObjects {
    /// None has a name that can be read.
    Encrypted,
    /// There are none.
    None,
    /// The first of them.
    Some(Vec<String>),
}

impl Explain for VersionRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::NoSessionId { .. } | Self::NoVersion { .. } => {
                "`capstan sessions` lists them".to_owned()
            }
            Self::UnknownObject { known: KnownObjects::Encrypted, .. } => {
                "the names of what was imported are encrypted; import the medium again with a key".to_owned()
            }
            Self::UnknownObject { known: KnownObjects::None, .. } => {
                "nothing was backed up or imported here yet".to_owned()
            }
            Self::UnknownObject { known: KnownObjects::Some(names), .. } => {
                format!("known are {}", names.join(", "))
            }
            Self::PrefixAmbiguous { .. } => "give more digits".to_owned(),
            Self::SessionExpired { .. } => {
                "name one that is kept, `capstan sessions` lists them".to_owned()
            }
            Self::UnknownSession { prefix, .. } => sessions_hint(prefix),
            Self::NothingCommitted { .. } => {
                "name another, `capstan sessions` lists them".to_owned()
            }
            Self::NoneOfThatTime { .. } => return None,
            Self::NoneComplete { .. } => {
                "`capstan sessions` lists what there is, and NAME@SESSION names one: what there is of that is restored".to_owned()
            }
            Self::Expired { .. } => "name one that is kept".to_owned(),
            Self::OnNullDevice { .. } => "name a version on a medium".to_owned(),
            Self::NothingToLock => "leave --lock-until out".to_owned(),
            Self::ProtectionInThePast { .. } => "name a later time, or none".to_owned(),
        })
    }
}
