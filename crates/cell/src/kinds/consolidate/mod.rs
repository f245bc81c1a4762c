//! A consolidation session: a full and its incrementals become a new full, a synthetic one, from media to media.
//!
//! First all rows are looked at: which frames are live, and how much of each. Then frames of which at least half is live
//! are passed on as they are, in the order in which they lie, each segment read once. Then the merged tree is written as
//! the rows of one stream, in the order of the walk: a row says in which frames that were passed on its contents are, or
//! its contents are saved anew, if their frame was not worth it.
//!
//! What cannot be read ends it: a full that lacks something would take the place of versions that another drive may read yet.
//!
//! Where a medium that is written fails, another session of the same version goes on on the next: what was passed on and is durable is not
//! passed on again; rows come anew, in a stream of that session, and are newer than those that the first may have committed.

mod frames;
mod live;
mod next_medium;
mod pass;
mod referred;
mod rows;
mod run;
mod target;
mod weigh;
mod whole;

use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::message::Code;
use capstan_format::id::VersionId;
use capstan_format::keys::{KeyRecord, SessionKeys};
use capstan_format::record::{Follows, StreamNames};
use capstan_idb::Version;

use self::next_medium::NextMedia;
use self::run::Run;
use self::target::NO_ROOM;
pub(crate) use self::target::To;
pub(crate) use self::weigh::{Weight, weigh};
pub(crate) use self::whole::refuse_lacking;
use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{ConsolidateRefusal, Result, chain};
use crate::kinds::backup::joined;
use crate::kinds::copy::lacking;
use crate::media::refuse_new_medium_of;
use crate::observe::{Observer, Stop};
use crate::reading::version::VersionView;
use crate::report::Report;
use crate::request::{ConsolidateRequest, VersionName};
use crate::session::{SessionLog, writes_versions};
use crate::supply::Wanted;
use crate::supply::unfit::{IS_READ, PassedOver};

/// A consolidation that came to its end.
pub(crate) struct Consolidated {
    pub report: Report,
    pub version: VersionId,
}

/// What is made is encrypted with.
type Keys = (SessionKeys, KeyRecord);

