//! Credit for blocks: who may send a block of which segment.
//!
//! The media agent keeps a [`Ledger`]: the buffers that it granted, in their order. The disk agent keeps a [`Purse`]: the credit that it
//! was given. Both make the same of the same messages. Credit of a segment that the stream has left is void on both sides, also if it was
//! under way when the stream left. A stream that needs one more block after its last takes it without credit: the media agent keeps one
//! ready as soon as a last block comes that does not end the segment.

use std::collections::VecDeque;

use capstan_engine::link::SegmentOrdinal;
use capstan_format::bytes::{Cursor, put_varint};

use super::DataError;
use super::block::BlockHead;
use super::head::Kind;

/// Grants ahead of one stream at most, whatever the media agent was told: 8 GiB of the largest blocks.
pub const MOST_AHEAD: usize = 1024;

/// Credit for one block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    /// The segment it is of.
    pub segment: SegmentOrdinal,
    /// Whether it is the stream's last in that segment.
    pub last: bool,
}

/// What the media agent says of grants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Granted {
    /// Blocks of the stream that it took so far.
    pub taken: u64,
    /// What is granted.
    pub credits: Vec<Credit>,
}

impl Granted {
    /// Its body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        put_varint(out, self.taken);
        put_varint(out, self.credits.len() as u64);
        for credit in &self.credits {
            put_varint(out, u64::from(credit.segment.0) << 1 | u64::from(credit.last));
        }
    }

    /// The grants that these bytes are.
    pub fn decode(body: &[u8]) -> Result<Self, DataError> {
        let mut of = Cursor::new(body, "grants");
        let taken = of.varint()?;
        let count = of.count()?;
        if count > MOST_AHEAD {
            return Err(DataError::TooMuch("grants"));
        }
        let mut credits = Vec::with_capacity(count);
        for _ in 0..count {
            let credit = of.varint()?;
            let segment = u32::try_from(credit >> 1).map_err(|_| DataError::TooMuch("segments"))?;
            credits.push(Credit { segment: SegmentOrdinal(segment), last: credit & 1 != 0 });
        }
        Ok(Self { taken, credits })
    }
}

/// A segment by itself: one that is to end, or that the stream has left. With the blocks that were taken, or sent, so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OfSegment {
    /// Blocks so far.
    pub blocks: u64,
    /// The segment.
    pub segment: SegmentOrdinal,
}

impl OfSegment {
    /// Its body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        put_varint(out, self.blocks);
        put_varint(out, self.segment.0.into());
    }

    /// What these bytes are.
    pub fn decode(body: &[u8]) -> Result<Self, DataError> {
        let mut of = Cursor::new(body, "segment");
        Ok(Self { blocks: of.varint()?, segment: SegmentOrdinal(of.varint_u32()?) })
    }
}

/// A number of blocks, or of bytes, by itself.
pub fn encode_number(number: u64, out: &mut Vec<u8>) {
    out.clear();
    put_varint(out, number);
}

/// The number that these bytes are.
pub fn decode_number(body: &[u8]) -> Result<u64, DataError> {
    Ok(Cursor::new(body, "number").varint()?)
}

/// What a stream at the other side was granted. `G` is a grant, with its buffer.
#[derive(Debug)]
pub struct Ledger<G> {
    /// In their order.
    held: VecDeque<(Credit, G)>,
    /// One more of the segment that the stream is in, kept ready behind its last.
    more: Option<G>,
    /// The segment of the last block, if the stream has not left it.
    current: Option<SegmentOrdinal>,
    /// The last block of it that came was the last granted.
    is_behind_last: bool,
    /// The segments before this one were left.
    first_open: u32,
    /// The newest segment that was granted.
    newest: Option<SegmentOrdinal>,
}

/// What becomes of a block that came.
#[derive(Debug, PartialEq, Eq)]
pub enum Place<G> {
    /// It goes there.
    Here(G),
    /// It goes into one more buffer of its segment, which is to be had now.
    OneMore,
}

impl<G> Default for Ledger<G> {
    fn default() -> Self {
        Self {
            held: VecDeque::new(),
            more: None,
            current: None,
            is_behind_last: false,
            first_open: 0,
            newest: None,
        }
    }
}

impl<G> Ledger<G> {
    /// Grants that wait to be used.
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// Takes a grant down. It comes back if the stream has left its segment: then it is not told to the other side.
    pub fn grant(&mut self, credit: Credit, grant: G) -> Result<(), G> {
        if credit.segment.0 < self.first_open {
            return Err(grant);
        }
        self.newest = self.newest.max(Some(credit.segment));
        self.held.push_back((credit, grant));
        Ok(())
    }

    /// The segment that must end before all others that the stream is in, or holds grants of.
    pub fn first_segment(&self) -> Option<SegmentOrdinal> {
        self.current.or_else(|| self.held.front().map(|(credit, _)| credit.segment))
    }

