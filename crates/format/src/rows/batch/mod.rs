//! Batches: the metadata of many files as columns, the payload of a batch frame before compression.
//!
//! Layout in docs/format.md. Each column is a number, a length and its bytes; columns that a reader does not know are
//! skipped by length. All columns are rebuilt and bounded here; nothing is trusted.

use super::entry::{Entry, Extent, ExtentKind, Kind, Outcome, OutcomeCode, Timestamp};
use crate::bytes::{Cursor, put_bytes, put_varint, put_zigzag};
use crate::error::{FormatError, Result};
use crate::frame::FRAME_PLAIN_MAX;
use crate::id::StreamId;

/// Most rows of a batch.
pub const BATCH_ROWS_MAX: usize = 1 << 16;

/// Front coding can blow up a small batch; names and directories together stay below this many bytes.
const EXPANDED_MAX: usize = 32 * FRAME_PLAIN_MAX;
const VERSION: u8 = 1;
/// The extent kind `At`, and the length of its detail.
const AT: u64 = 8;
const AT_DETAIL: usize = 24;
const WHAT: &str = "batch";

const FLAG_LINK: u64 = 1;
const FLAG_REPLACES: u64 = 1 << 1;
const FLAG_TARGET: u64 = 1 << 2;
const FLAG_RDEV: u64 = 1 << 3;
const FLAG_INODE_FLAGS: u64 = 1 << 4;
const FLAG_XATTRS: u64 = 1 << 5;
const FLAG_EXTENTS: u64 = 1 << 6;
const FLAGS_KNOWN: u64 = (1 << 7) - 1;

/// The columns, by their numbers on the medium.
#[derive(Clone, Copy)]
#[repr(usize)]
enum Column {
    Dirs = 1,
    DirNew,
    NameShared,
    NameLen,
    NameBytes,
    Kind,
    Flags,
    Mode,
    Uid,
    Gid,
    Size,
    MtimeSec,
    MtimeNsec,
    CtimeSec,
    CtimeNsec,
    Ino,
    Dev,
    Targets,
    Rdev,
    InodeFlags,
    XattrSets,
    XattrIndex,
    Extents,
    PartOffset,
    Outcomes,
    Users,
    Groups,
}
const COLUMNS: usize = Column::Groups as usize + 1;

/// A number with the name it had on the machine of origin.
pub type IdName = (u32, Vec<u8>);

/// A decoded batch.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Batch {
    /// Bytes of the logical space between the frame's logical offset and the first row's data.
    pub data_at: u64,
    /// Its rows, in order.
    pub entries: Vec<Entry>,
    /// Names of the owners that occur, by number.
    pub users: Vec<IdName>,
    /// Names of the groups that occur, by number.
    pub groups: Vec<IdName>,
}

/// Gathers rows into columns.
#[derive(Default)]
pub struct BatchEncoder {
    columns: [Vec<u8>; COLUMNS],
    rows: usize,
    bytes: usize,
    logical: u64,
    last: Entry,
    xattr_sets: Vec<Vec<crate::rows::entry::Xattr>>,
}

impl BatchEncoder {
    /// An empty batch.
    pub fn new() -> Self {
        Self::default()
    }

    /// Rows so far.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Plain bytes so far, about.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes that its rows promise in the stream's logical byte space.
    pub fn logical_len(&self) -> u64 {
        self.logical
    }

    fn col(&mut self, c: Column) -> &mut Vec<u8> {
        &mut self.columns[c as usize]
    }

