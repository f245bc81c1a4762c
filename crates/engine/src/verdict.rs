//! The verdict: which stage limited a session, for what share of its time, and what would help.

use std::time::Duration;

use crate::meter::{Meters, Reading, Stage};

/// Stages that the streams' threads do in turn.
const IN_STREAMS: [Stage; 4] = [Stage::Source, Stage::Metadata, Stage::Cpu, Stage::Network];
/// Less than so many seconds tell nothing.
const TELLING_S: f64 = 1.0;
/// The share of the time from which on backhitches limit, too.
const BACKHITCHES: f64 = 0.02;

/// How many threads may be busy at once in a stage; shares are of that many times the elapsed time.
#[derive(Debug, Clone, Copy)]
pub struct Lanes {
    /// Streams: they read, compress and build blocks.
    pub streams: u32,
    /// Processors.
    pub processors: u32,
}

/// Watches the meters over a session. Sampled a few times a second, it counts for each interval which stage was limiting.
///
/// Times are told from outside, since the session began to be watched, so that a test needs no clock.
pub struct Watch {
    last: [Reading; Stage::ALL.len()],
    last_at: Duration,
    /// What was waited for hands and robots, and what of it was before the watch.
    waited: Duration,
    before: Duration,
    limited: [Duration; Stage::ALL.len()],
    /// What limited in the last interval in which anything was measured.
    latest: Stage,
    lanes: Lanes,
}

/// What limited a session.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// The stage that limited most of the time.
    pub stage: Stage,
    /// The share of the time in which it did, 0 to 1; with backhitches, in which it or these did.
    pub share: f64,
    /// Seconds that this rests on.
    pub seconds: f64,
    /// The share of the time that a drive's backhitches took, where they limited beside the stage.
    pub backhitches: Option<f64>,
    /// Most of what was waited for was what other sessions had.
    pub for_others: bool,
    /// What the streams were busy with most, and the share in which that or the device limited.
    fed: (Stage, f64),
}

impl Watch {
    /// Starts watching. For `before` the session waited for hands or robots already.
    pub fn start(meters: &Meters, lanes: Lanes, before: Duration) -> Self {
        let mut limited = [Duration::ZERO; Stage::ALL.len()];
        limited[Stage::MediaChange as usize] = before;
        meters.of(Stage::MediaChange).busy(before);
        Self {
            last: meters.read(),
            last_at: Duration::ZERO,
            waited: Duration::ZERO,
            before,
            limited,
            latest: Stage::Source,
            lanes,
        }
    }

    /// Ends an interval at `now`; returns the stage that limited it. For `waited` of the time since the start something was waited for
    /// that hands or robots were to do.
    pub fn sample(&mut self, meters: &Meters, now: Duration, waited: Duration) -> Stage {
        let time = now.saturating_sub(self.last_at);
        let change = waited.saturating_sub(self.waited);
        if change > Duration::ZERO {
            self.waited = waited;
            meters.of(Stage::MediaChange).busy(change);
        }
        let reading = meters.read();
        if change > time / 2 {
            self.latest = Stage::MediaChange;
        } else if reading.iter().zip(&self.last).any(|(r, last)| r.busy > last.busy) {
            self.latest = limiting(&self.last, &reading, time, self.lanes);
        } else {
            // Where nothing was measured yet (long steps are counted at their end), the interval goes on.
            return self.latest;
        }
        self.limited[self.latest as usize] += time;
        (self.last, self.last_at) = (reading, now);
        self.latest
    }

    /// The verdict so far.
    pub fn verdict(&self) -> Verdict {
        let seconds = (self.before + self.last_at).as_secs_f64();
        let share = |s: Stage| self.limited[s as usize].as_secs_f64() / seconds.max(1e-9);
        let most = |of: &[Stage], by: &dyn Fn(Stage) -> Duration| {
            // The first of equals.
            of.iter().copied().rev().max_by_key(|s| by(*s)).unwrap_or(Stage::Source)
        };
        let stage = most(&Stage::ALL, &|s| self.limited[s as usize]);
        let feeds = most(&IN_STREAMS, &|s| self.last[s as usize].busy);
        let fed = (feeds, share(feeds) + share(Stage::Device));
        Verdict { stage, share: share(stage), seconds, backhitches: None, for_others: false, fed }
    }
}

