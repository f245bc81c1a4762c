//! Room on media: what a consolidation lacks, and what is said where a disk is full and what was given up stays on it.

use std::collections::{BTreeMap, HashMap, HashSet};

use capstan_engine::message::{Code, shell_word};
use capstan_format::id::{MediumId, ObjectId, VersionId};
use capstan_idb::{PruneRow, Refusal, Refused, Status};
use capstan_medium::host::DeviceHost;
use serde::Deserialize;

use super::plan::{Lack, Plan};
use crate::Cell;
use crate::error::Result;
use crate::kinds::consolidate::To;
use crate::kinds::prune::chains::stand_ins::Place;
use crate::kinds::prune::decide::{Action, Asked, UNENDED};
use crate::kinds::prune::report::{
    PruneRequest, Pruned, PrunedVersion, UnconsolidatedBase, UnendedBackup,
};
use crate::media::{LEAST_SPACE, is_elsewhere, mb};
use crate::session::refused::called;
use crate::session::{SessionLog, now_us};

/// Exit code of a prune that left something undone.
const WITH_ERRORS: u8 = 3;
/// Room that is left on a medium beside what a full takes.
const SPARE: u64 = 1 << 20;

/// What the report of a backup says of room.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OfReport {
    device_full: bool,
    media: Vec<String>,
}

/// How a version is named in commands.
fn named(name: &str, session: &str) -> String {
    shell_word(format!("{name}@{}", session.get(..8).unwrap_or_default()))
}

/// The command that makes a full of a version on another disk.
pub(in crate::kinds::prune) fn on_another_disk(name: &str, session: &str) -> String {
    format!(
        "use `capstan consolidate {} --to DIRECTORY` with a directory on another disk, and prune again",
        named(name, session)
    )
}

/// What helps where a disk has no room for what a consolidation of a version writes.
fn ways(name: &str, session: &str) -> String {
    format!(
        "use `capstan consolidate {} --to DIRECTORY` with a directory on another disk, or make room, and prune again",
        named(name, session)
    )
}

/// All that these versions build on, and they.
pub(in crate::kinds::prune) fn with_bases(
    rows: &[PruneRow],
    of: impl Iterator<Item = VersionId>,
) -> HashSet<VersionId> {
    let base: HashMap<VersionId, Option<VersionId>> =
        rows.iter().map(|row| (row.version.id, row.version.base)).collect();
    let mut all = HashSet::new();
    for id in of {
        let mut at = Some(id);
        while let Some(id) = at.filter(|id| all.insert(*id)) {
            at = base.get(&id).copied().flatten();
        }
    }
    all
}

/// Bytes that are to be free for a full that takes so many.
pub(in crate::kinds::prune) fn needed_for(takes: u64) -> u64 {
    takes.saturating_add(takes / 50).saturating_add(SPARE).max(LEAST_SPACE)
}

/// Bytes free where a full goes, as far as anybody knows.
pub(in crate::kinds::prune) fn room_at(devices: &dyn DeviceHost, to: &To) -> Option<u64> {
    devices.space(to.device.as_store()?).map(|space| space.free)
}

impl Cell {
    /// Why there is no room for a consolidation, and what to do; nothing if there is, or nobody knows.
    pub(in crate::kinds::prune) fn lack_of_room(
        &self,
        plan: &Plan,
        room: Option<u64>,
    ) -> Result<Option<Lack>> {
        let takes = plan.of.takes_bytes;
        let needed = needed_for(takes);
        let Some(room) = room.filter(|room| *room < needed) else {
            return Ok(None);
        };
        let medium = match &plan.to.pool {
            Some(pool) => format!("the disks of pool '{pool}'"),
            None => format!("medium '{}'", self.labels([plan.medium].iter())?.concat()),
        };
        let lacks = needed - room;
        let why = format!(
            "its full takes {}, for which {} are to be free on {medium}, and {} are: {} lack; {}",
            mb(takes),
            mb(needed),
            mb(room),
            mb(lacks),
            ways(&plan.of.name, &plan.of.session)
        );
        Ok(Some(Lack { why, bytes: Some(lacks) }))
    }

    /// Bytes that are free on the disk of a medium, where that is full: too little for any session, or for the last backup of an
    /// object if nothing came back since. So many bytes came or will come back.
    pub(in crate::kinds::prune) fn free_if_full(
        &self,
        id: MediumId,
        object: ObjectId,
        (came, will_come): (u64, u64),
    ) -> Result<Option<u64>> {
        let Some(medium) = self.idb.medium(id)? else { return Ok(None) };
        let Some(store) = medium.device.as_store() else { return Ok(None) };
        if is_elsewhere(self, &medium) {
            return Ok(None);
        }
        let there = self.devices.medium(&medium.device);
        if there.is_ok_and(|there| there.header().medium != id) {
            return Ok(None);
        }
        let Some(free) = self.devices.space(store).map(|space| space.free) else { return Ok(None) };
        if free.saturating_add(will_come) < LEAST_SPACE {
            return Ok(Some(free));
        }
        let last = self.idb.sessions_of_object(object, Some("backup"), 1)?;
        let report = last.first().and_then(|s| s.report.as_deref());
        let report: OfReport =
            report.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        let had_none = report.device_full && report.media.contains(&medium.label);
        Ok((had_none && came == 0 && will_come == 0).then_some(free))
    }

