//! What must stay on media, and until when.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap, HashSet};

use capstan_format::id::{MediumId, ObjectId, VersionId};
use capstan_idb::{Keeping, Protection, RotationSet, Status, Version};

use crate::Cell;
use crate::error::Result;

/// A version that must stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Until that time, in microseconds since 1970.
    Until(i64),
    /// Without end: it is locked, protected for ever, or nothing says that it may go.
    ForEver,
}

impl Kept {
    /// Until when, if it has an end.
    pub fn until_us(&self) -> Option<i64> {
        match self {
            Self::Until(us) => Some(*us),
            Self::ForEver => None,
        }
    }
}

/// What must stay of all that is known. It is found at once for all media: there may be very many versions on each.
pub(crate) struct Keeps {
    versions: HashMap<VersionId, Kept>,
    /// What must stay where the set of its medium decides and its turn has come.
    in_turn: HashMap<VersionId, Kept>,
    lasts: OnceCell<Lasts>,
}

/// How a rotation set is written.
#[derive(Debug, Clone, Default)]
pub(crate) struct SetTurns {
    /// How many media are in it.
    pub media: usize,
    /// How many of them take turns.
    pub taking: usize,
    /// Those that come next, in their order.
    pub next: Vec<MediumId>,
    /// The most that one of the last nights took; at least one.
    pub a_night: usize,
}

/// A version that keeps a medium of a set from its turn.
#[derive(Debug, Clone)]
pub(crate) struct Holds {
    /// The version.
    pub version: VersionId,
    /// Whether it lies on the medium, or builds on what does.
    pub is_on_it: bool,
    /// Why it stays, whosever turn it is; nothing, where the set of another medium keeps it.
    pub why: Option<String>,
}

/// What decides on media beside the protection of each version.
#[derive(Debug, Default)]
pub(crate) struct Lasts {
    /// Of each medium the versions that would go with it and that no prune would remove, as an object's last complete one is not;
    /// each with the reason.
    pub held: HashMap<MediumId, Vec<(VersionId, String)>>,
    /// Media of rotation sets whose turn has come.
    pub due: HashSet<MediumId>,
    /// Those that are written no more, whose turn would have come: nothing on them must stay for its own sake.
    pub past: HashSet<MediumId>,
    /// Those that are not written in their turn only as one that is written no more has what builds on theirs: that version and medium.
    pub waits_for: HashMap<MediumId, (VersionId, MediumId)>,
    /// What keeps each medium of a set that is written in its turn from that.
    pub holds: HashMap<MediumId, Vec<Holds>>,
    /// How each set of a pool is written.
    pub sets: BTreeMap<(String, RotationSet), SetTurns>,
}

impl Keeps {
    /// What decides on media. It is found when it is wanted first: all versions are looked at for it.
    pub fn lasts(&self, cell: &Cell) -> Result<&Lasts> {
        match self.lasts.get() {
            Some(lasts) => Ok(lasts),
            None => {
                let found = cell.lasts(self)?;
                Ok(self.lasts.get_or_init(|| found))
            }
        }
    }

    /// Whether a version must stay though the turn of its medium has come: it is locked, or protected by itself.
    pub fn stays_in_turn(&self, id: VersionId) -> bool {
        self.in_turn.contains_key(&id)
    }

    /// Which of them must stay though the turn of their medium has come.
    pub fn of_in_turn(&self, versions: &[VersionId]) -> Vec<Kept> {
        versions.iter().filter_map(|id| self.in_turn.get(id).copied()).collect()
    }

    /// Which of these versions must stay: for their own sake, or since one builds on them that must.
    pub fn of(&self, versions: &[VersionId]) -> Vec<Kept> {
        versions.iter().filter_map(|id| self.get(*id)).collect()
    }

    /// How a version must stay, if it must.
    pub fn get(&self, id: VersionId) -> Option<Kept> {
        self.versions.get(&id).copied()
    }
}

impl Cell {
    /// What must stay now.
    pub(crate) fn keeps(&self) -> Result<Keeps> {
        let now_us = self.believed_us()?;
        let rows = self.idb.versions_kept()?;
        let has_passed = |(version, keeping): &(Version, Keeping)| {
            let until = matches!(keeping.protection, Protection::UntilUs(_));
            until && keeping.expired_us.is_none() && own(version, keeping, now_us).is_none()
        };
        // Time that passes gives nothing up while a medium of its object is away, or another host decides on it.
        let mut still: HashSet<ObjectId> = HashSet::new();
        if rows.iter().any(has_passed) {
            let away = self.media_away()?;
            still.extend(away.iter().flat_map(|of| &of.still).map(|object| object.id));
            still.extend(self.decided_elsewhere(&self.idb.objects()?)?.into_keys());
        }
        let own = |row: &(Version, Keeping)| {
            let (version, keeping) = row;
            let held = has_passed(row) && still.contains(&version.object);
            own(version, keeping, now_us).or(held.then_some(Kept::ForEver))
        };
        let all = |is_asked: &dyn Fn(&(Version, Keeping)) -> bool| {
            let of = |row| (own(row)).filter(|_| is_asked(row));
            let all = rows.iter().map(|row| (row.0.id, row.0.base, of(row)));
            with_bases(&all.collect::<Vec<_>>())
        };
        let by_itself = |(_, keeping): &(Version, Keeping)| {
            keeping.protection != Protection::Rules || keeping.lock_at(now_us).is_some()
        };
        let (versions, in_turn) = (all(&|_| true), all(&by_itself));
        Ok(Keeps { versions, in_turn, lasts: OnceCell::new() })
    }
}

