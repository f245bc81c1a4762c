//! What can go wrong in the internal database, and what the administrator can do about it.
//!
//! The text of an error says what failed, on what, and what to do; what the system or the database said
//! is the error's source.

pub(crate) mod hints;

use capstan_engine::problem::{Explain, Problem, then};

use std::path::{Path, PathBuf};
use std::{fmt, io};

/// An error of the internal database.
#[derive(Debug, thiserror::Error)]
pub enum IdbError {
    /// The database refused or failed.
    #[error("cannot {what} in the internal database {place}{then}", then = then(self.hint()))]
    Sql {
        /// What was attempted, as "record session 1f2e3d4c".
        what: String,
        /// The database: its file, or its address without a password.
        place: String,
        /// What to do about it.
        hint: &'static str,
        /// What the database said.
        source: Box<sqlx::Error>,
    },
    /// Another process keeps others from writing.
    #[error("cannot {what} in the internal database {place}{then}", then = then(self.hint()))]
    Locked {
        /// What was attempted.
        what: String,
        /// The database: its file.
        place: String,
        /// The process, in words.
        holder: String,
        /// What the database said.
        source: Box<sqlx::Error>,
    },
    /// The database was written by a newer Capstan.
    #[error("the internal database {place} has schema {found}, this program knows up to {known}{then}", then = then(self.hint()))]
    NewerSchema {
        /// The database.
        place: String,
        /// The schema found in it.
        found: i64,
        /// The newest schema this program knows.
        known: i64,
    },
    /// The server of the database went away and did not come back in time.
    #[error("the internal database {place} went away and was not back within {waited_s} s{then}", then = then(self.hint()))]
    Away {
        /// The database.
        place: String,
        /// How long it was waited for, in seconds.
        waited_s: u64,
        /// What the driver said last.
        source: Box<sqlx::Error>,
    },
    /// A home that nothing can be written to.
    #[error(
        "the home {} is on a file system that is mounted read-only, and every command records what it does: mount it read-write (a \
         file system with errors=remount-ro turns read-only where its disk fails: see `dmesg`). To restore before that, copy the home \
         to another disk, `cp -a {} COPY`, and give `--home COPY`",
        home.display(), home.display()
    )]
    ReadOnly {
        /// The home.
        home: PathBuf,
    },
    /// A mistake in the settings of a home.
    #[error("{}:{line}: {problem}", path.display())]
    Config {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what to write.
        problem: Problem,
    },
    /// The database and the home are not of one cell.
    #[error("{0}")]
    Mismatch(Problem),
    /// A file or directory of the database could not be read or written.
    #[error("cannot {what} {}{then}", path.display(), then = then(self.hint()))]
    Io {
        /// What was attempted, as "write the catalog file".
        what: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What to do about it.
        hint: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// A row holds what this program cannot have written.
    #[error("the internal database has '{value}' as {column} of a row{then}", then = then(self.hint()))]
    BadRow {
        /// The column.
        column: &'static str,
        /// What it holds, cut to a readable length.
        value: String,
    },
    /// A number that the database cannot hold.
    #[error("{column} is {value}, more than the internal database can hold (2^63 - 1){then}", then = then(self.hint()))]
    TooLarge {
        /// The column.
        column: &'static str,
        /// The number.
        value: u64,
    },
    /// Something that should be recorded is not.
    #[error("{what} {id} is not in the internal database{then}", then = then(self.hint()))]
    Unknown {
        /// The kind of thing, as "session".
        what: &'static str,
        /// Its identity.
        id: String,
    },
    /// A session wants to write to a version that is already complete.
    #[error("version {id} is complete and cannot be written to again{then}", then = then(self.hint()))]
    VersionComplete {
        /// The version.
        id: String,
    },
    /// A version was given up.
    #[error("version {id} has expired, it may be removed at any time{then}", then = then(self.hint()))]
    Expired {
        /// The version.
        id: String,
    },
    /// What was to be given up is read.
    #[error("{reader} reads version {version}, of which something lies there{then}", then = then(self.hint()))]
    IsRead {
        /// The version.
        version: String,
        /// Who reads it.
        reader: String,
    },
    /// The call was made on a thread that runs asynchronous tasks.
    #[error("the internal database was called from within an asynchronous task{then}", then = then(self.hint()))]
    InsideRuntime,
}

