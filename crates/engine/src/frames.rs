//! The port of stored frames: what a restore, a comparison or an archive asks of whoever reads media. It is the mirror of
//! [`crate::link`].
//!
//! A disk agent asks for the frame that has a byte of a stream. It gets the frame as it lies on the medium, and opens it: it decrypts
//! and decompresses. If a frame does not open, the port offers the same frame from other media that have it. So the disk agent knows no
//! media, and the media agent no keys.

use capstan_format::frame::FrameHeader;
use capstan_format::id::{MediumId, SegmentId, SegmentNumber, StreamId};
use capstan_format::record::SessionLabel;

use crate::problem::Problem;
use crate::reach::Reach;

/// One place of a segment's data: itself on a medium, or a copy of it.
pub type Place = (SegmentId, MediumId, SegmentNumber);

/// A frame as it is stored. Its checksum was checked, if it has one.
pub struct StoredFrame<'f> {
    /// What is known of the session that wrote the stream: its keys open the frame.
    pub label: Option<&'f SessionLabel>,
    /// Its header.
    pub header: &'f FrameHeader,
    /// The bytes behind the header.
    pub stored: &'f [u8],
}

/// Why bytes of a stream cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Lack {
    /// They are damaged or missing on the media that should have them.
    Damaged(String),
    /// No medium that has them could be opened.
    Unread(Problem),
    /// They are on a medium that is not at hand.
    Away {
        /// The medium.
        medium: MediumId,
        /// Where it is, in words that follow its name.
        why: String,
        /// The whole of it, with what to do.
        text: Problem,
    },
}

impl Lack {
    /// The whole of it, with what to do.
    pub fn text(&self) -> String {
        match self {
            Self::Damaged(text) => text.clone(),
            Self::Unread(text) | Self::Away { text, .. } => text.to_string(),
        }
    }
}

/// Bytes of a stream that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The logical byte at which they begin.
    pub from: u64,
    /// The logical byte behind them; [`u64::MAX`] where no later one is known.
    pub to: u64,
    /// Why they cannot be had.
    pub why: Lack,
}

/// Opens a frame, or says what is wrong with it.
pub type OpenFrame<'o> = dyn FnMut(&StoredFrame<'_>) -> Result<(), String> + 'o;

/// Bytes of a stream that will be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// The stream.
    pub stream: StreamId,
    /// The first logical byte.
    pub from: u64,
    /// The logical byte behind the last.
    pub to: u64,
}

/// Where stored frames come from.
pub trait FramePort {
    /// Says what will be asked for, in its order, behind what was said before. Frames that come from another host are under way then
    /// when they are asked for. What is expected need not be asked for, and other bytes may be.
    fn expect(&mut self, _ranges: &[Expected]) {}

    /// Where a disk agent on another host finds the port, if it can: there it dials, and speaks to it without this process.
    fn reach(&self) -> Option<Reach> {
        None
    }

    /// Gives `open` the frame of a stream that has its logical byte `at`. If `open` refuses it, `open` gets the frame from another
    /// medium, as long as there is one. Returns the header of the frame that opened, or the gap around `at`.
    fn frame_at(
        &mut self,
        stream: StreamId,
        at: u64,
        open: &mut OpenFrame<'_>,
    ) -> Result<FrameHeader, Gap>;
}
