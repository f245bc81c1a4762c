//! Writing and reading of blocks and filemarks.

use super::Drive;
use crate::Error;
use crate::answers::position::Position;
use crate::answers::sense::{MEDIUM_ERROR, NO_SENSE, RECOVERED, Sense, VOLUME_OVERFLOW};
use crate::cdb::{self, Cdb, Over};
use crate::transport::Data;

/// What came of writing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Written {
    /// It is written.
    Done,
    /// It is written, and the end of the medium is near: a few blocks and filemarks fit, not more.
    EarlyWarning,
    /// It is not on the medium, which is full.
    NoRoom,
}

/// What was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Read {
    /// A block of so many bytes.
    Block(usize),
    /// A filemark. The tape stands behind it.
    Filemark,
    /// Nothing more is recorded. The tape stands where it stood.
    EndOfData,
    /// The end of the tape itself, with no end of data before it.
    EndOfMedium,
    /// A block of so many bytes, more than there was room for. The tape stands behind it, its data are lost until it is
    /// read again.
    TooLong(usize),
}

impl Drive {
    /// Writes a block.
    pub fn write_block(&mut self, block: &[u8]) -> Result<Written, Error> {
        let limits = self.block_limits()?;
        if !(limits.min..=limits.max).contains(&block.len()) {
            let (device, len) = (self.name().to_owned(), block.len());
            return Err(Error::BlockSize { device, len, min: limits.min, max: limits.max });
        }
        let after = self.at.counted().after_block();
        self.write(cdb::write(block.len()), Data::Out(block), after)
    }

    /// Writes filemarks. Immediate ones are in the drive's buffer only, and so is what was written before.
    pub fn write_filemarks(&mut self, count: u32, immediate: bool) -> Result<Written, Error> {
        const MOST: u32 = 0xff_ffff;
        let count = count.min(MOST);
        let after = self.at.counted().after_filemarks(count);
        let cdb = cdb::write_filemarks(count, immediate);
        match count {
            // Nothing is written that was not written before, so it matters not where the tape stands.
            0 => self.put(cdb, Data::None, self.at.counted()),
            _ => self.write(cdb, Data::None, after),
        }
    }

    /// Sees that everything written so far is on the tape.
    pub fn sync(&mut self) -> Result<Written, Error> {
        self.write_filemarks(0, false)
    }

    /// Erases the tape from its begin, and rewinds it: the whole of its length (`long`), which takes as long as writing all of
    /// it, or so little that nothing is recorded on it any more for whoever reads it with a drive. Not every drive that says to
    /// have done the latter did anything, so the tape is looked at.
    pub fn erase(&mut self, long: bool) -> Result<(), Error> {
        self.rewind()?;
        let cdb = cdb::erase(long);
        let reply = self.send(cdb, Data::None)?;
        // Where it stands after that the standard leaves open.
        self.at.lose();
        match reply.sense {
            Some(sense) if !sense.is_harmless() => return Err(self.device.check(cdb, sense)),
            _ => self.rewind()?,
        }
        match self.read_block(&mut [0; 64])? {
            Read::EndOfData | Read::EndOfMedium => self.rewind(),
            Read::Block(_) | Read::Filemark | Read::TooLong(_) => {
                let why = match long {
                    true => "the tape is recorded as before",
                    false => {
                        "the tape is recorded as before: it may erase tapes in their whole length only"
                    }
                };
                Err(self.device.senseless(cdb, why))
            }
        }
    }

    fn write(&mut self, cdb: Cdb, data: Data<'_>, after: Position) -> Result<Written, Error> {
        let doing = cdb.doing();
        self.settle();
        self.key.check(self.device.name(), doing)?;
        if !self.at.may_write() {
            return Err(Error::PositionUnknown { device: self.name().to_owned(), doing });
        }
        // What is written is the end of the data: what was behind it is gone.
        self.put(cdb, data, Position { end_of_data: true, ..after })
    }

