//! What is read of media: why something cannot be read ([`error`]), what a scan of a segment found ([`findings`]), and which segments of
//! a version have which bytes ([`spans`]).

pub mod error;
pub mod findings;
pub mod spans;
