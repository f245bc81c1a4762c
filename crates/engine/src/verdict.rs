//! The verdict: which stage limited a session, for what share of its time, and what would help.

use std::time::{Duration, Instant};

use crate::meter::{Meters, Reading, Stage};

/// How many threads may be busy at once in a stage; shares are of that many times the elapsed time.
#[derive(Debug, Clone, Copy)]
pub struct Lanes {
    /// Streams: they read, compress and build blocks.
    pub streams: u32,
    /// Processors.
    pub processors: u32,
}

/// Watches the meters over a session. Sampled a few times a second, it counts for each interval which stage was limiting.
pub struct Watch {
    started: Instant,
    last: [Reading; Stage::ALL.len()],
    last_at: Instant,
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
    /// The share of the time in which it did, 0 to 1.
    pub share: f64,
}

impl Watch {
    /// Starts watching.
    pub fn start(meters: &Meters, lanes: Lanes) -> Self {
        let now = Instant::now();
        Self {
            started: now,
            last: meters.read(),
            last_at: now,
            limited: Default::default(),
            latest: Stage::Source,
            lanes,
        }
    }

    /// Ends an interval; returns the stage that limited it.
    pub fn sample(&mut self, meters: &Meters) -> Stage {
        let (now, reading) = (Instant::now(), meters.read());
        let time = now.duration_since(self.last_at);
        // Where nothing was measured yet (long steps are counted at their end), the interval goes on.
        if reading.iter().zip(&self.last).any(|(r, last)| r.busy > last.busy) {
            self.latest = limiting(&self.last, &reading, time, self.lanes);
            self.limited[self.latest as usize] += time;
            (self.last, self.last_at) = (reading, now);
        }
        self.latest
    }

    /// The verdict so far.
    pub fn verdict(&self) -> Verdict {
        let total = self.last_at.duration_since(self.started).as_secs_f64().max(1e-9);
        let stage = Stage::ALL
            .into_iter()
            .max_by_key(|s| self.limited[*s as usize])
            .unwrap_or(Stage::Source);
        Verdict { stage, share: self.limited[stage as usize].as_secs_f64() / total }
    }

    /// Share of the time in which each stage limited, in the order of [`Stage::ALL`].
    pub fn shares(&self) -> [f64; Stage::ALL.len()] {
        let total = self.last_at.duration_since(self.started).as_secs_f64().max(1e-9);
        self.limited.map(|t| t.as_secs_f64() / total)
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
    let in_streams = [Stage::Source, Stage::Metadata, Stage::Cpu, Stage::Network];
    let streams = f64::from(lanes.streams.min(lanes.processors).max(1));
    let of_streams = in_streams.iter().map(|s| busy(*s)).sum::<f64>() / time / streams;
    // A device that is busy nearly always limits, whatever the others do while they wait for it.
    if device >= 0.85 || device > of_streams && device >= cell {
        return Stage::Device;
    }
    if cell > of_streams {
        return Stage::Cell;
    }
    // The first of equals.
    in_streams
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
    /// What an administrator could do about it.
    pub fn advice(&self, flow: Flow) -> &'static str {
        match self.stage {
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

    fn verdict_of(work: impl Fn(&Meters)) -> Stage {
        let meters = Meters::default();
        let mut watch = Watch::start(&meters, Lanes { streams: 2, processors: 2 });
        watch.last_at -= Duration::from_secs(1);
        watch.started -= Duration::from_secs(1);
        work(&meters);
        watch.sample(&meters);
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
        let mut watch = Watch::start(&meters, Lanes { streams: 2, processors: 2 });
        watch.last_at -= Duration::from_secs(10);
        watch.started -= Duration::from_secs(10);
        watch.sample(&meters);
        meters.of(Stage::Device).busy(Duration::from_secs(9));
        watch.sample(&meters);
        let verdict = watch.verdict();
        assert_eq!((verdict.stage, verdict.share > 0.9), (Stage::Device, true));
    }
}