    /// Adds a row.
    pub fn push(&mut self, e: &Entry) {
        let new_dir = self.rows == 0 || e.dir != self.last.dir;
        if new_dir {
            let previous = std::mem::take(&mut self.last.dir);
            let shared = common(&previous, &e.dir);
            let dirs = self.col(Column::Dirs);
            put_varint(dirs, shared as u64);
            put_bytes(dirs, &e.dir[shared..]);
            self.bytes += e.dir.len() - shared + 2;
        }
        put_varint(self.col(Column::DirNew), u64::from(new_dir));

        let shared = common(&self.last.name, &e.name);
        put_varint(self.col(Column::NameShared), shared as u64);
        put_varint(self.col(Column::NameLen), (e.name.len() - shared) as u64);
        self.col(Column::NameBytes).extend_from_slice(&e.name[shared..]);

        self.col(Column::Kind).push(e.kind as u8);
        let flag = |on: bool, bit: u64| if on { bit } else { 0 };
        let flags = flag(e.link, FLAG_LINK)
            | flag(e.replaces, FLAG_REPLACES)
            | flag(!e.target.is_empty(), FLAG_TARGET)
            | flag(e.rdev != (0, 0), FLAG_RDEV)
            | flag(e.inode_flags != 0, FLAG_INODE_FLAGS)
            | flag(!e.xattrs.is_empty(), FLAG_XATTRS)
            | flag(!e.extents.is_empty(), FLAG_EXTENTS);
        put_varint(self.col(Column::Flags), flags);
        put_varint(self.col(Column::Mode), e.mode.into());
        let (last_uid, last_gid) = (self.last.uid, self.last.gid);
        put_zigzag(self.col(Column::Uid), i64::from(e.uid) - i64::from(last_uid));
        put_zigzag(self.col(Column::Gid), i64::from(e.gid) - i64::from(last_gid));
        put_varint(self.col(Column::Size), e.size);
        let last_mtime = self.last.mtime.sec;
        put_zigzag(self.col(Column::MtimeSec), e.mtime.sec.wrapping_sub(last_mtime));
        put_varint(self.col(Column::MtimeNsec), e.mtime.nsec.into());
        put_zigzag(self.col(Column::CtimeSec), e.ctime.sec.wrapping_sub(e.mtime.sec));
        put_varint(self.col(Column::CtimeNsec), e.ctime.nsec.into());
        let (last_ino, last_dev) = (self.last.ino, self.last.dev);
        put_zigzag(self.col(Column::Ino), e.ino.wrapping_sub(last_ino) as i64);
        put_zigzag(self.col(Column::Dev), e.dev.wrapping_sub(last_dev) as i64);
        self.bytes += e.name.len() - shared + 34;

        if flags != 0 {
            self.push_optional(e);
        }
        if e.kind == Kind::Part {
            put_varint(self.col(Column::PartOffset), e.part_offset);
        }
        if e.kind == Kind::Outcome {
            let o =
                e.outcome.unwrap_or(Outcome { code: OutcomeCode::Changed, errno: 0, offset: 0 });
            let col = self.col(Column::Outcomes);
            put_varint(col, o.code as u64);
            put_varint(col, o.errno.into());
            put_varint(col, o.offset);
        }
        self.rows += 1;
        self.logical = self.logical.saturating_add(e.logical_len());
        let last = &mut self.last;
        last.dir.clear();
        last.dir.extend_from_slice(&e.dir);
        last.name.clear();
        last.name.extend_from_slice(&e.name);
        (last.uid, last.gid, last.mtime, last.ino, last.dev) =
            (e.uid, e.gid, e.mtime, e.ino, e.dev);
    }

    fn push_optional(&mut self, e: &Entry) {
        if !e.target.is_empty() {
            put_bytes(self.col(Column::Targets), &e.target);
            self.bytes += e.target.len() + 2;
        }
        if e.rdev != (0, 0) {
            put_varint(self.col(Column::Rdev), e.rdev.0.into());
            put_varint(self.col(Column::Rdev), e.rdev.1.into());
        }
        if e.inode_flags != 0 {
            put_varint(self.col(Column::InodeFlags), e.inode_flags.into());
        }
        if !e.xattrs.is_empty() {
            let known = self.xattr_sets.iter().position(|s| *s == e.xattrs);
            let index = known.unwrap_or_else(|| {
                self.bytes += e.xattrs.iter().map(|(n, v)| n.len() + v.len() + 6).sum::<usize>();
                self.xattr_sets.push(e.xattrs.clone());
                self.xattr_sets.len() - 1
            });
            put_varint(self.col(Column::XattrIndex), index as u64);
        }
        if !e.extents.is_empty() {
            let mut added = 0;
            let col = self.col(Column::Extents);
            put_varint(col, e.extents.len() as u64);
            for x in &e.extents {
                match &x.kind {
                    ExtentKind::Data => put_varint(col, 0),
                    ExtentKind::Hole => put_varint(col, 1),
                    ExtentKind::Parts => put_varint(col, 2),
                    ExtentKind::AsIn(_) => put_varint(col, 3),
                    ExtentKind::At(..) => put_varint(col, AT),
                    ExtentKind::Unknown(n) => put_varint(col, *n),
                }
                put_varint(col, x.len);
                match &x.kind {
                    ExtentKind::AsIn(version) => put_bytes(col, version),
                    ExtentKind::At(stream, logical) => {
                        put_bytes(col, &[stream.as_bytes(), &logical.to_le_bytes()[..]].concat());
                    }
                    _ => put_bytes(col, &[]),
                }
                let has_detail = matches!(x.kind, ExtentKind::AsIn(_) | ExtentKind::At(..));
                added += if has_detail { 32 } else { 8 };
            }
            self.bytes += added;
        }
    }

