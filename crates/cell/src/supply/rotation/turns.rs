//! Whose turn it is in a rotation set, and which media a pool leaves alone.
//!
//! A set that has all its media writes them in turn. What lies on them is kept by the set: each medium until all others were
//! written after it. Then it is the next one, and counts as expired. Keep rules do not decide on what only such media have.
//! What is locked or protected by itself, what is an object's last, and what newer versions build on stays all the same: such a
//! medium is passed over, and the next oldest comes.
//!
//! A medium that is written no more takes no turns, and another one has its seat. What lies on it holds nothing back once its turn would
//! have come ([`crate::supply::rotation::past_turns`]). One that is forgotten leaves the set, and the others take turns, as they do beside one that
//! is written no more. Only backups go by turns: what is copied has its old date, and would go before its time. What is copied off a
//! medium of a set goes in its place ([`Turn::InPlaceOf`]).
//!
//! A medium of a set is enough for the set: what lies elsewhere, too, lets nothing of a set go unless it is at hand, and nothing in a set
//! builds on it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};

use capstan_engine::message::shell_word;
use capstan_format::id::{MediumId, SegmentId, VersionId};
use capstan_idb::{Holdings, Management, Medium, Pool, PruneRow, Status};
use jiff::ToSpan;

use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{CellError, Result};
use crate::media::{Holds, Keeps, Lasts, is_worm};
use crate::reading::version::VersionView;
use crate::request::Turn;
use crate::session::now_us;
use crate::supply::pools::allocate::Ask;
use crate::supply::pools::calendar::{local_date, set_of, was_written};
use crate::supply::pools::seat::takes_turns;
use crate::supply::rotation::nights::set_turns;
use crate::supply::rotation::past_turns::{MediaOfSets, OfSet, SetName};
use crate::supply::rotation::seats::Seats;

/// By medium, versions.
type Needs = HashMap<MediumId, HashSet<VersionId>>;

/// A medium of a set, to whom its turn may come.
#[derive(Debug, Clone, Copy)]
struct InTurn {
    id: MediumId,
    is_free: bool,
    /// Whether all that would go with it may go now.
    may_go: bool,
}

/// Which of the media of a set, in the order in which they were written, is to be written anew: none as long as one is free.
fn next_of(media: &[InTurn]) -> Option<MediumId> {
    if media.iter().any(|medium| medium.is_free) {
        return None;
    }
    media.iter().find(|medium| medium.may_go).map(|medium| medium.id)
}

/// Where a medium comes among those of its set: one that holds nothing comes first.
fn last_of(on: &Holdings) -> (i64, i64) {
    (on.last_order.unwrap_or(i64::MIN), on.last_us.unwrap_or(i64::MIN))
}

/// In which order they are written, as far as that is known: free ones come before those whose turn comes.
fn in_order(media: &[InTurn]) -> Vec<MediumId> {
    let free = media.iter().filter(|medium| medium.is_free);
    let in_turn = media.iter().filter(|medium| !medium.is_free && medium.may_go);
    free.chain(in_turn).map(|medium| medium.id).collect()
}

