//! Why catalogs cannot be read.

use capstan_engine::problem::{Explain, then};
use capstan_format::FormatError;
use capstan_format::keys::KeyError;
use capstan_idb::IdbError;

/// Why something of a catalog could not be read or made.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// The internal database.
    #[error(transparent)]
    Idb(#[from] IdbError),
    /// A catalog, or a file that is made of one, is not what the format says.
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
    /// A version builds on one that is not recorded.
    #[error("version {version}, which this one builds on, is not known{then}", then = then(self.hint()))]
    UnknownBase {
        /// The version that is not known.
        version: String,
    },
    /// A version is complete, and no segment of it is recorded.
    #[error("nothing of session {session} is on any known medium{then}", then = then(self.hint()))]
    OnNoMedium {
        /// The session that wrote it last.
        session: String,
    },
    /// What a segment holds is neither in the internal database nor to be had from a medium.
    #[error("the catalog file of segment {segment} {problem}, and {away}{then}", then = then(self.hint()))]
    NoCatalog {
        /// The segment.
        segment: String,
        /// What is wrong with its catalog file.
        problem: String,
        /// What to give to `capstan catalog load`.
        load: String,
        /// Why its media do not give it.
        away: NotOnMedia,
    },
    /// A catalog has neither the begin nor the end of its segment.
    #[error("a segment has neither begin nor end")]
    NoBeginOrEnd,
    /// A path to be compared is in neither version.
    #[error("/{path} is in neither version{then}", then = then(self.hint()))]
    InNeither {
        /// The path, as it is shown.
        path: String,
    },
    /// A file cannot be written where it was asked for.
    #[error("cannot write to {path}: {why}{then}", then = then(self.hint()))]
    NotWritable {
        /// The file.
        path: String,
        /// Why not.
        why: String,
    },
    /// The header of a file that is made of catalogs cannot be written.
    #[error("a {what} is not JSON: {source}")]
    NotJson {
        /// Which kind of file.
        what: &'static str,
        /// What is wrong.
        source: serde_json::Error,
    },
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
}

impl Explain for CatalogError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::UnknownBase { .. } | Self::OnNoMedium { .. } => "import the medium that has it".to_owned(),
            Self::NoCatalog { load, .. } => format!("`capstan catalog load {load}` makes it again once its medium is there"),
            Self::InNeither { .. } => "`capstan ls` shows what is".to_owned(),
            Self::NotWritable { .. } => "name a file in a directory that exists and in which you may write, or - for standard output".to_owned(),
            Self::Idb(e) => return e.hint(),
            Self::Key(e) => return e.hint(),
            Self::Format { source, .. } => return source.hint(),
            Self::NoBeginOrEnd | Self::NotJson { .. } | Self::Io { .. } => return None,
        })
    }
}

impl CatalogError {
    /// Adds what was tried on what to an error of the operating system.
    pub(crate) fn io(
        action: &'static str,
        path: impl std::fmt::Display,
    ) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.to_string();
        move |source| Self::Io { action, path, source }
    }
}

/// Why media do not give what a segment holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotOnMedia {
    /// What is wrong, in one line.
    pub why: String,
    /// Whether a medium is at hand and damaged, or has something else in its place: to ask in another way is of no help.
    pub is_damage: bool,
    /// Whether they may give it another time: a medium is away, or cannot be read now.
    pub is_passing: bool,
}

impl std::fmt::Display for NotOnMedia {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

/// A result with [`CatalogError`].
pub type Result<T> = std::result::Result<T, CatalogError>;
