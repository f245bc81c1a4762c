//! The media of a version, as who serves its frames asks for them.

use std::sync::Arc;

use capstan_engine::frames::{Lack, Place};
use capstan_format::catalog::Contents;

use super::error::ReadError;
use super::segment::ReadSegment;

/// Why bytes cannot be had that no frame has.
pub const GAP: &str = "some of its data are missing on the medium";

/// The lack of bytes that no frame has.
pub fn gap() -> Lack {
    Lack::Damaged(GAP.to_owned())
}

/// A segment's data, opened at one of its places.
pub struct Opened {
    /// Where.
    pub at: Place,
    /// What reads it.
    pub reader: Arc<dyn ReadSegment>,
    /// What lies where there.
    pub layout: Arc<Contents>,
}

/// The media of a version, as the cell knows them. Segments are numbered as the version has them.
pub trait KnownMedia: Sync {
    /// The places of a segment, in the order in which they are tried.
    fn places(&self, segment: u32) -> Vec<Place>;

    /// What a segment holds, as the cell has it recorded.
    fn contents(&self, segment: u32) -> Result<Arc<Contents>, Lack>;

    /// Opens a segment at the first of its places that can be opened.
    fn open(&self, segment: u32) -> Result<Opened, Lack>;

    /// Opens a segment at one of its places.
    fn open_at(&self, segment: u32, at: Place) -> Result<Opened, Lack>;

    /// Notes that frames of a segment were had at `used`; `why` says what is wrong with the place that comes first.
    fn note_replica(&self, segment: u32, used: Place, why: &dyn Fn() -> String, frames: u64);

    /// Notes damage of a segment at the place that comes first.
    fn note_hurt(&self, segment: u32);

    /// Why what failed to be read at a place cannot be had.
    fn unread(&self, at: Place, e: ReadError) -> Lack;

    /// The same. If it is damaged there, that is recorded.
    fn note_unread(&self, at: Place, e: ReadError) -> Lack;
}
