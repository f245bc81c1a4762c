//! Commands that move data: backups, restores, copies, comparisons, and runs of specifications.

pub mod backup;
pub mod compare;
pub mod copy;
pub mod mail;
pub mod prune;
pub mod restore;
pub mod run;
pub mod selection;
pub mod session;
pub mod spec;
pub mod stage;
pub mod webhook;
