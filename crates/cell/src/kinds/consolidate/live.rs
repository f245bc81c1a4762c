//! Which frames of a chain hold something that a restore of its newest version would read, and how much of them.

use std::collections::HashMap;

use capstan_catalog::version::Overview;
use capstan_format::entry::Kind;
use capstan_format::id::StreamId;

use super::frames::{Frames, elsewhere};
use super::referred::Referred;
use crate::error::Result;
use crate::reading::version::VersionView;

/// Live bytes are counted in units of this many, rounded up: two bytes for each frame.
const UNIT: u64 = 256;
/// Stands for a frame that was passed on.
const PASSED: u16 = u16::MAX;
/// Frames that are counted side by side.
const RUN: u64 = 1024;

/// What is live of a frame that was passed on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Units(u16);

/// Live bytes of each frame.
#[derive(Default)]
pub(super) struct Live {
    /// By stream and run of frames: whatever numbers a medium says its frames have.
    units: HashMap<(StreamId, u64), Box<[u16; RUN as usize]>>,
    /// By stream and run those frames of which no index says where they end, ascending: what rows need of each, from its begin on.
    needed: HashMap<(StreamId, u64), Vec<(u16, u64)>>,
    /// The frame of each stream that was added to last: rows of a stream come in its order.
    current: HashMap<StreamId, (u64, u64)>,
    /// All rows, and those that are not replaced.
    rows: (u64, u64),
    /// Frames to which others refer: they are passed on, however little of them is live.
    referred: Referred,
}

impl Live {
    fn add(&mut self, stream: StreamId, sequence: u64, bytes: u64) {
        let current = self.current.entry(stream).or_insert((sequence, 0));
        if current.0 == sequence {
            current.1 += bytes;
            return;
        }
        let (before, counted) = std::mem::replace(current, (sequence, bytes));
        self.count(stream, before, counted);
    }

    fn count(&mut self, stream: StreamId, sequence: u64, bytes: u64) {
        let more = u16::try_from(bytes.div_ceil(UNIT)).unwrap_or(PASSED - 1);
        let units = self.of(stream, sequence);
        *units = units.saturating_add(more).min(PASSED - 1);
    }

    fn need(&mut self, stream: StreamId, sequence: u64, bytes: u64) {
        let run = self.needed.entry((stream, sequence / RUN)).or_default();
        let number = (sequence % RUN) as u16;
        match run.binary_search_by_key(&number, |of| of.0) {
            Ok(at) => run[at].1 = run[at].1.max(bytes),
            Err(at) => run.insert(at, (number, bytes)),
        }
    }

    /// How many bytes a frame must have at least, so that rows have all that they say is there. An index that a frame is missing from
    /// has what was in that one as if it were in the one before.
    pub fn must_have(&self, stream: StreamId, sequence: u64) -> u64 {
        let Some(run) = self.needed.get(&(stream, sequence / RUN)) else { return 0 };
        let number = (sequence % RUN) as u16;
        run.binary_search_by_key(&number, |of| of.0).map_or(0, |at| run[at].1)
    }

    fn close(&mut self) {
        for (stream, (sequence, bytes)) in std::mem::take(&mut self.current) {
            self.count(stream, sequence, bytes);
        }
    }

    fn of(&mut self, stream: StreamId, sequence: u64) -> &mut u16 {
        let run =
            self.units.entry((stream, sequence / RUN)).or_insert_with(|| [0; RUN as usize].into());
        &mut run[(sequence % RUN) as usize]
    }

    fn units(&self, stream: StreamId, sequence: u64) -> u16 {
        let run = self.units.get(&(stream, sequence / RUN));
        run.map_or(0, |run| run[(sequence % RUN) as usize])
    }

    /// Live bytes of a frame, to 256.
    pub fn bytes(&self, stream: StreamId, sequence: u64) -> u64 {
        u64::from(self.units(stream, sequence)) * UNIT
    }

