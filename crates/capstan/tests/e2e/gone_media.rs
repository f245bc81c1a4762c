//! Disks that are at hand and lack something of what was written to them: nothing is given up, and somebody is told, before the next
//! backup would find it.

use std::fs;

use serde_json::Value;

use crate::changed_media::{codes, copy_home, run_of, state};
use crate::support::{Lab, Run, below, noise, report};

/// A tree with three fulls of it on a medium, and their sessions.
fn lab() -> (Lab, Vec<String>) {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 200_000));
    let sessions = (0..3).map(|_| full(&lab, "m", "t")).collect();
    (lab, sessions)
}

pub fn full(lab: &Lab, to: &str, name: &str) -> String {
    let done = lab.backed_up(["tree", "--to", to, "--name", name, "--full"]);
    format!("{name}@{}", &done["session"].as_str().unwrap()[..8])
}

pub fn status(lab: &Lab) -> (i32, Value) {
    let run = lab.run(["status", "--json"]);
    (run.code, serde_json::from_str(&run.stdout).unwrap())
}

pub fn why(status: &Value) -> String {
    status["objects"].as_array().unwrap().iter().map(|o| o["why"].to_string()).collect()
}

/// A prune that says so and gives nothing up.
fn stands_still(lab: &Lab, says: &str) {
    for more in [&[][..], &["--dry-run"]] {
        let run = lab.run([&["prune", "--keep-last", "1", "--json"], more].concat());
        assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains("stand still") && run.stderr.contains(says), "{}", run.stderr);
        let json: Value = serde_json::from_str(&run.stdout).unwrap();
        let kept = |v: &Value| v["action"] == "keep";
        assert!(json["versions"].as_array().unwrap().iter().all(kept), "{json:#}");
        assert_eq!(json["media_away"][0]["label"], "m", "{json:#}");
    }
}

pub fn restores(lab: &Lab, version: &str) {
    lab.restored([version, "--into", "out"]);
    let out = below(&lab.path("out"), &lab.path("tree"));
    assert_eq!(fs::read(out.join("a")).unwrap(), noise(1, 200_000));
    fs::remove_dir_all(lab.path("out")).unwrap();
}

#[test]
fn segments_that_went_away_cost_no_version() {
    // What happens, its undoing, what is said, and whether the last version needs what is gone.
    for (change, undo, says, critical) in [
        ("mkdir hold; mv m/*.segment hold/", "mv hold/* m/", "segment 3", true),
        ("mv m/00000003.segment hold", "mv hold m/00000003.segment", "segment 3", true),
        ("mv m/00000001.segment hold", "mv hold m/00000001.segment", "segment 1 is missing", false),
        ("mv m/00000002.segment hold", "mv hold m/00000002.segment", "segment 2 is missing", false),
        (
            "cp m/00000002.segment hold; truncate -s -4096 m/00000002.segment",
            "mv hold m/00000002.segment",
            "segment 2 is missing or cut short",
            false,
        ),
        (
            "mv m/00000002.segment hold; mkfifo m/00000002.segment",
            "mv hold m/00000002.segment",
            "segment 2",
            false,
        ),
    ] {
        let (lab, versions) = lab();
        lab.run(["status"]).ok();
        lab.sh(change);
        let (code, json) = status(&lab);
        assert_eq!(code, if critical { 6 } else { 5 }, "{change}: {json:#}");
        assert!(why(&json).contains(says) && why(&json).contains("stand still"), "{json:#}");
        stands_still(&lab, says);
        assert_eq!(state(&lab, "m") == "changed", critical, "{change}");
        // What is gone is named where it is wanted, with what can be done.
        if critical {
            let run = lab.run(["restore", "t", "--into", "lost"]);
            let said = format!("{}{}", run.stdout, run.stderr);
            assert!(run.code != 0, "{said}");
            assert!(said.contains("not as it was last written"), "{change}: {said}");
            assert!(said.contains("capstan import"), "{said}");
            let _ = fs::remove_dir_all(lab.path("lost"));
        }
        lab.sh(undo);
        let (code, json) = status(&lab);
        assert_eq!(code, 0, "{undo}: {json:#}");
        assert_eq!(state(&lab, "m"), "appendable");
        let pruned = lab.run(["prune", "--keep-last", "1"]);
        assert!(pruned.ok().stdout.contains("2 versions removed, 0 marked, 1 kept"));
        restores(&lab, &versions[2]);
        lab.run(["verify", "t"]).ok();
    }
}

