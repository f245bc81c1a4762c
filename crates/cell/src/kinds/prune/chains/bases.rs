//! Bases that were given up: what newer versions build on stays on the media, however little of it they still have. Where
//! more than half of such a chain is dead, its last version is consolidated, what built on it builds on the new full, and
//! the chain goes; on a medium that is full, or will soon have no room for a full, much less is worth it. Until that was done nothing
//! of the chain is marked: where it cannot be done, as there is no room or something is damaged, all of it stays as it is, and that
//! is said.

use capstan_address::HostName;
use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use capstan_engine::message::Code;
use capstan_format::id::{MediumId, VersionId};
use capstan_idb::{ExpiredSegment, PruneRow, Status};

use super::outlook::{Outlook, Room};
use super::room::needed_for;
use super::site::Site;
use crate::Cell;
use crate::error::{CellError, PruneRefusal, Result, chain};
use crate::kinds::consolidate::{Consolidated, Weight, weigh};
use crate::kinds::prune::chains::hindered::Hinder;
use crate::kinds::prune::chains::plan::{Base, Bases, Lack, Plan, Planned};
use crate::kinds::prune::decide::{Action, Asked, Decision};
use crate::kinds::prune::report::{
    ConsolidatedBase, PruneRequest, Pruned, PrunedVersion, UnconsolidatedBase,
};
use crate::observe::{Observer, Stop};
use crate::reading::version::VersionView;
use crate::session::{SessionLog, now_us};
use crate::supply::Wanted;
use crate::versions::leap::Leap;

/// Share of a chain that is dead from which on it is consolidated, in percent of its data: below, more bytes would be
/// written than are given back.
const DEAD_PERCENT: u64 = 50;
/// The same on a medium that is full: there any room counts.
const DEAD_PERCENT_FULL: u64 = 5;

impl From<&CellError> for Lack {
    fn from(e: &CellError) -> Self {
        Self { why: chain(e), bytes: None }
    }
}

/// Versions that are only kept since ones that live build on them: the last of each such chain, with a chain below it.
pub(in crate::kinds::prune) fn given_up(
    rows: &[PruneRow],
    decisions: &[Decision],
    asked: &Asked<'_>,
) -> Vec<Base> {
    let places: HashMap<VersionId, usize> =
        rows.iter().enumerate().map(|(i, row)| (row.version.id, i)).collect();
    let base_of = |i: usize| rows[i].version.base.and_then(|id| places.get(&id).copied());
    let is_free = |i: usize| decisions[i].action == Action::Mark && !asked.is_held(&rows[i]);
    let mut found: Vec<usize> = (0..rows.len())
        .filter(|i| decisions[*i].action == Action::Keep && asked.is_of(rows[*i].version.object))
        .filter_map(base_of)
        .filter(|i| {
            // What is locked below stays, so that nothing would be given back. A circle is no chain.
            let mut below = std::iter::successors(base_of(*i), |i| base_of(*i)).take(rows.len());
            is_free(*i) && rows[*i].version.base.is_some() && below.all(is_free)
        })
        .collect();
    found.sort_unstable();
    found.dedup();
    let session =
        |i: usize| rows[i].session.map_or(rows[i].version.id.to_string(), |s| s.to_string());
    let base = |i: usize| {
        let chain = std::iter::successors(Some(i), |i| base_of(*i)).take(rows.len());
        Base {
            version: rows[i].version.clone(),
            session: session(i),
            chain: chain.map(|i| (rows[i].version.id, session(i))).collect(),
        }
    };
    found.into_iter().map(base).collect()
}

/// All versions of chains.
pub(in crate::kinds::prune) fn versions_of(bases: &[Base]) -> HashSet<VersionId> {
    bases.iter().flat_map(Base::versions).collect()
}

impl Bases {
    fn fail(&mut self, base: Base, (name, host): (String, HostName), why: Lack) {
        let session = base.session.clone();
        let Lack { why, bytes: lacks_bytes } = why;
        self.failed.push((base, UnconsolidatedBase { name, host, session, why, lacks_bytes }));
    }
}

impl Cell {
    /// Settles what is to be done about bases: those that take the least room first, since each gives back what the next may
    /// need.
    pub(in crate::kinds::prune) fn plan_bases(
        &self,
        bases: Vec<Base>,
        rows: &[PruneRow],
        gone: &HashSet<VersionId>,
    ) -> Result<Bases> {
        let mut of = Bases::default();
        if bases.is_empty() {
            return Ok(of);
        }
        let (sizes, used) = (self.sizes()?, self.idb.used_segments()?);
        let outlook = Outlook::new(rows, &sizes, &used, gone);
        for base in bases {
            let object = self.idb.object(base.version.object)?;
            let (name, host) = object.map(|o| (o.name, o.host)).unwrap_or_default();
            match self.plan_base(&base, (&name, &host), &outlook) {
                Ok(Planned::Consolidate(plan)) => of.plans.push(*plan),
                Ok(Planned::Stay(said)) => {
                    of.hindered.extend(said);
                    of.stay.push(base);
                }
                Err(e) => of.fail(base, (name, host), Lack::from(&e)),
            }
        }
        of.plans.sort_by_key(|plan| plan.of.takes_bytes);
        Ok(of)
    }

