//! The row of a file. What each has is a list; what few have follows as a map with a number for each.

use capstan_format::entry::{Entry, Extent, ExtentKind, Outcome, OutcomeCode, Xattr};
use minicbor::encode::Write;
use minicbor::{Decoder, Encoder, decode as de};

use super::form::{Form, Written};
use super::plain::time;

/// Numbers that each row has.
const COMMON: u64 = 13;

/// What few rows have: the numbers of it.
mod rare {
    pub(super) const LINK: u8 = 0;
    pub(super) const REPLACES: u8 = 1;
    pub(super) const TARGET: u8 = 2;
    pub(super) const RDEV: u8 = 3;
    pub(super) const INODE_FLAGS: u8 = 4;
    pub(super) const XATTRS: u8 = 5;
    pub(super) const EXTENTS: u8 = 6;
    pub(super) const PART_OFFSET: u8 = 7;
    pub(super) const OUTCOME: u8 = 8;
}

impl Form for Entry {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        let has = [
            self.link,
            self.replaces,
            !self.target.is_empty(),
            self.rdev != (0, 0),
            self.inode_flags != 0,
            !self.xattrs.is_empty(),
            !self.extents.is_empty(),
            self.part_offset != 0,
            self.outcome.is_some(),
        ];
        let number = has.into_iter().filter(|has| *has).count() as u64;
        to.array(COMMON + u64::from(number > 0))?;
        self.kind.put(to)?;
        to.bytes(&self.dir)?.bytes(&self.name)?.u16(self.mode)?.u32(self.uid)?.u32(self.gid)?;
        to.u64(self.size)?.i64(self.mtime.sec)?.u32(self.mtime.nsec)?;
        to.i64(self.ctime.sec)?.u32(self.ctime.nsec)?.u64(self.ino)?.u64(self.dev)?;
        if number == 0 { Ok(()) } else { put_rare(self, number, to) }
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        let number = from.array()?.ok_or_else(|| de::Error::message("a list without a length"))?;
        if number < COMMON {
            return Err(de::Error::message("a row lacks what each has"));
        }
        let mut entry = Self {
            kind: Form::get(from)?,
            dir: Form::get(from)?,
            name: Form::get(from)?,
            mode: from.u16()?,
            uid: from.u32()?,
            gid: from.u32()?,
            size: from.u64()?,
            mtime: time(from.i64()?, from.u32()?)?,
            ctime: time(from.i64()?, from.u32()?)?,
            ino: from.u64()?,
            dev: from.u64()?,
            ..Self::default()
        };
        if entry.mode > 0o7777 {
            return Err(de::Error::message("permissions have twelve bits"));
        }
        if number > COMMON {
            get_rare(&mut entry, from)?;
        }
        (COMMON + 1..number).try_for_each(|_| from.skip())?;
        Ok(entry)
    }
}

fn put_rare<W: Write>(of: &Entry, number: u64, to: &mut Encoder<W>) -> Written<W> {
    to.map(number)?;
    if of.link {
        to.u8(rare::LINK)?.bool(true)?;
    }
    if of.replaces {
        to.u8(rare::REPLACES)?.bool(true)?;
    }
    if !of.target.is_empty() {
        to.u8(rare::TARGET)?.bytes(&of.target)?;
    }
    if of.rdev != (0, 0) {
        of.rdev.put(to.u8(rare::RDEV)?)?;
    }
    if of.inode_flags != 0 {
        to.u8(rare::INODE_FLAGS)?.u32(of.inode_flags)?;
    }
    if !of.xattrs.is_empty() {
        of.xattrs.put(to.u8(rare::XATTRS)?)?;
    }
    if !of.extents.is_empty() {
        of.extents.put(to.u8(rare::EXTENTS)?)?;
    }
    if of.part_offset != 0 {
        to.u8(rare::PART_OFFSET)?.u64(of.part_offset)?;
    }
    if let Some(outcome) = of.outcome {
        to.u8(rare::OUTCOME)?.array(3)?.u8(outcome.code as u8)?.u32(outcome.errno)?;
        to.u64(outcome.offset)?;
    }
    Ok(())
}

fn get_rare(of: &mut Entry, from: &mut Decoder<'_>) -> Result<(), de::Error> {
    let number = from.map()?.ok_or_else(|| de::Error::message("a map without a length"))?;
    for _ in 0..number {
        match from.u64()?.try_into().unwrap_or(u8::MAX) {
            rare::LINK => of.link = from.bool()?,
            rare::REPLACES => of.replaces = from.bool()?,
            rare::TARGET => of.target = Form::get(from)?,
            rare::RDEV => of.rdev = Form::get(from)?,
            rare::INODE_FLAGS => of.inode_flags = from.u32()?,
            rare::XATTRS => of.xattrs = Vec::<Xattr>::get(from)?,
            rare::EXTENTS => of.extents = Form::get(from)?,
            rare::PART_OFFSET => of.part_offset = from.u64()?,
            rare::OUTCOME => of.outcome = Some(outcome(from)?),
            _ => from.skip()?,
        }
    }
    Ok(())
}

fn outcome(from: &mut Decoder<'_>) -> Result<Outcome, de::Error> {
    if from.array()? != Some(3) {
        return Err(de::Error::message("an outcome is three numbers"));
    }
    let code = OutcomeCode::from_u8(from.u8()?);
    let code = code.ok_or_else(|| de::Error::message("an outcome that is unknown"))?;
    Ok(Outcome { code, errno: from.u32()?, offset: from.u64()? })
}

/// Its length, its kind by the number on the medium, and where it is.
impl Form for Extent {
    fn put<W: Write>(&self, to: &mut Encoder<W>) -> Written<W> {
        match &self.kind {
            ExtentKind::Data => to.array(2)?.u64(self.len)?.u64(0).map(drop),
            ExtentKind::Hole => to.array(2)?.u64(self.len)?.u64(1).map(drop),
            ExtentKind::Parts => to.array(2)?.u64(self.len)?.u64(2).map(drop),
            ExtentKind::AsIn(version) => {
                to.array(3)?.u64(self.len)?.u64(3)?.bytes(version).map(drop)
            }
            ExtentKind::At(stream, logical) => {
                to.array(4)?.u64(self.len)?.u64(4)?.bytes(&stream.0)?.u64(*logical).map(drop)
            }
            // It cannot be restored, whatever it is; the number stays out of the way of those that are known.
            ExtentKind::Unknown(kind) => to.array(3)?.u64(self.len)?.u64(5)?.u64(*kind).map(drop),
        }
    }

    fn get(from: &mut Decoder<'_>) -> Result<Self, de::Error> {
        let number = from.array()?;
        let (len, kind) = (from.u64()?, from.u64()?);
        let version = |from: &mut Decoder<'_>| {
            let bytes = from.bytes()?.try_into();
            bytes.map_err(|_| de::Error::message("an id is not 16 bytes"))
        };
        let kind = match (kind, number) {
            (0, Some(2)) => ExtentKind::Data,
            (1, Some(2)) => ExtentKind::Hole,
            (2, Some(2)) => ExtentKind::Parts,
            (3, Some(3)) => ExtentKind::AsIn(version(from)?),
            (4, Some(4)) => ExtentKind::At(Form::get(from)?, from.u64()?),
            (5, Some(3)) => ExtentKind::Unknown(from.u64()?),
            _ => return Err(de::Error::message("an extent that is unknown")),
        };
        Ok(Self { len, kind })
    }
}
