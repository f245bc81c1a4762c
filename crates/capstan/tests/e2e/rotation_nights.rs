//! Rotation sets whose nights take several tapes: which ones the operator fetches, and what a night does that lacks one.

use std::fs;

use jiff::civil::Date;
use serde_json::Value;

use crate::rotation::Nights;
use crate::rotation_faults::{day, of_set};

/// A library with a vault, so many tapes, a set of daily ones, and a specification of these objects.
fn vaulted(tapes: u32, daily: u32, capacity: &str, objects: &[&str]) -> Nights {
    let nights = Nights::new();
    let run = |line: &str| nights.run(day(0), 12, line).ok().stdout.clone();
    run(&format!(
        "vtl create lib --drives 1 --slots 20 --mail-slots 4 --tapes {tapes} --capacity {capacity} --scale 100000"
    ));
    run(&format!(
        "pool create office --rotation daily={daily},weekly=4 --not-appendable --scratch --library vtape:lib --vault bank"
    ));
    let mut spec = "device = \"pool:office\"\n".to_owned();
    for object in objects {
        let path = nights.lab.path(object).display().to_string();
        spec.push_str(&format!(
            "[[object]]\nname = \"{object}\"\nfull = true\npaths = [\"{path}\"]\n"
        ));
        nights.lab.file(&format!("{object}/data"), "1");
    }
    nights.lab.file("s.toml", spec);
    nights
}

/// A morning by `media vault`, of which so many tapes are brought. Those that are to be fetched.
fn morning(nights: &Nights, today: Date, brought: usize) -> Vec<String> {
    let listed = |list: &str| {
        let run = nights.run(today, 8, "media vault --json");
        let listed: Value = serde_json::from_str(&run.ok().stdout).unwrap();
        let of = |tape: &Value| tape["barcode"].as_str().unwrap().to_owned();
        listed[list].as_array().unwrap().iter().map(of).collect::<Vec<_>>()
    };
    for tape in listed("to_vault") {
        nights.run(today, 8, &format!("library export vtape:lib {tape}")).ok();
        nights.run(today, 8, &format!("vtl take lib {tape}")).ok();
    }
    let to_fetch = listed("to_fetch");
    for tape in to_fetch.iter().take(brought) {
        nights.run(today, 8, &format!("vtl insert lib {tape}")).ok();
    }
    if !to_fetch.is_empty() && brought > 0 {
        nights.run(today, 8, "library import vtape:lib").ok();
    }
    to_fetch
}

#[test]
fn the_operator_fetches_as_many_tapes_as_the_nights_of_the_set_take() {
    let nights = vaulted(14, 6, "200M", &["a", "b"]);
    for n in 0..9 {
        let ran = nights.run(day(n), 22, "run s.toml");
        assert_eq!(ran.code, 0, "{}: {}", day(n), ran.stderr);
        let to_fetch = morning(&nights, day(n + 1), 2);
        // The third night makes the set complete. No daily one is written on the seventh.
        let fetched = if (2..6).contains(&n) || n > 6 { 2 } else { 0 };
        assert_eq!(to_fetch.len(), fetched, "{}: {to_fetch:?}", day(n));
        let status = nights.run(day(n + 1), 9, "status");
        assert!(!status.stdout.contains("the next run"), "{}: {}", day(n), status.stdout);
    }
    // Who brings one of them is told.
    nights.run(day(9), 22, "run s.toml").ok();
    assert_eq!(morning(&nights, day(10), 1).len(), 2);
    let status = nights.run(day(10), 9, "status");
    let words = "finds 1 of the 2 media that a night of its daily set took lately";
    assert!(status.code == 5 && status.stdout.contains(words), "{}", status.stdout);
    let then = "takes a free one beyond the number of its set";
    assert!(status.stdout.contains(then), "{}", status.stdout);
}

#[test]
fn a_set_that_lacks_one_tape_for_a_whole_night_fetches_the_oldest_beside_a_blank_one() {
    let nights = vaulted(14, 5, "200M", &["a", "b"]);
    for n in 0..6 {
        let ran = nights.run(day(n), 22, "run s.toml");
        assert_eq!(ran.code, 0, "{}: {}", day(n), ran.stderr);
        let to_fetch = morning(&nights, day(n + 1), 2);
        let fetched = [0, 1, 2, 2, 2, 2][usize::try_from(n).unwrap()];
        assert_eq!(to_fetch.len(), fetched, "{}: {to_fetch:?}", day(n));
    }
}

#[test]
fn a_night_that_lacks_its_second_tape_gives_up_nothing() {
    let nights = vaulted(6, 6, "30M", &["a"]);
    fill_more_than_a_tape(&nights);
    for n in 0..4 {
        let ran = nights.run(day(n), 22, "run s.toml");
        assert_eq!(ran.code, 0, "{}: {}", day(n), ran.stderr);
        let to_fetch = morning(&nights, day(n + 1), if n < 3 { 2 } else { 1 });
        assert_eq!(to_fetch.len(), if n < 2 { 0 } else { 2 }, "{}: {to_fetch:?}", day(n));
    }
    let versions = |n: i64| nights.run(day(n), 23, "versions a").ok().stdout.clone();
    let before = versions(4);
    let refused = nights.run(day(4), 22, "run s.toml");
    assert_ne!(refused.code, 0, "{}", refused.stdout);
    assert!(refused.stderr.contains("took 2 media each"), "{}", refused.stderr);
    assert_eq!(versions(4), before);
    // With both it is made.
    morning(&nights, day(5), 2);
    let ran = nights.run(day(5), 22, "run s.toml");
    assert_eq!(ran.code, 0, "{}", ran.stderr);
}

