//! How many media of a rotation set a night takes, and which ones come next.
//!
//! A night may take several: sessions that are not written together begin each on a medium of its own, and one that fills its medium
//! goes on with the next. What the last nights took is what the next one is expected to take.

use std::collections::{BTreeMap, HashMap, HashSet};

use capstan_engine::problem::Problem;
use capstan_format::id::{MediumId, VersionId};
use capstan_idb::{Pool, PruneRow, RotationSet, Status};
use jiff::civil::Date;

use crate::Cell;
use crate::drives::drive_key::ByDrive;
use crate::error::{CellError, Result};
use crate::media::SetTurns;
use crate::request::Turn;
use crate::supply::pools::allocate::Ask;
use crate::supply::pools::calendar::{local_date, was_written};
use crate::supply::rotation::past_turns::OfSet;
use crate::supply::unfit::PassedOver;

/// So many of the last nights of a set are looked at.
const NIGHTS: usize = 5;

/// So many of the last backups of an object are: all of them took as many media as are asked for.
const BACKUPS: usize = 3;

/// What a night took of a set.
#[derive(Default)]
struct Night {
    media: HashSet<MediumId>,
    /// Whether a backup did not come to its end: it may have lacked a medium.
    lacked_one: bool,
}

impl Night {
    /// How many media it took, or would have taken.
    fn took(&self) -> usize {
        self.media.len() + usize::from(self.lacked_one)
    }
}

/// How a set of these media is written, of which these come next in that order.
pub(in crate::supply) fn set_turns(
    media: &[OfSet],
    next: Vec<MediumId>,
    rows: &HashMap<VersionId, &PruneRow>,
    runs: &HashMap<VersionId, i64>,
) -> SetTurns {
    let mut nights: BTreeMap<Date, Night> = BTreeMap::new();
    for of in media {
        for row in of.versions.iter().filter_map(|id| rows.get(id)) {
            let status = row.version.status;
            if matches!(status, Status::Failed | Status::Running) {
                continue;
            }
            let run_us = runs.get(&row.version.id).copied().unwrap_or(row.version.created_us);
            let night = nights.entry(local_date(run_us)).or_default();
            night.media.insert(of.medium.id);
            night.lacked_one |= status == Status::Incomplete;
        }
    }
    let a_night = nights.values().rev().take(NIGHTS).map(Night::took).max().unwrap_or(1);
    let taking = media.iter().filter(|of| of.takes).count();
    SetTurns { media: media.len(), taking, next, a_night }
}

impl Cell {
    /// How a set of a pool is written.
    pub(in crate::supply) fn turns_of_set(
        &self,
        pool: &Pool,
        set: Option<RotationSet>,
    ) -> Result<SetTurns> {
        let keeps = self.keeps()?;
        let of = set.map(|set| (pool.name.clone(), set));
        let of = of.map(|name| Ok::<_, CellError>(keeps.lasts(self)?.sets.get(&name).cloned()));
        let none = SetTurns { a_night: 1, ..SetTurns::default() };
        Ok(of.transpose()?.flatten().unwrap_or(none))
    }

    /// The media that the next night of each set takes, as far as it writes those that it has.
    pub(crate) fn coming_in_sets(&self) -> Result<HashSet<MediumId>> {
        let (keeps, pools) = (self.keeps()?, self.rotating()?);
        let mut coming = HashSet::new();
        for ((name, set), turns) in &keeps.lasts(self)?.sets {
            let Some(pool) = pools.get(name).filter(|pool| pool.size_of(*set) > 0) else {
                continue;
            };
            let size = pool.size_of(*set) as usize;
            let is_complete =
                turns.media >= size || self.had_all(name, *set, pool.size_of(*set))?;
            let joins = match turns.taking < size && self.would_join(pool, *set)? {
                true => size - turns.taking,
                false if is_complete => 0,
                false => size.saturating_sub(turns.media),
            };
            coming.extend(turns.next.iter().take(turns.a_night.saturating_sub(joins)));
        }
        Ok(coming)
    }