impl Cell {
    /// What decides on media beside the protection of each version.
    pub(crate) fn lasts(&self, keeps: &Keeps) -> Result<Lasts> {
        let rows = self.rows_of_the_living()?;
        let by_id: HashMap<VersionId, &PruneRow> =
            rows.iter().map(|row| (row.version.id, row)).collect();
        let (pools, sets) = (self.rotating()?, self.media_of_sets()?);
        // Most cells have no sets.
        let runs = match sets.is_empty() {
            true => HashMap::new(),
            false => self.idb.runs_of_versions()?,
        };
        let complete = self.complete_sets(&pools, &sets)?;
        let past = self.past_turns(&sets, &complete, &by_id)?;
        let (stays, in_turn) = self.stays_without_rules(&rows, &past.versions)?;
        let [needs, of_sound, at_hand] = self.needs_of_media(&rows)?;
        let held = |versions: &HashSet<VersionId>| {
            let of = versions.iter().filter_map(|id| Some((*id, stays.get(id)?.clone())));
            let mut held: Vec<_> = of.collect();
            held.sort_unstable();
            held
        };
        let held = needs.iter().map(|(medium, versions)| (*medium, held(versions)));
        let mut lasts = Lasts { held: held.collect(), ..Lasts::default() };
        lasts.held.retain(|_, held| !held.is_empty());
        let is_given_up = |id: &VersionId| {
            by_id.get(id).is_none_or(|row| {
                row.keeping.expired_us.is_some() || row.version.status == Status::Failed
            })
        };
        for (name, media) in sets {
            let mut in_turn_of_set = Vec::new();
            for of in &media {
                let id = of.medium.id;
                if !of.takes && !past.media.contains(&id) {
                    continue;
                }
                let on_it: HashSet<VersionId> = of.versions.iter().copied().collect();
                let may_go = |id: &VersionId| {
                    (on_it.contains(id) || past.versions.contains(id)) && !in_turn.contains_key(id)
                };
                let goes = |id: &VersionId| is_given_up(id) || may_go(id);
                let goes_at_hand =
                    |id: &VersionId| is_given_up(id) || on_it.contains(id) || may_go(id);
                let lost = |needs: &Needs| needs.get(&id).cloned().unwrap_or_default();
                let sound = lost(&of_sound).into_iter().filter(|id| !goes(id));
                let here = lost(&at_hand).into_iter().filter(|id| !goes_at_hand(id));
                let mut hold: Vec<VersionId> = sound.chain(here).collect();
                hold.extend(of.versions.iter().filter(|id| keeps.stays_in_turn(**id)));
                hold.sort_unstable();
                hold.dedup();
                if !of.takes {
                    lasts.past.extend(hold.is_empty().then_some(id));
                    continue;
                }
                let first = hold.iter().find_map(|v| Some((*v, *past.unseated.get(v)?)));
                if hold.iter().all(|v| past.unseated.contains_key(v)) {
                    lasts.waits_for.extend(first.map(|of| (id, of)));
                }
                let stays = |id: &VersionId| Holds {
                    version: *id,
                    is_on_it: on_it.contains(id),
                    why: in_turn.get(id).cloned(),
                };
                lasts.holds.insert(id, hold.iter().map(stays).collect());
                let is_free = keeps.of(&of.versions).is_empty() && !lasts.held.contains_key(&id);
                in_turn_of_set.push(InTurn { id, is_free, may_go: hold.is_empty() });
            }
            if complete.contains(&name) {
                lasts.due.extend(next_of(&in_turn_of_set));
            }
            let turns = set_turns(&media, in_order(&in_turn_of_set), &by_id, &runs);
            lasts.sets.insert(name, turns);
        }
        Ok(lasts)
    }

    /// The sets that have all their media, or had them: some may have left it.
    fn complete_sets(
        &self,
        pools: &HashMap<String, Pool>,
        sets: &MediaOfSets,
    ) -> Result<BTreeSet<SetName>> {
        let mut complete = BTreeSet::new();
        for (name @ (pool, set), media) in sets {
            let size = pools.get(pool).map_or(0, |pool| pool.size_of(*set));
            if size > 0 && (media.len() >= size as usize || self.had_all(pool, *set, size)?) {
                complete.insert(name.clone());
            }
        }
        Ok(complete)
    }

    /// The media of the sets of all pools.
    fn media_of_sets(&self) -> Result<MediaOfSets> {
        let mut sets = MediaOfSets::new();
        if self.rotating()?.is_empty() {
            return Ok(sets);
        }
        for medium in self.idb.media()? {
            let of = self.idb.management(medium.id)?;
            let Some(name) = of.pool.zip(of.rotation_set) else { continue };
            let of = OfSet {
                last: last_of(&self.idb.holdings(medium.id)?),
                takes: self.takes_turns(&medium)?,
                versions: self.idb.versions_on_medium(medium.id)?,
                medium,
            };
            sets.entry(name).or_default().push(of);
        }
        for media in sets.values_mut() {
            media.sort_unstable_by_key(|of| (of.last, of.medium.id.0));
        }
        Ok(sets)
    }

    /// Whether a medium of a set is written in its turn at all.
    pub(in crate::supply) fn takes_turns(&self, medium: &Medium) -> Result<bool> {
        let of: Management = self.idb.management(medium.id)?;
        let (condition, _) = self.condition_of(medium, &of)?;
        let is_empty = of.errors > 0 && self.idb.holdings(medium.id)?.segments == 0;
        let may_be_written = !is_worm(medium) && self.protected_since(medium)?.is_none();
        Ok(takes_turns(&of, condition, is_empty) && may_be_written)
    }

