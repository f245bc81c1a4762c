//! Writing sessions: what streams bring is multiplexed into segments with catalogs, and committed; on several media at once if they are
//! mirrors.
//!
//! [`writer`] is the end that others use. [`grants`] hands buffers out to streams, as many as [`circulation`] says. [`multiplex`] gives
//! blocks their place. [`segment`] writes one, and its catalog and end. [`keep`] keeps what is not committed where it cannot be read again.

mod circulation;
mod grants;
mod keep;
pub(crate) mod mirror;
mod multiplex;
pub mod segment;
pub mod writer;
