//! The options of the commands in `crate::look`.

pub(super) mod diff;
pub(super) mod export;
pub(super) mod find;
pub(super) mod sessions;
pub(super) mod status;
