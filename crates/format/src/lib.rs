//! What is on a Capstan medium: blocks, frames, batches, segments and keys.
//!
//! Pure functions: bytes in, values out, and back. No I/O, no clock, no randomness of its own; nothing here panics on
//! what it reads. The bytes are specified in `docs/format.md`, so well that an independent reader can be written from
//! it; what is decided here lives as long as the media do.
//!
//! Smallest things first: [`bytes`] and [`crc`], [`entry`] (what is known of a file), [`batch`] (many of them as
//! columns), [`sums`] (checksums of their contents), [`frame`] (the unit of compression, encryption and check),
//! [`mod@block`] (the unit written), [`index`] and [`record`] (indexes of frames and segment records), [`catalog`] (what lies where in a segment), [`lock`] (until when a version
//! may not be removed), [`attachment`] (what lies between a tape's segments), [`array`] (blocks striped over several media)
//! and [`array_map`] (where a segment's blocks lie on them), [`keys`].

pub mod array;
pub mod array_map;
pub mod attachment;
pub mod batch;
pub mod block;
pub mod bytes;
pub mod catalog;
pub mod codec;
pub mod crc;
pub mod entry;
mod error;
pub mod frame;
pub mod id;
pub mod idb_backup;
pub mod index;
pub mod keys;
pub mod lock;
pub mod record;
pub mod sums;

pub use error::{FormatError, Result};
