//! Why catalogs cannot be read.

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

/// A result with [`CatalogError`].
pub type Result<T> = std::result::Result<T, CatalogError>;
