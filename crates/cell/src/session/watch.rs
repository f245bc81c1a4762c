//! Watching a session: the verdict, progress, sustained rates, and how hard to compress.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::Thread;
use std::time::{Duration, Instant};

use capstan_engine::ladder::Ladder;
use capstan_engine::meter::{Meters, Stage};
use capstan_engine::threads;
use capstan_engine::verdict::{Lanes, Verdict, Watch};
use capstan_medium::host::waits::Waits;

use capstan_port::disk::DiskAgent;

use crate::observe::Progress;

const INTERVAL: Duration = Duration::from_millis(200);

/// What is watched.
pub(crate) struct Watched<'a> {
    /// What is waited for meanwhile.
    pub waits: &'a Waits,
    pub meters: &'a Meters,
    pub lanes: Lanes,
    /// The streams' common choice of compression, of a backup, and the disk agent that has the streams.
    pub ladder: Option<(&'a Ladder, &'a dyn DiskAgent)>,
    /// Where bytes come in, and where they go out.
    pub stages: (Stage, Stage),
    /// Fills in what is done and expected.
    pub progress: &'a (dyn Fn(&mut Progress) + Sync),
    /// Takes each moment.
    pub each: &'a (dyn Fn(&Progress) + Sync),
}

/// What the watch says at the end.
pub(crate) struct Seen {
    pub verdict: Verdict,
    /// Median of the rates in intervals in which data came in, bytes per second.
    pub sustained: f64,
}

/// Ends a watch when it is dropped, so that what is watched can end in any way, also by a panic.
struct Ending<'a>(&'a AtomicBool, Thread);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
        self.1.unpark();
    }
}

/// Runs something while it is watched.
pub(crate) fn watched<T>(w: &Watched<'_>, run: impl FnOnce() -> T) -> (T, Option<Seen>) {
    let end = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Unwatched it goes on as well.
        let Ok(watcher) = threads::start_in(scope, "watch", || watch(w, &end)) else {
            return (run(), None);
        };
        let ending = Ending(&end, watcher.thread().clone());
        let result = run();
        drop(ending);
        (result, watcher.join().ok())
    })
}

/// Watches until `end` is set.
fn watch(w: &Watched<'_>, end: &AtomicBool) -> Seen {
    let started = Instant::now();
    let waits = Waiting::begin(w.waits);
    let mut watch = Watch::start(w.meters, w.lanes, waits.before);
    let mut processors = w.ladder.map(|(_, agent)| agent.processors());
    let mut last = (Instant::now(), 0, 0);
    let mut rates: Vec<f64> = Vec::new();
    loop {
        let until = Instant::now() + INTERVAL;
        while Instant::now() < until && !end.load(Relaxed) {
            std::thread::park_timeout(until.saturating_duration_since(Instant::now()));
        }
        let limit = watch.sample(w.meters, started.elapsed(), waits.during());
        let now = Instant::now();
        let bytes = |s: Stage| w.meters.of(s).read().bytes;
        let (bytes_in, bytes_out) = (bytes(w.stages.0), bytes(w.stages.1));
        let time = now.duration_since(last.0).as_secs_f64().max(1e-3);
        let rate_in = bytes_in.saturating_sub(last.1) as f64 / time;
        let rate_out = bytes_out.saturating_sub(last.2) as f64 / time;
        last = (now, bytes_in, bytes_out);
        if rate_in > 0.0 && rates.len() < 1 << 16 {
            rates.push(rate_in);
        }
        if let Some((ladder, agent)) = w.ladder {
            let now = agent.processors();
            let before = processors.replace(now).unwrap_or(now);
            ladder.sample(limit, now.idle_since(&before));
        }
        let mut progress = Progress {
            elapsed_s: started.elapsed().as_secs_f64(),
            rate_in,
            rate_out,
            limit: limit.name(),
            ..Progress::default()
        };
        (w.progress)(&mut progress);
        (w.each)(&progress);
        if end.load(Relaxed) {
            break;
        }
    }
    rates.sort_by(f64::total_cmp);
    let sustained = rates.get(rates.len() / 2).copied().unwrap_or(0.0);
    let mut verdict = watch.verdict();
    verdict.for_others = waits.are_for_others();
    Seen { verdict, sustained }
}

/// What is waited for hands and robots, and for other sessions.
struct Waiting<'a> {
    waits: &'a Waits,
    /// For other sessions, before those waits that count here.
    for_others: Duration,
    /// Since the last session that was watched, before this one was.
    before: Duration,
    at_begin: Duration,
}

impl<'a> Waiting<'a> {
    fn begin(waits: &'a Waits) -> Self {
        let for_others = waits.waited_for_others().saturating_sub(waits.uncounted_for_others());
        Self { waits, for_others, before: waits.uncounted(), at_begin: waits.waited() }
    }

    /// Whether most of it was for other sessions.
    fn are_for_others(&self) -> bool {
        let others = self.waits.waited_for_others().saturating_sub(self.for_others);
        others > (self.before + self.during()) / 2
    }

    fn during(&self) -> Duration {
        self.waits.waited().saturating_sub(self.at_begin)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.waits.count();
    }
}
