//! Reading versions: which media have them, opened once, and others in their place where something is away or damaged.

pub(crate) mod away_data;
pub mod away_files;
pub(crate) mod bring;
pub(crate) mod contents;
pub(crate) mod frame_check;
pub(crate) mod known_media;
pub(crate) mod known_medium;
pub(crate) mod losses;
pub(crate) mod names_there;
pub(crate) mod replica_used;
pub(crate) mod replicas;
mod required;
pub(crate) mod same_bytes;
pub(crate) mod serving;
pub(crate) mod sides;
pub(crate) mod unread;
pub(crate) mod version;
