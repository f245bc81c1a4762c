//! A synthetic full takes the place of what it was made of only if it is as good: else the chain stays.

use std::fs;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::mirror::damage;
use crate::support::{Lab, below, finish, noise};

/// Four nights on `m`, the last but one of which was consolidated onto `b`. Returns the versions, and the full.
fn consolidated(lab: &Lab) -> (Vec<String>, String) {
    lab.file("tree/stays", noise(1, 400_000));
    let mut versions = Vec::new();
    for night in 0..4 {
        for file in 0..4 {
            lab.file(&format!("tree/f{file}"), noise(10 * night + file, 400_000));
        }
        let args = ["tree", "--to", "m", "--name", "t", "--segment-size", "1M"];
        versions.push(named(&lab.backed_up(args)));
    }
    let made = lab.run(["consolidate", &versions[2], "--to", "b", "--json", "--block-size", "64K"]);
    let made: Value = serde_json::from_str(&made.ok().stdout).unwrap();
    (versions, named(&made))
}

fn named(report: &Value) -> String {
    format!("t@{}", &report["session"].as_str().unwrap()[..8])
}

fn prune(lab: &Lab, more: &[&str]) -> Value {
    let run = lab.run([&["prune", "t", "--keep-last", "1", "--json"], more].concat());
    assert!([0, 3].contains(&run.code), "{}{}", run.stdout, run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

fn comes_back(lab: &Lab, version: &str) {
    lab.restored([version, "--into", "out"]);
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    fs::remove_dir_all(lab.path("out")).unwrap();
}

/// What makes a full worse than what it was made of.
#[test]
fn a_full_that_is_not_as_good_takes_no_place() {
    type Step = fn(&Lab, &str);
    let steps: [(&str, Step); 9] = [
        ("a segment is gone, and that was imported", |lab, _| {
            lab.sh("test -e b/00000002.segment; rm b/00000001.segment");
            lab.run(["import", "b"]);
        }),
        ("it was given up", |lab, full| {
            lab.run(["protect", full, "--none"]).ok();
            lab.edit_tables("UPDATE versions SET expired_us = 1 WHERE protected_until_us = 0");
        }),
        ("it is damaged", |lab, _| {
            damage(&lab.path("b"), 1, 20);
            assert_ne!(lab.run(["verify", "--medium", "b"]).code, 0);
        }),
        ("it was exported", |lab, _| {
            lab.run(["media", "export", "b", "--to", "vault"]).ok();
            lab.sh("mv b away");
        }),
        ("it was exported, and is at hand still", |lab, _| {
            lab.run(["media", "export", "b", "--to", "vault"]).ok();
        }),
        ("another cell adopted it", |lab, _| {
            let mut other = lab.command();
            other.env("CAPSTAN_HOME", lab.path("other"));
            finish(other.args(["media", "adopt", "b"])).ok();
        }),
        ("it was retired", |lab, _| {
            lab.run(["media", "retire", "b", "--no-copy"]).ok();
        }),
        ("a file was put in the place of a segment", |lab, _| {
            lab.sh("cp b/00000002.segment b/00000001.segment");
        }),
        ("a segment was never imported", |lab, _| {
            lab.sh("rm b/00000001.segment");
            lab.lose_tables();
            lab.run(["import", "b"]);
            lab.run(["import", "m"]).ok();
        }),
    ];
    for (what, step) in steps {
        let lab = Lab::new();
        let (versions, full) = consolidated(&lab);
        step(&lab, &full);
        eprintln!("{what}");
        prune(&lab, &[]);
        comes_back(&lab, &versions[3]);
        lab.run(["verify", &versions[3]]).ok();
    }
}

/// One that is as good does; and one that is protected for its own sake stays what it is.
#[test]
fn a_full_that_is_as_good_takes_the_place() {
    for protect in [false, true] {
        let lab = Lab::new();
        let (versions, full) = consolidated(&lab);
        if protect {
            lab.run(["protect", &full, "--permanent"]).ok();
        }
        let done = prune(&lab, &[]);
        assert_eq!(done["consolidated"].as_array().map(Vec::len), Some(0), "{done:#}");
        assert_eq!(done["removed_versions"], 3, "{done:#}");
        comes_back(&lab, &versions[3]);
        // What is newer and whole lets it go, unless it is protected.
        lab.backed_up(["tree", "--to", "m", "--name", "t", "--full"]);
        prune(&lab, &[]);
        assert_eq!(lab.run(["ls", &full]).code == 0, protect, "{protect}");
    }
}

/// An old home is put back after a prune: what builds on the full is whole, and counts.
#[test]
fn a_home_that_was_put_back_takes_what_stands_for_lost_versions() {
    let lab = Lab::new();
    lab.file("tree/stays", noise(1, 400_000));
    let mut versions = Vec::new();
    for night in 0..4 {
        for file in 0..4 {
            lab.file(&format!("tree/f{file}"), noise(10 * night + file, 400_000));
        }
        versions.push(named(&lab.backed_up(["tree", "--to", "m", "--name", "t"])));
    }
    lab.sh("cp -a home old; cp -a tree state");
    let kept = lab.keep_tables();
    let done = prune(&lab, &[]);
    assert_eq!(done["consolidated"].as_array().map(Vec::len), Some(1), "{done:#}");
    lab.sh("rm -r home; mv old home");
    lab.put_tables_back(&kept);
    let run = lab.run(["import", "m"]);
    let note = "known as far as media have them: ";
    let named = run.stdout.lines().find(|line| line.contains(note)).unwrap_or_default();
    assert!(!named.contains(&versions[3]), "{named}");
    let listed = lab.run(["sessions"]).ok().stdout.clone();
    assert!(!listed.contains("not whole"), "{listed}");
    comes_back(&lab, &versions[3]);
    lab.file("tree/f0", noise(99, 400_000));
    let next = lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    assert_eq!(next["method"], "incr", "{next:#}");
    lab.run(["prune", "t", "--keep-last", "3"]).ok();
    lab.run(["ls", &versions[3]]).ok();
    comes_back(&lab, "t");
}
