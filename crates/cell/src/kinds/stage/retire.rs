//! Retiring a medium: what must stay on it is copied to others and read back from there, then it is written no more.
//!
//! It is done by hand, and by sessions of tapes in poor condition ([`super::poor`]). The medium is retired last, and only where all that must stay was found whole elsewhere. Whatever is cut short can be done again: copies are recorded
//! as they are committed.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use capstan_address::Address;
use capstan_catalog::places::SegmentPlace;
use capstan_engine::frames::Place;
use capstan_engine::message::Code;
use capstan_format::id::{MediumId, SessionId, VersionId};
use capstan_idb::{Medium, Status, Version};

use super::source::{Source, Sources};
use crate::Cell;
use crate::drives::drive_key::{ByDrive, of_target};
use crate::error::{Result, StageRefusal, chain};
use crate::kinds::copy::staged_on::Target;
use crate::kinds::copy::{Copied, is_to_copy, lacking};
use crate::media::libraries::libraries_for;
use crate::media::{MediumInfo, lacking_tapes};
use crate::observe::{Observer, Stop};
use crate::reading::known::media::not_there;
use crate::reading::version::VersionView;
use crate::report::Report;
use crate::request::{Encrypt, StageRequest, Turn};
use crate::session::{SessionLog, now_us, peak_rss, rfc3339};
use crate::versions::protect::say_not_locked;

/// The kind of session.
pub(super) const RETIRE: &str = "retire";
/// So many versions are named that cannot be had any more, others are counted.
const NAMED: usize = 5;

/// A medium that is to be retired.
#[derive(Debug, Clone, Default)]
pub struct RetireRequest {
    /// Its label, the begin of its id, or its device.
    pub medium: String,
    /// Where what must stay goes; if nothing is named, to its pool, or to its library.
    pub device: Option<Address>,
    /// The same: a pool.
    pub pool: Option<String>,
    /// Nothing is copied: what it holds stays where it is.
    pub no_copy: bool,
    /// Whether a medium is made though another one was there, or a disk is not mounted there.
    pub new_medium: bool,
}

/// What was found of the copies that a medium is retired for.
enum Verdict {
    /// All that must stay is elsewhere.
    Elsewhere,
    /// Not all is, and why.
    Not(String),
    /// It was stopped before that was known.
    Unknown,
}

impl Cell {
    /// Retires a medium. What must stay on it has to be elsewhere then: what is not is copied.
    pub fn media_retire(
        &self,
        request: &RetireRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        self.sound_pages()?;
        let row = self.find_medium(&request.medium)?;
        self.refuse_retired(row.id, &row.label)?;
        let started_us = now_us();
        let versions = if request.no_copy { Vec::new() } else { self.must_stay(row.id)? };
        let mut report = Report {
            name: row.label.clone(),
            host: self.host().to_owned(),
            method: RETIRE.to_owned(),
            start: rfc3339(started_us),
            ..Report::default()
        };
        if versions.is_empty() {
            let log = SessionLog::new(observer);
            self.retire_as_it_is(&row, &log)?;
            let why = match request.no_copy {
                true => "what it holds was not looked at",
                false => "nothing on it must stay",
            };
            report.notes.push(format!("'{}' is retired: {why}", row.label));
            log.fill(&*self.devices, &mut report);
            report.status = Status::Completed.to_string();
            report.end = rfc3339(now_us());
            self.record(&mut report, RETIRE, started_us, Status::Completed)?;
            return Ok(report);
        }
        if let Some(running) = versions.iter().find(|v| v.status == Status::Running) {
            return Err(StageRefusal::SessionWrites {
                version: running.id,
                label: row.label.clone(),
            }
            .into());
        }
        self.retire_by_copy(row, &versions, request, report, started_us, observer, stop)
    }