#[test]
fn an_older_copy_in_the_place_of_a_disk_costs_no_version() {
    let (lab, versions) = lab();
    lab.sh("cp -a m older");
    let last = full(&lab, "m", "t");
    lab.sh("mv m disk; mv older m");
    let (code, json) = status(&lab);
    assert_eq!(code, 6, "{json:#}");
    assert!(why(&json).contains("segment 4"), "{json:#}");
    stands_still(&lab, "segment 4");
    lab.sh("mv m older; mv disk m");
    lab.run(["status"]).ok();
    let pruned = lab.run(["prune", "--keep-last", "2"]);
    assert!(pruned.ok().stdout.contains("2 versions removed, 0 marked, 2 kept"));
    for version in [&versions[2], &last] {
        restores(&lab, version);
    }
}

#[test]
fn what_another_medium_has_is_not_lost() {
    for copied in [false, true] {
        let lab = Lab::new();
        lab.file("tree/a", noise(1, 200_000));
        let mut versions = Vec::new();
        for _ in 0..2 {
            let to = ["tree", "--to", "m", "--name", "t", "--full"];
            let mirror = if copied { &[][..] } else { &["--mirror", "n"] };
            let done = lab.backed_up([&to, mirror].concat());
            versions.push(format!("t@{}", &done["session"].as_str().unwrap()[..8]));
            if copied {
                lab.run(["copy", versions.last().unwrap(), "--to", "n"]).ok();
            }
        }
        lab.sh("rm m/*.segment");
        let (code, json) = status(&lab);
        assert_eq!(code, 5, "somebody should look: {json:#}");
        assert!(why(&json).contains("other media have what it lacks"), "{json:#}");
        assert!(lab.run(["status"]).stdout.contains("capstan media repair 'm'"));
        restores(&lab, &versions[0]);
        // The rules decide, and nothing is removed from what was changed.
        let pruned = lab.run(["prune", "--keep-last", "2"]);
        assert!(pruned.ok().stdout.contains("0 versions removed, 0 marked, 2 kept"));
        lab.run(["media", "repair", "m", "--as-it-is"]).ok();
        let (code, json) = status(&lab);
        assert_eq!(code, 0, "{json:#}");
        lab.sh("mv n away");
        for version in &versions {
            restores(&lab, version);
        }
    }
}

#[test]
fn a_member_of_an_array_that_lost_files_is_no_loss() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 200_000));
    let to = "rait5:a,b,c";
    let version = full(&lab, to, "t");
    full(&lab, to, "t");
    lab.sh("mkdir one two; mv a/*.segment one/");
    let (code, json) = status(&lab);
    assert_eq!(code, 5, "{json:#}");
    assert!(why(&json).contains("rait rebuild"), "somebody should mend it: {json:#}");
    let pruned = lab.run(["prune", "--keep-last", "5"]);
    assert!(pruned.ok().stdout.contains("0 versions removed, 0 marked, 2 kept"));
    lab.sh("mv b/*.segment two/");
    let (code, json) = status(&lab);
    assert_eq!(code, 6, "{json:#}");
    let pruned = lab.run(["prune", "--keep-last", "1"]);
    assert_eq!(pruned.code, 3, "{}{}", pruned.stdout, pruned.stderr);
    assert!(pruned.stdout.contains("0 versions removed, 0 marked, 2 kept"), "{}", pruned.stdout);
    lab.sh("mv two/* b/");
    assert_eq!(status(&lab).0, 5);
    lab.sh("mv one/* a/");
    lab.run(["status"]).ok();
    restores(&lab, &version);
}

