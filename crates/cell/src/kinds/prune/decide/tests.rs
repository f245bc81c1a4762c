//! What is kept, and what goes.

use super::*;
use crate::kinds::prune::rules::Count;
use capstan_idb::{Keeping, Version};

const NOW: i64 = 1_793_534_400_000_000;
const DAY: i64 = 86_400_000_000;

/// Version n of object 1, n days old, complete.
fn row(n: u8) -> PruneRow {
    PruneRow {
        version: Version {
            id: VersionId([n; 16]),
            object: ObjectId([1; 16]),
            status: Status::Completed,
            method: "full".to_owned(),
            base: None,
            key: None,
            null_device: false,
            created_us: NOW - i64::from(n) * DAY,
            stands_for: None,
        },
        bare: false,
        keeping: Keeping::default(),
        session: None,
        tags: Vec::new(),
        in_use: false,
        readers: Vec::new(),
    }
}

fn with(n: u8, change: impl FnOnce(&mut PruneRow)) -> PruneRow {
    let mut row = row(n);
    change(&mut row);
    row
}

fn protected(n: u8, protection: Protection) -> PruneRow {
    with(n, |row| row.keeping.protection = protection)
}

fn on(n: u8, base: u8) -> PruneRow {
    with(n, |row| row.version.base = Some(VersionId([base; 16])))
}

fn asked(rules: &KeepRules) -> Asked<'_> {
    let (objects, locks, lost) = (None, HashMap::new(), HashMap::new());
    let (damaged, still, of_others) = (HashMap::new(), HashMap::new(), HashSet::new());
    let out_of_use = HashMap::new();
    let (now_us, here) = (NOW, TimeZone::UTC);
    let (give_up, leftovers, unended_before_us) = (false, false, None);
    let lacking = Lacking::default();
    let crowded = HashMap::new();
    let (of_sets, in_turn) = (HashSet::new(), false);
    let (elsewhere, not_at_hand) = (HashMap::new(), HashSet::new());
    let past_turn = HashSet::new();
    Asked {
        rules,
        give_up,
        leftovers,
        unended_before_us,
        objects,
        locks,
        lost,
        damaged,
        out_of_use,
        lacking,
        still,
        elsewhere,
        not_at_hand,
        of_others,
        of_sets,
        in_turn,
        past_turn,
        crowded,
        now_us,
        leap: None,
        here,
    }
}

#[test]
fn a_full_elsewhere_is_kept_in_the_place_of_what_crowds_a_disk() {
    // 9 stands for 3, which builds on 4.
    let full = with(9, |row| {
        row.version.stands_for = Some(VersionId([3; 16]));
        row.version.created_us = NOW - 3 * DAY;
    });
    let rows = [on(2, 3), full, on(3, 4), row(4)];
    let within = |hours: i64| KeepRules {
        within: Some(jiff::Span::new().hours(hours)),
        tags: vec![vec!["a".to_owned()]],
        ..KeepRules::default()
    };
    let decided = |hours, is_crowded: bool, rows: &[PruneRow]| {
        let rules = within(hours);
        let mut asked = asked(&rules);
        let crowded = is_crowded.then_some((VersionId([3; 16]), VersionId([9; 16])));
        asked.crowded = crowded.into_iter().collect();
        letters(&asked.decide(rows))
    };
    assert_eq!(decided(25, false, &rows), "kkkm", "there is room for both");
    assert_eq!(decided(25, true, &rows), "kkmm");
    assert_eq!(decided(49, true, &rows), "kkkk", "what it builds on is wanted");
    let mut tagged = rows.clone();
    tagged[2].tags = vec!["a".to_owned()];
    assert_eq!(decided(25, true, &tagged), "kkkm", "the full is not kept for that");
    let mut locked = rows.clone();
    locked[2].keeping.locked_until_us = Some(NOW + DAY);
    assert_eq!(decided(25, true, &locked), "kkkm");
    let mut given_up = rows;
    given_up[1].keeping.expired_us = Some(NOW);
    assert_eq!(decided(25, true, &given_up), "krkm");
}

