//! Why a session cannot begin or go on, with what to do about it.
//!
//! What a room refuses is an enum of its own in a file of its own, and all of them together are [`Refusal`]. Its text is the sentence; what
//! to do stands apart.

mod damage;
mod drives;
mod keys;
mod kinds;
mod media;
mod names;
mod pools;
mod queries;
mod refusal;
mod session;
mod supply;
mod upkeep;
mod versions;

use capstan_address::AddressError;
use capstan_catalog::CatalogError;
pub(crate) use capstan_engine::message::{chain, plain};
use capstan_engine::problem::{Explain, Problem};
use capstan_engine::threads::NoThread;
use capstan_format::FormatError;
use capstan_format::id::MediumId;
use capstan_format::keys::KeyError;
use capstan_idb::{ID_DIGITS_LEAST, IdbError};
use capstan_medium::DeviceError;
use capstan_medium::tape::TapeError;
use capstan_port::media::read::error::ReadError;
use capstan_port::media::write::error::WriteError;

pub use damage::Damage;
pub use drives::DriveRefusal;
pub use keys::KeyRefusal;
pub use kinds::{
    BackupRefusal, CompareRefusal, ConsolidateRefusal, CopyRefusal, DrillRefusal, ImportRefusal,
    PruneRefusal, RepairRefusal, RestoreRefusal, StageRefusal,
};
pub use media::MediumRefusal;
pub use names::NameRefusal;
pub use pools::PoolRefusal;
pub use queries::{PathLead, QueryRefusal};
pub use refusal::Refusal;
pub use session::SessionRefusal;
pub use supply::SupplyRefusal;
pub use upkeep::{IdbRefusal, LockRefusal, TapeKnown, UpkeepRefusal};
pub use versions::{KnownObjects, VersionRefusal};

