//! Drives a device: multiplexes the streams of disk agents into segments with catalogs, commits, and reads media back.
//!
//! [`write`] takes blocks from streams, gives them their place in a segment, and at a segment's end writes the catalog
//! ([`capstan_format::catalog`]), makes it durable and reports. [`read`] reads segments back, whatever their state. [`serve`] gives frames
//! of a version to disk agents. [`transfer`] writes frames that exist already into new segments. [`agent`] has all that behind the port
//! ([`capstan_port::media`]). The media agent never looks into a data frame and knows nothing of file systems.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]

pub mod agent;
pub mod read;
pub mod serve;
pub mod transfer;
pub mod write;
