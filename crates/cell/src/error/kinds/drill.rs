//! Comparisons and drills that are not made.

use capstan_engine::message::path_text;
use capstan_engine::problem::Explain;
use capstan_port::disk::check::ScratchError;

/// Why nothing is compared.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompareRefusal {
    /// What was backed up from an input is nowhere in the file system.
    #[error(
        "'{name}' came from standard input or a command: there is nothing in the file system to compare it with"
    )]
    NothingToCompareWith {
        /// The object.
        name: String,
    },
    /// A path is on neither side.
    #[error("/{} is neither in this version nor in the trees it was made of", path_text(.path))]
    PathOnNeitherSide {
        /// The path.
        path: Vec<u8>,
    },
}

impl Explain for CompareRefusal {
    fn hint(&self) -> Option<String> {
        match self {
            Self::NothingToCompareWith { .. } => None,
            Self::PathOnNeitherSide { .. } => Some("`capstan ls` shows what is".to_owned()),
        }
    }
}

/// Why nothing is restored as a trial.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DrillRefusal {
    /// The sample is no share.
    #[error("the sample is out of range")]
    SampleOutOfRange,
    /// There is nothing to restore.
    #[error("'{name}' has no files: there is nothing to restore")]
    NoFiles {
        /// The object.
        name: String,
    },
    /// There is no place for the trial.
    #[error(transparent)]
    NoPlace(#[from] ScratchError),
}

impl Explain for DrillRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::SampleOutOfRange => "it is more than 0 % and at most 100 %".to_owned(),
            Self::NoFiles { .. } => "`capstan ls` shows what it has".to_owned(),
            Self::NoPlace(of) => return of.hint(),
        })
    }
}
