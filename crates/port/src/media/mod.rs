//! The port to a media agent, which reads and writes media.
//!
//! [`write`] is what a session that writes has: its media, what is committed, which media come next. [`read`] is what is found where
//! segments are read.

pub mod read;
pub mod write;
