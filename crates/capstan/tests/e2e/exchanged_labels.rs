//! Tapes whose labels were exchanged by hand: each is read and written as what its header says, and what is recorded is corrected.

use std::fs;

use serde_json::Value;

use crate::gone_media::status;
use crate::support::{Lab, Run, noise, report};
use crate::tape::library;

/// A library with a version on each of so many tapes, `t1` on the first.
fn lab(drives: u32, tapes: u32) -> Lab {
    let lab = Lab::new();
    library(&lab, drives, tapes + 2);
    for n in 1..=tapes {
        lab.file(format!("tree{n}/a").as_str(), noise(u64::from(n), 3_000_000));
        let (tree, to) = (format!("tree{n}"), format!("vtape:vtl?tape=V0000{n}L9"));
        lab.backed_up([&*tree, "--to", &to, "--name", &format!("t{n}")]);
    }
    put_away(&lab);
    lab
}

fn put_away(lab: &Lab) {
    for drive in ["1", "2"] {
        lab.run(["library", "unload", "vtape:vtl", drive]);
    }
}

/// Sticks the label of each of these tapes onto the one that comes before it, and the first one's onto the last.
fn exchange(lab: &Lab, tapes: &[u32]) {
    let dir = lab.path("vtl/tapes");
    let file = |n: u32, kind: &str| dir.join(format!("V0000{n}L9.{kind}"));
    // The file with the data moves, and the label stays.
    let first = fs::read(file(tapes[0], "tape")).unwrap();
    for pair in tapes.windows(2) {
        fs::rename(file(pair[1], "tape"), file(pair[0], "tape")).unwrap();
    }
    fs::write(file(*tapes.last().unwrap(), "tape"), first).unwrap();
}

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split(' '))
}

/// On which tape each medium lies, by the labels that it had at first.
fn places(lab: &Lab) -> Vec<(String, String)> {
    let listed: Value = run(lab, "media list --json").ok().rows().into();
    let text = |v: &Value| v.as_str().unwrap_or_default().to_owned();
    let rows = listed.as_array().unwrap().iter();
    let mut all: Vec<_> = rows.map(|m| (text(&m["label"]), text(&m["barcode"]))).collect();
    all.sort();
    all
}

fn tape(n: u32) -> String {
    format!("V0000{n}L9")
}

/// Each comes back.
fn come_back(lab: &Lab, tapes: u32) {
    for n in 1..=tapes {
        run(lab, &format!("restore t{n} --into out")).ok();
        let out = crate::support::below(&lab.path("out"), &lab.path(format!("tree{n}")));
        assert_eq!(fs::read(out.join("a")).unwrap(), noise(u64::from(n), 3_000_000));
        fs::remove_dir_all(lab.path("out")).unwrap();
    }
}

fn says_so(run: &Run) -> bool {
    let report: Value = serde_json::from_str(&run.stdout).unwrap();
    let errors = report["errors"].as_array().cloned().unwrap_or_default();
    let text = "and that of tape";
    errors.iter().any(|e| e["code"] == "mislabelled" && e.to_string().contains(text))
}

/// Whoever reads a tape finds out.
#[test]
fn each_tape_is_read_where_it_is() {
    for (drives, command) in [
        (1, "restore t1 --into out --json"),
        (1, "verify t2 --json"),
        (1, "verify --medium V00001L9 --json"),
        (2, "drill t1 --json"),
        (1, "copy t2 --to disk --json"),
        (2, "copy t2 --to vtape:vtl --json"),
        (1, "import vtape:vtl --json"),
    ] {
        let lab = lab(drives, 2);
        exchange(&lab, &[1, 2]);
        let done = run(&lab, command);
        assert_eq!(done.code, 0, "{command}: {}{}", done.stdout, done.stderr);
        assert!(says_so(&done), "{command}: {}{}", done.stdout, done.stderr);
        let places = places(&lab);
        assert!(places.contains(&(tape(1), tape(2))), "{command}: {places:?}");
        assert!(places.contains(&(tape(2), tape(1))), "{command}: {places:?}");
        assert_eq!(status(&lab).0, 0, "{command}");
        let again = run(&lab, "verify t1 --json");
        assert!(again.code == 0 && !says_so(&again), "{command}: {}", again.stdout);
        let _ = fs::remove_dir_all(lab.path("out"));
        come_back(&lab, 2);
    }
}

