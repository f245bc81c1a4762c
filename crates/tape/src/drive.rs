//! What is asked of a tape drive.

use std::io;

use crate::encryption::DriveKey;
use crate::generation::Media;
use crate::mechanics::Statistics;
use crate::reports::{Alert, Counters};

/// A drive in a sentence: those of virtual libraries have no other name than their number.
fn called(drive: &str) -> String {
    match drive.starts_with("drive ") {
        true => drive.to_owned(),
        false => format!("drive {drive}"),
    }
}

/// Why a drive did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum TapeError {
    /// No tape is loaded.
    #[error("no tape is loaded in {}; load one", called(drive))]
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
    /// The drive cannot encrypt, and the tape is to be encrypted by it, or is.
    #[error(
        "{} cannot encrypt with a key that it is given; use one that can (LTO-4 and later), whose keys are not managed by \
         its library",
        called(drive)
    )]
    CannotEncrypt {
        /// The drive.
        drive: String,
    },
    /// The drive says that it cannot use the tape at all.
    #[error("tape {tape} is none for that drive: {source}; use one of a generation that it takes")]
    Unsuited {
        /// Its barcode.
        tape: String,
        /// What the drive said, or what both are.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// No drive of the library can use the tape.
    #[error(
        "tape {tape} is {media}, which no drive of library {library} {} ({drives}); use a tape of another generation",
        if *to_write { "writes" } else { "reads" }
    )]
    NoDrive {
        /// The library.
        library: String,
        /// The tape's barcode.
        tape: String,
        /// What the tape is by that.
        media: Media,
        /// What the drives are.
        drives: String,
        /// It was to be written, else read.
        to_write: bool,
    },
    /// The tape takes what is appended, and nothing else.
    #[error("tape {tape} is WORM: what is on it cannot be overwritten or erased; use another tape")]
    Worm {
        /// Its barcode.
        tape: String,
    },
    /// It cleans drives.
    #[error("tape {tape} cleans drives and takes no data; put a label on it that begins with CLN")]
    Cleans {
        /// Its barcode.
        tape: String,
    },
    /// What lies there is encrypted, and not with the key that the drive has.
    #[error(
        "what is on tape {tape} is encrypted with another key than the drive was given; have its keys given to it by whoever \
         manages them"
    )]
    CannotDecrypt {
        /// The tape's barcode.
        tape: String,
    },
    /// The tape is encrypted by its drive, and nobody opened its key.
    #[error(
        "tape {tape} is encrypted by its drive and its key is not open; set CAPSTAN_PASSPHRASE, CAPSTAN_KEY_FILE or \
         CAPSTAN_RECOVERY_CODE"
    )]
    KeyNotOpen {
        /// The tape.
        tape: String,
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
    #[error("{} takes blocks of 1 to {most} bytes, not {length}", called(drive))]
    BlockSize {
        /// The drive.
        drive: String,
        /// The most it takes.
        most: usize,
        /// What was to be written.
        length: usize,
    },
    /// There is no such place on the tape.
    #[error("tape {tape} has no {spot}: its data end before it")]
    BeyondEnd {
        /// Its barcode.
        tape: String,
        /// What was asked for.
        spot: Spot,
    },
    /// The drive does not answer.
    #[error("{} is offline; look at its cables and its front panel", called(drive))]
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
    /// The file of a virtual tape is gone, or is none.
    #[error(
        "{path} is no virtual tape: {problem}; bring its file back, or take the tape out of the library"
    )]
    NotATape {
        /// Its file.
        path: String,
        /// What is wrong.
        problem: String,
    },
    /// The drive says that the tape is bad, in words that say what to do.
    #[error("tape {tape}: {source}")]
    BadTape {
        /// Its barcode.
        tape: String,
        /// What the drive said.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Other processes use all drives of a library.
    #[error(
        "every drive of library {library} is in use by {holder}; wait until one of them is free, or use another library"
    )]
    NoDriveFree {
        /// The library.
        library: String,
        /// Who has them.
        holder: String,
    },
    /// Another process uses it.
    #[error("{what} is in use by {holder}; wait until it ends, or use another")]
    Busy {
        /// The drive or robot.
        what: String,
        /// Who has it.
        holder: String,
    },
    /// The device says what is wrong, in words that say what to do.
    #[error("{0}")]
    Device(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The way to the device is lost, in words that say what to do. Of the tape it tells nothing.
    #[error("{0}")]
    Unreachable(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The robot failed.
    #[error("library {library}: {problem}")]
    Robot {
        /// Its directory or device.
        library: String,
        /// What happened, and what to do.
        problem: String,
    },
    /// The tape that is wanted is not there; it has to be brought.
    #[error("library {library}: {problem}")]
    Away {
        /// The library or drive, its directory or device.
        library: String,
        /// What is there instead, if anything, and what to do.
        problem: String,
    },
    /// What was asked of a library cannot be done as asked.
    #[error("library {library}: {problem}")]
    Library {
        /// Its directory or device.
        library: String,
        /// What happened, and what to do.
        problem: String,
    },
}

impl TapeError {
    /// Whether the tape is not where it is wanted, and may be brought there.
    pub fn is_away(&self) -> bool {
        matches!(self, Self::Away { .. } | Self::NoTape { .. })
    }

    /// Whether a drive, a tape or a robot failed; else it was asked for what cannot be done.
    pub fn is_failure(&self) -> bool {
        matches!(self, Self::EndOfMedium { .. } | Self::Robot { .. })
            || self.blames_tape()
            || self.blames_drive()
    }

    /// Whether the drive is at fault, so that another one may do.
    pub fn blames_drive(&self) -> bool {
        self.is_unreachable() || matches!(self, Self::Device(_))
    }

    /// Whether the drive does not answer, or the way to it is lost: that says nothing of the tape in it.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, Self::Offline { .. } | Self::Unreachable(_))
    }

    /// Whether only a key is wanted: that says nothing of the tape, nor of what lies on it.
    pub fn needs_key(&self) -> bool {
        matches!(self, Self::CannotDecrypt { .. } | Self::KeyNotOpen { .. })
    }

    /// Whether it says nothing of what lies on the tape: the drive is at fault, or a key is wanted.
    pub fn spares_tape(&self) -> bool {
        self.blames_drive() || self.needs_key()
    }

    /// Whether others have it.
    pub fn is_busy(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::NoDriveFree { .. })
    }

    /// Whether the tape is at fault, so that another one may do in the same drive.
    pub fn blames_tape(&self) -> bool {
        matches!(self, Self::Medium { .. } | Self::BadTape { .. }) || self.is_no_tape()
    }

    /// Whether it is a matter of what the tape is, and stays so.
    pub fn is_of_kind(&self) -> bool {
        matches!(
            self,
            Self::Unsuited { .. } | Self::NoDrive { .. } | Self::Worm { .. } | Self::Cleans { .. }
        )
    }

    /// Whether what should be a virtual tape is none: its file is gone, or something else.
    pub fn is_no_tape(&self) -> bool {
        matches!(self, Self::NotATape { .. })
    }
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

