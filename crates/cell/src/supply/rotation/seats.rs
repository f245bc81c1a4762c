//! The seats of rotation sets: which media have one, for how long what lies on them is kept there, and what counts as a place of it.
//!
//! A medium that is written no more has no seat: it is retired, poor, damaged, write-protected, not as it was written, or nothing could be written to it
//! when that was tried last. One that is out of the house keeps its seat.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use capstan_address::Address;
use capstan_engine::message::shell_word;
use capstan_format::id::MediumId;
use capstan_idb::{Pool, RotationSet};

use crate::Cell;
use crate::error::{PoolRefusal, Result};
use crate::media::MediumInfo;
use crate::request::Turn;
use crate::supply::pools::seat::has_seat;

/// Microseconds of a day.
const DAY_US: i64 = 86_400_000_000;

/// What the names of settings begin with that say of how many media a set had all, when one left it for good.
const HAD_ALL: &str = "set-had-all:";

/// A medium's place in a set that has all its media, or is to have them.
#[derive(Debug, Clone, Copy)]
struct Seat {
    set: RotationSet,
    /// How many media take turns at least.
    least: i64,
    /// How many at most.
    most: i64,
}

impl Seat {
    /// For how long at least a medium of it is not written anew, with a session on each of its days.
    const fn shortest_us(self) -> i64 {
        DAY_US
            * match self.set {
                RotationSet::Daily => self.least,
                RotationSet::Weekly => 7 * self.least,
                RotationSet::Monthly => 28 * self.least,
            }
    }

    /// For how long at most: some of its days belong to slower sets.
    const fn longest_us(self) -> i64 {
        DAY_US
            * match self.set {
                RotationSet::Daily => self.most + self.most / 6 + 3,
                RotationSet::Weekly => 7 * (self.most + 2),
                RotationSet::Monthly => 31 * self.most + 1,
            }
    }
}

/// The seats of all rotation sets.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    of: HashMap<MediumId, Seat>,
    /// Media that are not retired, not damaged and as they were written.
    pub(in crate::supply) sound: HashSet<MediumId>,
    /// Those of them on which a set may rely: those of sets, and others that did not leave the house.
    pub(in crate::supply) counting: HashSet<MediumId>,
}

impl Seats {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.of.is_empty()
    }

    /// Whether a medium is of a set.
    pub(in crate::supply) fn has(&self, medium: MediumId) -> bool {
        self.of.contains_key(&medium)
    }

    /// Whether what lies on one of these places, which were written last then, stays for as long as what is written to a medium now.
    pub(in crate::supply) fn outlives(
        &self,
        places: &[(MediumId, i64)],
        written: MediumId,
        now_us: i64,
    ) -> bool {
        let seat = self.of.get(&written);
        places.iter().any(|(on, last_us)| {
            if *on == written {
                return true;
            }
            match (self.of.get(on), seat) {
                (Some(base), Some(seat)) => {
                    self.counting.contains(on)
                        && base.set > seat.set
                        && last_us + base.shortest_us() >= now_us + seat.longest_us()
                }
                // What no set keeps nothing of a set builds on, and the other way round.
                (base, seat) => base.is_none() && seat.is_none(),
            }
        })
    }
}

