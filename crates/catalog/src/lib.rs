//! Catalogs: which rows a version has, in which order, and where their data are.
//!
//! In comes what the internal database keeps: tables of versions and segments, and one catalog file per segment. Out come rows, as a
//! backup, a restore, a search or another tool wants them. This crate opens no device and starts no session.

#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]

pub mod batch;
pub mod diff;
mod error;
pub mod export;
pub mod find;
pub mod keys;
pub mod listed;
pub mod listing;
pub mod packing;
pub mod places;
pub mod row;
pub mod sparse;
pub mod version;

pub use error::{CatalogError, NotOnMedia, Result};
