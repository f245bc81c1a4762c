//! Blocks of a backup over data connections, one for each stream.
//!
//! - [`serve`]: a port of this process, served to streams that are filled elsewhere.
//! - [`port`]: the port that such a stream sees.

pub mod port;
pub mod serve;
#[cfg(test)]
mod tests;