    fn plan_base(
        &self,
        base: &Base,
        of: (&str, &HostName),
        outlook: &Outlook<'_>,
    ) -> Result<Planned> {
        let view = VersionView::open(self, base.version.id)?;
        if let Some(hinder) = self.hinder_of(base, &view)? {
            return Ok(Planned::Stay(self.hindered(base, of, hinder, &|| Ok(None), outlook)?));
        }
        let Some(Site { medium, to, copies }) = self.site_of(&view)? else {
            let takes = || Ok(Some(self.weigh_base(base)?.takes));
            return Ok(Planned::Stay(self.hindered(base, of, Hinder::Media, &takes, outlook)?));
        };
        let weight = self.weigh_base(base)?;
        let least = match self.free_if_full(medium, base.version.object, (0, 0))? {
            Some(_) => DEAD_PERCENT_FULL,
            None => DEAD_PERCENT,
        };
        let is_worth_it =
            weight.dead_percent() >= least || self.is_due(base, medium, weight.takes, outlook)?;
        if !is_worth_it {
            return Ok(Planned::Stay(None));
        }
        let (name, host) = of;
        let of = ConsolidatedBase {
            name: name.to_owned(),
            session: base.session.clone(),
            dead_percent: weight.dead_percent(),
            by: None,
            takes_bytes: weight.takes,
        };
        let host = host.to_owned();
        let plan = Plan { base: base.clone(), of, host, medium, to, copies };
        Ok(Planned::Consolidate(Box::new(plan)))
    }

    fn weigh_base(&self, base: &Base) -> Result<Weight> {
        let mut view = VersionView::open(self, base.version.id)?;
        // As the consolidation will: what does not open is taken over whole, and takes more room.
        if self.add_keys(&mut view, true).is_err() {
            view = VersionView::open(self, base.version.id)?;
            self.add_keys(&mut view, false)?;
        }
        weigh(&view)
    }

    /// Whether a chain is to be consolidated though little of it is dead: later there would be no room for its full, or there is none
    /// now and backups soon have none either, which is to be said. Of a pool all disks count.
    fn is_due(
        &self,
        base: &Base,
        medium: MediumId,
        takes: u64,
        outlook: &Outlook<'_>,
    ) -> Result<bool> {
        let (version, object) = (base.version.id, base.version.object);
        if !outlook.is_growing(version, object) {
            return Ok(false);
        }
        let Some(disks) = self.disks_with(medium)? else { return Ok(false) };
        // At least half of what the next backup takes comes back: what only grows is not helped so.
        let chain: u64 = base.versions().map(|version| outlook.bytes(version, &disks.media)).sum();
        let gain = chain.saturating_sub(takes);
        if gain == 0 || gain < outlook.growth_of(object, &disks.media) / 2 {
            return Ok(false);
        }
        Ok(outlook.room(&disks.media, disks.free, needed_for(takes)) != Room::Lasts)
    }

    /// What a dry run says of plans, where `gone` is what goes without them: those that have the room are done, and what is
    /// below them goes too.
    pub(in crate::kinds::prune) fn foresee_bases(
        &self,
        bases: &mut Bases,
        gone: &mut HashSet<VersionId>,
        used: &[ExpiredSegment],
    ) -> Result<()> {
        let freed = |gone: &HashSet<VersionId>, medium| -> u64 {
            let of = used.iter().filter(|s| s.medium == medium);
            of.filter(|s| s.versions.iter().all(|v| gone.contains(v))).map(|s| s.bytes).sum()
        };
        let mut taken: HashMap<MediumId, u64> = HashMap::new();
        for mut plan in std::mem::take(&mut bases.plans) {
            let taken = taken.entry(plan.medium).or_default();
            let back = freed(gone, plan.medium);
            let room = self.room_for(&plan)?.map(|room| (room + back).saturating_sub(*taken));
            if let Some(lack) = self.settle_room(&mut plan, room)? {
                bases.fail(plan.base, (plan.of.name, plan.host), lack);
                continue;
            }
            *taken += plan.of.takes_bytes;
            gone.extend(plan.base.versions());
            bases.done.push(plan.of);
        }
        Ok(())
    }

