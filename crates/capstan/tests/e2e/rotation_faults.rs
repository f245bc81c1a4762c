//! Rotation sets where something is not as it should be: tapes that are written no more, copies elsewhere, and what does not go to a set.

use std::fs;

use capstan_tape::vtl::library::Library;
use jiff::ToSpan;
use jiff::civil::{Date, date};
use serde_json::Value;

use crate::rotation::Nights;

/// A Monday.
const FIRST: Date = date(2030, 1, 7);

pub(crate) fn day(n: i64) -> Date {
    FIRST.checked_add(n.days()).unwrap()
}

/// A library with so many blank tapes, and a pool that takes them.
pub(crate) fn office(tapes: u32, sets: &str, full: bool) -> Nights {
    let nights = Nights::new();
    let run = |line: &str| nights.run(FIRST, 12, line).ok().stdout.clone();
    run(&format!(
        "vtl create lib --drives 2 --slots 20 --mail-slots 2 --tapes {tapes} --capacity 200M --scale 100000"
    ));
    run(&format!(
        "pool create office --rotation {sets} --not-appendable --scratch --library vtape:lib"
    ));
    let data = nights.lab.path("data").display().to_string();
    let spec = format!(
        "device = \"pool:office\"\n[[object]]\nname = \"office\"\nfull = {full}\npaths = [\"{data}\"]\n"
    );
    nights.lab.file("office.toml", spec);
    nights
}

pub(crate) fn media(nights: &Nights, today: Date) -> Vec<Value> {
    let listed = nights.run(today, 23, "media list --json").ok().stdout.clone();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    listed["media"].as_array().unwrap().clone()
}

pub(crate) fn of_set(nights: &Nights, today: Date, set: &str) -> Vec<String> {
    let media = media(nights, today).into_iter().filter(|m| m["rotation_set"] == set);
    media.map(|m| m["label"].as_str().unwrap().to_owned()).collect()
}

/// All versions come back that are there.
fn all_come_back(nights: &Nights, today: Date) -> Vec<Date> {
    let versions = nights.versions(today);
    versions.iter().for_each(|(of, name)| nights.comes_back(today, *of, name));
    versions.into_keys().collect()
}

#[test]
fn nothing_is_copied_to_a_set_where_it_would_go_before_its_time() {
    let mut nights = office(6, "daily=3,weekly=2", false);
    nights.run(FIRST, 12, "pool create other --scratch --library vtape:lib").ok();
    nights.night(FIRST);
    nights.run(FIRST, 22, "backup data --to disk --name office").ok();
    nights.lab.file("data/numbers", "1");
    nights.run(FIRST, 23, "backup data --to disk --name office").ok();
    let why = "has rotation sets, which keep nightly backups";
    let of_tape = "is of the daily set of pool 'office'";
    let refused = |line: &str, why: &str| {
        nights.run(day(1), 12, line).refused(&[why, "would go before its time"]);
    };
    refused("stage disk --to pool:office", why);
    refused("stage disk --to vtape:lib?tape=V00001L9", of_tape);
    refused("copy office --to vtape:lib?tape=V00001L9", of_tape);
    refused("consolidate office --to pool:office", why);
    let spec = fs::read_to_string(nights.lab.path("office.toml")).unwrap();
    let disk = nights.lab.path("disk").display().to_string();
    let stage = |to: &str| {
        let stage = format!("[stage]\nfrom = \"{disk}\"\nto = \"{to}\"\nolder-than = \"1h\"\n");
        nights.lab.file("staged.toml", format!("{spec}{stage}"));
    };
    stage("pool:office");
    refused("run --check staged.toml", "[stage]: pool 'office' has rotation sets");
    // The backup is made all the same.
    let ran = nights.run(day(1), 22, "run staged.toml");
    assert_eq!(ran.code, 3, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stderr.contains("nothing was staged: pool 'office' has"), "{}", ran.stderr);
    assert!(ran.stdout.contains("V00002L9"), "{}", ran.stdout);
    stage("pool:other");
    nights.run(day(2), 12, "run --check staged.toml").ok();
    nights.run(day(2), 12, "stage disk --to pool:other").ok();
}

