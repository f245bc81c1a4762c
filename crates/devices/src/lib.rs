//! What a media agent writes to and reads from: directories and tapes as media, and the null device.
//!
//! Devices know blocks and segments as byte strings and file marks; they know nothing of sessions, streams or frames.
//! A device [`host`] opens media, libraries and drives. [`address`] reads device names and [`open`] opens what they mean: [`file`] is the
//! file device, [`tape`] the tape device,
//! [`library`] what robots and drives there are, of which [`scsi`] are the real ones; [`attached`] is what lies on a tape
//! beside segments, [`held`] is what is done to a medium of
//! files but writing segments, [`operator`] who puts tapes into drives without a robot, [`queue`] how long drives are waited for that others have, [`waits`] how long all of that took, [`shared`] where robots are booked that several hosts share, [`null`] the null device, [`rait`] arrays of devices; [`storage`] is the narrow
//! door to the file system, with [`faulty`] as its stand-in that loses what was not synchronised.

#![cfg_attr(test, allow(clippy::disallowed_methods, reason = "a test may panic"))]

pub mod address;
pub mod attached;
mod error;
pub mod faulty;
pub mod file;
pub mod held;
pub mod host;
pub mod library;
pub mod medium;
pub mod mounts;
pub mod null;
pub mod open;
pub mod operator;
pub mod queue;
pub mod rait;
pub mod scsi;
pub mod shared;
pub mod storage;
pub mod tape;
pub mod waits;

pub use error::{DeviceError, WAYS_TO_ROOM};

use capstan_format::id::SegmentNumber;
use capstan_tape::{DriveSession, Speeds};

/// What a media agent writes a session to. One process, one thread.
pub trait Device: Send {
    /// The number that the next segment gets.
    fn next_number(&self) -> SegmentNumber;
    /// Lets the next segment have at least that number: members of an array all give a segment the same one.
    fn advance(&mut self, to: SegmentNumber);
    /// Whether numbers can be left out at no cost.
    fn can_leave_out_numbers(&self) -> bool {
        true
    }
    /// Begins a segment: the next free number of the medium.
    fn begin_segment(&mut self) -> Result<SegmentNumber, DeviceError>;
    /// Appends a block to the segment.
    fn write(&mut self, block: &[u8]) -> Result<(), DeviceError>;
    /// The segment's catalog comes next.
    fn begin_catalog(&mut self) -> Result<(), DeviceError> {
        Ok(())
    }
    /// Ends the segment (a file mark). Not yet durable.
    fn end_segment(&mut self) -> Result<(), DeviceError>;
    /// Makes every ended segment durable.
    fn commit(&mut self) -> Result<(), DeviceError>;
    /// After the medium got full: drops what has no room, and makes durable what was ended before that came to the medium whole.
    /// Returns the number of the first segment that did not; 0 where nothing can be saved so.
    fn salvage(&mut self) -> Result<SegmentNumber, DeviceError> {
        Ok(SegmentNumber(0))
    }
    /// Drops the segments that it ended from that number on, as if they had not been begun: other media do not have them. They are
    /// recorded nowhere, and this device wrote them. Returns whether it could.
    fn cut(&mut self, from: SegmentNumber) -> bool {
        let _ = from;
        false
    }
    /// Blocks and filemarks before the first block of a segment that it wrote to tape, where the drive said so. Known once the
    /// segment is committed.
    fn object_of(&self, segment: SegmentNumber) -> Option<u64> {
        let _ = segment;
        None
    }
    /// Drops the segment that was begun and not ended.
    fn abandon_segment(&mut self);
    /// Whether a stream's last block in a segment may be short.
    fn short_blocks(&self) -> bool;
    /// Whether a commit costs so little that each segment gets one.
    fn commits_each_segment(&self) -> bool {
        true
    }
    /// Whether the medium ends soon: the segment has to end, and nothing begins after it.
    fn is_ending(&self) -> bool {
        false
    }
    /// Bytes of a segment that suit the medium, where it matters.
    fn segment_size(&self) -> Option<u64> {
        None
    }
    /// Members of it that failed since somebody asked, while the others go on.
    fn take_lost(&mut self) -> Vec<rait::LostMember> {
        Vec::new()
    }
    /// Why it goes on without the spool before it, if that was lost since somebody asked.
    fn take_lost_spool(&mut self) -> Option<String> {
        None
    }
    /// Whether what it writes to can compress by itself, as tape drives do.
    fn compresses(&mut self) -> bool {
        false
    }
    /// Switches that compression on or off, where there is any.
    fn set_compression(&mut self, _on: bool) -> Result<(), DeviceError> {
        Ok(())
    }
    /// How fast the tape drive, or the array of them, is that it writes to.
    fn speeds(&self) -> Option<Speeds> {
        None
    }
    /// What its tape drives did since they were opened, and what they have to say.
    fn drive_sessions(&mut self) -> Vec<DriveSession> {
        Vec::new()
    }
    /// Whether it takes blocks in no time, so that nothing is gained by writing beside reading.
    fn is_instant(&self) -> bool {
        false
    }
}