impl Cell {
    /// Makes a full of a version and what it builds on.
    pub fn consolidate(
        &self,
        request: &ConsolidateRequest,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Report> {
        let source = match self.version(&request.version) {
            // What newer versions build on is there though it was given up, and is what a full is made of in its place.
            Err(e) => self.given_up_version(&request.version)?.ok_or(e)?,
            Ok(source) => source,
        };
        let name = request.version.name.clone();
        if source.base.is_none() {
            return Err(ConsolidateRefusal::FullAlready { name }.into());
        }
        let to = self.consolidate_to(request, &VersionView::open(self, source.id)?)?;
        let by_drive = ByDrive::of_copy(request.encrypt);
        self.check_by_drive(by_drive, to.pool.is_none().then_some(&to.device))?;
        refuse_new_medium_of(request.pool.as_deref(), request.new_medium)?;
        self.refuse_full_home()?;
        let (block_size, new_medium) = (request.block_size, request.new_medium);
        let wanted = Wanted { block_size, by_drive, new_medium, as_it_is: false };
        let done = self.consolidate_version(&source, &name, &to, &wanted, observer, stop)?;
        let mut report = done.report;
        self.retire_poor_tapes(&mut report, observer, stop);
        Ok(report)
    }

    /// The version of a session that is named, where it was given up and is there for those that build on it.
    fn given_up_version(&self, name: &VersionName) -> Result<Option<Version>> {
        let Some(prefix) = &name.session else { return Ok(None) };
        let mut found: Option<Version> = None;
        for session in self.idb.sessions_by_prefix(prefix)? {
            let Some(version) = session.version.filter(|_| writes_versions(&session.kind)) else {
                continue;
            };
            let Some(version) = self.idb.version(version)? else { continue };
            let object = self.idb.object(version.object)?;
            let is_expired = self.idb.keeping(version.id)?.expired_us.is_some();
            if !is_expired || object.is_none_or(|object| object.name != name.name) {
                continue;
            }
            if found.as_ref().is_some_and(|known| known.id != version.id) {
                return Ok(None);
            }
            found = Some(version);
        }
        Ok(found)
    }

    /// The same for a version that may have been given up.
    pub(crate) fn consolidate_version(
        &self,
        source: &Version,
        name: &str,
        to: &To,
        wanted: &Wanted,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<Consolidated> {
        let log = SessionLog::new(observer);
        self.sound_pages()?;
        // Through all that it takes: sessions that go on with each other have views of their own.
        let _reading = self.hold_version(source.id)?;
        self.tidy(source, &log, observer, stop)?;
        let (mut view, keys) = self.to_consolidate(source, name, to, wanted.by_drive, &log)?;
        let written = self.libraries_written(&to.device, to.pool.as_deref())?;
        let to_bring =
            VersionView::bring_beside(std::slice::from_mut(&mut view), &written, &|_, _| true)?;
        let _asked = self.ask_for(&to_bring);
        let works = lacking(std::slice::from_ref(&view), &|_| true, &|_| false);
        let _booked = self.book_drives_for(&to.device, to.pool.as_deref(), &works)?;
        drop(works);
        let sources = self.tapes_read(&view)?;
        let mut passed: Vec<PassedOver> = sources.iter().map(|id| (*id, IS_READ.into())).collect();
        passed.extend(to.but.map(|id| (id, NO_ROOM.into())));
        let mut member = self.open_to(to, wanted, &passed, observer)?;
        self.warn_in_clear(&member.medium, [&view], name, &log)?;
        let by_drive = wanted.by_drive.going_on(&member.medium);
        let mut media = NextMedia::new(Wanted { by_drive, ..*wanted }, passed);
        let object = self.idb.object(source.object)?;
        let mut run = Run {
            cell: self,
            source,
            names: StreamNames {
                name: name.to_owned(),
                host: object.map(|o| o.host).unwrap_or_default().into(),
                method: "full".to_owned(),
                tags: Vec::new(),
            },
            keys,
            version: VersionId(self.new_id()?),
            to,
            written,
            log: &log,
            stop,
            supply: to.supply(wanted.by_drive, &sources),
            bytes: view.segments.iter().map(|place| place.bytes).sum(),
        };
        drop(view);
        let (mut going, mut earlier) = (None, None);
        let mut on = run.session(None)?;
        // Between two sessions that go on with each other it is of none that runs: what is written is held, or a prune would take it for
        // what nobody goes on with.
        let made = self.hold_versions(&[run.version])?;
        loop {
            let ended = run.write(&on, member, &mut going);
            let last = ended.last.clone();
            let next = media.after(&mut run, &ended, observer)?;
            let failed = ended.result.is_err();
            let mut report = run.end(&on, ended)?;
            if let Some(earlier) = earlier.take() {
                self.record_went_on(&earlier, &mut report)?;
                report = joined_parts(earlier, report);
            }
            if let Some(mut opened) = next {
                opened.follows = Some(Follows { medium: last.medium, label: last.label });
                (member, earlier, on) = (opened, Some(report), run.session(Some(&on))?);
                continue;
            }
            let last = (!failed).then_some(last.medium);
            self.back_up_idb(&to.device, last.as_slice(), &log, &mut report);
            drop(made);
            if failed || stop.0.load(Relaxed) {
                self.tidy(source, &log, observer, stop)?;
            }
            return Ok(Consolidated { report, version: run.version });
        }
    }
}

impl Cell {
    /// A version of which a full may be made there, open, with the keys of what is made. Refused where it lacks anything.
    fn to_consolidate(
        &self,
        source: &Version,
        name: &str,
        to: &To,
        by_drive: ByDrive,
        log: &SessionLog<'_>,
    ) -> Result<(VersionView<'_>, Option<Keys>)> {
        if let Some(why) = self.lost_of(source.id)? {
            return Err(ConsolidateRefusal::NotWhole { name: name.to_owned(), why }.into());
        }
        let mut view = VersionView::open(self, source.id)?;
        self.add_keys(&mut view, false)?;
        self.open_drive_keys(&view)?;
        // What is sealed stays sealed.
        let keys = match by_drive {
            ByDrive::Yes if !view.encrypted => None,
            _ => self.session_keys(log)?,
        };
        if view.encrypted && keys.is_none() {
            return Err(ConsolidateRefusal::NoRing {
                name: name.to_owned(),
                home: self.home.clone(),
            }
            .into());
        }
        self.refuse_sets(to.pool.as_deref(), &to.device, "consolidated")?;
        if to.pool.is_none() && to.device.keeps_nothing() {
            return Err(ConsolidateRefusal::NullKeepsNothing.into());
        }
        view.require_all_media()?;
        Ok((view, keys))
    }

    /// Removes what earlier consolidations of an object left that did not end. Where that cannot be done now, it is the next prune's.
    fn tidy(
        &self,
        source: &Version,
        log: &SessionLog<'_>,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<()> {
        let Some(object) = self.idb.object(source.object)? else { return Ok(()) };
        if let Err(e) = self.remove_unended_fulls(&object, observer, stop) {
            let text = format!("what a consolidation left that did not end stays: {}", chain(&e));
            log.say(Code::Adapted, "cell", &object.name, text);
        }
        Ok(())
    }
}

/// A report of both sessions: each has passed on a part.
fn joined_parts(mut earlier: Report, mut report: Report) -> Report {
    report.bytes_read = report.bytes_read.saturating_add(earlier.bytes_read);
    let mut errors = std::mem::take(&mut earlier.errors);
    errors.append(&mut report.errors);
    Report { errors, ..joined(Some(earlier), report) }
}
