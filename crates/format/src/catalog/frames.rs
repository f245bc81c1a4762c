//! Frames as they are stored: what a catalog has copies of.

use crate::frame::FrameHeader;

/// A frame as it is stored, its checksum checked.
#[derive(Debug, Clone)]
pub struct RawFrame {
    /// Its header.
    pub header: FrameHeader,
    /// Its stored payload.
    pub stored: Vec<u8>,
}

/// Where a copied frame lies in a catalog, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyPlace {
    /// Its begin, or that of what it is packed in.
    pub at: u64,
    /// Its length, or that of what it is packed in, with header and padding.
    pub len: u32,
    /// Which of the frames there it is, from 0.
    pub number: u32,
}

/// A catalog to read: fills a buffer with what lies at an offset.
pub type ReadAt<'a> = &'a dyn Fn(&mut [u8], u64) -> std::io::Result<()>;
