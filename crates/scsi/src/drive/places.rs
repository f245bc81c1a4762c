//! Where the tape stands, and getting elsewhere.

use super::Drive;
use super::standing::Standing;
use crate::Error;
use crate::answers::position::{self, Position, Reported};
use crate::answers::sense::Sense;
use crate::cdb::{self, Cdb, Over, SPACE_MAX};
use crate::transport::Data;

/// Which form of READ POSITION the drive can be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Untried,
    Long,
    Short,
    None,
}

/// How far SPACE came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spaced {
    All,
    /// At a filemark, after so many blocks, where the drive says how many.
    Filemark(Option<u64>),
    EndOfData,
    Beginning,
}

impl Drive {
    /// Where the tape stands, by the drive's own word and by our count. What is neither said nor counted is absent.
    pub fn position(&mut self) -> Result<Position, Error> {
        let Some(reported) = self.reported()? else { return Ok(self.at.counted()) };
        let mut counted = self.at.counted();
        if reported.beginning {
            counted = Position { end_of_data: counted.end_of_data, ..Position::BEGINNING };
        } else if let Some(file) = reported.file {
            // Who counts differently has lost count.
            if counted.file.is_some_and(|counted| counted != file) {
                counted.block = None;
            }
            counted.file = Some(file);
        }
        self.at.told(counted);
        Ok(Position { object: Some(reported.object), ..counted })
    }

    /// What the drive says, where it says anything that can be believed.
    fn reported(&mut self) -> Result<Option<Reported>, Error> {
        match self.form {
            Form::Long => self.ask_position(true),
            Form::Short => self.ask_position(false),
            Form::None => Ok(None),
            Form::Untried => {
                for (long, form) in [(true, Form::Long), (false, Form::Short)] {
                    let reported = self.ask_position(long)?;
                    if reported.is_some() {
                        self.form = form;
                        return Ok(reported);
                    }
                }
                // It may know later.
                if !self.device.may_have(&cdb::read_position(false)) {
                    self.form = Form::None;
                }
                Ok(None)
            }
        }
    }

    fn ask_position(&mut self, long: bool) -> Result<Option<Reported>, Error> {
        let len = if long { position::LONG_LEN } else { position::SHORT_LEN };
        let bytes = self.device.answer_if_any(cdb::read_position(long), len);
        self.settle();
        let decode = if long { position::decode_long } else { position::decode_short };
        Ok(bytes?.and_then(|bytes| decode(&bytes)))
    }

    /// Rewinds to the beginning of the tape.
    pub fn rewind(&mut self) -> Result<(), Error> {
        self.at.lose();
        self.device.run(cdb::rewind(), Data::None)?;
        self.settle();
        self.at.place(Position::BEGINNING);
        self.set_again()
    }

    /// Goes to a place that [`Drive::position`] gave on this tape: by LOCATE where the place has the drive's own number, and
    /// where drive or place have none by filemarks and blocks from the beginning, as they were counted.
    ///
    /// Counting trusts the drive to tell filemarks from blocks; where it does not (some emulations), a file and block beyond
    /// the end of the file is found in the next one. A reader sees by the headers of blocks whether they are what it wants.
    pub fn locate(&mut self, place: &Position) -> Result<(), Error> {
        self.settle();
        let mut known = self.at.counted();
        if place.object.is_none() && known.file.is_none() && self.form == Form::Long {
            known = self.position()?;
        }
        self.at.lose();
        if let Err(e) = self.go_to(place, known) {
            self.at.lose();
            return Err(e);
        }
        self.at.place(Position { end_of_data: false, ..*place });
        self.set_again()
    }

    fn go_to(&mut self, place: &Position, known: Position) -> Result<(), Error> {
        if let Some(object) = place.object
            && self.locate_object(object, place)?
        {
            return Ok(());
        }
        match (place.counted(), place.count) {
            (Some((file, block)), _) => self.locate_file(file, block, known, place),
            (None, Some(count)) => self.locate_count(count, place),
            (None, None) => Err(self.lacks(
                "way to get to this place: it has no LOCATE, and blocks and filemarks were not counted",
            )),
        }
    }

