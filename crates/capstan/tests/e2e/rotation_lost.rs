//! Rotation sets some of whose tapes cannot be relied on any more: replaced by others, damaged, retired.

use std::fs;

use serde_json::Value;

use crate::rotation::Nights;
use crate::rotation_faults::{day, media, office};

/// The state of a tape.
fn state(nights: &Nights, n: i64, tape: &str) -> String {
    let media = media(nights, day(n));
    let of = media.iter().find(|m| m["label"] == tape).expect(tape);
    of["state"].as_str().unwrap().to_owned()
}

/// Puts another tape with the same barcode into the place of one: a blank one, or one that another cell wrote. Returns what it held.
fn replace(nights: &Nights, n: i64, tape: &str, is_foreign: bool) -> [Vec<u8>; 2] {
    for drive in [1, 2] {
        nights.run(day(n), 23, &format!("library unload vtape:lib {drive}"));
    }
    nights.run(day(n), 23, "vtl create other --drives 1 --slots 4 --tapes 3 --capacity 200M").ok();
    if is_foreign {
        let line = format!("--home other-home backup data --to vtape:other?tape={tape}");
        nights.run(day(n), 23, &line).ok();
    }
    ["tape", "json"].map(|part| {
        let path = nights.lab.path(format!("lib/tapes/{tape}.{part}"));
        let held = fs::read(&path).unwrap_or_default();
        match fs::read(nights.lab.path(format!("other/tapes/{tape}.{part}"))) {
            Ok(bytes) => fs::write(path, bytes).unwrap(),
            Err(_) => fs::remove_file(path).unwrap(),
        }
        held
    })
}

#[test]
fn a_tape_of_a_set_that_is_another_one_leaves_its_seat_and_the_others_take_turns() {
    for is_foreign in [false, true] {
        let mut nights = office(3, "daily=3", true);
        for n in 0..4 {
            nights.night(day(n));
        }
        assert_eq!(nights.media[&day(3)], ["V00001L9"]);
        let held = replace(&nights, 3, "V00002L9", is_foreign);
        for n in 4..8 {
            nights.night(day(n));
            assert_ne!(nights.media[&day(n)], ["V00002L9"], "foreign: {is_foreign}, {}", day(n));
            let versions = nights.versions(day(n));
            nights.comes_back(day(n), day(n), &versions[&day(n)]);
            nights.comes_back(day(n), day(n - 1), &versions[&day(n - 1)]);
        }
        assert_eq!(state(&nights, 7, "V00002L9"), "changed");
        let status = nights.run(day(7), 23, "status");
        for words in ["is not as it was last written", "has 2 of 3 media left"] {
            assert!(status.stdout.contains(words), "{}", status.stdout);
        }
        // A blank one takes the seat.
        nights.run(day(7), 23, "vtl add-tape lib --barcode V00009L9").ok();
        nights.run(day(7), 23, "library import vtape:lib");
        nights.night(day(8));
        assert_eq!(nights.media[&day(8)], ["V00009L9"], "foreign: {is_foreign}");
        // It is itself again.
        for drive in [1, 2] {
            nights.run(day(8), 23, &format!("library unload vtape:lib {drive}"));
        }
        for (bytes, part) in held.iter().zip(["tape", "json"]) {
            fs::write(nights.lab.path(format!("lib/tapes/V00002L9.{part}")), bytes).unwrap();
        }
        nights.run(day(8), 23, "import vtape:lib?tape=V00002L9").ok();
        for n in 9..13 {
            nights.night(day(n));
        }
        let taken = (9..13).any(|n| nights.media[&day(n)] == ["V00002L9"]);
        assert!(taken, "{:?}", nights.media);
    }
}

/// The newest backup is not where it was, so the one before it is not given up for the next night.
#[test]
fn the_last_backup_that_is_at_hand_is_not_written_over() {
    let mut nights = office(3, "daily=2", true);
    nights.night(day(0));
    nights.night(day(1));
    replace(&nights, 1, "V00002L9", false);
    assert_ne!(nights.run(day(1), 23, "verify --medium V00002L9").code, 0);
    nights.run(day(1), 23, "vtl add-tape lib --barcode V00009L9").ok();
    // A blank one is there for the seat.
    nights.night(day(2));
    assert_ne!(nights.media[&day(2)], ["V00001L9"]);
    let mut nights = office(2, "daily=2", true);
    nights.night(day(0));
    nights.night(day(1));
    replace(&nights, 1, "V00002L9", false);
    assert_ne!(nights.run(day(1), 23, "verify --medium V00002L9").code, 0);
    let refused = nights.run(day(2), 22, "run office.toml");
    assert!(refused.code != 0 && refused.stderr.contains("V00001L9 holds what must stay"));
    let versions = nights.versions(day(2));
    nights.comes_back(day(0), day(0), &versions[&day(0)]);
}

