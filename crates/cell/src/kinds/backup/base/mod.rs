//! What a backup builds on, or goes on with.

pub(crate) mod files;
pub(crate) mod incremental;
mod names_away;
pub(crate) mod resume;
