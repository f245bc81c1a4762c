//! An array as one storage: what its members hold, as if it were one medium's.
//!
//! Segments are read through [`segment`]. All other files are the same on all members; the header is that of the
//! array, and each member has one of its own made from it. A member that fails is left, and said, while those that are
//! left are enough.

mod attached;
mod members;
mod segment;

pub(super) use attached::write as write_attached;
pub use members::StoredMember;
pub(super) use members::number_of;
pub use segment::{ArraySegment, Part};

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use capstan_engine::buffer::Buffer;
use capstan_format::array::{Layout, RebuiltMember};
use capstan_format::attachment::Attachment;
use capstan_format::block::BlockKind;
use capstan_format::id::{MediumId, SegmentNumber};
use capstan_format::lock::VersionLock;
use capstan_format::record::{MediumHeader, decode_record};
use parking_lot::Mutex;

use self::members::State;
use capstan_medium::NewAttachment;
use capstan_medium::device::LostMembers;
use capstan_medium::header::header_block;
use capstan_medium::held::LOCK_SUFFIX;
use capstan_medium::names::HEADER_NAME;
use capstan_medium::names::{HEADER_TEMPORARY, SUFFIX, segment_number};
use capstan_medium::storage::{ReadFile, SegmentSize, Storage, WriteFile};
use capstan_medium::{DeviceError, LostMember};

/// What there is of an array, to read.
pub struct RaitStorage {
    state: Arc<State>,
}

impl RaitStorage {
    /// An array with that header, of these members by their places, or why they are not there.
    pub fn new(
        layout: Layout,
        header: MediumHeader,
        members: Vec<Result<StoredMember, LostMember>>,
    ) -> Self {
        let lost = LostMembers::default();
        let keep = |member| match member {
            Ok(member) => Some(member),
            Err(why) => {
                lost.lock().push(why);
                None
            }
        };
        let members = Mutex::new(members.into_iter().map(keep).collect());
        let (header, repairs, rebuilt) = (Mutex::new(header), Mutex::default(), Mutex::default());
        Self { state: Arc::new(State { layout, header, members, lost, repairs, rebuilt }) }
    }

    /// The same array, of which these members took the place of others.
    pub fn with_rebuilt(self, rebuilt: Vec<RebuiltMember>) -> Self {
        *self.state.rebuilt.lock() = rebuilt;
        self
    }

    /// The header of a member.
    pub fn header_of(&self, medium: MediumId, place: usize) -> MediumHeader {
        member_header(&self.header(), medium, &self.state, place)
    }

    /// Notes that a medium takes the place of a member. Who is a member already says so with [`Self::say_rebuilt`].
    pub fn note_rebuilt(&self, place: usize, medium: MediumId) {
        let member = place as u32;
        let mut rebuilt = self.state.rebuilt.lock();
        let turn = rebuilt.iter().find(|of| of.member == member).map_or(0, |of| of.turn);
        rebuilt.push(RebuiltMember { member, medium, turn: turn.saturating_add(1) });
        *rebuilt = RebuiltMember::newest(std::mem::take(&mut *rebuilt));
    }

    /// Which members took the place of others.
    pub fn rebuilt(&self) -> Vec<RebuiltMember> {
        self.state.rebuilt.lock().clone()
    }

    /// Has all members but that one say which took the place of others.
    pub fn say_rebuilt(&self, but: usize) -> io::Result<()> {
        self.put_headers(&self.header(), Some(but))
    }

    /// How blocks lie on it.
    pub fn layout(&self) -> Layout {
        self.state.layout
    }

    /// What the array says of itself.
    pub fn header(&self) -> MediumHeader {
        self.state.header.lock().clone()
    }

    /// Its members by their places, those that are lost left out.
    pub fn members(&self) -> Vec<Option<StoredMember>> {
        self.state.members.lock().clone()
    }

    /// Members that are there.
    fn there(&self) -> Vec<StoredMember> {
        self.members().into_iter().flatten().collect()
    }

    /// Members that are lost.
    pub fn lost(&self) -> Vec<LostMember> {
        self.state.lost.lock().clone()
    }

