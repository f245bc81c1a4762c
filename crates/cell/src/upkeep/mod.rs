//! What an administrator does with media, arrays and the internal database.

pub mod arrays;
pub(crate) mod home_room;
pub mod idb;
pub(crate) mod lock;
pub mod media;
