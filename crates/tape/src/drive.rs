//! What is asked of a tape drive.

use capstan_medium::tape::speeds::SETTLE_S;
use capstan_medium::tape::{Alert, Counters, Media, Speeds, Spot, Statistics, TapeError};

use crate::encryption::DriveKey;

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
