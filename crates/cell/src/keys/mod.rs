//! Keys: the ring of a home, the key of its names, and what opens what lies on media.

pub mod keyring;
pub(crate) mod locks_on_media;
pub mod names_key;
pub(crate) mod records;
pub(crate) mod take_ring;
pub(crate) mod unlock;
