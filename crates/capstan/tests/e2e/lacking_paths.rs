//! Paths that are named and not there, and what leaves a selection.

use std::fs;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, below, noise, report};

const BACKUP: [&str; 7] = ["backup", "one", "disk", "--to", "medium", "--name", "t"];

fn backed_up(lab: &Lab, options: &[&str]) -> (i32, Value) {
    let run = lab.run([&BACKUP[..], options, &["--json"]].concat());
    (run.code, report(run))
}

fn said<'a>(report: &'a Value, code: &str) -> Vec<&'a Value> {
    report["errors"].as_array().unwrap().iter().filter(|e| e["code"] == code).collect()
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("one/a", noise(1, 20_000));
    lab.file("disk/b", noise(2, 30_000));
    lab.file("disk/dir/c", noise(3, 10_000));
    lab
}

fn names(lab: &Lab, version: &str) -> String {
    lab.run(["ls", version]).ok().stdout.clone()
}

/// The newest version restores the one path as it is, and the one that is missing as it was.
fn restores_both(lab: &Lab, kept: &str) {
    lab.sh("rm -rf out");
    lab.restored(["t", "--into", "out"]);
    same_by_rsync(&lab.path("one"), &below(&lab.path("out"), &lab.path("one")));
    same_by_rsync(&lab.path(kept), &below(&lab.path("out"), &lab.path("disk")));
}

#[test]
fn a_missing_path_is_an_error_and_keeps_what_the_last_version_had_of_it() {
    let lab = lab();
    assert_eq!(backed_up(&lab, &[]).0, 0);
    lab.sh("mv disk away; echo new >one/new");
    for _ in 0..2 {
        let (code, report) = backed_up(&lab, &[]);
        assert_eq!((code, &report["status"]), (3, &"completed_with_errors".into()), "{report:#}");
        let [missing] = said(&report, "path-missing")[..] else { panic!("{report:#}") };
        assert_eq!(missing["path"], lab.path("disk").display().to_string().as_str());
        let text = missing["error"].as_str().unwrap();
        assert!(text.contains("no such file") && text.contains("kept as it was"), "{text}");
        assert_eq!((&report["method"], &report["name"]), (&"incr".into(), &"t".into()));
        assert!(said(&report, "less-selected").is_empty(), "{report:#}");
        restores_both(&lab, "away");
    }
    let status = lab.run(["status", "t"]);
    assert!(status.code == 5 && status.stdout.contains("did not find"), "{}", status.stdout);
    // It comes back changed: what is gone then is gone.
    lab.sh("mv away disk; rm disk/dir/c; echo more >disk/d");
    assert_eq!(backed_up(&lab, &[]).0, 0);
    restores_both(&lab, "disk");
    assert!(!names(&lab, "t").contains("disk/dir/c"));
    // One that is named no more leaves, and that is said once.
    let only = ["backup", "one", "--to", "medium", "--name", "t", "--json"];
    let less = report(lab.run(only));
    let [warning] = said(&less, "less-selected")[..] else { panic!("{less:#}") };
    let text = warning["error"].as_str().unwrap();
    assert!(text.contains("named no more") && text.contains("/disk"), "{text}");
    assert_eq!((&less["status"], &less["error_count"]), (&"completed".into(), &0.into()));
    assert!(!names(&lab, "t").contains("/disk"), "it was not asked for");
    assert!(said(&report(lab.run(only)), "less-selected").is_empty());
}

#[test]
fn where_nothing_is_there_it_is_bad_input() {
    let lab = lab();
    lab.sh("mv disk away; mv one gone");
    let run = lab.run(BACKUP);
    run.refused(&["any of 2 paths", "one"]);
    assert!(!lab.path("medium").exists());
    lab.run(["backup", "gone/nothing", "--to", "medium"]).refused(&["gone/nothing"]);
    // A first backup of what is there; the name has all of it, so that the object stays the same.
    lab.sh("mv gone one");
    let args = ["one", "disk", "--to", "medium", "--json"];
    let first = report(lab.run([&["backup"], &args[..]].concat()));
    lab.sh("mv away disk");
    let second = lab.backed_up(&args[..4]);
    assert_eq!(
        (&first["status"], &first["name"]),
        (&"completed_with_errors".into(), &second["name"])
    );
    assert_eq!((&second["method"], &second["files"]), (&"incr".into(), &3.into()));
    // Dry runs say the same.
    lab.sh("mv disk away");
    let dry = lab.run([&["backup"], &args[..], &["--dry-run"]].concat());
    assert_eq!(dry.code, 3, "{}", dry.stderr);
    assert_eq!(said(&report(dry), "path-missing").len(), 1);
}