    /// How many rows there are, and how many of them are not replaced by later ones.
    pub fn rows(&self) -> (u64, u64) {
        self.rows
    }

    /// Whether others than its own version's rows refer to a frame.
    pub fn is_referred_to(&self, stream: StreamId, sequence: u64) -> bool {
        self.referred.has(stream, sequence)
    }

    /// Whether any of a frame is live, and it was not passed on yet.
    pub fn is_wanted(&self, stream: StreamId, sequence: u64) -> bool {
        !matches!(self.units(stream, sequence), 0 | PASSED)
    }

    /// Notes that a frame was passed on whole. Returns what is live of it.
    pub fn pass(&mut self, stream: StreamId, sequence: u64) -> Units {
        Units(std::mem::replace(self.of(stream, sequence), PASSED))
    }

    /// Notes that a frame was not passed on after all.
    pub fn take_back(&mut self, stream: StreamId, sequence: u64, units: Units) {
        *self.of(stream, sequence) = units.0;
    }

    /// Whether a frame was passed on whole.
    pub fn is_passed(&self, stream: StreamId, sequence: u64) -> bool {
        self.units(stream, sequence) == PASSED
    }
}

/// Looks at all rows: which frames are live, beside those to which others refer.
pub(super) fn look(
    view: &VersionView<'_>,
    overview: &Overview,
    frames: &mut Frames<'_>,
    referred: Referred,
) -> Result<Live> {
    let mut live = Live { referred, ..Live::default() };
    view.all_rows(&mut |s, row| -> Result<()> {
        let e = &row.entry;
        let path = e.path();
        let counts = overview.is_first(s, &row) && !overview.is_replaced(&path, row.ordinal);
        live.rows.0 += 1;
        live.rows.1 += u64::from(counts);
        if counts && !e.link && matches!(e.kind, Kind::File | Kind::Part) {
            let end = row.start.saturating_add(e.logical_len()).min(s.logical_end);
            let own = (s.stream, row.start, end.saturating_sub(row.start));
            for (stream, from, len) in elsewhere(e).chain([own]).filter(|p| p.2 > 0) {
                // Of what no frame has, writing the rows says whose it is.
                frames.each(stream, from, len, &mut |frame, from, to| {
                    if let Some(frame) = frame {
                        live.add(stream, frame.sequence, to - from);
                        if let Some(bytes) = frame.must_have {
                            live.need(stream, frame.sequence, bytes);
                        }
                    }
                })?;
            }
        }
        Ok(())
    })?;
    live.close();
    Ok(live)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: StreamId = StreamId([1; 16]);

    #[test]
    fn bytes_of_a_frame_add_up_and_never_to_nothing() {
        let mut live = Live::default();
        (0..1000).for_each(|_| live.add(S, 3, 100));
        live.add(S, 4, 1);
        live.add(S, 5, 1 << 40);
        live.add(S, u64::MAX, 1);
        live.close();
        assert_eq!(live.bytes(S, 3), 100_096);
        assert_eq!(live.bytes(S, 4), UNIT);
        assert_eq!((live.bytes(S, 0), live.bytes(S, 99), live.bytes(S, u64::MAX)), (0, 0, UNIT));
        assert!(!live.is_passed(S, 5), "however much it is");
        assert!(live.is_wanted(S, 4) && !live.is_wanted(S, 0));
        [(9, 5), (7, 3), (9, 8), (9, 6)].into_iter().for_each(|(n, bytes)| live.need(S, n, bytes));
        let must_have = [4, 7, 9, RUN + 9].map(|n| live.must_have(S, n));
        assert_eq!(must_have, [0, 3, 8, 0]);
        let units = live.pass(S, 4);
        assert!(!live.is_wanted(S, 4));
        assert!(live.is_passed(S, 4) && !live.is_passed(S, 3));
        live.take_back(S, 4, units);
        assert_eq!((live.is_passed(S, 4), live.bytes(S, 4)), (false, UNIT));
    }
}
