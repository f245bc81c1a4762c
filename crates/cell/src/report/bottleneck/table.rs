//! Sessions whose bottleneck is known, in virtual time: a source of a given rate, streams, buffers and perhaps a spool before the
//! mechanics of a virtual drive. What they count is watched as a session is.

use std::collections::VecDeque;
use std::time::Duration;

use capstan_engine::meter::{Meters, Stage};
use capstan_engine::verdict::{Flow, Lanes, Watch};
use capstan_medium::tape::{Counters, DriveSession, Statistics};
use capstan_tape::DriveModel;
use capstan_tape::vtl::mechanics::Mechanics;

use super::Bottleneck;
use crate::report::DriveReport;

const BLOCK: usize = 512 << 10;
const SPOOL: f64 = (1_u64 << 30) as f64;
/// Bytes per second that a spool's disk takes.
const SPOOL_RATE: f64 = 500e6;

/// What is read.
#[derive(Clone, Copy)]
enum Reads {
    /// By two streams.
    Files,
    /// By one.
    Command,
}

/// What is written to.
#[derive(Clone, Copy)]
enum To {
    Drive(&'static str),
    /// A drive behind a spool.
    Spool(&'static str),
    /// The null device, at a rate.
    Null(f64),
}

/// A session.
struct Case {
    to: To,
    reads: Reads,
    /// Bytes per second that the source gives, of all streams together.
    rate: f64,
    /// Bytes per second that a processor makes of what is read, and bytes that it makes of one.
    work: (f64, f64),
    /// Bytes that are read.
    bytes: f64,
    /// Seconds for which the tape is waited for.
    wait: f64,
}

/// Something that was counted: when, of which stage, for how long, how many bytes.
type Event = (f64, Stage, f64, usize);

/// A device in virtual time.
trait Sink {
    /// Takes a block of so many bytes at a time; says until when it was busy with that.
    fn write(&mut self, at: f64, bytes: usize) -> f64;
    /// Brings all to the medium.
    fn flush(&mut self, at: f64) -> f64;
    fn statistics(&self) -> Option<Statistics>;
}

impl Sink for Mechanics {
    fn write(&mut self, at: f64, bytes: usize) -> f64 {
        Mechanics::write(self, at, bytes, bytes as f64)
    }
    fn flush(&mut self, at: f64) -> f64 {
        Mechanics::flush(self, at)
    }
    fn statistics(&self) -> Option<Statistics> {
        Some(Mechanics::statistics(self))
    }
}

struct Null(f64);

impl Sink for Null {
    fn write(&mut self, at: f64, bytes: usize) -> f64 {
        at + bytes as f64 / self.0
    }
    fn flush(&mut self, at: f64) -> f64 {
        at
    }
    fn statistics(&self) -> Option<Statistics> {
        None
    }
}

/// A spool: its drive starts when it is 80 % full and stops at 5 %.
struct Spooled {
    drive: Mechanics,
    held: VecDeque<usize>,
    bytes: f64,
    runs: bool,
    /// Up to when the drive is busy.
    now: f64,
}

impl Spooled {
    fn bring(&mut self) {
        let Some(block) = self.held.pop_front() else { return };
        self.now = self.drive.write(self.now, block, block as f64);
        self.bytes -= block as f64;
        self.runs = self.bytes > 0.05 * SPOOL;
    }
}

impl Sink for Spooled {
    fn write(&mut self, at: f64, bytes: usize) -> f64 {
        while self.runs && self.now < at {
            self.bring();
        }
        let mut then = at + bytes as f64 / SPOOL_RATE;
        while self.bytes + bytes as f64 > SPOOL {
            self.bring();
            then = then.max(self.now);
        }
        self.held.push_back(bytes);
        self.bytes += bytes as f64;
        if !self.runs && self.bytes > 0.8 * SPOOL {
            self.runs = true;
            self.now = self.now.max(then);
        }
        then
    }
    fn flush(&mut self, at: f64) -> f64 {
        self.now = self.now.max(at);
        while !self.held.is_empty() {
            self.bring();
        }
        self.drive.flush(self.now)
    }
    fn statistics(&self) -> Option<Statistics> {
        Some(self.drive.statistics())
    }
}

impl Case {
    fn streams(&self) -> usize {
        match self.reads {
            Reads::Files => 2,
            Reads::Command => 1,
        }
    }

    fn sink(&self) -> Box<dyn Sink> {
        match self.to {
            To::Drive(model) => Box::new(Mechanics::new(DriveModel::named(model).unwrap())),
            To::Spool(model) => Box::new(Spooled {
                drive: Mechanics::new(DriveModel::named(model).unwrap()),
                held: VecDeque::new(),
                bytes: 0.0,
                runs: false,
                now: 0.0,
            }),
            To::Null(rate) => Box::new(Null(rate)),
        }
    }

    /// Runs it; what was counted, in the order of time, and what a drive did.
    fn run(&self) -> (Vec<Event>, Option<Statistics>) {
        let streams = self.streams();
        let mut sink = self.sink();
        let mut events: Vec<Event> = Vec::new();
        let (cpu, shrinks) = self.work;
        // Each stream is free from then on; so is each buffer; so is the writer.
        let mut free = vec![self.wait; streams];
        let mut buffers: VecDeque<f64> = vec![self.wait; 2 * streams + 4].into();
        let mut writer = self.wait;
        let read = BLOCK as f64 / shrinks;
        for n in 0..(self.bytes / read) as usize {
            let stream = n % streams;
            let mut at = free[stream].max(buffers.pop_front().unwrap());
            let steps = [
                (Stage::Metadata, read / 20e9),
                (Stage::Source, read / self.rate * streams as f64),
                (Stage::Cpu, read / cpu),
            ];
            for (stage, took) in steps {
                at += took;
                events.push((
                    at,
                    stage,
                    took,
                    if stage == Stage::Source { read as usize } else { 0 },
                ));
            }
            free[stream] = at;
            let begun = at.max(writer);
            writer = sink.write(begun, BLOCK);
            events.push((writer, Stage::Device, writer - begun, BLOCK));
            buffers.push_back(writer);
        }
        let end = sink.flush(writer);
        events.push((end, Stage::Device, end - writer, 0));
        events.sort_by(|a, b| a.0.total_cmp(&b.0));
        (events, sink.statistics())
    }

    /// What its report says.
    fn bottleneck(&self) -> Bottleneck {
        let (events, statistics) = self.run();
        let meters = Meters::default();
        let lanes = Lanes { streams: self.streams() as u32, processors: 2 };
        let mut watch = Watch::start(&meters, lanes, Duration::ZERO);
        let end = events.last().unwrap().0;
        let mut events = events.into_iter().peekable();
        let mut now: f64 = 0.0;
        while now < end {
            now = (now + 0.2).min(end);
            while let Some((_, stage, took, bytes)) = events.next_if(|event| event.0 <= now) {
                meters.of(stage).busy(Duration::from_secs_f64(took));
                meters.of(stage).bytes(bytes as u64);
            }
            let waited = Duration::from_secs_f64(now.min(self.wait));
            watch.sample(&meters, Duration::from_secs_f64(now), waited);
        }
        let speeds = match self.to {
            To::Drive(model) | To::Spool(model) => Some(DriveModel::named(model).unwrap().range()),
            To::Null(_) => None,
        };
        let drive = DriveSession {
            name: "drive".to_owned(),
            mount: None,
            tape: None,
            statistics,
            counters: Counters::default(),
            alerts: Vec::new(),
            contradiction: None,
            read_by: None,
            has_written: true,
            speeds,
            scale: 1.0,
            locates: 0,
            locating: Duration::ZERO,
            read_again: 0,
        };
        Bottleneck::of(watch.verdict(), Flow::Backup, &[DriveReport::of(&drive)])
    }
}

/// A session that is not held up by anything but source and device.
fn case(to: To, reads: Reads, mb_s: f64) -> Case {
    let rate = mb_s * 1e6;
    // Some minutes, of a fast source as long as a fast drive takes.
    let bytes = (rate * 150.0).min(30e9);
    Case { to, reads, rate, work: (2e9, 1.0), bytes, wait: 0.0 }
}

#[test]
fn what_limits_is_named() {
    use Reads::{Command, Files};
    use To::{Drive, Null, Spool};
    let zstd = Case { work: (8e6, 0.5), bytes: 2e9, ..case(Drive("lto-5"), Files, 200.0) };
    let waits = Case { wait: 10.0, bytes: 2e9, ..case(Drive("lto-9"), Files, 400.0) };
    // The stage, and whether backhitches limit beside it.
    let table = [
        ("LTO-1, files at 5 MB/s", case(Drive("lto-1"), Files, 5.0), "source", true),
        ("LTO-1, a command at 5 MB/s", case(Drive("lto-1"), Command, 5.0), "source", true),
        ("LTO-1, files at 5 MB/s, spool", case(Spool("lto-1"), Files, 5.0), "source", false),
        ("LTO-1, a command at 5 MB/s, spool", case(Spool("lto-1"), Command, 5.0), "source", false),
        ("LTO-1, files at 10 MB/s", case(Drive("lto-1"), Files, 10.0), "source", false),
        ("LTO-1, a command at 10 MB/s", case(Drive("lto-1"), Command, 10.0), "source", false),
        ("LTO-1, files at 10 MB/s, spool", case(Spool("lto-1"), Files, 10.0), "source", false),
        (
            "LTO-1, a command at 10 MB/s, spool",
            case(Spool("lto-1"), Command, 10.0),
            "source",
            false,
        ),
        ("LTO-1, files at 60 MB/s", case(Drive("lto-1"), Files, 60.0), "device", false),
        ("LTO-1, a command at 60 MB/s", case(Drive("lto-1"), Command, 60.0), "device", false),
        ("LTO-1, files at 60 MB/s, spool", case(Spool("lto-1"), Files, 60.0), "device", false),
        (
            "LTO-1, a command at 60 MB/s, spool",
            case(Spool("lto-1"), Command, 60.0),
            "device",
            false,
        ),
        ("DLT-7000, files at 3 MB/s", case(Drive("dlt-7000"), Files, 3.0), "source", true),
        ("LTO-5, zstd:19", zstd, "cpu", true),
        ("LTO-9, files at 60 MB/s", case(Drive("lto-9"), Files, 60.0), "source", true),
        ("LTO-9, files at 230 MB/s", case(Drive("lto-9"), Files, 230.0), "source", false),
        ("LTO-9, files from memory", case(Drive("lto-9"), Files, 3000.0), "device", false),
        ("null at 20 MB/s", case(Null(20e6), Files, 500.0), "device", false),
        ("ten seconds of waiting", waits, "media change", false),
    ];
    let mut wrong = String::new();
    for (name, case, stage, hitches) in &table {
        let found = case.bottleneck();
        let spool = found.advice.contains("spool");
        let late = found.backhitches.as_ref();
        if found.stage != *stage
            || late.is_some() != *hitches
            || spool != *hitches
            || found.share < 0.5
        {
            wrong += &format!("{name}: {found:?}\n");
        }
        // Their time is counted: each takes three seconds.
        if let Some(late) = late {
            assert!((late.seconds - 3.0 * late.count as f64).abs() < 1e-6, "{name}: {late:?}");
            assert!(late.lowest_mb_s.is_some_and(|lowest| lowest > 2.0), "{name}: {late:?}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!(table.len(), 19);
}

#[test]
fn a_restore_that_takes_slowly_says_so_too() {
    let verdict = {
        let meters = Meters::default();
        let mut watch = Watch::start(&meters, Lanes { streams: 2, processors: 2 }, Duration::ZERO);
        meters.of(Stage::Source).busy(Duration::from_secs(60));
        meters.of(Stage::Device).busy(Duration::from_secs(29));
        watch.sample(&meters, Duration::from_secs(60), Duration::ZERO);
        watch.verdict()
    };
    let hitching = |late_backhitches| DriveReport {
        late_backhitches: Some(late_backhitches),
        backhitch_s: Some(3.0 * late_backhitches as f64),
        ..DriveReport::default()
    };
    let said = Bottleneck::of(verdict, Flow::Restore, &[hitching(0), hitching(9)]);
    assert!(said.advice.contains("restore --spool") && said.backhitches.is_some(), "{said:?}");
    // Once may be the last one.
    let said = Bottleneck::of(verdict, Flow::Restore, &[hitching(1)]);
    assert!(said.stage == "source" && said.backhitches.is_none(), "{said:?}");
}