    /// False where the drive has no LOCATE that takes the number.
    fn locate_object(&mut self, object: u64, place: &Position) -> Result<bool, Error> {
        let old = u32::try_from(object).ok().map(cdb::locate10);
        for cdb in [Some(cdb::locate16(object)), old].into_iter().flatten() {
            if !self.device.may_have(&cdb) {
                continue;
            }
            match self.device.run(cdb, Data::None) {
                Err(e) if e.is_unsupported() => {}
                Err(e) if e.sense().is_some_and(Sense::is_end_of_data) => {
                    return Err(
                        self.not_there(format!("object {object}"), "its data end before it")
                    );
                }
                Err(e) => return Err(e),
                Ok(_) => {
                    self.settle();
                    return self.verify(object, place).map(|()| true);
                }
            }
        }
        Ok(false)
    }

    /// Sees that the tape stands where it should, where the drive can say so.
    fn verify(&mut self, object: u64, place: &Position) -> Result<(), Error> {
        match self.reported()? {
            Some(found) if found.object != object => {
                let why = format!("the drive went to object {}", found.object);
                Err(self.not_there(place.to_string(), why))
            }
            _ => Ok(()),
        }
    }

    fn locate_file(
        &mut self,
        file: u64,
        block: u64,
        known: Position,
        place: &Position,
    ) -> Result<(), Error> {
        // From here, where that is on the way; else from the beginning, or back to the file's, whichever a drive that knows
        // its files does faster.
        let (now, at) = match (known.file, known.block) {
            (Some(now), Some(at)) if now < file || (now == file && at <= block) => (now, at),
            (Some(now), _)
                if self.form == Form::Long && file > 0 && self.go_to_file(now, file, place)? =>
            {
                (file, 0)
            }
            _ => {
                self.rewind()?;
                (0, 0)
            }
        };
        let blocks = if now < file { block } else { block - at };
        for (over, count) in [(Over::Filemarks, file - now), (Over::Blocks, blocks)] {
            let why = match self.space_far(over, i64::try_from(count).unwrap_or(i64::MAX))? {
                Spaced::All => continue,
                Spaced::Filemark(_) => "its file ends before it",
                Spaced::EndOfData | Spaced::Beginning => "its data end before it",
            };
            return Err(self.not_there(place.to_string(), why));
        }
        Ok(())
    }

    /// Goes to the first block of a file from another one, or from the midst of the file. False where the drive ended up
    /// elsewhere.
    fn go_to_file(&mut self, now: u64, file: u64, place: &Position) -> Result<bool, Error> {
        let far = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        if file > now {
            if self.space_far(Over::Filemarks, far(file - now))? != Spaced::All {
                return Err(self.not_there(place.to_string(), "its data end before it"));
            }
        } else {
            // To before the filemark with which the file begins, and over that.
            let gone = self.space_far(Over::Filemarks, -far(now - file + 1))?;
            if gone != Spaced::All || self.space_far(Over::Filemarks, 1)? != Spaced::All {
                return Ok(false);
            }
        }
        Ok(self.reported()?.and_then(|here| here.file).is_none_or(|found| found == file))
    }

    /// Goes over so many blocks and filemarks. Drives that stop at filemarks say how many blocks they came; those that do
    /// not stop count them as blocks.
    fn locate_count(&mut self, count: u64, place: &Position) -> Result<(), Error> {
        self.rewind()?;
        let mut left = count;
        while left > 0 {
            let step = left.min(SPACE_MAX as u64);
            let passed = match self.space(Over::Blocks, step as i64)? {
                Spaced::All => step,
                Spaced::Filemark(Some(blocks)) if blocks < step => blocks + 1,
                Spaced::Filemark(_) => {
                    return Err(self.not_there(place.to_string(), "the drive does not count"));
                }
                Spaced::EndOfData | Spaced::Beginning => {
                    return Err(self.not_there(place.to_string(), "its data end before it"));
                }
            };
            left -= passed;
        }
        Ok(())
    }

