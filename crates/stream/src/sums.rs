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

    /// Rows of a batch that promise no data, and the checksums of their files' contents.
    pub fn whole(&mut self, batch: u64, whole: Vec<(u32, u64)>) {
        if self.on && !whole.is_empty() {
            self.ready.push(Sums { batch, whole, ..Sums::default() });
        }
    }

    /// No more of this row comes in this segment.
    fn end_row(&mut self, row: &Pending) {
        let sum = Some(self.sum.take()).filter(|_| !std::mem::take(&mut self.filled));
        match self.ready.last_mut() {
            Some(last) if last.batch == row.batch => last.sums.push(sum),
            _ => self.ready.push(Sums { batch: row.batch, sums: vec![sum], ..Sums::default() }),
        }
    }
}

impl StreamWriter<'_> {
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    use capstan_engine::buffer::Buffer;
    use capstan_engine::link::{BlockPort, FilledBlock, Grant, LinkClosed, SegmentOrdinal};
    use capstan_engine::meter::Meters;
    use capstan_format::entry::Entry;
    use capstan_format::id::StreamId;

    use crate::owners::OwnerNames;
    use capstan_wire::compression::Compression;

    use crate::StreamWriter;
    use crate::choice::CompressionChoice;
    use crate::options::StreamOptions;
    use capstan_engine::ladder::Ladder;

    const BLOCK: usize = 64 << 10;

    /// A media agent of one segment that never ends.
    #[derive(Default)]
    struct Endless {
        more: AtomicU64,
        blocks: AtomicU64,
    }

    impl BlockPort for Endless {
        fn block_size(&self) -> usize {
            BLOCK
        }
        fn open_stream(&self, _: StreamId) {}
        fn grant(&self, _: StreamId) -> Result<Grant, LinkClosed> {
            Ok(Grant { buffer: Buffer::new(BLOCK), segment: SegmentOrdinal(0), last: false })
        }
        fn grant_more(&self, _: StreamId, segment: SegmentOrdinal) -> Result<Grant, LinkClosed> {
            self.more.fetch_add(1, Relaxed);
            Ok(Grant { buffer: Buffer::new(BLOCK), segment, last: true })
        }
        fn submit(&self, block: FilledBlock) -> Result<(), LinkClosed> {
            assert!(!block.ends_segment, "the stream leaves a segment that is not to end");
            self.blocks.fetch_add(1, Relaxed);
            Ok(())
        }
        fn give_back(&self, _: StreamId, _: Grant) {}
        fn is_closing(&self, _: StreamId, _: SegmentOrdinal) -> bool {
            false
        }
        fn is_closed(&self) -> bool {
            false
        }
        fn leave_segment(&self, _: StreamId, _: SegmentOrdinal) {}
        fn close_stream(&self, _: StreamId) -> Result<(), LinkClosed> {
            Ok(())
        }
    }

    /// A stream that left a segment by itself would wait for the others, and they for it.
    #[test]
    fn checksums_never_end_a_segment() {
        let port = Arc::new(Endless::default());
        let options = StreamOptions {
            stream: StreamId([1; 16]),
            label: b"{}".to_vec(),
            names: b"{}".to_vec(),
            sealers: None,
            crc: true,
            choice: CompressionChoice::new(Compression::Off, Arc::new(Ladder::default())),
        };
        let owners = Arc::new(OwnerNames::default());
        let mut writer =
            StreamWriter::open(port.clone(), Arc::new(Meters::default()), owners, options);
        // Each batch, with its checksums, ends somewhere else in its block.
        for n in 0..20_000_u64 {
            let size = 1 + n * 2_654_435_761 % 60_000;
            let name = format!("{n}").into_bytes();
            writer.rows(vec![Entry { name, size, ..Entry::default() }]).unwrap();
            let mut left = size as usize;
            while left > 0 {
                let space = writer.space().unwrap();
                let here = left.min(space.len());
                space[..here].fill(n as u8);
                writer.advance(here).unwrap();
                left -= here;
            }
        }
        assert_eq!(port.more.load(Relaxed), 0, "blocks behind the last");
        assert!(port.blocks.load(Relaxed) > 5_000);
    }
}
