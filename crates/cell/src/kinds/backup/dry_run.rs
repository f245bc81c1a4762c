//! A dry run: what a backup would do, name by name, and its counts. Nothing is written, and no tape is loaded for it.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::ladder::Ladder;
use capstan_format::id::MediumId;
use capstan_format::keys::{KeyRecord, SessionKeys};
use capstan_port::disk::backup::EachForeseen;

use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::Result;
use crate::kinds::backup::job::{Job, Written};
use crate::kinds::backup::plan::Plan;
use crate::observe::{Observer, Stop};
use crate::report::Report;
use crate::request::{BackupRequest, Encrypt, Turn};
use crate::session::{SessionLog, now_us};

impl Cell {
    /// What a backup would do: calls with what becomes of each name, and gives the report of a dry run.
    pub fn foresee_backup(
        &self,
        request: &BackupRequest,
        observer: &dyn Observer,
        stop: &Stop,
        each: &mut EachForeseen<'_>,
    ) -> Result<Report> {
        let mut request = request.clone();
        self.check_encryption(&request)?;
        if let Some(pool) = &request.pool {
            let by_drive = ByDrive::of_backup(request.encrypt);
            let mut passed = Vec::new();
            self.pass_over_without_drive(pool, &request, &mut passed)?;
            let medium =
                self.allocate(pool, Turn::of_run(request.run_us), by_drive, &mut passed, true)?;
            request.device = medium.device.clone();
        }
        let log = SessionLog::new(observer);
        let plan = self.plan(&request, &log)?;
        if !plan.null {
            self.refuse_in_clear(&request, &plan.name)?;
        }
        self.foresee_devices(&request)?;
        self.dry_run(&request, plan, log, stop, now_us(), each)
    }

    /// The same of what is planned.
    pub(super) fn dry_run(
        &self,
        request: &BackupRequest,
        plan: Plan,
        log: SessionLog<'_>,
        stop: &Stop,
        started_us: i64,
        each: &mut EachForeseen<'_>,
    ) -> Result<Report> {
        let by_drive = request.encrypt == Some(Encrypt::Drive);
        let keys = if by_drive { None } else { self.session_keys(&log)? };
        let media = self.media_foreseen(request)?;
        let job = self.job(request, plan, log, &media, keys.as_ref(), started_us)?;
        job.foresee(self, keys.as_ref(), started_us, stop, each)
    }

    /// The media that would be written, as far as that is known: which tape it is, shows when it is loaded, and it is taken that the
    /// last version is on it.
    fn media_foreseen(&self, request: &BackupRequest) -> Result<Vec<MediumId>> {
        let devices = std::iter::once(&request.device).chain(&request.mirrors).collect();
        let (written, _) = self.without_away(request, devices)?;
        let kept = written.into_iter().filter(|a| !a.keeps_nothing() && a.tapes().is_empty());
        kept.map(|address| match self.devices.medium(address) {
            Ok(there) => Ok(there.header().medium),
            // One that is made has nothing yet.
            Err(_) => Ok(MediumId(self.new_id()?)),
        })
        .collect()
    }
}

impl Job<'_> {
    fn foresee(
        mut self,
        cell: &Cell,
        keys: Option<&(SessionKeys, KeyRecord)>,
        started_us: i64,
        stop: &Stop,
        each: &mut EachForeseen<'_>,
    ) -> Result<Report> {
        let cursor = self.cursor.take();
        let order = self.order(cell, keys)?;
        let ready = self.plan.client.agent.ready(order, &Arc::new(Ladder::default()))?;
        let done = self.foresee_by_agent(stop, cursor, ready, each)?;
        let ending = self.ending(cell, &done, stop.0.load(Relaxed), 0)?;
        let written = Written {
            media: &[],
            media_change_s: 0.0,
            elapsed_s: (now_us() - started_us) as f64 / 1e6,
            rate_sustained: 0.0,
            bytes: 0,
            device_full: false,
            device_failed: false,
            failure: None,
            full_media: &[],
            device_lost: false,
            encryption: None,
        };
        let mut report = self.report(&ending, &written);
        let would = match self.plan.method.as_str() {
            "incr" => "it would be incremental".to_owned(),
            method => format!("it would be {method}"),
        };
        report.notes.insert(0, would);
        report.session = String::new();
        report.method = "dry run".to_owned();
        self.log.fill(&*cell.devices, &mut report);
        Ok(report)
    }
}
