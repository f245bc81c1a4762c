//! Stored frames of a version, as a media agent serves them: those of a stream in the order of its segment, or of all streams in any
//! order. What is damaged in one place comes from another.

use capstan_engine::frames::{FramePort, Lack};
use capstan_format::catalog::StreamContents;
use capstan_format::id::StreamId;

use super::known::Opened;

/// Frames of a version by stream and logical byte, from whatever segment and medium has them.
pub trait VersionFrames: FramePort + Send {
    /// Calls with the ranges of a stream's bytes that frames can give, ascending, as offset behind `from` and length. What frames
    /// say is zeros is left out. Returns why some are lost, where they are: a row may claim any length, and so may a segment's end.
    fn backed(
        &mut self,
        stream: StreamId,
        from: u64,
        len: u64,
        each: &mut dyn FnMut(u64, u64),
    ) -> Option<Lack>;
}

/// Frames of segments of a version, stream by stream.
pub trait SegmentFrames: Send {
    /// The frames of a stream in an opened segment; `stream` is as the cell has it recorded. Asked for in order, every block is read once.
    fn of<'o>(
        &'o mut self,
        opened: (u32, &'o Opened),
        stream: &StreamContents,
    ) -> Box<dyn FramePort + 'o>;
}
