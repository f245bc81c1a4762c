//! An array that is written to: blocks go to its members in turn, parity behind them, all members at once.
//!
//! The slowest member sets the pace. One that fails is left, and said; the array goes on while what is left is enough to
//! read everything. That a block could not be written shows at a later call, at the latest when the segment is committed.

mod member;

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::problem::Explain;
use capstan_format::array::code::{add, factor};
use capstan_format::array::stamp::{Role, Stamp};
use capstan_format::array::{Layout, Level};
use capstan_format::block::{BlockKind, HEADER_LEN, MaHeader};
use capstan_format::id::SegmentNumber;
use capstan_medium::device::LostMembers;
use capstan_medium::tape::{DriveSession, Speeds, TapeError};
use capstan_medium::{Device, DeviceError, LostMember};

use self::member::{Member, Order, Piece, Pool};

/// An array of devices, to write.
pub struct RaitDevice {
    name: String,
    layout: Layout,
    /// By their places; those that are lost are none.
    members: Vec<Option<Member>>,
    lost: LostMembers,
    /// Why the last of the lost ones was lost.
    last_failure: Option<DeviceError>,
    /// A member's tape has no room any more: the array has none, however many members it could do without.
    full: Option<DeviceError>,
    /// What the tape drives of the lost ones did.
    left_drives: Vec<DriveSession>,
    pool: Pool,
    short_blocks: bool,
    can_leave_out_numbers: bool,
    commits_each_segment: bool,
    /// Bytes of a segment that suit the member that takes the least.
    segment_size: Option<u64>,
    /// What suits all members; nothing where it is not known of one.
    speeds: Option<Speeds>,
    next: u32,
    /// The first segment that was begun and is not committed yet: a member that fails may lack it.
    uncommitted: Option<u32>,
    /// The next segment's number was given by an array that this one is a member of.
    is_told: bool,
    stripe: Stripe,
}

/// The stripe being written.
#[derive(Default)]
struct Stripe {
    number: u32,
    /// Data blocks that it has so far.
    blocks: usize,
    /// Header of its first data block.
    first: Option<MaHeader>,
    /// Length of its longest block.
    length: usize,
    parity: Vec<Piece>,
}

impl RaitDevice {
    /// An array of these members, by their places: each a device with its name, or why there is none. All have blocks of
    /// `block_size` bytes.
    pub fn new(
        name: String,
        layout: Layout,
        members: Vec<(String, Result<Box<dyn Device>, DeviceError>)>,
        block_size: u32,
    ) -> Result<Self, DeviceError> {
        let mut device = Self {
            name,
            layout,
            members: Vec::new(),
            lost: LostMembers::default(),
            last_failure: None,
            full: None,
            left_drives: Vec::new(),
            pool: Pool::new(block_size as usize),
            short_blocks: true,
            can_leave_out_numbers: true,
            commits_each_segment: true,
            segment_size: None,
            speeds: None,
            next: 1,
            uncommitted: None,
            is_told: false,
            stripe: Stripe::default(),
        };
        let speeds: Option<Vec<Speeds>> =
            members.iter().filter_map(|(_, m)| m.as_ref().ok()).map(|m| m.speeds()).collect();
        device.speeds = speeds.and_then(|all| all.into_iter().reduce(Speeds::and));
        for (member, (name, opened)) in members.into_iter().enumerate() {
            let started = opened.and_then(|opened| {
                device.short_blocks &= opened.short_blocks();
                device.can_leave_out_numbers &= opened.can_leave_out_numbers();
                device.commits_each_segment &= opened.commits_each_segment();
                let sizes = opened.segment_size().into_iter().chain(device.segment_size);
                device.segment_size = sizes.min();
                device.next = device.next.max(opened.next_number().0);
                Ok(Member::start(name.clone(), opened, block_size as usize)?)
            });
            match started {
                Ok(started) => device.members.push(Some(started)),
                // The member is as good as before.
                Err(e @ DeviceError::NoThread(_)) => return Err(e),
                Err(e) => {
                    device.members.push(None);
                    device.note(member, name, e, None);
                }
            }
        }
        device.check()?;
        if device.is_degraded() && device.can_leave_out_numbers {
            // A segment that the lost ones may still have a part of keeps its number for itself.
            device.next = device.next.saturating_add(1);
        }
        Ok(device)
    }

    /// Members that were lost, since somebody took them out of it.
    pub fn lost(&self) -> LostMembers {
        self.lost.clone()
    }

    fn is_degraded(&self) -> bool {
        self.members.iter().any(Option::is_none)
    }

    fn note(
        &mut self,
        member: usize,
        device: String,
        error: DeviceError,
        since: Option<SegmentNumber>,
    ) {
        let (is_away, why) = (error.spares_medium(), error.problem());
        self.lost.lock().push(LostMember { member, device, error: why, is_away, since });
        self.last_failure = Some(error);
    }