#[test]
fn what_lacks_a_path_does_not_push_out_the_last_that_has_all() {
    let rules = last(1);
    let rows = [row(4), row(3), row(2), row(1)];
    let mut asked = asked(&rules);
    asked.lacking = Lacking::with(&[(4, &["/b"]), (3, &["/b"])]);
    let decided = asked.decide(&rows);
    assert_eq!(letters(&decided), "krkr", "rules count it, but the last state of the path stays");
    assert_eq!(decided[2].why, ["last version that has /b"]);
    let ids = |all: &[usize]| all.iter().map(|i| rows[*i].version.id).collect::<Vec<_>>();
    assert_eq!(asked.last_whole(&rows), ids(&[0, 2]));
    asked.lacking = Lacking::with(&[(4, &["/b"]), (3, &["/a"])]);
    assert_eq!(letters(&asked.decide(&rows)), "kkrr", "each path has its own last state");
    asked.lacking = Lacking::with(&[1, 2, 3, 4].map(|n| (n, &["/b"][..])));
    assert_eq!(letters(&asked.decide(&rows)), "krrr", "there is none that has it");
    asked.lacking = Lacking::with(&[(3, &["/b"])]);
    assert_eq!(letters(&asked.decide(&rows)), "krrr");
    assert_eq!(asked.last_whole(&rows), ids(&[0]));
}

#[test]
fn what_is_not_whole_any_more_pushes_nothing_out_and_stays_until_something_is() {
    let rules = last(1);
    let rows = [row(3), row(2), row(1)];
    let mut asked = asked(&rules);
    assert_eq!(letters(&asked.decide(&rows)), "krr");
    let lost = |rows: &[PruneRow]| {
        let of = |row: &PruneRow| {
            let version = row.version.id;
            let loss = Loss::Medium { label: "m".to_owned(), lost_us: NOW };
            (version, LostData { version, loss })
        };
        rows.iter().map(of).collect()
    };
    asked.lost = lost(&rows[..1]);
    assert_eq!(letters(&asked.decide(&rows)), "kkr", "the last that restores stays");
    asked.lost = lost(&rows[1..2]);
    let decided = asked.decide(&rows);
    assert_eq!(letters(&decided), "krr");
    assert!(decided[1].why[0].contains("medium 'm' has lost"), "{:?}", decided[1].why);
    asked.lost = lost(&rows);
    assert_eq!(letters(&asked.decide(&rows)), "kkk");
}

#[test]
fn what_was_not_imported_takes_no_place_and_what_lacks_it_stays() {
    let rules = last(1);
    let rows = [on(3, 9), row(2), row(1)];
    let mut asked = asked(&rules);
    for loss in [Loss::Base(VersionId([9; 16])), Loss::Segments] {
        let of = |row: &PruneRow| LostData { version: row.version.id, loss: loss.clone() };
        asked.lost = rows[..1].iter().map(|row| (row.version.id, of(row))).collect();
        assert_eq!(letters(&asked.decide(&rows)), "kkr", "the last that restores stays");
        asked.lost = rows[1..2].iter().map(|row| (row.version.id, of(row))).collect();
        assert_eq!(letters(&asked.decide(&rows)), "kkr", "its medium may come");
        let mut rows = rows.clone();
        rows[1].keeping.protection = Protection::None;
        assert_eq!(letters(&asked.decide(&rows)), "krr", "it was let go");
    }
}

#[test]
fn what_is_damaged_takes_no_place_and_stays_until_somebody_lets_it_go() {
    let rules = last(1);
    let rows = [row(3), row(2), row(1)];
    let mut asked = asked(&rules);
    let of = |n: u8| (VersionId([n; 16]), "m".to_owned());
    asked.damaged = [of(3)].into();
    assert_eq!(letters(&asked.decide(&rows)), "kkr", "the last that restores stays");
    asked.damaged = [of(2)].into();
    assert_eq!(letters(&asked.decide(&rows)), "kkr", "it may be repaired");
    let let_go = [row(3), protected(2, Protection::None), row(1)];
    let decided = asked.decide(&let_go);
    assert_eq!(letters(&decided), "krr");
    assert!(decided[1].why[0].contains("damaged on medium 'm'"), "{:?}", decided[1].why);
    asked.damaged = [of(3), of(2), of(1)].into();
    assert_eq!(letters(&asked.decide(&rows)), "kkk");
    asked.give_up = true;
    assert_eq!(letters(&asked.decide(&rows)), "rrr");
}

