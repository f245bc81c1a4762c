//! Damage on a medium costs those backups that would build on it a full, once, and no others: what lies beside it is built on.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use serde_json::Value;

use crate::gone_media::{status, why};
use crate::support::{Lab, noise};

/// Turns a bit of a file around: in its middle, if nothing else is said.
fn flip(path: &Path, at: Option<u64>) {
    let file = File::options().read(true).write(true).open(path).unwrap();
    let at = at.unwrap_or(file.metadata().unwrap().len() / 2);
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 1], at).unwrap();
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("o/a", noise(1, 300_000));
    lab.file("p/a", noise(2, 300_000));
    lab
}

fn backup(lab: &Lab, name: &str, more: &[&str]) -> Value {
    lab.backed_up([&[name, "--to", "m", "--name", name][..], more].concat())
}

/// The levels of the next night of both objects.
fn night(lab: &Lab, n: u32) -> [String; 2] {
    ["o", "p"].map(|name| {
        lab.file(&format!("{name}/{n}"), format!("{n}"));
        backup(lab, name, &[])["method"].as_str().unwrap().to_owned()
    })
}

fn finds(lab: &Lab, line: &str) {
    let run = lab.run(line.split(' '));
    assert_eq!(run.code, 3, "{line}: {}{}", run.stdout, run.stderr);
}

fn is_damaged(lab: &Lab, label: &str) -> bool {
    let rows = lab.run(["media", "list", "--json"]).ok().rows();
    rows.iter().any(|row| row["label"] == label && row["state"] == "damaged")
}

/// Removes all versions of an object that are not whole.
fn give_up_damaged(lab: &Lab, keep: &str) {
    lab.run(["protect", "o", "--not-whole", "--none"]).ok();
    lab.run(["prune", "o", "--keep-last", keep]).ok();
}

fn session(report: &Value) -> String {
    format!("o@{}", &report["session"].as_str().unwrap()[..8])
}

#[test]
fn damage_to_an_old_version_costs_no_full() {
    for find in ["verify OLD", "verify --medium m", "restore OLD --into x"] {
        let lab = lab();
        let old = session(&backup(&lab, "o", &["--full"]));
        backup(&lab, "p", &[]);
        backup(&lab, "o", &["--full"]);
        flip(&lab.path("m/00000001.segment"), None);
        finds(&lab, &find.replace("OLD", &old));
        for n in 0..3 {
            assert_eq!(night(&lab, n), ["incr", "incr"], "{find}: night {n}");
        }
        // The medium is named as long as it has the damage, with what helps.
        assert!(is_damaged(&lab, "m"), "{find}");
        let (code, json) = status(&lab);
        assert_eq!(code, 5, "{find}: {json:#}");
        for said in ["medium 'm'", "was found damaged", "`capstan media repair m`"] {
            assert!(why(&json).contains(said), "{find}: {said}: {json:#}");
        }
        // A backup does not clear it, nor does reading it once more.
        finds(&lab, "verify --medium m");
        assert_eq!(night(&lab, 3), ["incr", "incr"], "{find}");
        assert!(is_damaged(&lab, "m"), "{find}");
        // It goes with the version that has it.
        give_up_damaged(&lab, "9");
        assert!(!lab.path("m/00000001.segment").exists(), "{find}");
        assert!(!is_damaged(&lab, "m"), "{find}");
        let (code, json) = status(&lab);
        assert_eq!(code, 0, "{find}: {json:#}");
        assert_eq!(night(&lab, 4), ["incr", "incr"], "{find}");
        lab.run(["verify", "--medium", "m"]).ok();
        lab.run(["idb", "check"]).ok();
    }
}

