//! How it stands with each object: its last complete version, its last backup, its last drill, and what is to be done about it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::time::Duration;

use capstan_engine::message::{Code, shell_word};
use capstan_format::id::{MediumId, ObjectId, VersionId};
use capstan_idb::{Loss, LostData, Object, Refused, Session, Status, Version};
use serde::Deserialize;

use crate::Cell;
use crate::error::{CellError, Result};
use crate::media::Condition;
use crate::report::DrillReport;
use crate::report::{INPUT_SIZE, NO_FILES};
use crate::session::refused::{RefusedNow, age_text};
use crate::session::{SessionLog, host, now_us, rfc3339};
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
    pub host: String,
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
                return Err(CellError::BadInput(format!(
                    "no object is called '{name}': it was never backed up here; `capstan status` lists those that were"
                )));
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
        if let Some(why) = known.keys.clone().filter(|_| object.host == host()) {
            status.say(Health::Warning, why);
        }
        say_pruned(known, &mut status);
        let is_after = |leap: &Leap| newest.is_some_and(|v| v.created_us >= leap.to_us);
        if let Some(leap) = known.leap.filter(is_after) {
            status.say(Health::Warning, format!("{} ({})", leap.text(), Code::ClockLeapt));
        }
        for (_, why) in self.clock_faults(object.id)? {
            status.say(Health::Warning, format!("{why} ({})", Code::ClockWrong));
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

    /// Says what is wrong with the media of the last complete version, and with their pools.
    fn say_media(
        &self,
        media: &[MediumId],
        known: &Known<'_>,
        faults: &mut HashMap<MediumId, Vec<String>>,
        status: &mut ObjectStatus,
    ) -> Result<()> {
        for why in self.faults_of(media)? {
            status.say(Health::Warning, why);
        }
        let mut pools: BTreeSet<String> = BTreeSet::new();
        for id in media.iter().filter(|_| !known.pools.is_empty()) {
            pools.extend(self.idb.management(*id)?.pool);
        }
        for why in pools.iter().filter_map(|pool| known.pools.get(pool)) {
            status.say(Health::Warning, why.clone());
        }
        for id in media.iter().copied() {
            // Each medium is looked at once, however many objects it has.
            let found = match faults.entry(id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(free) => free.insert(self.faults_found(id)?),
            };
            for why in found.iter() {
                status.say(Health::Warning, why.clone());
            }
        }
        Ok(())
    }

    /// Says which media of an object are away, and whether its last complete version needs them.
    fn say_away(
        &self,
        object: ObjectId,
        complete: Option<&Version>,
        known: &Known<'_>,
        status: &mut ObjectStatus,
    ) {
        let of_it = |of: &&AwayMedium| of.objects.iter().any(|o| o.id == object);
        let away: Vec<AwayMedium> = known.away.iter().filter(of_it).cloned().collect();
        let needs =
            complete.is_some_and(|v| self.needs(v.id, &away, known.unsound).unwrap_or(false));
        for of in &away {
            let (health, and) = match needs {
                true => (Health::Critical, ", and its last version needs it"),
                false => (Health::Warning, ""),
            };
            let still = match of.still.iter().any(|o| o.id == object) {
                _ if of.is_other_cells => "",
                true => ": its keep rules stand still",
                false => "; other media have what it lacks",
            };
            status.say(health, format!("{}{and}{still}", of.text()));
        }
    }

    /// What is wrong with media that have some of an object's last version.
    fn faults_of(&self, media: &[MediumId]) -> Result<Vec<String>> {
        let mut faults = Vec::new();
        for id in media {
            let Some(medium) = self.idb.medium(*id)? else { continue };
            let management = self.idb.management(*id)?;
            let label = &medium.label;
            // Of one that is retired it is told where that costs something: of the version.
            if management.damaged_us.is_some() && management.retired_us.is_none() {
                faults.push(format!(
                    "medium '{label}', which has some of its last version, was found damaged; {}",
                    self.ways_out_of_damage(*id, label)?
                ));
            }
            if let (Condition::Poor, reasons) = self.condition_of(&medium, &management)?
                && management.retired_us.is_none()
            {
                faults.push(format!(
                    "medium '{label}', which has some of its last version, is poor ({})",
                    reasons.join(", ")
                ));
            }
        }
        Ok(faults)
    }

    /// What can be done about a medium that was found damaged.
    fn ways_out_of_damage(&self, id: MediumId, label: &str) -> Result<String> {
        let word = shell_word(label);
        let is_of_segments = self.idb.damaged_places()?.iter().any(|(medium, _)| *medium == id);
        Ok(match is_of_segments && !self.is_on_tape(id)? {
            true => format!(
                "`capstan verify --medium {word}` reads it again, and `capstan media repair {word}` mends what another medium has; what \
                 stays damaged goes with the versions that have it"
            ),
            false => format!("`capstan verify --medium {word}` says whether it still is"),
        })
    }

    fn faults_found(&self, id: MediumId) -> Result<Vec<String>> {
        match self.idb.medium(id)? {
            Some(medium) => self.faults_at_hand(&medium, &self.idb.management(id)?),
            None => Ok(Vec::new()),
        }
    }

    /// Which copies lack something of a version, or of what it builds on.
    fn copies_that_lack(
        &self,
        version: &Version,
        lacking: &[(VersionId, MediumId)],
    ) -> Result<Vec<String>> {
        if lacking.is_empty() {
            return Ok(Vec::new());
        }
        let chain = capstan_catalog::version::chain(&self.idb, version.id)?;
        let is_of_it = |of: &&(VersionId, MediumId)| chain.iter().any(|v| v.id == of.0);
        let mut media: Vec<MediumId> = lacking.iter().filter(is_of_it).map(|of| of.1).collect();
        media.sort_unstable();
        media.dedup();
        let mut why = Vec::new();
        for medium in media {
            if self.idb.management(medium)?.retired_us.is_some() {
                continue;
            }
            let label = self.idb.medium(medium)?.map_or_else(|| medium.short(), |m| m.label);
            why.push(format!(
                "the copy of its last version on medium '{label}' lacks something, as what it was copied from did then: `capstan media \
                 repair '{label}'` brings that there once it can be had"
            ));
        }
        Ok(why)
    }

    /// The media that have something of a version, or of what it builds on.
    fn media_of(&self, version: &Version) -> Result<Vec<MediumId>> {
        let mut media: Vec<MediumId> = Vec::new();
        for version in capstan_catalog::version::chain(&self.idb, version.id)? {
            for (segment, _) in self.idb.segments_of_version(version.id)? {
                if !media.contains(&segment.medium) {
                    media.push(segment.medium);
                }
            }
        }
        Ok(media)
    }

    /// Why a version is not whole, if it is not.
    pub(crate) fn lost_of(&self, version: VersionId) -> Result<Option<String>> {
        let lost = self.idb.lost_versions()?;
        Ok(lost.iter().find(|of| of.version == version).map(lost_text))
    }

    /// Those of these versions of which nothing is lost for good, or was never imported.
    pub(crate) fn whole_of(&self, versions: &[Version]) -> Result<Vec<Version>> {
        let lost = self.idb.lost_versions()?;
        let lost: HashSet<VersionId> = lost.iter().map(|of| of.version).collect();
        let is_whole = |v: &&Version| !lost.contains(&v.id);
        Ok(versions.iter().filter(is_whole).cloned().collect())
    }

    /// Says of a version that is read that it is not whole, if it is not. `rows` gives the files that are known of it.
    pub(crate) fn say_lost(
        &self,
        version: VersionId,
        name: &str,
        rows: impl FnOnce() -> Option<u64>,
        log: &SessionLog<'_>,
    ) -> Result<()> {
        if let Some(why) = self.lost_of(version)? {
            let all = self.writer_of(version)?.map_or(0, |s| s.files);
            let how_many = match rows().map(|known| all.saturating_sub(known)) {
                None | Some(0) => "files of it may lack".to_owned(),
                Some(n) => format!("{n} of its {all} files lack"),
            };
            let text = format!("it is not whole, and {how_many} that nobody can name: {why}");
            log.say(Code::Missing, "cell", name, text);
        }
        if let Some(lacks) = self.lacks(version)? {
            log.say(Code::LostData, "cell", name, lacks);
        }
        Ok(())
    }

    fn last_of(&self, object: ObjectId, kind: &str) -> Result<Option<LastSession>> {
        Ok(self.idb.sessions_of_object(object, Some(kind), 1)?.first().map(last))
    }
}

