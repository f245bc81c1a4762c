//! When a drive has done what: its buffer, its tape in motion, and whether it streams. Pure: time comes in and goes out.
//!
//! The host fills the buffer, the tape empties it at one of the drive's speeds (reading the other way round). The speed
//! follows the host, stepped up when the buffer is more than half full and down when it is less, so that between two
//! speeds the drive changes to and fro and never stops. A host that is slower than the lowest speed lets the buffer run
//! empty: the tape stops, is moved back, and starts again when the buffer is half full. That is a backhitch.

use capstan_medium::tape::Statistics;
use capstan_medium::tape::speeds::SETTLE_S;

use crate::model::DriveModel;

/// How often the speed is chosen anew, in seconds: an estimate.
const REVIEW_S: f64 = 0.25;
/// The share of the buffer at which a tape that stands is started: an estimate.
const START: f64 = 0.5;
/// Bytes of a rounding error, at least.
const NOTHING: f64 = 1e-3;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Work {
    None,
    Writing,
    Reading,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Motion {
    /// Since when, from when on it can start, whether it was stopped by the host, and whether that was late.
    Standing { since: f64, ready: f64, by_host: bool, late: bool },
    /// At which of its speeds.
    Moving(usize),
}

/// A drive's mechanics. Times are seconds of the drive's clock; they never go back.
#[derive(Debug)]
pub struct Mechanics {
    model: DriveModel,
    now: f64,
    work: Work,
    motion: Motion,
    /// Bytes at the medium that wait in the buffer.
    buffered: f64,
    /// All of it is to go to the tape.
    flushing: bool,
    /// Bytes between the begin of the tape and the head.
    position: f64,
    /// When the speed was chosen.
    reviewed: f64,
    /// What came from the host since when, and its rate before.
    window: (f64, f64),
    rate: Option<f64>,
    /// When the host's interface is free again.
    link_free: f64,
    statistics: Statistics,
}

impl Mechanics {
    /// A drive with a tape at its begin.
    pub fn new(model: &DriveModel) -> Self {
        Self {
            model: model.clone(),
            now: 0.0,
            work: Work::None,
            motion: Motion::Standing { since: 0.0, ready: 0.0, by_host: false, late: false },
            buffered: 0.0,
            flushing: false,
            position: 0.0,
            reviewed: 0.0,
            window: (0.0, 0.0),
            rate: None,
            link_free: 0.0,
            statistics: Statistics::default(),
        }
    }

    /// Bytes that are none: what the tape moves in the shortest time that the clock can tell, which grows with the clock.
    fn nothing(&self) -> f64 {
        NOTHING.max(4.0 * f64::EPSILON * self.now * self.model.native())
    }

    /// What it did so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// Bytes at the medium that a power cut would lose.
    pub fn unwritten(&self) -> f64 {
        if self.work == Work::Writing { self.buffered } else { 0.0 }
    }

    /// The host writes at `at`: so many bytes, of which that many come to the medium. Returns when the drive has taken them.
    pub fn write(&mut self, at: f64, host: usize, medium: f64) -> f64 {
        self.turn(at, Work::Writing);
        self.note_host(host, medium);
        let room = medium.min(self.model.buffer);
        while self.buffered + room > self.model.buffer + self.nothing() {
            let excess = self.buffered + room - self.model.buffer;
            let speed = self.moving();
            self.advance(self.now + excess / speed + 1e-9);
        }
        self.buffered += medium;
        self.through_link(host)
    }

    /// The host reads at `at`. Returns when it has the bytes.
    pub fn read(&mut self, at: f64, host: usize, medium: f64) -> f64 {
        self.turn(at, Work::Reading);
        self.note_host(host, medium);
        let need = medium.min(self.model.buffer);
        while self.buffered + self.nothing() < need {
            let missing = need - self.buffered;
            let speed = self.moving();
            self.advance(self.now + missing / speed + 1e-9);
        }
        self.buffered = (self.buffered - medium).max(0.0);
        self.through_link(host)
    }

    /// All that was written goes to the tape. Returns when it is there; then the tape stands.
    pub fn flush(&mut self, at: f64) -> f64 {
        self.advance(at);
        if self.work == Work::Writing {
            self.flushing = true;
            while self.buffered > self.nothing() {
                let speed = self.moving();
                self.advance(self.now + self.buffered / speed + 1e-9);
            }
            // A rounding error is no byte that a power cut could lose.
            self.buffered = 0.0;
            if matches!(self.motion, Motion::Moving(_)) {
                self.stop();
            }
            self.flushing = false;
        }
        self.now
    }

    /// Goes to a place, so many bytes from the begin of the tape. Returns when it is there.
    pub fn locate(&mut self, at: f64, to: f64) -> f64 {
        self.flush(at);
        // Reading ahead has left the head further on than the host is; it is there that the way begins.
        let seconds = self.way(self.position, to);
        self.statistics.passes += (self.along(to) - self.along(self.position)).abs();
        self.position = to;
        self.stand_until(self.now + seconds)
    }

    /// Erases so many bytes' length of the tape from its begin, and rewinds. Returns when that is done.
    pub fn erase(&mut self, at: f64, bytes: f64) -> f64 {
        self.locate(at, 0.0);
        let seconds = bytes / self.model.native();
        self.statistics.moving_s += seconds;
        self.statistics.medium_bytes += bytes;
        self.statistics.passes += bytes / self.wrap();
        self.position = bytes;
        self.stand_until(self.now + seconds);
        self.locate(self.now, 0.0)
    }

    /// Takes a tape in. Returns when it can be used.
    pub fn load(&mut self, at: f64) -> f64 {
        self.flush(at);
        self.position = 0.0;
        self.stand_until(self.now + self.model.load_s)
    }

    /// Rewinds and gives the tape out. Returns when it is out.
    pub fn unload(&mut self, at: f64) -> f64 {
        self.locate(at, 0.0);
        self.stand_until(self.now + self.model.unload_s)
    }

    /// Nothing is under way until then.
    fn stand_until(&mut self, then: f64) -> f64 {
        self.now = then;
        self.work = Work::None;
        self.buffered = 0.0;
        self.motion = Motion::Standing { since: then, ready: then, by_host: false, late: false };
        then
    }

    /// Lets time pass until `at`, and begins this work if it was another.
    fn turn(&mut self, at: f64, work: Work) {
        if self.work == work {
            return self.advance(at);
        }
        let was = self.work;
        self.flush(at);
        // Turning round is a stop like any other, but the host's wish.
        let ready = if was == Work::None { self.now } else { self.now + self.model.backhitch_s };
        self.motion = Motion::Standing { since: self.now, ready, by_host: false, late: false };
        self.buffered = 0.0;
        self.work = work;
        self.window = (self.now, 0.0);
        self.rate = None;
    }

    fn through_link(&mut self, host: usize) -> f64 {
        self.statistics.host_bytes += host as u64;
        let begun = self.now.max(self.link_free);
        self.link_free = match self.model.host_max {
            Some(most) => begun + host as f64 / most,
            None => begun,
        };
        self.link_free
    }

    /// How fast the host is, over the last second.
    fn note_host(&mut self, _host: usize, medium: f64) {
        let (since, bytes) = self.window;
        if self.now - since >= 1.0 {
            let rate = bytes / (self.now - since);
            self.rate = Some(self.rate.map_or(rate, |before| (before + rate) / 2.0));
            self.window = (self.now, medium);
        } else {
            self.window.1 = bytes + medium;
        }
    }

    fn host_rate(&self) -> f64 {
        self.rate.unwrap_or_else(|| {
            let (since, bytes) = self.window;
            if self.now > since { bytes / (self.now - since) } else { f64::INFINITY }
        })
    }

    /// Starts the tape if it stands, however little there is to do; returns its speed.
    fn moving(&mut self) -> f64 {
        if let Motion::Standing { ready, .. } = self.motion {
            self.now = self.now.max(ready);
            self.start();
        }
        match self.motion {
            Motion::Moving(speed) => self.model.speeds[speed],
            // It was started just now.
            Motion::Standing { .. } => self.model.native(),
        }
    }

    fn start(&mut self) {
        if let Motion::Standing { since, by_host: true, late, .. } = self.motion {
            self.statistics.backhitches += 1;
            if late {
                self.statistics.late_backhitches += 1;
                self.statistics.late_s += self.model.backhitch_s;
            }
            self.statistics.standing_s += self.now - since;
            // Back and forth again over what was passed already.
            self.statistics.passes += self.model.backhitch_s / self.end_to_end_s();
        }
        self.motion = Motion::Moving(self.fitting());
        self.reviewed = self.now;
    }

    fn stop(&mut self) {
        let ready = self.now + self.model.backhitch_s;
        let (since, late) = (self.now, !self.flushing);
        self.motion = Motion::Standing { since, ready, by_host: true, late };
    }

    /// The speed for the host's rate and what is in the buffer.
    fn fitting(&self) -> usize {
        let last = self.model.speeds.len().saturating_sub(1);
        if self.flushing {
            return last;
        }
        // A host that waits for the tape is as fast as the tape; a little more, so that rounding keeps nobody down.
        let rate = self.host_rate() * 1.01;
        let fit = self.model.speeds.partition_point(|s| *s <= rate).saturating_sub(1);
        let half = self.buffered > self.model.buffer / 2.0;
        let behind = if self.work == Work::Reading { !half } else { half };
        (fit + usize::from(behind)).min(last)
    }

    /// Lets time pass.
    fn advance(&mut self, to: f64) {
        while self.now < to {
            match self.motion {
                Motion::Standing { ready, .. } => {
                    let half = self.model.buffer * START;
                    let wanted = match self.work {
                        Work::None => false,
                        Work::Writing => self.buffered >= half,
                        Work::Reading => self.buffered <= half,
                    };
                    if wanted && ready < to {
                        self.now = self.now.max(ready);
                        self.start();
                    } else {
                        self.now = to;
                    }
                }
                Motion::Moving(speed) => self.move_until(to, speed),
            }
        }
    }

    /// Moves until then, or until something happens before.
    fn move_until(&mut self, to: f64, speed: usize) {
        let rate = self.model.speeds[speed];
        let left = match self.work {
            Work::Reading => self.model.buffer - self.buffered,
            _ => self.buffered,
        };
        if left <= self.nothing() {
            return self.stop();
        }
        let review = self.reviewed + REVIEW_S;
        let then = to.min(review.max(self.now)).min(self.now + left / rate);
        let seconds = then - self.now;
        let bytes = rate * seconds;
        self.buffered += if self.work == Work::Reading { bytes } else { -bytes };
        self.buffered = self.buffered.clamp(0.0, self.buffered.max(self.model.buffer));
        self.position += bytes;
        self.statistics.medium_bytes += bytes;
        self.statistics.moving_s += seconds;
        self.statistics.passes += bytes / self.wrap();
        self.now = then;
        if self.now >= review {
            self.reviewed = self.now;
            self.motion = Motion::Moving(self.fitting());
        }
    }

    /// Bytes of one end-to-end pass.
    fn wrap(&self) -> f64 {
        self.model.capacity / f64::from(self.model.wraps)
    }

    /// Where along the tape a place is, from 0 to 1: every other pass goes back.
    fn along(&self, place: f64) -> f64 {
        let passes = place / self.wrap();
        let within = passes.fract();
        if passes.floor() % 2.0 == 0.0 { within } else { 1.0 - within }
    }

    /// Seconds from one end of the tape to the other: the average locate from the begin goes half of it.
    fn end_to_end_s(&self) -> f64 {
        (2.0 * (self.model.locate_s - SETTLE_S)).max(1.0)
    }

    /// Seconds from place to place.
    fn way(&self, from: f64, to: f64) -> f64 {
        if (from - to).abs() < 1.0 {
            return 0.0;
        }
        let full = match to < 1.0 {
            true => (2.0 * (self.model.rewind_s - SETTLE_S)).max(1.0),
            false => self.end_to_end_s(),
        };
        let wound = SETTLE_S + (self.along(to) - self.along(from)).abs() * full;
        // What lies just ahead is reached by reading on.
        let read = (to - from) / self.model.native();
        if read > 0.0 { wound.min(read) } else { wound }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BLOCK: usize = 1 << 20;

    fn model(name: &str) -> &'static DriveModel {
        DriveModel::named(name).unwrap()
    }

    /// A host that brings `total` bytes at `rate`, if the drive lets it. Returns what the drive did, and when it had all.
    fn written(model: &DriveModel, rate: f64, total: usize) -> (Statistics, f64) {
        let mut m = Mechanics::new(model);
        let mut at = 0.0;
        for _ in 0..total / BLOCK {
            // The next block is made while the drive takes this one.
            let ready = at + BLOCK as f64 / rate;
            at = m.write(at, BLOCK, BLOCK as f64).max(ready);
        }
        let end = m.flush(at);
        (m.statistics(), end)
    }

    #[test]
    fn a_fast_host_makes_the_tape_stream_at_its_native_rate() {
        for name in DriveModel::names() {
            let model = model(name);
            let total = (model.native() * 120.0) as usize / BLOCK * BLOCK;
            let (s, end) = written(model, 1e9, total.max(64 << 20));
            assert_eq!(s.backhitches, 0, "{name}: {s:?}");
            assert_eq!(s.streaming(), Some(1.0), "{name}");
            let rate = s.medium_rate().unwrap();
            assert!(rate > 0.97 * model.native(), "{name}: {rate} of {}", model.native());
            assert!((s.medium_bytes - s.host_bytes as f64).abs() < 1.0, "{name}: {s:?}");
            assert!(end >= s.host_bytes as f64 / model.native(), "{name}: {end}");
        }
    }

    #[test]
    fn a_clock_that_is_far_on_still_moves_the_tape() {
        let mut m = Mechanics::new(model("lto-9"));
        for at in [1e7, 1e9, 1e12] {
            let mut now = at;
            for block in 0..100 {
                now = m.write(now, 300_001, 300_001.0 / 1.7);
                if block % 7 == 0 {
                    now = m.flush(now);
                }
            }
            assert!(now > at && m.flush(now).is_finite());
        }
    }

    #[test]
    fn a_drive_matches_its_speed_to_the_host() {
        let model = model("lto-9");
        for rate in [180e6, 210e6, 300e6, 400e6] {
            let (s, end) = written(model, rate, 40_000 << 20);
            assert_eq!(s.backhitches, 0, "{rate}: {s:?}");
            let took = s.host_bytes as f64 / end;
            assert!((0.95 * rate..=rate).contains(&took), "{rate}: {took}");
        }
    }

    #[test]
    fn a_slow_host_makes_it_go_back_and_forth() {
        let model = model("lto-9");
        let (s, _) = written(model, 0.5 * model.speeds[0], 20_000 << 20);
        // A buffer of 1 GiB, half of it at a time while as much comes: some 1.07 GB between stops.
        assert!((15..=25).contains(&s.backhitches), "{s:?}");
        assert_eq!(s.late_backhitches, s.backhitches, "{s:?}");
        assert_eq!(s.late_s, 3.0 * s.backhitches as f64, "{s:?}");
        assert!(s.streaming().unwrap() < 0.6, "{s:?}");
        let (helical, _) = written(super::tests::model("exabyte-8mm"), 0.2e6, 40 << 20);
        assert!(helical.backhitches > 0 && helical.medium_rate().unwrap() > 0.15e6, "{helical:?}");
        // One speed alone cannot be matched.
        let dlt = super::tests::model("dlt-7000");
        let (s, end) = written(dlt, 0.9 * dlt.native(), 1_000 << 20);
        assert!(s.backhitches > 3, "{s:?}");
        assert!(s.host_bytes as f64 / end < 0.9 * dlt.native(), "{s:?}, {end}");
    }

    #[test]
    fn reading_streams_and_stops_as_writing_does() {
        let model = model("lto-9");
        let read = |rate: f64, total: usize| {
            let mut m = Mechanics::new(model);
            let mut at = 0.0;
            for _ in 0..total / BLOCK {
                at = m.read(at, BLOCK, BLOCK as f64) + BLOCK as f64 / rate;
            }
            (m.statistics(), at)
        };
        let (fast, end) = read(1e12, 40_000 << 20);
        assert_eq!(fast.backhitches, 0, "{fast:?}");
        let rate = fast.host_bytes as f64 / end;
        assert!((0.97 * model.native()..=model.native()).contains(&rate), "{rate}");
        let (slow, _) = read(0.5 * model.speeds[0], 20_000 << 20);
        assert!((10..=25).contains(&slow.backhitches), "{slow:?}");
    }

    #[test]
    fn a_locate_takes_its_time_and_a_commit_stops_the_tape() {
        let model = model("lto-9");
        let mut m = Mechanics::new(model);
        let loaded = m.load(0.0);
        assert_eq!(loaded, 16.0);
        // Half-way along the tape, in any pass.
        let half = model.capacity / 280.0 * 100.5;
        let there = m.locate(loaded, half) - loaded;
        assert!((there - model.locate_s).abs() < 0.1, "{there}");
        let back = m.locate(m.now, 0.0) - loaded - there;
        assert!((back - model.rewind_s).abs() < 0.1, "{back}");
        assert_eq!(m.statistics().backhitches, 0);
        let at = m.write(m.now, BLOCK, BLOCK as f64);
        let at = m.flush(at);
        let at = m.write(at, BLOCK, BLOCK as f64);
        m.flush(at);
        assert_eq!(m.statistics().backhitches, 1, "what is committed has stopped the tape");
        assert_eq!(m.statistics().late_backhitches, 0, "nobody was late");
    }

    proptest! {
        #[test]
        fn time_never_goes_back_and_bytes_are_never_lost(
            steps in proptest::collection::vec((0_u8..6, 0.0_f64..20.0, 1_usize..4_000_000), 1..60),
            name in proptest::sample::select(DriveModel::names()),
        ) {
            let model = model(name);
            let mut m = Mechanics::new(model);
            let (mut at, mut written) = (0.0_f64, 0.0);
            for (what, pause, bytes) in steps {
                let asked = at + pause;
                at = match what {
                    0..=2 => {
                        written += bytes as f64;
                        m.write(asked, bytes, bytes as f64)
                    }
                    3 => m.read(asked, bytes, bytes as f64),
                    4 => m.flush(asked),
                    _ => m.locate(asked, bytes as f64 * 1000.0),
                };
                prop_assert!(at >= asked && at.is_finite());
                prop_assert!(m.buffered >= 0.0 && m.unwritten() <= m.buffered);
            }
            m.flush(at);
            let s = m.statistics();
            prop_assert!(s.medium_bytes + 1.0 >= written, "{s:?} of {written}");
            prop_assert!(s.streaming().is_none_or(|share| (0.0..=1.0).contains(&share)));
        }
    }
}
