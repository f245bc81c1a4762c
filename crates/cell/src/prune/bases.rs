//! Bases that were given up: what newer versions build on stays on the media, however little of it they still have. Where
//! more than half of such a chain is dead, its last version is consolidated, what built on it builds on the new full, and
//! the chain goes; on a medium that is full, much less is worth it. Until that was done nothing of the chain is marked: where it
//! cannot be done, as there is no room or something is damaged, all of it stays as it is, and that is said.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::Ordering::Relaxed;

use capstan_devices::address::Address;
use capstan_engine::message::Code;
use capstan_format::id::{MediumId, VersionId};
use capstan_idb::{ExpiredSegment, PruneRow, Status, Version};

use super::decide::{Action, Asked, Decision};
use super::{PruneRequest, Pruned, PrunedVersion};
use crate::Cell;
use crate::backup::Wanted;
use crate::consolidate::{Consolidated, To};
use crate::error::{CellError, Result, chain};
use crate::media::is_elsewhere;
use crate::observe::{Observer, Stop};
use crate::session::{Ears, now_us};
use crate::stand_ins::Place;
use crate::version::VersionView;

/// Share of a chain that is dead from which on it is consolidated, in percent of its data: below, more bytes would be
/// written than are given back.
const DEAD_PERCENT: u64 = 50;
/// The same on a medium that is full: there any room counts.
const DEAD_PERCENT_FULL: u64 = 5;

/// A base that became a full of its own, or would.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsolidatedBase {
    /// The object's name.
    pub name: String,
    /// The session that wrote the base.
    pub session: String,
    /// How much of it and what it builds on nobody needs, in percent of their data.
    pub dead_percent: u64,
    /// The session that consolidated it; none where that is still to come, or was done before.
    pub by: Option<String>,
    /// Bytes that the full takes on its medium: what was written, or about what will be.
    pub takes_bytes: u64,
}

/// A base that should have become a full of its own, and did not: all that it builds on stays, and is not marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnconsolidatedBase {
    /// The object's name.
    pub name: String,
    /// The session that wrote the base.
    pub session: String,
    /// Why, and what to do.
    pub why: String,
}

/// A version that was given up and that others build on, with its session.
#[derive(Clone)]
pub(super) struct Base {
    version: Version,
    session: String,
    /// It and those that it builds on, each with its session.
    chain: Vec<(VersionId, String)>,
}

impl Base {
    /// Its session, and those of what it builds on.
    fn sessions(&self) -> impl Iterator<Item = &str> {
        self.chain.iter().map(|(_, session)| session.as_str())
    }

    fn versions(&self) -> impl Iterator<Item = VersionId> + '_ {
        self.chain.iter().map(|(version, _)| *version)
    }
}

/// What is to be done about a base.
pub(super) struct Plan {
    base: Base,
    pub of: ConsolidatedBase,
    pub medium: MediumId,
    pub to: To,
}

/// What becomes of bases.
#[derive(Default)]
pub(super) struct Bases {
    plans: Vec<Plan>,
    /// Chains that stay as they are, since too little of them is dead or they cannot be consolidated: they are marked.
    stay: Vec<Base>,
    failed: Vec<(Base, UnconsolidatedBase)>,
    pub done: Vec<ConsolidatedBase>,
    /// Whether any session wrote something.
    pub wrote: bool,
    /// What those left that failed: each one's session, segments and bytes.
    left: Vec<(String, u64, u64)>,
}

