//! Which frames come in which order, as both sides see it.
//!
//! The disk agent keeps what it expects, and what came of that ([`Ahead`]). The media agent keeps what it is to send ([`Course`]). A frame
//! is sent once, though several ranges have bytes of it one after the other: as a reader keeps the last frame of some streams, so the
//! course knows which these are. Where both differ, the reader asks for the frame by itself, which costs one round trip.

use std::collections::VecDeque;

use capstan_engine::frames::Expected;
use capstan_format::id::StreamId;

use super::DataError;
use super::frames::Ranges;

/// Ranges at most that are expected and have not come.
pub const MOST_EXPECTED: usize = 8192;
/// Streams of which the last frame is taken to be kept by the reader.
const KEPT: usize = 8;

/// A stretch of a stream: a frame's bytes, or those that cannot be had.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The stream.
    pub stream: StreamId,
    /// Its first logical byte.
    pub from: u64,
    /// The one behind its last.
    pub to: u64,
}

impl Stretch {
    fn has(&self, stream: StreamId, at: u64) -> bool {
        self.stream == stream && (self.from..self.to).contains(&at)
    }
}

/// What a media agent is to send.
#[derive(Debug, Default)]
pub struct Course {
    ranges: VecDeque<Expected>,
    /// The number of the first of them.
    first: u64,
    /// How far the first of them has come.
    at: u64,
    /// The last frames of the streams that were sent last, the newest last.
    sent: Vec<Stretch>,
}

impl Course {
    /// Takes what will be asked for.
    pub fn expect(&mut self, ranges: Ranges) -> Result<(), DataError> {
        self.skip(ranges.from);
        if ranges.first < self.next_number() {
            return Err(DataError::TooMuch("ranges"));
        }
        // What is left out is not asked for any more, nor is what comes before it.
        if ranges.first > self.next_number() {
            self.skip(ranges.first);
        }
        if self.ranges.len() + ranges.ranges.len() > MOST_EXPECTED {
            return Err(DataError::TooMuch("ranges"));
        }
        self.ranges.extend(ranges.ranges);
        Ok(())
    }

    /// The number of the range that is expected next.
    pub fn next_number(&self) -> u64 {
        self.first.saturating_add(self.ranges.len() as u64)
    }

    /// Ranges before that one are not asked for any more.
    pub fn skip(&mut self, from: u64) {
        while self.first < from {
            self.at = 0;
            // Numbers that were never said are left out too.
            self.first = if self.ranges.pop_front().is_some() { self.first + 1 } else { from };
        }
    }

    /// What is to be sent next: for which range, and which byte of which stream the frame has to have.
    pub fn coming(&mut self) -> Option<(u64, StreamId, u64)> {
        while let Some(range) = self.ranges.front() {
            self.at = self.at.max(range.from);
            let known = self.sent.iter().find(|sent| sent.has(range.stream, self.at));
            match known {
                _ if self.at >= range.to => {
                    self.ranges.pop_front();
                    (self.first, self.at) = (self.first.saturating_add(1), 0);
                }
                Some(known) => self.at = known.to,
                None => return Some((self.first, range.stream, self.at)),
            }
        }
        None
    }

    /// A stretch was sent for what [`Self::coming`] said, or for what was asked for by itself. It has the byte `at`.
    pub fn sent(&mut self, stretch: Stretch, at: u64) {
        self.sent.retain(|sent| sent.stream != stretch.stream);
        if self.sent.len() >= KEPT {
            self.sent.remove(0);
        }
        // Whoever serves must get on, whatever the medium says.
        let (from, to) = (stretch.from.min(at), stretch.to.max(at.saturating_add(1)));
        self.sent.push(Stretch { from, to, ..stretch });
    }
}

/// What a disk agent expects, and what came of it and is not used. `T` is what came.
#[derive(Debug)]
pub struct Ahead<T> {
    /// What was said, and is not done with.
    ranges: VecDeque<Expected>,
    /// The number of the first of them.
    first: u64,
    /// So many of them were told to the other side.
    told: usize,
    came: VecDeque<(u64, Stretch, T)>,
    /// Ranges before this one were sent, as far as they will be.
    served: u64,
}

