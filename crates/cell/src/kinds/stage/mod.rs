//! A stage session: what lies on disk is copied elsewhere, to tape as a rule, the copy is verified by reading it from there,
//! and then the disk's space is given back.
//!
//! The order keeps everything whatever is cut short: copies are recorded as they are committed; only what was read back and
//! found whole is given back; segments go from the disk before the database forgets their places. What was removed and not
//! forgotten yet is found gone by the next session, and forgotten then. Restores use the copy meanwhile.

mod candidates;
mod check;
mod give_back;
mod poor;
mod retire;
mod source;
mod target;

use std::collections::HashMap;
use std::sync::atomic::Ordering::Relaxed;

use capstan_address::Address;
use capstan_engine::message::Code;
use capstan_format::id::VersionId;
use capstan_idb::Status;
use capstan_port::media::write::members::Member;

use self::candidates::{Candidate, choose};
pub(crate) use self::check::{has_all_of, is_whole};
pub use self::poor::PoorMedium;
pub use self::retire::RetireRequest;
use self::source::Sources;
use crate::Cell;
use crate::drives::drive_key::{ByDrive, of_target};
use crate::error::{Result, StageRefusal};
use crate::kinds::copy::staged_on::Target;
use crate::kinds::copy::{Copied, Route};
use crate::kinds::skeleton::SessionRun;
use crate::media::refuse_new_medium_of;
use crate::observe::{Observer, Stop};
use crate::report::{Report, Staged, StagedVersion};
use crate::request::{StageRequest, Turn};
use crate::session::{SessionLog, rfc3339};
use crate::supply::tapes::Supply;
use crate::supply::unfit::IS_READ;
use crate::versions::protect::say_not_locked;

impl Cell {
    /// Stages versions.
    pub fn stage(
        &self,
        request: &StageRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let session = SessionRun::begin(self, STAGE, stop)?;
        let log = SessionLog::new(observer);
        self.sound_pages()?;
        let sources = self.stage_sources(&request.source)?;
        self.refuse_stage_to(request, &sources)?;
        self.say_left_out(&sources, &log)?;
        let target = Target::foreseen(self, request);
        self.end_dead_leases(&log, stop)?;
        let mut candidates = self.stage_candidates(&sources, target.as_ref())?;
        choose(&mut candidates, request.begun_before_us, request.keep);
        let nothing = !candidates.iter().any(Candidate::goes);
        if request.dry_run || nothing {
            let mut staged = Staged { dry_run: request.dry_run, ..Staged::default() };
            staged.versions = described(&candidates, request.dry_run, true, request.dry_run);
            staged.count();
            let mut report = not_staged(&session, &sources, staged, &log);
            report.notes.extend(nothing.then(|| "there is nothing to stage".to_owned()));
            log.fill(&*self.devices, &mut report);
            return Ok(report);
        }
        let mut staged = Staged::default();
        let chosen: Vec<_> =
            candidates.iter().filter(|c| c.goes()).map(|c| c.version.clone()).collect();
        let ids: Vec<VersionId> = chosen.iter().map(|v| v.id).collect();
        let reading = self.hold_versions(&ids)?;
        let by_drive = ByDrive::of_copy(request.encrypt);
        let from = sources.media.iter().map(|source| source.row.device.clone());
        let from: Vec<Address> = from.collect();
        let pool = request.pool.as_deref();
        let _booked = self.book_drives_to_read(&request.device, pool, &from)?;
        let member = self.stage_member(request, by_drive, &[], &sources)?;
        let target = Target::of(request, member.medium.medium);
        let encryption = of_target(&member.medium);
        session.record_begin(destination(request), None, None)?;
        let mut progress =
            self.copy_to_stage(member, &chosen, &sources, &target, request, &log, stop)?;
        staged.copied_bytes = progress.written;
        // What is locked is locked on every medium that has it.
        if let Err(e) = self.lock_on(&chosen, &progress.written_to) {
            say_not_locked(&log, &sources.name, &e);
        }
        if stop.0.load(Relaxed) {
            log.stopped(&sources.name);
        } else {
            let checked = self.check_copies(&chosen, &sources, &target, &log, stop)?;
            staged.verified_bytes = checked.bytes;
            keep_bad(&mut candidates, &checked.bad);
            if stop.0.load(Relaxed) {
                log.stopped(&sources.name);
            } else {
                // Others hold what they read, and it stays.
                drop(reading);
                self.end_dead_leases(&log, stop)?;
                self.give_back(&sources, &mut candidates, &checked.relied_on, &mut staged, &log)?;
            }
        }
        let stopped = stop.0.load(Relaxed);
        staged.versions = described(&candidates, !stopped, false, false);
        staged.count();
        let status = session.status(progress.failed, progress.degraded, &log);
        let mut report = Report { encryption, ..session.report(&sources.name, status) };
        progress.fill(self, &mut report, progress.copying_s, &log);
        report.elapsed_s = session.elapsed_s();
        report.staged = Some(staged);
        let at = sources.media.iter().map(|s| s.row.device.to_string()).collect::<Vec<_>>();
        self.back_up_idb_on(at.iter().map(String::as_str), &log);
        log.fill(&*self.devices, &mut report);
        session.record_end(status, &report)?;
        self.back_up_idb(&request.device, progress.last.as_slice(), &log, &mut report);
        self.retire_poor_tapes(&mut report, observer, stop);
        Ok(report)
    }

