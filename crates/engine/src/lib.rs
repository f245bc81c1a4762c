//! What moves bulk data between agents and measures it: buffers, the link between disk agent and media agent, queues,
//! meters and the verdict. Does no I/O and knows neither files nor devices.
//!
//! Memory is a fixed number of block buffers ([`buffer`]); every queue is bounded ([`queue`]); every stage counts when
//! it was busy and when it waited ([`meter`]); from that each session names what limits it ([`verdict`]).

pub mod buffer;
pub mod clock;
pub mod entropy;
pub mod link;
pub mod message;
pub mod meter;
pub mod queue;
pub mod verdict;