#[test]
fn what_leads_to_a_missing_path_may_be_missing_as_well() {
    let lab = lab();
    lab.file("mnt/x/data/f", noise(5, 10_000));
    lab.sh("mkdir other; ln -s mnt/x link; chmod 751 mnt/x; touch -d 2001-01-01 mnt/x/data");
    let args = ["backup", "one", "link/data", "--to", "medium", "--json"];
    let name = lab.backed_up(&args[1..5])["name"].clone();
    lab.sh("cp -a mnt kept; rm -r mnt/x");
    // The link leads nowhere now, and yet it is the same path; so where a file takes the directory's place.
    for change in ["true", "echo file >mnt/x"] {
        lab.sh(change);
        let run = report(lab.run(args));
        assert_eq!((&run["name"], &run["status"]), (&name, &"completed_with_errors".into()));
        let missing = lab.path("mnt/x/data").display().to_string();
        assert_eq!(said(&run, "path-missing")[0]["path"], missing.as_str(), "{run:#}");
        lab.sh("rm -rf out");
        lab.restored([name.as_str().unwrap(), "--into", "out"]);
        same_by_rsync(&lab.path("kept/x"), &below(&lab.path("out"), &lab.path("mnt/x")));
    }
}

#[test]
fn a_full_without_a_path_does_not_push_out_the_last_that_has_it() {
    let lab = lab();
    let id = |report: &Value| report["session"].as_str().unwrap().to_owned();
    let whole = id(&backed_up(&lab, &["--full"]).1);
    lab.sh("mv disk away");
    let (code, full) = backed_up(&lab, &["--full"]);
    let text = said(&full, "path-missing")[0]["error"].as_str().unwrap();
    assert!(code == 3 && text.contains("has nothing of it"), "{full:#}");
    // One that builds on it finds it missing too.
    assert_eq!(backed_up(&lab, &[]).0, 3);
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    let versions = lab.run(["versions", "t"]).ok().stdout.clone();
    assert!(versions.contains(&whole[..8]), "{versions}");
    let status = lab.run(["status", "t"]).stdout;
    assert!(status.contains("has nothing of") && status.contains(&whole[..8]), "{status}");
    // Whoever restores the newest is told what it lacks, and which version has it.
    let run = lab.run(["restore", "t", "--into", "out"]);
    assert!(
        run.stderr.contains("has nothing of") && run.stderr.contains(&whole[..8]),
        "{}",
        run.stderr
    );
    let version = format!("t@{whole}");
    lab.restored([version.as_str(), "--into", "all"]);
    same_by_rsync(&lab.path("away"), &below(&lab.path("all"), &lab.path("disk")));
    // When it is back, the next version has it, and the old one goes by the rules.
    lab.sh("mv away disk");
    assert_eq!(backed_up(&lab, &[]).0, 0);
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    let versions = lab.run(["versions", "t"]).ok().stdout.clone();
    assert!(!versions.contains(&whole[..8]), "{versions}");
    lab.sh("rm -rf out");
    restores_both(&lab, "disk");
}

/// So it is with a file that was left out as it was locked.
#[test]
fn a_full_that_left_out_what_was_locked_does_not_push_out_the_last_that_has_it() {
    let lab = lab();
    lab.sh("touch -d '10 minutes ago' one/a disk/b");
    let id = |report: &Value| report["session"].as_str().unwrap().to_owned();
    let skip = |method: &str| backed_up(&lab, &["--locked", "skip", method]);
    let whole = id(&skip("--full").1);
    let held = fs::File::open(lab.path("disk/b")).unwrap();
    held.lock().unwrap();
    let (code, full) = skip("--full");
    let [left_out] = said(&full, "locked-left-out")[..] else { panic!("{full:#}") };
    assert_eq!(left_out["path"], lab.path("disk/b").display().to_string().as_str());
    let text = left_out["error"].as_str().unwrap();
    assert!(code == 0 && text.contains("has nothing of it"), "{full:#}");
    // One that builds on it lacks it too.
    assert_eq!(skip("--incr").0, 0);
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    let versions = || lab.run(["versions", "t"]).ok().stdout.clone();
    assert!(versions().contains(&whole[..8]), "{}", versions());
    let run = lab.run(["restore", "t", "--into", "out"]);
    let is_said = run.stderr.contains("has nothing of") && run.stderr.contains(&whole[..8]);
    assert!(is_said, "{}", run.stderr);
    let version = format!("t@{whole}");
    lab.restored([version.as_str(), "--into", "all"]);
    same_by_rsync(&lab.path("disk"), &below(&lab.path("all"), &lab.path("disk")));
    // When it is free, the next version has it, and the old one goes by the rules.
    drop(held);
    assert!(said(&skip("--incr").1, "locked-left-out").is_empty());
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    assert!(!versions().contains(&whole[..8]), "{}", versions());
    // An incremental keeps what its base has of it, and needs no other version for that.
    let base = id(&skip("--full").1);
    lab.sh("cp -a disk was; echo more >>disk/b; touch -d '5 minutes ago' disk/b");
    let held = fs::File::open(lab.path("disk/b")).unwrap();
    held.lock().unwrap();
    let incr = skip("--incr").1;
    let [left_out] = said(&incr, "locked-left-out")[..] else { panic!("{incr:#}") };
    assert!(left_out["error"].as_str().unwrap().contains("is kept as it was"), "{incr:#}");
    lab.sh("rm -rf out");
    let run = lab.run(["restore", "t", "--into", "out"]);
    assert!(run.code == 0 && !run.stderr.contains("has nothing of"), "{}", run.stderr);
    let there = below(&lab.path("out"), &lab.path("disk/b"));
    assert_eq!(fs::read(there).unwrap(), noise(2, 30_000), "{base}");
}

