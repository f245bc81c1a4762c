//! Holding what a version has against the file systems: comparisons, and the proof of what a drill restored.

pub(crate) mod compare;
pub(crate) mod look;
pub(crate) mod proof;
mod same_bytes;
pub(crate) mod scratch;
