//! Backup sessions: of one object, or of several that are written together, a session each.

pub(crate) mod anomaly;
pub(crate) mod base;
mod media;
pub(crate) mod source;

mod agent;
mod dry_run;
mod empty_input;
mod handed_over;
mod job;
mod look_back;
mod plan;
mod roots;
mod unbegun;

use std::time::Instant;

use capstan_format::id::MediumId;
use capstan_format::keys::{Cipher, KeyRecord, NamesKey, SessionKeys};

pub(crate) use self::media::commit::{key_json, record_commit, stream_parts};
pub(crate) use self::media::lost::say_all_lost;
pub(crate) use self::media::segment_size::device_segment_size;
pub(crate) use self::media::went_on::joined;
use self::plan::Plan;
pub use self::plan::check_names;
use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{BackupRefusal, CellError, Result};
use crate::keys::keyring;
use crate::media::{check_location, recorded, refuse_new_medium_of};
use crate::observe::{Observer, Stop};
use crate::report::Report;
use crate::request::{BackupRequest, Encrypt, Turn};
use crate::session::{SessionLog, now_us};
use crate::supply::tapes::Supply;
use crate::supply::unfit::PassedOver;

impl Cell {
    /// Backs up.
    pub fn backup(
        &self,
        request: &BackupRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let mut reports = self.backup_together(std::slice::from_ref(request), observer, stop)?;
        reports.pop().unwrap_or_else(|| Err(BackupRefusal::NothingNamed.into()))
    }

