//! Which versions stay, which go, and why. A pure function of what the database and the media say.

use std::collections::{HashMap, HashSet};

use capstan_format::id::{ObjectId, VersionId};
use capstan_idb::{Loss, LostData, Protection, PruneRow, Status};
use jiff::tz::TimeZone;

use super::rules::{KeepRules, Now, Seen};
use crate::request::Level;
use crate::session::local;
use crate::versions::damaged::{DamagedVersions, damaged_text};
use crate::versions::lacking::{Lacking, Paths, paths_text};
use crate::versions::leap::Leap;

/// What becomes of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// It stays.
    Keep,
    /// It is given up, but its data stay, since another version needs them or a lock keeps them.
    Mark,
    /// It goes, and with it every segment that only such versions have something in.
    Remove,
}

impl Action {
    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Keep => "keep",
            Self::Mark => "mark",
            Self::Remove => "remove",
        }
    }
}

/// What becomes of a version, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub action: Action,
    pub why: Vec<String>,
}

/// An object's last complete versions, by their places among all.
#[derive(Clone, Copy)]
struct Last {
    /// By what is recorded.
    recorded: Option<usize>,
    /// Of those that need no medium that is away.
    at_hand: Option<usize>,
}

impl Decision {
    fn new(action: Action, why: &str) -> Self {
        Self { action, why: vec![why.to_owned()] }
    }
}

/// A lock found on a medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MediumLock {
    UntilUs(i64),
    /// Until when is not known.
    Damaged,
}

/// What is asked for, and when.
pub(crate) struct Asked<'a> {
    pub rules: &'a KeepRules,
    /// Whether all of the objects goes that nothing holds.
    pub give_up: bool,
    /// Whether only what consolidations left that did not end goes.
    pub leftovers: bool,
    /// Backups that were begun before and did not complete go though they could be resumed, where a version is whole: their room is
    /// wanted. Microseconds since 1970.
    pub unended_before_us: Option<i64>,
    /// Only versions of these objects; all, if none are named.
    pub objects: Option<HashSet<ObjectId>>,
    /// Locks found on media.
    pub locks: HashMap<VersionId, MediumLock>,
    /// Versions that are not whole: something of them, or of what they build on, is lost or was never imported.
    pub lost: HashMap<VersionId, LostData>,
    /// Versions that are known to be damaged, with the media on which they are.
    pub damaged: DamagedVersions,
    /// Versions of which only media that were retired or exported have something, which do not have it or are not at hand; in a
    /// sentence.
    pub out_of_use: HashMap<VersionId, String>,
    /// What versions lack of the paths which they were to have.
    pub lacking: Lacking,
    /// Objects of which nothing goes now by rules, as media are away or lack something, and why. Rotation sets go on without them.
    pub still: HashMap<ObjectId, String>,
    /// Objects on which another host decides, in words.
    pub elsewhere: HashMap<ObjectId, String>,
    /// The newest complete versions of objects, down to the first that needs no medium that is away: they do not count as the last one.
    pub not_at_hand: HashSet<VersionId>,
    /// Versions that are on media of other cells: these decide on them.
    pub of_others: HashSet<VersionId>,
    /// Versions that only media of rotation sets have: these decide on them, unless they have a protection of their own.
    pub of_sets: HashSet<VersionId>,
    /// Whether the turn of all these media has come.
    pub in_turn: bool,
    /// Those of them whose media are written no more, and whose turn would have come.
    pub past_turn: HashSet<VersionId>,
    /// Versions on full disks, each with a full elsewhere that stands for it: that is kept in their place, where what they build on
    /// was given up.
    pub crowded: HashMap<VersionId, VersionId>,
    /// Until when times are believed: now, or earlier, if the clock may have leapt.
    pub now_us: i64,
    /// A leap of the clock that is not proved to be none.
    pub leap: Option<Leap>,
    pub here: TimeZone,
}

