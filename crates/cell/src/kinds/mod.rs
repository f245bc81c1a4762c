//! The kinds of session.

pub(crate) mod backup;
pub(crate) mod compare;
pub(crate) mod consolidate;
pub(crate) mod copy;
pub(crate) mod drill;
pub(crate) mod import;
pub mod prune;
pub mod repair;
pub(crate) mod restore;
pub(crate) mod skeleton;
pub mod stage;
pub(crate) mod verify;
