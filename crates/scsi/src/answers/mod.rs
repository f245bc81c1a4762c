//! What devices answer, decoded by pure functions that take any bytes.

pub mod alerts;
pub mod element;
pub mod encryption;
pub mod inquiry;
pub mod log;
pub mod mode;
pub mod opcodes;
pub mod position;
pub mod sense;