impl Asked<'_> {
    /// Whether anything is asked of that object.
    pub fn is_of(&self, object: ObjectId) -> bool {
        self.objects.as_ref().is_none_or(|objects| objects.contains(&object))
    }

    /// Decides for all versions, which come by object, newest first.
    pub fn decide(&self, rows: &[PruneRow]) -> Vec<Decision> {
        let groups = rows.chunk_by(|a, b| a.version.object == b.version.object);
        let mut decisions: Vec<Decision> = groups.flat_map(|group| self.of_object(group)).collect();
        self.let_crowded_go(rows, &mut decisions);
        keep_bases(rows, &mut decisions);
        decisions
    }

    /// Lets versions go for which fulls elsewhere stand, where they crowd a full disk: each builds on what is given up, and all that
    /// keeps it keeps its full too.
    fn let_crowded_go(&self, rows: &[PruneRow], decisions: &mut [Decision]) {
        if self.crowded.is_empty() {
            return;
        }
        let places: HashMap<VersionId, usize> =
            rows.iter().enumerate().map(|(i, row)| (row.version.id, i)).collect();
        let place = |id: Option<&VersionId>| id.and_then(|id| places.get(id).copied());
        for (i, row) in rows.iter().enumerate() {
            let Some(full) = place(self.crowded.get(&row.version.id)) else { continue };
            let Some(base) = place(row.version.base.as_ref()) else { continue };
            let is_kept = |i: usize| decisions[i].action == Action::Keep;
            let why = &decisions[full].why;
            let is_as_good = is_kept(full) && self.counts(&rows[full]) && !self.is_held(row);
            let goes = is_kept(i)
                && is_as_good
                && decisions[base].action == Action::Remove
                && decisions[i].why.iter().all(|of| why.contains(of));
            if goes {
                decisions[i] = Decision::new(Action::Remove, "its full is kept in its place");
            }
        }
    }

    fn of_object(&self, rows: &[PruneRow]) -> Vec<Decision> {
        let complete: Vec<usize> = (0..rows.len()).filter(|i| self.counts(&rows[*i])).collect();
        let mut by_rules = self.by_rules(rows, &complete);
        let at_hand = complete.iter().find(|i| self.is_at_hand(&rows[**i])).copied();
        let last = Last { recorded: complete.first().copied(), at_hand };
        // What nobody can say of whether it can be had takes no place of others, and goes no sooner than if it could be had.
        let is_open = |i: &usize| self.counts_if_had(&rows[*i]);
        if (0..rows.len()).any(|i| is_open(&i) && !complete.contains(&i)) {
            let all: Vec<usize> = (0..rows.len()).filter(is_open).collect();
            for (i, why) in self.by_rules(rows, &all) {
                by_rules.entry(i).or_insert(why);
            }
        }
        let have_last = self.have_last(rows, &complete);
        let each = |(i, row): (usize, &PruneRow)| {
            let held = self.held(row);
            if self.leftovers && !is_unended_full(row) {
                return Decision::new(Action::Keep, "not asked for");
            }
            if row.keeping.expired_us.is_some() {
                return match held.is_empty() {
                    true => Decision::new(Action::Remove, "expired before"),
                    false => Decision { action: Action::Mark, why: held },
                };
            }
            if !self.is_of(row.version.object) {
                return Decision::new(Action::Keep, "not asked for");
            }
            // All that keeps it is said, also where one reason would do.
            let mut why = held;
            if !self.give_up {
                why.extend(by_rules.remove(&i).unwrap_or_default());
                why.extend(self.stays(row, i, last, &have_last));
            }
            let needs = self.out_of_use.get(&row.version.id).filter(|_| !why.is_empty());
            why.extend(needs.map(|what| format!("it takes no place: {what}")));
            match why.is_empty() {
                true => Decision { action: Action::Remove, why: vec![self.why_it_goes(row)] },
                false => Decision { action: Action::Keep, why },
            }
        };
        rows.iter().enumerate().map(each).collect()
    }

    /// Why these versions are kept by rules, each by its place among all.
    fn by_rules(&self, rows: &[PruneRow], of: &[usize]) -> HashMap<usize, Vec<String>> {
        // What sets keep takes no place of what rules keep.
        let of: Vec<usize> = of.iter().copied().filter(|i| !self.is_of_set(&rows[*i])).collect();
        let seen =
            |i: &usize| Seen { created_us: rows[*i].version.created_us, tags: &rows[*i].tags };
        let seen: Vec<Seen<'_>> = of.iter().map(seen).collect();
        let now = Now { us: self.now_us, has_leapt: self.leap.is_some() };
        of.into_iter().zip(self.rules.apply(&seen, &self.here, now)).collect()
    }

    /// The last version of each object that is whole, and where that lacks paths the last ones that have them.
    pub fn last_whole(&self, rows: &[PruneRow]) -> Vec<VersionId> {
        let groups = rows.chunk_by(|a, b| a.version.object == b.version.object);
        let last = groups.flat_map(|group| {
            let whole: Vec<usize> = (0..group.len()).filter(|i| self.counts(&group[*i])).collect();
            let before = self.have_last(group, &whole).into_keys();
            let at_hand = whole.iter().find(|i| self.is_at_hand(&group[**i]));
            let all = whole.first().into_iter().chain(at_hand).copied().chain(before);
            let mut all: Vec<usize> = all.collect();
            all.sort_unstable();
            all.dedup();
            all.into_iter().map(|i| group[i].version.id)
        });
        last.collect()
    }

    /// Which of an object's complete versions, each by its place among all, are the last that have paths which the last one lacks.
    fn have_last(&self, rows: &[PruneRow], complete: &[usize]) -> HashMap<usize, Paths> {
        let ids: Vec<VersionId> = complete.iter().map(|i| rows[*i].version.id).collect();
        let keepers = self.lacking.keepers(&ids).into_iter();
        keepers.map(|(index, paths)| (complete[index], paths)).collect()
    }

    /// Whether a version takes a place of a rule: it is whole, and ours.
    fn counts(&self, row: &PruneRow) -> bool {
        self.is_whole(row) && !self.of_others.contains(&row.version.id)
    }

    /// Whether no medium that is away is needed for a version, as far as that matters.
    fn is_at_hand(&self, row: &PruneRow) -> bool {
        !self.not_at_hand.contains(&row.version.id)
    }

    /// Whether a version takes a place, or would if what media in use no more have of it could be had.
    fn counts_if_had(&self, row: &PruneRow) -> bool {
        let id = row.version.id;
        let is_had = !self.lost.contains_key(&id) && !self.damaged.contains_key(&id);
        is_complete(row) && is_had && !self.of_others.contains(&id)
    }

    /// Whether the rotation set of its media decides on a version.
    fn is_of_set(&self, row: &PruneRow) -> bool {
        row.keeping.protection == Protection::Rules && self.of_sets.contains(&row.version.id)
    }

    /// Whether a version is complete, nothing of it was lost since, and all of it is to be had as far as is known.
    fn is_whole(&self, row: &PruneRow) -> bool {
        let id = row.version.id;
        let is_had = !self.damaged.contains_key(&id) && !self.out_of_use.contains_key(&id);
        is_complete(row) && !self.lost.contains_key(&id) && is_had
    }

    /// Whether a version stays, whatever rules and dates say, as it is damaged and may be repaired still.
    pub fn waits_for_repair(&self, row: &PruneRow) -> bool {
        self.damaged.contains_key(&row.version.id)
            && is_complete(row)
            && row.keeping.protection != Protection::None
    }

    /// Whether a version stays, whatever rules and dates say, as what it lacks may be imported still.
    pub fn waits_for_import(&self, row: &PruneRow) -> bool {
        let lost = self.lost.get(&row.version.id);
        lost.is_some_and(|of| of.loss.is_not_imported())
            && is_complete(row)
            && row.keeping.protection != Protection::None
    }

    /// Whether a version is held whatever the rules say.
    pub fn is_held(&self, row: &PruneRow) -> bool {
        !self.held(row).is_empty()
    }

    /// What holds a version whatever the rules say.
    fn held(&self, row: &PruneRow) -> Vec<String> {
        let mut why = Vec::new();
        if row.version.status == Status::Running || row.in_use {
            why.push("in use by a session that runs".to_owned());
        }
        why.extend(row.readers.iter().map(|reader| format!("read by {reader}")));
        let still = self.still.get(&row.version.object).filter(|_| !self.is_of_set(row));
        why.extend(still.or_else(|| self.elsewhere.get(&row.version.object)).cloned());
        // There is nothing of it that anybody could have protected.
        if is_bare_on_others(row) {
            return why;
        }
        if self.of_others.contains(&row.version.id) {
            why.push("it is on a medium of another cell".to_owned());
        }
        let on_medium = self.locks.get(&row.version.id);
        let until = match on_medium {
            Some(MediumLock::UntilUs(until)) => row.keeping.locked_until_us.max(Some(*until)),
            _ => row.keeping.locked_until_us,
        };
        if let Some(until) = until.filter(|until| *until > self.now_us) {
            why.push(format!("locked until {}", local(until)));
        } else if on_medium == Some(&MediumLock::Damaged) {
            why.push("its lock on the medium is damaged".to_owned());
        }
        match row.keeping.protection {
            // One that expired is protected no more.
            _ if row.keeping.expired_us.is_some() => {}
            Protection::UntilUs(until) if until > self.now_us => {
                why.push(format!("protected until {}", local(until)));
            }
            Protection::Permanent => why.push("protected for ever".to_owned()),
            _ => {}
        }
        why
    }

    /// Why a version stays that no rule keeps; `last` are the object's last complete ones, `have_last` are those that have what it
    /// lacks.
    fn stays(
        &self,
        row: &PruneRow,
        index: usize,
        last: Last,
        have_last: &HashMap<usize, Paths>,
    ) -> Option<String> {
        let paths = have_last.get(&index);
        let has = paths.map(|paths| format!("last version that has {}", paths_text(paths)));
        has.or_else(|| self.stays_for_itself(row, index, last).map(str::to_owned))
    }

    fn stays_for_itself(
        &self,
        row: &PruneRow,
        index: usize,
        Last { recorded: last, at_hand }: Last,
    ) -> Option<&'static str> {
        if Some(index) == last {
            return Some("last complete version");
        }
        if Some(index) == at_hand {
            return Some("last complete version that is at hand");
        }
        // Nothing goes on with it, and what it is made of stays.
        if is_unended_full(row) || is_bare_on_others(row) {
            return None;
        }
        let newer = last.is_some_and(|last| last < index);
        // A full that was begun in vain is begun again.
        if row.bare && !row.version.null_device {
            return (!newer).then_some(UNENDED);
        }
        if self.in_turn && self.is_of_set(row) && self.past_turn.contains(&row.version.id) {
            return None;
        }
        if self.waits_for_repair(row) {
            return Some("it is damaged, and may be repaired");
        }
        if self.waits_for_import(row) {
            return Some("not whole, and what it lacks may be imported");
        }
        if self.is_of_set(row) {
            return (!self.in_turn).then_some("its rotation set keeps it");
        }
        if self.rules.is_empty() && row.keeping.protection == Protection::Rules {
            return Some("no keep rule is given");
        }
        // What a backup has not come to the end of goes by that alone, as messages advise where its room is wanted.
        if self.rules.is_empty() && !is_complete(row) {
            return None;
        }
        let has_data = !row.version.null_device;
        let makes_room = last.is_some() && self.makes_room(row);
        (has_data && !self.is_whole(row) && !newer && !makes_room).then_some(UNENDED)
    }

    /// Whether a backup did not complete and is to make room.
    fn makes_room(&self, row: &PruneRow) -> bool {
        matches!(row.version.status, Status::Incomplete | Status::Failed)
            && self.unended_before_us.is_some_and(|before| row.version.created_us < before)
    }

    fn why_it_goes(&self, row: &PruneRow) -> String {
        match row.keeping.protection {
            _ if row.version.null_device => "it went to the null device".to_owned(),
            _ if self.give_up => "its object is given up".to_owned(),
            _ if row.bare => "nothing of it was committed".to_owned(),
            _ if is_unended_full(row) => "its consolidation did not end".to_owned(),
            Protection::UntilUs(until) => format!("protection ended {}", local(until)),
            Protection::None if self.rules.is_empty() => "not protected".to_owned(),
            _ if let Some(lost) = self.lost.get(&row.version.id) => {
                let what = match &lost.loss {
                    Loss::Medium { label, .. } => {
                        format!("medium '{label}' has lost some of its data")
                    }
                    Loss::Copy { label } => {
                        format!("the copy on medium '{label}' lacks some of its data")
                    }
                    Loss::Segments => "some of it is on no medium that is known".to_owned(),
                    Loss::Base(base) => {
                        format!("version {}, which it builds on, is not known", base.short())
                    }
                };
                format!("{what}, and a later one is whole")
            }
            _ if let Some(labels) = self.damaged.get(&row.version.id) => {
                format!("it {}, and a later one is whole", damaged_text(labels))
            }
            _ if self.makes_room(row) => "not complete, and its room is wanted".to_owned(),
            _ if !is_complete(row) => "not complete, and a later one is".to_owned(),
            _ => "no rule keeps it".to_owned(),
        }
    }
}

