//! Drives a device: multiplexes the streams of disk agents into segments with catalogs, commits, and reads media back.
//!
//! [`writer`] takes blocks from streams ([`grants`] hands out the buffers, as many as [`circulation`] says); [`multiplex`] stamps their place and writes
//! them, and at a segment's end writes the catalog ([`capstan_format::catalog`]), makes it durable and reports; on several media at once if they are
//! mirrors ([`mirror`]). [`reader`] reads one segment back,
//! whatever its state. The media agent never looks into a data frame and knows nothing of file systems.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]

mod circulation;
mod grants;
mod keep;
pub mod mirror;
mod multiplex;
pub mod reader;
pub mod scan;
pub mod segment;
pub mod transfer;
pub mod writer;
