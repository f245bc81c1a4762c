//! The blocks of a segment of an array: each read from where it belongs and checked, or computed from the others.

use capstan_engine::buffer::Buffer;
use capstan_format::array::Level;
use capstan_format::array::code::{add, recipe};
use capstan_format::array::stamp::{Role, Stamp};
use capstan_format::block::{BlockKind, HEADER_LEN, MaHeader};
use capstan_format::id::BlockIndex;
use capstan_medium::tape::TapeError;

use super::What;
use crate::rait::storage::{ArraySegment, Part};

/// What was found where a block belongs.
pub(super) enum Found {
    Whole,
    /// Something is there that is not the block.
    Damaged,
    /// Nothing can be read.
    Nothing,
}

/// Whether a block could be had.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Made {
    Whole,
    /// It could not, and could if members that are away are whole.
    Away,
    /// Too little is left of it.
    Lost,
}

impl ArraySegment {
    /// A block that all members have, from one of them: block 0, or so far behind the data.
    pub(super) fn read_common_of(
        &self,
        place: usize,
        behind: Option<u64>,
        out: &mut [u8],
    ) -> Found {
        let Some(part) = self.parts.get(place).and_then(Option::as_ref) else {
            return Found::Nothing;
        };
        let at = behind.map_or(0, |b| self.map.member_at(place, self.map.stripes()) + b);
        let n = self.read_of(part, out, at);
        let fits = |(ma, stamp): (MaHeader, Stamp)| {
            ma.segment == self.segment
                && ma.length as usize == n
                && (part.nested || stamp.role == Role::Common)
        };
        if n == out.len() && Stamp::check(out).is_ok_and(fits) {
            return Found::Whole;
        }
        self.state.repaired(place, |r| r.blocks += 1);
        if n == out.len() { Found::Damaged } else { Found::Nothing }
    }

    /// Reads the block of a role in a stripe, and checks it.
    pub(super) fn read_block(&self, stripe: u32, role: usize, out: &mut [u8]) -> Found {
        if out.is_empty() {
            return Found::Whole;
        }
        let layout = self.map.layout();
        // Every member of a mirror has the same block.
        let places = match layout.level() {
            Level::Mirror => 0..layout.members(),
            _ => {
                let place = layout.member_of(stripe, role);
                place..place + 1
            }
        };
        let mut found = Found::Nothing;
        for place in places {
            match self.read_from(place, stripe, role, out) {
                Found::Whole => return Found::Whole,
                Found::Damaged => found = Found::Damaged,
                Found::Nothing => {}
            }
        }
        found
    }

    /// The same from a member that has it.
    fn read_from(&self, place: usize, stripe: u32, role: usize, out: &mut [u8]) -> Found {
        let Some(part) = self.parts.get(place).and_then(Option::as_ref) else {
            return Found::Nothing;
        };
        let n = self.read_of(part, out, self.map.member_at(place, stripe));
        if n == out.len() && self.is_it(stripe, role, place, part.nested, out) {
            return Found::Whole;
        }
        self.state.repaired(place, |r| r.blocks += 1);
        if n == out.len() { Found::Damaged } else { Found::Nothing }
    }

    /// Reads from a member; what cannot be read is nothing. That its drive failed, which tells nothing of it, is noted.
    fn read_of(&self, part: &Part, out: &mut [u8], at: u64) -> usize {
        part.file.read_at(out, at).unwrap_or_else(|e| {
            let tape = e.get_ref().and_then(|e| e.downcast_ref::<TapeError>());
            if let Some(tape) = tape.filter(|tape| tape.spares_tape() || tape.is_away()) {
                self.unread.lock().get_or_insert_with(|| tape.to_string());
            }
            0
        })
    }

    /// Whether a block is the one of that role in that stripe. The header of one that came through another array is
    /// made anew.
    fn is_it(
        &self,
        stripe: u32,
        role: usize,
        place: usize,
        nested: bool,
        block: &mut [u8],
    ) -> bool {
        let Ok((ma, stamp)) = Stamp::check(block) else { return false };
        let layout = self.map.layout();
        let expected = match (role < layout.data(), layout.level()) {
            (_, Level::Mirror) => (Role::Data, 0),
            (true, _) => (Role::Data, place),
            (false, _) => (Role::Parity, place),
        };
        let fits = ma.segment == self.segment
            && ma.kind == BlockKind::Data
            && ma.length as usize == block.len();
        if !fits {
            return false;
        }
        if nested {
            self.put_header(stripe, role, stamp.crc, block);
            return true;
        }
        (stamp.role, usize::from(stamp.member), stamp.stripe)
            == (expected.0, expected.1, stripe.into())
            // In a member of another array blocks count as in that one.
            && (self.is_member
                || self.map.index_of(stripe, role).is_none_or(|index| ma.index.0 == index))
    }

    /// The header and stamp of a block whose contents are known.
    fn put_header(&self, stripe: u32, role: usize, crc: u32, block: &mut [u8]) {
        let layout = self.map.layout();
        let first = self.map.index_of(stripe, 0).unwrap_or(0);
        let index = BlockIndex(self.map.index_of(stripe, role).unwrap_or(first));
        let length = block.len() as u32;
        MaHeader { kind: BlockKind::Data, segment: self.segment, index, length }.encode(block);
        let is_data = role < layout.data();
        let member = match layout.level() {
            Level::Mirror => 0,
            _ => layout.member_of(stripe, role) as u8,
        };
        let is_copy = layout.level() == Level::Mirror;
        let role = if is_data || is_copy { Role::Data } else { Role::Parity };
        Stamp { role, member, stripe: stripe.into(), crc }.put(block);
    }

