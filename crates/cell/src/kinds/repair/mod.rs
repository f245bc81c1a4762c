//! Making a medium whole again: its header file, where that is damaged, from its segments; and segments of which something is
//! damaged or missing, written anew on it, in new segments, from themselves and from wherever what they lack is whole, and read
//! back. What was damaged goes from a directory when that is done, and is read last from then on where it stays, as on tape. What
//! is damaged and no version needs goes without that. What is attached to a tape and damaged is written anew at its end. Whatever is cut short can be done again.

mod find;
mod header;
mod replace;
mod same;
mod unneeded;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use capstan_address::{Address, HostName};
use capstan_engine::message::{Code, shell_word};
use capstan_engine::meter::{Meters, Stage};
use capstan_format::id::{MediumId, SegmentId, SessionId};
use capstan_idb::{Medium, Status, Version};
use capstan_medium::host::DeviceHost;

use self::find::Found;
use self::header::HeaderMended;
use crate::Cell;
use crate::drives::attached::DamagedAttachment;
use crate::error::{RepairRefusal, Result, chain};
use crate::media::unreadable::lost_header;
use crate::observe::{Observer, Stop};
use crate::reading::bring::nearest_first;
use crate::reading::version::VersionView;
use crate::report::Report;
use crate::session::transfers::Moved;
use crate::session::{SessionLog, now_us, peak_rss, rfc3339};

/// The kind of session.
const REPAIR: &str = "repair";

/// A medium that is to be made whole again.
#[derive(Debug, Clone, Default)]
pub struct RepairRequest {
    /// Its label, the begin of its id, or its device.
    pub medium: String,
    /// The only medium from which what it lacks is taken, if one is named; else all that are at hand.
    pub from: Option<String>,
    /// Whether segments go of which nothing can be read and the database knows nothing.
    pub remove_unreadable: bool,
    /// Whether the medium is the one that was written, though its end is not as it was last written.
    pub as_it_is: bool,
    /// Only say what would be done.
    pub dry_run: bool,
}

/// A repair that runs.
struct Repair<'a> {
    cell: &'a Cell,
    row: Medium,
    address: Address,
    /// The versions that have something on the medium and were not given up.
    versions: Vec<Version>,
    meters: Arc<Meters>,
    log: &'a SessionLog<'a>,
    stop: &'a Stop,
    remove_unreadable: bool,
    as_it_is: bool,
    dry_run: bool,
    started_us: i64,
    /// The header file was written anew before.
    mended_header: bool,
    /// What is wrong with the first block of a tape, and what can be done.
    lost_header: Option<String>,
    /// How it differs from the medium that was last written.
    changed: Option<String>,
    /// What it lacks as it does: what stays lacking of that is no damage.
    lacking: HashSet<SegmentId>,
}

/// What came of it.
#[derive(Default)]
struct Outcome {
    session: Option<SessionId>,
    failed: bool,
    /// Bytes that were written.
    written: u64,
    /// Segments that are whole again.
    whole: usize,
    /// Attachments stay damaged.
    lacks_attachments: bool,
    /// Damaged segments stay that nobody needs.
    kept: bool,
}

impl Cell {
    /// Makes a medium whole again, as far as what it lacks is whole anywhere at hand.
    pub fn media_repair(
        &self,
        request: &RepairRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let (begun_at, started_us) = (Instant::now(), now_us());
        let log = SessionLog::new(observer);
        let from = request.from.as_ref().map(|from| self.find_medium(from)).transpose()?;
        let mended_header = match self.mend_header(request, from.as_ref(), started_us, &log)? {
            HeaderMended::All(report) => return Ok(*report),
            HeaderMended::File => true,
            HeaderMended::Nothing => false,
        };
        let row = self.find_medium(&request.medium)?;
        self.refuse_retired(row.id, &row.label)?;
        refuse_itself(from.as_ref(), row.id, &row.label)?;
        let address = &row.device;
        let medium = self.open_known(&row, address)?;
        // It may be found elsewhere.
        let (row, address) = self.place_of(row.id)?;
        self.refuse_other_cells(medium.header(), &address.to_string())?;
        self.open_drive_key(medium.header())?;
        let changed = self.changed_to_mend(&address, &medium, request.as_it_is)?;
        if !request.dry_run {
            self.refuse_read(row.id)?;
            self.record_all_unknown(&medium)?;
        }
        let versions = self.versions_to_mend(&row)?;
        let ids: Vec<_> = versions.iter().map(|v| v.id).collect();
        let reading = self.hold_versions(&ids)?;
        let mut views = self.views_to_mend(&versions, row.id, from.as_ref().map(|from| from.id))?;
        let lacking = self.lacking_as_changed(&medium)?;
        let repair = Repair {
            cell: self,
            row,
            address,
            versions,
            meters: Arc::new(Meters::default()),
            log: &log,
            stop,
            remove_unreadable: request.remove_unreadable,
            as_it_is: request.as_it_is,
            dry_run: request.dry_run,
            started_us,
            mended_header,
            lost_header: lost_header(&medium).map(|(what, text)| format!("{what}: {text}")),
            changed,
            lacking,
        };
        let found = repair.find(&medium, &views)?;
        let degraded = self.say_members(&medium, &log);
        drop(medium);
        let mut report = repair.report();
        let mut outcome = repair.mend(&found, &mut views, &mut report)?;
        // Others may have begun to read meanwhile: what they read stays then.
        drop(reading);
        let may_write = !request.dry_run && !outcome.failed && repair.lost_header.is_none();
        if may_write && !stop.0.load(Relaxed) {
            repair.replace(&views, &found, &mut outcome)?;
            outcome.kept = repair.remove_unneeded(&found.unneeded)?;
            outcome.lacks_attachments = !repair.attach_anew(&found.attachments, &mut report)?;
        }
        if !stop.0.load(Relaxed) {
            report.corrupt = repair.name_lost(&views, &found.broken, &mut report)?;
        }
        repair.note(&found, &outcome, &mut report)?;
        if stop.0.load(Relaxed) {
            log.stopped(&repair.row.label);
        }
        let status = repair.status(&outcome, degraded);
        let moved = Moved {
            read: repair.meters.of(Stage::Source).read().bytes,
            written: outcome.written,
            elapsed_s: begun_at.elapsed().as_secs_f64(),
        };
        moved.fill(&mut report, &repair.meters, None);
        repair.end(outcome.session, status, report)
    }

