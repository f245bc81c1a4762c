//! A copy session: segments of versions once more on another medium, with the same frames.

mod damaged_there;
mod drives;
mod route;
mod run;
mod segment;
mod sides;
mod source;
pub(crate) mod staged_on;

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use capstan_catalog::keys::VersionKeys;
use capstan_catalog::places::SegmentPlace;
use capstan_engine::message::Code;
use capstan_format::id::{MediumId, ObjectId, VersionId};
use capstan_format::record::MediumHeader;
use capstan_idb::{LogLevel, Version};
use capstan_medium::host::operator::Asked;
use capstan_port::media::write::members::Member;

pub(crate) use self::route::{Copied, Route};
pub(crate) use self::run::{Kept, Work, add_ends, is_to_copy, lacking};
use self::sides::Sides;
use crate::Cell;
use crate::drives::drive_key::{ByDrive, of_target};
use crate::drives::robots::Booked;
use crate::error::{CopyRefusal, Result};
use crate::kinds::skeleton::SessionRun;
use crate::media::check_location;
use crate::observe::{Observer, Stop};
use crate::reading::known::media::all_away;
use crate::reading::version::VersionView;
use crate::report::Report;
use crate::request::{CopyRequest, CopyWhat};
use crate::session::SessionLog;
use crate::supply::Wanted;
use crate::supply::tapes::Supply;
use crate::supply::tapes::by_hand::Choice;
use crate::supply::unfit::PassedOver;
use crate::versions::protect::say_not_locked;

/// What is to be copied.
struct Plan {
    /// What it is called in the report.
    name: String,
    object: Option<ObjectId>,
    /// Oldest first, each without what it builds on.
    versions: Vec<Version>,
    /// Only what lies on this medium.
    only_on: Option<MediumId>,
    /// How many of the versions are there because others build on them.
    bases: usize,
}

/// The target of a copy, opened, and what the copy holds as long as it runs.
struct OpenTarget {
    member: Member,
    booked: Vec<Booked>,
    asked: Asked,
}

impl Cell {
    /// Copies versions to another medium.
    pub fn copy(
        &self,
        request: &CopyRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let session = SessionRun::begin(self, "copy", stop)?;
        let log = SessionLog::new(observer);
        self.check_pages(&log);
        let plan = self.copy_plan(request)?;
        // What a medium has is copied as it is.
        if plan.only_on.is_none()
            && let Some(asked) = plan.versions.last()
        {
            self.say_incomplete(asked, &log)?;
        }
        let ids: Vec<VersionId> = plan.versions.iter().map(|v| v.id).collect();
        let _reading = self.hold_versions(&ids)?;
        let by_drive = self.check_copy(request)?;
        let (block_size, new_medium) = (request.block_size, request.new_medium);
        let wanted = Wanted { block_size, by_drive, new_medium, as_it_is: false };
        let mut views = Vec::new();
        for version in &plan.versions {
            views.push(VersionView::open_alone(self, version.clone())?);
        }
        views.iter().try_for_each(|view| self.open_drive_keys(view))?;
        let sides = Sides::of(self, request, &plan)?;
        let OpenTarget { member, booked, asked: _asked } =
            self.open_target(request, &mut views, &sides, &wanted, observer)?;
        self.say_changed(&log);
        let target = member.medium.clone();
        self.levels_of_copies(&mut views, request.log_level)?;
        self.say_what_is_copied(request, (&plan, &views), &sides, &target, &log)?;
        drop(views);
        session.record_begin(request.device.to_string(), plan.object, None)?;
        let wanted = Wanted { by_drive: by_drive.going_on(&target), ..wanted };
        let next = |passed: &[PassedOver]| {
            let passed: Vec<_> = sides.passed().chain(passed.iter().cloned()).collect();
            self.open_chosen(&request.device, &wanted, &Choice::but(&passed))
        };
        let supply = Supply::of(None, [&request.device]).encrypted(by_drive);
        let supply = supply.but(sides.passed());
        let route = Route {
            name: &plan.name,
            versions: &plan.versions,
            is_source: &|medium| sides.is_source(medium),
            is_target: &|medium| medium == target.medium || sides.has_copy(medium),
            log_level: request.log_level,
            next: (!supply.is_none()).then_some(&next),
            supply,
        };
        let mut copied = self.copy_along(&route, member, &log, stop)?;
        drop(booked);
        if stop.0.load(Relaxed) {
            log.stopped(&plan.name);
        }
        // What is locked is locked on every medium that has it: a copy's, too.
        if let Err(e) = self.lock_on(&plan.versions, &copied.written_to) {
            say_not_locked(&log, &plan.name, &e);
        }
        let status = session.status(copied.failed, copied.degraded, &log);
        let (files, dirs) = self.totals_of(&plan.versions)?;
        let mut report = Report {
            files,
            dirs,
            encryption: of_target(&target),
            ..session.report(&plan.name, status)
        };
        copied.fill(self, &mut report, session.elapsed_s(), &log);
        report.set_away(copied.away);
        log.fill(&*self.devices, &mut report);
        session.record_end(status, &report)?;
        self.back_up_idb(&request.device, copied.last.as_slice(), &log, &mut report);
        let retired = self.retire_poor_tapes(&mut report, observer, stop);
        if let Some(location) = request.eject_to.as_ref().filter(|_| report.bytes_written > 0) {
            self.eject(&mut report, &retired, location, observer);
        }
        Ok(report)
    }