/// A place on a tape: so many filemarks from its begin, so many blocks behind the last of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spot {
    /// Filemarks before it.
    pub file: u64,
    /// Blocks between the last filemark and it.
    pub block: u64,
    /// Blocks and filemarks before it, by which a drive with LOCATE goes there without counting. A hint where it is known.
    pub object: Option<u64>,
}

impl Spot {
    /// The begin of the tape.
    pub const BEGIN: Self = Self { file: 0, block: 0, object: Some(0) };
}

impl std::fmt::Display for Spot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "block {} of file {}", self.block, self.file)
    }
}

/// How fast a drive is, in bytes per second at the medium.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speeds {
    /// The lowest rate that it can match; fed below that it stops and moves back again and again.
    pub lowest: f64,
    /// The highest.
    pub native: f64,
}

impl Speeds {
    /// Of a drive that does not say what it is: nothing is known of what it needs, and it takes at most as much as an LTO-10
    /// (400 MB/s) does of data that shrink 2.5 to 1.
    pub const UNKNOWN: Self = Self { lowest: 0.0, native: 1e9 };

    /// What suits both of two drives that are fed alike.
    pub fn and(self, other: Self) -> Self {
        Self { lowest: self.lowest.max(other.lowest), native: self.native.min(other.native) }
    }
}

