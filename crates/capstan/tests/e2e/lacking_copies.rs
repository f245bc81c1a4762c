//! Copies that lack something, as what they were copied from was damaged: they stand for no original, and are filled later.

use std::fs;

use serde_json::Value;

use crate::support::{Lab, Run, below, noise, report};

const LEN: usize = 2_000_000;

/// A tree with a backup of it on medium `m`.
fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, LEN));
    lab.file("tree/b", "x");
    lab.backed_up(["tree", "--to", "m", "--name", "d"]);
    lab
}

/// Turns a byte in the middle of a segment of medium `m` round; a second time back.
fn flip(lab: &Lab, segment: u32) {
    let path = lab.path(format!("m/{segment:08}.segment"));
    let mut bytes = fs::read(&path).unwrap();
    bytes[LEN / 2] ^= 0xff;
    fs::write(&path, bytes).unwrap();
}

/// Copies, with that exit code; says what was written.
fn copy(lab: &Lab, code: i32) -> u64 {
    let run = lab.run(["copy", "d", "--to", "m2", "--json"]);
    assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
    report(run)["bytes_written"].as_u64().unwrap()
}

fn status(lab: &Lab) -> (i32, String) {
    let run = lab.run(["status", "--json"]);
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    (run.code, json["objects"][0]["why"].to_string())
}

fn restores(lab: &Lab) -> Run {
    let run = lab.run(["restore", "d", "--into", "out"]);
    if run.code == 0 {
        let out = below(&lab.path("out"), &lab.path("tree"));
        assert_eq!(fs::read(out.join("a")).unwrap(), fs::read(lab.path("tree/a")).unwrap());
    }
    fs::remove_dir_all(lab.path("out")).unwrap();
    run
}

#[test]
fn what_is_left_in_a_copy_that_lacks_something_is_not_whole() {
    let lab = lab();
    flip(&lab, 1);
    assert!(copy(&lab, 3) > 0);
    let (code, why) = status(&lab);
    assert!(code == 6 && why.contains("'m2' lacks something"), "{why}");
    assert!(why.contains("was found damaged on med"), "{why}");
    // It is not written once more as long as it would lack as much.
    assert_eq!(copy(&lab, 3), 0);
    lab.sh("mv m gone");
    let run = lab.run(["media", "forget", "m"]);
    assert!(run.ok().stdout.contains("1 are not whole any more"), "{}", run.stdout);
    let (code, why) = status(&lab);
    assert!(code == 6 && why.contains("no complete version"), "{why}");
    assert_eq!(restores(&lab).code, 3);
    // What is a copy of it lacks as much.
    let run = lab.run(["copy", "d", "--to", "m3"]);
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
    lab.sh("mv m2 gone2");
    lab.run(["media", "forget", "m2"]).ok();
    assert_eq!(status(&lab).0, 6);
    // The copy says so itself.
    lab.sh("mv gone2 m2; rm -r home");
    lab.run(["import", "m2"]);
    let (code, why) = status(&lab);
    assert!(code == 6 && why.contains("no complete version"), "{why}");
    // The original is whole.
    lab.sh("mv gone m");
    flip(&lab, 1);
    lab.run(["import", "m"]).ok();
    assert_eq!(status(&lab).0, 5);
    restores(&lab).ok();
}

#[test]
fn what_a_copy_lacks_comes_when_it_can_be_had() {
    for args in [
        &["copy", "d", "--to", "m2"][..],
        &["copy", "--medium", "m", "--to", "m2"],
        &["media", "copy", "m", "--to", "m2"],
        &["media", "repair", "m2"],
    ] {
        let lab = lab();
        flip(&lab, 1);
        assert!(copy(&lab, 3) > 0);
        flip(&lab, 1);
        lab.run(args).ok();
        assert_eq!(copy(&lab, 0), 0, "{args:?}");
        lab.run(["verify", "--medium", "m"]).ok();
        let (code, why) = status(&lab);
        assert_eq!(code, 0, "{args:?}: {why}");
        lab.sh("mv m gone");
        restores(&lab).ok();
        let run = lab.run(["media", "forget", "m"]);
        assert!(!run.ok().stdout.contains("not whole"), "{}", run.stdout);
        assert_eq!(status(&lab).0, 0, "{args:?}");
    }
}

