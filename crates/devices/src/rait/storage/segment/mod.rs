//! A segment of an array, read as if it were one medium's.
//!
//! Every block is checked by its stamp as it is read; what a member lacks, or has damaged, is computed from the others.
//! Who reads one block after the other gets whole stripes read from all members at once.

mod blocks;

use std::io;
use std::sync::Arc;

use capstan_engine::buffer::Buffer;
use capstan_engine::threads;
use capstan_format::array::{Layout, Level};
use capstan_format::array_map::SegmentMap;
use capstan_format::id::{SegmentId, SegmentNumber};
use capstan_format::record::MediumHeader;
use capstan_medium::ends::{find_end, invalid, map_of};
use capstan_medium::storage::ReadFile;
use capstan_medium::tape::TapeError;
use parking_lot::Mutex;

use self::blocks::{Found, Made};
use super::members::State;

/// A member's file of a segment.
pub struct Part {
    /// The file.
    pub file: Box<dyn ReadFile>,
    /// The member is an array itself, whose blocks say their place in that one.
    pub nested: bool,
}

/// A segment of an array.
pub struct ArraySegment {
    pub(super) state: Arc<State>,
    pub(super) map: SegmentMap,
    pub(super) segment: SegmentId,
    pub(super) parts: Vec<Option<Part>>,
    /// Length of the catalog and the end record.
    tail: u64,
    end_len: u64,
    catalog_blocks: u32,
    pub(super) block_size: u32,
    /// The array is a member of another one.
    pub(super) is_member: bool,
    ahead: Mutex<Ahead>,
    /// Why members could not be read now, where their drives failed. What cannot be made up for then is not damaged for all that is known.
    pub(super) unread: Mutex<Option<String>>,
}

/// The stripe that was read last as a whole, and the block that was asked for last.
#[derive(Default)]
struct Ahead {
    last: Option<u32>,
    stripe: Option<u32>,
    blocks: Vec<Buffer>,
    /// Those of its blocks that are not whole, and could not be made up for; and whether members that are away may have what lacks.
    lost: Vec<(usize, Made)>,
    /// A block that only a part was asked of: where it begins, its length, its bytes.
    partial: Option<(u64, usize, Buffer)>,
}

/// A block of the segment as the array shows it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// A data block.
    Data(u32),
    /// Block 0, or one of the catalog or the end record: on every member, at its begin or so far behind its data.
    Common(Option<u64>),
}

pub(super) struct Piece {
    pub what: What,
    pub at: u64,
    pub len: usize,
}