    /// Retires a medium without a copy, and says which versions cannot be had without it where it is not at hand.
    fn retire_as_it_is(&self, row: &Medium, log: &SessionLog<'_>) -> Result<()> {
        let had = |cell: &Self| -> Result<HashSet<VersionId>> {
            let of = cell.unsound_versions(&cell.unsound_places()?)?;
            Ok(of.damaged.into_keys().chain(of.out_of_use.into_keys()).collect())
        };
        let before = had(self)?;
        self.idb.set_medium_retired(row.id, now_us())?;
        let mut lost = Vec::new();
        for id in had(self)?.difference(&before) {
            if self.idb.keeping(*id)?.expired_us.is_none() {
                lost.extend(self.idb.version(*id)?);
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        self.sort_by_commit(&mut lost, |v| v)?;
        lost.reverse();
        let names = lost.iter().take(NAMED).map(|v| self.name_of_version(v.id));
        let names = names.collect::<Result<Vec<_>>>()?.join(", ");
        let more = match lost.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let text = format!(
            "only this medium has some of {names}{more}, and it is not at hand as it was written: these cannot be restored, and take no              place of a keep rule, unless it comes back"
        );
        log.say(Code::LostData, "cell", &row.label, text);
        Ok(())
    }

    /// Takes back that a medium was retired.
    pub fn media_unretire(&self, name: &str) -> Result<MediumInfo> {
        let row = self.find_medium(name)?;
        if self.idb.management(row.id)?.retired_us.is_none() {
            return Err(StageRefusal::NotAmongRetired { label: row.label }.into());
        }
        self.idb.unretire_medium(row.id)?;
        self.medium_info(&row)
    }

    /// Retires a medium with so many versions that must stay, if these can be had elsewhere; and says what came of it.
    fn retire_if(
        &self,
        verdict: &Verdict,
        row: &Medium,
        versions: usize,
        report: &mut Report,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        match verdict {
            Verdict::Elsewhere => {
                self.idb.set_medium_retired(row.id, now_us())?;
                let what = match versions {
                    1 => "version that must stay",
                    _ => "versions that must stay",
                };
                report.notes.push(format!(
                    "'{}' is retired: its {versions} {what} can be had elsewhere, which was read back",
                    row.label
                ));
            }
            Verdict::Not(why) => {
                let text = format!("it is not retired: {why}");
                log.say(Code::TapePoor, "cell", &row.label, text);
            }
            Verdict::Unknown => log.stopped(&row.label),
        }
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "what a session has in hand")]
    fn retire_by_copy(
        &self,
        row: Medium,
        versions: &[Version],
        request: &RetireRequest,
        mut report: Report,
        started_us: i64,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let begun_at = Instant::now();
        let log = SessionLog::new(observer);
        let to = self.retire_to(&row, request)?;
        let source = Source { row: row.clone(), locks: Ok(Vec::new()) };
        let sources = Sources::new(row.label.clone(), None, vec![source]);
        self.refuse_stage_to(&to, &sources)?;
        let ids: Vec<VersionId> = versions.iter().map(|v| v.id).collect();
        let _reading = self.hold_versions(&ids)?;
        let views = versions.iter().map(|v| VersionView::open_alone(self, v.clone()));
        let mut views = views.collect::<Result<Vec<_>>>()?;
        views.iter().try_for_each(|view| self.open_drive_keys(view))?;
        let foreseen = Target::foreseen(self, &to);
        let is_there = |id| foreseen.as_ref().is_some_and(|f| f.has(self, id) && id != row.id);
        let is_needed =
            |_: usize, place: &SegmentPlace| is_to_copy(place, &|id| id == row.id, &is_there);
        let written = self.libraries_written(&to.device, to.pool.as_deref())?;
        VersionView::bring_beside(&mut views, &written, &is_needed)?;
        let works = lacking(&views, &|id| id == row.id, &is_there);
        let _booked = self.book_drives_for(&to.device, to.pool.as_deref(), &works)?;
        drop(works);
        self.refuse_away(&row)?;
        let member = self.stage_member(&to, ByDrive::of_copy(to.encrypt), &[], &sources)?;
        let target = Target::of(&to, member.medium.medium);
        self.refuse_unreadable(&row)?;
        self.warn_in_clear(&member.medium, &views, &row.label, &log)?;
        drop(views);
        report.encryption = of_target(&member.medium);
        let session = SessionId(self.new_id()?);
        let place = match &to.pool {
            Some(pool) => format!("pool:{pool}"),
            None => to.device.to_string(),
        };
        self.begin_session(&self.begun(session, RETIRE, place, started_us), None)?;
        report.session = session.to_string();
        let mut copied =
            self.copy_to_stage(member, versions, &sources, &target, &to, &log, stop)?;
        let verdict = self.look_elsewhere(versions, &sources, &target, &copied, &log, stop)?;
        self.retire_if(&verdict, &row, versions.len(), &mut report, &log)?;
        let status = match verdict {
            _ if copied.failed => Status::Failed,
            Verdict::Unknown => Status::Incomplete,
            Verdict::Not(_) => Status::CompletedWithErrors,
            Verdict::Elsewhere if log.error_count() > 0 || copied.degraded => {
                Status::CompletedWithErrors
            }
            Verdict::Elsewhere => Status::Completed,
        };
        report.status = status.to_string();
        report.peak_rss_bytes = peak_rss();
        copied.fill(self, &mut report, copied.copying_s, &log);
        report.elapsed_s = begun_at.elapsed().as_secs_f64();
        report.end = rfc3339(now_us());
        log.fill(&*self.devices, &mut report);
        self.record_end(session, status, &report, None)?;
        self.back_up_idb(&to.device, copied.last.as_slice(), &log, &mut report);
        Ok(report)
    }

    /// The versions that must stay of those that have something on a medium, oldest first; each object's last one, too.
    fn must_stay(&self, medium: MediumId) -> Result<Vec<Version>> {
        let mut versions = Vec::new();
        let (keeps, last) = (self.keeps()?, self.last_whole()?);
        for id in self.idb.versions_on_medium(medium)? {
            if keeps.get(id).is_some() || last.contains(&id) {
                versions.extend(self.idb.version(id)?);
            }
        }
        self.sort_by_commit(&mut versions, |v| v)?;
        Ok(versions)
    }

    /// Where what must stay on a medium goes.
    fn retire_to(&self, row: &Medium, request: &RetireRequest) -> Result<StageRequest> {
        let own_pool = self.idb.management(row.id)?.pool;
        let own_library = self.device_of_medium(row.id).and_then(|device| libraries_for(&device));
        let (device, pool) = match (&request.device, &request.pool, own_pool.clone(), own_library) {
            (Some(device), ..) => (device.clone(), None),
            (None, Some(pool), ..) => (Address::Null { rate: None }, Some(pool.clone())),
            (None, None, Some(pool), _) => (Address::Null { rate: None }, Some(pool)),
            (None, None, None, Some(libraries)) => (libraries, None),
            (None, None, None, None) => {
                return Err(StageRefusal::NowhereToGo { label: row.label.clone() }.into());
            }
        };
        // What a set keeps stays as long in the same set.
        let turn = match &pool {
            Some(pool) if own_pool.as_ref() == Some(pool) => self.turn_in_place_of(row.id, pool)?,
            _ => Turn::of_now(),
        };
        // What only its drive encrypted stays so, where there is a drive.
        let is_encrypted = self.drive_key_pairs(row.id)?.is_some();
        let has_drive = pool.is_some() || device.is_tape();
        Ok(StageRequest {
            source: row.label.clone(),
            device,
            pool,
            turn,
            begun_before_us: None,
            keep: None,
            block_size: None,
            new_medium: request.new_medium,
            encrypt: (is_encrypted && has_drive).then_some(Encrypt::Drive),
            dry_run: false,
        })
    }

    /// Refuses a medium that is away, before one is made for what it holds. No tape is loaded for that.
    fn refuse_away(&self, row: &Medium) -> Result<()> {
        let address = &row.device;
        if !address.is_sequential() {
            return self.refuse_unreadable(row);
        }
        match lacking_tapes(&*self.devices, address).0 {
            None => Ok(()),
            Some(why) => Err(StageRefusal::Unreadable { label: row.label.clone(), why }.into()),
        }
    }

    /// Refuses a medium that cannot be read now, while its copy's is at hand to be written.
    fn refuse_unreadable(&self, row: &Medium) -> Result<()> {
        let there =
            self.devices.known(&row.device, self.wanted(row)).map_err(|e| match e.is_busy() {
                true => {
                    StageRefusal::NoSecondDrive { label: row.label.clone(), why: chain(&e) }.into()
                }
                false => not_there(self, e, row),
            })?;
        self.open_drive_key(there.header())
    }

    /// Whether all that must stay can be had elsewhere now: copies are read back, and what is locked is locked there.
    fn look_elsewhere(
        &self,
        versions: &[Version],
        sources: &Sources,
        target: &Target,
        copied: &Copied,
        log: &SessionLog<'_>,
        stop: &Stop,
    ) -> Result<Verdict> {
        if copied.failed {
            return Ok(Verdict::Not("not all of it was copied".to_owned()));
        }
        if stop.0.load(Relaxed) {
            return Ok(Verdict::Unknown);
        }
        let checked = self.check_copies(versions, sources, target, log, stop)?;
        if stop.0.load(Relaxed) {
            return Ok(Verdict::Unknown);
        }
        if let Some(why) = checked.bad.into_values().next() {
            return Ok(Verdict::Not(why));
        }
        let mut media: Vec<MediumId> = Vec::new();
        for (_, medium, _) in checked.relied_on.values().flatten() {
            if !media.contains(medium) {
                media.push(*medium);
            }
        }
        if let Err(e) = self.lock_on(versions, &media) {
            say_not_locked(log, &sources.name, &e);
            return Ok(Verdict::Not(
                "not all that is locked is locked where it was copied".to_owned(),
            ));
        }
        self.anything_left(sources, target, &checked.relied_on)
    }

    /// What is known now: the copying may have taken a day.
    fn anything_left(
        &self,
        sources: &Sources,
        target: &Target,
        relied_on: &HashMap<VersionId, Vec<Place>>,
    ) -> Result<Verdict> {
        for source in &sources.media {
            for version in self.must_stay(source.row.id)? {
                let Some(places) = relied_on.get(&version.id) else {
                    return Ok(Verdict::Not("more was written to it meanwhile".to_owned()));
                };
                if let Some(why) = self.lost_copy(version.id, places, &HashMap::new())? {
                    return Ok(Verdict::Not(why));
                }
                let view = [VersionView::open_alone(self, version)?];
                let is_target = |id| target.has(self, id) && !sources.has(id);
                if !lacking(&view, &|id| sources.has(id), &is_target).is_empty() {
                    return Ok(Verdict::Not("more was written to it meanwhile".to_owned()));
                }
            }
        }
        Ok(Verdict::Elsewhere)
    }
}
