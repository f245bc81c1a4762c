//! Commands that look: at sessions, versions, files and the state of all.

pub mod as_of;
pub mod diff;
pub mod export;
pub mod ls;
pub mod sessions;
pub mod status;
pub mod versions;
