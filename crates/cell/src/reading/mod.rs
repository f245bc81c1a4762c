//! Reading versions: which media have them, opened once, and others in their place where something is away or damaged.

pub mod away;
pub(crate) mod bring;
pub(crate) mod contents;
pub(crate) mod frame_keys;
pub(crate) mod known;
pub(crate) mod losses;
pub(crate) mod names_there;
pub(crate) mod replicas;
pub(crate) mod serving;
pub(crate) mod unread;
pub(crate) mod version;
