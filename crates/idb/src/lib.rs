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
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]

mod catalog_files;
mod catalog_store;
mod db;
mod decode;
mod drives;
mod error;
mod home;
mod media;
mod rows;
mod sessions;
mod sql;
pub mod table;
#[cfg(test)]
#[path = "../tests/common/server.rs"]
mod test_server;
mod upkeep;
mod versions;

pub use catalog_store::CatalogStamp;
pub use catalog_store::{CatalogFile, CatalogStore};
pub use db::Idb;
pub use decode::ID_DIGITS_LEAST;
pub use drives::robots::RobotLease;
pub use drives::seen_tapes::{SeenTape, TapeIs};
pub use drives::tape_requests::TapeRequest;
pub use error::IdbError;
pub use home::config::system_host;
pub use media::copies::CopyOf;
pub use media::leaving::LeavingTape;
pub use media::lost::{Loss, LostData, torn};
pub use media::managed::{ExportedTape, Holdings, Management};
pub use media::pools::{Allocation, Pool, RotationSet};
pub use media::rebuilt::LostMember;
pub use rows::{
    KeyRecord, Medium, Object, Segment, Session, Status, StreamPart, Totals, UnknownStatus, Version,
};
pub use sessions::beats::Running;
pub use sessions::recorded::{Described, SessionsOf};
pub use sessions::refusals::{Refusal, Refused};
pub use sessions::waits::SessionWait;
pub use upkeep::check::{Dangling, Sizes};
pub use upkeep::home_room::HomeRoom;
pub use upkeep::logging::LogLevel;
pub use upkeep::moving::{Moved, names_server, refuse_database, remove_blank_database};
pub use upkeep::stats::CountedTable;
pub use versions::leases::Reader;
pub use versions::order::credible;
pub use versions::protection::{Keeping, Protection};
pub use versions::pruning::{Claim, Forgotten, PruneRow, VersionSize};
pub use versions::used::ExpiredSegment;

/// What every call returns.
pub type Result<T> = std::result::Result<T, IdbError>;
