//! Checksums of contents: made of what is placed, row by row, and sent behind the batch that has the rows.

use std::collections::VecDeque;

use capstan_engine::link::LinkClosed;
use capstan_format::frame::FrameType;
use capstan_format::sums::{ContentSum, Sums};

use super::{Pending, Secret, StreamWriter};

/// The checksums of a stream's rows in the segment at hand.
pub(super) struct RowSums {
    /// Whether any are wanted.
    on: bool,
    /// Of the first row whose data are not all placed yet.
    sum: ContentSum,
    /// Whether some of that row's data could not be read.
    filled: bool,
    /// Of the rows before it that were not sent yet.
    ready: Vec<Sums>,
}

impl RowSums {
    pub fn new(on: bool) -> Self {
        Self { on, sum: ContentSum::default(), filled: false, ready: Vec::new() }
    }

    /// `len` bytes of contents are placed at the logical offset `at`; without `bytes` it is filling.
    pub fn advance(
        &mut self,
        pending: &VecDeque<Pending>,
        mut at: u64,
        len: u64,
        bytes: Option<&[u8]>,
    ) {
        if !self.on {
            return;
        }
        let (begin, stop) = (at, at + len);
        for p in pending {
            let end = p.start + p.entry.logical_len();
            let to = end.min(stop);
            match bytes.and_then(|b| b.get((at - begin) as usize..(to - begin) as usize)) {
                Some(bytes) => self.sum.update(bytes),
                None => self.filled = true,
            }
            at = to;
            if at == end {
                self.end_row(p);
            }
            if at == stop {
                break;
            }
        }
    }

    /// No more of this row comes in this segment.
    fn end_row(&mut self, row: &Pending) {
        let sum = Some(self.sum.take()).filter(|_| !std::mem::take(&mut self.filled));
        match self.ready.last_mut() {
            Some(last) if last.batch == row.batch => last.sums.push(sum),
            _ => self.ready.push(Sums { batch: row.batch, sums: vec![sum] }),
        }
    }
}

impl StreamWriter {
    /// Sends the checksums of rows whose data are placed, in the segment that has them.
    pub(super) fn send_sums(&mut self) -> Result<(), LinkClosed> {
        for sums in std::mem::take(&mut self.sums.ready) {
            self.put_meta(FrameType::Sums, &sums.encode(), Secret::Names, 0, true)?;
        }
        Ok(())
    }

    /// The segment ends: what it has of the first pending row is summed up, the rest is a row of its own.
    pub(super) fn send_last_sums(&mut self) -> Result<(), LinkClosed> {
        if let Some(row) = self.pending.front().filter(|p| p.start < self.logical && self.sums.on) {
            self.sums.end_row(row);
        }
        self.send_sums()
    }
}