    /// Says that the owner's number `uid` has a name; once per number and batch.
    pub fn user(&mut self, uid: u32, name: &[u8]) {
        put_varint(self.col(Column::Users), uid.into());
        put_bytes(self.col(Column::Users), name);
        self.bytes += name.len() + 4;
    }

    /// Says that the group's number `gid` has a name; once per number and batch.
    pub fn group(&mut self, gid: u32, name: &[u8]) {
        put_varint(self.col(Column::Groups), gid.into());
        put_bytes(self.col(Column::Groups), name);
        self.bytes += name.len() + 4;
    }

    /// The batch's bytes; the encoder is empty again and keeps its memory.
    ///
    /// `data_at` is where the first row's data begins, in bytes after the frame's logical offset.
    pub fn finish(&mut self, data_at: u64, out: &mut Vec<u8>) {
        for set in std::mem::take(&mut self.xattr_sets) {
            let col = &mut self.columns[Column::XattrSets as usize];
            put_varint(col, set.len() as u64);
            for (name, value) in &set {
                put_bytes(col, name);
                put_bytes(col, value);
            }
        }
        out.clear();
        out.push(VERSION);
        put_varint(out, self.rows as u64);
        put_varint(out, data_at);
        for (number, column) in self.columns.iter_mut().enumerate() {
            if !column.is_empty() {
                out.push(number as u8);
                put_bytes(out, column);
                column.clear();
            }
        }
        (self.rows, self.bytes, self.logical) = (0, 0, 0);
        let last = &mut self.last;
        last.dir.clear();
        last.name.clear();
        (last.uid, last.gid, last.mtime, last.ino, last.dev) = (0, 0, Timestamp::default(), 0, 0);
    }
}

fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(x, y)| x == y).count()
}

impl Batch {
    /// Reads a batch from a batch frame's plain payload.
    pub fn decode(plain: &[u8]) -> Result<Self> {
        let (reader, rows, data_at) = Reader::new(plain)?;
        let batch = reader.read(rows)?;
        let data = batch.entries.iter().try_fold(data_at, |a, e| a.checked_add(e.logical_len()));
        data.ok_or(FormatError::Invalid(WHAT))?;
        Ok(Batch { data_at, ..batch })
    }

    /// Calls with the directory and name of each row of a batch frame's plain payload, in order, as long as it returns `true`.
    /// Nothing else is read, or checked.
    pub fn each_name(plain: &[u8], each: &mut dyn FnMut(&[u8], &[u8]) -> bool) -> Result<()> {
        let (mut reader, rows, _) = Reader::new(plain)?;
        let (mut dir, mut name) = (Vec::new(), Vec::new());
        let mut expanded = 0usize;
        for row in 0..rows {
            reader.name(row, &mut dir, &mut name)?;
            expanded += dir.len() + name.len();
            if expanded > EXPANDED_MAX {
                return Err(FormatError::Invalid(WHAT));
            }
            if !each(&dir, &name) {
                break;
            }
        }
        Ok(())
    }
}

struct Reader<'a> {
    columns: [Cursor<'a>; COLUMNS],
    plain_len: usize,
}