#[test]
fn what_only_media_in_use_no_more_have_takes_no_place_and_goes_no_sooner_for_it() {
    let rules = last(1);
    let rows = [row(4), row(3), row(2), row(1)];
    let mut asked = asked(&rules);
    let of = |n: u8| (VersionId([n; 16]), "some of it is only on medium 'm'".to_owned());
    asked.out_of_use = [of(4)].into();
    let decided = asked.decide(&rows);
    assert_eq!(letters(&decided), "kkrr", "the last that is to be had stays");
    assert!(decided[0].why.concat().contains("only on medium 'm'"), "{:?}", decided[0].why);
    assert_eq!(asked.last_whole(&rows), [VersionId([3; 16])]);
    asked.out_of_use = [of(3)].into();
    assert_eq!(letters(&asked.decide(&rows)), "krrr");
    let rules = last(2);
    asked.rules = &rules;
    assert_eq!(letters(&asked.decide(&rows)), "kkkr", "as if it were there, and as if not");
    asked.out_of_use = [of(4), of(3), of(2), of(1)].into();
    assert_eq!(letters(&asked.decide(&rows)), "kkkk");
}

/// The actions' first letters.
fn actions(rows: &[PruneRow], rules: &KeepRules) -> String {
    letters(&asked(rules).decide(rows))
}

fn letters(decisions: &[Decision]) -> String {
    decisions.iter().map(|d| &d.action.as_str()[..1]).collect()
}

fn last(n: u32) -> KeepRules {
    KeepRules { last: Some(Count::Last(n)), ..KeepRules::default() }
}

#[test]
fn without_rules_only_what_is_not_protected_any_more_goes() {
    let rows = [
        row(1),
        protected(2, Protection::None),
        protected(3, Protection::UntilUs(NOW - 1)),
        protected(4, Protection::UntilUs(NOW + 1)),
        protected(5, Protection::Permanent),
    ];
    assert_eq!(actions(&rows, &KeepRules::default()), "krrkk");
    assert_eq!(actions(&rows, &last(1)), "krrkk");
    assert_eq!(actions(&rows, &last(3)), "kkkkk", "a rule keeps what is not protected too");
}

#[test]
fn the_last_complete_version_goes_only_when_all_of_its_object_is_given_up() {
    let none = KeepRules::default();
    assert_eq!(actions(&[protected(1, Protection::UntilUs(NOW - 1))], &none), "k");
    let unprotected = [protected(1, Protection::None), protected(2, Protection::None)];
    assert_eq!(actions(&unprotected, &none), "kr");
    let mut asked = asked(&none);
    asked.give_up = true;
    assert_eq!(letters(&asked.decide(&unprotected)), "rr");
    let read = with(3, |row| row.readers.push("process 1 on h".to_owned()));
    let locked = with(4, |row| row.keeping.locked_until_us = Some(NOW + 1));
    let rows = [row(1), protected(2, Protection::Permanent), read, locked, row(5)];
    assert_eq!(letters(&asked.decide(&rows)), "rkkkr");
    let tags = KeepRules { tags: vec![vec!["x".to_owned()]], ..KeepRules::default() };
    assert_eq!(actions(&[protected(1, Protection::None), row(2)], &tags), "kr");
}

#[test]
fn what_is_not_complete_stays_until_a_later_one_is() {
    let incomplete = |n| with(n, |row| row.version.status = Status::Incomplete);
    let rows = [incomplete(1), row(2), incomplete(3), incomplete(4), row(5)];
    assert_eq!(actions(&rows, &last(1)), "kkrrr");
    assert_eq!(actions(&rows, &last(2)), "kkrrk", "they are not counted");
    assert_eq!(actions(&rows, &KeepRules::default()), "kkkkk");
    let null = with(1, |row| row.version.null_device = true);
    assert_eq!(actions(&[null, row(2)], &last(1)), "rk");
}

