//! What is on a Capstan medium: blocks, frames, batches, segments and keys.
//!
//! Pure functions: bytes in, values out, and back. No I/O, no clock, no randomness of its own; nothing here panics on
//! what it reads. The bytes are specified in `docs/format.md`, so well that an independent reader can be written from
//! it; what is decided here lives as long as the media do.
//!
//! Smallest things first: [`bytes`], [`crc`] and [`id`], [`rows`] (what is known of files), [`mod@frame`] (the unit of compression,
//! encryption and check), [`mod@block`] (the unit written), [`record`] (the records of media and segments), [`catalog`] (what lies
//! where in a segment), [`attachment`] (what lies beside segments), [`array`] (blocks striped over several media) and [`array_map`]
//! (where a segment's blocks lie on them), [`keys`].

pub mod array;
pub mod array_map;
pub mod attachment;
pub mod block;
pub mod bytes;
pub mod catalog;
pub mod crc;
mod error;
pub mod frame;
pub mod id;
pub mod keys;
pub mod record;
pub mod rows;

pub use attachment::{idb_backup, lock};
pub use error::{FormatError, Result, then};
pub use frame::{codec, index};
pub use rows::{acl, batch, entry, sums};
