//! Serving stored frames to disk agents, the other side of [`capstan_engine::frames`]: those of a stream in the order of its segment
//! ([`in_order`]), or of all streams in any order ([`anywhere`]). What is damaged in one place comes from another ([`replicas`]).
//!
//! Which media have a version's segments, and whether they are at hand, the cell knows: it is asked through [`KnownMedia`](capstan_port::media::read::known::KnownMedia).

pub mod anywhere;
pub mod in_order;
pub mod replicas;