    /// Leaves a member that failed.
    fn lose(&mut self, member: usize) {
        let Some(failed) = self.members.get_mut(member).and_then(Option::take) else { return };
        let name = failed.name.clone();
        let gone = || DeviceError::Io {
            action: "write to".into(),
            path: name.clone(),
            source: std::io::Error::other("it has stopped"),
        };
        let (error, drives) = failed.stop();
        self.left_drives.extend(drives);
        match error.unwrap_or_else(gone) {
            full @ DeviceError::Tape(TapeError::EndOfMedium { .. }) => self.full = Some(full),
            error => {
                let since = self.uncommitted.unwrap_or(self.next);
                self.note(member, name, error, Some(SegmentNumber(since)));
            }
        }
    }

    /// Refuses to go on when too many members are lost, or one is full.
    fn check(&mut self) -> Result<(), DeviceError> {
        if let Some(full) = self.full.take() {
            return Err(full);
        }
        let lost = self.members.iter().filter(|m| m.is_none()).count();
        if lost <= self.layout.parity() {
            return Ok(());
        }
        let none = || DeviceError::NoMedium(self.name.clone());
        let source = Box::new(self.last_failure.take().unwrap_or_else(none));
        let (members, spare) = (self.layout.members(), self.layout.parity());
        Err(DeviceError::ArrayBroken { array: self.name.clone(), lost, members, spare, source })
    }

    /// Tells all members something, and has those wait for whose answer is asked.
    fn tell_all(&mut self, order: impl Fn(usize) -> Order, wait: bool) -> Result<(), DeviceError> {
        let told: Vec<_> = (0..self.members.len()).map(|m| self.tell(m, order(m))).collect();
        for (member, told) in told.into_iter().enumerate() {
            let done = |m: &Member| told && (!wait || m.wait());
            if self.members[member].as_ref().is_some_and(|m| !done(m)) {
                self.lose(member);
            }
        }
        self.check()
    }

    /// Tells a member something; it does not matter to those that are lost.
    fn tell(&self, member: usize, order: Order) -> bool {
        self.members[member].as_ref().is_none_or(|m| m.tell(order))
    }

    fn send(&mut self, member: usize, piece: &Arc<Piece>) -> Result<(), DeviceError> {
        if self.tell(member, Order::Write(piece.clone())) {
            return Ok(());
        }
        self.lose(member);
        self.check()
    }

    /// A block that all members have.
    fn common(&mut self, block: &[u8]) -> Result<(), DeviceError> {
        let crc = Stamp::crc_of(block);
        for member in 0..self.members.len() {
            if self.members[member].is_some() {
                let mut piece = self.pool.take(block.len());
                piece.bytes_mut().copy_from_slice(block);
                let stamp = Stamp { role: Role::Common, member: member as u8, stripe: 0, crc };
                stamp.put(piece.bytes_mut());
                self.send(member, &Arc::new(piece))?;
            }
        }
        Ok(())
    }

    fn data(&mut self, block: &[u8], header: MaHeader) -> Result<(), DeviceError> {
        let (number, role) = (self.stripe.number, self.stripe.blocks);
        let is_mirror = self.layout.level() == Level::Mirror;
        let member = if is_mirror { 0 } else { self.layout.member_of(number, role) };
        let mut piece = self.pool.take(block.len());
        piece.bytes_mut().copy_from_slice(block);
        // An outer array has summed it already.
        let crc = Stamp::of(block).map_or_else(|| Stamp::crc_of(block), |stamp| stamp.crc);
        let stamp = Stamp { role: Role::Data, member: member as u8, stripe: number.into(), crc };
        stamp.put(piece.bytes_mut());
        let piece = Arc::new(piece);
        if is_mirror {
            for member in 0..self.members.len() {
                self.send(member, &piece)?;
            }
        } else {
            self.send(member, &piece)?;
            self.add_to_parity(role, &block[HEADER_LEN..]);
        }
        self.stripe.first.get_or_insert(header);
        self.stripe.length = self.stripe.length.max(block.len());
        self.stripe.blocks += 1;
        match self.stripe.blocks == self.layout.data() {
            true => self.end_stripe(),
            false => Ok(()),
        }
    }

    fn add_to_parity(&mut self, role: usize, content: &[u8]) {
        for i in 0..self.layout.parity() {
            if self.stripe.parity.len() <= i {
                let mut piece = self.pool.take(self.pool.size());
                piece.bytes_mut()[HEADER_LEN + content.len()..].fill(0);
                let begin = &mut piece.bytes_mut()[HEADER_LEN..HEADER_LEN + content.len()];
                match factor(self.layout, i, role) {
                    1 => begin.copy_from_slice(content),
                    factor => {
                        begin.fill(0);
                        add(begin, content, factor);
                    }
                }
                self.stripe.parity.push(piece);
                continue;
            }
            let sum = &mut self.stripe.parity[i].bytes_mut()[HEADER_LEN..];
            add(sum, content, factor(self.layout, i, role));
        }
    }

