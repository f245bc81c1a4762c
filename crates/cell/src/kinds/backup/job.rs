//! One object's backup: what it builds on or goes on with, its session on record, its streams, its report.

use std::os::unix::ffi::OsStringExt;

use capstan_address::Address;
use capstan_engine::message::Code;
use capstan_format::id::{MediumId, ObjectId, SessionId, VersionId};
use capstan_format::keys::{KeyRecord, SessionKeys};
use capstan_format::record::{OtherEnd, SessionEnd, SessionLabel};
use capstan_idb::{LogLevel, Object, Session, Status, Totals, Version};
use capstan_wire::backup::{Counts, Noted};
use capstan_wire::source::{RootLink, RootsAsked, UsedAsked};

use super::devices_of;
use super::source::no_match;
use crate::Cell;
use crate::error::Result;
use crate::kinds::backup::base::files::Files;
use crate::kinds::backup::base::resume::{Cursor, Resumed, resumable};
use crate::kinds::backup::handed_over::HandedOver;
use crate::kinds::backup::plan::Plan;
use crate::kinds::backup::source::switched::say_missing;
use crate::observe::Progress;
use crate::report::Report;
use crate::request::{BackupRequest, Encrypt, Level, Source};
use crate::session::{SessionLog, now_us, peak_rss, rfc3339};
use crate::versions::lacking::Said;

/// An object that is backed up.
pub(super) struct Job<'a> {
    pub request: &'a BackupRequest,
    pub plan: Plan,
    /// What is said of it.
    pub log: SessionLog<'a>,
    pub label: SessionLabel,
    /// Whether it was backed up before.
    pub is_known: bool,
    /// Whether its version was begun by an earlier session.
    pub goes_on: bool,
    base_session: Option<SessionId>,
    /// The version that it builds on. A resumed run's base is its own version: that has not all of what it refers to.
    pub based_on: Option<VersionId>,
    /// What the disk agent looks names up in.
    pub cursor: Option<Cursor<'a>>,
    /// The files of that, to find those again that were moved.
    pub files: Option<Files<'a>>,
    /// Files and bytes to expect.
    pub expected: (u64, u64),
    /// Whether these are what file systems say is used on them.
    pub is_about: bool,
}

/// How a job ended, as far as it shows before its medium has all of it.
pub(super) struct Ending {
    pub status: Status,
    pub totals: Totals,
    counts: Counts,
    noted: Noted,
    input_failed: bool,
    /// The paths that its version lacks.
    lacks: Vec<String>,
    /// Its end for the medium; none of a session that did not come to its end.
    pub end: Option<SessionEnd>,
}

impl Ending {
    /// The same, as it stands beside the end of the session that a segment names.
    pub fn beside(&self, session: &SessionLabel) -> Option<OtherEnd> {
        self.end.clone().map(|end| OtherEnd { session: session.clone(), end })
    }
}

/// What of a report is of all jobs that were written together.
#[derive(Clone, Copy)]
pub(super) struct Written<'a> {
    pub media: &'a [String],
    pub media_change_s: f64,
    pub elapsed_s: f64,
    pub rate_sustained: f64,
    pub bytes: u64,
    pub device_full: bool,
    pub device_failed: bool,
    /// What it said then.
    pub failure: Option<&'a str>,
    /// Of several media those that were full.
    pub full_media: &'a [MediumId],
    /// Whether that was since its drive could not be reached.
    pub device_lost: bool,
    pub encryption: Option<Encrypt>,
}

