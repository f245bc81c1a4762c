//! What cannot be read now: media of a version that are away, and the files that lie on them.

pub(crate) mod data;
pub mod files;
mod required;