impl ObjectStatus {
    /// One of a name by which nothing was ever backed up.
    fn never_begun(of: &RefusedNow) -> Self {
        let age = age_text(of.age);
        let why = format!("nothing was backed up; refused {age} ago: {}", of.refusal.reason);
        Self {
            name: of.refusal.name.clone(),
            host: of.refusal.host.clone(),
            health: Health::Warning,
            why: vec![why],
            complete_us: None,
            age: None,
            last_backup: None,
            last_drill: None,
        }
    }

    fn judge(&mut self, max_age: Duration, anomaly: Option<&str>, refused: Option<&RefusedNow>) {
        match self.age {
            None => self.say(Health::Critical, "it has no complete version".to_owned()),
            Some(age) if age > max_age => {
                let at = self.complete_us.map(rfc3339).unwrap_or_default();
                let text = format!("its last complete version is of {at}, older than allowed");
                self.say(Health::Critical, text);
            }
            Some(_) => {}
        }
        if let Some(of) = refused {
            let age = age_text(of.age);
            let why = format!("its last backup was refused {age} ago: {}", of.refusal.reason);
            self.say(Health::Warning, why);
        }
        let last = self.last_backup.as_ref().filter(|_| refused.is_none());
        match last.map(|b| (b.status, b.id.clone())) {
            Some((Status::Failed | Status::Incomplete, id)) => {
                self.say(
                    Health::Warning,
                    format!("its last backup, {}, did not complete", short(&id)),
                );
            }
            Some((Status::CompletedWithErrors, id)) => {
                self.say(Health::Warning, format!("its last backup, {}, had errors", short(&id)));
            }
            _ => {}
        }
        if let Some(text) = anomaly {
            self.say(Health::Warning, text.to_owned());
        }
        if let Some(drill) = &self.last_drill {
            let id = short(&drill.id).to_owned();
            let failed = drill.drill.as_ref().map_or(0, |d| d.failed);
            match drill.status {
                _ if failed > 0 => {
                    let text = format!("its last drill, {id}, could not prove {failed} files");
                    self.say(Health::Critical, text);
                }
                Status::Completed | Status::Running => {}
                _ => self.say(
                    Health::Warning,
                    format!("its last drill, {id}, did not complete without errors"),
                ),
            }
        }
    }

