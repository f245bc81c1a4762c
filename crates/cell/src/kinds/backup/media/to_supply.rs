//! A backup to a pool or a library: the medium is chosen by policy, and when it is full or fails, the next one goes on.
//!
//! Where a drive warns before the end of its tape, the session itself goes on on the next one. Else a segment is in the middle
//! when a medium takes no more: what of it had no room is read again by a session that resumes the first on the next medium.
//! Both make one version.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::Relaxed;

use capstan_address::Address;
use capstan_engine::message::Code;
use capstan_engine::problem::Problem;
use capstan_format::id::MediumId;
use capstan_idb::Medium;

use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{CellError, Result};
use crate::kinds::backup::media::went_on::with_error;
use crate::kinds::backup::refused;
use crate::media::exchanged::Looked;
use crate::observe::{Observer, Silent, Stop};
use crate::report::Report;
use crate::request::{BackupRequest, Source, Turn};
use crate::supply::pools::queue::Queue;
use crate::supply::unfit::{FAILURES, IS_FULL, PassedOver, Why, a_few, why_next, why_passed};

/// Backups to the media of a pool or library.
struct ToSupply<'a> {
    cell: &'a Cell,
    requests: Vec<BackupRequest>,
    /// The objects that are begun anew.
    names: Vec<String>,
    /// Which of the requests go on.
    going: Vec<usize>,
    /// What came of each so far.
    reports: Vec<Option<Result<Report>>>,
    /// The pool, if there is one whose media are chosen.
    pool: Option<String>,
    turn: Turn,
    by_drive: ByDrive,
    dry_run: bool,
    /// Media that are not chosen.
    passed: Vec<PassedOver>,
    /// Media that were chosen, and got nothing.
    vain: Vec<MediumId>,
    /// Media that sessions do not go on on: they were filled by them, or failed.
    avoid: Vec<PassedOver>,
    /// What failed so far, with what it said.
    failed: Vec<(String, String)>,
    /// Of it media that another drive may write, where there is nothing else.
    in_a_drive: Vec<MediumId>,
    /// Those that were tried once more for that.
    tried_again: Vec<MediumId>,
    queue: Queue,
    looked: Looked,
    observer: &'a dyn Observer,
    stop: &'a Stop,
}

/// What comes next.
enum Next<T> {
    /// This.
    Go(T),
    /// Another medium is chosen.
    Again,
    /// Nothing: what there is is all.
    End,
}

/// The medium of a pool that was chosen, and its device.
type Chosen = (MediumId, Address);

/// How the media took a round of backups.
#[derive(Default)]
struct Round {
    /// Whether one took no more; and if so, whether it was full.
    failed: Option<bool>,
    /// What it said.
    cause: String,
    /// Whether it could not be reached.
    lost: bool,
}

impl Cell {
    /// Backs up to the media of a pool or library.
    pub(in crate::kinds::backup) fn backup_to_supply(
        &self,
        requests: &[BackupRequest],
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Vec<Result<Report>>> {
        let Some(first) = requests.first() else { return Ok(Vec::new()) };
        // What is chosen may be given up for it, which is for nothing where there is nothing that can be backed up.
        let planned = self.planned(requests, &Silent);
        if planned.iter().all(Result::is_err) {
            return Ok(planned.into_iter().map(|planned| Err(refused(planned))).collect());
        }
        let begun = planned.iter().flatten().filter(|(request, ..)| !request.resume);
        let names: Vec<String> = begun.map(|(_, plan, _)| plan.name.clone()).collect();
        drop(planned);
        let mut backups = ToSupply {
            cell: self,
            requests: requests.to_vec(),
            names,
            going: (0..requests.len()).collect(),
            reports: requests.iter().map(|_| None).collect(),
            pool: first.pool.clone(),
            turn: Turn::of_run(first.run_us),
            by_drive: ByDrive::of_backup(first.encrypt),
            dry_run: first.dry_run,
            passed: Vec::new(),
            vain: Vec::new(),
            avoid: Vec::new(),
            failed: Vec::new(),
            in_a_drive: Vec::new(),
            tried_again: Vec::new(),
            queue: Queue::begin(&self.devices),
            looked: Looked::default(),
            observer,
            stop,
        };
        backups.run()?;
        Ok(backups.reports.into_iter().flatten().collect())
    }

    /// The media of a session, on which it does not go on: they were filled by it, or failed.
    fn why_not_again(&self, of: &Report) -> Result<Vec<PassedOver>> {
        let cause = of.failure.as_deref().unwrap_or_default();
        let why = |id| -> Result<PassedOver> {
            let is_full = self.idb.management(id)?.full_us.is_some();
            Ok((id, Why::ended(is_full, cause)))
        };
        self.media_called(&of.media)?.into_iter().map(why).collect()
    }
}

impl ToSupply<'_> {
    /// Goes from medium to medium until all is written, or nothing takes more.
    fn run(&mut self) -> Result<()> {
        let mut failures = 0;
        while !self.going.is_empty() {
            let chosen = match self.choose()? {
                Next::Go(chosen) => chosen,
                Next::Again => continue,
                Next::End => break,
            };
            let written = match self.write(chosen.as_ref())? {
                Next::Go(written) => written,
                Next::Again => continue,
                Next::End => break,
            };
            self.queue.has_had_one();
            let Round { failed, cause, lost } = self.take(written)?;
            let Some(full) = failed else { break };
            failures += usize::from(!full);
            if self.stop.0.load(Relaxed) {
                break;
            }
            if failures >= FAILURES {
                self.add_error(Code::DeviceFailed, &self.no_more());
                break;
            }
            let Some((id, _)) = chosen else { continue };
            let is_over = !full || why_passed(&self.avoid, id).is_some();
            if !lost && (is_over || self.is_in_vain(id)?) {
                self.passed.push((id, Why::ended(full, &cause)));
            }
        }
        Ok(())
    }

