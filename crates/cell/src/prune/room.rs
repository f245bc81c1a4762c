//! Room on media: what a consolidation lacks, and what is said where a disk is full and what was given up stays on it.

use std::collections::{BTreeMap, HashMap, HashSet};

use capstan_devices::address::Address;
use capstan_devices::file::FileMedium;
use capstan_engine::message::{Code, shell_word};
use capstan_format::id::{MediumId, ObjectId, VersionId};
use capstan_idb::{PruneRow, Status};
use serde::Deserialize;

use super::bases::{Plan, UnconsolidatedBase};
use super::decide::{Action, Asked, UNENDED};
use super::{PruneRequest, Pruned, UnendedBackup};
use crate::Cell;
use crate::error::Result;
use crate::media::{LEAST_SPACE, free_bytes, is_elsewhere, mb};
use crate::session::Ears;

/// Room that is left on a medium beside what a full takes.
const SPARE: u64 = 1 << 20;

/// What the report of a backup says of room.
#[derive(Default, Deserialize)]
#[serde(default)]
struct OfReport {
    device_full: bool,
    media: Vec<String>,
}

/// What helps where a disk has no room for what a consolidation of a version writes.
fn ways(name: &str, session: &str) -> String {
    let session = session.get(..8).unwrap_or_default();
    format!(
        "use `capstan consolidate {} --to DIRECTORY` with a directory on another disk, or make room, and prune again",
        shell_word(format!("{name}@{session}"))
    )
}

/// All that these versions build on, and they.
pub(super) fn with_bases(
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

impl Plan {
    /// Bytes free where it goes, as far as anybody knows.
    pub fn room(&self) -> Option<u64> {
        match &self.to.device {
            Address::File(path) => free_bytes(path),
            _ => None,
        }
    }
}

impl Cell {
    /// Why there is no room for a consolidation, and what to do; nothing if there is, or nobody knows.
    pub(super) fn lack_of_room(&self, plan: &Plan, room: Option<u64>) -> Result<Option<String>> {
        let takes = plan.of.takes_bytes;
        let needed = takes.saturating_add(takes / 50).saturating_add(SPARE).max(LEAST_SPACE);
        let Some(room) = room.filter(|room| *room < needed) else {
            return Ok(None);
        };
        let medium = self.labels([plan.medium].iter())?.concat();
        Ok(Some(format!(
            "its full takes {}, for which {} are to be free on medium '{medium}', and {} are; {}",
            mb(takes),
            mb(needed),
            mb(room),
            ways(&plan.of.name, &plan.of.session)
        )))
    }

    /// Bytes that are free on the disk of a medium, where that is full: too little for any session, or for the last backup of an
    /// object if nothing came back since. So many bytes came or will come back.
    pub(super) fn free_if_full(
        &self,
        id: MediumId,
        object: ObjectId,
        (came, will_come): (u64, u64),
    ) -> Result<Option<u64>> {
        let Some(medium) = self.idb.medium(id)? else { return Ok(None) };
        let Ok(Address::File(path)) = medium.device.parse() else { return Ok(None) };
        if is_elsewhere(&self.idb, &medium) {
            return Ok(None);
        }
        if FileMedium::open(&path).is_ok_and(|there| there.header().medium != id) {
            return Ok(None);
        }
        let Some(free) = free_bytes(&path) else { return Ok(None) };
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

    /// Says which backups did not complete and stay on a disk that is full, so that they can be resumed, and what lets them go.
    pub(super) fn say_unended(
        &self,
        request: &PruneRequest,
        ears: &Ears<'_>,
        pruned: &mut Pruned,
    ) -> Result<()> {
        let stays = |v: &super::PrunedVersion| {
            v.action == Action::Keep && v.why.iter().any(|why| why == UNENDED)
        };
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
                ears.say(Code::UnendedKept, "cell", &name, text);
                let (name, session) = (name.clone(), session.clone());
                pruned.unended.push(UnendedBackup { name, session, medium: label, bytes: *bytes });
            }
        }
        Ok(())
    }

    /// Says what was given up and stays all the same on a disk that is full, since newer versions build on it. What is held is
    /// left out: to write it anew would not let it go.
    pub(super) fn say_crowded(
        &self,
        request: &PruneRequest,
        asked: &Asked<'_>,
        ears: &Ears<'_>,
        pruned: &mut Pruned,
    ) -> Result<()> {
        let is_marked = |v: &&super::PrunedVersion| v.action == Action::Mark;
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
            let name = self.idb.object(object)?.map(|o| o.name).unwrap_or_default();
            let label = self.labels([medium].iter())?.concat();
            let (session, what) =
                (session(child), if versions == 1 { "version" } else { "versions" });
            let why = format!(
                "{versions} {what} that it builds on have {} on medium '{label}' and stay, and the disk is full: {} are free; {}",
                mb(bytes),
                mb(free),
                ways(&name, &session)
            );
            let short = session.get(..8).unwrap_or_default();
            ears.say(Code::NotConsolidated, "cell", &name, format!("{name}@{short}: {why}"));
            pruned.unconsolidated.push(UnconsolidatedBase { name, session, why });
        }
        Ok(())
    }
}
