//! A device that segments are written to.

use std::sync::Arc;

use capstan_engine::problem::Problem;
use capstan_format::id::SegmentNumber;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::DeviceError;
use crate::storage::Handle;
use crate::tape::{DriveSession, Speeds};

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
    fn take_lost(&mut self) -> Vec<LostMember> {
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
    /// What stands for it, where it is at another host.
    fn handle(&self) -> Option<Handle> {
        None
    }
    /// Whether it takes blocks in no time, so that nothing is gained by writing beside reading.
    fn is_instant(&self) -> bool {
        false
    }
}

/// A member that failed, and was left; the others go on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostMember {
    /// Its place in the array, from 0.
    pub member: usize,
    /// Its device.
    pub device: String,
    /// Why.
    pub error: Problem,
    /// Whether that tells nothing of what is on it: its tape is elsewhere, or others have it.
    pub is_away: bool,
    /// The first segment that it may lack, where it failed while it was written.
    pub since: Option<SegmentNumber>,
}

impl LostMember {
    /// How messages name it.
    pub fn name(&self) -> String {
        format!("member {} ({})", self.member + 1, self.device)
    }
}

/// Members that failed since somebody looked.
pub type LostMembers = Arc<Mutex<Vec<LostMember>>>;
