//! The media of a backup: opened, fed, written, and what of it is committed.

mod away;
pub(in crate::kinds::backup) mod commit;
mod devices;
mod ended;
pub(in crate::kinds::backup) mod feed;
pub(in crate::kinds::backup) mod foresee;
pub(in crate::kinds::backup) mod keep;
pub(in crate::kinds::backup) mod lost;
mod medium;
mod named;
pub(in crate::kinds::backup) mod segment_size;
pub(in crate::kinds::backup) mod to_supply;
pub(in crate::kinds::backup) mod went_on;
pub(in crate::kinds::backup) mod write;