/// How versions must stay, of each of which is given what it builds on, and how it must stay for its own sake. Of a circle, which
/// no version of ours is in and nobody can read, only that counts.
fn with_bases(
    versions: &[(VersionId, Option<VersionId>, Option<Kept>)],
) -> HashMap<VersionId, Kept> {
    let mut kept: HashMap<VersionId, Kept> = HashMap::new();
    let base: HashMap<VersionId, Option<VersionId>> =
        versions.iter().map(|(id, base, _)| (*id, *base)).collect();
    // Those that build on each version and were not looked at yet.
    let mut waits: HashMap<VersionId, usize> = HashMap::new();
    for base in base.values().flatten() {
        *waits.entry(*base).or_default() += 1;
    }
    for (id, _, own) in versions {
        kept.extend(own.map(|own| (*id, own)));
    }
    let is_top = |id: &VersionId| waits.get(id).is_none_or(|n| *n == 0);
    let mut ready: Vec<VersionId> = versions.iter().map(|v| v.0).filter(is_top).collect();
    while let Some(id) = ready.pop() {
        let Some(base) = base.get(&id).copied().flatten() else { continue };
        if let Some(longest) = longer(kept.get(&id).copied(), kept.get(&base).copied()) {
            kept.insert(base, longest);
        }
        if let Some(left) = waits.get_mut(&base) {
            *left -= 1;
            if *left == 0 {
                ready.push(base);
            }
        }
    }
    kept
}

/// Whether a version must stay for its own sake. Of what only keep rules decide nothing says that it may go: what is
/// restorable stays. A session that failed left nothing that was asked for, and what expired was given up.
fn own(version: &Version, keeping: &Keeping, now_us: i64) -> Option<Kept> {
    let locked = keeping.lock_at(now_us).map(Kept::Until);
    if version.status == Status::Failed || keeping.expired_us.is_some() {
        return locked;
    }
    let protected = match keeping.protection {
        Protection::Rules | Protection::Permanent => Some(Kept::ForEver),
        Protection::UntilUs(until) => (until > now_us).then_some(Kept::Until(until)),
        Protection::None => None,
    };
    longer(locked, protected)
}

fn longer(a: Option<Kept>, b: Option<Kept>) -> Option<Kept> {
    match (a, b) {
        (Some(Kept::Until(a)), Some(Kept::Until(b))) => Some(Kept::Until(a.max(b))),
        (Some(Kept::ForEver), _) | (_, Some(Kept::ForEver)) => Some(Kept::ForEver),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_built_on_stays_as_long_as_what_builds_on_it() {
        let id = |n: u8| VersionId([n; 16]);
        let until = |us| Some(Kept::Until(us));
        // 1 <- 2 <- 3, 2 <- 4, 5 alone, 6 and 7 build on each other, 8 on what is not known.
        let versions = [
            (id(3), Some(id(2)), until(30)),
            (id(1), None, until(50)),
            (id(2), Some(id(1)), None),
            (id(4), Some(id(2)), Some(Kept::ForEver)),
            (id(5), None, None),
            (id(6), Some(id(7)), until(60)),
            (id(7), Some(id(6)), None),
            (id(8), Some(id(9)), until(80)),
        ];
        let versions = with_bases(&versions);
        let keeps = Keeps { versions, in_turn: HashMap::new(), lasts: OnceCell::new() };
        assert_eq!(keeps.of(&[id(1), id(2), id(4)]), [Kept::ForEver; 3]);
        assert_eq!((keeps.get(id(3)), keeps.get(id(5))), (until(30), None));
        assert_eq!(
            (keeps.get(id(6)), keeps.get(id(7)), keeps.get(id(8))),
            (until(60), None, until(80))
        );
    }

    #[test]
    fn the_longest_protection_counts() {
        let until = |us| Some(Kept::Until(us));
        assert_eq!(longer(until(1), until(2)), until(2));
        assert_eq!(longer(until(1), Some(Kept::ForEver)), Some(Kept::ForEver));
        assert_eq!(longer(None, until(2)), until(2));
        assert_eq!(longer(None, None), None);
    }

    #[test]
    fn what_is_protected_locked_or_left_to_rules_stays() {
        let id = VersionId([1; 16]);
        let version = |status| Version {
            id,
            object: capstan_format::id::ObjectId([2; 16]),
            status,
            method: "full".to_owned(),
            base: None,
            key: None,
            null_device: false,
            created_us: 1,
            stands_for: None,
        };
        let kept = |protection, locked_until_us, expired_us| {
            let keeping = Keeping { protection, locked_until_us, expired_us, ..Keeping::default() };
            own(&version(Status::Completed), &keeping, 100)
        };
        assert_eq!(kept(Protection::Rules, None, None), Some(Kept::ForEver));
        assert_eq!(kept(Protection::UntilUs(101), None, None), Some(Kept::Until(101)));
        assert_eq!(kept(Protection::UntilUs(99), None, None), None);
        assert_eq!(kept(Protection::None, None, None), None);
        assert_eq!(kept(Protection::None, Some(500), None), Some(Kept::Until(500)));
        assert_eq!(kept(Protection::Permanent, None, Some(50)), None, "it was given up");
        assert_eq!(kept(Protection::None, Some(500), Some(50)), Some(Kept::Until(500)));
        assert_eq!(own(&version(Status::Failed), &Keeping::default(), 100), None);
    }
}