/// Seconds to stop, to find the track and to be at speed after a locate, of linear drives: an estimate.
pub(crate) const SETTLE_S: f64 = 2.0;

/// A tape drive, this process's as long as this lives, with or without a tape.
pub trait TapeDrive: Send {
    /// What it is called in messages.
    fn name(&self) -> &str;
    /// Writes a block where the tape stands. What was there and behind it is gone. On return the drive has the block, not yet
    /// the tape.
    fn write_block(&mut self, block: &[u8]) -> Result<Written, TapeError>;
    /// Writes a filemark; on return the drive has it, not yet the tape.
    fn write_filemark(&mut self) -> Result<Written, TapeError>;
    /// On return all that was written is on the tape.
    fn sync(&mut self) -> Result<(), TapeError>;
    /// Erases the whole tape, and rewinds it: nothing is recorded on it any more. `long` overwrites all of its length, which
    /// takes as long as writing a full tape.
    fn erase(&mut self, long: bool) -> Result<(), TapeError>;
    /// Reads the next block.
    fn read_block(&mut self, into: &mut [u8]) -> Result<Read, TapeError>;
    /// Goes to a place: by the drive's own number where the place has one, else by filemarks and blocks. Where the number is
    /// wrong, the tape may stand elsewhere: who reads looks whether the block is the one he wants.
    fn locate(&mut self, to: Spot) -> Result<(), TapeError>;
    /// Goes to the end of what was written; returns that place.
    fn locate_end(&mut self) -> Result<Spot, TapeError>;
    /// Blocks and filemarks before the place where the tape stands, where the drive says so.
    fn position(&mut self) -> Result<Option<u64>, TapeError>;
    /// The largest block it takes, in bytes.
    fn block_max(&self) -> usize;
    /// What the tape holds at its begin, in bytes at the medium, where that is known.
    fn capacity(&self) -> Option<u64>;
    /// What is left of the tape behind what was written, in bytes at the medium, where the drive knows it.
    fn room(&mut self) -> Option<u64> {
        None
    }
    /// Whether the tape's tab is known to be set.
    fn is_write_protected(&self) -> bool {
        false
    }
    /// What the drive says that the tape is, where it tells.
    fn media(&self) -> Option<Media> {
        None
    }
    /// Rewinds and unloads the tape, so that the robot or somebody can take it.
    fn unload(&mut self) -> Result<(), TapeError>;
    /// What it did since it was opened, where its motion is known: of virtual drives.
    fn statistics(&self) -> Option<Statistics>;
    /// What it counted since it was opened.
    fn counters(&mut self) -> Counters {
        Counters::default()
    }
    /// What it wants people to know. Each alert comes once.
    fn alerts(&mut self) -> Vec<Alert> {
        Vec::new()
    }
    /// Whether it can compress by itself.
    fn compresses(&mut self) -> bool {
        false
    }
    /// The lowest rate that it can match without stopping and its native rate, in bytes per second at the medium, where they are
    /// known.
    fn speeds(&self) -> Option<Speeds> {
        None
    }
    /// Seconds of its clock in a second of the world: of a virtual drive that is faster than a real one, more than one.
    fn scale(&self) -> f64 {
        1.0
    }
    /// Bytes at the medium that it reads in the time that a locate takes however near the place is, where its speed is known.
    fn locate_bytes(&self) -> Option<f64> {
        self.speeds().map(|speeds| speeds.native * SETTLE_S)
    }
    /// Switches its own compression on or off, where it has any.
    fn set_compression(&mut self, _on: bool) -> Result<(), TapeError> {
        Ok(())
    }
    /// Whether it can encrypt with a key that it is given.
    fn encrypts(&mut self) -> bool {
        false
    }
    /// Gives it a key: from now on it encrypts what is written, and reads what is in clear or was encrypted with this key.
    /// `None` takes the key away. To say the same again costs nothing.
    fn set_key(&mut self, key: Option<&DriveKey>) -> Result<(), TapeError> {
        match key {
            Some(_) => Err(TapeError::CannotEncrypt { drive: self.name().to_owned() }),
            None => Ok(()),
        }
    }
}