#[test]
fn what_a_consolidation_left_that_did_not_end_goes() {
    let of = |n, status| {
        with(n, |row| {
            (row.version.status, row.version.stands_for) = (status, Some(VersionId([9; 16])));
        })
    };
    let rows = [
        of(1, Status::Failed),
        of(2, Status::Running),
        of(3, Status::Incomplete),
        of(4, Status::Completed),
        row(5),
    ];
    assert_eq!(actions(&rows, &KeepRules::default()), "rkrkk");
    assert_eq!(actions(&rows, &last(1)), "rkrkr");
    let rules = KeepRules::default();
    let mut asked = asked(&rules);
    asked.leftovers = true;
    let gone = protected(6, Protection::None);
    let expired = with(7, |row| row.keeping.expired_us = Some(1));
    assert_eq!(letters(&asked.decide(&[of(1, Status::Failed), row(5), gone, expired])), "rkkk");
}

#[test]
fn what_is_not_complete_makes_room_where_a_version_is_whole() {
    let incomplete = |n| with(n, |row| row.version.status = Status::Incomplete);
    let rules = last(1);
    let mut asked = asked(&rules);
    asked.unended_before_us = Some(NOW - DAY);
    assert_eq!(letters(&asked.decide(&[incomplete(1), incomplete(2), row(3)])), "krk");
    assert_eq!(letters(&asked.decide(&[incomplete(1), incomplete(2)])), "kk");
}

#[test]
fn locks_and_sessions_hold() {
    let locked = with(2, |row| row.keeping.locked_until_us = Some(NOW + 1));
    let past = with(3, |row| row.keeping.locked_until_us = Some(NOW - 1));
    let used = with(4, |row| row.in_use = true);
    let rows = [row(1), locked, past, used, row(5), row(6)];
    let rules = last(1);
    let mut asked = asked(&rules);
    assert_eq!(letters(&asked.decide(&rows)), "kkrkrr");
    let read = with(2, |row| row.readers.push("process 1 on h".to_owned()));
    assert_eq!(letters(&asked.decide(&[row(1), read, row(3)])), "kkr");
    asked.locks.insert(VersionId([5; 16]), MediumLock::UntilUs(NOW + 9));
    asked.locks.insert(VersionId([6; 16]), MediumLock::Damaged);
    assert_eq!(letters(&asked.decide(&rows)), "kkrkkk");
}

#[test]
fn what_a_living_version_builds_on_is_only_marked() {
    // 1 builds on 3, that on 5; 2 on 4.
    let rows = [on(1, 3), on(2, 4), on(3, 5), row(4), row(5)];
    assert_eq!(actions(&rows, &last(1)), "krmrm");
    let decisions = asked(&last(1)).decide(&rows);
    assert!(decisions[4].why.iter().any(|w| w.ends_with("builds on it")), "{decisions:?}");
    // One that was marked goes once nothing living builds on it, whoever is asked for.
    let expired =
        |row| PruneRow { keeping: Keeping { expired_us: Some(1), ..Keeping::default() }, ..row };
    let rows = [row(1), expired(on(3, 5)), expired(row(5))];
    assert_eq!(actions(&rows, &KeepRules::default()), "krr");
    // And stays while a lock keeps what builds on it.
    let locked = with(3, |row| row.keeping.locked_until_us = Some(NOW + 1));
    let locked = PruneRow {
        version: Version { base: Some(VersionId([5; 16])), ..locked.version.clone() },
        ..locked
    };
    assert_eq!(actions(&[row(1), locked, row(5)], &last(1)), "kkm");
}

#[test]
fn what_stands_still_and_what_is_anothers_stays() {
    let expired = with(4, |row| row.keeping.expired_us = Some(1));
    let rows = [row(1), row(2), protected(3, Protection::None), expired];
    let rules = last(1);
    let mut still = asked(&rules);
    assert_eq!(letters(&still.decide(&rows)), "krrr");
    still.still.insert(ObjectId([1; 16]), "away".to_owned());
    assert_eq!(letters(&still.decide(&rows)), "kkkm");
    // What another cell has takes nobody's place, and is not decided on here.
    let mut others = asked(&rules);
    others.of_others.insert(rows[0].version.id);
    assert_eq!(letters(&others.decide(&rows)), "kkrr");
}

