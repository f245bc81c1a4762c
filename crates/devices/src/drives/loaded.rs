//! A drive with a tape in it: where that stands, and what passed by.

use std::time::{Duration, Instant};

use capstan_address::SpoolPlan;
use capstan_medium::tape::{DriveSession, Media, Mount, Speeds, Spot, TapeError, WINDOW};
use capstan_tape::{DriveKey, Read, TapeDrive, Written};

use super::passed::{Passed, Shape};

/// A drive of a host with the tape in it.
pub struct LoadedDrive {
    drive: Box<dyn TapeDrive>,
    mount: Option<Mount>,
    /// What the tape is called, where that is known.
    tape: Option<String>,
    /// How often it went to a place, and how long that took.
    locates: (u64, Duration),
    /// Where the tape stands, while that is known.
    at: Option<Spot>,
    passed: Passed,
    /// Bytes that are to be read ahead.
    ahead: usize,
    /// What the tape is by the drive and by its sticker, where these are not the same, until it was told.
    contradiction: Option<String>,
    again: Again,
    /// Something may be in the drive's buffer that is not on the tape.
    is_unsynced: bool,
    /// Something was written, and is on the tape.
    has_written: bool,
}

/// A block that cannot be read is read again so often, each time after the drive went there anew: a speck of dust may be gone, and the
/// tape runs otherwise.
const TRIES_AGAIN: u32 = 3;
/// Where so many blocks stayed unreadable it is no speck: the others are tried once, as each try takes the drive a while.
const STAY_MOST: u32 = 16;

/// What was read again, as it could not be read at first.
#[derive(Default)]
struct Again {
    /// Blocks that came at a later try.
    came: u64,
    /// Blocks that did not.
    stayed: u32,
    /// Whether somebody was told that there are such blocks.
    told: bool,
}

/// A block found on a tape, or what is there instead.
pub enum Found<'a> {
    /// A block.
    Block(&'a [u8]),
    /// The file ends here.
    Filemark,
    /// Nothing was written here.
    EndOfData,
}

/// What a tape is by its drive and by its sticker, where these are not the same.
fn contradiction(drive: &dyn TapeDrive, barcode: Option<&str>) -> Option<String> {
    let (here, there) = (drive.media()?, Media::of_barcode(barcode?)?);
    (here != there).then(|| {
        format!(
            "by its barcode tape {} is {there}, the drive says that it is {here}",
            barcode.unwrap_or_default()
        )
    })
}

/// The number of the first block of the file that a place is in.
fn begin_of(spot: Spot) -> Option<u64> {
    spot.object?.checked_sub(spot.block)
}

/// The begin of a buffer, and no more memory than that: where a block's length is not known, its buffer is a hundred times as large.
fn cut(mut block: Vec<u8>, length: usize) -> Vec<u8> {
    block.truncate(length);
    block.shrink_to_fit();
    block
}

fn behind_block(at: Spot) -> Spot {
    Spot { block: at.block + 1, object: at.object.map(|n| n + 1), ..at }
}

fn behind_filemark(at: Spot) -> Spot {
    Spot { file: at.file + 1, block: 0, object: at.object.map(|n| n + 1) }
}

impl LoadedDrive {
    /// A drive with a tape in it, which is read through that spool if there is one.
    pub(crate) fn new(
        drive: Box<dyn TapeDrive>,
        mount: Option<Mount>,
        spool: Option<&SpoolPlan>,
    ) -> Self {
        let tape = mount.as_ref().map(|mount| mount.barcode.clone());
        let locates = (0, Duration::ZERO);
        let contradiction = contradiction(&*drive, tape.as_deref());
        let (passed, again) = (Passed::through(spool), Again::default());
        Self {
            drive,
            mount,
            tape,
            locates,
            at: None,
            passed,
            ahead: 0,
            contradiction,
            again,
            is_unsynced: false,
            has_written: false,
        }
    }