/// Versions that are only kept since ones that live build on them: the last of each such chain, with a chain below it.
pub(super) fn given_up(rows: &[PruneRow], decisions: &[Decision], asked: &Asked<'_>) -> Vec<Base> {
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
pub(super) fn versions_of(bases: &[Base]) -> HashSet<VersionId> {
    bases.iter().flat_map(Base::versions).collect()
}

/// What builds on a version builds on what stands for it, in these rows.
fn adopt(rows: &mut [PruneRow], from: VersionId, to: VersionId, now_us: i64) {
    for row in rows {
        if row.version.base == Some(from) {
            row.version.base = Some(to);
        }
        if row.version.id == to && !row.keeping.protection.holds_at(now_us) {
            row.keeping.expired_us.get_or_insert(now_us);
        }
    }
}

impl Bases {
    fn fail(&mut self, base: Base, name: String, why: String) {
        let session = base.session.clone();
        self.failed.push((base, UnconsolidatedBase { name, session, why }));
    }
}

impl Cell {
    /// Settles what is to be done about bases: those that take the least room first, since each gives back what the next may
    /// need.
    pub(super) fn plan_bases(&self, bases: Vec<Base>) -> Result<Bases> {
        let mut of = Bases::default();
        for base in bases {
            let object = self.idb.object(base.version.object)?;
            let name = object.map(|o| o.name).unwrap_or_default();
            match self.plan_base(&base, &name) {
                Ok(Some(plan)) => of.plans.push(plan),
                Ok(None) => of.stay.push(base),
                Err(e) => of.fail(base, name, chain(&e)),
            }
        }
        of.plans.sort_by_key(|plan| plan.of.takes_bytes);
        Ok(of)
    }

    /// The versions, after what builds on a base for which a full stands already was made to build on that: a consolidation that
    /// was cut short, or one to another medium, did so. Of a dry run it is only told what there would be. Where a full is not as good
    /// as the base, it says so, and the base stays.
    pub(super) fn rows_with_stand_ins(
        &self,
        mut rows: Vec<PruneRow>,
        asked: &Asked<'_>,
        dry_run: bool,
        ears: &Ears<'_>,
    ) -> Result<Vec<PruneRow>> {
        let mut is_new = false;
        for base in given_up(&rows, &asked.decide(&rows), asked) {
            let from = base.version.id;
            if self.idb.stand_ins(from)?.is_empty() {
                continue;
            }
            let view = VersionView::open(self, from)?;
            if self.is_in_the_way(&base, &view)? || self.only_device(&view)?.is_none() {
                continue;
            }
            drop(view);
            let mut passed = Vec::new();
            let to =
                self.stand_in(from, Place::OfGivenUp, &mut |full, why| passed.push((full, why)))?;
            for (full, why) in passed {
                let name = self.name_of_version(full)?;
                let text = format!(
                    "it does not take the place of what it was made of, which stays: {why}"
                );
                ears.say(Code::Adapted, "cell", &name, text);
            }
            match to {
                None => {}
                Some(to) if dry_run => adopt(&mut rows, from, to, asked.now_us),
                Some(to) => is_new |= self.idb.rebase(from, to, Some(asked.now_us))?,
            }
        }
        if is_new { Ok(self.idb.prune_rows()?) } else { Ok(rows) }
    }

    /// Whether a base cannot be replaced now, whatever it has on media.
    fn is_in_the_way(&self, base: &Base, view: &VersionView<'_>) -> Result<bool> {
        // A restore that runs may have found out already what it reads.
        if self.idb.is_in_use(base.version.object)? {
            return Ok(true);
        }
        // Without its keys nobody can say what is dead.
        let is_closed = view.encrypted && !self.secrets.are_given();
        Ok(is_closed || !self.opens_unasked(view)?)
    }

    fn plan_base(&self, base: &Base, name: &str) -> Result<Option<Plan>> {
        let mut view = VersionView::open(self, base.version.id)?;
        let Some((medium, to)) = self.only_device(&view)? else { return Ok(None) };
        if self.is_in_the_way(base, &view)? {
            return Ok(None);
        }
        // As the consolidation will: what does not open is taken over whole, and takes more room.
        if self.add_keys(&mut view, true).is_err() {
            view = VersionView::open(self, base.version.id)?;
            self.add_keys(&mut view, false)?;
        }
        let weight = crate::consolidate::weigh(&view)?;
        let least = match self.free_if_full(medium, base.version.object, (0, 0))? {
            Some(_) => DEAD_PERCENT_FULL,
            None => DEAD_PERCENT,
        };
        if weight.dead_percent() < least {
            return Ok(None);
        }
        let of = ConsolidatedBase {
            name: name.to_owned(),
            session: base.session.clone(),
            dead_percent: weight.dead_percent(),
            by: None,
            takes_bytes: weight.takes,
        };
        Ok(Some(Plan { base: base.clone(), of, medium, to }))
    }

    /// What a dry run says of plans, where `gone` is what goes without them: those that have the room are done, and what is
    /// below them goes too.
    pub(super) fn foresee_bases(
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
        for plan in std::mem::take(&mut bases.plans) {
            let taken = taken.entry(plan.medium).or_default();
            let back = freed(gone, plan.medium);
            let room = plan.room().map(|room| (room + back).saturating_sub(*taken));
            if let Some(lack) = self.lack_of_room(&plan, room)? {
                bases.fail(plan.base, plan.of.name, lack);
                continue;
            }
            *taken += plan.of.takes_bytes;
            gone.extend(plan.base.versions());
            bases.done.push(plan.of);
        }
        Ok(())
    }

    /// Consolidates what is planned. Where the next one lacks room, `free` removes from the media what need not stay any more.
    pub(super) fn consolidate_bases(
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
            if !is_free && self.lack_of_room(&plan, plan.room())?.is_some() {
                free()?;
                is_free = true;
            }
            if let Some(lack) = self.lack_of_room(&plan, plan.room())? {
                match self.pool_of(plan.medium)? {
                    Some(pool) => plan.to = To::other_of_pool(pool, plan.medium),
                    None => {
                        bases.fail(plan.base, plan.of.name, lack);
                        continue;
                    }
                }
            }
            match self.consolidate_base(&mut plan, &mut bases.left, observer, stop) {
                Ok(()) => bases.done.push(plan.of),
                Err(_) if stop.0.load(Relaxed) => {}
                Err(e) => bases.fail(plan.base, plan.of.name, chain(&e)),
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
            return Err(CellError::BadInput(why.unwrap_or(report.status)));
        }
        // A backup may have built on it meanwhile.
        self.refuse_without_referred(base.id, version)?;
        if !self.idb.rebase(base.id, version, Some(now_us()))? {
            return Err(CellError::BadInput(format!(
                "the full that session {} made of it was given up meanwhile, or a session of the object runs; prune again",
                report.session.get(..8).unwrap_or_default()
            )));
        }
        plan.of.takes_bytes = report.bytes_written;
        plan.of.by = Some(report.session);
        Ok(())
    }

    /// Says which bases were not consolidated; these and what they build on stay as they are, and the others are marked where the
    /// rules say so.
    pub(super) fn settle_bases(
        &self,
        bases: Bases,
        request: &PruneRequest,
        ears: &Ears<'_>,
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
        for (_, failed) in &bases.failed {
            let session = failed.session.get(..8).unwrap_or_default();
            let text = format!(
                "{}@{session} was not consolidated, so all that it builds on stays: {}",
                failed.name, failed.why
            );
            ears.say(Code::NotConsolidated, "cell", &failed.name, text);
        }
        let failed: Vec<Base> = bases.failed.iter().map(|(base, _)| base.clone()).collect();
        let unmarked = versions_of(&failed);
        if !request.dry_run && !bases.stay.is_empty() {
            let stay = versions_of(&bases.stay);
            // Consolidating took its time: they are looked at again.
            let asked = self.asked(request, &self.media_away()?)?;
            self.idb.expire(asked.now_us, &[], |rows| {
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
        pruned.unconsolidated = bases.failed.into_iter().map(|(_, failed)| failed).collect();
        Ok(())
    }

    /// What a dry run says of the chains that go.
    pub(super) fn say_foreseen(
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

    fn pool_of(&self, medium: MediumId) -> Result<Option<String>> {
        Ok(self.idb.management(medium)?.pool)
    }

    /// The device of the one medium that has all of a version and what it builds on. Where there is more than one, or a
    /// copy, a consolidation on one of them would leave less than there was; and of a tape no part is given back.
    fn only_device(&self, view: &VersionView<'_>) -> Result<Option<(MediumId, To)>> {
        let mut only: Option<MediumId> = None;
        for place in &view.segments {
            let [(_, medium, _)] = place.places()[..] else { return Ok(None) };
            if *only.get_or_insert(medium) != medium {
                return Ok(None);
            }
        }
        let Some(medium) = only else { return Ok(None) };
        let Some(known) = self.idb.medium(medium)? else { return Ok(None) };
        // Its host does that.
        if is_elsewhere(&self.idb, &known) {
            return Ok(None);
        }
        // Nothing is written to it now.
        let management = self.idb.management(medium)?;
        if management.exported_us.is_some() || management.retired_us.is_some() {
            return Ok(None);
        }
        let device: Address = known.device.parse()?;
        Ok((!device.is_sequential()).then(|| (medium, To::device(device))))
    }
}
