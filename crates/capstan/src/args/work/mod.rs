//! The options of the commands in `crate::work`.

pub(super) mod backup;
pub(super) mod consolidate;
pub(super) mod copy;
pub(super) mod drill;
pub(super) mod restore;
pub(super) mod run;
pub(super) mod stage;