impl Cell {
    /// The seats of all sets.
    pub(crate) fn seats(&self) -> Result<Seats> {
        let pools = self.rotating()?;
        let mut seats = Seats::default();
        if pools.is_empty() {
            return Ok(seats);
        }
        let mut sets: BTreeMap<(String, RotationSet), (u32, i64, i64)> = BTreeMap::new();
        let mut media = Vec::new();
        for medium in self.idb.media()? {
            let of = self.idb.management(medium.id)?;
            let set = of.pool.clone().zip(of.rotation_set);
            let set = set
                .filter(|(pool, set)| pools.get(pool).is_some_and(|pool| pool.size_of(*set) > 0));
            let is_sound = of.retired_us.or(of.changed_us).or(of.damaged_us).is_none();
            if is_sound {
                seats.sound.insert(medium.id);
            }
            if is_sound && (set.is_some() || of.exported_us.is_none()) {
                seats.counting.insert(medium.id);
            }
            let Some((pool, set)) = set else { continue };
            let size = pools.get(&pool).map_or(0, |pool| pool.size_of(set));
            let takes = i64::from(self.takes_turns(&medium)?);
            let (_, all, taking) = sets.entry((pool.clone(), set)).or_insert((size, 0, 0));
            (*all, *taking) = (*all + 1, *taking + takes);
            media.push((medium.id, pool, set));
        }
        let mut had_all = BTreeSet::new();
        for (key @ (pool, set), (size, ..)) in &sets {
            if self.had_all(pool, *set, *size)? {
                had_all.insert(key.clone());
            }
        }
        for (id, pool, set) in media {
            let key = (pool, set);
            let Some((size, all, taking)) = sets.get(&key) else { continue };
            let size = i64::from(*size);
            // As long as it has not had all of them, others join.
            let had_all = *all >= size || had_all.contains(&key);
            let least = if had_all { size.min(*taking) } else { size };
            seats.of.insert(id, Seat { set, least, most: size.max(*taking) });
        }
        Ok(seats)
    }

    /// Refuses to copy to a set: it keeps nightly backups by when they were written, and a copy has the date of its original.
    /// `what` is done there, as in \"what is staged\".
    pub fn refuse_sets(
        &self,
        pool: Option<&str>,
        device: &Address,
        what: &'static str,
    ) -> Result<()> {
        if let Some(name) = pool {
            // Of one that is not known others say so.
            return match self.rotating()?.contains_key(name) {
                true => Err(PoolRefusal::PoolRotates { pool: name.to_owned(), what }.into()),
                false => Ok(()),
            };
        }
        let Some(id) = self.medium_named(device) else { return Ok(()) };
        let Some((pool, set)) = self.set_of_medium(id)? else { return Ok(()) };
        let label = self.idb.medium(id)?.map_or_else(|| id.short(), |m| m.label);
        Err(PoolRefusal::MediumRotates { label, set: set.to_string(), pool, what }.into())
    }

    /// The pool and the rotation set of a medium, where the pool has that set.
    pub(crate) fn set_of_medium(&self, medium: MediumId) -> Result<Option<(String, RotationSet)>> {
        let of = self.idb.management(medium)?;
        let Some((pool, set)) = of.pool.zip(of.rotation_set) else { return Ok(None) };
        let has_set = self.idb.pool(&pool)?.is_some_and(|pool| pool.size_of(set) > 0);
        Ok(has_set.then_some((pool, set)))
    }

    /// In which turn of its own pool a medium goes that takes what is copied off another one.
    pub(crate) fn turn_in_place_of(&self, medium: MediumId, pool: &str) -> Result<Turn> {
        let set = self.set_of_medium(medium)?.map(|(_, set)| set);
        Ok(match self.rotating()?.contains_key(pool) {
            true => Turn::InPlaceOf(set),
            false => Turn::of_now(),
        })
    }

    /// Whether a set had all its media, of that number, before some left it: those that are left take turns alone.
    pub(in crate::supply) fn had_all(
        &self,
        pool: &str,
        set: RotationSet,
        size: u32,
    ) -> Result<bool> {
        let had = self.idb.setting(&had_all_of(pool, set))?;
        Ok(had.and_then(|n| n.parse::<u32>().ok()).is_some_and(|n| n >= size))
    }

    /// Records that a medium leaves its set for good, if that has all its media now.
    pub(crate) fn leaves_set(&self, medium: MediumId) -> Result<()> {
        let Some((pool, set)) = self.set_of_medium(medium)? else { return Ok(()) };
        let size = self.pool(&pool)?.size_of(set);
        let mut all = 0;
        for medium in self.idb.media()? {
            let of = self.idb.management(medium.id)?;
            all += u32::from(of.pool.as_ref() == Some(&pool) && of.rotation_set == Some(set));
        }
        if all >= size {
            self.idb.put_setting(&had_all_of(&pool, set), &size.to_string())?;
        }
        Ok(())
    }

