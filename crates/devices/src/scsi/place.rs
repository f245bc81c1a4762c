//! Going to places on a real drive's tape.
//!
//! A spot's `object` counts blocks and filemarks from 0; what number a drive gives to the first block is found out, since some
//! count the begin of the tape too. The number is a hint: where the drive ends up elsewhere, or has no LOCATE, filemarks and
//! blocks are counted.

use capstan_medium::tape::Spot;
use capstan_scsi::sense::MEDIUM_ERROR;
use capstan_scsi::{Error, Position, Read};

use super::drive::ScsiDrive;

impl ScsiDrive {
    /// Finds out the drive's number of the first block. The tape stands at its begin, before and afterwards. While nothing
    /// is on it, that is not known.
    fn find_origin(&mut self) -> Result<(), Error> {
        self.blind = self.drive.position()?.object.is_none();
        if self.blind {
            return Ok(());
        }
        // By reading: an emulation that counts the begin spaces over that only.
        match self.drive.read_block(&mut [0; 4096]) {
            Err(e) if e.is_lost() => return Err(e),
            Ok(Read::Block(_) | Read::TooLong(_) | Read::Filemark) => {
                let here = self.drive.position()?.object;
                self.origin = here.and_then(|object| object.checked_sub(1));
            }
            // A blank tape; or one whose begin cannot be read, and whoever wants to will be told.
            _ => {}
        }
        self.drive.rewind()
    }

    /// The same, where the first block was just read or written: the tape need not go back for it.
    pub(super) fn learn_origin(&mut self, is_first: bool) {
        if !is_first || self.blind || self.origin.is_some() {
            return;
        }
        // Where the drive does not answer, what it is asked next says so; until then it is found out as ever.
        if let Ok(here) = self.drive.position() {
            self.origin = here.object.and_then(|object| object.checked_sub(1));
        }
    }

    /// Finds it out, if it is not known yet.
    fn know_origin(&mut self) -> Result<(), Error> {
        if self.origin.is_some() || self.blind {
            return Ok(());
        }
        self.at_begin = false;
        self.drive.rewind()?;
        self.find_origin()
    }

    pub(super) fn go_to(&mut self, to: Spot) -> Result<(), Error> {
        if (to.file, to.block) == (0, 0) {
            self.drive.rewind()?;
            self.at_begin = true;
            return Ok(());
        }
        self.at_begin = false;
        let counted = Position { file: Some(to.file), block: Some(to.block), ..Position::UNKNOWN };
        if to.object.is_some() {
            self.know_origin()?;
        }
        let object = to.object.zip(self.origin).and_then(|(n, origin)| n.checked_add(origin));
        if object.is_some() {
            match self.drive.locate(&Position { object, ..counted }) {
                Ok(()) if self.is_at(to)? => return Ok(()),
                Ok(()) | Err(Error::NotThere { .. }) => {}
                // A wrong number is said in many ways.
                Err(e) if e.sense().is_some_and(|sense| sense.key != MEDIUM_ERROR) => {}
                Err(e) => return Err(e),
            }
        }
        self.drive.locate(&counted)
    }

    /// Whether the drive does not contradict: many know which file they are in.
    fn is_at(&mut self, to: Spot) -> Result<bool, Error> {
        let here = self.drive.position()?;
        Ok(here.file.is_none_or(|file| file == to.file))
    }

    /// Goes to the end of what is recorded.
    pub(super) fn go_to_end(&mut self) -> Result<Spot, Error> {
        self.at_begin = false;
        let here = self.drive.position()?;
        if let (true, Some((file, block))) = (here.end_of_data, here.counted()) {
            return Ok(Spot { file, block, object: self.number(here.object) });
        }
        self.know_origin()?;
        if self.origin.is_some() {
            self.drive.space_to_end()?;
            let end = self.drive.position()?;
            if let (Some(object), Some(file)) = (end.object, end.file) {
                return self.end_by_its_word(object, file);
            }
            // It does not say in which file, so that is counted. From the begin: where it was is lost.
            self.drive.rewind()?;
            return self.end_by_counting(Position { object: self.origin, ..Position::BEGINNING });
        }
        // A blank tape, or a drive that does not say where it stands.
        match here.counted().filter(|_| self.blind) {
            Some(_) => self.end_by_counting(here),
            None => {
                self.drive.rewind()?;
                self.end_by_counting(Position::BEGINNING)
            }
        }
    }

    /// Of a drive that says in which file it is: blocks behind the last filemark are told by going back to it.
    fn end_by_its_word(&mut self, object: u64, file: u64) -> Result<Spot, Error> {
        let number = self.number(Some(object));
        if file == 0 {
            return Ok(Spot { file, block: number.unwrap_or(0), object: number });
        }
        self.drive.space_filemarks(-1)?;
        let mark = self.drive.position()?.object;
        self.drive.space_to_end()?;
        let block = mark.and_then(|mark| object.checked_sub(mark)?.checked_sub(1));
        match block {
            Some(block) => Ok(Spot { file, block, object: number }),
            None => {
                self.drive.rewind()?;
                self.end_by_counting(Position::BEGINNING)
            }
        }
    }

    /// Of any other, from a place that is known: filemarks are counted, and then the blocks behind the last one.
    fn end_by_counting(&mut self, from: Position) -> Result<Spot, Error> {
        let (mut file, block) = from.counted().unwrap_or_default();
        // The drive's number of the first block of the file.
        let mut begin = from.object.and_then(|object| object.checked_sub(block));
        while self.drive.space_filemarks(1)? {
            file += 1;
            begin = self.drive.position()?.object;
        }
        let end = self.drive.position()?.object;
        if let Some(blocks) = begin.zip(end).and_then(|(begin, end)| end.checked_sub(begin)) {
            return Ok(Spot { file, block: blocks, object: self.number(end) });
        }
        self.drive.locate(&Position { file: Some(file), block: Some(0), ..Position::UNKNOWN })?;
        // By reading, of each block its begin: some emulations already stand at the end when they spaced over the last block.
        let (mut blocks, mut begin) = (0, [0; 4096]);
        while let Read::Block(_) | Read::TooLong(_) = self.drive.read_block(&mut begin)? {
            blocks += 1;
        }
        Ok(Spot { file, block: blocks, object: None })
    }

    /// Blocks and filemarks before a place, by the drive's own number of it.
    pub(super) fn number(&self, object: Option<u64>) -> Option<u64> {
        object.zip(self.origin).and_then(|(object, origin)| object.checked_sub(origin))
    }
}
