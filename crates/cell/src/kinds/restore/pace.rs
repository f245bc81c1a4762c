//! Restores that go together: what they read of a tape they read in its order, while it passes by once.

use std::collections::HashSet;

use capstan_format::id::{MediumId, SegmentNumber};
use capstan_medium::host::DeviceHost;
use capstan_medium::tape::DriveSession;
use parking_lot::{Condvar, Mutex};

/// Where restores are that go together.
pub(super) struct Pace {
    state: Mutex<State>,
    moved: Condvar,
}

/// A tape by the time at which it was begun: in that order all read their tapes.
pub(super) type Station = (Option<i64>, MediumId);

struct State {
    /// The tape and the segment that each prepares to read (`false`), or reads; before the first at the begin, and none when it reads no
    /// tape.
    at: Vec<Option<(Option<Station>, SegmentNumber, bool)>>,
    /// Those that have read all they need.
    done: HashSet<usize>,
    /// What the drives did, when all have.
    drives: Option<Vec<DriveSession>>,
}

impl Pace {
    /// Of so many restores.
    pub fn of(restores: usize) -> Self {
        let state = State {
            at: vec![Some((None, SegmentNumber(0), false)); restores],
            done: HashSet::new(),
            drives: None,
        };
        Self { state: Mutex::new(state), moved: Condvar::new() }
    }

    /// The `number`th of them, from 0.
    pub fn turn(&self, number: usize) -> Turn<'_> {
        Turn { pace: self, number }
    }
}

/// One of several restores that go together.
pub(super) struct Turn<'a> {
    pace: &'a Pace,
    number: usize,
}

impl Turn<'_> {
    /// Comes to a segment of a tape to prepare what it reads there; waits while others read, or may read, what lies before it.
    pub fn come(&self, tape: Station, segment: SegmentNumber) {
        self.go(tape, segment, false);
    }

    /// Begins to read the segment; waits while others prepare to.
    pub fn begin(&self, tape: Station, segment: SegmentNumber) {
        self.go(tape, segment, true);
    }

    fn go(&self, tape: Station, segment: SegmentNumber, reads: bool) {
        let mut state = self.pace.state.lock();
        let here = (Some(tape), segment, reads);
        state.at[self.number] = Some(here);
        self.pace.moved.notify_all();
        // Who is first waits for nobody, so somebody always goes on.
        while state.at.iter().flatten().any(|there| *there < here) {
            self.pace.moved.wait(&mut state);
        }
    }

    /// Reads no more of a tape. Whether all others have come behind it as well, as far as they read tapes now.
    pub fn is_last_on(&self, tape: Station) -> bool {
        let mut state = self.pace.state.lock();
        let behind = (Some(tape), SegmentNumber(u32::MAX), true);
        state.at[self.number] = Some(behind);
        self.pace.moved.notify_all();
        state.at.iter().flatten().all(|there| *there >= behind)
    }

    /// Reads no tape for now.
    pub fn leave(&self) {
        self.pace.state.lock().at[self.number] = None;
        self.pace.moved.notify_all();
    }

    /// Has read all it needs; what the drives did, when all have. True for one of them, which sees to the drives.
    pub fn drives(&self, devices: &dyn DeviceHost) -> (Vec<DriveSession>, bool) {
        self.end();
        let mut state = self.pace.state.lock();
        while state.done.len() < state.at.len() {
            self.pace.moved.wait(&mut state);
        }
        let is_first = state.drives.is_none();
        (state.drives.get_or_insert_with(|| devices.take_sessions()).clone(), is_first)
    }

    fn end(&self) {
        let mut state = self.pace.state.lock();
        state.at[self.number] = None;
        state.done.insert(self.number);
        self.pace.moved.notify_all();
    }
}

impl Drop for Turn<'_> {
    /// One that failed is waited for no more.
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn station(n: u8) -> Station {
        (Some(n.into()), MediumId([9 - n; 16]))
    }

    #[test]
    fn who_comes_first_to_a_later_tape_waits_for_who_needs_an_earlier_one() {
        let pace = Pace::of(2);
        let [a, b] = [0, 1].map(|number| pace.turn(number));
        std::thread::scope(|scope| {
            let ahead = scope.spawn(|| a.come(station(3), SegmentNumber(1)));
            std::thread::sleep(Duration::from_millis(50));
            for tape in [1, 2].map(station) {
                b.come(tape, SegmentNumber(1));
                assert!(b.is_last_on(tape), "the other one reads none before its first");
            }
            assert!(!ahead.is_finished());
            b.come(station(3), SegmentNumber(1));
            ahead.join().unwrap();
            assert!(!a.is_last_on(station(3)), "another one reads it");
        });
    }

    #[test]
    fn nobody_reads_on_while_another_needs_what_lies_before() {
        let [tape, next] = [1, 2].map(station);
        let pace = Pace::of(3);
        let [a, b, c] = [0, 1, 2].map(|number| pace.turn(number));
        c.leave();
        std::thread::scope(|scope| {
            let ahead = scope.spawn(|| a.come(tape, SegmentNumber(1)));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!ahead.is_finished(), "another may need the tape's begin");
            b.come(tape, SegmentNumber(1));
            ahead.join().unwrap();
            let ahead = scope.spawn(|| {
                a.come(tape, SegmentNumber(2));
                a.come(next, SegmentNumber(1));
            });
            std::thread::sleep(Duration::from_millis(50));
            assert!(!ahead.is_finished());
            // It needs nothing of the second segment, and is last on the first tape.
            b.come(tape, SegmentNumber(3));
            std::thread::sleep(Duration::from_millis(50));
            assert!(!ahead.is_finished(), "a tape is not changed while another reads it");
            drop(b);
            ahead.join().unwrap();
        });
    }

    #[test]
    fn the_last_one_that_is_done_with_a_tape_says_so() {
        let tape = station(1);
        let pace = Pace::of(3);
        let [a, b, c] = [0, 1, 2].map(|number| pace.turn(number));
        c.leave();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| a.come(tape, SegmentNumber(1)));
            b.come(tape, SegmentNumber(1));
            first.join().unwrap();
        });
        assert!(!a.is_last_on(tape), "another one reads it");
        assert!(b.is_last_on(tape));
    }

    #[test]
    fn nobody_reads_a_segment_while_another_prepares_to() {
        let (tape, segment) = (station(1), SegmentNumber(1));
        let pace = Pace::of(2);
        let [a, b] = [0, 1].map(|number| pace.turn(number));
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                a.come(tape, segment);
                a.begin(tape, segment);
            });
            b.come(tape, segment);
            std::thread::sleep(Duration::from_millis(50));
            assert!(!first.is_finished(), "what it reads may lie behind what the other one needs");
            b.begin(tape, segment);
            first.join().unwrap();
        });
    }
}