#[test]
fn what_a_retired_tape_of_a_set_has_goes_to_the_same_set_and_stays_as_long() {
    let mut nights = office(12, "daily=4,weekly=3", false);
    for n in 0..8 {
        nights.night(day(n));
    }
    let [weekly] = &of_set(&nights, day(7), "weekly")[..] else { panic!("one Sunday") };
    nights.run(day(7), 23, &format!("media retire {weekly}")).ok();
    let now = of_set(&nights, day(7), "weekly");
    let [heir] = &now.iter().filter(|label| *label != weekly).collect::<Vec<_>>()[..] else {
        panic!("what must stay is not on a tape of the weekly set: {now:?}");
    };
    // A blank one in its place, and it is not more than the set has.
    nights.night(day(8));
    nights.run(day(8), 23, &format!("media forget {weekly}")).ok();
    let mut bases = Vec::new();
    for n in 9..20 {
        let night = nights.night(day(n));
        bases.push(night["method"].as_str().unwrap().to_owned());
        let status = nights.run(day(n), 23, "status");
        assert_eq!(status.code, 0, "{}: {}", day(n), status.stdout);
    }
    assert!(bases.contains(&"incr".to_owned()), "{bases:?}");
    let back = all_come_back(&nights, day(19));
    assert!(back.contains(&day(6)), "the first Sunday is kept by {heir}: {back:?}");
    assert_eq!(of_set(&nights, day(19), "weekly").len(), 2, "its own and that of the 20th");
}

#[test]
fn a_tape_that_takes_no_turns_leaves_its_seat_to_a_blank_one() {
    let mut nights = office(8, "daily=3", true);
    for n in 0..4 {
        nights.night(day(n));
    }
    assert_eq!(nights.media[&day(3)], ["V00001L9"]);
    // Its data are changed.
    let tape = nights.lab.path("lib/tapes/V00002L9.tape");
    let mut bytes = fs::read(&tape).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 3000].fill(b'x');
    fs::write(&tape, bytes).unwrap();
    assert_ne!(nights.run(day(3), 23, "verify --medium V00002L9").code, 0);
    nights.night(day(4));
    assert_eq!(nights.media[&day(4)], ["V00004L9"], "a blank one, not the oldest");
    nights.run(day(4), 23, "media retire V00003L9").ok();
    for n in 5..9 {
        nights.night(day(n));
        let back = nights.versions(day(n));
        for kept in [n, n - 1, n - 2] {
            assert!(back.contains_key(&day(kept)), "{}: {back:?}", day(n));
        }
    }
    let status = nights.run(day(8), 23, "status");
    assert!(!status.stdout.contains("media left"), "{}", status.stdout);
    // No blank one is left for the last.
    let retired = &nights.media[&day(8)][0].clone();
    nights.run(day(8), 23, &format!("media retire {retired} --no-copy")).ok();
    for n in 1..=8 {
        let tape = format!("V0000{n}L9");
        if media(&nights, day(8)).iter().all(|m| m["barcode"] != *tape) {
            nights.run(day(8), 23, &format!("vtl take lib {tape}")).ok();
        }
    }
    let words = "the daily set of pool 'office' has 2 of 3 media left";
    let status = nights.run(day(8), 23, "status");
    assert!(status.code == 5 && status.stdout.contains(words), "{}", status.stdout);
    let shown = nights.run(day(8), 23, "pool show office").ok().stdout.clone();
    assert!(shown.contains(words), "{shown}");
    // The others go on in turn.
    for n in 9..12 {
        nights.night(day(n));
    }
}

#[test]
fn a_night_whose_tape_fails_goes_on_with_a_blank_one_of_its_set() {
    let mut nights = office(8, "daily=3", true);
    for n in 0..3 {
        nights.night(day(n));
    }
    let library = Library::open(&nights.lab.path("lib")).unwrap();
    for n in 3..6 {
        for drive in [1, 2] {
            library.plan_faults(Some(drive), "write:2=error").unwrap();
        }
        let media = nights.night(day(n))["media"].as_array().unwrap().len();
        for drive in [1, 2] {
            library.plan_faults(Some(drive), "").unwrap();
        }
        assert!(media > 1, "{}: no tape failed", day(n));
        // The two nights before are there, whatever came of the tape that failed.
        let back = nights.versions(day(n));
        assert!((n - 2..=n).all(|kept| back.contains_key(&day(kept))), "{}: {back:?}", day(n));
    }
    // The set has its number of others.
    for n in 6..10 {
        nights.night(day(n));
    }
    let back = all_come_back(&nights, day(9));
    assert!((7..10).all(|kept| back.contains(&day(kept))), "{back:?}");
}