    /// Opens a segment of which some member has something.
    pub fn open_segment(&self, name: &str) -> io::Result<ArraySegment> {
        let mut parts = Vec::new();
        let mut failures = Vec::new();
        for (place, member) in self.members().into_iter().enumerate() {
            let Some(member) = member else {
                parts.push(None);
                continue;
            };
            match member.storage.open(name) {
                Ok(file) => {
                    parts.push(Some(Part { file, nested: member.storage.is_array() }));
                }
                Err(e) => {
                    parts.push(None);
                    failures.push((place, e));
                }
            }
        }
        if parts.iter().all(Option::is_none) {
            let first = failures.into_iter().next().map(|f| f.1);
            let first = first.unwrap_or_else(|| io::ErrorKind::NotFound.into());
            return Err(self.state.or_away(first, 0));
        }
        let number = number_of(name).unwrap_or(SegmentNumber(0));
        for (place, _) in failures {
            self.state.repaired(place, |r| r.lacks.extend([number]));
        }
        let header = self.header();
        ArraySegment::open(self.state.clone(), self.state.layout, &header, number, parts)
    }

    /// Does something on all members that are there. One that fails is left, while enough remain; that something is not
    /// there is no failure where others have it.
    fn each<T>(
        &self,
        run: impl Fn(usize, &StoredMember) -> io::Result<T>,
    ) -> io::Result<Vec<(usize, T)>> {
        let mut done = Vec::new();
        let mut missing = None;
        let mut failed = Vec::new();
        for (place, member) in self.members().into_iter().enumerate() {
            let Some(member) = member else { continue };
            match run(place, &member) {
                Ok(value) => done.push((place, value)),
                Err(e) if e.kind() == io::ErrorKind::NotFound => missing = Some((place, e)),
                Err(e) => failed.push((place, member.name, e)),
            }
        }
        if done.is_empty() && failed.is_empty() {
            return Err(missing.map_or_else(|| io::ErrorKind::NotFound.into(), |m| m.1));
        }
        if self.members().iter().flatten().count() - failed.len() < self.state.layout.data()
            && let Some((_, _, e)) = failed.pop()
        {
            return Err(e);
        }
        for (place, name, e) in failed {
            self.state.lose(place, name, &e);
        }
        Ok(done)
    }

    /// The lock in a file: of all copies the latest time and all segments, so that one left behind does not shorten it.
    fn read_lock(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        let copies = self.each(|_, m| read_all(&*m.storage.open(name)?))?;
        let locks = copies.iter().filter_map(|(_, bytes)| VersionLock::decode(bytes).ok());
        let joined = locks.reduce(|a, b| if a.version == b.version { a.joined(&b) } else { a });
        let block = joined.and_then(|lock| lock.encode().ok());
        let first = || copies.first().map(|c| c.1.clone()).unwrap_or_default();
        Ok(Box::new(InMemory(block.unwrap_or_else(first))))
    }

    /// Gives every member its header, made from the array's.
    fn put_headers(&self, header: &MediumHeader, but: Option<usize>) -> io::Result<()> {
        let blocks: Vec<Buffer> = self
            .members()
            .into_iter()
            .enumerate()
            .map(|(place, member)| match member {
                Some(m) => {
                    header_block(&member_header(header, m.medium, &self.state, place), &m.name)
                }
                None => Ok(Buffer::new(0)),
            })
            .collect::<Result<_, _>>()
            .map_err(io::Error::other)?;
        self.each(|place, m| {
            if Some(place) == but {
                return Ok(());
            }
            match m.storage.remove(HEADER_TEMPORARY) {
                Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
                _ => {}
            }
            let mut file = m.storage.create(HEADER_TEMPORARY)?;
            file.append(&blocks[place])?;
            file.sync()?;
            m.storage.replace(HEADER_TEMPORARY, HEADER_NAME)
        })?;
        *self.state.header.lock() = header.clone();
        Ok(())
    }
}