impl Cell {
    /// Settles what an object is backed up as, to these media.
    pub(super) fn job<'a>(
        &'a self,
        request: &'a BackupRequest,
        mut plan: Plan,
        log: SessionLog<'a>,
        media: &[MediumId],
        keys: Option<&(SessionKeys, KeyRecord)>,
        started_us: i64,
    ) -> Result<Job<'a>> {
        let known = self.object_backed_up(&plan.name, &plan.client.host)?;
        let object = match &known {
            Some(o) => o.id,
            None => ObjectId(self.new_id()?),
        };
        let switched = self.look_above(known.as_ref(), &mut plan)?;
        if let Some(object) = known.as_ref().filter(|_| !plan.null) {
            self.say_what_leaves(object, request, &plan, &log)?;
        }
        no_match::say_useless(request, &plan, &log);
        // An input begins anew each time: there is nothing to go on with.
        let resume = request.resume && matches!(request.source, Source::Paths(_));
        let resumed = match (&known, resume) {
            (Some(o), true) => resumable(self, o, &log)?,
            _ => None,
        };
        let started_us = resumed
            .as_ref()
            .map_or(started_us, |r| started_us.max(r.parent_started_us.saturating_add(1)));
        self.refuse_or_warn_in_clear(request, &plan, keys, &log)?;
        let in_vain = known.as_ref().filter(|_| resume && resumed.is_none());
        let wanted = self.level_wanted(request, &plan, in_vain)?;
        let based = match (&known, &resumed) {
            (Some(o), None) => {
                self.base_for(o, wanted, media, keys.is_some(), &log, &mut plan.notes)?
            }
            (None, _) if wanted != Some(Level::Full) && !plan.null => {
                self.say_why_full(&plan, media, &log)?;
                None
            }
            _ => None,
        };
        let (method, base) = match (&resumed, &based) {
            (Some(r), _) => (r.version.method.clone(), r.version.base),
            (None, Some(b)) => (wanted.unwrap_or(Level::Incremental).to_string(), Some(b.version)),
            (None, None) => (Level::Full.to_string(), None),
        };
        plan.method = method;
        plan.never(self, request)?;
        let builds_on = resumed.is_some() || based.is_some();
        say_missing(&plan, &switched, builds_on, &log);
        let label = self.label_of_job(object, resumed.as_ref(), base, keys, started_us)?;
        let known_by_last = self.expected(label.object, label.version, label.base.is_none())?;
        let (links, used) =
            self.ask_roots(request, &plan, label.base.is_none().then_some(known_by_last))?;
        self.look_for_links(known.as_ref(), builds_on, links, &mut plan, &log)?;
        if !plan.trees.roots.is_empty() {
            plan.trees.mounted_last = self.mounted_last(known.as_ref().map(|object| object.id))?;
        }
        let files = base.map(|version| Files::of(self, version)).transpose()?;
        let (expected, is_about) = (used.unwrap_or(known_by_last), used.is_some());
        Ok(Job {
            request,
            plan,
            log,
            label,
            is_known: known.is_some(),
            goes_on: resumed.is_some(),
            base_session: based.as_ref().map(|b| b.session),
            based_on: based.as_ref().map(|b| b.version),
            cursor: resumed.map(|r| r.cursor).or(based.map(|b| b.cursor)),
            files,
            expected,
            is_about,
        })
    }

    /// As what a session and its version are known: the version is the one that it goes on with, or a new one.
    fn label_of_job(
        &self,
        object: ObjectId,
        resumed: Option<&Resumed<'_>>,
        base: Option<VersionId>,
        keys: Option<&(SessionKeys, KeyRecord)>,
        started_us: i64,
    ) -> Result<SessionLabel> {
        let version = resumed.map_or(VersionId(self.new_id()?), |r| r.version.id);
        Ok(SessionLabel {
            session: SessionId(self.new_id()?),
            object,
            version,
            parent: resumed.map(|r| r.parent),
            base,
            started_us,
            key: keys.map(|(k, _)| k.id),
            cipher: keys.map(|(_, r)| r.cipher()),
            state_us: None,
            stands_for: None,
        })
    }

    /// Asks the disk agent which roots are links; and of a full of which the last version does not say what to expect, how many files and
    /// bytes are used on its file systems.
    fn ask_roots(
        &self,
        request: &BackupRequest,
        plan: &Plan,
        full_expected: Option<(u64, u64)>,
    ) -> Result<(Vec<RootLink>, Option<(u64, u64)>)> {
        let roots = plan.trees.roots.clone();
        if roots.is_empty() {
            return Ok((Vec::new(), None));
        }
        let is_first = full_expected == Some((0, 0)) && request.sizes.is_none();
        let used = is_first.then(|| {
            let devices = std::iter::once(&request.device).chain(&request.mirrors);
            let aside = devices.flat_map(Address::directories);
            let aside = aside.map(|path| path.into_os_string().into_vec()).collect();
            UsedAsked { one_file_system: request.one_file_system, aside }
        });
        let found = plan.client.agent.roots(&RootsAsked { roots, used })?;
        Ok((found.links, found.used.map(|used| (used.inodes, used.bytes))))
    }

    /// Refuses to write in clear what was encrypted before, and warns of what is not encrypted.
    fn refuse_or_warn_in_clear(
        &self,
        request: &BackupRequest,
        plan: &Plan,
        keys: Option<&(SessionKeys, KeyRecord)>,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        let by_drive = request.encrypt == Some(Encrypt::Drive);
        if keys.is_some() || by_drive || plan.null {
            return Ok(());
        }
        // Again, as what the media have beyond the database is known by now: the home may be an older one.
        self.refuse_in_clear(request, &plan.name)?;
        self.warn_not_encrypted(&plan.name, log)
    }

    /// The level that a job has to have, if any. `in_vain` is the object of which an earlier backup was to be gone on with that has
    /// nothing.
    fn level_wanted(
        &self,
        request: &BackupRequest,
        plan: &Plan,
        in_vain: Option<&Object>,
    ) -> Result<Option<Level>> {
        // Neither an input nor a test of the source's speed builds on anything.
        if plan.trees.roots.is_empty() || plan.null && request.level.is_none() {
            return Ok(Some(Level::Full));
        }
        // What was to be gone on with was a full backup: this one is begun in its place.
        if let Some(object) = in_vain
            && request.level.is_none()
            && self.began_full_in_vain(object)?
        {
            return Ok(Some(Level::Full));
        }
        Ok(request.level)
    }

    /// Files and bytes to expect: what the object's last complete version has. How many bytes changed nobody knows: of a backup
    /// that is not full only files are expected, which are all looked at.
    fn expected(&self, object: ObjectId, but: VersionId, is_full: bool) -> Result<(u64, u64)> {
        #[derive(Default, serde::Deserialize)]
        #[serde(default)]
        struct OfReport {
            expected_restore: Option<OfAll>,
        }
        #[derive(serde::Deserialize)]
        struct OfAll {
            bytes: u64,
        }
        for version in self.idb.versions_of(object)?.into_iter().filter(|v| v.id != but) {
            let session = self.writer_of(version.id)?.filter(|s| s.status == Status::Completed);
            let Some(session) = session else { continue };
            if !is_full {
                return Ok((session.files, 0));
            }
            // What it read is not what it has, unless it was a full one.
            let report = session.report.as_deref().map(serde_json::from_str::<OfReport>);
            let all = report.and_then(|r| r.ok()).and_then(|r| r.expected_restore);
            let own = version.base.is_none().then_some(session.bytes_read);
            return Ok((session.files, all.map(|all| all.bytes).or(own).unwrap_or(0)));
        }
        Ok((0, 0))
    }
}