    /// A block comes: says where to, if it was granted. The stream is in its segment then.
    pub fn place(&mut self, head: &BlockHead<'_>) -> Result<Place<G>, DataError> {
        if head.is_more {
            if self.current != Some(head.segment) {
                return Err(DataError::NotGranted);
            }
            self.is_behind_last = true;
            return Ok(self.more.take().map_or(Place::OneMore, Place::Here));
        }
        let is_next = |credit: &Credit| credit.segment == head.segment;
        let is_in_another = self.current.is_some_and(|current| current != head.segment);
        let Some((credit, grant)) = self.held.pop_front_if(|(credit, _)| is_next(credit)) else {
            return Err(DataError::NotGranted);
        };
        if is_in_another {
            return Err(DataError::NotGranted);
        }
        self.current = Some(head.segment);
        self.is_behind_last = credit.last;
        Ok(Place::Here(grant))
    }

    /// Whether one more buffer is to be kept ready, before the block that came is passed on: it does not end the segment, and without a
    /// buffer of it the segment would.
    pub fn needs_more(&self, head: &BlockHead<'_>) -> bool {
        self.is_behind_last && !head.ends_segment && self.more.is_none()
    }

    /// Keeps one more buffer ready.
    pub fn keep_more(&mut self, grant: G) {
        self.more = Some(grant);
    }

    /// Whether the stream can have been in the segment. Others cannot be left.
    pub fn has_been_in(&self, segment: SegmentOrdinal) -> bool {
        self.newest.is_some_and(|newest| segment <= newest)
    }

    /// The stream has nothing more for the segment: gives what it held of it, or of one before.
    pub fn leave(&mut self, segment: SegmentOrdinal) -> Vec<G> {
        self.first_open = self.first_open.max(segment.0.saturating_add(1));
        let mut back = Vec::new();
        if self.current.is_some_and(|current| current.0 < self.first_open) {
            self.current = None;
            back.extend(self.more.take());
        }
        while let Some((_, grant)) =
            self.held.pop_front_if(|(credit, _)| credit.segment.0 < self.first_open)
        {
            back.push(grant);
        }
        back
    }

    /// The stream has ended: gives all that it held.
    pub fn end(&mut self) -> Vec<G> {
        self.current = None;
        self.more.take().into_iter().chain(self.held.drain(..).map(|(_, grant)| grant)).collect()
    }
}

/// What a stream at this side was granted by the other one.
#[derive(Debug, Default)]
pub struct Purse {
    credits: VecDeque<Credit>,
    /// The credit that came last.
    last: Option<Credit>,
    /// The segment that the stream took credit of last, if it has not left it.
    current: Option<SegmentOrdinal>,
    /// The segments before this one were left.
    first_open: u32,
    /// The segment that is to end.
    closing: Option<SegmentOrdinal>,
    sent: u64,
    taken: u64,
}

impl Purse {
    /// Takes credit that came.
    pub fn granted(&mut self, granted: &Granted) -> Result<(), DataError> {
        self.acknowledged(granted.taken)?;
        for credit in &granted.credits {
            let is_next = self.last.is_none_or(|last| match last.last {
                true => credit.segment > last.segment,
                false => credit.segment >= last.segment,
            });
            if !is_next {
                return Err(DataError::Senseless(Kind::Granted.byte()));
            }
            self.last = Some(*credit);
            if credit.segment.0 < self.first_open {
                continue;
            }
            if self.credits.len() >= MOST_AHEAD {
                return Err(DataError::TooMuch("grants"));
            }
            self.credits.push_back(*credit);
        }
        Ok(())
    }

    /// So many blocks were taken.
    pub fn acknowledged(&mut self, taken: u64) -> Result<(), DataError> {
        if taken > self.sent || taken < self.taken {
            return Err(DataError::NotSent);
        }
        self.taken = taken;
        Ok(())
    }

    /// Credit for the next block.
    pub fn take(&mut self) -> Option<Credit> {
        let credit = self.credits.pop_front()?;
        self.current = Some(credit.segment);
        Some(credit)
    }

    /// The same, if it is of that segment.
    pub fn take_of(&mut self, segment: SegmentOrdinal) -> Option<Credit> {
        self.credits.pop_front_if(|credit| credit.segment == segment)
    }

    /// A block is sent. Gives its number.
    pub fn send(&mut self) -> u64 {
        let number = self.sent;
        self.sent += 1;
        number
    }

    /// Blocks that were sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// The segment is to end. Whether the stream is not in it: then it leaves it at once, and the other side is told.
    pub fn close(&mut self, segment: SegmentOrdinal) -> bool {
        if segment.0 < self.first_open {
            return false;
        }
        match self.current {
            Some(current) => {
                self.closing = (current == segment).then_some(segment).or(self.closing);
                false
            }
            None => self.leave(segment),
        }
    }

    /// Whether the segment is to end.
    pub fn is_closing(&self, segment: SegmentOrdinal) -> bool {
        self.closing == Some(segment)
    }

    /// The stream has nothing more for the segment. Whether that is new.
    pub fn leave(&mut self, segment: SegmentOrdinal) -> bool {
        let is_new = segment.0 >= self.first_open;
        self.first_open = self.first_open.max(segment.0.saturating_add(1));
        let first_open = self.first_open;
        self.current = self.current.filter(|current| current.0 >= first_open);
        self.closing = self.closing.filter(|closing| closing.0 >= first_open);
        while self.credits.pop_front_if(|credit| credit.segment.0 < first_open).is_some() {}
        is_new
    }
}
