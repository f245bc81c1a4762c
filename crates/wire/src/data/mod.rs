//! A data connection: blocks of one stream from a disk agent to a media agent, or stored frames from a media agent to a disk agent.
//! Rules and bytes, without input and output.
//!
//! Who dials says first for whom he comes ([`opening`]). Then come messages in both directions, each with a [`head`]. Numbers in them
//! are varints, as in catalogs, or little-endian words of a fixed length.
//!
//! **Blocks** ([`block`], [`credit`]). One connection per stream. The media agent grants buffers of numbered segments ahead; each grant
//! is credit for one block. The disk agent sends blocks in the order of its credits. The last grant of a segment says so. Whoever ends
//! his part of a segment gives all credit up that is left of it. Blocks are numbered, and each message of the media agent says how many
//! it took: so a stream may one day go on after a cut.
//!
//! **Frames** ([`frames`], [`course`]). One connection per reader. The disk agent says which bytes of which streams it will ask for, and how many
//! bytes of frames it has room for. The media agent sends their frames in that order. What is not under way is asked for by itself; a
//! frame that does not open is asked for again, from another place.

pub mod block;
pub mod course;
pub mod credit;
pub mod frames;
pub mod head;
pub mod opening;

use capstan_format::FormatError;

pub use capstan_engine::reach::{Reach, Ticket};

/// The other side does not keep the rules of a data connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DataError {
    /// A kind of message that is unknown.
    #[error("a message of the unknown kind {0} came")]
    Kind(u8),
    /// A message that is longer than one of its kind may be.
    #[error("a message of kind {kind} and {bytes} bytes came, which is too long")]
    TooLong {
        /// The kind.
        kind: u8,
        /// How long it is.
        bytes: u64,
    },
    /// A message that has no sense now.
    #[error("a message of kind {0} came where it has no sense")]
    Senseless(u8),
    /// A message that cannot be understood.
    #[error("a message cannot be understood: {0}")]
    Form(#[from] FormatError),
    /// A block that was not granted.
    #[error("a block came that was not granted")]
    NotGranted,
    /// A block that says of itself what is not so.
    #[error("a block came whose {0} is wrong")]
    Block(&'static str),
    /// More was granted, or asked for, than there is room for.
    #[error("more {0} came than there is room for")]
    TooMuch(&'static str),
    /// More blocks were taken than were sent.
    #[error("more blocks were acknowledged than were sent")]
    NotSent,
}
