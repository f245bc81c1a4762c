//! What segments of frames that exist already say of themselves.

use capstan_format::id::{SegmentId, VersionId};
use capstan_format::record::SessionLabel;

/// What a segment's header says of the session that writes it.
#[derive(Debug, Clone)]
pub struct Heading {
    /// The session, in clear.
    pub session: SessionLabel,
    /// The wrapped keys of every session whose frames lie in the segment.
    pub keys: Vec<serde_json::Value>,
    /// The segment that this one is a copy of.
    pub copy_of: Option<SegmentId>,
    /// When it was begun, if not now: of a copy the original's time.
    pub written_us: Option<i64>,
}

/// Whose a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// The version its frames belong to here.
    pub version: VersionId,
    /// Frames that nobody needs are left out between others.
    pub sparse: bool,
}
