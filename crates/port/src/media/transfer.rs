//! Frames that exist already are written into new segments: copies of segments, and what consolidations pass on.
//!
//! The cell says what is moved from where, and the media agent moves it. What was committed is told as where a session is written.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use capstan_engine::frames::Lack;
use capstan_engine::link::LinkClosed;
use capstan_engine::message::Listener;
use capstan_engine::meter::Meters;
use capstan_format::catalog::StreamContents;
use capstan_format::id::{KeyId, StreamId};
use capstan_format::index::FramePlace;
use capstan_format::record::{Lacks, SessionEnds, SessionLabel};

use super::read::known::{KnownMedia, Opened};
use super::write::committed::{OnCommit, Written};
use super::write::error::WriteError;
use super::write::heading::Heading;
use super::write::members::{Drives, LostMirrors, Member};
use super::write::options::NextMedia;

/// What segments of frames that exist are written with.
pub struct TransferOptions {
    /// Where the time goes.
    pub meters: Arc<Meters>,
    /// Now, in microseconds since 1970.
    pub now_us: fn() -> i64,
    /// Where it goes on when a medium ends; nowhere, if there is none.
    pub next_media: Option<Box<NextMedia>>,
    /// Records commits.
    pub on_commit: Box<OnCommit>,
}

/// Segments being written from frames that exist. One that is dropped without [`Self::finish`] is given up, and the media are let go.
pub trait SegmentTransfer: Send + Sync {
    /// Mirrors that failed and were left; who says so takes them out.
    fn lost_mirrors(&self) -> LostMirrors;

    /// What the tape drives did that were written to, one for each tape; whole when the transfer has finished.
    fn drives(&self) -> Drives;

    /// Copies a segment, or only reads what a copy would need. Frames that can be read nowhere are left out, and said.
    fn copy(&self, from: &CopyFrom<'_>, to: Option<CopyTo>) -> Copied;

    /// Passes frames of segments on, stream by stream.
    fn pass<'t>(&'t self, job: PassJob<'t>) -> Box<dyn Passing + 't>;

    /// Waits until all is written; gives the media back, and what was written. A segment that was not ended is dropped.
    fn finish(self: Box<Self>) -> Result<(Vec<Member>, Written), WriteError>;
}

/// A segment that is copied.
pub struct CopyFrom<'a> {
    /// The media that have it.
    pub media: &'a dyn KnownMedia,
    /// Its number in its version.
    pub segment: u32,
    /// Where it was opened.
    pub opened: &'a Opened,
    /// Whether it is on tape, which passes by once: all its streams are read at the same time.
    pub is_sequential: bool,
    /// Takes messages.
    pub listener: &'a dyn Listener,
    /// Set to end early: the copy of the segment is dropped then.
    pub stop: &'a AtomicBool,
}

/// What a copy of a segment says of itself.
pub struct CopyTo {
    /// Its heading.
    pub heading: Heading,
    /// The sessions that end in it.
    pub ends: SessionEnds,
    /// When the original was ended.
    pub ended_us: Option<i64>,
    /// What the copy lacks as the original does. What cannot be read now is added.
    pub lacks: Lacks,
}

/// What became of a copy.
#[derive(Debug, Default)]
pub struct Copied {
    /// What could be had nowhere, frame by frame: the stream, and from where to where.
    pub lost: Vec<(StreamId, u64, u64)>,
    /// Why a frame could not be read now that may be whole where it lies. Nothing was copied behind it.
    pub unread: Option<Lack>,
    /// Whether it did not come to its end, and is dropped.
    pub is_cut: bool,
}

/// What a consolidation passes on.
pub struct PassJob<'a> {
    /// The media that have the version.
    pub media: &'a dyn KnownMedia,
    /// The session that passes on.
    pub session: SessionLabel,
    /// Its wrapped key.
    pub key: Option<serde_json::Value>,
    /// Bytes after which a segment ends.
    pub segment_size: u64,
    /// What the streams' parts that were written before have of bytes.
    pub positions: HashMap<StreamId, u64>,
    /// Takes messages.
    pub listener: &'a dyn Listener,
    /// Set to end early: what was begun is ended, with less in it.
    pub stop: &'a AtomicBool,
}

/// A frame that is to be passed on.
#[derive(Debug, Clone, Copy)]
pub struct WantedFrame {
    /// Where it lies.
    pub place: FramePlace,
    /// How many of its bytes are needed.
    pub needed: u64,
    /// Whether it is passed on however little of it is needed: others refer to it.
    pub is_referred_to: bool,
    /// So many bytes it must have. One that has fewer is not passed on.
    pub must_have: u64,
}

/// What is passed on of a stream's part of a segment.
pub struct PassStream<'s> {
    /// The stream there.
    pub contents: &'s StreamContents,
    /// The wrapped key of its session, as it is known.
    pub key: Option<(KeyId, Option<serde_json::Value>)>,
    /// Whether its sealed frames can be opened: of a frame of which little is needed the rest is written anew then.
    pub opens: bool,
    /// The frames, in their order.
    pub frames: Vec<WantedFrame>,
}

/// What became of frames that are passed on, in the order in which it came.
#[derive(Debug)]
pub enum Passed {
    /// A segment was begun. The streams had these bytes before.
    Segment(HashMap<StreamId, u64>),
    /// The frame of that number was passed on.
    Frame(u64),
}

/// Why no more is passed on.
#[derive(Debug)]
pub enum PassEnd {
    /// The target takes no more.
    Closed,
    /// A frame could not be read now that may be whole where it lies.
    Unread(Lack),
}

impl From<LinkClosed> for PassEnd {
    fn from(_: LinkClosed) -> Self {
        Self::Closed
    }
}

/// Frames that are passed on.
pub trait Passing {
    /// Passes frames of a stream's part of a segment on. What became of them is added to `passed`.
    fn stream(
        &mut self,
        from: (u32, &Opened),
        stream: &PassStream<'_>,
        passed: &mut Vec<Passed>,
    ) -> Result<(), PassEnd>;

    /// Ends the segment that is open.
    fn end(&mut self) -> Result<(), LinkClosed>;

    /// What the streams' parts that were written have of bytes.
    fn into_positions(self: Box<Self>) -> HashMap<StreamId, u64>;
}
