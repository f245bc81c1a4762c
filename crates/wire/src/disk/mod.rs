//! What a cell and a disk agent on another host say to each other.
//!
//! Each conversation is a channel. Its first message is a [`DiskAsk`](ask::DiskAsk). A question has one answer, a `Result`. A long
//! conversation goes on with messages both ways: [`ask`] has what the cell says in it, [`told`] what the disk agent says. Rows come
//! between ([`crate::rows`]). [`said`] has errors.

pub mod ask;
pub mod said;
pub mod told;