impl Storage for RaitStorage {
    fn create(&self, name: &str) -> io::Result<Box<dyn WriteFile>> {
        let files = self.each(|_, m| m.storage.create(name))?;
        Ok(Box::new(OnAll { state: self.state.clone(), files }))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn ReadFile>> {
        if name == HEADER_NAME {
            let header = self.state.header.lock().clone();
            let block = header_block(&header, name).map_err(io::Error::other)?;
            return Ok(Box::new(InMemory(block.to_vec())));
        }
        if segment_number(name, SUFFIX).is_some() {
            return Ok(Box::new(self.open_segment(name)?));
        }
        if name.ends_with(LOCK_SUFFIX) {
            return self.read_lock(name);
        }
        let mut failure = io::ErrorKind::NotFound.into();
        for member in self.members().into_iter().flatten() {
            match member.storage.open(name) {
                Ok(file) => return Ok(file),
                Err(e) => failure = e,
            }
        }
        Err(failure)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.each(|_, m| m.storage.rename(from, to)).map(drop)
    }

    fn empty(&self, name: &str) -> io::Result<()> {
        self.each(|_, m| m.storage.empty(name)).map(drop)
    }

    fn replace(&self, from: &str, to: &str) -> io::Result<()> {
        if (from, to) != (HEADER_TEMPORARY, HEADER_NAME) {
            return self.each(|_, m| m.storage.replace(from, to)).map(drop);
        }
        // What was written there is the array's header; members have their own.
        let bytes = read_all(&*self.open(from)?)?;
        let header = decode_record::<MediumHeader>(BlockKind::MediumHeader, &bytes);
        self.put_headers(&header.map_err(io::Error::other)?.1, None)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let removed = self.each(|_, m| Ok(m.storage.remove(name)))?;
        // A copy that stays would come back: here no member may fail.
        let mut was_there = false;
        for (_, result) in removed {
            match result {
                Ok(()) => was_there = true,
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => return Err(e),
            }
        }
        if was_there { Ok(()) } else { Err(io::ErrorKind::NotFound.into()) }
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let lists = self.each(|_, m| m.storage.list())?;
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        for name in lists.iter().flat_map(|(_, names)| names) {
            *found.entry(name.clone()).or_default() += 1;
        }
        // Of a segment that was removed, or never ended, while a member was away too little is left to be one.
        let enough = self.state.layout.data().min(lists.len());
        let is_one = |name: &str, on| segment_number(name, SUFFIX).is_none() || on >= enough;
        Ok(found.into_iter().filter(|(name, on)| is_one(name, *on)).map(|f| f.0).collect())
    }

    fn sync(&self) -> io::Result<()> {
        self.each(|_, m| m.storage.sync()).map(drop)
    }

    /// By the members' lengths: each has a block of every whole stripe, and all that all have. Blocks that are not full make a member
    /// shorter than that, so one that looks too short is opened; and so are small ones, of which lengths tell little.
    fn is_cut(&self, name: &str, size: SegmentSize, looks: &mut u32) -> io::Result<bool> {
        const SMALL: u64 = 8;
        let data = self.state.layout.data();
        let (stripes, block) =
            (u64::from(size.blocks) / data as u64, u64::from(self.header().block_size));
        let full = u64::from(size.blocks) * block;
        let least = (size.bytes + stripes * block).saturating_sub(full);
        let lengths: Vec<Option<u64>> =
            self.there().iter().filter_map(|m| m.storage.length(name).ok()).collect();
        // Tapes are not gone to for that.
        if !lengths.is_empty() && lengths.iter().all(Option::is_none) {
            return Ok(false);
        }
        let long = lengths.iter().filter(|length| length.is_none_or(|l| l >= least)).count();
        let is_looked_into = stripes < SMALL && *looks > 0;
        if long >= data && !is_looked_into {
            return Ok(false);
        }
        *looks = looks.saturating_sub(u32::from(is_looked_into));
        match self.open_segment(name) {
            Ok(segment) => Ok(segment.is_cut()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(true),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => Ok(true),
            Err(e) => Err(e),
        }
    }

    fn is_array(&self) -> bool {
        true
    }

    fn may_be_away(&self, number: SegmentNumber) -> io::Result<bool> {
        let (away, data) = (self.state.away().len(), self.state.layout.data());
        let mut holding = 0;
        let mut more = 0;
        for member in self.there() {
            let is_listed = member.segments().is_ok_and(|all| all.contains(&number));
            match is_listed && member.storage.holds(number)? {
                true => holding += 1,
                false => more += usize::from(member.storage.may_be_away(number)?),
            }
        }
        Ok(holding < data && holding + more + away >= data)
    }

    fn check_spare(&self, name: &str) -> io::Result<()> {
        if segment_number(name, SUFFIX).is_some() {
            self.open_segment(name)?.check_spare();
            for member in self.members().into_iter().flatten() {
                // That it is not there was noted above.
                let _ = member.storage.check_spare(name);
            }
        }
        Ok(())
    }

    fn holds(&self, number: SegmentNumber) -> io::Result<bool> {
        let mut holding = 0;
        for member in self.there() {
            holding += usize::from(member.storage.holds(number)?);
        }
        Ok(holding >= self.state.layout.data())
    }

    fn takes_attachments(&self) -> bool {
        self.members().iter().flatten().all(|member| member.storage.takes_attachments())
    }

    fn attachment(&self, number: SegmentNumber) -> io::Result<Option<Attachment>> {
        attached::find(&self.there(), number)
    }

    fn read_attachment(&self, of: &Attachment) -> io::Result<Vec<u8>> {
        attached::read(&self.there(), of)
    }

    fn attach(
        &self,
        new: &NewAttachment,
        least: SegmentNumber,
    ) -> Result<SegmentNumber, DeviceError> {
        match self.takes_attachments() {
            true => attached::append(&self.there(), new, least),
            false => Err(DeviceError::KeepsNoAttachment),
        }
    }

    fn problems(&self) -> Vec<String> {
        let lost = self.state.lost.lock();
        let mut problems: Vec<String> = lost
            .iter()
            .map(|l| format!("member {} ({}) is lost: {}", l.member + 1, l.device, l.error))
            .collect();
        let members = self.members();
        for (place, repairs) in self.state.repairs.lock().iter() {
            let name = members.get(*place).and_then(|m| Some(m.as_ref()?.name.clone()));
            let Some(name) = name else { continue };
            let at = format!("member {} ({name})", place + 1);
            if !repairs.lacks.is_empty() {
                problems.push(format!("{at} lacks {} of the segments read", repairs.lacks.len()));
            }
            if repairs.blocks > 0 {
                problems.push(format!(
                    "{at} has {} damaged or missing blocks among those read, which the other members can make up for",
                    repairs.blocks
                ));
            }
            if repairs.lost_blocks > 0 {
                let lost = repairs.lost_blocks;
                problems
                    .push(format!("{lost} blocks of {at} are lost: what is left is not enough"));
            }
        }
        for member in members.into_iter().flatten() {
            problems.extend(member.storage.problems());
        }
        problems
    }
}

/// The header of a member of an array with that header.
fn member_header(
    header: &MediumHeader,
    medium: MediumId,
    state: &State,
    place: usize,
) -> MediumHeader {
    let mut header = header.of_member(medium, state.layout, place);
    if let Some(array) = &mut header.array {
        array.rebuilt.clone_from(&state.rebuilt.lock());
    }
    header
}

/// A whole file that is small.
pub(super) fn read_all(file: &dyn ReadFile) -> io::Result<Vec<u8>> {
    const MOST: u64 = 8 << 20;
    let mut bytes = vec![0; file.len()?.min(MOST) as usize];
    let n = file.read_at(&mut bytes, 0)?;
    bytes.truncate(n);
    Ok(bytes)
}

struct InMemory(Vec<u8>);

impl ReadFile for InMemory {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let n = out.len().min(self.0.len() - from);
        out[..n].copy_from_slice(&self.0[from..from + n]);
        Ok(n)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

/// A file that is written on all members.
struct OnAll {
    state: Arc<State>,
    files: Vec<(usize, Box<dyn WriteFile>)>,
}

impl OnAll {
    fn each(&mut self, run: impl Fn(&mut dyn WriteFile) -> io::Result<()>) -> io::Result<()> {
        let mut failure = None;
        for (place, mut file) in std::mem::take(&mut self.files) {
            match run(&mut *file) {
                Ok(()) => self.files.push((place, file)),
                Err(e) => {
                    let members = self.state.members.lock();
                    let name = members.get(place).and_then(|m| Some(m.as_ref()?.name.clone()));
                    drop(members);
                    self.state.lose(place, name.unwrap_or_default(), &e);
                    failure = Some(e);
                }
            }
        }
        match failure {
            Some(e) if self.files.len() < self.state.layout.data() => Err(e),
            _ => Ok(()),
        }
    }
}

impl WriteFile for OnAll {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.each(|file| file.append(bytes))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.each(|file| file.sync())
    }
}