    /// The versions on full disks for which fulls on other disks stand, each with its full, which is as good.
    pub(in crate::kinds::prune) fn crowded(&self) -> Result<HashMap<VersionId, VersionId>> {
        let rows = self.idb.prune_rows()?;
        let is_up = |row: &&PruneRow| row.keeping.expired_us.is_none();
        let stands_for = |row: &PruneRow| Some((row.version.stands_for?, row.version.object));
        let of: BTreeMap<VersionId, ObjectId> =
            rows.iter().filter(is_up).filter_map(stands_for).collect();
        let mut found = HashMap::new();
        if of.is_empty() {
            return Ok(found);
        }
        let sizes = self.sizes()?;
        for (version, object) in of {
            let on =
                |id: VersionId| sizes.get(&id).into_iter().flatten().map(|(medium, ..)| *medium);
            let mut is_crowded = false;
            for medium in on(version) {
                is_crowded |= self.free_if_full(medium, object, (0, 0))?.is_some();
            }
            if !is_crowded {
                continue;
            }
            let full = self.stand_in(version, Place::OfGivenUp, &mut |_, _| ())?;
            let Some(full) = full else { continue };
            let mut is_on_disk = true;
            for medium in on(full) {
                let medium = self.idb.medium(medium)?;
                is_on_disk &= medium.is_some_and(|medium| medium.device.is_on_stores());
            }
            if is_on_disk {
                found.insert(version, full);
            }
        }
        Ok(found)
    }

    /// Puts on record which objects have chains that were not consolidated, so that `status` says it until a prune could.
    pub(in crate::kinds::prune) fn record_unconsolidated(
        &self,
        request: &PruneRequest,
        pruned: &Pruned,
    ) -> Result<()> {
        let asked = self.objects_asked(request)?;
        let before: Vec<_> = self.idb.refusals()?;
        for object in self.idb.objects()? {
            if asked.as_ref().is_some_and(|asked| !asked.contains(&object.id)) {
                continue;
            }
            let is_it = |of: &&UnconsolidatedBase| of.name == object.name && of.host == object.host;
            let name = called(&object);
            if let Some(of) = pruned.unconsolidated.iter().find(is_it) {
                let session = of.session.get(..8).unwrap_or_default();
                let refusal = Refusal {
                    kind: Refused::Prune,
                    host: object.host.clone(),
                    refused_us: now_us(),
                    code: WITH_ERRORS,
                    reason: format!("{name}@{session} was not consolidated: {}", of.why),
                    name,
                };
                self.idb.put_refusal(&refusal)?;
                continue;
            }
            let was = |of: &Refusal| {
                of.kind == Refused::Prune && of.name == name && of.host == object.host
            };
            if before.iter().any(was) {
                self.idb.end_refusal(Refused::Prune, &name, &object.host)?;
            }
        }
        Ok(())
    }

    /// Says which backups did not complete and stay on a disk that is full, so that they can be resumed, and what lets them go.
    pub(in crate::kinds::prune) fn say_unended(
        &self,
        request: &PruneRequest,
        log: &SessionLog<'_>,
        pruned: &mut Pruned,
    ) -> Result<()> {
        let stays =
            |v: &PrunedVersion| v.action == Action::Keep && v.why.iter().any(|why| why == UNENDED);
        let stay: HashSet<&str> =
            pruned.versions.iter().filter(|v| stays(v)).map(|v| v.session.as_str()).collect();
        if stay.is_empty() {
            return Ok(());
        }
        let freed = pruned.freed_bytes;
        let back = if request.dry_run { (0, freed) } else { (freed, 0) };
        let sizes = self.sizes()?;
        for row in self.idb.prune_rows()? {
            let session = row.session.map_or(row.version.id.to_string(), |s| s.to_string());
            let unended = matches!(row.version.status, Status::Incomplete | Status::Failed);
            if !unended || !stay.contains(session.as_str()) {
                continue;
            }
            let name = self.idb.object(row.version.object)?.map(|o| o.name).unwrap_or_default();
            for (medium, _, bytes) in sizes.get(&row.version.id).into_iter().flatten() {
                if self.idb.management(*medium)?.full_us.is_some() && self.is_on_tape(*medium)? {
                    let label = self.labels([*medium].iter())?.concat();
                    let short = session.get(..8).unwrap_or_default();
                    let version = shell_word(format!("{name}@{short}"));
                    let text = format!(
                        "{version} did not complete, and has {} on tape '{label}', which is full; it stays so that `backup --resume` can \
                         go on with it, `capstan protect {version} --none` and `capstan prune {}` let it go, and then the tape can be \
                         recycled",
                        mb(*bytes),
                        shell_word(&name)
                    );
                    log.say(Code::UnendedKept, "cell", &name, text);
                    let (name, session) = (name.clone(), session.clone());
                    pruned.unended.push(UnendedBackup {
                        name,
                        session,
                        medium: label,
                        bytes: *bytes,
                    });
                    continue;
                }
                let Some(free) = self.free_if_full(*medium, row.version.object, back)? else {
                    continue;
                };
                let label = self.labels([*medium].iter())?.concat();
                let short = session.get(..8).unwrap_or_default();
                let version = shell_word(format!("{name}@{short}"));
                let text = format!(
                    "{version} did not complete, and has {} on medium '{label}', whose disk is full: {} are free; it stays so that \
                     `backup --resume` can go on with it, `capstan protect {version} --none` and `capstan prune {}` let it go",
                    mb(*bytes),
                    mb(free),
                    shell_word(&name)
                );
                log.say(Code::UnendedKept, "cell", &name, text);
                let (name, session) = (name.clone(), session.clone());
                pruned.unended.push(UnendedBackup { name, session, medium: label, bytes: *bytes });
            }
        }
        Ok(())
    }