    fn put(&mut self, cdb: Cdb, data: Data<'_>, after: Position) -> Result<Written, Error> {
        let Some(sense) = self.send(cdb, data)?.sense else {
            self.at.go(after);
            return Ok(Written::Done);
        };
        match sense.key {
            NO_SENSE | RECOVERED if !sense.deferred => {
                self.at.go(after);
                Ok(if sense.end_of_medium { Written::EarlyWarning } else { Written::Done })
            }
            VOLUME_OVERFLOW if !sense.deferred => {
                // Of several filemarks some may have been written.
                self.at.go(Position { end_of_data: true, ..Position::UNKNOWN });
                Ok(Written::NoRoom)
            }
            _ => {
                self.at.lose();
                Err(self.device.check(cdb, sense))
            }
        }
    }

    /// Reads a block into `buffer`, which should have room for the longest that may be there: some devices cut off what
    /// does not fit without a word.
    pub fn read_block(&mut self, buffer: &mut [u8]) -> Result<Read, Error> {
        let room = buffer.len().min(cdb::TRANSFER_MAX).min(self.device.max_transfer());
        let cdb = cdb::read(room);
        self.settle();
        self.key.check(self.device.name(), cdb.doing())?;
        if !self.at.may_read() {
            let device = self.name().to_owned();
            return Err(Error::PositionUnknown { device, doing: cdb.doing() });
        }
        let before = self.at.counted();
        let reply = self.send(cdb, Data::In(&mut buffer[..room]))?;
        let came = room - reply.residual.min(room);
        let Some(sense) = reply.sense else {
            return self.took(cdb, before, came);
        };
        let read = self.read_sense(cdb, before, sense, room, came);
        match read {
            // The device sent less than the block has: once more, with the very length.
            Ok(Read::Block(len)) if came < len => self.read_again(&mut buffer[..len], before),
            Ok(read) => Ok(read),
            Err(e) => {
                self.at.lose();
                Err(e)
            }
        }
    }

    /// A block was read whole.
    fn took(&mut self, cdb: Cdb, before: Position, len: usize) -> Result<Read, Error> {
        if len == 0 {
            self.at.lose();
            return Err(self.device.senseless(cdb, "it read a block of no length"));
        }
        self.at.go(before.after_block());
        Ok(Read::Block(len))
    }

    /// What sense data of READ mean. Flags go before keys: a filemark is one whatever the rest says.
    fn read_sense(
        &mut self,
        cdb: Cdb,
        before: Position,
        sense: Sense,
        room: usize,
        came: usize,
    ) -> Result<Read, Error> {
        if sense.deferred {
            return Err(self.device.check(cdb, sense));
        }
        if sense.is_end_of_data() {
            self.at.go(Position { end_of_data: true, ..before });
            return Ok(Read::EndOfData);
        }
        if sense.filemark {
            self.at.go(before.after_filemarks(1));
            return Ok(Read::Filemark);
        }
        if sense.wrong_length && matches!(sense.key, NO_SENSE | RECOVERED) {
            let information = sense.information.ok_or_else(|| {
                self.device.senseless(cdb, "it does not say by how much a block has another length")
            })?;
            let actual =
                (room as i64).checked_sub(information).and_then(|n| usize::try_from(n).ok());
            let actual = actual.filter(|n| *n > 0 && *n != room);
            let actual = actual.ok_or_else(|| {
                self.device.senseless(cdb, format!("{information} bytes left of a block of {room}"))
            })?;
            self.at.go(before.after_block());
            return Ok(if actual > room { Read::TooLong(actual) } else { Read::Block(actual) });
        }
        match sense.key {
            RECOVERED => self.took(cdb, before, came),
            NO_SENSE if !sense.end_of_medium => self.took(cdb, before, came),
            NO_SENSE | MEDIUM_ERROR if sense.end_of_medium && sense.asc == 0 => {
                self.at.lose();
                Ok(Read::EndOfMedium)
            }
            _ => Err(self.device.check(cdb, sense)),
        }
    }

    /// Some targets send fewer bytes of a short block than it has. The block is read again with its very length, which none
    /// of them gets wrong.
    fn read_again(&mut self, buffer: &mut [u8], before: Position) -> Result<Read, Error> {
        self.at.lose();
        self.device.run(cdb::space(Over::Blocks, -1), Data::None)?;
        let cdb = cdb::read(buffer.len());
        let reply = self.send(cdb, Data::In(buffer))?;
        match reply.sense {
            None if reply.residual == 0 => self.took(cdb, before, buffer.len()),
            Some(sense) => Err(self.device.check(cdb, sense)),
            None => Err(self.device.senseless(cdb, "it read another length the second time")),
        }
    }
}