/// Why a version stays that is not whole, while none after it is.
pub(super) const UNENDED: &str = "not whole, but none after it is";

/// Whether it is a full that a consolidation did not come to the end of.
fn is_unended_full(row: &PruneRow) -> bool {
    row.version.stands_for.is_some()
        && matches!(row.version.status, Status::Incomplete | Status::Failed)
}

/// Whether nothing was committed of a version that was to build on another one: what that has may go any time.
fn is_bare_on_others(row: &PruneRow) -> bool {
    row.bare && row.version.method != Level::Full.to_string()
}

fn is_complete(row: &PruneRow) -> bool {
    matches!(row.version.status, Status::Completed | Status::CompletedWithErrors)
        && !row.version.null_device
        && row.keeping.expired_us.is_none()
}

/// What a version that stays builds on stays with it, marked.
fn keep_bases(rows: &[PruneRow], decisions: &mut [Decision]) {
    let places: HashMap<VersionId, usize> =
        rows.iter().enumerate().map(|(i, row)| (row.version.id, i)).collect();
    let mut seen = vec![false; rows.len()];
    for start in 0..rows.len() {
        if decisions[start].action == Action::Remove || seen[start] {
            continue;
        }
        let mut at = start;
        seen[at] = true;
        while let Some(base) = rows[at].version.base.and_then(|id| places.get(&id).copied()) {
            let (child, decision) = (&rows[at], &mut decisions[base]);
            if decision.action == Action::Remove {
                decision.action = Action::Mark;
                let session = child.session.map_or_else(|| child.version.id.short(), |s| s.short());
                decision.why.push(format!("{session} builds on it"));
            }
            if std::mem::replace(&mut seen[base], true) {
                break;
            }
            at = base;
        }
    }
}

#[cfg(test)]
mod tests;
