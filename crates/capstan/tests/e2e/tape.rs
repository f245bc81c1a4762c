//! Backups to the tapes of a virtual library: spanning, appending, restoring, importing.

use std::path::{Path, PathBuf};

use capstan_tape::library::{Design, Library};
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, below, noise};

/// A library whose tapes hold 40 MB, a hundred thousand times as fast as the world.
fn library(lab: &Lab, drives: u32, tapes: u32) -> PathBuf {
    let dir = lab.path("vtl");
    let design = Design {
        model: "lto-9".into(),
        drives,
        slots: tapes + 2,
        mail_slots: 1,
        capacity: Some(40_000_000),
        scale: 1e5,
        ratio: 1.0,
    };
    Library::create(&dir, &design, tapes).unwrap();
    dir
}

/// A tree of so many megabytes that cannot be compressed, and of oddities.
fn tree(lab: &Lab, megabytes: u64) {
    crate::mirror::tree(lab);
    for n in 0..megabytes / 10 {
        lab.file(&format!("tree/big-{n}"), noise(n + 1, 10_000_000));
    }
}

fn media(lab: &Lab) -> Vec<(String, String)> {
    let list = lab.run(["media", "list", "--json"]);
    let text = |v: &Value| v.as_str().unwrap().to_owned();
    let one = |line: &str| {
        let medium: Value = serde_json::from_str(line).unwrap();
        (text(&medium["label"]), text(&medium["state"]))
    };
    let mut all: Vec<_> = list.ok().stdout.lines().map(one).collect();
    all.sort();
    all
}

fn comes_back(lab: &Lab, name: &str, state: &Path) {
    let into = lab.path("restored");
    lab.restored([name, "--into", into.to_str().unwrap()]);
    same_by_rsync(state, &below(&into, &lab.path("tree")));
    std::fs::remove_dir_all(into).unwrap();
}

#[test]
fn a_backup_spans_tapes_and_comes_back() {
    let lab = Lab::new();
    library(&lab, 1, 8);
    tree(&lab, 60);
    let full = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    let labels = full["media"].as_array().unwrap();
    assert!(labels.len() >= 3, "{full}");
    assert_eq!(full["drives"].as_array().unwrap().len(), labels.len(), "{full}");
    comes_back(&lab, "t", &lab.path("tree"));
    lab.sh("cp -a tree first");
    lab.sh("cd tree; rm big-1; echo new >new; touch big-2");
    let second = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--incr"]);
    assert_eq!(second["media"][0], *labels.last().unwrap(), "it is appended to");
    comes_back(&lab, "t", &lab.path("tree"));
    let first = format!("t@{}", full["session"].as_str().unwrap());
    comes_back(&lab, &first, &lab.path("first"));
    let states: Vec<_> = media(&lab).into_iter().map(|m| m.1).collect();
    assert!(states.starts_with(&["full".into(), "full".into()]), "{states:?}");
    assert_eq!(states.last().unwrap(), "appendable");
}