    /// The versions of which something is on a medium, without those that were given up, the oldest first. Refused while one is being
    /// written there.
    fn versions_to_mend(&self, row: &Medium) -> Result<Vec<Version>> {
        let given_up = self.given_up()?;
        let mut versions = Vec::new();
        for id in self.idb.versions_on_medium(row.id)? {
            versions.extend(self.idb.version(id)?.filter(|v| !given_up.contains(&v.id)));
        }
        versions.sort_by_key(|v: &Version| (v.created_us, v.id));
        match versions.iter().find(|v| v.status == Status::Running) {
            Some(running) => {
                Err(RepairRefusal::SessionWrites { version: running.id, label: row.label.clone() }
                    .into())
            }
            None => Ok(versions),
        }
    }

    /// Those versions, open, with their places on that medium and on the one to take from, where one is named.
    fn views_to_mend(
        &self,
        versions: &[Version],
        row: MediumId,
        from: Option<MediumId>,
    ) -> Result<Vec<VersionView<'_>>> {
        let source = |id: MediumId| id == row || from.is_none_or(|from| from == id);
        let mut views = Vec::new();
        for version in versions {
            let mut view = VersionView::open_alone(self, version.clone())?;
            view.keep_places(&source);
            self.open_drive_keys(&view)?;
            views.push(view);
        }
        nearest_first(self, &mut views)?;
        Ok(views)
    }
}

/// What is done with a medium on which nothing can be written anew.
fn full_way(label: &str) -> String {
    format!(
        "`capstan media retire {}` gives it up, and brings what no other medium has to another one, as far as that is whole anywhere",
        shell_word(label)
    )
}