    /// The versions that would go with each medium, with those that build on them; the same if only sound media count as other places,
    /// and if only such do that sets may rely on.
    fn needs_of_media(&self, rows: &[PruneRow]) -> Result<[Needs; 3]> {
        let (unsound, away) = (self.unsound_places()?, self.media_away()?);
        let seats = self.seats()?;
        let mut places: HashMap<(VersionId, SegmentId), (Vec<MediumId>, [Vec<MediumId>; 3])> =
            HashMap::new();
        for claim in self.idb.claims()? {
            let is_gone = unsound.has(claim.medium, claim.segment)
                || away.iter().any(|of| of.lacks(claim.medium, claim.segment));
            let is_whole = !is_gone && !claim.lacks;
            let is_sound = is_whole && seats.sound.contains(&claim.medium);
            let is_at_hand = is_whole && seats.counting.contains(&claim.medium);
            let (all, counting) = places.entry((claim.version, claim.origin)).or_default();
            all.push(claim.medium);
            for (of, counts) in counting.iter_mut().zip([is_whole, is_sound, is_at_hand]) {
                of.extend(counts.then_some(claim.medium));
            }
        }
        let mut all_needs = [Needs::new(), Needs::new(), Needs::new()];
        for ((version, _), (all, counting)) in places {
            for (needs, others) in all_needs.iter_mut().zip(counting) {
                for medium in &all {
                    if others.iter().all(|id| id == medium) {
                        needs.entry(*medium).or_default().insert(version);
                    }
                }
            }
        }
        let mut build_on: HashMap<VersionId, Vec<VersionId>> = HashMap::new();
        for row in rows {
            if let Some(base) = row.version.base {
                build_on.entry(base).or_default().push(row.version.id);
            }
        }
        for lost in all_needs.iter_mut().flat_map(HashMap::values_mut) {
            let mut open: Vec<VersionId> = lost.iter().copied().collect();
            while let Some(id) = open.pop() {
                let more = build_on.get(&id).into_iter().flatten();
                open.extend(more.filter(|id| lost.insert(**id)));
            }
        }
        Ok(all_needs)
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
    pub(in crate::supply) fn rotating(&self) -> Result<HashMap<String, Pool>> {
        let pools = self.idb.pools()?.into_iter();
        let rotating = pools.filter(|pool| pool.rotation.iter().any(|n| *n > 0));
        Ok(rotating.map(|pool| (pool.name.clone(), pool)).collect())
    }

    /// The versions of which only media of rotation sets have something: the sets decide on them, not keep rules.
    pub(crate) fn versions_of_sets(&self) -> Result<HashSet<VersionId>> {
        let seats = self.seats()?;
        let (mut of_sets, mut elsewhere) = (HashSet::new(), HashSet::new());
        for medium in self.idb.media()?.iter().filter(|_| !seats.is_empty()) {
            let versions = self.idb.versions_on_medium(medium.id)?;
            match seats.has(medium.id) {
                true => of_sets.extend(versions),
                false => elsewhere.extend(versions),
            }
        }
        of_sets.retain(|id| !elsewhere.contains(id));
        Ok(of_sets)
    }

    /// Whether what a version lies on is written anew before what is written now to these media: so nothing is to build on it. What lies
    /// outside the sets, too, is nothing to a set.
    pub(crate) fn goes_before(
        &self,
        seats: &Seats,
        version: VersionId,
        media: &[MediumId],
    ) -> Result<bool> {
        if seats.is_empty() {
            return Ok(false);
        }
        let view = VersionView::open(self, version)?;
        let mut last: HashMap<MediumId, i64> = HashMap::new();
        for segment in view.segments.iter().chain(&view.ends()?) {
            let mut places = Vec::new();
            for (_, on, _) in segment.whole_places() {
                if let Entry::Vacant(new) = last.entry(on) {
                    new.insert(self.idb.holdings(on)?.last_us.unwrap_or(0));
                }
                places.push((on, last[&on]));
            }
            if !media.iter().all(|written| seats.outlives(&places, *written, now_us())) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Of pools whose media rotate, by name: why the next run to it finds no medium, today or tomorrow; or which of its sets has too few.
    /// Today no more if something was written to today's set.
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
            let count = self.turns_of_set(pool, Some(set))?.a_night;
            let ask = || Ask::of(Turn::Night(day), ByDrive::AsItIs);
            match self.lacks_medium(pool, ask(), count, false)? {
                Some((0, CellError::NoMedium(why))) => {
                    return Ok(Some(format!("the next run, of {day}, finds no medium: {why}")));
                }
                Some((had, CellError::NoMedium(why))) => {
                    let then = match self.lacks_medium(pool, ask(), count, true)? {
                        None => "; without that it takes a free one beyond the number of its set",
                        Some(_) => "",
                    };
                    return Ok(Some(format!(
                        "the next run, of {day}, finds {had} of the {count} media that a night of its {set} set took lately: {why}{then}"
                    )));
                }
                _ => {}
            }
        }
        match self.protected_beyond(pool, &media, tomorrow)? {
            Some(why) => Ok(Some(why)),
            None => self.lacks_seats(pool, &media),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_may_go_is_next_unless_one_is_free() {
        let medium = |n: u8, is_free, may_go| InTurn { id: MediumId([n; 16]), is_free, may_go };
        let next = |media: &[InTurn]| next_of(media).map(|id| id.0[0]);
        let (held, goes) = (medium(1, false, false), medium(2, false, true));
        assert_eq!(next(&[held, goes, medium(3, false, true)]), Some(2));
        assert_eq!(next(&[held, goes, medium(3, true, true)]), None);
        assert_eq!(next(&[held]), None);
    }
}