/// Why a command of the cell failed as a whole.
#[derive(Debug, thiserror::Error)]
pub enum CellError {
    /// What was asked for is refused as it was asked for; nothing was written.
    #[error("{}", .0.problem())]
    Refused(Box<Refusal>),
    /// What was backed up is damaged, incomplete or nowhere to be found.
    #[error("{}", .0.problem())]
    Damage(Box<Damage>),
    /// A medium is not as it was last written; nothing was written to it.
    #[error("{0}")]
    Changed(Problem),
    /// A tape is another medium than the one that was recorded there, by an exchange of labels, which is corrected; nothing was written.
    #[error("{0}")]
    Exchanged(Problem),
    /// No medium takes more; nothing was written.
    #[error("{0}")]
    NoMedium(Problem),
    /// Of the tapes that are there none can be written; nothing was written.
    #[error("{0}")]
    NoTape(Problem),
    /// A medium is not at hand: it was brought elsewhere, or is not where it was last seen.
    #[error("{text}")]
    Away {
        /// The medium.
        medium: MediumId,
        /// Where it is, or what is found in its place, in words that follow its name.
        why: String,
        /// The whole sentence, with what to do.
        text: Problem,
    },
    /// A medium is where it should be, and cannot be read.
    #[error("{text}")]
    Unreadable {
        /// The medium.
        medium: MediumId,
        /// The whole sentence, with what to do.
        text: Problem,
    },
    /// Others have what would do; nothing was written.
    #[error("{0}")]
    InUse(Problem),
    /// What was begun could not be ended: something was written.
    #[error("{0}")]
    Unfinished(Problem),
    /// The internal database.
    #[error(transparent)]
    Idb(#[from] IdbError),
    /// The name of a device cannot be understood.
    #[error(transparent)]
    Address(#[from] AddressError),
    /// A device or medium.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Reading a medium.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// Writing a medium.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// What lies on a medium or in a catalog.
    #[error("{what}: {source}")]
    Format {
        /// Of what.
        what: String,
        /// What is wrong.
        #[source]
        source: FormatError,
    },
    /// Keys.
    #[error("{0}")]
    Key(#[from] KeyError),
    /// Nothing is at hand that could open keys.
    #[error("{0}")]
    NoKey(Problem),
    /// The operating system.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The kernel has no more threads.
    #[error(transparent)]
    NoThread(#[from] NoThread),
    /// A restore's target.
    #[error(transparent)]
    Target(#[from] capstan_port::disk::restore::TargetRefused),
    /// A restore's target has no room left.
    #[error("{0}")]
    TargetFull(Problem),
    /// A disk agent on another host does not answer any more.
    #[error(transparent)]
    AgentLost(#[from] capstan_port::disk::lost::AgentLost),
}

impl<T: Into<Refusal>> From<T> for CellError {
    fn from(refusal: T) -> Self {
        Self::Refused(Box::new(refusal.into()))
    }
}

impl From<Damage> for CellError {
    fn from(damage: Damage) -> Self {
        Self::Damage(Box::new(damage))
    }
}

impl From<CatalogError> for CellError {
    fn from(e: CatalogError) -> Self {
        match e {
            CatalogError::Idb(e) => Self::Idb(e),
            CatalogError::Format { what, source } => Self::Format { what, source },
            CatalogError::Key(e) => Self::Key(e),
            CatalogError::Io { action, path, source } => Self::Io { action, path, source },
            // What is at hand and damaged, or another one, is not put right by asking in another way.
            CatalogError::NoCatalog { ref away, .. } if away.is_damage => {
                Self::Unfinished(e.problem())
            }
            CatalogError::UnknownBase { .. }
            | CatalogError::OnNoMedium { .. }
            | CatalogError::NoCatalog { .. }
            | CatalogError::NotWritable { .. }
            | CatalogError::InNeither { .. }
            | CatalogError::NoBeginOrEnd
            | CatalogError::NotJson { .. } => Damage::Catalog(e).into(),
        }
    }
}

impl CellError {
    /// What is refused as it was asked for, or what was to be read and is damaged; `None` where something failed.
    pub(crate) fn refusal(&self) -> Option<&dyn Explain> {
        match self {
            Self::Refused(of) => Some(&**of),
            Self::Damage(of) => Some(&**of),
            _ => None,
        }
    }

    /// Whether it was asked for what cannot be done as it was asked for.
    pub fn is_bad_input(&self) -> bool {
        matches!(self, Self::Refused(_))
    }

    /// The exit code: 2 for bad input, 1 for all else.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Refused(_)
            | Self::Damage(_)
            | Self::Changed(_)
            | Self::Exchanged(_)
            | Self::NoMedium(_)
            | Self::NoTape(_)
            | Self::Away { .. }
            | Self::InUse(_)
            | Self::Key(_)
            | Self::NoKey(_)
            | Self::Address(_)
            | Self::Target(_) => 2,
            Self::Idb(e) if e.is_bad_input() => 2,
            Self::Device(e) => match e {
                DeviceError::Io { .. } if e.is_full() => 1,
                e if e.of_tape().is_some_and(TapeError::is_failure) => 1,
                DeviceError::NoThread(_) | DeviceError::HostLost(_) => 1,
                _ => 2,
            },
            _ => 1,
        }
    }

    /// Whether others have what would do.
    pub fn is_busy(&self) -> bool {
        match self {
            Self::InUse(_) => true,
            Self::Device(e) => e.is_busy(),
            _ => false,
        }
    }

    /// Whether it is a medium that is at hand and cannot be read.
    pub(crate) fn is_unreadable(&self) -> bool {
        match self {
            Self::Unreadable { .. } => true,
            Self::Device(e) => e.blames_medium(),
            Self::Read(e) => e.blames_medium(),
            _ => false,
        }
    }

    /// Whether there is no room on what was to be written.
    pub fn is_of_room(&self) -> bool {
        match self {
            Self::NoMedium(_) => true,
            Self::Device(e) => e.is_full() || matches!(e, DeviceError::NoRoom { .. }),
            _ => false,
        }
    }

    /// Whether a medium may be as it should, and only is not to be had now.
    pub(crate) fn is_out_of_reach(&self) -> bool {
        matches!(self, Self::Device(e) if e.is_out_of_reach()) || self.is_busy()
    }

    /// Whether what is asked for is encrypted and does not open.
    pub(crate) fn is_of_keys(&self) -> bool {
        matches!(self, Self::Key(_) | Self::NoKey(_))
    }

    /// Adds what was tried on what to an error of the operating system.
    pub fn io(
        action: &'static str,
        path: impl std::fmt::Display,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_string();
        move |source| Self::Io { action, path, source }
    }
}

impl Explain for CellError {
    fn hint(&self) -> Option<String> {
        match self {
            Self::Refused(of) => of.hint(),
            Self::Damage(of) => of.hint(),
            Self::Changed(of)
            | Self::Exchanged(of)
            | Self::NoMedium(of)
            | Self::NoTape(of)
            | Self::InUse(of)
            | Self::Unfinished(of)
            | Self::NoKey(of)
            | Self::TargetFull(of)
            | Self::Away { text: of, .. }
            | Self::Unreadable { text: of, .. } => of.hint.clone(),
            Self::Idb(e) => e.hint(),
            Self::Address(e) => e.hint(),
            Self::Device(e) => e.hint(),
            Self::Read(e) => e.hint(),
            Self::Write(e) => e.hint(),
            Self::Format { source, .. } => source.hint(),
            Self::Key(e) => e.hint(),
            Self::NoThread(e) => e.hint(),
            Self::Target(e) => e.hint(),
            Self::AgentLost(e) => e.hint(),
            Self::Io { .. } => None,
        }
    }
}

/// Where sessions' ids are found that begin so, and how much of one has to be typed.
fn sessions_hint(prefix: &str) -> String {
    let digits = match prefix.len() < ID_DIGITS_LEAST {
        true => format!("give {ID_DIGITS_LEAST} digits of its id or more, "),
        false => String::new(),
    };
    format!("{digits}`capstan sessions` lists them")
}

/// A result with [`CellError`].
pub type Result<T> = std::result::Result<T, CellError>;
