//! Robots, drives that somebody is to load, and what tapes were seen in libraries.

pub(crate) mod robots;
pub(crate) mod seen_tapes;
pub(crate) mod tape_requests;
