//! How it stands with each object: its last complete version, its last backup, its last drill, and what is to be done about it.

mod faults;
mod judge;
mod lost;

use capstan_address::HostName;
use std::collections::HashMap;
use std::time::Duration;

use capstan_engine::message::Code;
use capstan_format::id::{MediumId, ObjectId, VersionId};
use capstan_idb::{Loss, LostData, Object, Refused, Session, Status, Version};

use crate::Cell;
use crate::error::{QueryRefusal, Result};
use crate::queries::status::judge::{age_of, anomaly, last};
use crate::report::DrillReport;
use crate::session::refused::{RefusedNow, age_text};
use crate::versions::away_media::AwayMedium;
use crate::versions::damaged::{
    Unsound, UnsoundVersions, damaged_text, lost_text, read_again_text,
};
use crate::versions::lacking::{Lacking, Said, paths_text, said_of};
use crate::versions::last_with::NotWhole;
use crate::versions::leap::Leap;
use crate::versions::mirrors_left::mirrors_left;

/// Backups that are looked back on for one that did not go to the null device.
const LOOKED_BACK: usize = 50;

/// How it stands, from good to bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// All is as it should be.
    Good,
    /// Somebody should look.
    Warning,
    /// Somebody must look.
    Critical,
}

impl Health {
    /// Its word, as monitoring has it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "ok",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }
}

/// A session, as status shows it.
#[derive(Debug, Clone)]
pub struct LastSession {
    /// Its id.
    pub id: String,
    /// Its status.
    pub status: Status,
    /// Start, in microseconds since 1970.
    pub started_us: i64,
    /// What a drill took and proved.
    pub drill: Option<DrillReport>,
}

/// How it stands with an object.
#[derive(Debug, Clone)]
pub struct ObjectStatus {
    /// Its name; of an object whose name is encrypted, its id.
    pub name: String,
    /// Its host.
    pub host: HostName,
    /// How it stands.
    pub health: Health,
    /// Why, if not well: one sentence each.
    pub why: Vec<String>,
    /// When its last complete version was begun, in microseconds since 1970.
    pub complete_us: Option<i64>,
    /// How old that is.
    pub age: Option<Duration>,
    /// Its last backup.
    pub last_backup: Option<LastSession>,
    /// Its last drill.
    pub last_drill: Option<LastSession>,
}

/// What is known of versions and media that are not as they should be.
struct Known<'a> {
    away: &'a [AwayMedium],
    lost: &'a HashMap<VersionId, &'a LostData>,
    unsound: &'a Unsound,
    of_unsound: &'a UnsoundVersions,
    /// Versions of which media have copies that lack something.
    lacking_copies: &'a [(VersionId, MediumId)],
    /// What versions lack of their paths.
    lacking: Lacking,
    /// Versions that nobody is told to restore.
    not_whole: NotWhole,
    /// What is wrong with the keys of the home.
    keys: Option<String>,
    /// Backups that were refused since the object's last one.
    refused: &'a [RefusedNow],
    /// A leap of the clock that is not proved to be none.
    leap: Option<Leap>,
    /// Of pools whose media rotate why the next run finds none.
    pools: &'a HashMap<String, String>,
    /// Prunes that could not consolidate what they gave up, and none since could.
    pruned: &'a [RefusedNow],
}

impl Known<'_> {
    /// The refusal of that object's last backup.
    fn refusal_of(&self, name: &str, host: &str) -> Option<&RefusedNow> {
        let is_it = |of: &&RefusedNow| of.refusal.name == name && of.refusal.host == host;
        self.refused.iter().find(is_it)
    }
}

impl Cell {
    /// Whether any session is on record, of whatever kind.
    pub fn has_sessions(&self) -> Result<bool> {
        Ok(!self.idb.sessions(1)?.is_empty())
    }

