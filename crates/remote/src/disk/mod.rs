//! A disk agent over a connection: [`RemoteDiskAgent`] stands for one at the cell's side, [`DiskServer`] serves one at the client's.
//!
//! A question is a channel with one answer. A long conversation is a channel too; rows of a backup's base, and each worker of a restore,
//! have further ones. Rows are pushed as far as there is room for them, and nothing is waited for by itself. What is counted is told five
//! times a second. To end early is asked for by the channel's stop. A connection that breaks ends each call with an error that says so;
//! at the client's side it is like a stop, and what was begun is cleaned up.

mod asking;
mod bulk;
mod errors;
mod frames;
mod post;
mod serving;
mod told;

pub use self::asking::RemoteDiskAgent;
pub use self::bulk::Bulk;
pub use self::serving::DiskServer;