/// As a plain user: to root everything can be listed.
#[test]
fn what_cannot_be_listed_is_not_taken_for_gone() {
    let lab = Lab::of_user();
    lab.sh("mkdir -p tree/docs; head -c 20000 /dev/urandom >tree/docs/a; echo b >tree/b");
    let backup = |options: &[&str]| {
        let args = ["backup", "tree", "--to", "medium", "--name", "t", "--json"];
        report(lab.run([&args[..], options].concat()))
    };
    let whole = backup(&[])["session"].as_str().unwrap().to_owned();
    lab.sh("chmod 000 tree/docs");
    // An incremental keeps what its base has of it, and needs no other version for that.
    let incr = backup(&["--incr"]);
    let [listed] = said(&incr, "not-listed")[..] else { panic!("{incr:#}") };
    assert!(listed["error"].as_str().unwrap().contains("is kept as it was"), "{incr:#}");
    lab.restored(["t", "--into", "out"]);
    let docs = below(&lab.path("out"), &lab.path("tree/docs"));
    lab.sh(&format!("chmod 755 '{}' tree/docs", docs.display()));
    same_by_rsync(&lab.path("tree/docs"), &docs);
    lab.sh("chmod 000 tree/docs");
    // A full has nothing of it: the last version that has it stays.
    for _ in 0..2 {
        let full = backup(&["--full"]);
        let text = said(&full, "not-listed")[0]["error"].as_str().unwrap();
        assert!(text.contains("has nothing of it"), "{full:#}");
    }
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    let versions = lab.run(["versions", "t"]).ok().stdout.clone();
    assert_eq!(versions.lines().filter(|line| line.starts_with("t@")).count(), 2, "{versions}");
    let last = incr["session"].as_str().unwrap();
    assert!(versions.contains(&last[..8]) && !versions.contains(&whole[..8]), "{versions}");
    let status = lab.run(["status", "t"]).stdout;
    assert!(status.contains("has nothing of") && status.contains(&last[..8]), "{status}");
    lab.sh("chmod 755 tree/docs");
}

#[test]
fn rules_that_leave_out_more_are_said_and_shown() {
    let lab = lab();
    backed_up(&lab, &["--exclude", "*.o"]);
    let (code, more) =
        backed_up(&lab, &["--exclude", "*.o", "--exclude", "b", "--one-file-system"]);
    let [warning] = said(&more, "less-selected")[..] else { panic!("{more:#}") };
    let text = warning["error"].as_str().unwrap();
    assert!(code == 0 && text.contains("new patterns: 'b'"), "{text}");
    assert!(text.contains("--one-file-system") && !text.contains("*.o"), "{text}");
    assert!(said(&backed_up(&lab, &[]).1, "less-selected").is_empty(), "more is taken");
    backed_up(&lab, &["--exclude", "*.o", "--exclude", "b"]);
    let shown = lab.run(["status", "--object", "t"]).ok().stdout.clone();
    let disk = lab.path("disk").display().to_string();
    for part in
        ["Paths ", &disk, "Exclude        *.o\n               b\n", "incr, 2 files on medium"]
    {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    let json = lab.run(["status", "--object", "t", "--json"]).ok().stdout.clone();
    let json: Value = serde_json::from_str(&json).unwrap();
    let object = &json["objects"][0];
    assert_eq!(object["selection"]["exclude"], serde_json::json!(["*.o", "b"]), "{object:#}");
    assert_eq!((&object["versions"], &object["media"][0]), (&4.into(), &"medium".into()));
    lab.run(["status", "--object", "nosuch"]).refused(&["nosuch"]);
    // After a restore the last version is still told from it.
    lab.restored(["t", "--into", "out"]);
    assert_eq!(lab.run(["status", "--object", "t"]).ok().stdout.matches("Exclude ").count(), 1);
    // What an import recorded says nothing of it, and nothing is guessed.
    fs::remove_dir_all(lab.path("home")).unwrap();
    lab.run(["import", "medium"]).ok();
    let shown = lab.run(["status", "--object", "t"]).stdout;
    assert!(shown.contains("not on record"), "{shown}");
}

/// The walk comes to a path before it is known what the base has below it.
#[test]
fn of_a_path_that_was_never_there_nothing_is_said_to_be_kept() {
    let lab = Lab::new();
    lab.file("tree/f", "one");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let run = lab.run(["backup", "tree", "never", "--to", "medium", "--name", "t"]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    let why =
        "never: no such file or directory: what the last version has of it, if anything, is kept";
    assert!(run.stderr.contains(why), "{}", run.stderr);
}