#[test]
fn a_copy_in_another_house_is_nothing_to_the_sets() {
    let mut nights = office(14, "daily=4,weekly=3", false);
    let far = "vtl create far --drives 1 --slots 4 --mail-slots 2 --tapes 2 --capacity 200M --scale 100000";
    nights.run(FIRST, 12, far).ok();
    for n in 0..10 {
        nights.night(day(n));
    }
    nights.run(day(9), 23, "copy office --to vtape:far").ok();
    nights.run(day(9), 23, "library export vtape:far V00001L9 --location house").ok();
    nights.run(day(9), 23, "vtl take far V00001L9").ok();
    for n in 10..32 {
        nights.night(day(n));
    }
    // It burns.
    let media = media(&nights, day(31));
    let far = media.iter().find(|m| m["device"].as_str().unwrap().contains("far")).unwrap();
    let forgotten =
        nights.run(day(31), 23, &format!("media forget {}", far["label"].as_str().unwrap()));
    assert_eq!(forgotten.code, 0, "{}{}", forgotten.stdout, forgotten.stderr);
    fs::remove_dir_all(nights.lab.path("far")).unwrap();
    let back = all_come_back(&nights, day(31));
    for n in [20, 27, 28, 29, 30, 31] {
        assert!(back.contains(&day(n)), "{}: {back:?}", day(n));
    }
}

#[test]
fn old_tapes_of_a_home_that_was_lost_come_back_into_their_sets() {
    let mut nights = office(4, "daily=2", true);
    nights.night(day(0));
    nights.night(day(1));
    nights.run(day(1), 23, "media move V00001L9 --pool office").ok();
    nights
        .run(day(1), 23, "media move V00001L9 --pool office --set weekly")
        .refused(&["no weekly"]);
    assert_eq!(of_set(&nights, day(1), "daily"), ["V00002L9"]);
    nights.run(day(1), 23, "media move V00001L9 --pool office --set daily").ok();
    nights.night(day(2));
    assert_eq!(nights.media[&day(2)], ["V00001L9"]);
}

/// Sets the tab of a tape, or sets it back.
fn set_tab(nights: &Nights, tape: &str, is_set: bool) {
    let label = nights.lab.path(format!("lib/tapes/{tape}.json"));
    let text = fs::read_to_string(&label).unwrap();
    let words = |is_set: bool| format!("\"write_protected\": {is_set}");
    let set = text.replace(&words(!is_set), &words(is_set));
    assert_ne!(text, set, "{tape}");
    fs::write(&label, set).unwrap();
}

/// How often a tape was loaded.
fn loads(nights: &Nights, tape: &str) -> u64 {
    let text = fs::read_to_string(nights.lab.path(format!("lib/tapes/{tape}.json"))).unwrap();
    let label: Value = serde_json::from_str(&text).unwrap();
    label["loads"].as_u64().unwrap()
}

/// Whether a night says that a tape is write-protected.
fn says_protected(night: &Value, tape: &str) -> bool {
    let errors = night["errors"].as_array().unwrap();
    errors.iter().any(|e| e["code"] == "write-protected" && e.to_string().contains(tape))
}

#[test]
fn a_night_whose_tape_is_write_protected_goes_on_with_a_blank_one_and_status_names_it() {
    let mut nights = office(8, "daily=3", true);
    for n in 0..3 {
        nights.night(day(n));
    }
    for drive in [1, 2] {
        nights.run(day(2), 23, &format!("library unload vtape:lib {drive}"));
    }
    set_tab(&nights, "V00001L9", true);
    let night = nights.night(day(3));
    assert_eq!(nights.media[&day(3)], ["V00004L9"], "a blank one, not the next oldest");
    assert!(says_protected(&night, "V00001L9"), "{night:#}");
    let names_it = |nights: &Nights, n: i64| {
        let status = nights.run(day(n), 23, "status");
        assert_eq!(status.code, 5, "{}", status.stdout);
        let line = status.stdout.lines().find(|line| line.contains("is write-protected:"));
        assert!(line.is_some_and(|line| line.contains("V00001L9")), "{}", status.stdout);
    };
    names_it(&nights, 3);
    // It is not loaded again, and the others take turns.
    let before = loads(&nights, "V00001L9");
    for n in 4..8 {
        let night = nights.night(day(n));
        assert!(!says_protected(&night, "V00001L9"), "{night:#}");
        let back = nights.versions(day(n));
        assert!((n - 2..=n).all(|kept| back.contains_key(&day(kept))), "{}: {back:?}", day(n));
    }
    assert_eq!(loads(&nights, "V00001L9"), before);
    names_it(&nights, 7);
    // Who takes it out and brings it back as it was is told again.
    let to_and_fro = |nights: &Nights, n: i64, is_set: bool| {
        nights.run(day(n), 23, "library export vtape:lib V00001L9").ok();
        nights.run(day(n), 23, "vtl take lib V00001L9").ok();
        if !is_set {
            set_tab(nights, "V00001L9", false);
        }
        nights.run(day(n), 23, "vtl insert lib V00001L9").ok();
        nights.run(day(n), 23, "library import vtape:lib").ok();
        names_it(nights, n);
    };
    to_and_fro(&nights, 7, true);
    let night = nights.night(day(8));
    assert!(says_protected(&night, "V00001L9"), "{night:#}");
    // With its tab back it is written in its turn.
    to_and_fro(&nights, 8, false);
    nights.night(day(9));
    assert_eq!(nights.media[&day(9)], ["V00001L9"]);
    let status = nights.run(day(9), 23, "status");
    assert!(!status.stdout.contains("write-protected"), "{}", status.stdout);
    nights.night(day(10));
    all_come_back(&nights, day(10));
}

