//! Incrementals are the default wherever their base lies.

use std::path::PathBuf;

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::support::{Lab, noise};
use crate::tape::{comes_back, library_of, tree};

fn night(lab: &Lab, n: u64) -> Value {
    lab.file(&format!("tree/new-{n}"), noise(100 + n, 10_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"])
}

fn is_silent_incremental(report: &Value) {
    assert_eq!(report["method"], "incr", "{report:#}");
    assert_eq!(report["errors"], Value::Array(Vec::new()), "{report:#}");
    assert!(!report["notes"].to_string().contains("needs both"), "{report:#}");
    assert!(report["bytes_written"].as_u64() < Some(5_000_000), "{report:#}");
}

/// A tape leaves the virtual library, or comes back: what lies in its place is none that takes data.
fn swap(lab: &Lab, from: &str, to: &str) {
    lab.sh(&format!(
        "sed -i 's/{from}/{to}/' vtl/inventory.json; mv vtl/tapes/{from}.tape vtl/tapes/{to}.tape"
    ));
}

#[test]
fn a_full_on_several_tapes_is_built_on() {
    let lab = Lab::new();
    Library::create(&lab.path("vtl"), &library_of(1, 5), 5).unwrap();
    tree(&lab, 60);
    let full = night(&lab, 0);
    assert_eq!(full["method"], "full");
    assert!(full["media"].as_array().unwrap().len() >= 2, "{full:#}");
    for n in 1..3 {
        is_silent_incremental(&night(&lab, n));
    }
    comes_back(&lab, "t", &lab.path("tree"));
    // A tape that somebody took out of the house is where it was brought.
    lab.run(["library", "export", "vtape:vtl", "V00001L9", "--location", "bank"]).ok();
    swap(&lab, "V00001L9", "CLN901L9");
    is_silent_incremental(&night(&lab, 3));
    let restore = lab.run(["restore", "t", "--into", "out"]);
    assert_ne!(restore.code, 0);
    assert!(restore.stderr.contains("bank"), "{}", restore.stderr);
    swap(&lab, "CLN901L9", "V00001L9");
    lab.run(["library", "import", "vtape:vtl"]).ok();
    lab.sh("rm -rf out");
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn a_tape_that_is_gone_makes_a_full_and_says_so() {
    let lab = Lab::new();
    Library::create(&lab.path("vtl"), &library_of(1, 8), 8).unwrap();
    tree(&lab, 60);
    night(&lab, 0);
    // Taken out by hand, without a word.
    swap(&lab, "V00001L9", "CLN901L9");
    lab.file("tree/new-1", noise(1, 10_000));
    let full = lab.backup(["tree", "--to", "vtape:vtl", "--name", "t"]);
    assert_eq!(full["method"], "full", "{full:#}");
    let errors = full["errors"].to_string();
    assert!(errors.contains("no-base") && errors.contains("a full backup is made"), "{full:#}");
}

/// Damages the large catalogs of the home: their rows, behind the first of them. The indexes that were made of them stay.
fn hurt_catalogs(lab: &Lab) {
    let all = std::fs::read_dir(lab.path("home/catalogs")).unwrap().map(|e| e.unwrap().path());
    let of_rows = |path: &PathBuf| {
        path.extension().is_some_and(|e| e == "catalog") && path.metadata().unwrap().len() > 10_000
    };
    for path in all.filter(of_rows) {
        let mut bytes = std::fs::read(&path).unwrap();
        let (from, to) = (bytes.len() / 2, bytes.len() / 2 + 2000);
        bytes[from..to].fill(0xff);
        let mtime = path.metadata().unwrap().modified().unwrap();
        std::fs::write(&path, bytes).unwrap();
        std::fs::File::options().write(true).open(&path).unwrap().set_modified(mtime).unwrap();
    }
}

/// The catalog of what a backup builds on got damaged at home, and its tape is not at hand: nothing says which of the base's files
/// are gone. A full backup is made, and no version that brings removed files back.
#[test]
fn a_base_that_cannot_be_read_to_its_end_is_none() {
    let lab = Lab::new();
    Library::create(&lab.path("vtl"), &library_of(1, 5), 5).unwrap();
    for n in 0..3000 {
        lab.file(&format!("tree/{n:04}"), format!("{n}"));
    }
    assert_eq!(night(&lab, 0)["method"], "full");
    is_silent_incremental(&night(&lab, 1));
    lab.run(["library", "export", "vtape:vtl", "V00001L9", "--location", "bank"]).ok();
    swap(&lab, "V00001L9", "CLN901L9");
    hurt_catalogs(&lab);
    assert_ne!(lab.run(["idb", "check"]).code, 0);
    lab.sh("rm tree/29*");
    for options in [&["--dry-run", "--incr"][..], &[]] {
        let args = ["tree", "--to", "vtape:vtl", "--name", "t"];
        let report = lab.backup([&args[..], options].concat());
        let said = report["errors"].to_string();
        assert!(said.contains("no-base") && said.contains("V00001L9 was exported"), "{report:#}");
        let method = if options.contains(&"--dry-run") { "dry run" } else { "full" };
        assert_eq!(report["method"], method, "{report:#}");
    }
    comes_back(&lab, "t", &lab.path("tree"));
    is_silent_incremental(&night(&lab, 2));
}

/// The same where the catalogs are gone. All media that have the names are named, and how these come back.
#[test]
fn names_that_are_away_with_their_tapes_make_a_full_that_names_the_tapes() {
    let lab = Lab::new();
    Library::create(&lab.path("vtl"), &library_of(1, 3), 3).unwrap();
    lab.file("tree/a", noise(1, 100_000));
    let to = |barcode: &str, n: u64| {
        lab.file(&format!("tree/new-{n}"), noise(100 + n, 10_000));
        let tape = format!("vtape:vtl?tape={barcode}");
        lab.backup(["tree", "--to", &tape, "--name", "t"])
    };
    assert_eq!(to("V00001L9", 0)["method"], "full");
    is_silent_incremental(&to("V00002L9", 1));
    for barcode in ["V00001L9", "V00002L9"] {
        lab.run(["library", "export", "vtape:vtl", barcode, "--location", "bank"]).ok();
        lab.run(["vtl", "take", "vtl", barcode]).ok();
    }
    // What is in the home is enough to build on.
    is_silent_incremental(&to("V00003L9", 2));
    lab.sh("rm home/catalogs/*.catalog");
    let full = to("V00003L9", 3);
    assert_eq!(full["method"], "full", "{full:#}");
    let errors = full["errors"].to_string();
    let all = ["no-base", "V00001L9 was exported", "V00002L9 was exported", "to bank"];
    for what in all.iter().chain(&["`capstan import vtape:"]) {
        assert!(errors.contains(what), "{what}: {full:#}");
    }
    is_silent_incremental(&to("V00003L9", 4));
    comes_back(&lab, "t", &lab.path("tree"));
}

/// Where such a tape is back, and its only drive is the one that is written with, one full is made.
#[test]
fn names_on_a_tape_whose_drive_is_in_use_make_one_full() {
    let lab = Lab::new();
    Library::create(&lab.path("vtl"), &library_of(1, 5), 5).unwrap();
    tree(&lab, 3);
    night(&lab, 0);
    is_silent_incremental(&night(&lab, 1));
    lab.sh("rm home/catalogs/*.catalog");
    assert_eq!(night(&lab, 2)["method"], "full");
    is_silent_incremental(&night(&lab, 3));
    comes_back(&lab, "t", &lab.path("tree"));
}

/// The same where the tape is at hand and has the names no more, either: they are lost, so a full backup is made, and says why. What
/// builds on them is damaged from then on, so no rule gives up the last whole version for its sake.
#[test]
fn a_base_whose_names_are_lost_is_replaced_by_a_full_and_takes_no_place() {
    let lab = Lab::new();
    Library::create(&lab.path("vtl"), &library_of(1, 5), 5).unwrap();
    for n in 0..3000 {
        lab.file(&format!("tree/{n:04}"), format!("{n}"));
    }
    lab.backed_up(["tree", "--to", "whole", "--name", "t"]);
    let whole = lab.run(["versions", "t", "--json"]).ok().rows()[0]["session"].clone();
    let to_tape = ["tree", "--to", "vtape:vtl", "--name", "t"];
    assert_eq!(lab.backup([&to_tape[..], &["--full"]].concat())["method"], "full");
    lab.file("tree/new", "new");
    assert_eq!(lab.backup(to_tape)["method"], "incr");
    hurt_catalogs(&lab);
    // All frames of the first session.
    let tape = lab.path("vtl/tapes/V00001L9.tape");
    let mut bytes = std::fs::read(&tape).unwrap();
    let find = |what: &[u8]| -> Vec<usize> {
        let all = bytes.windows(what.len()).enumerate();
        all.filter(|(_, part)| *part == what).map(|(at, _)| at).collect()
    };
    let (frames, segments) = (find(b"CpFr"), find(b"CpMA\x01\x01"));
    for at in frames.into_iter().filter(|at| *at < segments[1]) {
        bytes[at + 12] ^= 0x55;
    }
    std::fs::write(&tape, bytes).unwrap();
    let first = lab.backed_up(to_tape);
    let [said] = first["errors"].as_array().unwrap().as_slice() else { panic!("{first:#}") };
    let text = said["error"].as_str().unwrap();
    assert_eq!((&said["code"], &first["method"]), (&"no-base".into(), &"full".into()), "{first:#}");
    assert!(text.contains("a full backup is made") && text.contains("damaged"), "{text}");
    comes_back(&lab, "t", &lab.path("tree"));
    // The two that are damaged take no place of a rule.
    let pruned = lab.run(["prune", "t", "--keep-last", "2"]);
    assert_eq!(pruned.code, 3, "{}", pruned.stderr);
    let versions = lab.run(["versions", "t", "--json"]).ok().rows();
    let damaged = versions.iter().filter(|v| v["state"] == "damaged").count();
    assert_eq!((versions.len(), damaged), (4, 2), "{versions:#?}");
    assert!(versions.iter().any(|v| v["session"] == whole), "{versions:#?}");
    // From another tape on the nights are incrementals again.
    lab.backed_up(to_tape);
    lab.file("tree/newer", "newer");
    is_silent_incremental(&lab.backed_up(to_tape));
    comes_back(&lab, "t", &lab.path("tree"));
}
