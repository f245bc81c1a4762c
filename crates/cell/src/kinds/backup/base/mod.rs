//! What a backup builds on, or goes on with.

pub(crate) mod incremental;
pub(crate) mod known;
mod names_away;
pub(crate) mod resume;