impl<'a> Reader<'a> {
    /// The columns, the number of rows, and where the first one's data begin.
    fn new(plain: &'a [u8]) -> Result<(Self, usize, u64)> {
        if plain.len() > FRAME_PLAIN_MAX {
            return Err(FormatError::Invalid(WHAT));
        }
        let mut c = Cursor::new(plain, WHAT);
        let version = c.u8()?;
        if version != VERSION {
            return Err(FormatError::Newer {
                what: WHAT.into(),
                found: version.into(),
                known: VERSION.into(),
            });
        }
        let rows = c.varint()?;
        if rows > BATCH_ROWS_MAX as u64 {
            return Err(FormatError::Invalid(WHAT));
        }
        let data_at = c.varint()?;
        let mut columns: [Cursor<'_>; COLUMNS] = std::array::from_fn(|_| Cursor::new(&[], WHAT));
        let mut last_number = 0;
        while !c.is_empty() {
            let number = c.u8()?;
            let bytes = c.bytes()?;
            if number <= last_number {
                return Err(FormatError::Invalid(WHAT));
            }
            last_number = number;
            if let Some(column) = columns.get_mut(usize::from(number)) {
                *column = Cursor::new(bytes, WHAT);
            }
        }
        Ok((Self { columns, plain_len: plain.len() }, rows as usize, data_at))
    }

    /// Makes directory and name of the last row those of this one.
    fn name(&mut self, row: usize, dir: &mut Vec<u8>, name: &mut Vec<u8>) -> Result<()> {
        let bad = || FormatError::Invalid(WHAT);
        match self.col(Column::DirNew).varint()? {
            0 if row > 0 => {}
            1 => *dir = front_coded(self.col(Column::Dirs), dir)?,
            _ => return Err(bad()),
        }
        let shared = self.col(Column::NameShared).varint()?;
        let len = self.col(Column::NameLen).varint()?;
        if shared > name.len() as u64 || len > self.plain_len as u64 {
            return Err(bad());
        }
        let suffix = self.col(Column::NameBytes).take(len as usize)?;
        name.truncate(shared as usize);
        name.extend_from_slice(suffix);
        Ok(())
    }

    fn col(&mut self, c: Column) -> &mut Cursor<'a> {
        &mut self.columns[c as usize]
    }

    fn read(mut self, rows: usize) -> Result<Batch> {
        let sets = self.xattr_sets()?;
        let users = self.names(Column::Users)?;
        let groups = self.names(Column::Groups)?;
        let mut entries: Vec<Entry> = Vec::with_capacity(rows.min(self.plain_len));
        let mut expanded = 0usize;
        let mut last = Entry::default();
        for row in 0..rows {
            let e = self.row(row, &last, &sets)?;
            let xattrs = e.xattrs.iter().map(|(n, v)| n.len() + v.len() + 48).sum::<usize>();
            expanded += e.name.len() + e.dir.len() + xattrs;
            if expanded > EXPANDED_MAX {
                return Err(FormatError::Invalid(WHAT));
            }
            last.clone_from(&e);
            entries.push(e);
        }
        if self.columns[..COLUMNS].iter().any(|c| !c.is_empty()) {
            return Err(FormatError::Invalid(WHAT));
        }
        Ok(Batch { data_at: 0, entries, users, groups })
    }

    fn row(
        &mut self,
        row: usize,
        last: &Entry,
        sets: &[Vec<crate::rows::entry::Xattr>],
    ) -> Result<Entry> {
        let bad = || FormatError::Invalid(WHAT);
        let mut e = Entry::default();
        e.dir.clone_from(&last.dir);
        e.name.clone_from(&last.name);
        self.name(row, &mut e.dir, &mut e.name)?;
        e.kind = Kind::from_u8(self.col(Column::Kind).u8()?).ok_or_else(bad)?;
        let flags = self.col(Column::Flags).varint()?;
        if flags & !FLAGS_KNOWN != 0 {
            return Err(bad());
        }
        let mode = self.col(Column::Mode).varint()?;
        if mode > 0o7777 {
            return Err(bad());
        }
        e.mode = mode as u16;
        let uid = i64::from(last.uid).checked_add(self.col(Column::Uid).zigzag()?);
        e.uid = uid.and_then(|v| u32::try_from(v).ok()).ok_or_else(bad)?;
        let gid = i64::from(last.gid).checked_add(self.col(Column::Gid).zigzag()?);
        e.gid = gid.and_then(|v| u32::try_from(v).ok()).ok_or_else(bad)?;
        e.size = self.col(Column::Size).varint()?;
        e.mtime.sec = last.mtime.sec.wrapping_add(self.col(Column::MtimeSec).zigzag()?);
        e.mtime.nsec = self.nsec(Column::MtimeNsec)?;
        e.ctime.sec = e.mtime.sec.wrapping_add(self.col(Column::CtimeSec).zigzag()?);
        e.ctime.nsec = self.nsec(Column::CtimeNsec)?;
        e.ino = last.ino.wrapping_add(self.col(Column::Ino).zigzag()? as u64);
        e.dev = last.dev.wrapping_add(self.col(Column::Dev).zigzag()? as u64);
        e.link = flags & FLAG_LINK != 0;
        e.replaces = flags & FLAG_REPLACES != 0;
        if flags & FLAG_TARGET != 0 {
            e.target = self.col(Column::Targets).bytes()?.to_vec();
        }
        if flags & FLAG_RDEV != 0 {
            e.rdev = (self.col(Column::Rdev).varint_u32()?, self.col(Column::Rdev).varint_u32()?);
        }
        if flags & FLAG_INODE_FLAGS != 0 {
            e.inode_flags = self.col(Column::InodeFlags).varint_u32()?;
        }
        if flags & FLAG_XATTRS != 0 {
            let index = self.col(Column::XattrIndex).varint()?;
            let set = usize::try_from(index).ok().and_then(|i| sets.get(i)).ok_or_else(bad)?;
            e.xattrs.clone_from(set);
        }
        if flags & FLAG_EXTENTS != 0 {
            e.extents = self.extents(e.size)?;
        }
        if e.kind == Kind::Part {
            e.part_offset = self.col(Column::PartOffset).varint()?;
            e.part_offset.checked_add(e.size).ok_or_else(bad)?;
        }
        if e.kind == Kind::Outcome {
            let c = self.col(Column::Outcomes);
            let code = u8::try_from(c.varint()?).ok().and_then(OutcomeCode::from_u8);
            let errno = c.varint_u32()?;
            let offset = c.varint()?;
            e.outcome = Some(Outcome { code: code.ok_or_else(bad)?, errno, offset });
        }
        Ok(e)
    }

