//! Media of rotation sets that are written no more: when their turn would have come.
//!
//! What lies on such a medium is kept for as long as if it were still written in its turn: until all that have a seat in its set have
//! been written since. From then on it holds nothing back: no full on which it builds, on a medium whose own turn comes. It stays to
//! be restored as long as nothing takes its room.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use capstan_engine::message::shell_word;
use capstan_format::id::{MediumId, VersionId};
use capstan_idb::{Medium, Protection, PruneRow, RotationSet};

use crate::Cell;
use crate::error::Result;

/// A rotation set: its pool's name, and which it is.
pub(crate) type SetName = (String, RotationSet);

/// The media of rotation sets, those of each in the order in which they were written last.
pub(in crate::supply) type MediaOfSets = BTreeMap<SetName, Vec<OfSet>>;

/// A medium of a rotation set.
#[derive(Debug, Clone)]
pub(in crate::supply) struct OfSet {
    /// Where the session that wrote it last comes in the order in which they were begun: no clock decides on turns. Of media of one
    /// session, when they were written last.
    pub last: (i64, i64),
    /// The medium.
    pub medium: Medium,
    /// Whether it is written in its turn at all.
    pub takes: bool,
    /// What lies on it.
    pub versions: Vec<VersionId>,
}

/// What lies on media of sets that are written no more.
#[derive(Debug, Default)]
pub(in crate::supply) struct PastTurns {
    /// Those of these media whose turn would have come.
    pub media: HashSet<MediumId>,
    /// The versions that only such media have something of, or that nothing protects: they hold nothing back.
    pub versions: HashSet<VersionId>,
    /// The versions that only media have something of which are written no more, with one of these media.
    pub unseated: HashMap<VersionId, MediumId>,
}

/// Those media of a set that are written no more and whose turn would have come: all that are have been written since.
fn past_of(media: &[OfSet]) -> impl Iterator<Item = MediumId> {
    let first = media.iter().filter(|of| of.takes).map(|of| of.last).min();
    let is_past = move |of: &&OfSet| !of.takes && first.is_some_and(|first| of.last < first);
    media.iter().filter(is_past).map(|of| of.medium.id)
}

impl Cell {
    /// What lies on media of these sets that are written no more, whose turn comes in those that are `complete`.
    pub(in crate::supply) fn past_turns(
        &self,
        sets: &MediaOfSets,
        complete: &BTreeSet<SetName>,
        rows: &HashMap<VersionId, &PruneRow>,
    ) -> Result<PastTurns> {
        let mut past = PastTurns::default();
        let all = || sets.values().flatten();
        if all().all(|of| of.takes) {
            return Ok(past);
        }
        for (_, media) in sets.iter().filter(|(name, _)| complete.contains(name)) {
            past.media.extend(past_of(media));
        }
        for of in all().filter(|of| !of.takes) {
            let is_past = past.media.contains(&of.medium.id);
            for id in &of.versions {
                past.unseated.insert(*id, of.medium.id);
                let let_go = rows.get(id).is_some_and(|r| r.keeping.protection == Protection::None);
                if is_past || let_go {
                    past.versions.insert(*id);
                }
            }
        }
        let unseated: HashSet<MediumId> =
            all().filter(|of| !of.takes).map(|of| of.medium.id).collect();
        for medium in self.idb.media()? {
            let (is_unseated, is_past) =
                (unseated.contains(&medium.id), past.media.contains(&medium.id));
            if is_past {
                continue;
            }
            for id in self.idb.versions_on_medium(medium.id)? {
                let let_go =
                    rows.get(&id).is_some_and(|r| r.keeping.protection == Protection::None);
                if !is_unseated || !let_go {
                    past.versions.remove(&id);
                }
                if !is_unseated {
                    past.unseated.remove(&id);
                }
            }
        }
        Ok(past)
    }

    /// That a medium waits for the turn of what lies on one that is written no more, and what helps; in a sentence's rest.
    pub(crate) fn waits_for_text(&self, (version, on): (VersionId, MediumId)) -> Result<String> {
        let (version, label) = (self.name_of_version(version)?, self.labels([on].iter())?.concat());
        Ok(format!(
            "has what {version} builds on, which is kept on '{label}' until the turn of that, though that is written no more; \
             `capstan protect {} --none` lets it go",
            shell_word(&version)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(n: u8, last: i64, takes: bool) -> OfSet {
        let medium = Medium {
            id: MediumId([n; 16]),
            label: n.to_string(),
            device: "file:/m".parse().unwrap(),
            block_size: 1 << 19,
            created_us: 0,
            hosts: Vec::new(),
        };
        OfSet { last: (last, 0), medium, takes, versions: Vec::new() }
    }

    #[test]
    fn a_turn_is_past_when_all_that_have_a_seat_were_written_since() {
        let past = |media: &[OfSet]| past_of(media).map(|id| id.0[0]).collect::<Vec<_>>();
        let (retired, other) = (of(1, 10, false), of(2, 5, true));
        assert_eq!(past(&[other.clone(), retired.clone(), of(3, 20, true)]), [0; 0]);
        assert_eq!(past(&[retired.clone(), of(2, 30, true), of(3, 20, true)]), [1]);
        // A blank one that joined and was not written yet.
        assert_eq!(past(&[of(4, i64::MIN, true), retired.clone(), of(3, 20, true)]), [0; 0]);
        assert_eq!(past(&[retired]), [0; 0], "nothing is written in its place");
    }
}
