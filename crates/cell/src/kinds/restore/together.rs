//! Several versions restored at once: each by a session of its own, from tapes that pass by once.

use capstan_engine::message::{Listener, Message};
use capstan_engine::threads;
use parking_lot::Mutex;

use crate::Cell;
use crate::error::{CellError, RestoreRefusal, Result};
use crate::kinds::restore::pace::Pace;
use crate::observe::{Observer, Progress, Stop};
use crate::reading::version::VersionView;
use crate::report::Report;
use crate::request::{RestoreRequest, RestoreTo};
use crate::session::SessionLog;

impl Cell {
    /// Restores several versions at once. Gives for each its report, or why it was not restored.
    pub fn restore_together(
        &self,
        requests: &[RestoreRequest],
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Vec<Result<Report>>> {
        let mut versions = Vec::new();
        for request in requests {
            // What cannot be meant is said before anything is read.
            let version = self.version(&request.version)?.id;
            if versions.contains(&version) {
                return Err(
                    RestoreRefusal::NamedTwice { name: request.version.name.clone() }.into()
                );
            }
            if matches!(request.to, RestoreTo::Tar(_)) {
                return Err(RestoreRefusal::OneArchive.into());
            }
            versions.push(version);
        }
        self.refuse_meeting(requests)?;
        let shares =
            Shares { observer, parts: Mutex::new(vec![Progress::default(); requests.len()]) };
        if requests.iter().any(|request| request.dry_run) {
            let one = |request| self.restore(request, observer, stop);
            return Ok(requests.iter().map(one).collect());
        }
        let mut views = Vec::new();
        for id in versions {
            let mut view = VersionView::open(self, id)?;
            view.bring(&|_, _| true)?;
            views.push(view);
        }
        let _booked = self.book_drives_of_versions(&views)?;
        drop(views);
        let pace = Pace::of(requests.len());
        Ok(std::thread::scope(|scope| {
            let start = |(number, request)| {
                let (shares, pace) = (&shares, &pace);
                let started = threads::start_in(scope, "restore", move || {
                    let share = Share { shares, number };
                    let log = SessionLog::new(&share);
                    let turn = pace.turn(number);
                    self.restore_arc(request, None, Some(&turn), &log, stop).map(|done| done.report)
                });
                // Who is not there is waited for no more.
                started.inspect_err(|_| drop(pace.turn(number)))
            };
            let running: Vec<_> = requests.iter().enumerate().map(start).collect();
            let ended =
                running.into_iter().map(|restore| restore?.join().unwrap_or_else(|_| Err(gone())));
            ended.collect()
        }))
    }
}

fn gone() -> CellError {
    RestoreRefusal::EndedUnexpectedly.into()
}

/// The progress of all, as one.
struct Shares<'a> {
    observer: &'a dyn Observer,
    parts: Mutex<Vec<Progress>>,
}

/// What one restore says.
struct Share<'a> {
    shares: &'a Shares<'a>,
    number: usize,
}

impl Listener for Share<'_> {
    fn message(&self, message: Message) {
        self.shares.observer.message(message);
    }
}

impl Observer for Share<'_> {
    fn progress(&self, progress: &Progress) {
        let mut parts = self.shares.parts.lock();
        parts[self.number] = progress.clone();
        let sum = parts.iter().fold(Progress { limit: progress.limit, ..Progress::default() }, add);
        self.shares.observer.progress(&sum);
    }
}

fn add(sum: Progress, part: &Progress) -> Progress {
    Progress {
        elapsed_s: sum.elapsed_s.max(part.elapsed_s),
        files: sum.files + part.files,
        files_found: sum.files_found + part.files_found,
        files_expected: sum.files_expected + part.files_expected,
        bytes: sum.bytes + part.bytes,
        bytes_expected: sum.bytes_expected + part.bytes_expected,
        is_about: sum.is_about || part.is_about,
        rate_in: sum.rate_in + part.rate_in,
        rate_out: sum.rate_out + part.rate_out,
        limit: sum.limit,
    }
}