    /// Says of which sources nothing is staged, as their locks cannot be read.
    fn say_left_out(&self, sources: &Sources, log: &SessionLog<'_>) -> Result<()> {
        for source in &sources.media {
            if let Err(why) = &source.locks
                && self.idb.holdings(source.row.id)?.segments > 0
            {
                let text = format!("nothing of it is staged: {why}");
                log.say(Code::Missing, "media agent", &source.row.label, text);
            }
        }
        Ok(())
    }

    /// Copies what is not on the target yet; a pool has further media where one fails.
    #[expect(clippy::too_many_arguments, reason = "what a session has in hand")]
    fn copy_to_stage(
        &self,
        member: Member,
        chosen: &[capstan_idb::Version],
        sources: &Sources,
        target: &Target,
        request: &StageRequest,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> Result<Copied> {
        let by_drive = ByDrive::of_copy(request.encrypt);
        let going_on = by_drive.going_on(&member.medium);
        let supply = Supply::of(request.pool.as_deref(), [&request.device]).in_turn(request.turn);
        let route = Route {
            name: &sources.name,
            versions: chosen,
            is_source: &|id| sources.has(id),
            is_target: &|id| target.has(self, id) && !sources.has(id),
            log_level: None,
            supply: supply
                .encrypted(by_drive)
                .but(sources.ids().into_iter().map(|id| (id, IS_READ.into()))),
            next: match target {
                Target::Medium(_) => None,
                _ => Some(&|passed| self.stage_member(request, going_on, passed, sources)),
            },
        };
        self.copy_along(&route, member, log, stop)
    }

    /// Refuses a target that can be seen to be none before anything is opened.
    fn refuse_stage_to(&self, request: &StageRequest, sources: &Sources) -> Result<()> {
        refuse_new_medium_of(request.pool.as_deref(), request.new_medium)?;
        let device = request.pool.is_none().then_some(&request.device);
        device.map_or(Ok(()), |device| self.devices.refuse_no_drive(device))?;
        self.check_by_drive(ByDrive::of_copy(request.encrypt), device)?;
        if matches!(request.turn, Turn::Night(_)) {
            self.refuse_sets(request.pool.as_deref(), &request.device, "staged")?;
        }
        match &request.pool {
            Some(pool) => {
                self.pool(pool)?;
                if sources.pool.as_ref() == Some(pool) {
                    return Err(StageRefusal::PoolToItself.into());
                }
            }
            None if request.device.keeps_nothing() => {
                return Err(StageRefusal::NullKeepsNoCopy.into());
            }
            None => {}
        }
        Ok(())
    }
}

/// Where a stage copies to, for people.
fn destination(request: &StageRequest) -> String {
    match &request.pool {
        Some(pool) => format!("pool:{pool}"),
        None => request.device.to_string(),
    }
}

/// What became of the versions that were chosen, and of those that could not be; in a dry run, what would. Where asked for, also of
/// those that were passed over.
fn described(
    candidates: &[Candidate],
    done: bool,
    dry_run: bool,
    passed_over: bool,
) -> Vec<StagedVersion> {
    let copied = if dry_run { "it would be copied" } else { "it is copied" };
    let kept = |why: &String| format!("{why}: {copied}, and stays on disk until then");
    let passed = |c: &Candidate| c.passed_over.clone().filter(|_| passed_over);
    let of = |c: &Candidate| StagedVersion {
        name: c.name.clone(),
        session: c.session.clone(),
        start: rfc3339(c.version.created_us),
        bytes: c.bytes,
        staged: done && c.is_given_back(),
        why: c
            .stays
            .clone()
            .or_else(|| passed(c))
            .or_else(|| c.locked.as_ref().filter(|_| done).map(kept)),
    };
    let said = |c: &&Candidate| c.chosen || c.stays.is_some() || passed(c).is_some();
    candidates.iter().filter(said).map(of).collect()
}

/// The kind of session.
const STAGE: &str = "stage";

/// By version, why something of it is not given back.
type Reasons = HashMap<VersionId, String>;

/// Lets those stay on disk of which not all has a whole copy.
fn keep_bad(candidates: &mut [Candidate], bad: &Reasons) {
    for candidate in candidates {
        if let Some(why) = bad.get(&candidate.version.id) {
            candidate.stays = Some(why.clone());
        }
    }
}

/// The report of a session that copied nothing, and is not on record.
fn not_staged(
    session: &SessionRun<'_>,
    sources: &Sources,
    staged: Staged,
    log: &SessionLog<'_>,
) -> Report {
    let status = match log.error_count() as usize {
        0 => Status::Completed,
        away if away < sources.media.len() => Status::CompletedWithErrors,
        _ => Status::Failed,
    };
    let of = session.report(&sources.name, status);
    Report { session: String::new(), staged: Some(staged), ..of }
}
