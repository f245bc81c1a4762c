//! What can go wrong in a benchmark, in one sentence each.

use std::io;
use std::path::{Path, PathBuf};

/// Why a benchmark did not give a number.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// Bad command line.
    #[error("{0}; see `bench help`")]
    Usage(String),
    /// The database of generated catalogs.
    #[error(transparent)]
    Idb(#[from] capstan_idb::IdbError),
    /// A record of a generated catalog.
    #[error("cannot encode a record: {0}")]
    Json(#[from] serde_json::Error),
    /// This machine cannot do it; the row says why and the others go on.
    #[error("{0}")]
    Skip(String),
    /// A system call on a path failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A program could not be started.
    #[error("cannot start {program}: {source}; is it installed?")]
    Start {
        /// The program.
        program: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// A program ended with an error.
    #[error("{program} failed with {status}: {message}")]
    Failed {
        /// The command line.
        program: String,
        /// How it ended.
        status: String,
        /// The last lines that it wrote to standard error.
        message: String,
    },
    /// A program said something unexpected.
    #[error("{program} did not do what it should: {problem}")]
    Unexpected {
        /// The program.
        program: String,
        /// What is wrong.
        problem: String,
    },
}

/// For `map_err`: an [`BenchError::Io`] of this action on this path.
pub fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BenchError {
    let path = path.to_owned();
    move |source| BenchError::Io { action, path, source }
}
