//! Arrays of devices (RAIT): blocks striped over several media, with parity, or the same on all of them.
//!
//! An array is a device and a storage like any other: [`device`] writes to its members, each of which is a device with a
//! thread of its own, [`storage`] and [`segment`] read what is on them as if it were one medium, and make up for members
//! and blocks that are lost. So arrays can be members of arrays. [`address`] reads their names, [`open`] opens them by
//! name, [`make`] makes them, [`half_made`] ends what a kill left of that, [`find`] puts them together from what tapes say of themselves, [`drives`] counts what they
//! need of tape drives, [`rebuild`] writes a lost member anew. What lies where is in `capstan_format::array`.

use std::sync::Arc;

use capstan_format::id::SegmentNumber;
use parking_lot::Mutex;

pub mod address;
mod attached;
mod blocks;
pub mod device;
pub mod drives;
pub(crate) mod ends;
mod enough;
pub mod find;
pub mod half_made;
pub mod make;
mod member;
pub mod open;
pub mod placed;
pub mod rebuild;
pub mod segment;
pub mod storage;
#[cfg(test)]
mod tests;
pub(crate) mod unfinished;

/// A member that failed, and was left; the others go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LostMember {
    /// Its place in the array, from 0.
    pub member: usize,
    /// Its device.
    pub device: String,
    /// Why.
    pub error: String,
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
