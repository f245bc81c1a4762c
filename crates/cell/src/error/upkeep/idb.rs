//! The internal database: its backups, its recovery, its catalogs.

use std::path::PathBuf;

use capstan_engine::problem::{Explain, Problem};
use capstan_format::id::CellId;

/// Why something is not done with the internal database.
#[derive(Debug, thiserror::Error)]
pub enum IdbRefusal {
    /// The disk of the home is nearly full.
    #[error(
        "the file system of the home {} is full, {:.1} MB are left, which restores need for their records",
        home.display(),
        *.free as f64 / 1e6
    )]
    HomeFull {
        /// The home.
        home: PathBuf,
        /// Bytes that are left.
        free: u64,
    },
    /// There is a recovery key.
    #[error("the internal database has a recovery key already ({key})")]
    RecoveryKeyExists {
        /// The key.
        key: String,
    },
    /// A recovery key cannot be used to make a backup.
    #[error("{why}")]
    RecoveryKeyUnusable {
        /// Why not.
        why: String,
    },
    /// No backup of a database can be read.
    #[error("no backup can be read")]
    NoReadableBackup,
    /// The tables are in use and cannot be moved.
    #[error("a session is running and has the tables in use")]
    SessionRuns,
    /// No tape has a backup of a database.
    #[error("no backup of an internal database is on {device}")]
    NoBackupOn {
        /// The tapes.
        device: String,
    },
    /// No backup of a database is in a directory.
    #[error("no backup of an internal database is in {0}")]
    NoBackupIn(String),
    /// A tape is encrypted, and its key is not open.
    #[error("{}", .0.sentence)]
    TapeSealed(Problem),
    /// What was named keeps no backups of a database.
    #[error("only directories, and tapes that are in no array, keep backups of a database")]
    KeepsNoBackups,
    /// A recovery was begun from the backup of another cell.
    #[error(
        "a recovery into {} was begun from a backup of cell {}, and this one is of cell {}",
        home.display(),
        begun.short(),
        found.short()
    )]
    AnotherCell {
        /// The home.
        home: PathBuf,
        /// The cell of the recovery that was begun.
        begun: CellId,
        /// The cell of this one.
        found: CellId,
    },
    /// A recovery was begun from another backup.
    #[error(
        "a recovery of {} from the backup {begun} was begun, and the newest one there is {found}",
        home.display()
    )]
    AnotherBackup {
        /// The home.
        home: PathBuf,
        /// The backup of the recovery that was begun.
        begun: String,
        /// The newest one.
        found: String,
    },
    /// A home was used since its recovery was cut short.
    #[error("{} was used since a recovery into it was cut short ({kind} {session})", home.display())]
    UsedSince {
        /// The home.
        home: PathBuf,
        /// The kind of the session that used it.
        kind: String,
        /// That session.
        session: String,
        /// The file that says that the recovery was begun.
        mark: PathBuf,
    },
    /// A recovery was begun and is not done.
    #[error("a recovery into {} was begun and is not done", home.display())]
    HalfRecovered {
        /// The home.
        home: PathBuf,
        /// The file that says so.
        mark: PathBuf,
    },
    /// A medium that was to be taken back after a recovery left the house.
    #[error("{0}")]
    Exported(String),
    /// The backup of a database has no tables.
    #[error("the backup has no tables in it")]
    NoTables,
}

impl Explain for IdbRefusal {
    fn hint(&self) -> Option<String> {
        Some(match self {
            Self::HomeFull { .. } => {
                "make room there, or move the home to a larger disk, then backups go on".to_owned()
            }
            Self::TapeSealed(why) => return why.hint.clone(),
            Self::RecoveryKeyExists { .. } => {
                "`capstan idb recovery-key --replace` makes another for later backups, those that are written keep needing the first"
                    .to_owned()
            }
            Self::RecoveryKeyUnusable { .. } => "make a new recovery key".to_owned(),
            Self::NoReadableBackup | Self::Exported(_) => return None,
            Self::SessionRuns => "move them when it is done".to_owned(),
            Self::NoBackupOn { .. } => {
                "name the device of another session, or `capstan import` the tapes".to_owned()
            }
            Self::NoBackupIn(_) => {
                "name the device of another session, or `capstan import` the media one by one".to_owned()
            }
            Self::KeepsNoBackups => "name one that holds a medium".to_owned(),
            Self::AnotherCell { .. } => "name a medium of the first, or another home".to_owned(),
            Self::AnotherBackup { .. } => {
                "name the device of the first, or another home".to_owned()
            }
            Self::UsedSince { mark, .. } => format!(
                "remove {}, then import the media that lack with `capstan import`",
                mark.display()
            ),
            Self::HalfRecovered { mark, .. } => format!(
                "give the same `capstan idb recover` again, which goes on with it. To go without, remove {}, and `capstan import` each \
                 medium: what media do not say is lost then (pools, protection, sessions)",
                mark.display()
            ),
            Self::NoTables => "try the device of another session".to_owned(),
        })
    }
}