/// The same of a tape that takes more, in a library and in a pool without sets: the backup goes to the next one.
#[test]
fn a_tape_that_takes_more_and_is_write_protected_is_passed_over_and_named() {
    for to in ["pool:p", "vtape:lib"] {
        let nights = office(4, "daily=2", true);
        nights.run(FIRST, 12, "pool create p --scratch --library vtape:lib").ok();
        nights.lab.file("data/a", "1");
        let backup = |n: i64| {
            let run = nights.run(day(n), 22, &format!("backup data --to {to} --name t --json"));
            assert_eq!(run.code, 0, "{to}: {}{}", run.stdout, run.stderr);
            serde_json::from_str::<Value>(&run.stdout).unwrap()
        };
        let first = backup(0)["media"][0].as_str().unwrap().to_owned();
        nights.run(FIRST, 23, "library unload vtape:lib 1").ok();
        set_tab(&nights, &first, true);
        let second = backup(1);
        assert_ne!(second["media"][0], *first, "{to}");
        assert!(says_protected(&second, &first), "{to}: {second:#}");
        let status = nights.run(day(1), 23, "status --json");
        let status: Value = serde_json::from_str(&status.stdout).unwrap();
        assert_eq!(status["write_protected"][0]["label"], *first, "{to}");
        let before = loads(&nights, &first);
        let third = backup(2);
        assert!(third["media"] == second["media"] && !says_protected(&third, &first), "{third:#}");
        assert_eq!(loads(&nights, &first), before, "{to}");
        // A restore reads it, and a drive that says that it can be written ends it.
        set_tab(&nights, &first, false);
        nights.run(day(2), 23, "restore t --into out").ok();
        let status = nights.run(day(2), 23, "status");
        assert!(!status.stdout.contains("write-protected"), "{to}: {}", status.stdout);
    }
}

/// A set that had all its tapes goes on with those that are left where one is forgotten, as it does beside one that takes no turns.
#[test]
fn the_others_take_turns_after_a_tape_of_their_set_is_forgotten() {
    let mut nights = office(3, "daily=3", true);
    for n in 0..3 {
        nights.night(day(n));
    }
    nights.run(day(2), 23, "media retire V00002L9 --no-copy").ok();
    nights.night(day(3));
    assert_eq!(nights.media[&day(3)], ["V00001L9"]);
    nights.run(day(3), 23, "library export vtape:lib V00002L9 --location bin").ok();
    nights.run(day(3), 23, "vtl take lib V00002L9").ok();
    nights.run(day(3), 23, "media forget V00002L9").ok();
    for n in 4..7 {
        nights.night(day(n));
        let words = "the daily set of pool 'office' has 2 of 3 media left";
        let status = nights.run(day(n), 23, "status");
        assert!(status.code == 5 && status.stdout.contains(words), "{}", status.stdout);
    }
    assert_ne!(nights.media[&day(5)], nights.media[&day(6)]);
    // A new one takes the seat.
    nights.run(day(6), 23, "vtl add-tape lib --barcode V00009L9").ok();
    nights.run(day(6), 23, "library import vtape:lib").ok();
    nights.night(day(7));
    assert_eq!(nights.media[&day(7)], ["V00009L9"]);
    let status = nights.run(day(7), 23, "status");
    assert!(!status.stdout.contains("media left"), "{}", status.stdout);
    nights.night(day(8));
    let back = all_come_back(&nights, day(8));
    assert!((6..9).all(|n| back.contains(&day(n))), "{back:?}");
}

/// A set that never had all its tapes takes none of those that it has before its time.
#[test]
fn a_set_that_lacks_tapes_from_the_first_asks_for_them() {
    let mut nights = office(2, "daily=3", true);
    nights.night(day(0));
    nights.night(day(1));
    let refused = nights.run(day(2), 22, "run office.toml");
    assert!(refused.code != 0 && refused.stderr.contains("no usable medium"), "{}", refused.stderr);
}
