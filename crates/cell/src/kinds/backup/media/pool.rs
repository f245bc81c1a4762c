//! A backup to a pool or a library: the medium is chosen by policy, and when it is full or fails, the next one goes on.
//!
//! Where a drive warns before the end of its tape, the session itself goes on on the next one. Else a segment is in the middle
//! when a medium takes no more: what of it had no room is read again by a session that resumes the first on the next medium.
//! Both make one version.

use std::sync::atomic::Ordering::Relaxed;

use capstan_devices::address::Address;
use capstan_devices::host::DeviceHost;
use capstan_engine::message::Code;
use capstan_format::id::SessionId;
use capstan_idb::Status;
use serde_json::{Map, Value};

use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{CellError, Result, chain};
use crate::kinds::backup::refused;
use crate::media::exchanged::Looked;
use crate::observe::{Observer, Silent, Stop};
use crate::report::{NOTHING_COMMITTED, Report};
use crate::request::{BackupRequest, Source, Turn};
use crate::session::SessionLog;
use crate::supply::queue::Queue;
use crate::supply::unfit::why_next;
use crate::supply::unfit::{HAS_FAILED, IS_FULL, PassedOver, why_passed};

/// So many media that fail one after the other are not the media's fault.
const FAILURES: usize = 3;

impl Cell {
    /// Backs up to the media of a pool or library.
    pub(in crate::kinds::backup) fn backup_to_supply(
        &self,
        requests: &[BackupRequest],
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Vec<Result<Report>>> {
        let mut requests = requests.to_vec();
        // Which of them goes on, and what came of each so far.
        let mut going: Vec<usize> = (0..requests.len()).collect();
        let mut reports: Vec<Option<Result<Report>>> = requests.iter().map(|_| None).collect();
        let (mut pool, by_drive, dry_run) = match requests.first() {
            Some(first) => (first.pool.clone(), ByDrive::of_backup(first.encrypt), first.dry_run),
            None => return Ok(Vec::new()),
        };
        // What is chosen may be given up for it, which is for nothing where there is nothing that can be backed up.
        let planned = self.planned(&requests, &Silent);
        if planned.iter().all(Result::is_err) {
            return Ok(planned.into_iter().map(|planned| Err(refused(planned))).collect());
        }
        let begun = planned.iter().flatten().filter(|(request, ..)| !request.resume);
        let names: Vec<String> = begun.map(|(_, plan, _)| plan.name.clone()).collect();
        drop(planned);
        let mut passed: Vec<PassedOver> = Vec::new();
        let mut avoid: Vec<PassedOver> = Vec::new();
        let (turn, mut queue) = (Turn::Today, Queue::begin(&self.devices));
        let (mut failures, mut looked) = (0, Looked::default());
        while !going.is_empty() {
            let (mut chosen, mut at) = (None, String::new());
            if let Some(name) = pool.clone() {
                let can_be_written = requests.first().map_or(Ok(()), |request| {
                    self.pass_over_without_drive(&name, request, &mut passed)
                });
                let allocated = can_be_written.and_then(|()| match dry_run {
                    true => self.allocate(&name, turn, by_drive, &passed, true),
                    false => {
                        let is_first = reports.iter().all(Option::is_none);
                        let count = if is_first { self.media_a_backup(&name, &names)? } else { 1 };
                        self.allocate_or_wait(&name, turn, by_drive, &mut passed, &mut queue, count)
                    }
                });
                let medium = match allocated {
                    Ok(medium) => medium,
                    Err(e) if reports.iter().any(Option::is_some) => {
                        if leave_pool(&mut requests) {
                            add_error(
                                &self.devices,
                                &mut reports,
                                &going,
                                Code::MirrorFailed,
                                &e,
                                observer,
                            );
                            pool = None;
                            continue;
                        }
                        add_error(
                            &self.devices,
                            &mut reports,
                            &going,
                            Code::DeviceFailed,
                            &e,
                            observer,
                        );
                        break;
                    }
                    Err(e) => return Err(e),
                };
                let device: Address = medium.device.parse()?;
                requests.iter_mut().for_each(|request| request.device = device.clone());
                (chosen, at) = (Some(medium.id), medium.device);
            }
            let now: Vec<BackupRequest> = going.iter().map(|at| requests[*at].clone()).collect();
            let written = match self.backup_to_device(&now, &avoid, observer, stop) {
                Err(e)
                    if e.is_out_of_reach()
                        && let Some(id) = chosen =>
                {
                    match queue.pass(id, e, &mut passed) {
                        Ok(()) => continue,
                        Err(e) if reports.iter().any(Option::is_some) => {
                            add_error(
                                &self.devices,
                                &mut reports,
                                &going,
                                Code::DeviceFailed,
                                &e,
                                observer,
                            );
                            break;
                        }
                        Err(e) => return Err(e),
                    }
                }
                // It is chosen once more, where it is.
                Err(CellError::Exchanged(_)) if chosen.is_some_and(|id| looked.is_new(id, &at)) => {
                    continue;
                }
                Err(e)
                    if let Some(id) = chosen
                        && let Some(why) = why_next(&e) =>
                {
                    self.note_passed_over(&requests[0].device.to_string(), Some(id), &e);
                    passed.push((id, why));
                    continue;
                }
                Err(e) if reports.iter().any(Option::is_some) => {
                    add_error(
                        &self.devices,
                        &mut reports,
                        &going,
                        Code::DeviceFailed,
                        &e,
                        observer,
                    );
                    break;
                }
                other => other?,
            };
            queue.has_had_one();
            let (mut failed, mut lost) = (None, false);
            let mut again = Vec::new();
            for (at, now) in going.into_iter().zip(written) {
                let report = match (reports[at].take(), now) {
                    (Some(Ok(earlier)), Ok(mut now)) => {
                        let own = now.status.clone();
                        let is_one = self.forget_unwritten(&earlier)?;
                        if !is_one {
                            self.record_went_on(&earlier, &mut now)?;
                        }
                        let now = joined(Some(earlier), now);
                        if is_one && let Ok(id) = now.session.parse() {
                            let json = serde_json::to_string(&now).unwrap_or_default();
                            self.idb.set_session_report(id, &json)?;
                        }
                        if now.status != own {
                            self.record_errors(&now)?;
                        }
                        Ok(now)
                    }
                    (Some(Ok(earlier)), Err(e)) => {
                        Ok(with_error(&self.devices, earlier, Code::DeviceFailed, &e, observer))
                    }
                    (_, now) => now,
                };
                if let Ok(report) = &report
                    && report.device_failed
                {
                    failed = Some(report.device_full);
                    // A tape that could not be reached is gone on with, once it can be: what was not committed is written over.
                    avoid = match report.device_lost {
                        true => Vec::new(),
                        // The others are gone on with.
                        false if !report.full_media.is_empty() => {
                            report.full_media.iter().map(|id| (*id, IS_FULL)).collect()
                        }
                        false => self.why_not_again(&report.media)?,
                    };
                    lost |= report.device_lost;
                    if matches!(requests[at].source, Source::Paths(_)) {
                        requests[at].resume = true;
                        again.push(at);
                    }
                }
                reports[at] = Some(report);
            }
            going = again;
            let Some(full) = failed else { break };
            failures += usize::from(!full);
            if failures >= FAILURES || stop.0.load(Relaxed) {
                break;
            }
            let chosen = chosen.filter(|id| !lost && (!full || why_passed(&avoid, *id).is_some()));
            passed.extend(chosen.map(|id| (id, if full { IS_FULL } else { HAS_FAILED })));
        }
        Ok(reports.into_iter().flatten().collect())
    }

    /// Media of these labels, on which a session does not go on: they were filled by it, or failed.
    fn why_not_again(&self, labels: &[String]) -> Result<Vec<PassedOver>> {
        let why = |id| -> Result<PassedOver> {
            let is_full = self.idb.management(id)?.full_us.is_some();
            Ok((id, if is_full { IS_FULL } else { HAS_FAILED }))
        };
        self.media_called(labels)?.into_iter().map(why).collect()
    }

    /// Says of a session whose medium took no more, and of the one that came after it, which the other is: the first stays on
    /// record, as incomplete where its medium was full, else as failed, though nothing is missing.
    pub(crate) fn record_went_on(&self, earlier: &Report, now: &mut Report) -> Result<()> {
        let goes_on = now.base_session.as_ref() == Some(&earlier.session);
        let was = match earlier.device_full {
            true => "was full",
            false if earlier.device_lost => "could not be reached",
            false => "failed",
        };
        let on = if earlier.device_lost { "" } else { " on another medium" };
        let nothing = earlier.notes.iter().any(|note| note == NOTHING_COMMITTED);
        let yet = if nothing { " before anything was committed" } else { "" };
        let (of, by) = (&earlier.session, &now.session);
        let (before, after) = match goes_on {
            true => (
                format!("session {by} goes on with this one{on}"),
                format!("it goes on with session {of}, whose medium {was}"),
            ),
            false => (
                format!(
                    "session {by} was begun instead of this one{}",
                    if on.is_empty() { "" } else { ", on another medium" }
                ),
                format!("it was begun instead of session {of}, whose medium {was}{yet}"),
            ),
        };
        self.add_note(of, before)?;
        // That a medium is full is no failure.
        if earlier.device_full
            && let Ok(id) = of.parse()
        {
            self.idb.set_incomplete(id)?;
        }
        self.add_note(by, after.clone())?;
        now.notes.push(after);
        Ok(())
    }

    /// Forgets a session whose medium was full before anything was committed, as another one was begun in its place: it is one backup.
    fn forget_unwritten(&self, earlier: &Report) -> Result<bool> {
        let nothing = earlier.notes.iter().any(|note| note == NOTHING_COMMITTED);
        match earlier.session.parse() {
            Ok(id) if earlier.device_full && nothing => Ok(self.idb.drop_unwritten(id)?),
            _ => Ok(false),
        }
    }

    /// Puts on record what a backup's report says of the sessions before the last one: who asks later is told the same.
    fn record_errors(&self, all: &Report) -> Result<()> {
        let Some((id, mut report)) = self.recorded_report(&all.session)? else { return Ok(()) };
        report.insert("status".to_owned(), all.status.clone().into());
        report.insert("error_count".to_owned(), all.error_count.into());
        let errors = serde_json::to_value(&all.errors).unwrap_or_default();
        report.insert("errors".to_owned(), errors);
        Ok(self.idb.set_session_with_errors(id, &Value::Object(report).to_string())?)
    }

    /// The report of a session that ended, as it is on record.
    fn recorded_report(&self, session: &str) -> Result<Option<(SessionId, Map<String, Value>)>> {
        let Ok(id) = session.parse() else { return Ok(None) };
        let recorded = self.idb.session(id)?.and_then(|s| s.report);
        let report = recorded.and_then(|json| serde_json::from_str(&json).ok());
        Ok(match report {
            Some(Value::Object(report)) => Some((id, report)),
            _ => None,
        })
    }

    /// Adds a note to the recorded report of a session that ended.
    fn add_note(&self, session: &str, note: String) -> Result<()> {
        let Some((id, mut report)) = self.recorded_report(session)? else { return Ok(()) };
        if let Value::Array(notes) =
            report.entry("notes").or_insert_with(|| Vec::<Value>::new().into())
        {
            notes.push(note.into());
        }
        Ok(self.idb.set_session_report(id, &Value::Object(report).to_string())?)
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

/// Says of the backups that would go on why they do not, or not on all of their media.
fn add_error(
    devices: &DeviceHost,
    reports: &mut [Option<Result<Report>>],
    going: &[usize],
    code: Code,
    why: &CellError,
    observer: &dyn Observer,
) {
    for at in going {
        if let Some(Ok(report)) = reports[*at].take() {
            reports[*at] = Some(Ok(with_error(devices, report, code, why, observer)));
        }
    }
}

/// A report of all sessions that one backup took: what was read for nothing is read again, and counts once.
pub(crate) fn joined(earlier: Option<Report>, mut report: Report) -> Report {
    if let Some(earlier) = earlier {
        let mut media = earlier.media;
        media.retain(|label| !report.media.contains(label));
        media.append(&mut report.media);
        report.media = media;
        report.drives.splice(0..0, earlier.drives);
        let notes = earlier.notes.into_iter().filter(|note| note != NOTHING_COMMITTED);
        report.notes.splice(0..0, notes.collect::<Vec<_>>());
        // A mirror that was left lacks what was written without it.
        let mirrors = [Code::MirrorFailed, Code::MirrorBehind].map(Code::name);
        let errors = earlier.errors.into_iter().filter(|e| mirrors.contains(&e.code));
        let errors: Vec<_> = errors.collect();
        if !errors.is_empty() {
            report.error_count += errors.len() as u64;
            report.errors.splice(0..0, errors);
            if report.status == Status::Completed.to_string() {
                report.status = Status::CompletedWithErrors.to_string();
            }
        }
        report.faults.splice(0..0, earlier.faults);
        report.start = earlier.start;
        report.bytes_written = report.bytes_written.saturating_add(earlier.bytes_written);
        report.elapsed_s += earlier.elapsed_s;
        report.tape_wait_s += earlier.tape_wait_s;
    }
    report
}

/// A report, and what happened after it.
fn with_error(
    devices: &DeviceHost,
    mut report: Report,
    code: Code,
    why: &CellError,
    observer: &dyn Observer,
) -> Report {
    let log = SessionLog::new(observer);
    log.say(code, "cell", &report.name, chain(why));
    let (count, mut errors) = (report.error_count, std::mem::take(&mut report.errors));
    log.fill(devices, &mut report);
    report.error_count += count;
    errors.append(&mut report.errors);
    report.errors = errors;
    report
}
