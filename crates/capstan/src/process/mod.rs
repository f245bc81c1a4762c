//! The process: its home, environment, signals, memory, exit codes, and who sits before it.

pub mod drives;
pub mod environment;
pub mod home;
pub mod memory;
pub mod operator;
pub mod signals;
