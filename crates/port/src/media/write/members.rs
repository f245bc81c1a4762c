//! The media that a session writes to: one, or several mirrors that all get the same blocks; and what of them was lost.

use std::sync::Arc;

use capstan_format::id::MediumId;
use capstan_format::record::{Follows, MediumHeader};
use capstan_medium::tape::DriveSession;
use capstan_medium::{Device, LostMember};
use parking_lot::Mutex;

/// A medium to write to, on its device.
pub struct Member {
    /// The device.
    pub device: Box<dyn Device>,
    /// What the medium says of itself.
    pub medium: MediumHeader,
    /// The medium that it continues, until its first segment says so.
    pub follows: Option<Follows>,
    /// Whether it is of a library or pool, of which another medium may take its place where it is full.
    pub goes_on: bool,
}

impl Member {
    /// A medium on its device.
    pub fn new(device: Box<dyn Device>, medium: MediumHeader) -> Self {
        Self { device, medium, follows: None, goes_on: false }
    }
}

/// What was lost, while a session goes on without it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LostPart {
    /// A mirror.
    Mirror,
    /// Segments that the others have: its medium was full before it had them, and they cannot be written anew.
    Segments,
    /// A member of an array, whose others are written.
    Member(LostMember),
    /// The spool before a tape, which has all of it none the less.
    Spool,
}

/// A mirror that failed, and was left; or a part of a medium.
#[derive(Debug, Clone)]
pub struct LostMirror {
    /// Its identity.
    pub medium: MediumId,
    /// Its label.
    pub label: String,
    /// Why.
    pub error: String,
    /// What of it was lost.
    pub part: LostPart,
}

/// Mirrors that failed since somebody looked.
pub type LostMirrors = Arc<Mutex<Vec<LostMirror>>>;

/// What the tape drives did that a session left, and what they have to say: all of them when it has ended, also if it failed.
pub type Drives = Arc<Mutex<Vec<DriveSession>>>;