    fn nsec(&mut self, column: Column) -> Result<u32> {
        let n = self.col(column).varint_u32()?;
        if n < 1_000_000_000 { Ok(n) } else { Err(FormatError::Invalid(WHAT)) }
    }

    fn extents(&mut self, size: u64) -> Result<Vec<Extent>> {
        let c = self.col(Column::Extents);
        let n = c.count()?;
        let mut extents = Vec::with_capacity(n);
        let mut end = 0u64;
        for _ in 0..n {
            let kind = c.varint()?;
            let len = c.varint()?;
            let detail = c.bytes()?;
            end = end.checked_add(len).ok_or(FormatError::Invalid(WHAT))?;
            let kind = match (kind, detail.len()) {
                (0, 0) => ExtentKind::Data,
                (1, 0) => ExtentKind::Hole,
                (2, 0) => ExtentKind::Parts,
                (3, 16) => ExtentKind::AsIn(crate::bytes::id16(detail, 0)),
                (AT, AT_DETAIL) => {
                    let stream = StreamId(crate::bytes::id16(detail, 0));
                    let at = crate::bytes::le64(detail, 16);
                    at.checked_add(len).ok_or(FormatError::Invalid(WHAT))?;
                    ExtentKind::At(stream, at)
                }
                (0..=3 | AT, _) => return Err(FormatError::Invalid(WHAT)),
                (n, _) => ExtentKind::Unknown(n),
            };
            extents.push(Extent { len, kind });
        }
        if end == size { Ok(extents) } else { Err(FormatError::Invalid(WHAT)) }
    }

    fn xattr_sets(&mut self) -> Result<Vec<Vec<crate::rows::entry::Xattr>>> {
        let c = self.col(Column::XattrSets);
        let mut sets = Vec::new();
        while !c.is_empty() {
            let n = c.count()?;
            let mut set = Vec::with_capacity(n.min(256));
            for _ in 0..n {
                set.push((c.bytes()?.to_vec(), c.bytes()?.to_vec()));
            }
            sets.push(set);
        }
        Ok(sets)
    }

    fn names(&mut self, column: Column) -> Result<Vec<IdName>> {
        let c = self.col(column);
        let mut names = Vec::new();
        while !c.is_empty() {
            names.push((c.varint_u32()?, c.bytes()?.to_vec()));
        }
        Ok(names)
    }
}

fn front_coded(c: &mut Cursor<'_>, last: &[u8]) -> Result<Vec<u8>> {
    let shared = c.varint()?;
    let suffix = c.bytes()?;
    let shared = usize::try_from(shared).ok().filter(|n| *n <= last.len());
    let shared = shared.ok_or(FormatError::Invalid(WHAT))?;
    let mut out = Vec::with_capacity(shared + suffix.len());
    out.extend_from_slice(&last[..shared]);
    out.extend_from_slice(suffix);
    Ok(out)
}

#[cfg(test)]
mod tests;
