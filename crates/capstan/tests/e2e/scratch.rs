//! Blank tapes: pools that take them by themselves, and media that are made of many at once.

use std::path::Path;

use capstan_medium::tape::{Place, TapeLibrary};
use capstan_tape::Changer;
use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Run, below, noise};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

fn json(lab: &Lab, line: &str) -> Value {
    serde_json::from_str(&run(lab, &format!("{line} --json")).ok().stdout).unwrap()
}

fn loads(dir: &Path, n: u32) -> u64 {
    let text = std::fs::read_to_string(dir.join(format!("tapes/V{n:05}L9.json"))).unwrap();
    let label: Value = serde_json::from_str(&text).unwrap();
    label["loads"].as_u64().unwrap()
}

fn written_by_others(dir: &Path, slot: u32) {
    let mut robot = Library::open(dir).unwrap();
    robot.move_tape(Place::Slot(slot), Place::Drive(1)).unwrap();
    robot.open_drive(1).unwrap().write_block(b"somebody else's").unwrap();
    robot.move_tape(Place::Drive(1), Place::Slot(slot)).unwrap();
}

/// The tape on which a medium is.
fn tape_of(lab: &Lab, label: &str) -> String {
    let shown = json(lab, &format!("media show {label}"));
    shown["device"].as_str().unwrap().split("tape=").nth(1).unwrap().to_owned()
}

fn backed_up(lab: &Lab, pool: &str, options: &str) -> Vec<String> {
    let done =
        lab.backed_up(format!("tree --to pool:{pool} --name t {options}").split_whitespace());
    done["media"].as_array().unwrap().iter().map(|m| m.as_str().unwrap().to_owned()).collect()
}

#[test]
fn pools_take_blank_tapes_that_are_theirs_from_then_on() {
    let lab = Lab::new();
    let dir = crate::tape::library(&lab, 1, 6);
    written_by_others(&dir, 1);
    for n in 0..6 {
        lab.file(&format!("tree/file-{n}"), noise(n, 10_000_000));
    }
    run(&lab, "pool create strict").ok();
    run(&lab, "backup tree --to pool:strict --name t").refused(&["no usable medium"]);
    run(&lab, "pool create lost --scratch").ok();
    run(&lab, "backup tree --to pool:lost --name t").refused(&["no library is known", "--library"]);
    run(&lab, "pool create daily --scratch --library vtape:vtl --label x").refused(&["rule"]);
    run(&lab, "pool create daily --scratch --library vtape:vtl --label {pool}-{n}").ok();
    let policy = run(&lab, "pool show daily").ok().stdout.clone();
    assert!(
        policy.contains("takes blank tapes of vtape:") && policy.contains("{pool}-{n}"),
        "{policy}"
    );
    // Nothing is loaded by a dry run. Then the session goes on on further ones by itself.
    let before = loads(&dir, 2);
    run(&lab, "backup tree --to pool:daily --name t --dry-run").ok();
    assert_eq!(loads(&dir, 2), before);
    assert_eq!(backed_up(&lab, "daily", ""), ["daily-1", "daily-2", "daily-3"]);
    assert_eq!([tape_of(&lab, "daily-1"), tape_of(&lab, "daily-3")], ["V00002L9", "V00004L9"]);
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    // Another pool takes the next one, of the libraries that are known; what is foreign was seen before.
    let seen = loads(&dir, 1);
    run(&lab, "pool create weekly --scratch").ok();
    lab.sh("rm tree/file-*; echo little >tree/file");
    assert_eq!(backed_up(&lab, "weekly", "--full"), ["V00005L9"]);
    assert_eq!(loads(&dir, 1), seen);
    assert_eq!(json(&lab, "media show V00005L9")["pool"], "weekly");
    // What is expired stays in its pool and is written anew before a blank one is taken.
    for medium in ["daily-1", "daily-2", "daily-3"] {
        run(&lab, &format!("media protect {medium} --none")).ok();
    }
    let next = backed_up(&lab, "daily", "--full");
    assert!(next.len() == 1 && next[0].starts_with("daily-"), "{next:?}");
    // Erased, it is anybody's again.
    run(&lab, "media protect V00005L9 --none").ok();
    run(&lab, "media erase V00005L9").ok();
    run(&lab, "pool set weekly --label {pool}-{barcode}").ok();
    assert_eq!(backed_up(&lab, "weekly", "--full"), ["weekly-V00005L9"]);
    run(&lab, "pool set weekly --no-scratch --no-label").ok();
    let shown = json(&lab, "pool show weekly");
    assert_eq!((&shown["scratch"], &shown["label_rule"]), (&false.into(), &Value::Null));
}