    /// The same, with a tape that is called so.
    pub(crate) fn called(mut self, tape: &str) -> Self {
        self.tape = Some(tape.to_owned());
        self
    }

    /// Has the drive go somewhere.
    fn locate<R>(
        &mut self,
        go: impl FnOnce(&mut dyn TapeDrive) -> Result<R, TapeError>,
    ) -> Result<R, TapeError> {
        let begun = Instant::now();
        let gone = go(&mut *self.drive);
        self.locates.0 += 1;
        self.locates.1 += begun.elapsed();
        gone
    }

    /// The number of the drive in its library.
    pub(crate) fn drive_number(&self) -> Option<u32> {
        self.mount.as_ref().map(|mount| mount.drive)
    }

    /// Goes to a place, if the tape is not there. By filemarks and blocks: who writes has to be certain. The drive's number of the
    /// place is asked for once, and counted from there.
    fn go(&mut self, spot: Spot) -> Result<(), TapeError> {
        let there = |at: Spot| (at.file, at.block) == (spot.file, spot.block);
        if self.at.is_none_or(|at| !there(at)) {
            self.at = None;
            self.locate(|drive| drive.locate(Spot { object: None, ..spot }))?;
            let object = match there(Spot::BEGIN) {
                true => Spot::BEGIN.object,
                false => self.drive.position()?,
            };
            self.at = Some(Spot { object, ..spot });
        }
        Ok(())
    }

    /// Goes to a block by the drive's number of it and reads it. False where that leads nowhere, or to another block.
    fn locate_block(
        &mut self,
        spot: Spot,
        longest: usize,
        is_wanted: &dyn Fn(&[u8]) -> bool,
    ) -> Result<bool, TapeError> {
        let mut block = vec![0; longest];
        self.at = None;
        let there = self.locate(|drive| drive.locate(spot));
        let read = there.and_then(|()| self.read_here(spot, &mut block));
        match read {
            Ok(Read::Block(length)) if is_wanted(&block[..length]) => {
                self.passed.keep(spot, cut(block, length));
                self.at = Some(behind_block(spot));
                Ok(true)
            }
            // Another drive may have counted in another way.
            Ok(_) => Ok(false),
            Err(e) if e.blames_drive() => Err(e),
            Err(_) => Ok(false),
        }
    }

    /// The drive's number of the first block of a file in which the tape stands or that passed by, where it is known.
    pub fn begin_of(&self, file: u64) -> Option<u64> {
        let at = self.at.filter(|at| at.file == file);
        at.and_then(begin_of).or_else(|| self.passed.begins.get(&file).copied())
    }

    /// The shape of the segment that begins with that file, if somebody looked at it since the tape was loaded or written.
    pub(crate) fn shape(&self, file: u64) -> Option<Shape> {
        self.passed.shape(file)
    }

    /// Keeps that for those who read the segment next.
    pub(crate) fn keep_shape(&mut self, file: u64, shape: Shape) {
        self.passed.keep_shape(file, shape);
    }