    /// Backs up several objects at once: a session each, whose blocks are multiplexed on the media. All requests name the
    /// same media ([`BackupRequest::goes_with`]). Gives for each its report, or why it could not begin; fails where none could.
    pub fn backup_together(
        &self,
        requests: &[BackupRequest],
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Vec<Result<Report>>> {
        let Some(first) = requests.first() else { return Ok(Vec::new()) };
        if requests.iter().any(|r| !r.goes_with(first)) {
            return Err(BackupRefusal::NotTogether.into());
        }
        requests.iter().try_for_each(|request| self.check_encryption(request))?;
        refuse_new_medium_of(first.pool.as_deref(), first.new_medium)?;
        if !first.dry_run {
            self.refuse_full_home()?;
        }
        if let Some(location) = &first.eject_to {
            check_location(location)?;
        }
        for device in std::iter::once(&first.device).chain(&first.mirrors) {
            self.devices.refuse_no_drive(device)?;
        }
        let mut reports = match supply_of(first).is_none() {
            true => self.backup_to_device(requests, &[], observer, stop),
            false => self.backup_to_supply(requests, observer, stop),
        }?;
        // All wrote the same tapes.
        if let Some(report) = reports.iter_mut().flatten().next() {
            let retired = self.retire_poor_tapes(report, observer, stop);
            if let Some(location) = &first.eject_to {
                self.eject(report, &retired, location, observer);
            }
        }
        Ok(reports)
    }

    /// Backs up to a device; where that has several tapes, not to those to `avoid`.
    fn backup_to_device(
        &self,
        requests: &[BackupRequest],
        avoid: &[PassedOver],
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Vec<Result<Report>>> {
        let begun = Instant::now();
        let started_us = now_us();
        let Some(first) = requests.first() else { return Ok(Vec::new()) };
        let mut planned = self.planned(requests, observer);
        if first.dry_run {
            self.foresee_devices(first)?;
            let dry_run = |(request, plan, log): Planned<'_>| {
                self.dry_run(request, plan, log, stop, started_us, &mut |_| ())
            };
            return Ok(planned.into_iter().map(|planned| planned.and_then(dry_run)).collect());
        }
        if planned.iter().all(Result::is_err) {
            return Ok(planned.into_iter().map(|planned| Err(refused(planned))).collect());
        }
        // What is said of the media is of all jobs.
        let log = SessionLog::new(observer);
        self.check_pages(&log);
        let by_drive = first.encrypt == Some(Encrypt::Drive);
        let keys = if by_drive { None } else { self.session_keys(&log)? };
        // Before the jobs are, as the medium may have more of the objects than the database knows.
        let opened = self.open_devices(first, avoid, observer, &log)?;
        let ids: Vec<MediumId> = opened.members.iter().map(|m| m.medium.medium).collect();
        let headers: Vec<_> = opened.members.iter().map(|m| m.medium.clone()).collect();
        self.say_closed(first, &headers, &log)?;
        let mut jobs = Vec::new();
        let mut refused = Vec::new();
        for (at, planned) in planned.drain(..).enumerate() {
            let job = planned.and_then(|(request, plan, log)| {
                self.job(request, plan, log, &ids, keys.as_ref(), started_us)
            });
            match job {
                Ok(job) => jobs.push(job),
                Err(e) => refused.push((at, e)),
            }
        }
        if jobs.is_empty() {
            return Ok(refused.into_iter().map(|(_, e)| Err(e)).collect());
        }
        // Sessions that are written together begin at one time.
        let started_us = jobs.iter().map(|job| job.label.started_us).max().unwrap_or(started_us);
        for job in &mut jobs {
            job.label.started_us = started_us;
            job.say_clock(self)?;
            job.record_begin(self, keys.as_ref())?;
        }
        let written = self.write_jobs(&mut jobs, opened, keys.as_ref(), begun, &log, stop)?;
        let mut reports: Vec<Result<Report>> = written.into_iter().map(Ok).collect();
        for (at, why) in refused {
            reports.insert(at, Err(why));
        }
        Ok(reports)
    }

    /// What is settled of each request; two have not the same name.
    fn planned<'a>(
        &self,
        requests: &'a [BackupRequest],
        observer: &'a dyn Observer,
    ) -> Vec<Result<Planned<'a>>> {
        let mut planned: Vec<Result<Planned<'a>>> = Vec::new();
        for request in requests {
            let log = SessionLog::new(observer);
            let plan = self.plan(request, &log).and_then(|plan| {
                match planned.iter().flatten().any(|(_, other, _)| other.name == plan.name) {
                    true => Err(BackupRefusal::NamedTwice { name: plan.name }.into()),
                    false => Ok(plan),
                }
            });
            let plan = plan.and_then(|plan| {
                if !plan.null {
                    self.refuse_in_clear(request, &plan.name)?;
                }
                Ok(plan)
            });
            planned.push(plan.map(|plan| (request, plan, log)));
        }
        planned
    }

    /// Keys of an encrypted session: where there is a key ring, every session is.
    pub(crate) fn session_keys(
        &self,
        log: &SessionLog<'_>,
    ) -> Result<Option<(SessionKeys, KeyRecord)>> {
        let Some(ring) = keyring::load(&self.home)? else { return Ok(None) };
        crate::process::guard::guard();
        let mut failed = None;
        let mut rng = |out: &mut [u8]| {
            if let Err(e) = self.entropy.fill(out) {
                failed = Some(e);
            }
        };
        let keys = SessionKeys::draw(&mut rng);
        let names = self.names_key_or_say(log);
        let grants: Vec<_> = names.iter().map(NamesKey::grant).collect();
        let record = KeyRecord::wrap(&keys, Cipher::best(), &ring, &grants, &mut rng)?;
        match failed {
            Some(e) => Err(CellError::io("read", "/dev/urandom")(e)),
            None => Ok(Some((keys, record))),
        }
    }
}

/// A request with what is settled of it.
type Planned<'a> = (&'a BackupRequest, Plan, SessionLog<'a>);

fn refused(planned: Result<Planned<'_>>) -> CellError {
    planned.err().unwrap_or_else(|| BackupRefusal::NothingNamed.into())
}

/// Where a backup gets its media.
fn supply_of(request: &BackupRequest) -> Supply {
    let devices = std::iter::once(&request.device).chain(&request.mirrors);
    let supply = Supply::of(request.pool.as_deref(), devices);
    supply.encrypted(ByDrive::of_backup(request.encrypt)).in_turn(Turn::of_run(request.run_us))
}

/// The devices that a backup writes to, as media have them recorded: by their whole paths, where they are there.
fn devices_of(request: &BackupRequest) -> String {
    let all = std::iter::once(&request.device).chain(&request.mirrors);
    all.map(recorded).collect::<Vec<_>>().join(", ")
}
