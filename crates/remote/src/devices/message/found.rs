//! What was opened at a device host: its number there, and what is known of it.

use capstan_format::id::SegmentNumber;
use capstan_format::record::MediumHeader;
use capstan_medium::tape::Elements;
use serde::{Deserialize, Serialize};

/// A medium that was opened.
#[derive(Debug, Serialize, Deserialize)]
pub struct MediumFound {
    /// Its number.
    pub number: u64,
    /// What errors call it.
    pub path: String,
    /// What it says of itself.
    pub header: MediumHeader,
    /// What is wrong with its header file.
    pub header_problem: Option<String>,
    /// Whether it is a tape.
    pub is_tape: bool,
    /// Whether it is an array.
    pub is_array: bool,
    /// Whether it takes attachments.
    pub takes_attachments: bool,
}

/// A medium that is held.
#[derive(Debug, Serialize, Deserialize)]
pub struct HeldFound {
    /// The number of what holds it.
    pub number: u64,
    /// The medium.
    pub medium: MediumFound,
}

/// A medium to write.
#[derive(Debug, Serialize, Deserialize)]
pub struct WritableFound {
    /// Its number.
    pub number: u64,
    /// The medium.
    pub medium: MediumFound,
    /// Whether it was made now.
    pub is_new: bool,
}

/// A device.
#[derive(Debug, Serialize, Deserialize)]
pub struct DeviceFound {
    /// Its number.
    pub number: u64,
    /// The number that the next segment gets.
    pub next_number: SegmentNumber,
    /// Whether numbers can be left out at no cost.
    pub can_leave_out_numbers: bool,
    /// Whether a stream's last block may be short.
    pub short_blocks: bool,
    /// Whether each segment gets a commit.
    pub commits_each_segment: bool,
    /// Whether it takes blocks in no time.
    pub is_instant: bool,
}

/// A library that was opened.
#[derive(Debug, Serialize, Deserialize)]
pub struct LibraryFound {
    /// Its number.
    pub number: u64,
    /// What it is called.
    pub name: String,
    /// What its robot is called.
    pub robot: String,
    /// What it has.
    pub elements: Elements,
}