/// The object fills a tape and goes on with the next one.
fn fill_more_than_a_tape(nights: &Nights) {
    let mut bytes = vec![0u8; 25_000_000];
    let mut x = 1u64;
    for part in bytes.chunks_mut(8) {
        x = x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        part.copy_from_slice(&(x ^ (x >> 29)).to_le_bytes()[..part.len()]);
    }
    fs::write(nights.lab.path("a/data"), bytes).unwrap();
}

#[test]
fn a_night_that_takes_a_tape_more_than_before_takes_a_blank_one_beyond_its_set() {
    let nights = vaulted(14, 3, "30M", &["a"]);
    let ran = |n: i64| nights.run(day(n), 22, "run s.toml");
    for n in 0..3 {
        ran(n).ok();
        morning(&nights, day(n + 1), 1);
    }
    fill_more_than_a_tape(&nights);
    let grows = ran(3);
    assert_eq!(grows.code, 0, "{}", grows.stderr);
    let said = grows.stderr.contains("set-outgrown")
        && grows.stderr.contains("which is to have 3 media and has 4 now")
        && grows.stderr.contains("capstan pool set office --rotation daily=4,weekly=4");
    assert!(said, "{}", grows.stderr);
    // From then on the lists say what two tapes a night need, and no version is lost before there is a new one.
    for n in 4..12 {
        morning(&nights, day(n), 2);
        let ran = ran(n);
        assert_eq!(ran.code, 0, "{}: {}", day(n), ran.stderr);
    }
    let of_set = of_set(&nights, day(12), "daily");
    assert!(of_set.len() <= 5, "{of_set:?}");
}

#[test]
fn what_goes_on_after_midnight_is_of_the_night_in_which_its_run_began() {
    let nights = vaulted(14, 5, "200M", &["a", "b"]);
    // Sunday's, whose backups are written on Monday.
    let spec = fs::read_to_string(nights.lab.path("s.toml")).unwrap();
    nights.lab.file("s.toml", format!("{spec}[commands]\npre = [\"sleep 4\"]\n"));
    let sunday = day(-1);
    nights.run_past_midnight(sunday, "run s.toml").ok();
    assert_eq!(of_set(&nights, day(0), "weekly").len(), 2);
    assert_eq!(of_set(&nights, day(0), "daily").len(), 0);
    // Monday's goes on after midnight, too: in the morning its tapes are for the vault, and Tuesday begins others.
    nights.run_past_midnight(day(0), "run s.toml").ok();
    let of_monday = of_set(&nights, day(1), "daily");
    assert_eq!(of_monday.len(), 2);
    let listed = nights.run(day(1), 8, "media vault --json").ok().stdout.clone();
    for tape in &of_monday {
        assert!(
            listed.split("to_fetch").next().unwrap().contains(tape.as_str()),
            "{tape}: {listed}"
        );
    }
    nights.run(day(1), 22, "run s.toml").ok();
    assert_eq!(of_set(&nights, day(1), "daily").len(), 4);
}

#[test]
fn a_tape_that_takes_more_is_of_the_night_in_which_its_run_began() {
    let nights = vaulted(14, 5, "200M", &["a", "b"]);
    nights.run(day(0), 12, "pool set office --appendable").ok();
    let spec = fs::read_to_string(nights.lab.path("s.toml")).unwrap();
    nights.lab.file("s.toml", format!("{spec}[commands]\npre = [\"sleep 4\"]\n"));
    nights.run_past_midnight(day(0), "run s.toml").ok();
    assert_eq!(of_set(&nights, day(1), "daily").len(), 1, "both objects are on it");
    nights.run(day(1), 22, "run s.toml").ok();
    assert_eq!(of_set(&nights, day(1), "daily").len(), 2);
}

#[test]
fn a_night_that_waits_for_a_tape_names_the_one_whose_turn_it_is() {
    let nights = vaulted(6, 3, "200M", &["a"]);
    for n in 0..5 {
        nights.run(day(n), 22, "run s.toml").ok();
        morning(&nights, day(n + 1), 1);
    }
    // What was fetched is forgotten in the car.
    let listed = nights.run(day(5), 9, "library inventory vtape:lib --json").ok().stdout.clone();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    for tape in listed["tapes"].as_array().unwrap() {
        let barcode = tape["barcode"].as_str().unwrap();
        nights.run(day(5), 9, &format!("library export vtape:lib {barcode}")).ok();
        nights.run(day(5), 9, &format!("vtl take lib {barcode}")).ok();
    }
    let listed = nights.run(day(5), 10, "media vault --json").ok().stdout.clone();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    let to_fetch = listed["to_fetch"].as_array().unwrap();
    assert_eq!(to_fetch.len(), 1, "{to_fetch:?}");
    let waited = nights.run_waiting(day(5), 22, "run s.toml");
    let wish = waited.stderr.lines().find(|line| line.contains("tape-wanted")).unwrap();
    for tape in of_set(&nights, day(5), "daily") {
        let is_next = to_fetch[0]["barcode"] == tape.as_str();
        assert_eq!(wish.contains(&tape), is_next, "{tape}: {wish}");
    }
}
