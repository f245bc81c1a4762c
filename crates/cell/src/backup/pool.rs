//! A backup to a pool or a library: the medium is chosen by policy, and when it is full or fails, the next one goes on.
//!
//! Where a drive warns before the end of its tape, the session itself goes on on the next one. Else a segment is in the middle
//! when a medium takes no more: what of it had no room is read again by a session that resumes the first on the next medium.
//! Both make one version.

use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::message::Code;
use capstan_format::id::MediumId;

use crate::Cell;
use crate::drive_key::ByDrive;
use crate::error::{CellError, Result, chain};
use crate::observe::{Observer, Stop};
use crate::report::{NOTHING_COMMITTED, Report};
use crate::request::{BackupRequest, Source};
use crate::session::Ears;

/// So many media that fail one after the other are not the media's fault.
const FAILURES: usize = 3;

impl Cell {
    /// Backs up to the media of a pool or library.
    pub(super) fn backup_to_supply(
        &self,
        request: &BackupRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let mut request = request.clone();
        let by_drive = ByDrive::of_backup(request.encrypt);
        let mut passed: Vec<(MediumId, &'static str)> = Vec::new();
        let mut avoid: Vec<MediumId> = Vec::new();
        let mut busy: Option<CellError> = None;
        let mut last: Option<Report> = None;
        let mut failures = 0;
        loop {
            let mut chosen = None;
            if let Some(pool) = request.pool.clone() {
                let medium = match self.allocate(&pool, by_drive, &passed, request.dry_run) {
                    Ok(medium) => medium,
                    Err(e) => {
                        return match (last, busy) {
                            (Some(report), _) => Ok(without_next(report, &e, observer)),
                            (None, Some(busy)) => Err(busy),
                            (None, None) => Err(e),
                        };
                    }
                };
                request.device = medium.device.parse()?;
                chosen = Some(medium.id);
            }
            match self.backup_to_device(&request, &avoid, observer, stop) {
                Err(CellError::Device(e)) if e.is_out_of_reach() && chosen.is_some() => {
                    let why = if e.is_busy() { "is in use" } else { "is out of reach now" };
                    passed.extend(chosen.map(|id| (id, why)));
                    busy = Some(e.into());
                }
                Err(e) => {
                    return match last {
                        Some(report) => Ok(without_next(report, &e, observer)),
                        None => Err(e),
                    };
                }
                Ok(report) => {
                    let report = joined(last, report);
                    failures += usize::from(report.device_failed && !report.device_full);
                    let goes_on = report.device_failed
                        && failures < FAILURES
                        && matches!(request.source, Source::Paths(_))
                        && !stop.0.load(Relaxed);
                    if !goes_on {
                        return Ok(report);
                    }
                    let why = if report.device_full { "is full" } else { "failed" };
                    passed.extend(chosen.map(|id| (id, why)));
                    avoid = self.media_called(&report.media)?;
                    request.resume = true;
                    last = Some(report);
                }
            }
        }
    }
}

/// A report of all sessions that one backup took: what was read for nothing is read again, and counts once.
fn joined(earlier: Option<Report>, mut report: Report) -> Report {
    if let Some(earlier) = earlier {
        let mut media = earlier.media;
        media.retain(|label| !report.media.contains(label));
        media.append(&mut report.media);
        report.media = media;
        report.drives.splice(0..0, earlier.drives);
        let notes = earlier.notes.into_iter().filter(|note| note != NOTHING_COMMITTED);
        report.notes.splice(0..0, notes.collect::<Vec<_>>());
        report.start = earlier.start;
        report.bytes_written = report.bytes_written.saturating_add(earlier.bytes_written);
        report.elapsed_s += earlier.elapsed_s;
    }
    report
}

/// The report of a backup that would have gone on and had nowhere to.
fn without_next(mut report: Report, why: &CellError, observer: &dyn Observer) -> Report {
    let ears = Ears::new(observer);
    ears.say(Code::DeviceFailed, "cell", &report.name, chain(why));
    let (count, mut errors) = (report.error_count, std::mem::take(&mut report.errors));
    ears.fill(&mut report);
    report.error_count += count;
    errors.append(&mut report.errors);
    report.errors = errors;
    report
}