    /// Writes the parity of the stripe, and begins the next one.
    fn end_stripe(&mut self) -> Result<(), DeviceError> {
        let next = Stripe { number: self.stripe.number + 1, ..Stripe::default() };
        if self.stripe.blocks == 0 {
            return Ok(());
        }
        let stripe = std::mem::replace(&mut self.stripe, next);
        let Some(first) = stripe.first else { return Ok(()) };
        for (i, mut piece) in stripe.parity.into_iter().enumerate() {
            let member = self.layout.member_of(stripe.number, self.layout.data() + i);
            piece.truncate(stripe.length);
            MaHeader { length: stripe.length as u32, ..first }.encode(piece.bytes_mut());
            let crc = Stamp::crc_of(piece.bytes());
            let stripe = stripe.number.into();
            let stamp = Stamp { role: Role::Parity, member: member as u8, stripe, crc };
            stamp.put(piece.bytes_mut());
            self.send(member, &Arc::new(piece))?;
        }
        Ok(())
    }

    /// The next segment's number. While members are lost, those who write without each other take different ones: a
    /// number means one segment, on whatever members it is found.
    fn take_number(&mut self) -> SegmentNumber {
        let members = self.members.len() as u32;
        if !std::mem::take(&mut self.is_told)
            && self.is_degraded()
            && self.can_leave_out_numbers
            && let Some(first) = self.members.iter().position(Option::is_some)
        {
            let off = (first as u32 + members - self.next % members) % members;
            self.next = self.next.saturating_add(off);
        }
        let number = SegmentNumber(self.next);
        self.next = self.next.saturating_add(1);
        number
    }
}

impl Device for RaitDevice {
    fn next_number(&self) -> SegmentNumber {
        SegmentNumber(self.next)
    }

    fn advance(&mut self, to: SegmentNumber) {
        self.next = self.next.max(to.0);
        self.is_told = self.next == to.0;
    }

    fn can_leave_out_numbers(&self) -> bool {
        self.can_leave_out_numbers
    }

    fn begin_segment(&mut self) -> Result<SegmentNumber, DeviceError> {
        let number = self.take_number();
        self.uncommitted.get_or_insert(number.0);
        self.stripe = Stripe::default();
        self.tell_all(|_| Order::Begin(number), false)?;
        Ok(number)
    }

    fn write(&mut self, block: &[u8]) -> Result<(), DeviceError> {
        let damaged = |source| DeviceError::Medium { path: self.name.clone(), source };
        let header = MaHeader::decode(block).map_err(damaged)?;
        if header.kind == BlockKind::Data {
            if block.len() > self.pool.size() {
                let source = capstan_format::FormatError::Invalid("block");
                return Err(DeviceError::Medium { path: self.name.clone(), source });
            }
            return self.data(block, header);
        }
        self.end_stripe()?;
        self.common(block)
    }

    fn begin_catalog(&mut self) -> Result<(), DeviceError> {
        self.end_stripe()?;
        self.tell_all(|_| Order::Catalog, false)
    }

    fn end_segment(&mut self) -> Result<(), DeviceError> {
        self.end_stripe()?;
        // Whether a member's medium ends soon is known then, before another segment is begun on it.
        self.tell_all(|_| Order::End, true)
    }

    fn commit(&mut self) -> Result<(), DeviceError> {
        self.tell_all(|_| Order::Commit, true)?;
        self.uncommitted = None;
        Ok(())
    }

    fn salvage(&mut self) -> Result<SegmentNumber, DeviceError> {
        self.commit()?;
        self.abandon_segment();
        Ok(self.next_number())
    }

    fn abandon_segment(&mut self) {
        self.stripe = Stripe::default();
        // Too many were lost before: there is nobody left to tell.
        let _ = self.tell_all(|_| Order::Abandon, true);
    }

    fn short_blocks(&self) -> bool {
        self.short_blocks
    }

    fn commits_each_segment(&self) -> bool {
        self.commits_each_segment
    }

    fn take_lost(&mut self) -> Vec<LostMember> {
        std::mem::take(&mut *self.lost.lock())
    }

    fn drive_sessions(&mut self) -> Vec<DriveSession> {
        let members = self.members.iter().flatten();
        let there: Vec<DriveSession> = members.flat_map(Member::drives).collect();
        std::mem::take(&mut self.left_drives).into_iter().chain(there).collect()
    }

    fn is_ending(&self) -> bool {
        self.members.iter().flatten().any(|m| m.ending.load(Relaxed))
    }

    fn segment_size(&self) -> Option<u64> {
        self.segment_size.map(|size| size.saturating_mul(self.layout.data() as u64))
    }

    fn speeds(&self) -> Option<Speeds> {
        let data = self.layout.data() as f64;
        self.speeds.map(|of| Speeds { lowest: of.lowest * data, native: of.native * data })
    }
}
