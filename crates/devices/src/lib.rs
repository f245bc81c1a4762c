//! What a media agent writes to and reads from: a directory as a medium, and the null device.
//!
//! Devices know blocks and segments as byte strings and file marks; they know nothing of sessions, streams or frames.
//! [`address`] reads device names, [`file`] is the file device, [`held`] what is done to its
//! medium but writing segments, [`null`] the null device; [`storage`] is the narrow
//! door to the file system, with [`faulty`] as its stand-in that loses what was not synchronised.

pub mod address;
mod error;
pub mod faulty;
pub mod file;
pub mod held;
mod holder;
pub mod library;
pub mod null;
pub mod storage;

pub use error::DeviceError;

use capstan_format::id::SegmentNumber;

/// What a media agent writes a session to. One process, one thread.
pub trait Device: Send {
    /// Begins a segment: the next free number of the medium.
    fn begin_segment(&mut self) -> Result<SegmentNumber, DeviceError>;
    /// Appends a block to the segment.
    fn write(&mut self, block: &[u8]) -> Result<(), DeviceError>;
    /// Ends the segment (a file mark). Not yet durable.
    fn end_segment(&mut self) -> Result<(), DeviceError>;
    /// Makes every ended segment durable.
    fn commit(&mut self) -> Result<(), DeviceError>;
    /// Drops the segment that was begun and not ended.
    fn abandon_segment(&mut self);
    /// Whether a stream's last block in a segment may be short.
    fn short_blocks(&self) -> bool;
    /// Whether it takes blocks in no time, so that nothing is gained by writing beside reading.
    fn is_instant(&self) -> bool {
        false
    }
}
