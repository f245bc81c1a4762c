//! Mirrors that are longer than their tapes: each goes on on the next tape of its library where its own is full, wherever that is.

use std::collections::HashMap;
use std::process::Stdio;

use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, below, noise};
use crate::tape::library_of;

/// A library of tapes of 25 MB, whose warning comes when there is less room than a session has on its way.
fn library(lab: &Lab, name: &str, drives: u32, tapes: u32) {
    let design = Design { capacity: Some(25_000_000), ..library_of(drives, tapes) };
    Library::create(&lab.path(name), &design, tapes).unwrap();
}

fn tree(lab: &Lab) {
    for n in 0..60 {
        lab.file(&format!("tree/d{}/f{n}", n % 7), noise(n, 1_500_000));
    }
}

/// Puts something on one tape, so that it has less room than the others.
fn fill(lab: &Lab, to: &str, megabytes: usize) {
    lab.file("part/file", noise(megabytes as u64, megabytes * 1_000_000));
    lab.backed_up(["part", "--to", to, "--name", "part", "--full"]);
}

fn comes_back(lab: &Lab, name: &str) {
    lab.restored([name, "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    lab.sh("rm -r out");
}

/// Both sides' tapes, from what was said when one was full: the next new one takes its place.
fn sides(tapes: &[String], full: &[String]) -> [Vec<String>; 2] {
    let mut side: HashMap<&str, usize> = HashMap::new();
    side.extend([(tapes[0].as_str(), 0), (tapes[1].as_str(), 1)]);
    for (tape, full) in tapes[2..].iter().zip(full) {
        side.insert(tape, side[full.as_str()]);
    }
    [0, 1].map(|of| tapes.iter().filter(|tape| side[tape.as_str()] == of).cloned().collect())
}

fn labels(report: &Value) -> Vec<String> {
    let media = report["media"].as_array().unwrap();
    media.iter().map(|label| label.as_str().unwrap().to_owned()).collect()
}

/// Of what a backup said: which tapes were full, in order.
fn full_tapes(said: &str) -> Vec<String> {
    let of =
        |line: &str| Some(line.split_once("medium '")?.1.split_once("' is full: ")?.0.to_owned());
    said.lines()
        .filter_map(of)
        .flat_map(|all| all.split("', '").map(str::to_owned).collect::<Vec<_>>())
        .collect()
}

#[test]
fn each_of_two_goes_on_on_tapes_of_one_library() {
    let lab = Lab::new();
    library(&lab, "vtl", 2, 60);
    tree(&lab);
    for round in 0..4 {
        fill(&lab, "vtape:vtl", [7, 12, 3, 17][round]);
        let name = format!("t{round}");
        let run = lab.run([
            "backup",
            "tree",
            "--to",
            "vtape:vtl",
            "--mirror",
            "vtape:vtl",
            "--name",
            &name,
            "--full",
            "--json",
            "--verbose",
        ]);
        let report: Value =
            serde_json::from_str(&run.stdout).unwrap_or_else(|e| panic!("{e}: {}", run.stderr));
        assert_eq!(
            (run.code, report["status"].as_str()),
            (0, Some("completed")),
            "{report:#}\n{}",
            run.stderr
        );
        let (tapes, full) = (labels(&report), full_tapes(&run.stderr));
        assert!(tapes.len() > 8, "{tapes:?}");
        comes_back(&lab, &name);
        lab.run(["verify", &name]).ok();
        for side in sides(&tapes, &full) {
            lab.sh("mkdir away");
            side.iter().for_each(|tape| drop(lab.sh(&format!("mv vtl/tapes/{tape}.tape away"))));
            comes_back(&lab, &name);
            lab.sh("mv away/* vtl/tapes; rmdir away");
        }
    }
}

#[test]
fn each_library_has_all_and_so_has_a_directory() {
    for (to, mirror, gone) in [
        ("vtape:vtl", "vtape:other", "other"),
        ("vtape:vtl", "disk", "disk"),
        ("disk", "vtape:vtl", "disk"),
    ] {
        let lab = Lab::new();
        library(&lab, "vtl", 1, 20);
        library(&lab, "other", 1, 20);
        tree(&lab);
        for (round, filled) in [7, 14].into_iter().enumerate() {
            fill(&lab, if mirror.starts_with("vtape") { mirror } else { "vtape:vtl" }, filled);
            let name = format!("t{round}");
            let report =
                lab.backed_up(["tree", "--to", to, "--mirror", mirror, "--name", &name, "--full"]);
            assert!(report["media"].as_array().unwrap().len() > 4, "{report:#}");
            for gone in [gone, "vtl"] {
                lab.sh(&format!("mv {gone} away"));
                comes_back(&lab, &name);
                lab.sh(&format!("mv away {gone}"));
            }
            lab.run(["verify", &name]).ok();
        }
    }
}

#[test]
fn an_input_that_cannot_be_read_again_is_on_both() {
    let lab = Lab::new();
    library(&lab, "vtl", 1, 20);
    library(&lab, "other", 1, 20);
    fill(&lab, "vtape:other", 9);
    lab.file("in", noise(1, 90_000_000));
    let mut backup = lab.command();
    backup.args([
        "backup",
        "--stdin",
        "--name",
        "t",
        "--to",
        "vtape:vtl",
        "--mirror",
        "vtape:other",
        "--segment-size",
        "20M",
        "--buffers",
        "200",
        "--json",
    ]);
    backup.stdin(std::fs::File::open(lab.path("in")).unwrap()).stderr(Stdio::piped());
    let output = backup.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (output.status.code(), report["status"].as_str()),
        (Some(0), Some("completed")),
        "{report:#}\n{said}"
    );
    for gone in ["other", "vtl"] {
        lab.sh(&format!("mv {gone} away"));
        lab.restored(["t", "--into", "out"]);
        lab.sh(&format!("cmp in \"$(find out -type f)\"; rm -r out; mv away {gone}"));
    }
}

#[test]
fn a_pool_and_its_mirror_go_on_each_by_itself_and_without_the_pool_the_mirror_does() {
    let lab = Lab::new();
    library(&lab, "vtl", 1, 12);
    library(&lab, "other", 1, 20);
    tree(&lab);
    lab.run(["pool", "create", "p"]).ok();
    let join = |tapes: std::ops::Range<u32>| {
        for n in tapes {
            let tape = format!("vtape:vtl?tape=V{n:05}L9");
            lab.run(["media", "init", &tape, "--pool", "p"]).ok();
        }
    };
    join(1..7);
    fill(&lab, "vtape:other", 8);
    let backup =
        |name| ["tree", "--to", "pool:p", "--mirror", "vtape:other", "--name", name, "--full"];
    lab.backed_up(backup("t"));
    for gone in ["other", "vtl"] {
        lab.sh(&format!("mv {gone} away"));
        comes_back(&lab, "t");
        lab.sh(&format!("mv away {gone}"));
    }
    // Too few of them are left.
    join(7..9);
    let report = lab.backup(backup("u"));
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    assert!(report["errors"].to_string().contains("mirror-failed"), "{report:#}");
    lab.sh("mv vtl away");
    comes_back(&lab, "u");
}

#[test]
fn a_mirror_without_another_tape_is_left_and_the_others_have_all() {
    let lab = Lab::new();
    library(&lab, "vtl", 1, 20);
    library(&lab, "other", 1, 1);
    tree(&lab);
    let line = "tree --to vtape:vtl --mirror vtape:other --name t0 --full";
    let report = lab.backup(line.split(' '));
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    assert!(report["errors"].to_string().contains("mirror-failed"), "{report:#}");
    comes_back(&lab, "t0");
}

#[test]
fn a_library_with_too_few_drives_is_refused_before_a_tape_is_loaded() {
    let lab = Lab::new();
    library(&lab, "one", 1, 4);
    library(&lab, "two", 2, 6);
    lab.file("tree/x", "x");
    let loads = lab.run(["library", "status", "vtape:one"]).stdout.clone();
    let refused = |args: &[&str], words: &[&str]| {
        let run = lab.run([&["backup", "tree"], args].concat());
        run.refused(words);
        assert_eq!(run.code, 2, "{}", run.stderr);
    };
    let one = ["one has one drive", "takes 2 at a time"];
    refused(&["--to", "vtape:one", "--mirror", "vtape:one"], &one);
    refused(&["--to", "vtape:one", "--mirror", "vtape:one", "--dry-run"], &one);
    refused(&["--to", "vtape:one?tape=V00001L9", "--mirror", "vtape:one?tape=V00002L9"], &one);
    let three = ["two has 2 drives", "takes 3 at a time"];
    refused(&["--to", "vtape:two", "--mirror", "vtape:two", "--mirror", "vtape:two"], &three);
    refused(&["--to", "vtape:two", "--mirror", "rait1:vtape:two,vtape:two"], &three);
    // A pool, whose media that would do are taken.
    lab.run(["pool", "create", "p"]).ok();
    assert_eq!(lab.run(["library", "status", "vtape:one"]).stdout, loads);
    lab.run(["media", "init", "vtape:one?tape=V00003L9", "--pool", "p"]).ok();
    refused(&["--to", "pool:p", "--mirror", "vtape:one"], &one);
    lab.run(["media", "init", "shelf", "--label", "shelf", "--pool", "p"]).ok();
    let report = lab.backed_up(["tree", "--to", "pool:p", "--mirror", "vtape:one", "--name", "p"]);
    assert_eq!(report["media"][0], "shelf", "{report:#}");
    let at = lab.path("");
    let spec = format!(
        "[[object]]\npaths = [\"{0}/tree\"]\nto = \"vtape:{0}/one\"\nmirror = [\"vtape:{0}/one\"]\n",
        at.to_str().unwrap().trim_end_matches('/')
    );
    lab.file("spec.toml", spec);
    for (check, code) in [(&["run", "--check", "spec.toml"][..], 2), (&["run", "spec.toml"], 1)] {
        let run = lab.run(check);
        assert!(run.code == code && run.stderr.contains("has one drive"), "{}", run.stderr);
    }
}

/// What is written again on other media, as one of them was full before anything was committed, is one session.
#[test]
fn a_first_backup_whose_mirror_is_full_at_once_is_one_session() {
    for (tapes, filled, ends) in [(4, 20, "completed"), (1, 12, "completed_with_errors")] {
        let lab = Lab::new();
        library(&lab, "vtl", 1, 20);
        library(&lab, "other", 1, tapes);
        for n in 0..12 {
            lab.file(&format!("tree/f{n:02}"), noise(n, 1_500_000));
        }
        fill(&lab, "vtape:other", filled);
        let line = "tree --to vtape:vtl --mirror vtape:other --name t --full";
        let report = lab.backup(line.split(' '));
        assert_eq!(report["status"], ends, "{report:#}");
        if tapes == 1 {
            let errors = report["errors"].to_string();
            assert!(errors.contains("V00001L9 is full"), "which of them it is: {errors}");
        }
        let listed = lab.run(["sessions", "t", "--json"]).ok().rows();
        let status = |s: &Value| s["status"].as_str().unwrap().to_owned();
        let mut all: Vec<String> = listed.iter().map(status).collect();
        // One that committed something stays, and goes on in the next one.
        all.retain(|status| status != "incomplete");
        assert_eq!(all, [ends], "{listed:#?}");
        lab.run(["idb", "check"]).ok();
        comes_back(&lab, "t");
    }
}