    /// Spaces over filemarks: forwards to behind, backwards to before them. False where the data end before.
    pub fn space_filemarks(&mut self, count: i64) -> Result<bool, Error> {
        Ok(self.space_far(Over::Filemarks, count)? == Spaced::All)
    }

    /// Spaces over blocks of the file. False where a filemark or an end comes first; after a filemark the tape stands
    /// behind it, going backwards before it.
    pub fn space_blocks(&mut self, count: i64) -> Result<bool, Error> {
        Ok(self.space_far(Over::Blocks, count)? == Spaced::All)
    }

    /// Goes to the end of what is recorded, where appending is.
    pub fn space_to_end(&mut self) -> Result<(), Error> {
        self.at.lose();
        let cdb = cdb::space(Over::EndOfData, 0);
        let reply = self.send(cdb, Data::None)?;
        match reply.sense {
            Some(sense) if !sense.is_harmless() && !sense.is_end_of_data() => {
                Err(self.device.check(cdb, sense))
            }
            _ => {
                self.at.place(Position { end_of_data: true, ..Position::UNKNOWN });
                self.set_again()
            }
        }
    }

    /// Spaces in steps that a command can name.
    fn space_far(&mut self, over: Over, count: i64) -> Result<Spaced, Error> {
        let mut left = count;
        while left != 0 {
            let step = left.clamp(-SPACE_MAX, SPACE_MAX);
            let spaced = self.space(over, step)?;
            if spaced != Spaced::All {
                return Ok(spaced);
            }
            left -= step;
        }
        Ok(Spaced::All)
    }

    fn space(&mut self, over: Over, count: i64) -> Result<Spaced, Error> {
        self.settle();
        let before = self.at;
        self.at.lose();
        let cdb = cdb::space(over, count as i32);
        let reply = self.send(cdb, Data::None)?;
        let Some(sense) = reply.sense.filter(|sense| !sense.is_harmless()) else {
            // A reset in between would have been an answer of its own: this command is never sent twice.
            self.at = before;
            let from = before.counted();
            self.at.go(match over {
                Over::Filemarks => from.past_filemarks(count),
                _ if matches!(self.form, Form::Long | Form::Short) => from.after_blocks(count),
                // A drive that cannot say where it stands may have gone over filemarks as if they were blocks.
                _ => Position { file: None, block: None, ..from.after_blocks(count) },
            });
            return Ok(Spaced::All);
        };
        self.spaced_short(cdb, sense, before, over, count)
    }

    /// Spacing ended before its time.
    fn spaced_short(
        &mut self,
        cdb: Cdb,
        sense: Sense,
        before: Standing,
        over: Over,
        count: i64,
    ) -> Result<Spaced, Error> {
        if sense.deferred {
            return Err(self.device.check(cdb, sense));
        }
        if sense.is_end_of_data() {
            self.at.go(Position { end_of_data: true, ..Position::UNKNOWN });
            return Ok(Spaced::EndOfData);
        }
        if sense.code() == (0x00, 0x04) || (count < 0 && sense.end_of_medium) {
            // It should be the beginning, but only a rewind makes that certain.
            return Ok(Spaced::Beginning);
        }
        if sense.filemark && over == Over::Blocks {
            // The rest that is left is as many blocks as were not gone over.
            let left = sense.information.map(i64::unsigned_abs);
            let blocks = left.and_then(|left| count.unsigned_abs().checked_sub(left));
            let from = before.counted();
            let behind = from.past_filemarks(count.signum());
            let count = from.count.zip(blocks).and_then(|(n, b)| n.checked_add(b)?.checked_add(1));
            self.at = before;
            self.at.go(Position { count: count.filter(|_| behind.block.is_some()), ..behind });
            return Ok(Spaced::Filemark(blocks));
        }
        Err(self.device.check(cdb, sense))
    }

    /// After a reset the drive is set up again, once it is known where the tape stands.
    fn set_again(&mut self) -> Result<(), Error> {
        if self.unset { self.prepare().map(drop) } else { Ok(()) }
    }

    fn not_there(&self, wanted: String, why: impl Into<String>) -> Error {
        Error::NotThere { device: self.name().to_owned(), wanted, why: why.into() }
    }
}
