//! A segment of an array, read as if it were one medium's.
//!
//! Every block is checked by its stamp as it is read; what a member lacks, or has damaged, is computed from the others.
//! Who reads one block after the other gets whole stripes read from all members at once.

use std::io;
use std::sync::Arc;

use capstan_engine::buffer::Buffer;
use capstan_format::FormatError;
use capstan_format::array::code::{add, recipe};
use capstan_format::array::map::SegmentMap;
use capstan_format::array::stamp::{Role, Stamp};
use capstan_format::array::{ArrayPlace, Layout, Level};
use capstan_format::block::{BLOCK_ALIGN, BLOCK_SIZE_MAX, BlockKind, HEADER_LEN, MaHeader};
use capstan_format::id::{BlockIndex, SegmentId};
use capstan_format::record::{MediumHeader, SegmentEnd, decode_record};
use parking_lot::Mutex;

use super::storage::State;
use crate::storage::ReadFile;

/// A member's file of a segment.
pub struct Part {
    /// The file.
    pub file: Box<dyn ReadFile>,
    /// The member is an array itself, whose blocks say their place in that one.
    pub nested: bool,
}

/// A segment of an array.
pub struct ArraySegment {
    state: Arc<State>,
    map: SegmentMap,
    segment: SegmentId,
    parts: Vec<Option<Part>>,
    /// Length of the catalog and the end record.
    tail: u64,
    end_len: u64,
    catalog_blocks: u32,
    block_size: u32,
    /// The array is a member of another one.
    is_member: bool,
    ahead: Mutex<Ahead>,
}

/// The stripe that was read last as a whole, and the block that was asked for last.
#[derive(Default)]
struct Ahead {
    last: Option<u32>,
    stripe: Option<u32>,
    blocks: Vec<Buffer>,
    /// A block that only a part was asked of: where it begins, its length, its bytes.
    partial: Option<(u64, usize, Buffer)>,
}

/// A block of the segment as the array shows it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    /// A data block.
    Data(u32),
    /// Block 0, or one of the catalog or the end record: on every member, at its begin or so far behind its data.
    Common(Option<u64>),
}

struct Piece {
    what: What,
    at: u64,
    len: usize,
}

/// What was found where a block belongs.
enum Found {
    Whole,
    /// Something is there that is not the block.
    Damaged,
    /// Nothing can be read.
    Nothing,
}