    /// Says what was given up and stays all the same on a disk that is full, since newer versions build on it. What is held is
    /// left out: to write it anew would not let it go.
    pub(in crate::kinds::prune) fn say_crowded(
        &self,
        request: &PruneRequest,
        asked: &Asked<'_>,
        log: &SessionLog<'_>,
        pruned: &mut Pruned,
    ) -> Result<()> {
        let is_marked = |v: &&PrunedVersion| v.action == Action::Mark;
        let marked: HashSet<&str> =
            pruned.versions.iter().filter(is_marked).map(|v| v.session.as_str()).collect();
        if marked.is_empty() {
            return Ok(());
        }
        let freed = pruned.freed_bytes;
        let back = if request.dry_run { (0, freed) } else { (freed, 0) };
        let rows = self.idb.prune_rows()?;
        let held = rows.iter().filter(|row| asked.is_held(row)).map(|row| row.version.id);
        let held = with_bases(&rows, held);
        let session = |row: &PruneRow| {
            row.session.map_or(row.version.id.to_string(), |session| session.to_string())
        };
        let is_stuck = |row: &&PruneRow| {
            marked.contains(session(row).as_str()) && !held.contains(&row.version.id)
        };
        let stuck: Vec<&PruneRow> = rows.iter().filter(is_stuck).collect();
        let ids: HashSet<VersionId> = stuck.iter().map(|row| row.version.id).collect();
        let sizes = self.sizes()?;
        let mut full: BTreeMap<(ObjectId, MediumId), (u64, u64)> = BTreeMap::new();
        for row in &stuck {
            for (medium, _, bytes) in sizes.get(&row.version.id).into_iter().flatten() {
                let of = full.entry((row.version.object, *medium)).or_default();
                *of = (of.0 + 1, of.1 + bytes);
            }
        }
        for ((object, medium), (versions, bytes)) in full {
            let Some(free) = self.free_if_full(medium, object, back)? else { continue };
            // The oldest that stays: what is newer builds on it, or on the new full in its place.
            let builds = |row: &&PruneRow| {
                row.version.object == object
                    && !ids.contains(&row.version.id)
                    && row.version.base.is_some_and(|base| ids.contains(&base))
            };
            let Some(child) = rows.iter().rfind(builds) else { continue };
            // Of what it builds on, if that is no full already: then one full is enough, whatever keeps the version itself.
            let below = rows.iter().find(|row| Some(row.version.id) == child.version.base);
            let source = below.filter(|row| row.version.base.is_some()).unwrap_or(child);
            let of = self.idb.object(object)?;
            let (name, host) = of.map(|o| (o.name, o.host)).unwrap_or_default();
            let label = self.labels([medium].iter())?.concat();
            let version = source.version.id;
            let source = session(source);
            // It was said with its reason already.
            if pruned.unconsolidated.iter().any(|of| (&of.name, &of.session) == (&name, &source)) {
                continue;
            }
            let what = if versions == 1 { "version" } else { "versions" };
            let session = session(child);
            let key = match child.version.key.is_some() && !self.secrets.are_given() {
                true => "; it is encrypted, and both need a key",
                false => "",
            };
            let why = format!(
                "{versions} {what} that it builds on have {} on medium '{label}' and stay, and the disk is full: {} are free; {}{key}",
                mb(bytes),
                mb(free),
                self.lets_go(version, &name, ways(&name, &source))?
            );
            let short = session.get(..8).unwrap_or_default();
            log.say(Code::NotConsolidated, "cell", &name, format!("{name}@{short}: {why}"));
            let lacks_bytes = LEAST_SPACE.checked_sub(free);
            pruned.unconsolidated.push(UnconsolidatedBase {
                name,
                host,
                session,
                why,
                lacks_bytes,
            });
        }
        Ok(())
    }
}