    /// How it stands with the objects of these names, or all, by name. A last complete version that is older than `max_age`, or
    /// that there is not, is critical.
    pub fn status(&self, names: &[String], max_age: Duration) -> Result<Vec<ObjectStatus>> {
        let mut unmade = self.refused_now()?;
        let of_kind = |kind| unmade.extract_if(.., |of| of.refusal.kind == kind).collect();
        let [refused, pruned]: [Vec<RefusedNow>; 2] =
            [Refused::Backup, Refused::Prune].map(of_kind);
        let objects = match names {
            [] => self.idb.objects()?,
            names => self.objects_named(names, &refused)?,
        };
        let away = self.media_away()?;
        let lost = self.idb.lost_versions()?;
        let lost: HashMap<VersionId, &LostData> = lost.iter().map(|of| (of.version, of)).collect();
        let lacking_copies = self.idb.lacking_copies()?;
        let unsound = self.unsound_places()?.of_this_host();
        let of_unsound = self.unsound_versions(&unsound)?;
        let pools = self.pools_without_next()?;
        let known = Known {
            away: &away,
            lost: &lost,
            unsound: &unsound,
            of_unsound: &of_unsound,
            lacking_copies: &lacking_copies,
            lacking: self.lacking_paths()?,
            not_whole: NotWhole::of(&of_unsound, lost.values().copied()),
            keys: self.fault_of_keys(),
            refused: &refused,
            leap: self.leap()?,
            pruned: &pruned,
            pools: &pools,
        };
        let mut all = Vec::new();
        let mut faults = HashMap::new();
        for object in objects {
            all.extend(self.status_of(&object, &known, &mut faults, max_age)?);
        }
        self.name_ways_out(&mut all, max_age);
        let is_asked_for = |name: &String| names.is_empty() || names.contains(name);
        for of in refused.iter().filter(|of| is_asked_for(&of.refusal.name)) {
            let (name, host) = (&of.refusal.name, &of.refusal.host);
            if !all.iter().any(|o: &ObjectStatus| o.name == *name && o.host == *host)
                && !self.is_known(name, host)?
            {
                all.push(ObjectStatus::never_begun(of));
            }
        }
        Ok(all)
    }

    /// Whether an object of that name and host is known.
    pub fn is_known(&self, name: &str, host: &str) -> Result<bool> {
        Ok(self.idb.objects_by_name(name)?.iter().any(|object| object.host == host))
    }

    pub(crate) fn objects_named(
        &self,
        names: &[String],
        refused: &[RefusedNow],
    ) -> Result<Vec<Object>> {
        let mut found = Vec::new();
        for name in names {
            let objects = self.idb.objects_by_name(name)?;
            if objects.is_empty() && !refused.iter().any(|of| of.refusal.name == *name) {
                return Err(QueryRefusal::NeverBackedUp { name: name.clone() }.into());
            }
            found.extend(objects);
        }
        Ok(found)
    }

    /// `None` for an object of which nothing is to be kept: it only measured, or it was given up and not backed up since.
    fn status_of(
        &self,
        object: &Object,
        known: &Known<'_>,
        faults: &mut HashMap<MediumId, Vec<String>>,
        max_age: Duration,
    ) -> Result<Option<ObjectStatus>> {
        let mut versions = self.idb.versions_of(object.id)?;
        versions.retain(|v| !v.null_device);
        let lost_of = |v: &Version| known.lost.get(&v.id).copied();
        let damaged_of = |v: &Version| known.of_unsound.damaged.get(&v.id);
        let out_of_use = |v: &Version| known.of_unsound.out_of_use.get(&v.id);
        let is_sound = |v: &Version| damaged_of(v).is_none() && out_of_use(v).is_none();
        let mut all = versions.iter().filter(|v| v.is_complete_by(None));
        let newest = all.clone().next();
        let complete = all.find(|v| lost_of(v).is_none() && is_sound(v));
        let backups = self.idb.sessions_of_object(object.id, Some("backup"), LOOKED_BACK)?;
        let kept = backups.iter().find(|s| !s.device.starts_with("null:"));
        let is_given_up = self.idb.object_given_up(object.id)?.is_some();
        if versions.is_empty() && (kept.is_none() || is_given_up) {
            return Ok(None);
        }
        let mut status = ObjectStatus {
            name: if object.name.is_empty() { object.id.to_string() } else { object.name.clone() },
            host: object.host.clone(),
            health: Health::Good,
            why: Vec::new(),
            complete_us: complete.map(|v| v.created_us),
            age: complete.map(|v| age_of(v.created_us)),
            last_backup: kept.map(last),
            last_drill: self.last_of(object.id, "drill")?,
        };
        let refused = known.refusal_of(&object.name, &object.host);
        status.judge(max_age, kept.and_then(anomaly), refused);
        for why in mirrors_left(&backups) {
            status.say(Health::Warning, why);
        }
        self.say_lacks(newest, kept, known, &mut status)?;
        if let Some(why) = known.keys.clone().filter(|_| object.host == self.host()) {
            status.say(Health::Warning, why);
        }
        say_pruned(known, &mut status);
        let is_after = |leap: &Leap| newest.is_some_and(|v| leap.doubts(v.created_us));
        if let Some(leap) = known.leap.filter(is_after) {
            status.say(Health::Warning, format!("{} ({})", leap.text(), Code::ClockLeapt));
        }
        if let Some(fault) = self.clock_fault(object.id)? {
            status.say(Health::Warning, format!("{} ({})", fault.text, Code::ClockWrong));
        }
        self.say_newest(newest, known, &mut status)?;
        let media = complete.map(|v| self.media_of(v)).transpose()?.unwrap_or_default();
        self.say_media(&media, known, faults, &mut status)?;
        let is_known = |v: &&Version| lost_of(v).is_none_or(|of| !matches!(of.loss, Loss::Base(_)));
        if let Some(version) = complete.or(newest.filter(is_known)) {
            for why in self.copies_that_lack(version, known.lacking_copies)? {
                status.say(Health::Warning, why);
            }
        }
        for why in complete.map(|v| self.mirrors_behind(v.id)).transpose()?.unwrap_or_default() {
            status.say(Health::Warning, why);
        }
        self.say_away(object.id, complete, known, &mut status);
        Ok(Some(status))
    }