/// What is to be done about a byte that is wanted.
#[derive(Debug, PartialEq, Eq)]
pub enum Wanted<T> {
    /// It came.
    Came(T),
    /// It will come.
    Wait,
    /// It will not: it is to be asked for by itself.
    Ask,
}

impl<T> Default for Ahead<T> {
    fn default() -> Self {
        let (ranges, came) = (VecDeque::new(), VecDeque::new());
        Self { ranges, first: 0, told: 0, came, served: 0 }
    }
}

impl<T> Ahead<T> {
    /// Takes what will be asked for.
    pub fn expect(&mut self, ranges: &[Expected]) {
        self.ranges.extend(ranges.iter().filter(|range| range.from < range.to));
    }

    /// What is to be told to the other side now, which holds only so much.
    pub fn untold(&mut self, most: usize) -> Option<Ranges> {
        let room = MOST_EXPECTED.saturating_sub(self.told).min(most);
        let count = (self.ranges.len() - self.told).min(room);
        // A few at a time would cost a message each.
        if count == 0 || (count < self.ranges.len() - self.told && count < most) {
            return None;
        }
        let ranges = self.ranges.range(self.told..self.told + count).copied().collect();
        let first = self.first + self.told as u64;
        self.told += count;
        Some(Ranges { from: self.first, first, ranges })
    }

    /// Whether something is to be told to the other side yet.
    pub fn is_untold(&self) -> bool {
        self.told < self.ranges.len() && self.told < MOST_EXPECTED
    }

    /// What came and was not used.
    pub fn into_came(self) -> impl Iterator<Item = T> {
        self.came.into_iter().map(|(.., what)| what)
    }

    /// The number of the first range that is not done with.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Something came for a range. It is given back where nobody wants it any more; an error where it was not expected.
    pub fn came(&mut self, number: u64, stretch: Stretch, what: T) -> Result<Option<T>, DataError> {
        let last = self.came.back().map_or(0, |(number, ..)| *number);
        if number < self.first {
            return Ok(Some(what));
        }
        if number >= self.first + self.told as u64 || number < last || number < self.served {
            return Err(DataError::TooMuch("frames"));
        }
        self.came.push_back((number, stretch, what));
        Ok(None)
    }

    /// Ranges before that one were sent, as far as they will be.
    pub fn served(&mut self, before: u64) -> Result<(), DataError> {
        if before > self.first + self.told as u64 {
            return Err(DataError::TooMuch("ranges"));
        }
        self.served = self.served.max(before);
        Ok(())
    }

    /// A byte is wanted. What came before it and was not wanted is dropped into `unused`.
    pub fn want(&mut self, stream: StreamId, at: u64, unused: &mut Vec<T>) -> Wanted<T> {
        let is_in =
            |range: &Expected| range.stream == stream && (range.from..range.to).contains(&at);
        let Some(place) = self.ranges.iter().position(is_in) else {
            return Wanted::Ask;
        };
        let number = self.first + place as u64;
        if place >= self.told {
            // What was told already is not asked for any more: this comes as soon as it is told.
            unused.extend(self.came.drain(..).map(|(.., what)| what));
            self.done_before(number);
            return Wanted::Wait;
        }
        let is_it = |(of, stretch, _): &(u64, Stretch, T)| *of <= number && stretch.has(stream, at);
        let found = self.came.iter().position(is_it);
        if let Some(found) = found {
            unused.extend(self.came.drain(..found).map(|(.., what)| what));
            self.done_before(number);
            return match self.came.pop_front() {
                Some((.., what)) => Wanted::Came(what),
                None => Wanted::Ask,
            };
        }
        let is_behind = |(of, stretch, _): &(u64, Stretch, T)| {
            *of > number || *of == number && stretch.stream == stream && stretch.from > at
        };
        if self.served > number || self.came.iter().any(is_behind) {
            return Wanted::Ask;
        }
        unused.extend(self.came.drain(..).map(|(.., what)| what));
        self.done_before(number);
        Wanted::Wait
    }

    /// Ranges before that one are not asked for any more.
    fn done_before(&mut self, number: u64) {
        while self.first < number && self.ranges.pop_front().is_some() {
            self.first += 1;
            self.told = self.told.saturating_sub(1);
        }
    }
}