impl Verdict {
    /// Whether the session was too short for a verdict.
    pub fn is_too_short(&self) -> bool {
        self.seconds < TELLING_S
    }

    /// The same with what is known of a drive: for so many seconds it stopped and went back because the streams did not feed it, or did
    /// not take what it read, as fast as its lowest speed.
    pub fn with_backhitches(mut self, seconds: f64) -> Self {
        let share = seconds / self.seconds.max(1e-9);
        let (feeds, fed) = self.fed;
        if share >= BACKHITCHES && (self.stage == Stage::Device || self.stage == feeds) {
            self.stage = feeds;
            self.share = fed.min(1.0);
            self.backhitches = Some(share.min(1.0));
        }
        self
    }
}

/// The stage that limited an interval: the one nearest to having no time left. The device is one lane; the streams'
/// threads do source, metadata and CPU in turn, and the one they spend most of their time in limits them.
fn limiting(before: &[Reading], after: &[Reading], time: Duration, lanes: Lanes) -> Stage {
    let busy =
        |s: Stage| after[s as usize].busy.saturating_sub(before[s as usize].busy).as_secs_f64();
    let time = time.as_secs_f64().max(1e-9);
    let device = busy(Stage::Device) / time;
    let cell = busy(Stage::Cell) / time;
    let streams = f64::from(lanes.streams.min(lanes.processors).max(1));
    let of_streams = IN_STREAMS.iter().map(|s| busy(*s)).sum::<f64>() / time / streams;
    // A device that is busy nearly always limits, whatever the others do while they wait for it.
    if device >= 0.85 || device > of_streams && device >= cell {
        return Stage::Device;
    }
    if cell > of_streams {
        return Stage::Cell;
    }
    // The first of equals.
    IN_STREAMS
        .into_iter()
        .rev()
        .max_by(|a, b| busy(*a).total_cmp(&busy(*b)))
        .unwrap_or(Stage::Source)
}

/// Which way data flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// From files to a device.
    Backup,
    /// From a device to files, or to nowhere to be checked.
    Restore,
    /// From media to media.
    Media,
}