impl ArraySegment {
    /// Opens a segment of which these parts are there, by their places.
    pub(super) fn open(
        state: Arc<State>,
        layout: Layout,
        header: &MediumHeader,
        mut parts: Vec<Option<Part>>,
    ) -> io::Result<Self> {
        let block_size = header.block_size;
        let mut ends = Vec::new();
        let mut failure = io::Error::other("no member has the segment's end record whole");
        for (place, slot) in parts.iter_mut().enumerate() {
            let Some(part) = slot else { continue };
            match find_end(&*part.file) {
                Ok((end, len)) => ends.push((place, end, len)),
                Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                    state.repaired(place, |r| r.blocks += 1);
                }
                // A tape has a place for it, and nothing there.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    state.repaired(place, |r| r.files += 1);
                    *slot = None;
                    failure = e;
                }
                Err(e) => failure = e,
            }
        }
        // Members that wrote without each other may have other segments of that number: what most have is it.
        let votes = |id| ends.iter().filter(|(_, end, _)| end.segment == id).count();
        let chosen = ends.iter().rev().max_by_key(|(_, end, _)| votes(end.segment));
        let Some((place, end, end_len)) = chosen else { return Err(failure) };
        let map = map_of(layout, header.array.as_ref(), block_size, end).map_err(invalid)?;
        let len = parts[*place].as_ref().map_or(Ok(0), |p| p.file.len())?;
        let tail = len.saturating_sub(map.member_at(*place, map.stripes()));
        let catalog_blocks = end.blocks.saturating_sub(end.data_blocks).saturating_sub(2);
        let (segment, end_len) = (end.segment, *end_len);
        let (is_member, ahead) = (header.array.is_some(), Mutex::default());
        let it = Self {
            state,
            map,
            segment,
            parts,
            tail,
            end_len,
            catalog_blocks,
            block_size,
            is_member,
            ahead,
        };
        match it.last_catalog_block() {
            Some(_) => Ok(it),
            None => Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "the segment's end record does not fit the member's file",
            )),
        }
    }

    /// The places of its blocks.
    pub fn map(&self) -> &SegmentMap {
        &self.map
    }

    /// Where the last catalog block begins in the tail, and its length.
    fn last_catalog_block(&self) -> Option<(u64, u64)> {
        let catalog = self.tail.checked_sub(self.end_len)?;
        let Some(full) = self.catalog_blocks.checked_sub(1) else {
            return (catalog == 0).then_some((0, 0));
        };
        let at = u64::from(full) * u64::from(self.block_size);
        let len = catalog.checked_sub(at)?;
        (len > 0 && len <= self.block_size.into()).then_some((at, len))
    }

    fn piece_at(&self, offset: u64) -> Option<Piece> {
        let header = u64::from(self.map.header_len());
        if offset < header {
            return Some(Piece { what: What::Common(None), at: 0, len: header as usize });
        }
        if let Some(index) = self.map.block_with(offset) {
            let (at, len) = (self.map.block_at(index), self.map.block_len(index) as usize);
            return Some(Piece { what: What::Data(index), at, len });
        }
        let catalog_at = self.map.catalog_at();
        let behind = offset.checked_sub(catalog_at).filter(|b| *b < self.tail)?;
        let (last_at, last_len) = self.last_catalog_block()?;
        let (from, len) = if behind >= last_at + last_len {
            (last_at + last_len, self.end_len)
        } else if behind >= last_at {
            (last_at, last_len)
        } else {
            let full = u64::from(self.block_size);
            (behind / full * full, full)
        };
        Some(Piece { what: What::Common(Some(from)), at: catalog_at + from, len: len as usize })
    }

    fn load(&self, piece: &Piece, out: &mut [u8]) {
        match piece.what {
            What::Data(index) => self.load_data(index, out),
            What::Common(behind) => self.load_common(behind, out),
        }
    }

    /// A block that all members have, from the first that has it whole.
    fn load_common(&self, behind: Option<u64>, out: &mut [u8]) {
        let mut damaged: Option<Vec<u8>> = None;
        for place in 0..self.parts.len() {
            match self.read_common_of(place, behind, out) {
                Found::Whole => return,
                Found::Damaged => {
                    damaged.get_or_insert_with(|| out.to_vec());
                }
                Found::Nothing => {}
            }
        }
        // What it is, damaged, is better than nothing.
        match damaged {
            Some(bytes) => out.copy_from_slice(&bytes),
            None => out.fill(0),
        }
    }

    /// A block that all members have, from one of them: block 0, or so far behind the data.
    fn read_common_of(&self, place: usize, behind: Option<u64>, out: &mut [u8]) -> Found {
        let Some(part) = self.parts.get(place).and_then(Option::as_ref) else {
            return Found::Nothing;
        };
        let at = behind.map_or(0, |b| self.map.member_at(place, self.map.stripes()) + b);
        let n = part.file.read_at(out, at).unwrap_or(0);
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

    fn load_data(&self, index: u32, out: &mut [u8]) {
        let (stripe, role) = self.map.place_of(index);
        let mut ahead = self.ahead.lock();
        let follows = ahead.last.is_some_and(|last| index == last.wrapping_add(1));
        ahead.last = Some(index);
        if self.map.layout().level() != Level::Mirror
            && self.map.layout().data() > 1
            && (ahead.stripe == Some(stripe) || follows)
        {
            if ahead.stripe != Some(stripe) {
                self.read_stripe(stripe, &mut ahead);
            }
            if let Some(block) = ahead.blocks.get(role) {
                out.copy_from_slice(&block[..out.len()]);
                return;
            }
        }
        drop(ahead);
        let found = self.read_block(stripe, role, out);
        self.make_up(stripe, role, out, found);
    }

    /// Reads the data blocks of a stripe from all members at once, and makes up for those that are lost.
    fn read_stripe(&self, stripe: u32, ahead: &mut Ahead) {
        let layout = self.map.layout();
        while ahead.blocks.len() < layout.data() {
            ahead.blocks.push(Buffer::new(self.block_size as usize));
        }
        ahead.stripe = Some(stripe);
        let found: Vec<Found> = std::thread::scope(|scope| {
            let readers: Vec<_> = ahead
                .blocks
                .iter_mut()
                .enumerate()
                .map(|(role, block)| {
                    let len = self.map.len_of(stripe, role) as usize;
                    scope.spawn(move || self.read_block(stripe, role, &mut block[..len]))
                })
                .collect();
            readers.into_iter().map(|r| r.join().unwrap_or(Found::Nothing)).collect()
        });
        // Those that are whole are there for the others.
        let whole: Vec<bool> = found.iter().map(|f| matches!(f, Found::Whole)).collect();
        for (role, found) in found.into_iter().enumerate().filter(|(role, _)| !whole[*role]) {
            let len = self.map.len_of(stripe, role) as usize;
            let mut block = std::mem::replace(&mut ahead.blocks[role], Buffer::new(0));
            let at_hand = |other: usize| {
                let is_whole = whole.get(other).copied().unwrap_or(false);
                is_whole.then(|| &ahead.blocks[other][..])
            };
            self.make_up_with(stripe, role, &mut block[..len], found, &at_hand);
            ahead.blocks[role] = block;
        }
    }

    /// Reads the block of a role in a stripe, and checks it.
    fn read_block(&self, stripe: u32, role: usize, out: &mut [u8]) -> Found {
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
        let n = part.file.read_at(out, self.map.member_at(place, stripe)).unwrap_or(0);
        if n == out.len() && self.is_it(stripe, role, place, part.nested, out) {
            return Found::Whole;
        }
        self.state.repaired(place, |r| r.blocks += 1);
        if n == out.len() { Found::Damaged } else { Found::Nothing }
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

    fn make_up(&self, stripe: u32, role: usize, out: &mut [u8], found: Found) {
        self.make_up_with(stripe, role, out, found, &|_| None);
    }

    /// Computes a block from the others of its stripe, if it is not whole; `at_hand` has those that were read already.
    /// What is damaged stays as it is, and what is not there is zeros, where the others are not enough.
    fn make_up_with<'a>(
        &self,
        stripe: u32,
        role: usize,
        out: &mut [u8],
        found: Found,
        at_hand: &dyn Fn(usize) -> Option<&'a [u8]>,
    ) {
        if matches!(found, Found::Whole) {
            return;
        }
        if self.compute(stripe, role, out, at_hand).is_none() {
            let place = self.map.layout().member_of(stripe, role);
            self.state.repaired(place, |r| r.lost_blocks += 1);
            if matches!(found, Found::Nothing) {
                out.fill(0);
            }
        }
    }

    fn compute<'a>(
        &self,
        stripe: u32,
        role: usize,
        out: &mut [u8],
        at_hand: &dyn Fn(usize) -> Option<&'a [u8]>,
    ) -> Option<()> {
        let layout = self.map.layout();
        if layout.level() == Level::Mirror {
            return None;
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
        let mut sum = vec![0; out.len()];
        for (other, factor) in recipe(layout, &have, role)? {
            let len = self.map.len_of(stripe, other) as usize;
            let block = at_hand(other).or(read[other].as_deref())?;
            let content = block.get(HEADER_LEN..len).unwrap_or_default();
            // Beyond its end a block is zeros.
            let len = content.len().min(out.len() - HEADER_LEN);
            add(&mut sum[HEADER_LEN..], &content[..len], factor);
        }
        let crc = Stamp::crc_of(&sum);
        out.copy_from_slice(&sum);
        self.put_header(stripe, role, crc, out);
        Some(())
    }

    /// The block that all members have at an offset; returns its length, 0 behind the last.
    pub(super) fn read_common(&self, offset: u64, out: &mut Buffer) -> usize {
        let Some(piece) = self.piece_at(offset) else { return 0 };
        if out.len() < piece.len {
            *out = Buffer::new(piece.len);
        }
        self.load(&piece, &mut out[..piece.len]);
        piece.len
    }

    /// Reads what is spare: parity, and what all members have on each of them. What is damaged is noted.
    pub(super) fn check_spare(&self) {
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
    pub(super) fn member_block(&self, stripe: u32, member: usize, out: &mut [u8]) -> Option<()> {
        let role = self.map.layout().role_of(stripe, member);
        match self.read_block(stripe, role, out) {
            Found::Whole => Some(()),
            _ => self.compute(stripe, role, out, &|_| None),
        }
    }
}

impl ReadFile for ArraySegment {
    fn read_at(&self, out: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let Some(piece) = self.piece_at(at) else { break };
            let left = out.len() - done;
            if at == piece.at && left >= piece.len {
                self.load(&piece, &mut out[done..done + piece.len]);
                done += piece.len;
                continue;
            }
            let kept = self.ahead.lock().partial.take().filter(|p| p.0 == piece.at);
            let (_, _, block) = kept.unwrap_or_else(|| {
                let mut block = Buffer::new(piece.len);
                self.load(&piece, &mut block[..piece.len]);
                (piece.at, piece.len, block)
            });
            let from = (at - piece.at) as usize;
            let n = left.min(piece.len - from);
            out[done..done + n].copy_from_slice(&block[from..from + n]);
            self.ahead.lock().partial = Some((piece.at, piece.len, block));
            done += n;
        }
        Ok(done)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.map.catalog_at() + self.tail)
    }
}