impl Repair<'_> {
    /// An empty report.
    fn report(&self) -> Report {
        report_of(self.cell.host(), &self.row.label, self.started_us, self.dry_run)
    }

    /// Writes anew what can be mended, or says what would be.
    fn mend(
        &self,
        found: &Found,
        views: &mut [VersionView<'_>],
        report: &mut Report,
    ) -> Result<Outcome> {
        let mut outcome = Outcome::default();
        if let Some(text) = &self.lost_header {
            self.log.say(Code::Damaged, "media agent", &self.row.label, text.clone());
            return Ok(outcome);
        }
        let helps = || found.broken.iter().filter(|b| b.helps);
        if let Some(text) = self.full()?
            && (helps().next().is_some() || !found.attachments.is_empty())
        {
            self.log.say(Code::Damaged, "cell", &self.row.label, text);
            outcome.failed = !self.dry_run;
            return Ok(outcome);
        }
        if self.dry_run {
            for b in helps() {
                let text = format!("segment {} would be written anew: {}", b.number(), b.why);
                report.notes.push(text);
            }
            for u in found.unneeded.iter().filter(|u| u.goes) {
                let text = format!("segment {} would be removed: {}", u.number.0, u.why);
                report.notes.push(text);
            }
            for DamagedAttachment { it, why } in &found.attachments {
                let (kind, number) = (&it.attachment, it.number.0);
                report.notes.push(format!("{kind} {number} would be written anew: {why}"));
            }
            return Ok(outcome);
        }
        if helps().next().is_none() || self.stop.0.load(Relaxed) {
            return Ok(outcome);
        }
        let id = SessionId(self.cell.new_id()?);
        let session = self.cell.begun(id, REPAIR, self.row.device.to_string(), self.started_us);
        self.cell.begin_session(&session, None)?;
        outcome.session = Some(id);
        match self.write_anew(views, &found.broken, report) {
            Ok(done) => (outcome.failed, outcome.written) = done,
            Err(e) => {
                outcome.failed = true;
                self.log.say(Code::DeviceFailed, "cell", &self.row.label, chain(&e));
            }
        }
        Ok(outcome)
    }

    /// That nothing can be written anew on a tape, as it is full, and what is to be done then.
    fn full(&self) -> Result<Option<String>> {
        let is_full = self.cell.idb.management(self.row.id)?.full_us.is_some();
        Ok((is_full && self.address.is_sequential()).then(|| {
            format!("it is full, so nothing is written anew on it: {}", full_way(&self.row.label))
        }))
    }

    /// Puts into report and database what came of it.
    fn note(&self, found: &Found, outcome: &Outcome, report: &mut Report) -> Result<()> {
        let (broken, label) = (&found.broken, &self.row.label);
        let text = match (broken.len(), self.dry_run) {
            (0, _) => {
                format!("nothing on '{label}' that a version needs is damaged or missing")
            }
            (n, true) => format!(
                "of '{label}' {n} segments are damaged or missing; {} can be mended",
                match self.full()? {
                    Some(_) => 0,
                    None => broken.iter().filter(|b| b.is_to_be_had()).count(),
                }
            ),
            (n, false) => format!(
                "of '{label}' {n} segments were damaged or missing; {} are whole again",
                outcome.whole
            ),
        };
        report.notes.push(text);
        if self.stop.0.load(Relaxed) || self.dry_run && broken.is_empty() {
            return Ok(());
        }
        let is_mended =
            outcome.whole == broken.len() && !outcome.kept && !outcome.lacks_attachments;
        let is_mended = is_mended && self.lost_header.is_none();
        let (idb, id) = (&self.cell.idb, self.row.id);
        // Whoever finds damage says so, also if he only looked.
        if is_mended && !self.dry_run {
            let mended = self.mended_header || !found.is_empty();
            return self.cell.note_sound(id, mended);
        }
        if let Some(text) = &self.changed {
            self.log.say(Code::MediumChanged, "cell", label, text.clone());
        }
        let places = broken.iter().flat_map(|b| &b.places).map(|at| at.0);
        let damaged: Vec<_> = places.filter(|id| !self.lacking.contains(id)).collect();
        // Where no segment is broken, something else of the medium is.
        if !damaged.is_empty() || broken.is_empty() {
            idb.put_damage(id, &damaged, now_us())?;
        }
        Ok(())
    }

    /// How it ended; `degraded` says that it has errors which were not said as such.
    fn status(&self, outcome: &Outcome, degraded: bool) -> Status {
        let stopped = self.stop.0.load(Relaxed);
        match self.log.error_count() > 0 || degraded {
            _ if outcome.failed => Status::Failed,
            _ if stopped => Status::Incomplete,
            true => Status::CompletedWithErrors,
            false => Status::Completed,
        }
    }

    /// Completes the report and puts it on record.
    fn end(
        &self,
        session: Option<SessionId>,
        status: Status,
        mut report: Report,
    ) -> Result<Report> {
        close(&*self.cell.devices, &mut report, status, self.log);
        match session {
            Some(id) => {
                report.session = id.to_string();
                self.cell.record_end(id, status, &report, None)?;
            }
            None if self.dry_run => {}
            None => self.cell.record(&mut report, REPAIR, self.started_us, status)?,
        }
        Ok(report)
    }
}

/// Refuses a medium as what it is to be repaired from.
fn refuse_itself(from: Option<&Medium>, id: MediumId, label: &str) -> Result<()> {
    match from.filter(|from| from.id == id) {
        None => Ok(()),
        Some(_) => Err(RepairRefusal::FromItself { label: label.to_owned() }.into()),
    }
}

/// The report of a repair that begins.
fn report_of(host: &HostName, label: &str, started_us: i64, dry_run: bool) -> Report {
    Report {
        name: label.to_owned(),
        host: host.to_owned(),
        method: if dry_run { "dry run" } else { REPAIR }.to_owned(),
        start: rfc3339(started_us),
        media: vec![label.to_owned()],
        ..Report::default()
    }
}

/// Says in a report how it ended.
fn close(devices: &dyn DeviceHost, report: &mut Report, status: Status, log: &SessionLog<'_>) {
    report.status = status.to_string();
    report.end = rfc3339(now_us());
    report.peak_rss_bytes = peak_rss();
    log.fill(devices, report);
}