#[test]
fn what_is_on_a_tape_that_is_written_no_more_holds_its_full_back_until_its_turn() {
    for is_damaged in [true, false] {
        let mut nights = office(12, "daily=4,weekly=2", false);
        for n in 0..9 {
            nights.night(day(n));
        }
        // It builds on the full of the first Sunday.
        let [tape] = &nights.media[&day(7)][..] else { panic!("{:?}", nights.media) };
        let tape = tape.clone();
        match is_damaged {
            true => {
                let path = nights.lab.path(format!("lib/tapes/{tape}.tape"));
                let mut bytes = fs::read(&path).unwrap();
                let middle = bytes.len() / 2;
                bytes[middle..middle + 3000].fill(b'x');
                fs::write(&path, bytes).unwrap();
                assert_ne!(nights.run(day(8), 23, &format!("verify --medium {tape}")).code, 0);
            }
            false => drop(nights.run(day(8), 23, &format!("media retire {tape} --no-copy")).ok()),
        }
        let kept = |nights: &Nights, n: i64| {
            let media = media(nights, day(n));
            let of = media.iter().find(|m| m["label"] == *tape).unwrap();
            of["kept_by_set"] == true
        };
        assert!(kept(&nights, 8));
        // Two rounds of the weekly set, in which each Sunday finds its tape.
        for n in 9..28 {
            nights.night(day(n));
        }
        assert!(!kept(&nights, 27));
        let weekly: Vec<_> = [6, 13, 20, 27].map(|n| nights.media[&day(n)].clone()).into();
        assert_eq!((&weekly[0], &weekly[1]), (&weekly[2], &weekly[3]), "{:?}", nights.media);
        let back = all_come_back_but(&nights, 27, &tape);
        assert!([20, 25, 26, 27].iter().all(|n| back.contains(n)), "{back:?}");
    }
}

/// The days of which versions come back, without those on a tape.
fn all_come_back_but(nights: &Nights, today: i64, tape: &str) -> Vec<i64> {
    let versions = nights.versions(day(today));
    let days = (0..=today).filter(|n| nights.media[&day(*n)] != [tape]);
    let days: Vec<i64> = days.filter(|n| versions.contains_key(&day(*n))).collect();
    for n in &days {
        nights.comes_back(day(today), day(*n), &versions[&day(*n)]);
    }
    days
}

#[test]
fn a_tape_that_is_moved_to_a_slower_set_is_said_to_keep_what_it_holds_for_longer() {
    let mut nights = office(6, "daily=3,weekly=2", true);
    nights.night(day(0));
    let moved = nights.run(day(0), 23, "media move V00001L9 --pool office --set weekly");
    let words = "what medium 'V00001L9' holds is kept until its turn in the weekly set now";
    assert!(moved.code == 0 && moved.stderr.contains(words), "{}", moved.stderr);
    let back = nights.run(day(0), 23, "media move V00001L9 --pool office --set daily");
    assert!(back.code == 0 && !back.stderr.contains("is kept"), "{}", back.stderr);
}

/// A clock that was behind, or ahead, in one night or for several: tapes are written in the order in which they were written before.
#[test]
fn a_clock_that_is_wrong_changes_no_turn() {
    for (from, to, days) in [(4, 5, -400), (4, 8, -400), (4, 5, 30)] {
        let nights = office(3, "daily=3", true);
        let mut written = Vec::new();
        for n in 0..12 {
            nights.lab.file("data/numbers", n.to_string());
            let wrong = if (from..to).contains(&n) { days } else { 0 };
            let run = nights.run(day(n + wrong), 22, "run office.toml --json");
            assert!(matches!(run.code, 0 | 3), "night {n}: {}{}", run.stdout, run.stderr);
            let report: Value = serde_json::from_str(&run.stdout).unwrap();
            let media = report["sessions"][0]["media"].as_array().unwrap();
            written.push(media[0].as_str().unwrap().to_owned());
        }
        for n in 3..12 {
            assert_eq!(written[n], written[n - 3], "by {days} days: {written:?}");
        }
    }
}