impl Verdict {
    /// What limited, as reports call it.
    pub fn name(&self) -> &'static str {
        match self.stage {
            Stage::MediaChange if self.for_others => "other sessions",
            stage => stage.name(),
        }
    }

    /// What an administrator could do about it.
    pub fn advice(&self, flow: Flow) -> &'static str {
        if self.is_too_short() {
            return "the session was too short to tell what limited it";
        }
        if self.backhitches.is_some() {
            return match flow {
                Flow::Restore => {
                    "files are written more slowly than the drive can read without stopping, so that it stops and goes back; \
                     restore --spool DIR, or a larger one, lets it read in bursts"
                }
                Flow::Backup | Flow::Media => {
                    "it gives less than the drive can take without stopping, so that it stops and goes back; a spool before it \
                     (?spool=DIR behind the device's name), or a larger one, lets it write in bursts"
                }
            };
        }
        match self.stage {
            Stage::MediaChange if self.for_others => {
                "another session had the drive or the medium; more drives, or beginning at another time, would help"
            }
            Stage::MediaChange => {
                "hands or robots that bring media are waited for; more drives, or the media in the library beforehand, would help"
            }
            Stage::Source if flow == Flow::Restore => {
                "the disk restored to takes files as fast as it can; a faster disk, or restoring less, would help"
            }
            Stage::Metadata if flow == Flow::Restore => {
                "making files and setting their metadata limits; a faster disk or file system would help"
            }
            Stage::Cpu if flow == Flow::Restore => {
                "the processors limit: decompressing, decrypting, checking; fewer other jobs or more cores would help"
            }
            Stage::Device if flow == Flow::Restore => {
                "the device gives data as fast as it can; a faster device would help"
            }
            Stage::Source if flow == Flow::Media => {
                "the medium that is read gives data as fast as it can; a faster device would help"
            }
            Stage::Cpu if flow == Flow::Media => {
                "the processors limit: decrypting, decompressing and making frames anew; fewer other jobs would help"
            }
            Stage::Device if flow == Flow::Media => {
                "the medium that is written takes data as fast as it can; a faster device would help"
            }
            Stage::Source => {
                "the source is read as fast as it gives; faster disks, fewer fragments or backing up at a quieter \
                 time would help"
            }
            Stage::Metadata => {
                "opening files and reading their metadata limits; excluding caches of small files, or backing up the \
                 raw disk, would help"
            }
            Stage::Cpu => {
                "the processors limit; --compress lz4 or off, fewer other jobs or more cores would help"
            }
            Stage::Network => "the network limits; a faster link or compression would help",
            Stage::Device => {
                "the device takes data as fast as it can; a faster device, several devices or stronger compression \
                 would help"
            }
            Stage::Cell => "the internal database limits; put CAPSTAN_HOME on a faster disk",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Lanes = Lanes { streams: 2, processors: 2 };

    fn verdict_of(work: impl Fn(&Meters)) -> Stage {
        let meters = Meters::default();
        let mut watch = Watch::start(&meters, TWO, Duration::ZERO);
        work(&meters);
        watch.sample(&meters, Duration::from_secs(1), Duration::ZERO);
        let verdict = watch.verdict();
        assert!(verdict.share > 0.9);
        verdict.stage
    }

    #[test]
    fn the_busiest_stage_is_named() {
        let ms = Duration::from_millis;
        assert_eq!(
            verdict_of(|m| {
                m.of(Stage::Source).busy(ms(1700));
                m.of(Stage::Cpu).busy(ms(200));
                m.of(Stage::Device).busy(ms(200));
            }),
            Stage::Source
        );
        assert_eq!(
            verdict_of(|m| {
                m.of(Stage::Source).busy(ms(300));
                m.of(Stage::Cpu).busy(ms(1600));
                m.of(Stage::Device).busy(ms(200));
            }),
            Stage::Cpu
        );
        assert_eq!(
            verdict_of(|m| {
                m.of(Stage::Source).busy(ms(300));
                m.of(Stage::Cpu).busy(ms(300));
                m.of(Stage::Device).busy(ms(950));
            }),
            Stage::Device
        );
    }
    #[test]
    fn an_interval_without_measures_belongs_to_the_next() {
        let meters = Meters::default();
        let mut watch = Watch::start(&meters, TWO, Duration::ZERO);
        watch.sample(&meters, Duration::from_secs(10), Duration::ZERO);
        meters.of(Stage::Device).busy(Duration::from_secs(9));
        watch.sample(&meters, Duration::from_millis(10_200), Duration::ZERO);
        let verdict = watch.verdict();
        assert_eq!((verdict.stage, verdict.share > 0.9), (Stage::Device, true));
    }

    #[test]
    fn what_is_waited_for_is_a_stage_of_its_own() {
        let meters = Meters::default();
        let s = Duration::from_secs;
        let mut watch = Watch::start(&meters, TWO, s(3));
        for at in 1..=7 {
            assert_eq!(watch.sample(&meters, s(at), s(at)), Stage::MediaChange);
        }
        meters.of(Stage::Source).busy(s(3));
        watch.sample(&meters, s(9), s(7));
        let verdict = watch.verdict();
        assert_eq!((verdict.stage, verdict.seconds), (Stage::MediaChange, 12.0));
        assert!((verdict.share - 10.0 / 12.0).abs() < 1e-9, "{verdict:?}");
        assert_eq!(meters.of(Stage::MediaChange).read().busy, s(10));
        assert_eq!(watch.limited[Stage::Source as usize], s(2));
    }

    #[test]
    fn a_short_session_tells_nothing() {
        let meters = Meters::default();
        let mut watch = Watch::start(&meters, TWO, Duration::ZERO);
        meters.of(Stage::Source).busy(Duration::from_millis(400));
        watch.sample(&meters, Duration::from_millis(400), Duration::ZERO);
        let verdict = watch.verdict();
        assert!(verdict.is_too_short() && verdict.advice(Flow::Backup).contains("too short"));
    }
}
