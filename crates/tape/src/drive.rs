//! What is asked of a tape drive.

use std::io;

use crate::mechanics::Statistics;

/// Why a drive did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum TapeError {
    /// No tape is loaded.
    #[error("no tape is loaded in drive {drive}; load one")]
    NoTape {
        /// The drive.
        drive: String,
    },
    /// The tape cannot be written.
    #[error("tape {tape} is write-protected; move its write-protect tab, or use another tape")]
    WriteProtected {
        /// Its barcode.
        tape: String,
    },
    /// The end of the tape was reached: nothing of the block was written.
    #[error("tape {tape} is full")]
    EndOfMedium {
        /// Its barcode.
        tape: String,
    },
    /// The medium could not be read or written there.
    #[error(
        "tape {tape} has a medium error at block {at}; clean the drive, and copy the tape if it stays"
    )]
    Medium {
        /// Its barcode.
        tape: String,
        /// The block's place on the tape.
        at: u64,
    },
    /// A block is larger than the buffer that was given for it.
    #[error(
        "block {at} of tape {tape} has {length} bytes, more than the {asked} that were expected"
    )]
    TooLong {
        /// The tape's barcode.
        tape: String,
        /// The block's place on the tape.
        at: u64,
        /// Its length.
        length: usize,
        /// What there was room for.
        asked: usize,
    },
    /// A block that the drive does not take.
    #[error("drive {drive} takes blocks of 1 to {most} bytes, not {length}")]
    BlockSize {
        /// The drive.
        drive: String,
        /// The most it takes.
        most: usize,
        /// What was to be written.
        length: usize,
    },
    /// There is no such place on the tape.
    #[error("tape {tape} ends at block {end}, before block {at}")]
    BeyondEnd {
        /// Its barcode.
        tape: String,
        /// Where the data end.
        end: u64,
        /// What was asked for.
        at: u64,
    },
    /// The drive does not answer.
    #[error("drive {drive} is offline; look at its cables and its front panel")]
    Offline {
        /// The drive.
        drive: String,
    },
    /// The file of a virtual tape or library failed.
    #[error("cannot {action} {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A virtual tape or library is not as it should be.
    #[error("{path} is damaged: {problem}")]
    Damaged {
        /// Its file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// The robot could not move a tape.
    #[error("library {library}: {problem}")]
    Library {
        /// Its directory or device.
        library: String,
        /// What happened, and what to do.
        problem: String,
    },
}

/// What a write came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Written {
    /// The end of the tape is near: end the segment, and go on on another.
    pub early_warning: bool,
}

/// What reading found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// A block of that many bytes.
    Block(usize),
    /// A filemark; the tape stands behind it.
    Filemark,
    /// The end of what was written.
    EndOfData,
}

/// A tape drive. A place on the tape is the number of blocks and filemarks before it, from 0.
pub trait TapeDrive: Send {
    /// Writes a block where the tape stands. What was there and behind it is gone. On return the drive has the block, not yet
    /// the tape.
    fn write_block(&mut self, block: &[u8]) -> Result<Written, TapeError>;
    /// Writes a filemark; if `sync`, on return it and all before it is on the tape.
    fn write_filemark(&mut self, sync: bool) -> Result<Written, TapeError>;
    /// Reads the next block.
    fn read_block(&mut self, into: &mut [u8]) -> Result<Read, TapeError>;
    /// Goes to a place.
    fn locate(&mut self, at: u64) -> Result<(), TapeError>;
    /// Goes to the end of what was written; returns that place.
    fn locate_end(&mut self) -> Result<u64, TapeError>;
    /// Goes to the begin.
    fn rewind(&mut self) -> Result<(), TapeError> {
        self.locate(0)
    }
    /// Where the tape stands.
    fn position(&self) -> Result<u64, TapeError>;
    /// The largest block it takes, in bytes.
    fn block_max(&self) -> usize;
    /// What it did since it was opened, as far as it is known.
    fn statistics(&self) -> Option<Statistics>;
}
