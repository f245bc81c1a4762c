//! What a session that writes has: the media it writes to ([`members`]), what it is told ([`options`], [`heading`]), its running ([`session`]), what it says of
//! segments that are durable ([`committed`]), and why it ended early ([`error`]).

pub mod committed;
pub mod error;
pub mod heading;
pub mod members;
pub mod options;
pub mod session;