    /// Refuses a copy that cannot be made as it is asked for. Gives how its target is encrypted.
    fn check_copy(&self, request: &CopyRequest) -> Result<ByDrive> {
        if let Some(location) = &request.eject_to {
            check_location(location)?;
        }
        if request.device.keeps_nothing() {
            return Err(CopyRefusal::NullKeepsNoCopy.into());
        }
        self.devices.refuse_no_drive(&request.device)?;
        self.refuse_sets(None, &request.device, "copied")?;
        let by_drive = ByDrive::of_copy(request.encrypt);
        self.check_by_drive(by_drive, [&request.device])?;
        Ok(by_drive)
    }

    /// Opens the target of a copy, once it is known that what is copied can be had.
    fn open_target(
        &self,
        request: &CopyRequest,
        views: &mut [VersionView<'_>],
        sides: &Sides<'_>,
        wanted: &Wanted,
        observer: &dyn Observer,
    ) -> Result<OpenTarget> {
        let foreseen = self.medium_named(&request.device);
        let is_source = |medium| sides.is_source(medium);
        let is_there = |medium| foreseen == Some(medium) || sides.has_copy(medium);
        let is_needed = |_: usize, place: &SegmentPlace| is_to_copy(place, &is_source, &is_there);
        let written = self.libraries_written(&request.device, None)?;
        let to_bring = VersionView::bring_beside(views, &written, &is_needed)?;
        let asked = self.ask_for(&to_bring);
        let works = lacking(views, &is_source, &is_there);
        if sides.is_named {
            // Before a medium is made for it.
            require_sources(views, &works)?;
        }
        let booked = self.book_drives_for(&request.device, None, &works)?;
        drop(works);
        let member = match sides.is_named {
            true => self.open_device(&request.device, wanted, observer)?,
            false => {
                let passed: Vec<_> = sides.passed().collect();
                self.open_chosen(&request.device, wanted, &Choice::but(&passed))?
            }
        };
        Ok(OpenTarget { member, booked, asked })
    }

    /// Says what a copy to an opened target has to do, and refuses it where nothing of that is at hand.
    fn say_what_is_copied(
        &self,
        request: &CopyRequest,
        (plan, views): (&Plan, &[VersionView<'_>]),
        sides: &Sides<'_>,
        target: &MediumHeader,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        if let Some(version) = plan.versions.last().filter(|_| plan.object.is_some()) {
            self.say_lost(version.id, &plan.name, || None, log)?;
        }
        let is_target = |medium| medium == target.medium || sides.has_copy(medium);
        let works = lacking(views, &|medium| sides.is_source(medium), &is_target);
        require_sources(views, &works)?;
        if plan.bases > 0 {
            let text = format!(
                "with {} versions that it builds on, as far as they are not there",
                plan.bases
            );
            log.say(Code::Adapted, "cell", &plan.name, text);
        }
        let copied = views.iter().filter(|view| works.iter().any(|w| w.is_of(view)));
        self.warn_in_clear(target, copied, &plan.name, log)?;
        if works.is_empty() {
            let text = match sides.is_library() {
                true => format!("all of it is on tapes of {} already", request.device),
                false => format!("all of it is on medium '{}' already", target.label),
            };
            log.say(Code::Adapted, "cell", &plan.name, text);
        }
        Ok(())
    }

    /// How much of the copies' catalogs is kept, by session: what is asked for, or what is kept of the originals'; and what
    /// opens the names of which less than all is kept.
    pub(crate) fn levels_of_copies(
        &self,
        views: &mut [VersionView<'_>],
        asked: Option<LogLevel>,
    ) -> Result<Kept> {
        let (mut levels, mut names) = (HashMap::new(), VersionKeys::default());
        for view in views {
            let sessions: HashSet<_> =
                view.labels()?.into_iter().map(|label| label.session).collect();
            let mut own = HashMap::new();
            for session in sessions {
                own.insert(session, asked.map_or_else(|| self.idb.log_level(session), Ok)?);
            }
            let listed =
                |level: &LogLevel| matches!(level, LogLevel::Files | LogLevel::Directories);
            if view.encrypted && own.values().any(listed) {
                match self.add_keys(view, false) {
                    Ok(()) => names.extend(&view.keys),
                    Err(e) if asked.is_some() => return Err(e),
                    // A copy takes no key. The original's listing is there.
                    Err(_) => {
                        own.values_mut().filter(|l| listed(l)).for_each(|l| *l = LogLevel::None)
                    }
                }
            }
            levels.extend(own);
        }
        Ok(Kept { asked, levels, names })
    }

    /// Files and directories of the last of some versions, as its last session counted them.
    fn totals_of(&self, versions: &[Version]) -> Result<(u64, u64)> {
        let Some(last) = versions.last() else { return Ok((0, 0)) };
        let sessions = self.idb.sessions_of_version(last.id)?;
        Ok(sessions.last().map_or((0, 0), |s| (s.files, s.dirs)))
    }

    fn copy_plan(&self, request: &CopyRequest) -> Result<Plan> {
        match &request.what {
            CopyWhat::Version(name) => {
                let version = self.version(name)?;
                self.plan_of_version(name.name.clone(), version, request.only)
            }
            CopyWhat::Session(prefix) => {
                let version = self.version_of_session(prefix)?;
                let object = self.idb.object(version.object)?;
                let name = object.map(|o| o.name).unwrap_or_default();
                self.plan_of_version(name, version, request.only)
            }
            CopyWhat::Medium(text) => self.plan_of_medium(text),
        }
    }

    fn plan_of_version(&self, name: String, version: Version, only: bool) -> Result<Plan> {
        let object = Some(version.object);
        let mut versions = if only {
            vec![version]
        } else {
            capstan_catalog::version::chain(&self.idb, version.id)?
        };
        versions.reverse();
        Ok(Plan { name, object, bases: versions.len() - 1, versions, only_on: None })
    }

    fn version_of_session(&self, prefix: &str) -> Result<Version> {
        let session = self.session_row(prefix)?;
        let version = session.version.map(|v| self.idb.version(v)).transpose()?.flatten();
        version
            .filter(|v| !v.null_device)
            .ok_or_else(|| CopyRefusal::NothingWritten { prefix: prefix.to_owned() }.into())
    }

    fn plan_of_medium(&self, text: &str) -> Result<Plan> {
        let medium = self.find_medium(text)?;
        let mut versions: Vec<Version> = Vec::new();
        for id in self.idb.versions_on_medium(medium.id)? {
            versions.extend(self.idb.version(id)?);
        }
        self.sort_by_commit(&mut versions, |v| v)?;
        Ok(Plan { name: medium.label, object: None, versions, only_on: Some(medium.id), bases: 0 })
    }
}

/// Refuses versions of which something is to be copied and no medium is at hand. All media are named then that are away, also those
/// of the others: they are brought together.
fn require_sources(views: &[VersionView<'_>], works: &[Work<'_>]) -> Result<()> {
    let copied = |view: &&VersionView<'_>| works.iter().any(|w| w.is_of(view));
    // Who puts in the first tape of a drive that stands alone puts in the others, too, when it is their turn.
    let mut is_there = false;
    let required: Result<()> = views.iter().filter(copied).try_for_each(|view| {
        let is_needed = |index: usize, _: &SegmentPlace| works.iter().any(|w| w.is(view, index));
        view.require_a_medium(&is_needed, is_there)?;
        is_there = view.cell.has_operator();
        Ok(())
    });
    let Err(e) = required else { return Ok(()) };
    if e.away().is_none() {
        return Err(e);
    }
    let (mut known, mut away) = (HashSet::new(), Vec::new());
    for view in views.iter().filter(copied) {
        let lacking = view.media_lacking()?.into_iter();
        away.extend(lacking.filter(|e| e.away().is_some_and(|(id, _)| known.insert(id))));
    }
    let named = views.first().and_then(|view| all_away(view.cell, away));
    Err(named.unwrap_or(e))
}