    /// Why a session would find fewer than so many media of a pool one after the other, and how many it would find; without those beyond
    /// the number of its set, or with them (`goes_beyond`). Nothing is loaded for it.
    pub(in crate::supply) fn lacks_medium(
        &self,
        pool: &Pool,
        mut ask: Ask,
        count: usize,
        goes_beyond: bool,
    ) -> Result<Option<(usize, CellError)>> {
        let set = ask.turn.set(pool);
        let turns = if count > 1 { self.turns_of_set(pool, set)? } else { SetTurns::default() };
        let size = set.map_or(0, |set| pool.size_of(set) as usize);
        let is_complete = match set.filter(|_| count > 1) {
            Some(set) => self.had_all(&pool.name, set, pool.size_of(set))?,
            None => false,
        };
        let has_begun = match set.filter(|_| count > 1) {
            Some(set) => {
                let media = self.media_list(Some(&pool.name))?;
                media.iter().any(|m| was_written(m, set, ask.today))
            }
            None => false,
        };
        let (mut had, mut blanks, mut in_turn) = (0, 0, 0);
        while had < count {
            if had > 0 && (is_complete || turns.media + ask.joined >= size) {
                ask.foreseen = turns.next.iter().take(in_turn + 1).copied().collect();
            }
            let (chosen, none) = match self.choose(&pool.name, &ask) {
                Ok(chosen) if !chosen.behind_blank => (Some(chosen), None),
                Ok(chosen) => (Some(chosen), Some(CellError::NoMedium("".into()))),
                Err(e @ CellError::NoMedium(_)) => (None, Some(e)),
                Err(e) => return Err(e),
            };
            let blank = none.map(|none| self.or_blank(&pool.name, &ask, Some(blanks), none));
            match (blank, chosen) {
                (Some(Ok(_)), _) => (blanks, ask.joined) = (blanks + 1, ask.joined + 1),
                (_, Some(chosen)) => {
                    let of = &chosen.info.management;
                    let is_of_set = of.pool.as_ref() == Some(&pool.name) && of.rotation_set == set;
                    let id = chosen.info.medium.id;
                    in_turn += usize::from(turns.next.contains(&id));
                    ask.joined += usize::from(!is_of_set);
                    ask.passed.push((id, "is written before it".to_owned()));
                }
                // A night that has begun takes one beyond the number of its set.
                (Some(Err(_)), None) if goes_beyond && (has_begun || had > 0) && !ask.beyond => {
                    ask.beyond = true;
                    continue;
                }
                (Some(Err(e)), None) => return Ok(Some((had, e))),
                (None, None) => return Ok(None),
            }
            (had, ask.beyond) = (had + 1, false);
        }
        Ok(None)
    }

    /// Refuses to begin what would end in the middle: a backup to a rotation set whose last ones all took so many media, where fewer
    /// are to be had. What is on the first would be given up for nothing.
    pub(crate) fn refuse_to_end_early(
        &self,
        name: &str,
        turn: Turn,
        by_drive: ByDrive,
        passed: &[PassedOver],
        count: usize,
    ) -> Result<()> {
        if count < 2 {
            return Ok(());
        }
        let ask = Ask::of(turn, by_drive).but(passed);
        match self.lacks_medium(&self.pool(name)?, ask, count, true)? {
            Some((had, CellError::NoMedium(why))) if had > 0 => {
                let sentence = format!(
                    "its last backups took {count} media each, and only {had} can be written now, so nothing is begun: {}",
                    why.sentence
                );
                Err(CellError::NoMedium(Problem { sentence, ..why }))
            }
            _ => Ok(()),
        }
    }

    /// How many media each of the last backups of these objects took in the set of a pool whose turn it is, at least; of those that are written together as
    /// many as one of them.
    pub(crate) fn media_a_backup(&self, name: &str, turn: Turn, names: &[String]) -> Result<usize> {
        let pool = self.pool(name)?;
        let Some(set) = turn.set(&pool) else { return Ok(1) };
        let mut of_set = HashSet::new();
        for medium in self.idb.media()? {
            let of = self.idb.management(medium.id)?;
            if of.pool.as_deref() == Some(name) && of.rotation_set == Some(set) {
                of_set.insert(medium.id);
            }
        }
        let mut most = 1;
        for object in names {
            let objects = self.idb.objects_by_name(object)?.into_iter();
            for object in objects.filter(|object| object.host == self.host()) {
                let mut took = Vec::new();
                for version in self.idb.versions_of(object.id)? {
                    if !version.is_complete_by(None) {
                        continue;
                    }
                    let places = self.idb.places_of_version(version.id)?;
                    let on: HashSet<MediumId> = places
                        .iter()
                        .map(|place| place.1)
                        .filter(|id| of_set.contains(id))
                        .collect();
                    took.extend((!on.is_empty()).then_some(on.len()));
                    if took.len() == BACKUPS {
                        break;
                    }
                }
                let least = took.iter().copied().min().filter(|_| took.len() == BACKUPS);
                most = most.max(least.unwrap_or(1));
            }
        }
        Ok(most)
    }
}
