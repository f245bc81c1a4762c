//! What copies and consolidations share: they move frames from media to media, and are watched doing it.

use capstan_engine::meter::{Meters, Stage};
use capstan_engine::verdict::{Flow, Lanes};
use capstan_medium::host::waits::Waits;

use crate::report::Report;
use crate::session::SessionLog;
use crate::session::watch::{self, Seen, Watched};

/// Runs what moves frames, watched. `total` bytes are expected.
pub(crate) fn watched<T>(
    waits: &Waits,
    meters: &Meters,
    log: &SessionLog<'_>,
    total: u64,
    run: impl FnOnce() -> T,
) -> (T, Option<Seen>) {
    let watched = Watched {
        waits,
        meters,
        lanes: Lanes { streams: 1, processors: 1 },
        ladder: None,
        stages: (Stage::Source, Stage::Device),
        progress: &|p| {
            p.bytes = meters.of(Stage::Source).read().bytes;
            p.bytes_expected = total;
        },
        each: &|p| log.progress(p),
    };
    watch::watched(&watched, run)
}

/// What was moved.
pub(crate) struct Moved {
    pub read: u64,
    pub written: u64,
    pub elapsed_s: f64,
}

impl Moved {
    /// Fills in bytes, rates and the verdict.
    pub fn fill(&self, report: &mut Report, meters: &Meters, seen: Option<Seen>) {
        report.bytes_read = self.read;
        report.bytes_written = report.on_tape(self.written);
        report.elapsed_s = self.elapsed_s;
        report.rate_mb_s = self.written as f64 / 1e6 / self.elapsed_s.max(1e-9);
        if let Some(seen) = seen {
            report.rate_sustained_mb_s = seen.sustained / 1e6;
            report.set_stages(meters, seen.verdict, Flow::Media);
        }
    }
}
