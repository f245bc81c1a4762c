//! The media that the database knows, opened where they are found, each once.

pub(crate) mod media;
pub(crate) mod medium;
