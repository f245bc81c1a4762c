//! Whose turn it is in a rotation set, and which media a pool leaves alone.
//!
//! A set that has all its media writes them in turn. What lies on them is kept by the set: each medium until all others were
//! written after it. Then it is the next one, and counts as expired. Keep rules do not decide on what only such media have.
//! What is locked or protected by itself, what is an object's last, and what newer versions build on stays all the same: such a
//! medium is passed over, and the next oldest comes.

use std::collections::{BTreeMap, HashMap, HashSet};

use capstan_engine::message::shell_word;
use capstan_format::id::{MediumId, SegmentId, VersionId};
use capstan_idb::{Management, Medium, Pool, PruneRow, RotationSet, Status};
use jiff::civil::Date;
use jiff::{Timestamp, ToSpan};

use crate::Cell;
use crate::error::{CellError, Result};
use crate::media::{Condition, Keeps, Lasts, MediumInfo, is_worm};
use crate::reading::version::VersionView;
use crate::session::now_us;
use crate::supply::allocate::{local_date, set_of};

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// A medium's place in a set that has all its media, or is to have them.
#[derive(Debug, Clone, Copy)]
struct Seat {
    set: RotationSet,
    /// How many media the set has.
    media: i64,
}

impl Seat {
    /// For how long at least a medium of it is not written anew, with a session on each of its days.
    const fn shortest_us(self) -> i64 {
        DAY_US
            * match self.set {
                RotationSet::Daily => self.media,
                RotationSet::Weekly => 7 * self.media,
                RotationSet::Monthly => 28 * self.media,
            }
    }

    /// For how long at most: some of its days belong to slower sets.
    const fn longest_us(self) -> i64 {
        DAY_US
            * match self.set {
                RotationSet::Daily => self.media + self.media / 6 + 3,
                RotationSet::Weekly => 7 * (self.media + 2),
                RotationSet::Monthly => 31 * self.media + 1,
            }
    }
}