/// Of an array too, whatever lies behind it: segments of many stripes by the lengths of the members' files, small ones by a look.
#[test]
fn a_segment_cut_short_on_too_many_members_costs_no_version() {
    for (size, block, cut) in
        [(200_000, "512K", "-s 8192"), (9_000_000, "64K", "-s -1M"), (9_000_000, "64K", "-s -256K")]
    {
        for to in ["rait5:a,b,c", "rait1:a,b,c"] {
            let lab = Lab::new();
            lab.file("tree/a", noise(1, size));
            let backup = ["tree", "--to", to, "--name", "t", "--full", "--block-size", block];
            let versions: Vec<String> = (0..3)
                .map(|_| format!("t@{}", &lab.backed_up(backup)["session"].as_str().unwrap()[..8]))
                .collect();
            assert_eq!(status(&lab).0, 0);
            // The first; the last is looked at in any case.
            lab.sh(&format!("mkdir one two three; cp a/00000001.segment one; cp b/00000001.segment two; cp c/00000001.segment three; truncate {cut} a/00000001.segment"));
            let (code, json) = status(&lab);
            assert_eq!(code, 0, "one member may lack it: {json:#}");
            lab.sh(&format!("truncate {cut} b/00000001.segment c/00000001.segment"));
            let (code, json) = status(&lab);
            assert_eq!(code, 5, "{size} {cut} {to}: {json:#}");
            assert!(why(&json).contains("segment 1 is missing or cut short"), "{json:#}");
            let pruned = lab.run(["prune", "--keep-last", "1"]);
            assert_eq!(pruned.code, 3, "{}", said(&pruned));
            // What to do is said of what it is.
            assert!(pruned.stderr.contains("leaves the array as it is"), "{}", said(&pruned));
            assert!(
                pruned.stdout.contains("0 versions removed, 0 marked, 3 kept"),
                "{}",
                said(&pruned)
            );
            lab.sh("cp one/* a; cp two/* b; cp three/* c");
            assert_eq!(status(&lab).0, 0);
            let pruned = lab.run(["prune", "--keep-last", "1"]);
            assert!(pruned.ok().stdout.contains("2 versions removed, 0 marked, 1 kept"));
            lab.restored([versions[2].as_str(), "--into", "out"]);
        }
    }
}

fn said(run: &Run) -> String {
    format!("{}{}", run.stdout, run.stderr)
}

#[test]
fn what_another_home_removed_is_given_up_by_an_import_only() {
    let (lab, versions) = lab();
    copy_home(&lab);
    run_of(&lab, "other", &["prune", "--keep-last", "1"]).ok();
    let (code, json) = status(&lab);
    assert_eq!(code, 5, "the last is there: {json:#}");
    assert!(why(&json).contains("segments 1 and 2 are missing"), "{json:#}");
    stands_still(&lab, "capstan import");
    restores(&lab, &versions[2]);
    let taken = report(lab.run(["import", "m", "--json"]));
    assert_eq!(codes(&taken), ["medium-changed"; 2], "{taken:#}");
    for version in &versions[..2] {
        assert!(taken["notes"].to_string().contains(version), "{taken:#}");
    }
    lab.run(["status"]).ok();
    let pruned = lab.run(["prune", "--keep-last", "5"]);
    assert!(pruned.ok().stdout.contains("0 versions removed, 0 marked, 1 kept"));
    lab.run(["idb", "check"]).ok();
    restores(&lab, &versions[2]);
}

/// A medium that was taken as it is has the rest of versions: these push no whole one out.
#[test]
fn what_is_not_whole_any_more_pushes_no_whole_version_out() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 200_000));
    let whole = full(&lab, "n", "t");
    full(&lab, "m", "t");
    lab.file("tree/b", noise(2, 1000));
    let done = lab.backed_up(["tree", "--to", "m", "--name", "t", "--incr"]);
    let torn = format!("t@{}", &done["session"].as_str().unwrap()[..8]);
    lab.sh("mv m/00000001.segment hold");
    let taken = report(lab.run(["import", "m", "--json"]));
    assert!(taken["notes"].to_string().contains(&torn), "{taken:#}");
    let listed = lab.run(["sessions"]).ok().stdout.clone();
    assert!(listed.contains("not whole"), "{listed}");
    let (code, json) = status(&lab);
    assert_eq!(code, 5, "{json:#}");
    assert!(why(&json).contains("had lost something of it"), "{json:#}");
    let pruned = lab.run(["prune", "--keep-last", "1"]);
    assert!(
        pruned.ok().stdout.contains("0 versions removed, 0 marked, 2 kept"),
        "{}",
        said(&pruned)
    );
    restores(&lab, "t");
    restores(&lab, &whole);
    // Nothing builds on it.
    let next = lab.backup(["tree", "--to", "m", "--name", "t"]);
    assert_eq!(next["method"], "full", "{next:#}");
    lab.run(["status"]).ok();
    let pruned = lab.run(["prune", "--keep-last", "5"]);
    assert!(
        pruned.ok().stdout.contains("1 version removed, 0 marked, 2 kept"),
        "{}",
        said(&pruned)
    );
    assert!(pruned.stderr.contains("'m' has lost some of its data"), "{}", said(&pruned));
}