impl Job<'_> {
    /// Says what clocks say that cannot be.
    pub fn say_clock(&self, cell: &Cell) -> Result<()> {
        if self.is_known && !self.plan.null {
            let fault = cell.clock_fault_at(self.label.object, self.label.started_us)?;
            if let Some(text) = fault {
                self.log.say(Code::ClockWrong, "cell", &self.plan.name, text);
            }
        }
        Ok(())
    }

    /// Puts object, version and session on record.
    pub fn record_begin(&self, cell: &Cell, keys: Option<&(SessionKeys, KeyRecord)>) -> Result<()> {
        let Self { request, plan, label, .. } = self;
        if !self.is_known {
            let (name, host) = (plan.name.clone(), plan.client.host.clone());
            cell.idb.put_object(&Object { id: label.object, name, host, sealed: None })?;
        }
        if let Some((keys, record)) = keys {
            let record = String::from_utf8_lossy(&record.to_json()?).into_owned();
            cell.idb.put_key(&capstan_idb::KeyRecord { id: keys.id, record })?;
        }
        let version = Version {
            id: label.version,
            object: label.object,
            status: Status::Running,
            method: plan.method.clone(),
            base: label.base,
            key: label.key,
            null_device: plan.null,
            created_us: label.started_us,
            stands_for: None,
        };
        let session = Session {
            object: Some(label.object),
            version: Some(label.version),
            parent: label.parent,
            tags: request.tags.clone(),
            run_us: Some(request.run_us),
            ..cell.begun(label.session, "backup", devices_of(request), label.started_us)
        };
        cell.begin_session(&session, Some(&version))?;
        if request.log_level != LogLevel::All {
            cell.idb.set_log_level(label.session, request.log_level)?;
        }
        Ok(())
    }

    /// Adds what it did so far to a progress.
    pub fn add_progress(&self, so_far: &Counts, p: &mut Progress) {
        let Self { expected, is_about, .. } = self;
        p.is_about |= is_about;
        p.files += so_far.files + so_far.kept;
        p.files_found += so_far.found;
        p.bytes += so_far.bytes;
        p.files_expected += expected.0;
        p.bytes_expected += expected.1;
    }

    /// How it ended, where beside its own there are so many errors of its media.
    pub fn ending(
        &self,
        cell: &Cell,
        of: &HandedOver,
        stopped: bool,
        media_errors: u64,
    ) -> Result<Ending> {
        if stopped {
            self.log.stopped(&self.plan.name);
        }
        let errors = self.log.error_count() + media_errors;
        let failed = of.by_agent.input_failed.is_some() && !stopped || of.base_failed.is_some();
        let status = match (of.by_agent.is_whole, failed, stopped) {
            (false, ..) | (_, true, _) => Status::Failed,
            (.., true) => Status::Incomplete,
            _ if errors > 0 => Status::CompletedWithErrors,
            _ => Status::Completed,
        };
        let HandedOver { by_agent, base_failed } = of;
        let (counts, cut) = (by_agent.counts, by_agent.noted.cut.clone());
        let totals = Totals {
            files: counts.files + counts.kept,
            dirs: counts.dirs,
            bytes_read: counts.bytes,
            bytes_written: 0,
        };
        let lacks =
            cell.lacks_of_new(Said::so_far(&self.log).but_cut(cut), self.label.base)?.into_list();
        let ended = status != Status::Incomplete && by_agent.is_whole && base_failed.is_none();
        let end = ended.then(|| SessionEnd {
            status: status.to_string(),
            ended_us: now_us(),
            files: totals.files,
            dirs: totals.dirs,
            bytes_read: totals.bytes_read,
            bytes_written: 0,
            segments: Vec::new(),
            lacks: Some(lacks.len() as u64),
        });
        let (input_failed, noted) = (by_agent.input_failed.is_some(), by_agent.noted.clone());
        Ok(Ending { status, totals, counts, noted, input_failed, lacks, end })
    }

    /// The report, as far as it says what was backed up and written.
    pub fn report(&self, ending: &Ending, written: &Written<'_>) -> Report {
        let (plan, label, counts) = (&self.plan, &self.label, &ending.counts);
        let (totals, elapsed) = (&ending.totals, written.elapsed_s);
        Report {
            session: label.session.to_string(),
            name: plan.name.clone(),
            host: plan.client.host.clone(),
            method: plan.method.clone(),
            base_session: label.parent.or(self.base_session).map(|p| p.to_string()),
            status: ending.status.to_string(),
            start: rfc3339(label.started_us),
            end: rfc3339(now_us()),
            files: totals.files,
            dirs: totals.dirs,
            skipped: counts.skipped,
            in_use: counts.in_use,
            corrupt: counts.corrupt,
            kept: counts.kept,
            moved: counts.moved,
            moved_bytes: counts.moved_bytes,
            no_contents: counts.no_contents,
            selection: plan.selected(self.request),
            mounted: (!plan.trees.roots.is_empty()).then(|| ending.noted.mounted.clone()),
            maskable: (!plan.trees.roots.is_empty()).then(|| ending.noted.maskable.clone()),
            bytes_read: totals.bytes_read,
            bytes_written: written.bytes,
            media: if plan.null { Vec::new() } else { written.media.to_vec() },
            media_change_s: written.media_change_s,
            elapsed_s: elapsed,
            rate_mb_s: totals.bytes_read as f64 / 1e6 / elapsed.max(1e-9),
            rate_sustained_mb_s: written.rate_sustained / 1e6,
            peak_rss_bytes: peak_rss(),
            notes: plan.notes.clone(),
            device_full: written.device_full,
            device_failed: written.device_failed,
            failure: written.failure.map(str::to_owned),
            full_media: written.full_media.to_vec(),
            device_lost: written.device_lost,
            encryption: written.encryption,
            ..Report::default()
        }
    }

    /// Puts its end on record, and what its report says.
    pub fn record_end(&self, cell: &Cell, ending: &Ending, report: &mut Report) -> Result<()> {
        let status = ending.status;
        let label = &self.label;
        if matches!(status, Status::Completed | Status::CompletedWithErrors) && !self.plan.null {
            let kept_bytes = ending.counts.kept_bytes;
            let (request, log) = (self.request, &self.log);
            cell.look_back(label, kept_bytes, request, &self.plan, report, log)?;
            cell.say_mirrors_behind(label.version, &self.plan.name, &self.log)?;
        }
        if status == Status::Failed && !self.plan.null && !cell.idb.has_segments(label.version)? {
            report.nothing_committed();
        }
        self.log.fill(&*cell.devices, report);
        let totals = Totals {
            bytes_written: report.bytes_written,
            files: report.files,
            dirs: report.dirs,
            ..ending.totals
        };
        let json = serde_json::to_string(&report).unwrap_or_default();
        // A failed device leaves what was committed: the version can be resumed.
        let version_status = match status {
            Status::Failed if !ending.input_failed => Status::Incomplete,
            other => other,
        };
        let (id, ended_us) = (label.session, now_us());
        cell.idb.set_lacks(label.version, &ending.lacks)?;
        cell.idb.end_session(id, status, ended_us, &totals, &json, Some(version_status))?;
        cell.forgive_written()
    }
}