    /// Forgets of a pool that its sets had all their media.
    pub(in crate::supply) fn forget_had_all(&self, pool: &str) -> Result<()> {
        for set in RotationSet::ALL {
            self.idb.remove_setting(&had_all_of(pool, set))?;
        }
        Ok(())
    }

    /// Of a pool whose media rotate: a set with fewer media that take turns than it is to have, if no other one joins it.
    pub(in crate::supply) fn lacks_seats(
        &self,
        pool: &Pool,
        media: &[MediumInfo],
    ) -> Result<Option<String>> {
        for set in RotationSet::ALL {
            let size = pool.size_of(set);
            let all = media.iter().filter(|m| m.management.rotation_set == Some(set));
            let (taking, others): (Vec<&MediumInfo>, Vec<_>) = all.partition(|m| has_seat(m));
            let is_complete = taking.len() + others.len() >= size as usize
                || size > 0 && self.had_all(&pool.name, set, size)?;
            if size == 0 || !is_complete || taking.len() >= size as usize {
                continue;
            }
            if self.would_join(pool, set)? {
                continue;
            }
            let out: Vec<&str> = others.iter().map(|m| m.medium.label.as_str()).collect();
            let name = shell_word(&pool.name);
            let blank = match pool.scratch {
                true => "bring a blank tape to its library".to_owned(),
                false => format!("add a free one with `capstan media init DEVICE --pool {name}`"),
            };
            let out = match out.len() {
                0 => String::new(),
                1 => format!("{} takes no turns, and ", out[0]),
                _ => format!("{} take no turns, and ", out.join(", ")),
            };
            return Ok(Some(format!(
                "the {set} set of pool '{}' has {} of {size} media left, so it keeps fewer backups: {out}no free one is there for \
                 it; {blank}",
                pool.name,
                taking.len(),
            )));
        }
        Ok(None)
    }
}

/// Where it is recorded of a set.
fn had_all_of(pool: &str, set: RotationSet) -> String {
    format!("{HAD_ALL}{pool}#{set}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAILY: u8 = 1;
    const WEEKLY: u8 = 2;
    const OUTSIDE: u8 = 3;

    fn seats() -> Seats {
        let id = |n: u8| MediumId([n; 16]);
        let seat = |set, n| Seat { set, least: n, most: n };
        let of =
            [(id(DAILY), seat(RotationSet::Daily, 5)), (id(WEEKLY), seat(RotationSet::Weekly, 4))];
        Seats {
            sound: HashSet::new(),
            of: of.into(),
            counting: [DAILY, WEEKLY, OUTSIDE].map(id).into(),
        }
    }

    fn outlives(seats: &Seats, on: &[u8], written: u8, days: i64) -> bool {
        let places: Vec<_> = on.iter().map(|n| (MediumId([*n; 16]), 0)).collect();
        seats.outlives(&places, MediumId([written; 16]), days * DAY_US)
    }

    #[test]
    fn a_set_builds_on_what_a_slower_set_keeps_for_longer_and_on_nothing_outside() {
        let all = seats();
        assert!(outlives(&all, &[WEEKLY], DAILY, 6));
        assert!(!outlives(&all, &[WEEKLY], DAILY, 25), "it goes before");
        assert!(!outlives(&all, &[DAILY], WEEKLY, 0));
        assert!(outlives(&all, &[DAILY], DAILY, 0), "on the same medium");
        assert!(!outlives(&all, &[OUTSIDE], DAILY, 0));
        assert!(!outlives(&all, &[OUTSIDE, WEEKLY], DAILY, 25), "a copy outside is none");
        assert!(outlives(&all, &[OUTSIDE, WEEKLY], DAILY, 6));
        assert!(outlives(&all, &[OUTSIDE], 4, 0), "what is outside builds on what is outside");
        assert!(!outlives(&all, &[WEEKLY], 4, 0));
        let mut retired = seats();
        retired.counting.remove(&MediumId([WEEKLY; 16]));
        assert!(!outlives(&retired, &[WEEKLY], DAILY, 6));
    }
}