/// The map of an array that has that place in another one: the end record counts the blocks of the outermost.
fn map_of(
    layout: Layout,
    place: Option<&ArrayPlace>,
    block_size: u32,
    end: &SegmentEnd,
) -> Result<SegmentMap, FormatError> {
    let Some(place) = place else { return SegmentMap::new(layout, block_size, end) };
    let outer = map_of(place.layout()?, place.of.as_deref(), block_size, end)?;
    Ok(outer.of_member(place.member as usize, layout))
}

/// Blocks of stripes that a member has of a segment, where all of them are full ones.
pub(crate) fn blocks_on(place: &ArrayPlace, block_size: u64, end: &SegmentEnd) -> io::Result<u64> {
    let size = u32::try_from(block_size).map_err(invalid)?;
    let layout = place.layout().map_err(invalid)?;
    let map = map_of(layout, place.of.as_deref(), size, end).map_err(invalid)?;
    let member = place.member as usize;
    let bytes = map.member_at(member, map.stripes()) - u64::from(map.header_len());
    Ok(bytes / block_size.max(1))
}

/// The end record of a member's file, and its length.
fn find_end(file: &dyn ReadFile) -> io::Result<(SegmentEnd, u64)> {
    let len = file.len()?;
    let most = u64::from(BLOCK_SIZE_MAX).min(len);
    let mut window = (64 << 10).min(len);
    loop {
        let from = (len - window) / BLOCK_ALIGN as u64 * BLOCK_ALIGN as u64;
        let mut bytes = vec![0; (len - from) as usize];
        let n = file.read_at(&mut bytes, from)?;
        bytes.truncate(n);
        for at in (0..bytes.len()).step_by(BLOCK_ALIGN).rev() {
            let is_last = |h: MaHeader| {
                h.kind == BlockKind::SegmentEnd && h.length as usize == bytes.len() - at
            };
            if MaHeader::decode(&bytes[at..]).is_ok_and(is_last) {
                let found = decode_record(BlockKind::SegmentEnd, &bytes[at..]);
                let (_, end) = found.map_err(invalid)?;
                return Ok((end, (bytes.len() - at) as u64));
            }
        }
        if window >= most {
            return Err(invalid("no end record"));
        }
        window = (window * 16).min(most);
    }
}

fn invalid(why: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}
