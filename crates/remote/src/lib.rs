//! The ports of a cell over connections: what stands for an agent on another host, and what serves the agents of this one.
//!
//! What comes in is a transport: two halves of a stream of bytes. What goes out are the traits of `port`, with agents behind them that
//! are elsewhere; or, on the other side, calls of the agents of this process. Nothing is decided here, and nothing is opened.
//!
//! - [`transport`]: a stream of bytes in both directions.
//! - [`connection`]: many conversations over one transport, each with messages in both directions.
//! - [`data`]: bulk data over connections of their own.
//! - [`devices`]: a device host, with a media agent that reads segments there.
//! - [`disk`]: a disk agent on another host, and what serves one.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]

pub mod connection;
pub mod data;
pub mod devices;
pub mod disk;
pub mod transport;
