//! A backup to a pool: the medium is chosen by the pool's policy, and when it is full, the next one goes on.
//!
//! A segment is written for one medium, so a medium is not changed in the middle of one: what of the last segment had no
//! room is read again by a session that resumes the first on the next medium. Both make one version.

use std::sync::atomic::Ordering::Relaxed;

use capstan_devices::DeviceError;
use capstan_engine::message::Code;
use capstan_format::id::MediumId;

use crate::Cell;
use crate::error::{CellError, Result, chain};
use crate::observe::{Observer, Stop};
use crate::report::Report;
use crate::request::{BackupRequest, Source};
use crate::session::Ears;

impl Cell {
    /// Backs up to the media of a pool.
    pub(super) fn backup_to_pool(
        &self,
        pool: &str,
        request: &BackupRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let mut request = request.clone();
        let mut passed: Vec<(MediumId, &'static str)> = Vec::new();
        let mut busy: Option<CellError> = None;
        let mut last: Option<Report> = None;
        loop {
            let medium = match self.allocate(pool, &passed, request.dry_run) {
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
            match self.backup_to_device(&request, observer, stop) {
                Err(e @ CellError::Device(DeviceError::Busy { .. })) => {
                    passed.push((medium.id, "is in use"));
                    busy = Some(e);
                }
                Err(e) => return last.ok_or(e),
                Ok(report) => {
                    let report = joined(last, report);
                    let goes_on = report.device_full
                        && matches!(request.source, Source::Paths(_))
                        && !stop.0.load(Relaxed);
                    if !goes_on {
                        return Ok(report);
                    }
                    passed.push((medium.id, "is full"));
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