/// Three of them, each with another's label.
#[test]
fn three_tapes_are_found_one_after_the_other() {
    let lab = lab(1, 3);
    exchange(&lab, &[1, 2, 3]);
    come_back(&lab, 3);
    assert_eq!(places(&lab), [(tape(1), tape(3)), (tape(2), tape(1)), (tape(3), tape(2))]);
    assert_eq!(status(&lab).0, 0);
    // With the right labels again.
    put_away(&lab);
    exchange(&lab, &[3, 2, 1]);
    come_back(&lab, 3);
    assert_eq!(places(&lab), [1, 2, 3].map(|n| (tape(n), tape(n))));
    assert_eq!(status(&lab).0, 0);
}

/// What is written goes to the tape that was chosen for it, and to no other one.
#[test]
fn nothing_is_written_to_the_wrong_tape() {
    for to in ["vtape:vtl", "pool:p", "vtape:vtl?tape=V00002L9"] {
        let lab = lab(1, 2);
        run(&lab, "pool create p").ok();
        run(&lab, "pool create q").ok();
        // The second one takes more. The first one is another pool's.
        run(&lab, "media move V00001L9 --pool q").ok();
        if to == "pool:p" {
            run(&lab, "media move V00002L9 --pool p").ok();
        }
        let before = fs::read(lab.path("vtl/tapes/V00001L9.tape")).unwrap();
        exchange(&lab, &[1, 2]);
        lab.file("more/a", noise(9, 1_000_000));
        let done = run(&lab, &format!("backup more --to {to} --name more --json"));
        let text = format!("{to}: {}{}", done.stdout, done.stderr);
        assert!(!text.contains("medium-changed"), "{text}");
        match to.contains("?tape=") {
            // Somebody named it by its label: he is told, and it is as he said.
            true => assert!(done.code == 2 && text.contains("are exchanged"), "{text}"),
            false => {
                assert!(done.code == 0 && says_so(&done), "{text}");
                assert_eq!(report(done)["media"][0], tape(2), "{text}");
            }
        }
        assert!(fs::read(lab.path("vtl/tapes/V00002L9.tape")).unwrap() == before, "{to}");
        assert_eq!(places(&lab)[..2], [(tape(1), tape(2)), (tape(2), tape(1))], "{to}");
        let ill = run(&lab, "media list").ok().stdout.clone();
        assert!(!ill.contains("changed"), "{ill}");
        put_away(&lab);
        come_back(&lab, 2);
    }
}

/// Where the label is that of a tape that went out of the house, the other one went.
#[test]
fn the_tape_that_left_the_house_is_the_other_one() {
    let lab = lab(1, 2);
    exchange(&lab, &[1, 2]);
    run(&lab, "library export vtape:vtl V00002L9 --location bank").ok();
    run(&lab, "vtl take vtl V00002L9").ok();
    let done = run(&lab, "restore t1 --into out --json");
    assert_eq!(done.code, 3, "{}{}", done.stdout, done.stderr);
    assert!(done.stderr.contains("bank"), "{}", done.stderr);
    run(&lab, "restore t2 --into out").ok();
    fs::remove_dir_all(lab.path("out")).unwrap();
    run(&lab, "vtl insert vtl V00002L9").ok();
    run(&lab, "library import vtape:vtl").ok();
    come_back(&lab, 2);
}

/// Two copies of one tape are no exchange, and nothing goes in circles.
#[test]
fn copies_of_a_tape_end_the_search() {
    let lab = lab(1, 2);
    let tapes = lab.path("vtl/tapes");
    fs::copy(tapes.join("V00002L9.tape"), tapes.join("V00001L9.tape")).unwrap();
    let done = run(&lab, "restore t1 --into out --json");
    assert_eq!(done.code, 3, "{}{}", done.stdout, done.stderr);
    run(&lab, "restore t2 --into out").ok();
    let (code, said) = status(&lab);
    assert!(code == 6 && said.to_string().contains("another medium is on its tape now"), "{said}");
}