impl Cell {
    /// What decides on media beside the protection of each version.
    pub(crate) fn lasts(&self, keeps: &Keeps) -> Result<Lasts> {
        let (rows, stays, in_turn) = self.stays_without_rules()?;
        let needs = self.needs_of_media(&rows)?;
        let rows: HashMap<VersionId, &PruneRow> =
            rows.iter().map(|row| (row.version.id, row)).collect();
        let held = |versions: &HashSet<VersionId>| {
            let of = versions.iter().filter_map(|id| Some((*id, stays.get(id)?.clone())));
            let mut held: Vec<_> = of.collect();
            held.sort_unstable();
            held
        };
        let held = needs.iter().map(|(medium, versions)| (*medium, held(versions)));
        let mut lasts = Lasts { held: held.collect(), due: HashSet::new() };
        lasts.held.retain(|_, held| !held.is_empty());
        let mut sets: BTreeMap<(String, RotationSet), Vec<(i64, Medium)>> = BTreeMap::new();
        let pools = self.rotating()?;
        for medium in self.idb.media()?.into_iter().filter(|_| !pools.is_empty()) {
            let of = self.idb.management(medium.id)?;
            if let (Some(pool), Some(set)) = (&of.pool, of.rotation_set) {
                let last = self.idb.holdings(medium.id)?.last_us.unwrap_or(i64::MIN);
                sets.entry((pool.clone(), set)).or_default().push((last, medium));
            }
        }
        'sets: for ((pool, set), mut media) in sets {
            let size = pools.get(&pool).map_or(0, |pool| pool.size_of(set));
            if size == 0 || media.len() < size as usize {
                continue;
            }
            media.sort_unstable_by_key(|(last, medium)| (*last, medium.id.0));
            let mut next = None;
            for (_, medium) in &media {
                if !self.takes_turns(medium)? {
                    continue;
                }
                let versions = self.idb.versions_on_medium(medium.id)?;
                if keeps.of(&versions).is_empty() && !lasts.held.contains_key(&medium.id) {
                    // It is free.
                    continue 'sets;
                }
                let on_it: HashSet<VersionId> = versions.iter().copied().collect();
                let may_go = |id: &VersionId| {
                    let row = rows.get(id);
                    let is_given_up = row.is_none_or(|row| {
                        row.keeping.expired_us.is_some() || row.version.status == Status::Failed
                    });
                    is_given_up || on_it.contains(id) && !in_turn.contains_key(id)
                };
                let lost = needs.get(&medium.id);
                let goes = lost.is_none_or(|lost| lost.iter().all(may_go))
                    && !versions.iter().any(|id| keeps.stays_in_turn(*id));
                if goes && next.is_none() {
                    next = Some(medium.id);
                }
            }
            lasts.due.extend(next);
        }
        Ok(lasts)
    }

    /// Whether a medium of a set is written in its turn at all.
    fn takes_turns(&self, medium: &Medium) -> Result<bool> {
        let of: Management = self.idb.management(medium.id)?;
        let is_sound = of.retired_us.or(of.changed_us).or(of.damaged_us).is_none();
        let is_ours = !of.is_other_cells() && !is_worm(medium);
        Ok(is_sound && is_ours && self.condition_of(medium, &of)?.0 != Condition::Poor)
    }

    /// The versions that would go with each medium, with those that build on them.
    fn needs_of_media(&self, rows: &[PruneRow]) -> Result<HashMap<MediumId, HashSet<VersionId>>> {
        let (unsound, away) = (self.unsound_places()?, self.media_away()?);
        let mut places: HashMap<(VersionId, SegmentId), (Vec<MediumId>, Vec<MediumId>)> =
            HashMap::new();
        for claim in self.idb.claims()? {
            let is_gone = unsound.has(claim.medium, claim.segment)
                || away.iter().any(|of| of.lacks(claim.medium, claim.segment));
            let (all, whole) = places.entry((claim.version, claim.origin)).or_default();
            all.push(claim.medium);
            whole.extend((!is_gone && !claim.lacks).then_some(claim.medium));
        }
        let mut needs: HashMap<MediumId, HashSet<VersionId>> = HashMap::new();
        for ((version, _), (all, whole)) in places {
            for medium in all {
                if whole.iter().all(|id| *id == medium) {
                    needs.entry(medium).or_default().insert(version);
                }
            }
        }
        let mut build_on: HashMap<VersionId, Vec<VersionId>> = HashMap::new();
        for row in rows {
            if let Some(base) = row.version.base {
                build_on.entry(base).or_default().push(row.version.id);
            }
        }
        for lost in needs.values_mut() {
            let mut open: Vec<VersionId> = lost.iter().copied().collect();
            while let Some(id) = open.pop() {
                let more = build_on.get(&id).into_iter().flatten();
                open.extend(more.filter(|id| lost.insert(**id)));
            }
        }
        Ok(needs)
    }

    /// What of a medium is held, in a sentence's rest.
    pub(crate) fn held_text(&self, medium: &Medium, lasts: &Lasts) -> Result<Option<String>> {
        let Some([(id, why), more @ ..]) = lasts.held.get(&medium.id).map(Vec::as_slice) else {
            return Ok(None);
        };
        let more = match more.len() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        Ok(Some(format!(
            "holds {} ({why}){more}, which only `capstan media recycle {} --give-up` gives up",
            self.name_of_version(*id)?,
            shell_word(&medium.label)
        )))
    }

    /// The pools whose media rotate.
    fn rotating(&self) -> Result<HashMap<String, Pool>> {
        let pools = self.idb.pools()?.into_iter();
        let rotating = pools.filter(|pool| pool.rotation.iter().any(|n| *n > 0));
        Ok(rotating.map(|pool| (pool.name.clone(), pool)).collect())
    }

    /// The versions of which only media of rotation sets have something: the sets decide on them, not keep rules.
    pub(crate) fn versions_of_sets(&self) -> Result<HashSet<VersionId>> {
        let pools = self.rotating()?;
        let (mut of_sets, mut elsewhere) = (HashSet::new(), HashSet::new());
        for medium in self.idb.media()?.iter().filter(|_| !pools.is_empty()) {
            let versions = self.idb.versions_on_medium(medium.id)?;
            match self.seat(medium.id, &pools)? {
                Some(_) => of_sets.extend(versions),
                None => elsewhere.extend(versions),
            }
        }
        of_sets.retain(|id| !elsewhere.contains(id));
        Ok(of_sets)
    }

    fn seat(&self, medium: MediumId, pools: &HashMap<String, Pool>) -> Result<Option<Seat>> {
        let of = self.idb.management(medium)?;
        let pool = of.pool.and_then(|name| pools.get(&name));
        let seat = pool
            .zip(of.rotation_set)
            .map(|(pool, set)| Seat { set, media: pool.size_of(set).into() });
        Ok(seat.filter(|seat| seat.media > 0))
    }

    /// Whether what a version lies on is written anew before what is written now to these media: so nothing is to build on it.
    pub(crate) fn goes_before(&self, version: VersionId, media: &[MediumId]) -> Result<bool> {
        let pools = self.rotating()?;
        if pools.is_empty() {
            return Ok(false);
        }
        let seats = media.iter().map(|id| self.seat(*id, &pools)).collect::<Result<Vec<_>>>()?;
        let view = VersionView::open(self, version)?;
        for segment in view.segments.iter().chain(&view.ends()?) {
            let mut stays = false;
            for (_, on, _) in segment.whole_places() {
                let Some(base) = self.seat(on, &pools)? else {
                    stays = true;
                    continue;
                };
                let last = self.idb.holdings(on)?.last_us.unwrap_or(0);
                let outlives = |seat: &Option<Seat>| {
                    seat.is_some_and(|seat| {
                        base.set > seat.set
                            && last + base.shortest_us() >= now_us() + seat.longest_us()
                    })
                };
                stays |= media.contains(&on) || seats.iter().all(outlives);
            }
            if !stays {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Of pools whose media rotate, by name: why the next run to it finds no medium, today or tomorrow. Today no more if something was
    /// written to today's set.
    pub(crate) fn pools_without_next(&self) -> Result<HashMap<String, String>> {
        let mut found = HashMap::new();
        let pools = self.rotating()?;
        for (name, pool) in &pools {
            found.extend(self.without_next(pool)?.map(|why| (name.clone(), why)));
        }
        Ok(found)
    }

    /// The same of one pool.
    pub(crate) fn without_next(&self, pool: &Pool) -> Result<Option<String>> {
        if pool.rotation.iter().all(|n| *n == 0) {
            return Ok(None);
        }
        let today = local_date(now_us());
        let tomorrow = today.checked_add(1.day()).unwrap_or(today);
        let media = self.media_list(Some(&pool.name))?;
        for day in [today, tomorrow] {
            let Some(set) = set_of(pool, day) else { continue };
            if day == today && media.iter().any(|m| was_written(m, set, today)) {
                continue;
            }
            if let Some(CellError::NoMedium(why)) = self.lacks_medium(pool, day)? {
                return Ok(Some(format!("the next run, of {day}, finds no medium: {why}")));
            }
        }
        Ok(None)
    }
}

/// Whether a session of that day wrote to a medium of a set.
fn was_written(m: &MediumInfo, set: RotationSet, day: Date) -> bool {
    let last = m.holdings.last_us.filter(|us| Timestamp::from_microsecond(*us).is_ok());
    m.management.rotation_set == Some(set) && last.is_some_and(|us| local_date(us) == day)
}