#[test]
fn a_pool_without_a_tape_says_of_each_why_not() {
    let lab = Lab::new();
    let dir = crate::tape::library(&lab, 1, 2);
    lab.file("tree/file", "contents");
    written_by_others(&dir, 1);
    written_by_others(&dir, 2);
    run(&lab, "pool create daily --scratch --library vtape:vtl").ok();
    for _ in 0..2 {
        let refused = run(&lab, "backup tree --to pool:daily --name t");
        refused.refused(&["no usable medium", "V00001L9 is not blank", "V00002L9 is not blank"]);
    }
    assert_eq!([loads(&dir, 1), loads(&dir, 2)], [2, 2]);
}

#[test]
fn media_are_made_of_many_tapes_at_once() {
    let lab = Lab::new();
    let dir = crate::tape::library(&lab, 1, 5);
    written_by_others(&dir, 2);
    run(&lab, "pool create daily").ok();
    lab.file("tree/file", "contents");
    lab.backed_up(["tree", "--to", "vtape:vtl?tape=V00005L9", "--name", "t"]);
    let all = || (1..=5).map(|n| loads(&dir, n)).collect::<Vec<_>>();
    let before = all();
    let init = "media init vtape:vtl --barcodes V0000[1-5]L9 --pool daily --label {pool}-{n:02}";
    let dry = json(&lab, &format!("{init} --dry-run"));
    let result = |of: &Value| {
        let tapes = of["tapes"].as_array().unwrap().iter();
        let text = |tape: &Value, name: &str| tape[name].as_str().unwrap_or_default().to_owned();
        let line = |tape| {
            format!("{} {} {}", text(tape, "barcode"), text(tape, "result"), text(tape, "label"))
        };
        tapes.map(|tape| line(tape).trim_end().to_owned()).collect::<Vec<_>>()
    };
    let mut would = result(&dry);
    would.sort();
    assert_eq!(
        would,
        [
            "V00001L9 would-be daily-01",
            "V00002L9 would-be daily-02",
            "V00003L9 would-be daily-03",
            "V00004L9 would-be daily-04",
            "V00005L9 medium V00005L9",
        ]
    );
    assert_eq!(all(), before);
    let done = run(&lab, init);
    assert_eq!(done.code, 3, "{}{}", done.stdout, done.stderr);
    for words in
        ["V00001L9: medium 'daily-01'", "V00002L9: not made", "not blank", "1 tape", "3 media"]
    {
        assert!(done.stdout.contains(words), "{}", done.stdout);
    }
    assert_eq!(tape_of(&lab, "daily-03"), "V00004L9");
    assert_eq!(json(&lab, "media show daily-01")["pool"], "daily");
    // Again: what is a medium stays, and nothing is loaded.
    let after = all();
    let again = run(&lab, &format!("{init} --json"));
    assert_eq!(again.code, 3);
    let again: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((&again["failed"], all()), (&1.into(), after));
    assert_eq!(result(&again).iter().filter(|line| line.contains(" medium ")).count(), 4);
    for (refused, words) in [
        ("media init vtape:vtl --barcodes X*", "no tape of vtape:"),
        ("media init vtape:vtl --barcodes V[", "no pattern"),
        ("media init vtape:vtl --barcodes V* --label same", "several media"),
        ("media init vtape:vtl --barcodes V* --label {slot}", "no label or rule"),
        ("media init vtape:vtl?tape=V00001L9 --barcodes V*", "is one tape"),
        ("media init vtape:vtl --barcodes V* --pool none", "no pool is called"),
        ("media init dir --label {barcode}", "no barcode"),
        ("media init dir --dry-run", "--barcodes"),
    ] {
        run(&lab, refused).refused(&[words]);
    }
}
