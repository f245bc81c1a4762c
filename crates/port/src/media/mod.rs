//! The port to a media agent, which reads and writes media.
//!
//! [`write`] is what a session that writes has: its media, what is committed, which media come next. [`read`] is what is found where
//! segments are read. [`transfer`] moves frames that exist already from segments to segments.

pub mod read;
pub mod transfer;
pub mod write;

use std::sync::Arc;

use capstan_engine::meter::Meters;
use capstan_format::id::SegmentNumber;
use capstan_medium::OpenMedium;

use self::read::error::ReadError;
use self::read::frames::{SegmentFrames, VersionFrames};
use self::read::known::KnownMedia;
use self::read::segment::ReadSegment;
use self::read::spans::Spans;
use self::transfer::{SegmentTransfer, TransferOptions};
use self::write::committed::OnCommit;
use self::write::members::Member;
use self::write::options::WriterOptions;
use self::write::session::SessionWriter;

/// A media agent.
pub trait MediaAgent: Send + Sync {
    /// Begins to write a session to media that all get the same; `options` has the first one's header, and all have its block size.
    /// `meters` are filled with the time of its stages. Each commit is told to `on_commit`, which records it.
    fn write(
        &self,
        media: Vec<Member>,
        options: WriterOptions,
        meters: Arc<Meters>,
        on_commit: Box<OnCommit>,
    ) -> Box<dyn SessionWriter>;

    /// Begins to write frames that exist already into new segments of media, which have the same block size.
    fn transfer(&self, media: Vec<Member>, options: TransferOptions) -> Box<dyn SegmentTransfer>;

    /// Serves frames of a version in any order; `spans` says which of its segments has what.
    fn frames<'a>(&self, media: &'a dyn KnownMedia, spans: Spans) -> Box<dyn VersionFrames + 'a>;

    /// Serves frames of a version segment by segment, in their order.
    fn frames_in_order<'a>(&self, media: &'a dyn KnownMedia) -> Box<dyn SegmentFrames + 'a>;

    /// Opens a segment of a medium to read.
    fn open(
        &self,
        medium: &OpenMedium,
        number: SegmentNumber,
    ) -> Result<Arc<dyn ReadSegment>, ReadError>;
}