impl ArraySegment {
    /// Opens a segment of which these parts are there, by their places.
    pub(super) fn open(
        state: Arc<State>,
        layout: Layout,
        header: &MediumHeader,
        number: SegmentNumber,
        mut parts: Vec<Option<Part>>,
    ) -> io::Result<Self> {
        let block_size = header.block_size;
        let mut ends = Vec::new();
        const NONE: &str = "no member has the segment's end record whole";
        let mut failure = io::Error::new(io::ErrorKind::InvalidData, NONE);
        for (place, slot) in parts.iter_mut().enumerate() {
            let Some(part) = slot else { continue };
            match find_end(&*part.file) {
                Ok((end, len)) => ends.push((place, end, len)),
                Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                    state.repaired(place, |r| r.blocks += 1);
                }
                // A tape has a place for it, and nothing there.
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    state.repaired(place, |r| r.lacks.extend([number]));
                    *slot = None;
                    failure = e;
                }
                Err(e) => failure = e,
            }
        }
        // Members that wrote without each other may have other segments of that number: what most have is it.
        let votes = |id| ends.iter().filter(|(_, end, _)| end.segment == id).count();
        let chosen = ends.iter().rev().max_by_key(|(_, end, _)| votes(end.segment));
        let Some((place, end, end_len)) = chosen else {
            return Err(state.or_away(failure, parts.iter().flatten().count()));
        };
        let map = map_of(layout, header.array.as_ref(), block_size, end).map_err(invalid)?;
        let len = parts[*place].as_ref().map_or(Ok(0), |p| p.file.len())?;
        let tail = len.saturating_sub(map.member_at(*place, map.stripes()));
        let catalog_blocks = end.blocks.saturating_sub(end.data_blocks).saturating_sub(2);
        let (segment, end_len) = (end.segment, *end_len);
        let (is_member, ahead, unread) =
            (header.array.is_some(), Mutex::default(), Mutex::default());
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
            unread,
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

    /// Whether fewer members than are needed have all that is theirs of its stripes.
    pub(super) fn is_cut(&self) -> bool {
        let is_long = |(place, part): (usize, &Option<Part>)| {
            let end = self.map.member_at(place, self.map.stripes());
            part.as_ref().is_some_and(|part| part.file.len().is_ok_and(|len| len >= end))
        };
        let long = self.parts.iter().enumerate().filter(|part| is_long(*part)).count();
        long < self.map.layout().data()
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

    pub(super) fn piece_at(&self, offset: u64) -> Option<Piece> {
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

    /// Reads a block, as far as it is there. An error where it is not whole, and members that are away may have it, or a drive failed,
    /// which tells nothing of the block.
    fn load(&self, piece: &Piece, out: &mut [u8]) -> io::Result<()> {
        let made = match piece.what {
            What::Data(index) => self.load_data(index, out),
            What::Common(behind) => self.load_common(behind, out),
        };
        if made == Made::Whole {
            return Ok(());
        }
        if let Some(why) = self.state.why_away().filter(|_| made == Made::Away) {
            return Err(io::Error::other(TapeError::OthersAway(why)));
        }
        match &*self.unread.lock() {
            Some(why) => Err(io::Error::other(TapeError::Unreachable(why.clone().into()))),
            None => Ok(()),
        }
    }

    /// A block that all members have, from the first that has it whole.
    fn load_common(&self, behind: Option<u64>, out: &mut [u8]) -> Made {
        let mut damaged: Option<Vec<u8>> = None;
        for place in 0..self.parts.len() {
            match self.read_common_of(place, behind, out) {
                Found::Whole => return Made::Whole,
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
        match self.state.away().is_empty() {
            true => Made::Lost,
            false => Made::Away,
        }
    }

    fn load_data(&self, index: u32, out: &mut [u8]) -> Made {
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
                let lost = ahead.lost.iter().find(|of| of.0 == role);
                return lost.map_or(Made::Whole, |of| of.1);
            }
        }
        drop(ahead);
        let found = self.read_block(stripe, role, out);
        self.make_up(stripe, role, out, found)
    }

    /// Reads the data blocks of a stripe from all members at once, and makes up for those that are lost.
    fn read_stripe(&self, stripe: u32, ahead: &mut Ahead) {
        let layout = self.map.layout();
        while ahead.blocks.len() < layout.data() {
            ahead.blocks.push(Buffer::new(self.block_size as usize));
        }
        ahead.stripe = Some(stripe);
        ahead.lost.clear();
        let found: Vec<Found> = std::thread::scope(|scope| {
            let readers: Vec<_> = ahead
                .blocks
                .iter_mut()
                .enumerate()
                .map(|(role, block)| {
                    let len = self.map.len_of(stripe, role) as usize;
                    let read = move || self.read_block(stripe, role, &mut block[..len]);
                    threads::beside(scope, "stripe", read)
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
            let made = self.make_up_with(stripe, role, &mut block[..len], found, &at_hand);
            ahead.blocks[role] = block;
            if made != Made::Whole {
                ahead.lost.push((role, made));
            }
        }
    }

    /// The block that all members have at an offset; returns its length, 0 behind the last.
    pub(in crate::rait) fn read_common(&self, offset: u64, out: &mut Buffer) -> usize {
        let Some(piece) = self.piece_at(offset) else { return 0 };
        if out.len() < piece.len {
            *out = Buffer::new(piece.len);
        }
        // What could not be read is as what is not there.
        let _ = self.load(&piece, &mut out[..piece.len]);
        piece.len
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
                self.load(&piece, &mut out[done..done + piece.len])?;
                done += piece.len;
                continue;
            }
            let kept = self.ahead.lock().partial.take().filter(|p| p.0 == piece.at);
            let block = match kept {
                Some((_, _, block)) => block,
                None => {
                    let mut block = Buffer::new(piece.len);
                    self.load(&piece, &mut block[..piece.len])?;
                    block
                }
            };
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