#[test]
fn no_medium_has_what_another_lacks_in_a_copy_that_lacks_it_too() {
    let lab = lab();
    lab.file("tree/a", noise(2, LEN));
    lab.backed_up(["tree", "--to", "m", "--name", "d", "--full"]);
    flip(&lab, 2);
    assert!(copy(&lab, 3) > 0);
    fs::remove_file(lab.path("m/00000002.segment")).unwrap();
    let (code, why) = status(&lab);
    assert!(code == 6 && why.contains("stand still"), "{why}");
    let run = lab.run(["prune", "--keep-last", "1"]);
    assert!(run.code == 3 && run.stderr.contains("stand still"), "{}{}", run.stdout, run.stderr);
    assert!(lab.path("m/00000001.segment").exists());
}

#[test]
fn a_repair_that_cannot_mend_does_not_take_the_place_of_what_is_lost() {
    let lab = lab();
    flip(&lab, 1);
    assert!(copy(&lab, 3) > 0);
    fs::remove_file(lab.path("m/00000001.segment")).unwrap();
    let run = lab.run(["media", "repair", "m", "--as-it-is"]);
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
    assert!(!lab.path("m/00000001.segment").exists());
    // Nothing builds on what is not whole.
    lab.file("tree/b", "y");
    let done = lab.backup(["tree", "--to", "m", "--name", "d"]);
    assert_eq!(done["method"], "full", "{done:#}");
    restores(&lab).ok();
    lab.file("tree/b", "z");
    lab.backed_up(["tree", "--to", "m", "--name", "d"]);
    restores(&lab).ok();
    assert!(!lab.path("m/00000001.segment").exists());
}

/// Turns a byte in the middle of each segment of a medium that has the large file.
fn damage(lab: &Lab, medium: &str) {
    for entry in fs::read_dir(lab.path(medium)).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = fs::read(&path).unwrap();
        if bytes.len() > LEN {
            bytes[LEN / 2] ^= 0xff;
            fs::write(&path, bytes).unwrap();
        }
    }
}

/// Blank media, in the order of their ids: that in which the database has the places of a session.
fn media_by_id(lab: &Lab) -> Vec<String> {
    for label in ["x", "y", "z"] {
        lab.run(["media", "init", label]).ok();
    }
    let listed = lab.run(["media", "list", "--json"]).ok().stdout.clone();
    let json: Value = serde_json::from_str(&listed).unwrap();
    let text = |of: &Value| of.as_str().unwrap().to_owned();
    let mut all: Vec<(String, String)> = json["media"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| (text(&m["id"]), text(&m["label"])))
        .collect();
    all.sort();
    all.into_iter().map(|(_, label)| label).collect()
}

/// The original is on no medium any more: a repair wrote it anew. What that was copied to lacks a frame, and another copy is whole.
#[test]
fn a_copy_that_lacks_something_stands_for_none_that_is_whole() {
    for nth in 0..3 {
        let lab = Lab::new();
        let mut media = media_by_id(&lab);
        let lacking = media.remove(nth);
        let [mended, whole] = [&media[0], &media[1]];
        lab.file("tree/a", noise(1, LEN));
        lab.file("tree/b", "x");
        lab.backed_up(["tree", "--to", mended, "--name", "d"]);
        lab.file("tree/b", "y");
        lab.backed_up(["tree", "--to", mended, "--name", "d", "--incr"]);
        lab.run(["copy", "d", "--to", whole]).ok();
        damage(&lab, mended);
        lab.run(["media", "repair", mended]).ok();
        damage(&lab, mended);
        lab.sh(&format!("mv {whole} away"));
        let run = lab.run(["media", "retire", mended, "--to", &lacking]);
        assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
        // What no place at hand has is in no full.
        assert_eq!(restores(&lab).code, 3);
        let run = lab.run(["consolidate", "d", "--to", "made"]);
        assert_eq!(run.code, 1, "{}{}", run.stdout, run.stderr);
        let away = format!("cannot read medium '{whole}'");
        assert!(run.stderr.contains(&away), "{}", run.stderr);
        lab.sh(&format!("mv away {whole}"));
        restores(&lab).ok();
        lab.run(["copy", "d", "--to", "copied"]).ok();
        lab.run(["consolidate", "d", "--to", "made"]).ok();
        lab.sh("mkdir aside; mv x y z copied aside");
        lab.run(["verify", "d"]).ok();
        restores(&lab).ok();
    }
}
