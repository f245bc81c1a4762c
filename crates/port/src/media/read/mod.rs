//! What is read of media: segments ([`segment`]), what a scan of one found ([`findings`]), and why something cannot be read ([`error`]).
//! Of a version: its frames ([`frames`]), the media that are known ([`known`]), and which segments have which bytes ([`spans`]).

pub mod error;
pub mod findings;
pub mod frames;
pub mod known;
pub mod segment;
pub mod spans;