/// What was given up may be gone; what a version that stays builds on may not.
#[test]
fn what_was_given_up_may_be_gone() {
    let (lab, versions) = lab();
    lab.run(["media", "export", "m"]).ok();
    lab.sh("mv m away");
    // Marked, and removed at a later prune.
    let pruned = lab.run(["prune", "--keep-last", "1"]);
    assert!(pruned.ok().stdout.contains("2 versions removed"), "{}", said(&pruned));
    lab.sh("mv away m; rm m/00000001.segment m/00000002.segment");
    lab.run(["import", "m"]).ok();
    lab.run(["status"]).ok();
    lab.run(["prune", "--keep-last", "1"]).ok();
    restores(&lab, &versions[2]);
    lab.file("tree/b", noise(2, 1000));
    lab.backed_up(["tree", "--to", "m", "--name", "t", "--incr"]);
    // The full is marked, as the incremental needs it.
    lab.run(["prune", "--keep-last", "1"]).ok();
    lab.sh("mv m/00000003.segment hold");
    let (code, json) = status(&lab);
    assert_eq!(code, 6, "{json:#}");
    let pruned = lab.run(["prune", "--keep-last", "1"]);
    assert_eq!(pruned.code, 3, "{}", said(&pruned));
    lab.sh("mv hold m/00000003.segment");
    lab.run(["status"]).ok();
}

#[test]
fn a_look_at_a_medium_opens_only_its_last_segment() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 10_000));
    for _ in 0..12 {
        full(&lab, "m", "t");
    }
    if !lab.succeeds("strace -V >/dev/null 2>&1") {
        return crate::support::skip("strace is not there");
    }
    let capstan = lab.command();
    for args in [&["status"][..], &["prune", "--keep-last", "50"]] {
        let mut command = std::process::Command::new("strace");
        command.args(["-f", "-e", "trace=openat,open", "-o"]).arg(lab.path("trace"));
        command.arg(capstan.get_program()).args(args);
        for (name, value) in capstan.get_envs() {
            value.map(|value| command.env(name, value));
        }
        crate::support::finish(command.current_dir(lab.path(""))).ok();
        let trace = fs::read_to_string(lab.path("trace")).unwrap();
        let opened: Vec<&str> = trace.lines().filter(|l| l.contains(".segment")).collect();
        let others = opened.iter().filter(|l| !l.contains("00000012.segment")).count();
        assert_eq!(others, 0, "{opened:#?}");
        assert!(!opened.is_empty(), "{trace}");
    }
}

#[test]
fn a_medium_of_which_nothing_can_be_read_costs_no_version() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 200_000));
    let first = full(&lab, "first", "t");
    full(&lab, "m", "t");
    // As a power cut may leave them.
    lab.sh("for f in m/*; do : > $f; done");
    let (code, said) = status(&lab);
    assert_eq!(code, 6, "{said:#}");
    stands_still(&lab, "medium 'm'");
    restores(&lab, &first);
    lab.run(["media", "forget", "m"]).ok();
    lab.run(["prune", "--keep-last", "1"]).ok();
    restores(&lab, "t");
}

/// Each version that needs what is forgotten is named, and what was met as damage is none any more.
#[test]
fn an_import_that_forgets_names_the_versions_and_ends_the_damage() {
    for (change, met) in
        [("mv m/00000003.segment hold", true), ("truncate -s 0 m/*3.segment", false)]
    {
        let (lab, versions) = lab();
        lab.sh(change);
        if met {
            assert_eq!(lab.run(["verify", "t"]).code, 3);
        }
        let taken = report(lab.run(["import", "m", "--json"]));
        assert!(taken["notes"].to_string().contains(&versions[2]), "{change}: {taken:#}");
        lab.run(["status"]).ok();
        let next = lab.backed_up(["tree", "--to", "m", "--name", "t"]);
        assert_eq!(next["method"], "incr", "{change}: {next:#}");
        restores(&lab, "t");
    }
}
