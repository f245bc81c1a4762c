//! Mirrors that have the last version, and not what it builds on.

use std::fs;

use serde_json::Value;

use crate::gone_media::{status, why};
use crate::support::{Lab, below, noise, report};

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 200_000));
    lab
}

fn run(lab: &Lab, line: &str) {
    lab.run(line.split_whitespace()).ok();
}

#[test]
fn a_mirror_that_was_away_is_behind_until_a_copy_fills_it() {
    let lab = lab();
    let backup = |n: u64, mode: &str| {
        lab.file(&format!("tree/{n}"), noise(n, 50_000));
        let args = ["backup", "tree", "--name", "t", "--to", "a", "--mirror", "b", mode, "--json"];
        report(lab.run(args))
    };
    let is_behind = |report: &Value| report["errors"].to_string().contains("mirror-behind");
    let first = backup(2, "--full");
    assert!(!is_behind(&first) && !is_behind(&backup(3, "--incr")));
    assert_eq!(status(&lab).0, 0);
    run(&lab, "media export b");
    lab.sh("mv b away");
    backup(4, "--incr");
    lab.sh("mv away b");
    run(&lab, "media import b");
    for n in 5..7 {
        let report = backup(n, "--incr");
        assert!(is_behind(&report), "{report:#}");
        let (code, json) = status(&lab);
        assert!(code == 5 && why(&json).contains("medium 'b' has t@"), "{json:#}");
    }
    let (_, json) = status(&lab);
    let why = why(&json);
    let command = why.split("`capstan ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    lab.run(command.replace('\'', "").split(' ')).ok();
    assert_eq!(status(&lab).0, 0, "{command}");
    assert!(!is_behind(&backup(7, "--incr")));
    lab.sh("mv a away");
    lab.restored(["t", "--into", "out"]);
    let out = below(&lab.path("out"), &lab.path("tree"));
    assert_eq!(fs::read(out.join("4")).unwrap(), noise(4, 50_000));
    fs::remove_dir_all(lab.path("out")).unwrap();
    // A full needs nothing that it lacks.
    lab.sh("mv away a; mv b away");
    backup(8, "--incr");
    lab.sh("mv away b");
    assert!(!is_behind(&backup(9, "--full")));
    assert_eq!(status(&lab).0, 0);
}

#[test]
fn a_full_made_of_a_chain_for_one_medium_leaves_its_mirror_behind() {
    let lab = lab();
    let backup = |n: u64| {
        lab.file(&format!("tree/{n}"), noise(n, 50_000));
        lab.backed_up(["tree", "--name", "t", "--to", "a", "--mirror", "b", "--incr"])
    };
    backup(2);
    backup(3);
    run(&lab, "consolidate t --to a");
    let report = backup(4);
    assert!(report["errors"].to_string().contains("mirror-behind"), "{report:#}");
    let (code, json) = status(&lab);
    assert!(code == 5 && why(&json).contains("medium 'b' has t@"), "{json:#}");
}

/// Of tapes their library is the place: which of them has what is all the same.
#[test]
fn a_library_that_has_all_on_several_tapes_is_not_behind() {
    let lab = lab();
    for library in ["v", "w"] {
        let line = format!("vtl create {library} --drives 2 --tapes 6 --capacity 30M --scale 1000");
        run(&lab, &line);
    }
    for n in 2..12 {
        lab.file(&format!("tree/{n}"), noise(n, 4_000_000));
    }
    let both = ["tree", "--name", "t", "--to", "vtape:w", "--mirror", "vtape:v"];
    lab.backed_up(["tree", "--name", "t", "--to", "vtape:v"]);
    let mut advice = String::new();
    for n in 20..22 {
        lab.file(&format!("tree/{n}"), noise(n, 9_000_000));
        let report = lab.backup(both);
        let errors = report["errors"].as_array().unwrap();
        let [error] = &errors[..] else { panic!("{report:#}") };
        assert_eq!(error["code"], "mirror-behind", "{report:#}");
        advice = error["error"].as_str().unwrap().to_owned();
        let library = lab.path("w").display().to_string();
        assert!(
            advice.contains(&format!("--to 'vtape:{library}'"))
                || advice.contains(&format!("--to vtape:{library}`")),
            "{advice}"
        );
        let (code, json) = status(&lab);
        assert!(code == 5 && why(&json).contains("not enough by itself"), "{json:#}");
    }
    let command = advice.split("`capstan ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    lab.run(command.replace('\'', "").split(' ')).ok();
    let (code, json) = status(&lab);
    assert_eq!(code, 0, "{json:#}");
    lab.sh("mv v away");
    crate::tape::comes_back(&lab, "t", &lab.path("tree"));
}

/// Two tapes of one library are two copies: what lies on one of them alone has one.
#[test]
fn of_two_mirrors_in_one_library_it_is_said_that_one_is_behind() {
    let lab = lab();
    run(&lab, "vtl create v --drives 2 --tapes 6 --scale 1000");
    lab.backed_up(["tree", "--name", "t", "--to", "vtape:v"]);
    lab.file("tree/2", noise(2, 50_000));
    let both = ["tree", "--name", "t", "--to", "vtape:v", "--mirror", "vtape:v", "--incr"];
    let report = lab.backup(both);
    assert_eq!(report["media"].as_array().unwrap().len(), 2, "{report:#}");
    let errors = report["errors"].as_array().unwrap();
    let [error] = &errors[..] else { panic!("{report:#}") };
    let text = error["error"].as_str().unwrap();
    assert!(error["code"] == "mirror-behind" && text.contains("2 copies of t@"), "{text}");
    let (code, json) = status(&lab);
    assert!(code == 5 && why(&json).contains("2 copies of t@"), "{json:#}");
    let command = text.split("`capstan ").nth(1).and_then(|rest| rest.split('`').next()).unwrap();
    lab.run(command.replace('\'', "").split(' ')).ok();
    let (code, json) = status(&lab);
    assert_eq!(code, 0, "{json:#}");
    lab.file("tree/3", noise(3, 50_000));
    assert_eq!(lab.backup(both)["error_count"], 0);
    // Each of them is enough by itself.
    for tape in report["media"].as_array().unwrap() {
        let tape = format!("v/tapes/{}.tape", tape.as_str().unwrap());
        lab.sh(&format!("mv {tape} away"));
        crate::tape::comes_back(&lab, "t", &lab.path("tree"));
        lab.sh(&format!("mv away {tape}"));
    }
}