impl Explain for IdbError {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Sql { hint, .. } | Self::Io { hint, .. } => (*hint).to_owned(),
            Self::Locked { holder, .. } => format!("{holder} keeps it locked: wait for that to end, or let it go on, and try again"),
            Self::NewerSchema { .. } => "use the newer version of capstan that wrote it, or another home".to_owned(),
            Self::Away { .. } => "what was committed on a medium is kept: when PostgreSQL runs again, the next backup to that medium \
                 records it and goes on from there with --resume, as does `capstan import`".to_owned(),
            Self::BadRow { .. } => "the row is damaged or was edited: restore the database, or build a new one by importing the media".to_owned(),
            Self::TooLarge { .. } => "what reported it is damaged: verify the medium".to_owned(),
            Self::Unknown { .. } => "was it removed meanwhile? Import the medium that holds it".to_owned(),
            Self::VersionComplete { .. } => "start a new version".to_owned(),
            Self::Expired { .. } => "use one that `capstan sessions` shows as kept".to_owned(),
            Self::IsRead { .. } => "do it again when that is done".to_owned(),
            Self::InsideRuntime => "this is a mistake in the program: call it on a thread of its own".to_owned(),
            Self::Config { problem, .. } | Self::Mismatch(problem) => return problem.hint.clone(),
            Self::ReadOnly { .. } => return None,
        })
    }
}

impl IdbError {
    /// An error of the database, with the hint that fits what it said.
    pub(crate) fn sql(what: fmt::Arguments<'_>, place: &str, source: sqlx::Error) -> Self {
        let (what, place, hint) = (what.to_string(), place.to_owned(), sql_hint(&source, place));
        Self::Sql { what, place, hint, source: Box::new(source) }
    }

    /// Whether there was no memory for it: that says nothing of the database.
    pub fn is_for_want_of_memory(&self) -> bool {
        let Self::Sql { source, .. } = self else { return false };
        matches!(&**source, sqlx::Error::Database(e) if hints::is_for_want_of_memory(&**e))
    }

    /// Whether the mistake is in what an administrator set up: nothing was done.
    pub const fn is_bad_input(&self) -> bool {
        matches!(self, Self::Config { .. } | Self::Mismatch(_) | Self::IsRead { .. })
    }

    /// An error of the file system, with the hint that fits what it said.
    pub(crate) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), hint: io_hint(&source), source }
    }
}

/// The hint for an error of a database, by its code; for one of the way there, by what the system said.
fn sql_hint(error: &sqlx::Error, place: &str) -> &'static str {
    let server = place.starts_with("postgres:");
    let known = match error {
        sqlx::Error::Database(error) => hints::hint(&**error),
        sqlx::Error::Io(_) | sqlx::Error::Tls(_) if server => Some(
            "it does not answer: see that PostgreSQL runs there, and correct `database` in capstan.toml",
        ),
        sqlx::Error::Io(e) => Some(io_hint(e)),
        sqlx::Error::Migrate(_) => Some(
            "its tables are not those of this program: put it aside and build a new one by importing the media",
        ),
        _ => None,
    };
    known.unwrap_or("see the cause; if it persists, report it as a bug")
}

/// The hint for an error of the file system.
fn io_hint(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "the file system is full: make room and try again"
        }
        io::ErrorKind::PermissionDenied => {
            "permission is denied: check owner and mode, or set CAPSTAN_HOME to a directory of yours"
        }
        io::ErrorKind::ReadOnlyFilesystem => {
            "the file system is read-only: mount it writable or set CAPSTAN_HOME to another place"
        }
        io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => {
            "something else is in its place: remove that or set CAPSTAN_HOME to another place"
        }
        io::ErrorKind::NotFound => {
            "the directory above is not there or takes no new ones: set CAPSTAN_HOME to another place"
        }
        _ => "check the disk and the system log",
    }
}
