//! Questions that have no answer.

use capstan_engine::message::path_text;
use capstan_engine::problem::Explain;

use super::sessions_hint;

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum QueryRefusal {
    /// One version was named where all are wanted.
    #[error("session {session} is one version, and all are wanted")]
    OneOfAllVersions {
        /// The session.
        session: String,
    },
    /// An object has no version whose rows could be read.
    #[error("'{name}' has no version that could be read")]
    NoReadableVersion {
        /// The object.
        name: String,
    },
    /// What is to be found by its name is no name.
    #[error("'{name}' is not the name of a file")]
    NoFileName {
        /// What was given.
        name: String,
    },
    /// A version does not have a path.
    #[error("/{} is not in this version", path_text(.path))]
    PathNotInVersion {
        /// The path.
        path: Vec<u8>,
        /// What may be meant.
        lead: PathLead,
    },
    /// No session's id begins so.
    #[error("no session's id begins with '{prefix}'")]
    UnknownSession {
        /// What it should begin with.
        prefix: String,
    },
    /// Several sessions' ids begin so.
    #[error("{count} sessions' ids begin with '{prefix}'")]
    PrefixAmbiguous {
        /// How many.
        count: usize,
        /// What they begin with.
        prefix: String,
    },
    /// No object has that name.
    #[error("no object is called '{name}': it was never backed up here")]
    NeverBackedUp {
        /// The name.
        name: String,
    },
}

/// What a path may mean that a version does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathLead {
    /// It looks like a pattern.
    Pattern,
    /// A part of it is a symbolic link in the version.
    LinkThere {
        /// The link.
        link: Vec<u8>,
        /// The path that is meant.
        to: Vec<u8>,
    },
    /// A part of it is a symbolic link of this machine.
    LinkHere {
        /// The path that is meant.
        to: Vec<u8>,
    },
    /// Nothing leads on.
    None,
}

impl Explain for QueryRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::OneOfAllVersions { .. } => {
                "give the object's name alone, or leave out --all-versions".to_owned()
            }
            Self::NoReadableVersion { .. } => "`capstan sessions` lists what there is".to_owned(),
            Self::NoFileName { .. } => {
                "give a name or a pattern like '*.odt', and paths as PATTERN".to_owned()
            }
            Self::PathNotInVersion { lead, .. } => match lead {
                PathLead::Pattern => {
                    "a PATH is no pattern: `restore` takes those with --include, `find` looks for them".to_owned()
                }
                PathLead::LinkThere { link, to } => format!(
                    "/{} is a symbolic link there, and the path leads to /{}: name that",
                    path_text(link),
                    path_text(to)
                ),
                PathLead::LinkHere { to } => {
                    format!("by symbolic links on this machine it is /{}: name that", path_text(to))
                }
                PathLead::None => "`capstan ls` shows what is".to_owned(),
            },
            Self::UnknownSession { prefix } => sessions_hint(prefix),
            Self::PrefixAmbiguous { .. } => "give more digits".to_owned(),
            Self::NeverBackedUp { .. } => "`capstan status` lists those that were".to_owned(),
        })
    }
}
