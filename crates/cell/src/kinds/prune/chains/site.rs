//! Where prune makes the full of a chain: on a disk that has all of it, or on the disks of the pool over which it lies. Other disks that
//! have all of it get a copy of the full, and keep the chain until then ([`KeptCopies`](super::kept_copies::KeptCopies)).

use std::collections::BTreeMap;

use capstan_address::StoreAddress;
use capstan_engine::message::Code;
use capstan_format::id::MediumId;
use capstan_idb::{Medium, PruneRow, Status};

use super::plan::{Lack, Plan};
use super::room::{needed_for, room_at};
use crate::Cell;
use crate::error::{PruneRefusal, Result, chain};
use crate::kinds::consolidate::To;
use crate::media::{LEAST_SPACE, is_elsewhere};
use crate::observe::{Observer, Stop};
use crate::reading::version::VersionView;
use crate::request::{CopyRequest, CopyWhat, VersionName};
use crate::session::SessionLog;

/// Where a full goes.
pub(in crate::kinds::prune) struct Site {
    /// The medium that is looked at for room: of a pool one that has some of the chain.
    pub medium: MediumId,
    pub to: To,
    /// Others that have all of the chain.
    pub copies: Vec<MediumId>,
}

/// What prune may do with what a medium has of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    /// It is a disk that is written and pruned here.
    Disk,
    /// It is out of use, and what it has goes later, if at all.
    Out,
    /// Nothing: another host sees to it, a set has the nights' backups as they were written, of a tape no part is given back.
    Never,
}

/// Disks that take backups in turn: those of a pool, or a single one.
pub(in crate::kinds::prune) struct Disks {
    pub media: Vec<MediumId>,
    /// Bytes free on all of them.
    pub free: u64,
    /// Bytes free by medium; of several on one file system the first alone has them.
    each: Vec<(MediumId, u64)>,
}

impl Disks {
    fn free_but(&self, medium: MediumId) -> u64 {
        self.each.iter().filter(|(id, _)| *id != medium).map(|(_, free)| free).sum()
    }
}

impl Cell {
    fn uses(&self, view: &VersionView<'_>) -> Result<BTreeMap<MediumId, Use>> {
        let mut uses = BTreeMap::new();
        for (_, id, _) in view.segments.iter().flat_map(|segment| segment.places()) {
            if uses.contains_key(&id) {
                continue;
            }
            let of = self.idb.management(id)?;
            let is_out = of.exported_us.is_some() || of.retired_us.is_some();
            let is_anothers = match self.idb.medium(id)? {
                Some(medium) => is_elsewhere(self, &medium),
                None => true,
            };
            let is_never =
                is_anothers || self.set_of_medium(id)?.is_some() || self.is_on_tape(id)?;
            let used = match (is_never, is_out) {
                (true, _) => Use::Never,
                (_, true) => Use::Out,
                _ => Use::Disk,
            };
            uses.insert(id, used);
        }
        Ok(uses)
    }

    /// Whether a full elsewhere may take the place of all this: it lies on disks, and those that are in use have all of it. Copies stay
    /// where there is room; a tape would be given up without it.
    pub(in crate::kinds::prune) fn may_be_replaced(&self, view: &VersionView<'_>) -> Result<bool> {
        Ok(may_be_replaced(view, &self.uses(view)?))
    }

    /// Where prune would make a full of a version: on the disk with the least room of those that have all of it, or on the disks of the
    /// pool over which it lies.
    pub(in crate::kinds::prune) fn site_of(&self, view: &VersionView<'_>) -> Result<Option<Site>> {
        let uses = self.uses(view)?;
        if !may_be_replaced(view, &uses) {
            return Ok(None);
        }
        let disks: Vec<MediumId> =
            uses.iter().filter(|(_, of)| **of == Use::Disk).map(|(id, _)| *id).collect();
        let has_all = |id: &MediumId| {
            let mut places = view.segments.iter().map(|segment| segment.whole_places());
            places.all(|places| places.iter().any(|(_, medium, _)| medium == id))
        };
        let mut whole: Vec<(u64, MediumId, To)> = Vec::new();
        for id in disks.iter().filter(|id| has_all(id)) {
            let Some(known) = self.idb.medium(*id)? else { continue };
            let to = To::device(known.device.clone());
            whole.push((room_at(&*self.devices, &to).unwrap_or(u64::MAX), *id, to));
        }
        whole.sort_by_key(|(free, id, _)| (*free, *id));
        let mut whole = whole.into_iter();
        if let Some((_, medium, to)) = whole.next() {
            return Ok(Some(Site { medium, to, copies: whole.map(|(_, id, _)| id).collect() }));
        }
        let Some(medium) = disks.first().copied() else { return Ok(None) };
        let Some(pool) = self.pool_of(medium)? else { return Ok(None) };
        for id in &disks {
            if self.pool_of(*id)?.as_ref() != Some(&pool) {
                return Ok(None);
            }
        }
        // A pool that has tapes too might take one.
        let is_of_disks = self.disks_with(medium)?.is_some();
        Ok(is_of_disks.then(|| Site { medium, to: To::pool(pool), copies: Vec::new() }))
    }

    /// Bytes free where a full goes, as far as anybody knows.
    pub(in crate::kinds::prune) fn room_for(&self, plan: &Plan) -> Result<Option<u64>> {
        match &plan.to.pool {
            Some(_) => Ok(self.disks_with(plan.medium)?.map(|disks| disks.free)),
            None => Ok(room_at(&*self.devices, &plan.to)),
        }
    }

