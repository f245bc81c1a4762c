//! What is known of files: [`entry`] of one, [`batch`] of many as columns, [`sums`] the checksums of their contents.

pub mod batch;
pub mod entry;
pub mod sums;