    /// The error that writing fails again and again, so that no further medium is tried.
    fn no_more(&self) -> CellError {
        let media: BTreeSet<&str> = self.failed.iter().map(|(name, _)| name.as_str()).collect();
        let what = match media.len() {
            n if n >= FAILURES => format!("{FAILURES} media failed one after the other"),
            _ => format!("writing failed {FAILURES} times, one after the other"),
        };
        CellError::NoMedium(
            Problem::new(format!("{what}, so no other medium is tried: {}", a_few(&self.failed)))
                .hint("mend that, and run the backup again"),
        )
    }

    /// Has media be taken once more that one drive could not write: others may. Whether there are any.
    fn takes_again(&mut self) -> bool {
        let again = std::mem::take(&mut self.in_a_drive);
        self.passed.retain(|(id, _)| !again.contains(id));
        self.avoid.retain(|(id, _)| !again.contains(id));
        self.tried_again.extend(&again);
        !again.is_empty()
    }

    /// Whether a medium that was chosen got nothing for the second time, as where its mirror is what is full.
    fn is_in_vain(&mut self, id: MediumId) -> Result<bool> {
        if self.cell.idb.last_segment_number(id)?.is_some() {
            return Ok(false);
        }
        let again = self.vain.contains(&id);
        self.vain.push(id);
        Ok(again)
    }

    /// Whether anything was written before.
    fn has_begun(&self) -> bool {
        self.reports.iter().any(Option::is_some)
    }

    /// Chooses a medium of the pool, if there is one.
    fn choose(&mut self) -> Result<Next<Option<Chosen>>> {
        let Some(name) = self.pool.clone() else { return Ok(Next::Go(None)) };
        match self.allocate(&name) {
            Ok(medium) => {
                self.requests.iter_mut().for_each(|request| request.device = medium.device.clone());
                Ok(Next::Go(Some((medium.id, medium.device))))
            }
            Err(e) if self.has_begun() && leave_pool(&mut self.requests) => {
                self.add_error(Code::MirrorFailed, &e);
                self.pool = None;
                Ok(Next::Again)
            }
            Err(e) => self.end(e),
        }
    }

    fn allocate(&mut self, name: &str) -> Result<Medium> {
        if let Some(request) = self.requests.first() {
            self.cell.pass_over_without_drive(name, request, &mut self.passed)?;
        }
        if self.dry_run {
            return self.cell.allocate(name, self.turn, self.by_drive, &mut self.passed, true);
        }
        let by_drive = self.by_drive;
        let is_asked = self.has_begun() && !self.in_a_drive.is_empty();
        let mut passed = self.passed.clone();
        // Nobody is asked to bring another one, as long as there is such a one.
        if is_asked && self.cell.allocate(name, self.turn, by_drive, &mut passed, true).is_err() {
            self.takes_again();
        }
        let count = if self.has_begun() {
            1
        } else {
            self.cell.media_a_backup(name, self.turn, &self.names)?
        };
        let (passed, queue) = (&mut self.passed, &mut self.queue);
        self.cell.allocate_or_wait(name, self.turn, self.by_drive, passed, queue, count)
    }

