//! A rotation set none of whose tapes can be written says what holds each of them, and what helps; what it says does.

use serde_json::Value;

use crate::rotation::Nights;
use crate::rotation_faults::{day, of_set, office};

/// The command between backquotes that begins so.
fn command_in(text: &str, begin: &str) -> String {
    let at = text.find(&format!("`capstan {begin}")).unwrap_or_else(|| panic!("{begin}: {text}"));
    text[at..].split('`').nth(1).unwrap().strip_prefix("capstan ").unwrap().to_owned()
}

/// All that is to leave the house leaves it.
fn to_the_vault(nights: &Nights, n: i64) {
    let listed = nights.run(day(n), 8, "media vault --json").ok().stdout.clone();
    let listed: Value = serde_json::from_str(&listed).unwrap();
    for tape in listed["to_vault"].as_array().unwrap() {
        let tape = tape["barcode"].as_str().unwrap();
        nights.run(day(n), 8, &format!("library export vtape:lib {tape}")).ok();
        nights.run(day(n), 8, &format!("vtl take lib {tape}")).ok();
    }
}

#[test]
fn a_set_whose_tapes_are_in_the_vault_says_which_one_to_fetch() {
    let mut nights = office(8, "daily=8,weekly=2", false);
    nights.run(day(0), 12, "pool set office --vault bank").ok();
    for n in [6, 13, 14] {
        nights.night(day(n));
        to_the_vault(&nights, n + 1);
    }
    let [first, second] = <[String; 2]>::try_from(of_set(&nights, day(14), "weekly")).unwrap();
    let refused = nights.run(day(20), 22, "run office.toml");
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    for words in [
        &format!("{first} is exported to bank and its turn has come"),
        &format!("{second} is exported to bank and holds what must stay: what office@"),
        "builds on (last complete version)",
        &format!("fetch {first} from bank, put it into a mail slot and take it in"),
    ] {
        assert!(refused.stderr.contains(words), "{words}: {}", refused.stderr);
    }
    nights.run(day(20), 22, &format!("vtl insert lib {first}")).ok();
    nights.run(day(20), 22, &command_in(&refused.stderr, "library import")).ok();
    assert_eq!(nights.night(day(20))["media"][0], first.as_str());
}

#[test]
fn a_set_whose_tapes_are_protected_says_by_what_and_what_lets_one_go() {
    let nights = Nights::new();
    let run = |n: i64, line: &str| nights.run(day(n), 12, line);
    run(0, "vtl create lib --drives 1 --slots 8 --tapes 4 --capacity 200M --scale 100000").ok();
    run(0, "pool create p --rotation daily=2 --not-appendable --scratch --library vtape:lib").ok();
    nights.lab.file("data/numbers", "1");
    for n in 0..2 {
        run(n, "backup data --to pool:p --full --name t --protect permanent").ok();
    }
    let refused = run(2, "backup data --to pool:p --full --name t");
    refused.refused(&["V00001L9 holds what must stay: t@", "(protected for ever)"]);
    let advice = command_in(&refused.stderr, "protect t@");
    let words = format!("`capstan {advice}` lets V00001L9 be written in its turn");
    assert!(refused.stderr.contains(&words), "{}", refused.stderr);
    run(2, &advice).ok();
    run(2, "backup data --to pool:p --full --name t").ok();
    let shown = run(2, "media show V00001L9").ok().stdout.clone();
    assert!(shown.contains("2030-01-09"), "{shown}");
}

#[test]
fn status_says_on_each_day_that_all_tapes_of_a_set_are_protected_beyond_its_next_night() {
    let mut nights = office(8, "daily=3,weekly=2", false);
    let words = "the next run to its weekly set, of 2030-02-03, finds no medium";
    for n in [6, 13, 14] {
        nights.night(day(n));
        let status = nights.run(day(n), 23, "status");
        assert_eq!(status.code, 0, "{}", status.stdout);
        if n < 14 {
            let name = &nights.versions(day(n))[&day(n)];
            nights.run(day(n), 23, &format!("protect {name} --until 2030-01-26")).ok();
        }
    }
    assert_eq!(nights.run(day(14), 23, "status").code, 0, "they are free by then");
    for n in [6, 13] {
        let name = &nights.versions(day(14))[&day(n)];
        nights.run(day(14), 23, &format!("protect {name} --permanent")).ok();
    }
    // The Sunday before fails, and the night after it does not.
    assert_eq!(nights.run(day(20), 22, "run office.toml").code, 1);
    nights.night(day(21));
    let status = nights.run(day(21), 23, "status");
    assert!(status.code == 5 && status.stdout.contains(words), "{}", status.stdout);
    let name = &nights.versions(day(21))[&day(6)];
    nights.run(day(21), 23, &format!("protect {name} --rules")).ok();
    assert_eq!(nights.run(day(21), 23, "status").code, 0);
    nights.night(day(27));
    assert_eq!(nights.media[&day(6)], nights.media[&day(27)]);
}
