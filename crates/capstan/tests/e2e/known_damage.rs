//! Versions that a session found damaged: they push no whole version out, and status alarms.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::gone_media::{full, restores, status, why};
use crate::support::{Lab, noise, report};

/// Damages what the newest segment of a medium holds, not its begin nor its catalog.
pub fn damage(medium: &Path) {
    let all = fs::read_dir(medium).unwrap().map(|e| e.unwrap().path());
    let path = all.filter(|p| p.extension().is_some_and(|e| e == "segment")).max().unwrap();
    let mut bytes = fs::read(&path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(path, bytes).unwrap();
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 200_000));
    lab
}

/// What a prune says: its code, what it removed, and what it told people.
fn prune(lab: &Lab) -> (i32, u64, String) {
    let run = lab.run(["prune", "t", "--keep-last", "1", "--json"]);
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    let versions = json["versions"].as_array().unwrap();
    let gone = versions.iter().filter(|v| v["action"] == "remove").count() as u64;
    (run.code, gone, run.stderr)
}

#[test]
fn a_version_that_was_found_damaged_pushes_no_whole_one_out() {
    for finds in [
        "verify t",
        "verify --medium m",
        "drill t --sample 100%",
        "restore t --into x",
        "copy t --to c",
    ] {
        let lab = lab();
        let first = full(&lab, "m", "t");
        let last = full(&lab, "m", "t");
        damage(&lab.path("m"));
        let found = lab.run(finds.split(' '));
        assert_eq!(found.code, 3, "{finds}: {}{}", found.stdout, found.stderr);
        // What a copy made of it is no whole one either.
        let (code, json) = status(&lab);
        assert_eq!(code, 6, "{finds}: {json:#}");
        assert!(why(&json).contains("was found damaged on med"), "{finds}: {json:#}");
        for look in ["status", "verify --medium c"] {
            lab.run(look.split(' '));
            let (code, removed, said) = prune(&lab);
            assert_eq!((code, removed), (3, 0), "{finds}: {said}");
            assert!(said.contains(&last) && said.contains("media repair"), "{finds}: {said}");
        }
        restores(&lab, &first);
        // A later one that is whole lets the rules go on; what is damaged waits for somebody.
        let later = full(&lab, "m2", "t");
        let (code, removed, said) = prune(&lab);
        assert_eq!((code, removed), (3, 1), "{finds}: {said}");
        lab.run(["protect", &last, "--none"]).ok();
        let (code, removed, said) = prune(&lab);
        assert_eq!((code, removed), (0, 1), "{finds}: {said}");
        restores(&lab, &later);
        let (_, json) = status(&lab);
        assert!(!why(&json).contains("found damaged"), "{finds}: {json:#}");
    }
}

#[test]
fn a_version_that_a_copy_has_whole_or_that_was_repaired_counts() {
    let lab = lab();
    full(&lab, "m", "t");
    let last = full(&lab, "m", "t");
    lab.sh("cp -a m sound");
    damage(&lab.path("m"));
    assert_eq!(lab.run(["verify", "t"]).code, 3);
    assert_eq!(prune(&lab).0, 3);
    // Sound again, and read so: somebody brought the disk's own bytes back.
    lab.sh("cp -a m hurt; cp sound/*.segment m/");
    lab.run(["verify", "t"]).ok();
    lab.run(["copy", "t", "--to", "c"]).ok();
    lab.sh("cp hurt/*.segment m/");
    assert_eq!(lab.run(["verify", "t"]).code, 3);
    let (code, json) = status(&lab);
    assert_eq!(code, 5, "the copy has it: {json:#}");
    let repaired = lab.run(["media", "repair", "m"]);
    repaired.ok();
    assert_eq!(status(&lab).0, 0);
    let (code, removed, said) = prune(&lab);
    assert_eq!((code, removed), (0, 1), "{said}");
    restores(&lab, &last);
}

#[test]
fn damage_to_what_the_last_version_builds_on_alarms() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "b", "--name", "t"]);
    lab.file("tree/new", "new");
    lab.backed_up(["tree", "--to", "a", "--name", "t", "--incr"]);
    damage(&lab.path("b"));
    assert_eq!(lab.run(["verify", "t"]).code, 3);
    let (code, json) = status(&lab);
    assert_eq!(code, 6, "{json:#}");
    assert!(why(&json).contains("found damaged on medium 'b'"), "{json:#}");
    // A drill of it, and a new full, which needs nothing of it.
    full(&lab, "a", "t");
    let (code, json) = status(&lab);
    assert_eq!(code, 0, "{json:#}");
}