#[test]
fn damage_to_what_a_backup_builds_on_costs_one_full() {
    for find in ["verify o", "verify --medium m", "restore o --into x"] {
        let lab = lab();
        backup(&lab, "o", &[]);
        backup(&lab, "p", &[]);
        lab.file("o/b", "b");
        assert_eq!(backup(&lab, "o", &[])["method"], "incr");
        flip(&lab.path("m/00000001.segment"), None);
        finds(&lab, find);
        lab.file("o/c", "c");
        let full = backup(&lab, "o", &[]);
        let said = full["errors"].to_string();
        assert_eq!(full["method"], "full", "{find}: {full:#}");
        assert!(said.contains("no-base") && said.contains("on medium 'm'"), "{find}: {said}");
        for n in 0..2 {
            assert_eq!(night(&lab, n), ["incr", "incr"], "{find}: night {n}");
        }
        let asked = backup(&lab, "o", &["--incr"]);
        assert_eq!((&asked["method"], &asked["errors"]), (&"incr".into(), &Value::Array(vec![])));
        give_up_damaged(&lab, "9");
        assert!(!is_damaged(&lab, "m"), "{find}");
        assert_eq!(night(&lab, 2), ["incr", "incr"], "{find}");
        lab.restored(["o", "--into", "out"]);
        assert_eq!(status(&lab).0, 0, "{find}");
    }
}

/// The mark stays while another segment of the medium has damage.
#[test]
fn the_mark_goes_with_the_last_damage() {
    let lab = lab();
    let first = session(&backup(&lab, "o", &["--full"]));
    let second = session(&backup(&lab, "o", &["--full"]));
    backup(&lab, "o", &["--full"]);
    for n in 1..3 {
        flip(&lab.path(format!("m/0000000{n}.segment")), None);
    }
    finds(&lab, "verify --medium m");
    for (version, left) in [(first, true), (second, false)] {
        lab.run(["protect", &version, "--none"]).ok();
        lab.run(["prune", "o", "--keep-last", "9"]);
        assert_eq!(is_damaged(&lab, "m"), left, "{version}");
    }
}

#[test]
fn damage_that_another_medium_has_whole_costs_no_full() {
    let lab = lab();
    for name in ["o", "p"] {
        backup(&lab, name, &[]);
    }
    lab.run(["copy", "o", "--to", "c"]).ok();
    flip(&lab.path("m/00000001.segment"), None);
    lab.run(["verify", "o"]);
    assert!(is_damaged(&lab, "m"));
    for n in 0..3 {
        assert_eq!(night(&lab, n), ["incr", "incr"], "night {n}");
    }
    lab.restored(["o", "--into", "out"]);
    lab.run(["media", "repair", "m"]).ok();
    assert!(!is_damaged(&lab, "m"));
    assert_eq!(night(&lab, 3), ["incr", "incr"]);
}

#[test]
fn damage_on_one_side_of_a_mirror_costs_no_full() {
    let lab = lab();
    let mirror = ["--mirror", "n"];
    backup(&lab, "o", &mirror);
    flip(&lab.path("m/00000001.segment"), None);
    lab.run(["verify", "o"]);
    assert!(is_damaged(&lab, "m"));
    for n in 0..3 {
        lab.file(&format!("o/{n}"), format!("{n}"));
        assert_eq!(backup(&lab, "o", &mirror)["method"], "incr", "night {n}");
    }
}

/// A tape with damage is not written any more, and what lies soundly on it is built on, from another one.
#[test]
fn what_lies_beside_damage_on_tape_is_built_on_from_another_tape() {
    let lab = lab();
    lab.run(["vtl", "create", "vtl", "--drives", "2", "--tapes", "4", "--scale", "1000"]).ok();
    let backup = |name: &str| lab.backed_up([name, "--to", "vtape:vtl", "--name", name]);
    let first = backup("o")["media"][0].clone();
    backup("p");
    let tape = lab.path("vtl/tapes/V00001L9.tape");
    let (bytes, data) = (fs::read(&tape).unwrap(), noise(1, 300_000));
    let at = bytes.windows(64).position(|part| part == &data[1000..1064]).unwrap();
    flip(&tape, Some(at as u64));
    finds(&lab, "verify o");
    assert!(is_damaged(&lab, "V00001L9"));
    for (n, o) in ["full", "incr"].into_iter().enumerate() {
        for (name, method) in [("o", o), ("p", "incr")] {
            lab.file(&format!("{name}/{n}"), format!("{n}"));
            let done = backup(name);
            assert_eq!(done["method"], method, "{name}, night {n}: {done:#}");
            assert!(!done["media"].as_array().unwrap().contains(&first), "{done:#}");
        }
    }
    assert!(is_damaged(&lab, "V00001L9"));
    lab.restored(["p", "--into", "out"]);
}