    /// Consolidates what is planned. Where the next one lacks room, `free` removes from the media what need not stay any more.
    pub(in crate::kinds::prune) fn consolidate_bases(
        &self,
        bases: &mut Bases,
        free: &mut dyn FnMut() -> Result<()>,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<()> {
        let mut is_free = true;
        for mut plan in std::mem::take(&mut bases.plans) {
            if stop.0.load(Relaxed) {
                break;
            }
            if !is_free && self.lack_of_room(&plan, self.room_for(&plan)?)?.is_some() {
                free()?;
                is_free = true;
            }
            let room = self.room_for(&plan)?;
            if let Some(lack) = self.settle_room(&mut plan, room)? {
                bases.fail(plan.base, (plan.of.name, plan.host), lack);
                continue;
            }
            match self.consolidate_base(&mut plan, &mut bases.left, observer, stop) {
                Ok(()) => {
                    self.bring_copies(&plan, &SessionLog::new(observer), observer, stop)?;
                    bases.done.push(plan.of);
                }
                Err(_) if stop.0.load(Relaxed) => {}
                Err(e) => bases.fail(plan.base, (plan.of.name, plan.host), Lack::from(&e)),
            }
            bases.wrote = true;
            is_free = false;
        }
        Ok(())
    }

    fn consolidate_base(
        &self,
        plan: &mut Plan,
        left: &mut Vec<(String, u64, u64)>,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<()> {
        let (base, name) = (&plan.base.version, &plan.of.name);
        let wanted = Wanted::default();
        let Consolidated { report, version } =
            self.consolidate_version(base, name, &plan.to, &wanted, observer, stop)?;
        if report.status != Status::Completed.as_str() {
            // It would keep the room that others need.
            let of = self.sizes()?.remove(&version).unwrap_or_default();
            let add =
                |(segments, bytes), (_, s, b): &(MediumId, u64, u64)| (segments + s, bytes + b);
            let (segments, bytes) = of.iter().fold((0, 0), add);
            left.push((report.session.clone(), segments, bytes));
            self.idb.expire(now_us(), &[], |_| (vec![version], ()))?;
            let why = report.errors.last().map(|e| e.error.clone());
            return Err(PruneRefusal::NotConsolidated { why: why.unwrap_or(report.status) }.into());
        }
        // A backup may have built on it meanwhile.
        self.refuse_without_referred(base.id, version)?;
        if !self.idb.rebase_unread(base.id, version, Some(now_us()))? {
            return Err(PruneRefusal::FullGivenUp {
                session: report.session.get(..8).unwrap_or_default().to_owned(),
            }
            .into());
        }
        plan.of.takes_bytes = report.bytes_written;
        plan.of.by = Some(report.session);
        Ok(())
    }

    /// Says which bases were not consolidated; these and what they build on stay as they are, and the others are marked where the
    /// rules say so.
    pub(in crate::kinds::prune) fn settle_bases(
        &self,
        bases: Bases,
        request: &PruneRequest,
        leap: Option<Leap>,
        log: &SessionLog<'_>,
        pruned: &mut Pruned,
    ) -> Result<()> {
        // What was written in vain and removed again is nothing that was given back.
        for (session, segments, bytes) in &bases.left {
            if pruned.versions.iter().any(|v| v.session == *session) {
                pruned.versions.retain(|v| v.session != *session);
                pruned.removed_versions = pruned.removed_versions.saturating_sub(1);
                pruned.removed_segments = pruned.removed_segments.saturating_sub(*segments);
                pruned.freed_bytes = pruned.freed_bytes.saturating_sub(*bytes);
            }
        }
        let said = bases.failed.iter().map(|(_, failed)| failed).chain(&bases.hindered);
        for failed in said {
            let session = failed.session.get(..8).unwrap_or_default();
            let text = format!(
                "{}@{session} was not consolidated, so all that it builds on stays: {}",
                failed.name, failed.why
            );
            log.say(Code::NotConsolidated, "cell", &failed.name, text);
        }
        let failed: Vec<Base> = bases.failed.iter().map(|(base, _)| base.clone()).collect();
        let unmarked = versions_of(&failed);
        if !request.dry_run && !bases.stay.is_empty() {
            let stay = versions_of(&bases.stay);
            // Consolidating took its time: they are looked at again.
            let asked = self.asked_by(request, &self.media_away()?, leap)?;
            self.idb.expire(now_us(), &[], |rows| {
                let decisions = asked.decide(rows);
                let given_up = rows.iter().zip(&decisions).filter(|(row, d)| {
                    let id = row.version.id;
                    d.action != Action::Keep && stay.contains(&id) && !unmarked.contains(&id)
                });
                (given_up.map(|(row, _)| row.version.id).collect(), ())
            })?;
        }
        for session in failed.iter().flat_map(Base::sessions) {
            let of = pruned.versions.iter_mut().find(|v| v.session == session);
            if let Some(of) = of.filter(|v| v.action == Action::Mark) {
                of.action = Action::Keep;
                of.why.push("what it is needed for was not consolidated".to_owned());
            }
        }
        pruned.consolidated = bases.done;
        let failed = bases.failed.into_iter().map(|(_, failed)| failed);
        pruned.unconsolidated = failed.chain(bases.hindered).collect();
        Ok(())
    }

    /// What a dry run says of the chains that go.
    pub(in crate::kinds::prune) fn say_foreseen(
        bases: &Bases,
        gone: &HashSet<VersionId>,
        rows: &[PruneRow],
        versions: &mut [PrunedVersion],
    ) {
        if bases.done.is_empty() {
            return;
        }
        for row in rows.iter().filter(|row| gone.contains(&row.version.id)) {
            let session = row.session.map_or(row.version.id.to_string(), |s| s.to_string());
            let of = versions.iter_mut().find(|v| v.session == session && v.action == Action::Mark);
            if let Some(of) = of {
                of.action = Action::Remove;
                of.why.push("consolidated".to_owned());
            }
        }
    }
}