    /// The block at a place, at most `longest` bytes. What is passed on the way is kept for a while, if it is no long way.
    ///
    /// Where the place has the drive's number, that is tried first; what is found there is taken if `is_wanted` says so.
    pub fn block(
        &mut self,
        spot: Spot,
        longest: usize,
        is_wanted: &dyn Fn(&[u8]) -> bool,
    ) -> Result<Found<'_>, TapeError> {
        let key = (spot.file, spot.block);
        if !self.passed.has(key) {
            let burst = self.passed.burst();
            let on_the_way = self.is_on_the_way(spot, longest);
            let is_located = !on_the_way
                && spot.object.is_some()
                && self.locate_block(spot, longest, is_wanted)?;
            if !on_the_way && !is_located {
                self.go(spot)?;
            }
            // Who reads on will read more.
            self.ahead = if on_the_way { burst } else { 0 };
            while let Some(at) = self.at.filter(|at| at.block <= spot.block) {
                match self.read(at, longest)? {
                    Read::Block(_) => {}
                    Read::Filemark => return Ok(Found::Filemark),
                    Read::EndOfData => return Ok(Found::EndOfData),
                }
            }
        }
        Ok(self.passed.get(key).map_or(Found::EndOfData, Found::Block))
    }

    /// Whether a block has passed by, or is reached by reading on.
    pub fn reads_on_to(&self, spot: Spot, longest: usize) -> bool {
        self.passed.has((spot.file, spot.block)) || self.is_on_the_way(spot, longest)
    }

    fn is_on_the_way(&self, spot: Spot, longest: usize) -> bool {
        let near = self.passed.burst().max(self.worth_reading_over()) / longest.max(1);
        self.at.is_some_and(|at| {
            at.file == spot.file && at.block <= spot.block && spot.block - at.block <= near as u64
        })
    }

    /// Bytes that are read on over in less time than the drive needs to stop, to wind there and to be at speed again.
    fn worth_reading_over(&self) -> usize {
        self.drive.locate_bytes().map_or(0, |bytes| bytes as usize).max(WINDOW / 2)
    }

    /// Reads a block ahead, if a spool is to be filled. False if there is no more to be read ahead now.
    pub fn read_ahead(&mut self, longest: usize) -> Result<bool, TapeError> {
        let Some(at) = self.at.filter(|_| self.ahead > 0) else { return Ok(false) };
        let read = self.read(at, longest);
        self.ahead = match read {
            Ok(Read::Block(length)) => self.ahead.saturating_sub(length),
            // The next segment is for who asks for it; what failed too.
            _ => 0,
        };
        Ok(self.ahead > 0)
    }

    /// Reads the block where the tape stands.
    fn read(&mut self, at: Spot, longest: usize) -> Result<Read, TapeError> {
        let mut block = vec![0; longest];
        self.at = None;
        let read = self.read_here(at, &mut block)?;
        self.at = match read {
            Read::Block(length) => {
                self.passed.keep(at, cut(block, length));
                Some(behind_block(at))
            }
            Read::Filemark => Some(behind_filemark(at)),
            Read::EndOfData => Some(at),
        };
        Ok(read)
    }

    /// Reads the block at a place where the tape stands, and again where the medium cannot be read.
    fn read_here(&mut self, at: Spot, block: &mut [u8]) -> Result<Read, TapeError> {
        let is_of_medium = |read: &Result<Read, TapeError>| {
            read.as_ref().is_err_and(|e| matches!(e, TapeError::Medium { .. }))
        };
        let mut read = self.drive.read_block(block);
        if !is_of_medium(&read) || self.again.stayed >= STAY_MOST {
            return read;
        }
        for _ in 0..TRIES_AGAIN {
            let there = self.locate(|drive| drive.locate(at));
            read = there.and_then(|()| self.drive.read_block(block));
            if !is_of_medium(&read) {
                self.again.came += u64::from(read.is_ok());
                return read;
            }
        }
        self.again.stayed += 1;
        read
    }

    /// Whether blocks were read that could not be read at first; said once for a tape in a drive.
    pub(crate) fn has_read_again(&mut self) -> bool {
        let is_news = self.again.came > 0 && !self.again.told;
        self.again.told |= is_news;
        is_news
    }

    /// Goes to the end of what was written.
    pub fn end(&mut self) -> Result<Spot, TapeError> {
        self.at = None;
        let end = self.locate(|drive| drive.locate_end())?;
        self.at = Some(end);
        Ok(end)
    }

    /// Writes a block at a place; what was there and behind it is gone.
    pub fn write(&mut self, spot: Spot, block: &[u8]) -> Result<Written, TapeError> {
        let here = self.go_to_write(spot)?;
        let written = self.drive.write_block(block)?;
        self.at = Some(behind_block(here));
        Ok(written)
    }

    /// Writes a filemark at a place.
    pub fn mark(&mut self, spot: Spot) -> Result<Written, TapeError> {
        let here = self.go_to_write(spot)?;
        let written = self.drive.write_filemark()?;
        self.at = Some(behind_filemark(here));
        Ok(written)
    }

    /// Goes where something is about to be written. Until it is, nobody knows where the tape stands.
    fn go_to_write(&mut self, spot: Spot) -> Result<Spot, TapeError> {
        self.go(spot)?;
        self.is_unsynced = true;
        self.passed.overwritten(spot);
        Ok(self.at.take().unwrap_or(Spot { object: None, ..spot }))
    }

    /// Erases the tape: all of its length, or so that nothing is recorded on it.
    pub fn erase(&mut self, long: bool) -> Result<(), TapeError> {
        self.is_unsynced = true;
        self.passed.overwritten(Spot::BEGIN);
        self.at = None;
        self.drive.erase(long)
    }

    /// Brings all that was written to the tape.
    pub fn sync(&mut self) -> Result<(), TapeError> {
        self.drive.sync()?;
        self.has_written |= std::mem::take(&mut self.is_unsynced);
        Ok(())
    }

    /// Whether something may be in the drive's buffer that is not on the tape.
    pub(super) fn is_unsynced(&self) -> bool {
        self.is_unsynced
    }

    /// What the tape holds, in bytes, where that is known.
    pub fn capacity(&self) -> Option<u64> {
        self.drive.capacity()
    }

    /// What is left of it, in bytes at the medium, where that is known.
    pub fn room(&mut self) -> Option<u64> {
        self.drive.room()
    }

    /// Whether the tape's tab is known to be set.
    pub fn is_write_protected(&self) -> bool {
        self.drive.is_write_protected()
    }

    /// Refuses a tape of which nothing can be overwritten, by what its drive says, or its sticker.
    pub fn refuse_worm(&self) -> Result<(), TapeError> {
        let by_sticker = self.tape.as_deref().and_then(Media::of_barcode);
        match [self.drive.media(), by_sticker].into_iter().flatten().any(|media| media.worm) {
            true => Err(TapeError::Worm { tape: self.tape.clone().unwrap_or_default() }),
            false => Ok(()),
        }
    }

    /// Whether the drive can compress by itself.
    pub fn compresses(&mut self) -> bool {
        self.drive.compresses()
    }

    /// How fast the drive is, where that is known.
    pub fn speeds(&self) -> Option<Speeds> {
        self.drive.speeds()
    }

    /// Switches the drive's own compression on or off.
    pub fn set_compression(&mut self, on: bool) -> Result<(), TapeError> {
        self.drive.set_compression(on)
    }

    /// Refuses a drive that cannot encrypt with a key that it is given.
    pub fn check_encrypts(&mut self) -> Result<(), TapeError> {
        match self.drive.encrypts() {
            true => Ok(()),
            false => Err(TapeError::CannotEncrypt { drive: self.drive.name().to_owned() }),
        }
    }

    /// What is read and written from now on is encrypted with that key; in clear, if there is none.
    pub fn use_key(&mut self, key: Option<&DriveKey>) -> Result<(), TapeError> {
        self.drive.set_key(key)
    }

    /// The largest block that the drive takes.
    pub fn block_max(&self) -> usize {
        self.drive.block_max()
    }

    /// What the drive did since it was opened, and what it has to say.
    pub fn session(&mut self) -> DriveSession {
        DriveSession {
            name: self.drive.name().to_owned(),
            mount: self.mount.clone(),
            tape: self.tape.clone(),
            speeds: self.drive.speeds(),
            scale: self.drive.scale(),
            locates: self.locates.0,
            locating: self.locates.1,
            read_again: self.again.came,
            statistics: self.drive.statistics(),
            counters: self.drive.counters(),
            alerts: self.drive.alerts(),
            contradiction: self.contradiction.take(),
            read_by: None,
            has_written: self.has_written,
        }
    }
}

impl Drop for LoadedDrive {
    fn drop(&mut self) {
        // Whoever has the drive next gets no key of ours. One that cannot be told is told by the next who opens it.
        let _ = self.drive.set_key(None);
    }
}
