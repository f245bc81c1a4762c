//! What is on a Capstan medium: blocks, frames, batches, segments and keys.
pub mod entry;
pub mod id;
