//! Stored frames of a restore over a data connection.
//!
//! - [`serve`]: ports of this process, one after the other, served to a reader elsewhere.
//! - [`port`]: the port that such a reader sees.

pub mod port;
pub mod serve;
#[cfg(test)]
mod tests;

/// What a frame or a gap takes of the room beside its stored bytes: small ones take memory too.
const COST: u64 = 512;

/// Bytes of frames that may be under way and unread by default: 4 MiB, what a link of 1 Gb/s and 30 ms holds.
pub const WINDOW: u64 = 4 << 20;
