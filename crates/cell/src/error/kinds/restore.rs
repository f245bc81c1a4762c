//! Restores that are not made as they were asked for.

use std::path::PathBuf;

use capstan_engine::message::path_text;
use capstan_engine::problem::{Explain, Problem};

/// Why nothing is restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RestoreRefusal {
    /// A place for a restore lies in what Capstan keeps.
    #[error("{} lies in {what}, and a restore writes nothing there", path.display())]
    OwnPlace {
        /// The place.
        path: PathBuf,
        /// What it lies in.
        what: String,
    },
    /// A place for a restore is named by nothing.
    #[error("the name of where to restore is empty")]
    PlaceEmpty {
        /// How one is named.
        how: &'static str,
    },
    /// Patterns leave nothing.
    #[error("the patterns leave nothing to restore{why}")]
    PatternsLeaveNothing {
        /// Why, in brackets, where one of them did nothing.
        why: String,
    },
    /// Stripping leaves nothing of any path.
    #[error(
        "--strip {strip} leaves nothing to restore: no path has more than {longest} components"
    )]
    StripLeavesNothing {
        /// Components that were to be stripped.
        strip: usize,
        /// Components of the longest path.
        longest: usize,
    },
    /// Stripping leaves nothing of a path that was asked for.
    #[error("--strip {strip} leaves nothing of /{}, which is asked for", path_text(.path))]
    StripLeavesNothingOf {
        /// Components that were to be stripped.
        strip: usize,
        /// The path.
        path: Vec<u8>,
    },
    /// Stripping makes one path of two.
    #[error("with --strip {strip}, /{} and another file would have one path", path_text(.path))]
    StripMeets {
        /// Components that were to be stripped.
        strip: usize,
        /// The path.
        path: Vec<u8>,
    },
    /// Nothing can be made in the place for a restore.
    #[error("cannot restore into {}: {why}", dir.display())]
    PlaceNotWritable {
        /// The place.
        dir: PathBuf,
        /// Why not.
        why: String,
    },
    /// An archive cannot be made.
    #[error("cannot create the archive {}: {why}", path.display())]
    ArchiveNotMade {
        /// Its file.
        path: PathBuf,
        /// Why not.
        why: String,
    },
    /// Nobody would get the archive.
    #[error("standard output is closed, so nobody would get the archive")]
    OutputClosed,
    /// Two objects would be restored to one path.
    #[error(
        "{}'{one}' and '{other}' would both be restored to the path of /{}, and one would replace the other",
        with_strip(.strip),
        path_text(.path)
    )]
    ObjectsMeet {
        /// Components that are stripped.
        strip: usize,
        /// The one.
        one: String,
        /// The other.
        other: String,
        /// The path.
        path: Vec<u8>,
    },
    /// What was backed up from an input has no place of its own.
    #[error("'{name}' came from standard input or a command: it has no place in the file system")]
    NoPlaceOfItsOwn {
        /// The object.
        name: String,
    },
    /// A version lacks what it builds on, and may be had in parts.
    #[error("{}", .0.sentence)]
    OnlyInParts(Problem),
    /// An object is named twice.
    #[error("'{name}' is named twice")]
    NamedTwice {
        /// The object.
        name: String,
    },
    /// Several objects are to go into one archive.
    #[error("one archive takes one object")]
    OneArchive,
    /// A restore ended without an outcome.
    #[error("the restore ended unexpectedly")]
    EndedUnexpectedly,
}

impl Explain for RestoreRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::OwnPlace { .. } => "name another place".to_owned(),
            Self::PlaceEmpty { how } => format!("give {how}"),
            Self::PatternsLeaveNothing { .. } => {
                "`capstan ls` shows what there is, docs/patterns.md how they are meant".to_owned()
            }
            Self::StripLeavesNothing { longest, .. } => {
                format!("strip {} at most", longest.saturating_sub(1))
            }
            Self::StripLeavesNothingOf { path, .. } => format!(
                "strip {} at most, or restore it by itself",
                path.split(|b| *b == b'/').count().saturating_sub(1)
            ),
            Self::StripMeets { .. } => "strip less, or name what is to be restored".to_owned(),
            Self::PlaceNotWritable { .. } => "name a directory in which you may write".to_owned(),
            Self::ArchiveNotMade { .. } => {
                "name a file in a directory that exists and in which you may write".to_owned()
            }
            Self::OutputClosed => "send it into a file or a pipe".to_owned(),
            Self::ObjectsMeet { .. } => {
                "restore them one after the other, each --into a directory of its own, or leave it out with --exclude".to_owned()
            }
            Self::NoPlaceOfItsOwn { .. } => "name a directory with --into".to_owned(),
            Self::OnlyInParts(why) => {
                let parts = "NAME@SESSION restores what there is of one session".to_owned();
                why.hint.as_ref().map_or(parts.clone(), |hint| format!("{hint}; {parts}"))
            }
            Self::NamedTwice { .. } => "name each object once".to_owned(),
            Self::OneArchive => "restore several into a directory".to_owned(),
            Self::EndedUnexpectedly => "this is a fault of capstan, please report it".to_owned(),
        })
    }
}

fn with_strip(strip: &usize) -> String {
    if *strip == 0 { String::new() } else { format!("with --strip {strip} ") }
}
