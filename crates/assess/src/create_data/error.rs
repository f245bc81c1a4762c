//! What can go wrong while creating test data.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Why test data could not be created.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CreateDataError {
    /// An option has a value that cannot be used.
    #[error("--{option} {problem}")]
    BadOption {
        /// The option's name on the command line, without dashes.
        option: &'static str,
        /// What is wrong with it and what to give instead.
        problem: String,
    },
    /// The directories that depth and breadth allow do not hold all the files.
    #[error(
        "{files} files do not fit into {dirs} directories with {files_per_dir} files each: raise \
         --depth, --breadth or --files-per-dir"
    )]
    TreeTooSmall {
        /// Files to place.
        files: u64,
        /// Directories that the tree can have.
        dirs: u64,
        /// Files allowed in each.
        files_per_dir: u64,
    },
    /// The deepest path would be longer than the system accepts.
    #[error(
        "paths below {path:?} would be {length} bytes long, more than the system's {limit}: lower \
         --depth or choose a directory with a shorter path"
    )]
    PathTooLong {
        /// The target directory.
        path: PathBuf,
        /// Length of the longest path.
        length: u64,
        /// Longest path accepted.
        limit: u64,
    },
    /// The target exists and is not a directory.
    #[error("{path:?} is not a directory: name a directory that is empty or does not exist")]
    NotADirectory {
        /// The target.
        path: PathBuf,
    },
    /// The target directory has something in it.
    #[error(
        "directory {path:?} is not empty, it contains {found:?}: name a directory that is empty \
         or does not exist"
    )]
    NotEmpty {
        /// The target directory.
        path: PathBuf,
        /// One of its entries.
        found: OsString,
    },
    /// The file system is too full.
    #[error(
        "the test data needs {needed} bytes, but only {available} are free for {path:?}: free \
         space, choose another file system or ask for less"
    )]
    NoSpace {
        /// The target directory.
        path: PathBuf,
        /// Bytes to be written.
        needed: u64,
        /// Bytes available on its file system.
        available: u64,
    },
    /// The operating system refused an operation.
    #[error(
        "cannot {action} {path:?}: check space and permissions, then remove what was written and \
         start again"
    )]
    Io {
        /// What was attempted, as a verb.
        action: &'static str,
        /// The file or directory concerned.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

impl CreateDataError {
    /// Whether the caller asked for something impossible, as opposed to a failure of the system.
    pub fn is_bad_input(&self) -> bool {
        !matches!(self, Self::Io { .. } | Self::NoSpace { .. })
    }

    pub(super) fn bad_option(option: &'static str, problem: impl Into<String>) -> Self {
        Self::BadOption { option, problem: problem.into() }
    }
}

/// For `map_err`: names the action and the path of a failed operation.
pub(super) fn io_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> CreateDataError + 'a {
    move |source| CreateDataError::Io { action, path: path.to_path_buf(), source }
}
