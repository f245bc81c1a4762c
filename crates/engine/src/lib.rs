//! What moves bulk data between agents and measures it: buffers, the link between disk agent and media agent, the port of stored frames
//! ([`frames`]), queues, meters, the [`ladder`] of compression and the verdict. Knows neither files' contents nor devices; of I/O it does
//! no more than randomness ([`entropy`]), names of what is to last ([`durable`]) and files without one ([`nameless`]). Threads are started
//! by way of [`threads`]; [`leaving`] ends all waits of a process.
//!
//! Memory is a fixed number of block buffers ([`buffer`]); every queue is bounded ([`queue`]); every stage counts when
//! it was busy and when it waited ([`meter`]); from that each session names what limits it ([`verdict`]).

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]

pub mod buffer;
pub mod clock;
pub mod durable;
pub mod entropy;
pub mod frames;
pub mod ladder;
pub mod leaving;
pub mod link;
pub mod message;
pub mod meter;
pub mod nameless;
pub mod os_error;
pub mod problem;
pub mod queue;
pub mod reach;
pub mod regular;
pub mod threads;
pub mod verdict;