#[test]
fn what_rotation_sets_have_takes_no_place_and_goes_in_its_turn_alone() {
    let rows = [row(4), row(3), row(2), protected(1, Protection::UntilUs(NOW - 1))];
    let rules = last(1);
    let mut sets = asked(&rules);
    sets.of_sets = [4, 2, 1].map(|n| VersionId([n; 16])).into();
    assert_eq!(letters(&sets.decide(&rows)), "kkkr", "3 is the last of those by rules");
    sets.in_turn = true;
    assert_eq!(letters(&sets.decide(&rows)), "kkrr", "the last complete one stays");
}

#[test]
fn what_is_away_holds_back_no_rotation_set_and_the_last_that_is_at_hand_stays() {
    let rows = [row(4), row(3), row(2), row(1)];
    let rules = last(1);
    let mut sets = asked(&rules);
    (sets.of_sets, sets.in_turn) = ([4, 3, 2].map(|n| VersionId([n; 16])).into(), true);
    sets.still.insert(ObjectId([1; 16]), "away".to_owned());
    assert_eq!(letters(&sets.decide(&rows)), "krrk", "rules stand still, and sets do not");
    sets.not_at_hand = [VersionId([4; 16])].into();
    let decided = sets.decide(&rows);
    assert_eq!(letters(&decided), "kkrk");
    assert_eq!(decided[1].why, ["last complete version that is at hand"]);
    let ids = |all: &[usize]| all.iter().map(|i| rows[*i].version.id).collect::<Vec<_>>();
    assert_eq!(sets.last_whole(&rows), ids(&[0, 1]));
}

#[test]
fn what_is_damaged_on_a_medium_of_a_set_stays_until_its_turn_would_have_come() {
    let rows = [row(3), row(2), row(1)];
    let rules = last(1);
    let mut sets = asked(&rules);
    (sets.of_sets, sets.in_turn) = ([3, 2, 1].map(|n| VersionId([n; 16])).into(), true);
    sets.damaged = [(VersionId([2; 16]), "m".to_owned())].into();
    assert_eq!(letters(&sets.decide(&rows)), "kkr");
    sets.past_turn = [VersionId([2; 16])].into();
    assert_eq!(letters(&sets.decide(&rows)), "krr");
    sets.in_turn = false;
    assert_eq!(letters(&sets.decide(&rows)), "kkk", "it stays as long as nothing takes its room");
}

#[test]
fn bases_in_a_circle_end() {
    assert_eq!(actions(&[on(1, 2), on(2, 1)], &last(1)), "km");
}

#[test]
fn only_objects_that_are_named_are_asked_for() {
    let other = with(9, |row| row.version.object = ObjectId([2; 16]));
    let rules = last(1);
    let mut asked = asked(&rules);
    asked.objects = Some(HashSet::from([ObjectId([1; 16])]));
    let more = PruneRow {
        version: Version { id: VersionId([8; 16]), ..other.version.clone() },
        ..other.clone()
    };
    assert_eq!(letters(&asked.decide(&[row(1), row(2), other, more])), "krkk");
}

#[test]
fn what_nothing_was_committed_of_goes_and_keeps_nothing() {
    let in_vain = |n: u8, method: &str| {
        with(n, |row| {
            (row.bare, row.version.status) = (true, Status::Incomplete);
            row.version.method = method.to_owned();
        })
    };
    let without_rules = KeepRules::default();
    let decided = |rows: &[PruneRow]| asked(&without_rules).decide(rows);
    let rows = [in_vain(3, "incr"), row(2)];
    assert_eq!(letters(&decided(&rows)), "rk");
    assert_eq!(decided(&rows)[0].why, ["nothing of it was committed"]);
    let rows = [in_vain(3, "full"), row(2)];
    assert_eq!(letters(&decided(&rows)), "kk", "a full is begun again");
    assert_eq!(letters(&decided(&[row(4), in_vain(3, "full"), row(2)])), "krk");
    let mut permanent = in_vain(3, "incr");
    permanent.keeping.protection = Protection::Permanent;
    assert_eq!(letters(&decided(&[permanent, row(2)])), "rk");
    let read = PruneRow { in_use: true, ..in_vain(3, "incr") };
    assert_eq!(letters(&decided(&[read, row(2)])), "kk");
}
