//! What is known of versions: whether they are whole and kept, what they lack, and which clock dated them.

pub(crate) mod away_media;
pub(crate) mod clock;
pub(crate) mod damaged;
pub(crate) mod incomplete;
pub(crate) mod lacking;
pub(crate) mod last_with;
pub mod leap;
pub(crate) mod mirror_gaps;
pub(crate) mod mirrors_left;
pub mod missing;
pub(crate) mod named;
pub(crate) mod one_object;
pub(crate) mod protect;
