//! The internal database (IDB): what was backed up, by which session, on which media.
//!
//! Two parts: tables with one row per object, version, session, medium and segment, in `capstan.db`,
//! an SQLite database below the home directory, or on the PostgreSQL server that its settings name;
//! and `catalogs/<segment>.catalog` below the home, one file per segment with the batches that name
//! its files. Rows per file exist nowhere: the database stays small
//! however many files are backed up.
//!
//! The order of a commit is the caller's: segments durable on the medium, then
//! [`Idb::write_catalog`], then [`Idb::commit_segments`]. Whatever a crash leaves between the last
//! two is removed by [`Idb::reconcile_catalogs`].
//!
//! Rows refer to each other: an object comes before its versions, a version before its sessions, a
//! session and a medium before their segments.
//!
//! The interface blocks. Bulk stages of Capstan are threads, and each call is one short
//! transaction; it must not be made on a thread that runs asynchronous tasks.
#![deny(missing_docs)]

mod beats;
mod catalog_files;
mod check;
mod config;
mod copies;
mod damage;
mod db;
mod decode;
mod error;
mod exported;
mod forget;
mod lacks;
mod leases;
mod logging;
mod lost;
mod management;
mod media;
mod moving;
mod objects;
mod order;
mod owner;
mod pools;
mod protection;
mod pruning;
mod rebuilt;
mod refusals;
mod reserve;
mod robots;
mod rows;
mod seen_tapes;
mod sessions;
mod settings;
mod small_copy;
mod sql;
mod stand_ins;
mod stats;
mod store;
pub mod table;
mod tape_requests;
#[cfg(test)]
#[path = "../tests/common/server.rs"]
mod test_server;
mod transfer;
mod used;
mod waits;

pub use beats::Running;
pub use catalog_files::CatalogStamp;
pub use check::{Dangling, Sizes};
pub use copies::CopyOf;
pub use db::Idb;
pub use decode::ID_DIGITS_LEAST;
pub use error::IdbError;
pub use leases::Reader;
pub use logging::LogLevel;
pub use lost::{Loss, LostData, torn};
pub use management::{ExportedTape, Holdings, Management};
pub use moving::{Moved, names_server, refuse_database, remove_blank_database};
pub use order::credible;
pub use pools::{Allocation, Pool, RotationSet};
pub use protection::{Keeping, Protection};
pub use pruning::{Claim, Forgotten, PruneRow, VersionSize};
pub use rebuilt::LostMember;
pub use refusals::{Refusal, Refused};
pub use reserve::HomeRoom;
pub use robots::RobotLease;
pub use rows::{
    KeyRecord, Medium, Object, Segment, Session, Status, StreamPart, Totals, UnknownStatus, Version,
};
pub use seen_tapes::{SeenTape, TapeIs};
pub use sessions::{Described, SessionsOf};
pub use stats::CountedTable;
pub use store::{CatalogFile, CatalogStore};
pub use tape_requests::TapeRequest;
pub use used::ExpiredSegment;
pub use waits::SessionWait;

/// What every call returns.
pub type Result<T> = std::result::Result<T, IdbError>;