#[test]
fn all_that_is_not_whole_is_given_up_by_one_command() {
    let lab = lab();
    full(&lab, "m", "t");
    for day in 0..5 {
        lab.file("tree/b", noise(10 + day, 2_000));
        lab.backed_up(["tree", "--to", "m", "--name", "t", "--incr"]);
    }
    // Of the full, on which the others build.
    let first = lab.path("m/00000001.segment");
    let mut bytes = fs::read(&first).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(first, bytes).unwrap();
    assert_eq!(lab.run(["verify", "t"]).code, 3);
    full(&lab, "m", "t");
    let (code, removed, said) = prune(&lab);
    assert_eq!((code, removed), (3, 0), "{said}");
    assert!(said.contains("(and 5 more)"), "{said}");
    let command = said.split('`').find(|part| part.starts_with("capstan protect")).unwrap();
    assert_eq!(command, "capstan protect t --not-whole --none");
    let json: Value = serde_json::from_str(
        &lab.run(["protect", "t", "--not-whole", "--none", "--json"]).ok().stdout,
    )
    .unwrap();
    assert_eq!(json["versions"].as_array().unwrap().len(), 6, "{json:#}");
    let (code, removed, said) = prune(&lab);
    assert_eq!((code, removed), (0, 6), "{said}");
    restores(&lab, "t");
    let none = lab.run(["protect", "t", "--not-whole", "--none"]);
    assert_eq!(none.ok().stdout, "all its versions are whole, as far as is known\n");
    assert_eq!(lab.run(["protect", "t@1f2e3d4c", "--not-whole", "--none"]).code, 2);
}

/// A drive read badly, or somebody brought the disk's own bytes back: what says so names the command that reads it again, and that clears
/// the mark.
#[test]
fn what_is_read_soundly_later_loses_its_mark_by_the_command_that_is_named() {
    let lab = lab();
    let last = full(&lab, "m", "t");
    lab.sh("cp -a m sound");
    damage(&lab.path("m"));
    assert_eq!(lab.run(["restore", "t", "--into", "x"]).code, 3);
    assert_eq!(status(&lab).0, 6);
    lab.sh("cp sound/*.segment m/");
    let restored = lab.restored(["t", "--into", "y"]);
    let named = "`capstan verify --medium m`";
    assert!(restored["notes"].to_string().contains(named), "{restored:#}");
    // A restore reads what its files need, so it says no more than that.
    let (code, json) = status(&lab);
    assert!(code == 6 && why(&json).contains(named), "{json:#}");
    // A verification of the version clears what it read; of the medium something else may be damaged.
    lab.run(["verify", "t"]).ok();
    let (code, json) = status(&lab);
    assert!(code == 5 && why(&json).contains(named), "{json:#}");
    lab.run(["verify", "--medium", "m"]).ok();
    let (code, json) = status(&lab);
    assert_eq!(code, 0, "{json:#}");
    let restored = lab.restored(["t", "--into", "z"]);
    assert!(!restored["notes"].to_string().contains("damage"), "{restored:#}");
    restores(&lab, &last);
}

/// The newest version lacks a path. Who tells which one still has it names none that is known to be damaged there as the one to take.
#[test]
fn no_damaged_version_is_advised_for_what_the_newest_lacks() {
    let lab = lab();
    lab.file("disk/b", noise(2, 200_000));
    let backup = |to: &str| {
        let run =
            lab.run(["backup", "tree", "disk", "--to", to, "--name", "t", "--full", "--json"]);
        report(run)["session"].as_str().unwrap()[..8].to_owned()
    };
    let (first, second) = (backup("m1"), backup("m2"));
    lab.sh("mv disk away");
    backup("m3");
    let says = |parts: &[&str]| {
        let status = lab.run(["status", "t"]).stdout;
        lab.sh("rm -rf out");
        let restored = lab.run(["restore", "t", "--into", "out"]).stderr;
        for part in parts {
            let part = part.replace("{1}", &first).replace("{2}", &second);
            assert!(status.contains(&part), "{part}: {status}");
            assert!(restored.contains(&part), "{part}: {restored}");
        }
    };
    says(&["the last version that has /", "is t@{2}"]);
    damage(&lab.path("m2"));
    assert_eq!(lab.run(["verify", "--medium", "m2"]).code, 3);
    says(&[
        "the last whole version that has /",
        "is t@{1}; t@{2} has",
        "found damaged on medium 'm2'",
    ]);
    let path = lab.path("disk/b").display().to_string();
    let versions = || lab.run(["versions", &format!("t:{path}")]).ok().stdout.clone();
    let line = |of: &str| versions().lines().find(|l| l.contains(of)).unwrap().to_owned();
    assert!(line(&second).contains("(version is damaged)"), "{}", versions());
    assert!(!line(&first).contains("(version"), "{}", versions());
    let found = lab.run(["find", "b", "--all-versions", "--json"]).ok().stdout.clone();
    assert_eq!(found.matches("\"version_state\":\"damaged\"").count(), 1, "{found}");
    damage(&lab.path("m1"));
    assert_eq!(lab.run(["verify", "--medium", "m1"]).code, 3);
    says(&["no whole version has /", "t@{2} has it, but was found damaged"]);
    // Of one that is gone nothing is said.
    lab.sh("rm -r m2");
    lab.run(["media", "forget", "m2"]).ok();
    says(&["no whole version has /", "t@{1} has it, but was found damaged"]);
}