    pub(crate) fn say(&mut self, health: Health, why: String) {
        self.health = self.health.max(health);
        self.why.push(why);
    }
}

/// What of a report status asks for.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OfReport {
    anomalies: Vec<serde_json::Value>,
    drill: Option<DrillReport>,
}

fn of_report(session: &Session) -> OfReport {
    let report = session.report.as_deref().map(serde_json::from_str);
    report.and_then(std::result::Result::ok).unwrap_or_default()
}

/// What is out of line in a session.
fn anomaly(session: &Session) -> Option<&'static str> {
    let found = of_report(session).anomalies;
    match found.first()? {
        first if first["what"] == INPUT_SIZE => {
            Some("the input of its last backup gave far less than those before")
        }
        first if first["what"] == NO_FILES => {
            Some("its last backup found no file, and the one before many")
        }
        _ => Some(
            "its last backup is out of line with those before, a sign of encryption by malware",
        ),
    }
}

fn last(s: &Session) -> LastSession {
    LastSession {
        id: s.id.to_string(),
        status: s.status,
        started_us: s.started_us,
        drill: of_report(s).drill,
    }
}

/// A version is as old as its begin: what changed since then is not in it.
fn age_of(created_us: i64) -> Duration {
    Duration::from_micros(u64::try_from(now_us() - created_us).unwrap_or(0))
}

fn short(id: &str) -> &str {
    id.get(..8).unwrap_or(id)
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

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn session(status: Status, failed: u64) -> LastSession {
        let drill = Some(DrillReport { failed, ..DrillReport::default() });
        LastSession { id: "0123456789".to_owned(), status, started_us: 0, drill }
    }

    fn judged(
        age: Option<Duration>,
        backup: Status,
        drill: Option<LastSession>,
        is_odd: bool,
    ) -> (Health, usize) {
        let mut status = ObjectStatus {
            name: "t".to_owned(),
            host: "h".to_owned(),
            health: Health::Good,
            why: Vec::new(),
            complete_us: None,
            age,
            last_backup: Some(session(backup, 0)),
            last_drill: drill,
        };
        status.judge(2 * HOUR, is_odd.then_some("it is odd"), None);
        (status.health, status.why.len())
    }

    #[test]
    fn silence_and_failed_proof_are_critical_all_else_is_a_warning() {
        use Health::{Critical, Good, Warning};
        use Status as S;
        assert_eq!(judged(Some(HOUR), S::Completed, None, false), (Good, 0));
        assert_eq!(judged(Some(HOUR), S::Running, None, false), (Good, 0));
        assert_eq!(judged(Some(3 * HOUR), S::Completed, None, false), (Critical, 1));
        assert_eq!(judged(None, S::Failed, None, false), (Critical, 2));
        for bad in [S::Failed, S::Incomplete, S::CompletedWithErrors] {
            assert_eq!(judged(Some(HOUR), bad, None, false), (Warning, 1), "{bad}");
        }
        assert_eq!(judged(Some(HOUR), S::Completed, None, true), (Warning, 1));
        let drilled =
            |status, failed| judged(Some(HOUR), S::Completed, Some(session(status, failed)), false);
        assert_eq!(drilled(S::Completed, 0), (Good, 0));
        assert_eq!(drilled(S::CompletedWithErrors, 0), (Warning, 1));
        assert_eq!(drilled(S::CompletedWithErrors, 2), (Critical, 1));
    }
}
