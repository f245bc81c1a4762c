//! Tapes on which nothing, or something else, is found by whoever reads them: they are marked there and then.

use std::path::Path;

use capstan_medium::tape::Spot;
use capstan_tape::TapeDrive;

use crate::changed_media::{TAPE, codes, on_tape, overwrite, state};
use crate::support::{Lab, noise, report};
use crate::tape::{comes_back, library};

fn blank(drive: &mut dyn TapeDrive) {
    drive.erase(false).unwrap();
}

fn cut(drive: &mut dyn TapeDrive) {
    drive.locate(Spot { file: 1, block: 3, object: None }).unwrap();
    drive.write_filemark().unwrap();
    drive.sync().unwrap();
}

fn lab() -> Lab {
    let lab = Lab::new();
    library(&lab, 1, 4);
    lab.file("tree/a", noise(1, 3_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    assert_eq!(state(&lab, TAPE), "appendable");
    lab
}

fn is_marked(lab: &Lab, says: &str) {
    assert_eq!(state(lab, TAPE), "changed", "{says}");
    let run = lab.run(["status", "--json"]);
    assert!(run.code == 6 && run.stdout.contains(says), "{}: {}", run.code, run.stdout);
    let next = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--full"]);
    assert_ne!(next["media"][0], TAPE);
    comes_back(lab, "t", &lab.path("tree"));
}

#[test]
fn whoever_finds_a_tape_changed_marks_it() {
    let changes: [(&str, fn(&mut dyn TapeDrive)); 3] = [
        ("its tape is blank", blank),
        ("something else was written over it", overwrite),
        ("is cut short", cut),
    ];
    let at = format!("vtape:vtl?tape={TAPE}");
    for (says, change) in changes {
        for args in [
            &["verify", "--medium", TAPE][..],
            &["verify", "t"],
            &["restore", "t", "--into", "lost"],
            &["media", "repair", TAPE],
            &["import", &at],
            &["import", "vtape:vtl"],
        ] {
            // An import takes what is left.
            if args[0] == "import" && says == "is cut short" {
                continue;
            }
            let lab = lab();
            on_tape(&lab.path("vtl"), TAPE, change);
            let run = lab.run(args);
            assert!(run.code != 0, "{args:?}: {}{}", run.stdout, run.stderr);
            is_marked(&lab, says);
        }
    }
}

#[test]
fn a_tape_of_a_pool_that_is_no_tape_is_passed_over() {
    let file = |lab: &Lab| {
        let found = lab.sh(&format!("find vtl -type f -name '{TAPE}*' ! -name '*.json'"));
        lab.path(found.trim())
    };
    let changes: [fn(&Path); 3] = [
        |file| std::fs::remove_file(file).unwrap(),
        |file| std::fs::write(file, "").unwrap(),
        |file| {
            std::fs::remove_file(file).unwrap();
            assert!(std::process::Command::new("mkfifo").arg(file).status().unwrap().success());
        },
    ];
    for change in changes {
        let lab = Lab::new();
        library(&lab, 1, 3);
        lab.file("tree/a", noise(1, 3_000_000));
        lab.run(["pool", "create", "p"]).ok();
        for tape in [TAPE, "V00002L9"] {
            lab.run(["media", "init", &format!("vtape:vtl?tape={tape}"), "--pool", "p"]).ok();
        }
        let to = ["tree", "--to", "pool:p", "--name", "t"];
        let first = lab.backed_up(to);
        assert_eq!(first["media"][0], TAPE);
        change(&file(&lab));
        let next = report(lab.run([&["backup"], &to[..], &["--full", "--json"]].concat()));
        assert_eq!(codes(&next), ["medium-changed"], "{next:#}");
        assert_eq!(next["media"][0], "V00002L9");
        assert_eq!(state(&lab, TAPE), "changed");
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

#[test]
fn a_tape_that_lost_something_and_lies_in_another_case_is_taken_with_its_library() {
    const OTHER: &str = "V00002L9";
    for short in [TAPE, OTHER] {
        let lab = Lab::new();
        let dir = library(&lab, 1, 4);
        lab.file("tree/a", noise(1, 3_000_000));
        let full = |tape: &str, name: &str| {
            let to = format!("vtape:vtl?tape={tape}");
            let done = lab.backed_up(["tree", "--to", &to, "--name", name, "--full"]);
            format!("{name}@{}", done["session"].as_str().unwrap())
        };
        let first = full(short, "t");
        full(short, "t");
        full(if short == TAPE { OTHER } else { TAPE }, "u");
        on_tape(&dir, short, |drive| {
            drive.locate(Spot { file: 3, block: 0, object: None }).unwrap();
            drive.write_filemark().unwrap();
            drive.sync().unwrap();
        });
        let swap = |what: &str| {
            let at = |tape: &str| format!("vtl/tapes/{tape}.{what}");
            lab.sh(&format!("mv {0} x; mv {1} {0}; mv x {1}", at(TAPE), at(OTHER)));
        };
        swap("tape");
        swap("json");
        // By itself it may be a copy, and nobody is told to erase what may be the only one.
        let case = if short == TAPE { OTHER } else { TAPE };
        let alone = lab.run(["import", &format!("vtape:vtl?tape={case}")]);
        alone.refused(&["was last written in", "import` the library"]);
        assert!(!alone.stderr.contains("erase"), "{}", alone.stderr);
        let all = report(lab.run(["import", "vtape:vtl", "--json"]));
        assert_eq!(all["status"], "completed_with_errors", "{all:#}");
        let mut said = codes(&all);
        said.sort();
        assert_eq!(said, ["medium-changed", "mislabelled"], "{all:#}");
        assert_eq!((state(&lab, TAPE), state(&lab, OTHER)).0, "appendable");
        assert_eq!(state(&lab, OTHER), "appendable");
        lab.run(["verify", &first]).ok();
        lab.run(["verify", "u"]).ok();
        lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--full"]);
        assert_eq!(lab.run(["status"]).code, 0);
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

#[test]
fn a_copy_of_a_tape_costs_the_import_of_its_library_no_other_tape() {
    let lab = Lab::new();
    let dir = library(&lab, 1, 4);
    lab.file("tree/a", noise(1, 3_000_000));
    let to = format!("vtape:vtl?tape={TAPE}");
    lab.backed_up(["tree", "--to", &to, "--name", "t"]);
    lab.sh("cp vtl/tapes/V00001L9.tape vtl/tapes/V00002L9.tape");
    lab.backed_up(["tree", "--to", &to, "--name", "t", "--full"]);
    lab.backed_up(["tree", "--to", "vtape:vtl?tape=V00003L9", "--name", "u"]);
    let all = report(lab.run(["import", "vtape:vtl", "--json"]));
    assert_eq!(all["status"], "completed_with_errors", "{all:#}");
    let said = all["errors"].to_string();
    assert!(said.contains("V00002L9 was not imported"), "{all:#}");
    assert!(!said.contains("erase"), "{all:#}");
    assert!(all["media"].to_string().contains("V00003L9"), "{all:#}");
    let _ = dir;
}
