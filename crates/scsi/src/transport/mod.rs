//! The narrow door to a device: one command, its data, what came of it.
//!
//! A transport sends one command at a time and never repeats one: a write that was repeated after a lost connection
//! lies on the tape twice. What an answer means is for the layers above.

pub mod iscsi;
pub(crate) mod node;
pub mod sg;

use std::time::Duration;

/// The command ended well.
pub const GOOD: u8 = 0x00;
/// The device has something to say: sense data.
pub const CHECK_CONDITION: u8 = 0x02;
/// The device is busy with another's command.
pub const BUSY: u8 = 0x08;
/// Another host has reserved the device.
pub const RESERVATION_CONFLICT: u8 = 0x18;
/// The device's queue is full.
pub const TASK_SET_FULL: u8 = 0x28;

/// What goes along with a command.
pub enum Data<'a> {
    /// Nothing.
    None,
    /// Bytes that the device sends. What is beyond these may be as it was, or anything.
    In(&'a mut [u8]),
    /// Bytes that the device gets.
    Out(&'a [u8]),
}

impl Data<'_> {
    /// Bytes at most.
    pub fn len(&self) -> usize {
        match self {
            Self::None => 0,
            Self::In(bytes) => bytes.len(),
            Self::Out(bytes) => bytes.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same once more, for a command that is sent again.
    pub fn again(&mut self) -> Data<'_> {
        match self {
            Self::None => Data::None,
            Self::In(bytes) => Data::In(bytes),
            Self::Out(bytes) => Data::Out(bytes),
        }
    }
}

/// What a device made of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The SCSI status.
    pub status: u8,
    /// Sense data as they came; empty where there are none.
    pub sense: Vec<u8>,
    /// How many bytes fewer than offered were transferred, says the transport. Not every target gets it right.
    pub residual: usize,
}

/// Why a command did not get as far as an outcome. What the device did with it is not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// No answer in time. The command may still be at work.
    #[error("no answer came in time")]
    TimedOut,
    /// The connection is gone.
    #[error("{0}")]
    Lost(String),
    /// The command was not sent.
    #[error("{0}")]
    NotSent(String),
}

/// Whether a command was left at work, as the process was told to end ([`crate::patience`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Left {
    /// None was, since the way was opened last.
    No,
    /// It is still at work, as far as that is known: the way cannot be opened again.
    AtWork,
    /// One was, and the way can be opened again.
    Over,
}

/// A way to a device.
pub trait Transport: Send {
    /// Sends a command and waits for its end. After an error that is not [`TransportError::NotSent`] nobody knows where
    /// the tape stands.
    fn execute(
        &mut self,
        cdb: &[u8],
        data: Data<'_>,
        timeout: Duration,
    ) -> Result<Outcome, TransportError>;
    /// Whether a command was left at work; one that is gets so long to end.
    fn left(&mut self, patience: Duration) -> Left;
    /// Opens the way again after it was lost. Never done unasked.
    fn reconnect(&mut self) -> Result<(), crate::Error>;
    /// The most bytes that one command can carry.
    fn max_transfer(&self) -> usize;
    /// The device's name for messages; it holds no secret.
    fn name(&self) -> &str;
}
