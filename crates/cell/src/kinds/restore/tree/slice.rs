//! What a worker takes at a time.

use capstan_format::id::StreamId;
use capstan_port::media::read::known::Opened;
use parking_lot::Mutex;

/// What all streams have in a part of a segment.
pub(in crate::kinds::restore) struct Slice {
    pub segment: usize,
    /// Which part, from 0.
    pub number: usize,
    /// Of how many.
    pub of: usize,
    /// Only of this stream, if one is given.
    pub stream: Option<StreamId>,
    /// On a tape: the segment, opened, so that others wait for who reads it. It is closed when that is done.
    pub opened: Mutex<Option<Opened>>,
}

impl Slice {
    /// Its batches among those that a stream has in the segment.
    pub fn batches(&self, of_stream: usize) -> std::ops::Range<usize> {
        self.number * of_stream / self.of..(self.number + 1) * of_stream / self.of
    }
}