    /// Says which paths the newest version lacks, or the last backup did not find.
    fn say_lacks(
        &self,
        newest: Option<&Version>,
        kept: Option<&Session>,
        known: &Known<'_>,
        status: &mut ObjectStatus,
    ) -> Result<()> {
        if let Some(newest) = newest
            && let Some(paths) = known.lacking.of(newest.id)
        {
            let lacks = self.lacks_text(newest.id, paths, &known.lacking, &known.not_whole)?;
            let name = self.name_of_version(newest.id)?;
            status.say(Health::Warning, format!("{name} is not all: {lacks}"));
        } else if let Some(last) = kept {
            let paths = said_of(last).map(Said::all).unwrap_or_default();
            if !paths.is_empty() {
                let text = format!(
                    "its last backup did not find, or could not read, {}",
                    paths_text(&paths)
                );
                status.say(Health::Warning, text);
            }
        }
        Ok(())
    }

    /// Says why the newest version cannot be restored as it is.
    fn say_newest(
        &self,
        newest: Option<&Version>,
        known: &Known<'_>,
        status: &mut ObjectStatus,
    ) -> Result<()> {
        if let Some((newest, lost)) =
            newest.and_then(|v| Some((v, known.lost.get(&v.id).copied()?)))
        {
            let name = self.name_of_version(newest.id)?;
            let health = match lost.loss.is_not_imported() {
                true => Health::Critical,
                false => Health::Warning,
            };
            status.say(health, format!("{name} is not whole: {}", lost_text(lost)));
        }
        if let Some((newest, labels)) =
            newest.and_then(|v| Some((v, known.of_unsound.damaged.get(&v.id)?)))
        {
            let name = self.name_of_version(newest.id)?;
            let text = format!("{name} {}; {}", damaged_text(labels), read_again_text(labels));
            status.say(Health::Critical, text);
        }
        if let Some((newest, what)) =
            newest.and_then(|v| Some((v, known.of_unsound.out_of_use.get(&v.id)?)))
        {
            let name = self.name_of_version(newest.id)?;
            let text = format!(
                "{name} cannot be restored as it is: {what}; bring that back, or make a full backup"
            );
            status.say(Health::Critical, text);
        }
        Ok(())
    }

    fn last_of(&self, object: ObjectId, kind: &str) -> Result<Option<LastSession>> {
        Ok(self.idb.sessions_of_object(object, Some(kind), 1)?.first().map(last))
    }
}

/// Says that an object's last prune could not give back what was given up.
fn say_pruned(known: &Known<'_>, status: &mut ObjectStatus) {
    let is_it = |of: &&RefusedNow| of.refusal.name == status.name && of.refusal.host == status.host;
    if let Some(of) = known.pruned.iter().find(is_it) {
        let age = age_text(of.age);
        let text = format!(
            "its last prune, {age} ago, could not give back what was given up ({}): {}",
            Code::NotConsolidated,
            of.refusal.reason
        );
        status.say(Health::Warning, text);
    }
}