    /// Why there is no room for a full where so many bytes are free, after other media of its pool were looked at.
    pub(in crate::kinds::prune) fn settle_room(
        &self,
        plan: &mut Plan,
        room: Option<u64>,
    ) -> Result<Option<Lack>> {
        let Some(lack) = self.lack_of_room(plan, room)? else { return Ok(None) };
        let Some(pool) = self.pool_of(plan.medium)?.filter(|_| plan.to.pool.is_none()) else {
            return Ok(Some(lack));
        };
        let needed = needed_for(plan.of.takes_bytes);
        if self.disks_with(plan.medium)?.is_some_and(|d| d.free_but(plan.medium) < needed) {
            return Ok(Some(lack));
        }
        plan.to = To::other_of_pool(pool, plan.medium);
        Ok(None)
    }

    /// Brings a full to the other disks that have all of what it stands for. Where that fails, what they have stays.
    pub(in crate::kinds::prune) fn bring_copies(
        &self,
        plan: &Plan,
        log: &SessionLog<'_>,
        observer: &dyn Observer,
        stop: &Stop,
    ) -> Result<()> {
        if plan.copies.is_empty() {
            return Ok(());
        }
        // The full may be given up already, and what builds on it brings it.
        let rows = self.idb.prune_rows()?;
        let made = |row: &&PruneRow| row.session.map(|s| s.to_string()) == plan.of.by;
        let full = rows.iter().find(made).map(|row| row.version.id);
        let child = rows.iter().find(|row| {
            full.is_some() && row.version.base == full && row.keeping.expired_us.is_none()
        });
        let Some(session) = child.and_then(|row| row.session) else { return Ok(()) };
        for id in &plan.copies {
            let Some(medium) = self.idb.medium(*id)? else { continue };
            let device = medium.device;
            let room = room_at(&*self.devices, &To::device(device.clone()));
            if room.is_none_or(|free| free < needed_for(plan.of.takes_bytes)) {
                continue;
            }
            let (name, session) = (plan.of.name.clone(), Some(session.to_string()));
            let version = VersionName { name, session, as_of_us: None };
            let request = CopyRequest {
                what: CopyWhat::Version(version),
                only: false,
                log_level: None,
                device,
                eject_to: None,
                block_size: None,
                new_medium: false,
                encrypt: None,
            };
            let copied = self.copy(&request, observer, stop).and_then(|report| {
                match report.status == Status::Completed.as_str() {
                    true => Ok(()),
                    false => Err(PruneRefusal::NotCopied {
                        why: report.errors.last().map_or(report.status, |e| e.error.clone()),
                    }
                    .into()),
                }
            });
            if let Err(e) = copied {
                let text = format!(
                    "the full of {}@{} is not on it yet: {}",
                    plan.of.name,
                    plan.of.session.get(..8).unwrap_or_default(),
                    chain(&e)
                );
                log.say(Code::Adapted, "media agent", &medium.label, text);
            }
        }
        Ok(())
    }

    pub(in crate::kinds::prune) fn pool_of(&self, medium: MediumId) -> Result<Option<String>> {
        Ok(self.idb.management(medium)?.pool)
    }

    /// The disks that take backups in turn with a medium, where it is a disk at hand that gets any; of a pool that has tapes too nobody
    /// knows the room.
    pub(in crate::kinds::prune) fn disks_with(&self, medium: MediumId) -> Result<Option<Disks>> {
        let pool = match self.idb.management(medium)?.pool {
            Some(name) => self.idb.pool(&name)?,
            None => None,
        };
        let mut disks = Disks { media: Vec::new(), free: 0, each: Vec::new() };
        let mut counted: std::collections::BTreeSet<u64> = Default::default();
        for known in self.idb.media()? {
            let of = self.idb.management(known.id)?;
            let is_of_pool = pool.as_ref().is_some_and(|pool| {
                of.pool
                    .as_ref()
                    .is_some_and(|name| *name == pool.name || Some(name) == pool.free_pool.as_ref())
            });
            let is_out = of.exported_us.is_some() || of.retired_us.is_some();
            if is_out || !(is_of_pool || known.id == medium) {
                continue;
            }
            let Some(store) = self.disk_of(&known)? else {
                if known.device.is_on_stores() {
                    continue;
                }
                return Ok(None);
            };
            let Some(space) = self.devices.space(&store) else { continue };
            let free = space.free;
            disks.media.push(known.id);
            // With less no session of a pool begins there.
            let is_of_use = pool.is_none() || free >= LEAST_SPACE;
            if counted.insert(space.file_system) && is_of_use {
                disks.free = disks.free.saturating_add(free);
                disks.each.push((known.id, free));
            }
        }
        Ok(disks.media.contains(&medium).then_some(disks))
    }

    /// The store of a medium, if it is one that is at hand and gets what is asked for.
    fn disk_of(&self, medium: &Medium) -> Result<Option<StoreAddress>> {
        let Some(store) = medium.device.as_store() else { return Ok(None) };
        let is_it = || {
            let there = self.devices.medium(&medium.device);
            there.is_ok_and(|there| there.header().medium == medium.id)
        };
        let is_here = !is_elsewhere(self, medium) && is_it();
        Ok((is_here && self.set_of_medium(medium.id)?.is_none()).then(|| store.clone()))
    }
}

fn may_be_replaced(view: &VersionView<'_>, uses: &BTreeMap<MediumId, Use>) -> bool {
    let of = |id: &MediumId| uses.get(id).copied().unwrap_or(Use::Never);
    view.segments.iter().all(|segment| {
        let uses: Vec<Use> = segment.places().iter().map(|(_, id, _)| of(id)).collect();
        uses.contains(&Use::Disk) && !uses.contains(&Use::Never)
    })
}