    pub(super) fn make_up(&self, stripe: u32, role: usize, out: &mut [u8], found: Found) -> Made {
        self.make_up_with(stripe, role, out, found, &|_| None)
    }

    /// Computes a block from the others of its stripe, if it is not whole; `at_hand` has those that were read already.
    /// What is damaged stays as it is, and what is not there is zeros, where the others are not enough.
    pub(super) fn make_up_with<'a>(
        &self,
        stripe: u32,
        role: usize,
        out: &mut [u8],
        found: Found,
        at_hand: &dyn Fn(usize) -> Option<&'a [u8]>,
    ) -> Made {
        if matches!(found, Found::Whole) {
            return Made::Whole;
        }
        let made = self.compute(stripe, role, out, at_hand);
        if made != Made::Whole {
            let place = self.map.layout().member_of(stripe, role);
            self.state.repaired(place, |r| r.lost_blocks += 1);
            if matches!(found, Found::Nothing) {
                out.fill(0);
            }
        }
        made
    }

    fn compute<'a>(
        &self,
        stripe: u32,
        role: usize,
        out: &mut [u8],
        at_hand: &dyn Fn(usize) -> Option<&'a [u8]>,
    ) -> Made {
        let layout = self.map.layout();
        if layout.level() == Level::Mirror {
            return self.not_made(stripe, role, vec![false; layout.members()]);
        }
        let mut have = vec![false; layout.members()];
        let mut read: Vec<Option<Buffer>> = (0..layout.members()).map(|_| None).collect();
        // Data first, then as much parity as is needed.
        for other in (0..layout.members()).filter(|other| *other != role) {
            let is_data = other < layout.data();
            if !is_data && recipe(layout, &have, role).is_some() {
                break;
            }
            if at_hand(other).is_some() {
                have[other] = true;
                continue;
            }
            let mut block = Buffer::new(self.block_size as usize);
            let len = self.map.len_of(stripe, other) as usize;
            if matches!(self.read_block(stripe, other, &mut block[..len]), Found::Whole) {
                have[other] = true;
                read[other] = Some(block);
            }
        }
        let Some(recipe) = recipe(layout, &have, role) else {
            return self.not_made(stripe, role, have);
        };
        let mut sum = vec![0; out.len()];
        for (other, factor) in recipe {
            let len = self.map.len_of(stripe, other) as usize;
            let Some(block) = at_hand(other).or(read[other].as_deref()) else { return Made::Lost };
            let content = block.get(HEADER_LEN..len).unwrap_or_default();
            // Beyond its end a block is zeros.
            let len = content.len().min(out.len() - HEADER_LEN);
            add(&mut sum[HEADER_LEN..], &content[..len], factor);
        }
        let crc = Stamp::crc_of(&sum);
        out.copy_from_slice(&sum);
        self.put_header(stripe, role, crc, out);
        Made::Whole
    }

    /// What a block is that those others of its stripe which are there do not make up for.
    fn not_made(&self, stripe: u32, role: usize, mut have: Vec<bool>) -> Made {
        let layout = self.map.layout();
        let away = self.state.away();
        // Every member of a mirror has the same block.
        if away.is_empty() || layout.level() == Level::Mirror {
            return if away.is_empty() { Made::Lost } else { Made::Away };
        }
        for member in away {
            have[layout.role_of(stripe, member)] = true;
        }
        match have[role] || recipe(layout, &have, role).is_some() {
            true => Made::Away,
            false => Made::Lost,
        }
    }

    /// Reads what is spare: parity, and what all members have on each of them. What is damaged is noted.
    pub(in crate::rait) fn check_spare(&self) {
        let layout = self.map.layout();
        let mut block = Buffer::new(self.block_size.max(self.map.header_len()) as usize);
        for stripe in 0..self.map.stripes() {
            for role in 0..layout.members() {
                let is_spare = role >= layout.data() || layout.level() == Level::Mirror;
                let len = self.map.len_of(stripe, role) as usize;
                if is_spare && len > 0 {
                    let place = layout.member_of(stripe, role);
                    self.read_from(place, stripe, role, &mut block[..len]);
                }
            }
        }
        let mut at = 0;
        while let Some(piece) = self.piece_at(at) {
            let What::Common(behind) = piece.what else {
                at = self.map.catalog_at();
                continue;
            };
            if block.len() < piece.len {
                block = Buffer::new(piece.len);
            }
            for place in 0..self.parts.len() {
                self.read_common_of(place, behind, &mut block[..piece.len]);
            }
            at = piece.at + piece.len as u64;
        }
    }

    /// The block that a member has in a stripe, as it has it or as it would have it; its length is that of `out`. `None`
    /// if what is left is not enough.
    pub(in crate::rait) fn member_block(
        &self,
        stripe: u32,
        member: usize,
        out: &mut [u8],
    ) -> Option<()> {
        let role = self.map.layout().role_of(stripe, member);
        match self.read_block(stripe, role, out) {
            Found::Whole => Some(()),
            _ => (self.compute(stripe, role, out, &|_| None) == Made::Whole).then_some(()),
        }
    }
}