    /// Writes what goes on to what was chosen.
    fn write(&mut self, chosen: Option<&Chosen>) -> Result<Next<Vec<Result<Report>>>> {
        let now: Vec<_> = self.going.iter().map(|at| self.requests[*at].clone()).collect();
        match self.cell.backup_to_device(&now, &self.avoid, self.observer, self.stop) {
            Ok(written) => Ok(Next::Go(written)),
            Err(e)
                if e.is_out_of_reach()
                    && let Some((id, _)) = chosen =>
            {
                match self.queue.pass(*id, e, &mut self.passed) {
                    Ok(()) => Ok(Next::Again),
                    Err(e) => self.end(e),
                }
            }
            // It is chosen once more, where it is.
            Err(CellError::Exchanged(_))
                if chosen.is_some_and(|(id, at)| self.looked.is_new(*id, at)) =>
            {
                Ok(Next::Again)
            }
            Err(e)
                if let Some((id, _)) = chosen
                    && let Some(why) = why_next(&e) =>
            {
                let device = self.requests.first().map(|request| request.device.to_string());
                self.cell.note_passed_over(&device.unwrap_or_default(), Some(*id), &e);
                self.passed.push((*id, why.into()));
                Ok(Next::Again)
            }
            Err(e)
                if let (Some((id, _)), Some(pool)) = (chosen, &self.pool)
                    && self.queue.decides_anew(self.cell, pool, *id, &e) =>
            {
                Ok(Next::Again)
            }
            Err(e) => self.end(e),
        }
    }

    /// Ends with what there is, and with an error; where nothing was written, that is all.
    fn end<T>(&mut self, e: CellError) -> Result<Next<T>> {
        if !self.has_begun() {
            return Err(e);
        }
        if matches!(e, CellError::NoMedium(_) | CellError::NoTape(_)) && self.takes_again() {
            return Ok(Next::Again);
        }
        self.add_error(Code::DeviceFailed, &e);
        Ok(Next::End)
    }

    /// Takes what came of the backups, and has those go on whose medium took no more.
    fn take(&mut self, written: Vec<Result<Report>>) -> Result<Round> {
        let mut round = Round::default();
        let mut again = Vec::new();
        for (at, now) in std::mem::take(&mut self.going).into_iter().zip(written) {
            let report = match (self.reports[at].take(), now) {
                (Some(Ok(earlier)), Ok(now)) => Ok(self.cell.went_on(earlier, now)?),
                (Some(Ok(earlier)), Err(e)) => Ok(self.with_error(earlier, Code::DeviceFailed, &e)),
                (_, now) => now,
            };
            if let Ok(report) = &report
                && report.device_failed
            {
                round.failed = Some(report.device_full);
                // A tape that could not be reached is gone on with, once it can be: what was not committed is written over.
                self.avoid = match report.device_lost {
                    true => Vec::new(),
                    // The others are gone on with.
                    false if !report.full_media.is_empty() => {
                        report.full_media.iter().map(|id| (*id, IS_FULL.into())).collect()
                    }
                    false => self.cell.why_not_again(report)?,
                };
                round.lost |= report.device_lost;
                round.cause = report.failure.clone().unwrap_or_default();
                if !report.device_full {
                    self.note_in_a_drive(report)?;
                    let label = report.media.last().cloned().unwrap_or_default();
                    let said = (label, format!(" {}", Why::ended(false, &round.cause)));
                    // Backups that are written together fail together.
                    if self.failed.last() != Some(&said) {
                        self.failed.push(said);
                    }
                }
                if matches!(self.requests[at].source, Source::Paths(_)) {
                    self.requests[at].resume = true;
                    again.push(at);
                }
            }
            self.reports[at] = Some(report);
        }
        self.going = again;
        Ok(round)
    }

    /// Notes of a session whose media failed which of them another drive may write.
    fn note_in_a_drive(&mut self, of: &Report) -> Result<()> {
        for id in self.cell.media_called(&of.media)? {
            let is_new = !self.in_a_drive.contains(&id) && !self.tried_again.contains(&id);
            if is_new && self.cell.drive_fault_of(id).is_some() {
                self.in_a_drive.push(id);
            }
        }
        Ok(())
    }

    /// Says of the backups that would go on why they do not, or not on all of their media.
    fn add_error(&mut self, code: Code, why: &CellError) {
        for at in self.going.clone() {
            if let Some(Ok(report)) = self.reports[at].take() {
                self.reports[at] = Some(Ok(self.with_error(report, code, why)));
            }
        }
    }

    fn with_error(&self, report: Report, code: Code, why: &CellError) -> Report {
        with_error(&*self.cell.devices, report, code, why, self.observer)
    }
}

/// Lets backups to a pool that has no medium any more go on on their mirrors alone. Returns whether there are any.
fn leave_pool(requests: &mut [BackupRequest]) -> bool {
    if requests.iter().any(|request| request.mirrors.is_empty()) {
        return false;
    }
    for request in requests {
        request.device = request.mirrors.remove(0);
        request.pool = None;
    }
    true
}
