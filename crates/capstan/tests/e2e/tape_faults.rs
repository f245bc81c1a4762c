//! What fails while tapes are written, read, copied and erased: blocks, drives, robots, the process; and what is full too early.

use std::path::PathBuf;

use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::incomplete::gives_back;
use crate::support::{Lab, noise, report, soak, wait_for};
use crate::tape::{comes_back, library, library_of, media, tree};

#[test]
fn what_fails_on_one_tape_goes_on_on_the_next() {
    for plan in ["write:30=error", "write:45=offline", "mark:4=error", "write:40=power"] {
        let lab = Lab::new();
        let dir = library(&lab, 1, 6);
        tree(&lab, 30);
        Library::open(&dir).unwrap().plan_faults(Some(1), plan).unwrap();
        let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
        assert!(done["media"].as_array().unwrap().len() >= 2, "{plan}: {done}");
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

#[test]
fn a_drive_that_is_offline_is_left_for_another() {
    let lab = Lab::new();
    let dir = library(&lab, 2, 8);
    tree(&lab, 10);
    for plan in ["read:1=offline", "write:1=offline"] {
        Library::open(&dir).unwrap().plan_faults(Some(1), plan).unwrap();
        lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--full"]);
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

#[test]
fn a_copy_goes_on_on_another_tape_where_one_fails() {
    for plan in ["write:12=error", "mark:4=error"] {
        let lab = Lab::new();
        let dir = library(&lab, 2, 6);
        tree(&lab, 10);
        lab.backed_up(["tree", "--to", "medium", "--name", "t", "--segment-size", "8M"]);
        Library::open(&dir).unwrap().plan_faults(Some(1), plan).unwrap();
        let copy = report(lab.run(["copy", "t", "--to", "vtape:vtl", "--json"]));
        assert_eq!(copy["status"], "completed", "{plan}: {copy}");
        assert!(copy["media"].as_array().unwrap().len() >= 2, "{plan}: {copy}");
        std::fs::remove_dir_all(lab.path("medium")).unwrap();
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

#[test]
fn a_drive_that_goes_offline_in_a_restore_costs_nothing() {
    let lab = Lab::new();
    let dir = library(&lab, 2, 8);
    tree(&lab, 20);
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    for plan in ["read:7=offline", "read:25=offline"] {
        let library = Library::open(&dir).unwrap();
        (1..=2).for_each(|drive| library.plan_faults(Some(drive), plan).unwrap());
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

/// The last commit is what says that all is on tape: where the drive fails in it, the session did not complete, though every block
/// was handed over. What was committed before stays.
#[test]
fn a_tape_that_fails_in_the_last_commit_fails_the_session() {
    let lab = Lab::new();
    let dir = library(&lab, 1, 2);
    (0..13).for_each(|n| drop(lab.file(&format!("tree/{n:02}"), noise(n + 1, 3_000_000))));
    // There is no other drive that could do it. Each tape's first commit is that of its header.
    Library::open(&dir).unwrap().plan_faults(Some(1), "sync:4=error").unwrap();
    let args = ["--to", "vtape:vtl", "--name", "t", "--streams", "1", "--json", "--verbose"];
    let failed = report(lab.run(["backup", "tree"].iter().chain(&args)));
    assert_eq!(failed["status"], "failed", "{failed}");
    assert_eq!(failed["media"].as_array().unwrap().len(), 2, "{failed}");
    let version = format!("t@{}", failed["session"].as_str().unwrap());
    let whole = gives_back(&lab, &version);
    assert!((5..13).contains(&whole), "{whole} of what is on the first tape");
    for _ in 0..2 {
        lab.run(["vtl", "add-tape", "vtl"]).ok();
    }
    let again = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--resume"]);
    assert!(again["kept"].as_u64().unwrap() >= 5, "{again}");
    comes_back(&lab, "t", &lab.path("tree"));
    lab.run(["idb", "check"]).ok();
}

/// A drive that does not answer any more says nothing of its tape: that is gone on with, behind its last commit, in another drive.
#[test]
fn a_drive_that_is_lost_in_the_last_commit_costs_its_tape_nothing() {
    for plan in ["sync:2=offline", "sync:2=power"] {
        let lab = Lab::new();
        let dir = library(&lab, 2, 2);
        (0..13).for_each(|n| drop(lab.file(&format!("tree/{n:02}"), noise(n + 1, 3_000_000))));
        Library::open(&dir).unwrap().plan_faults(Some(2), plan).unwrap();
        let args = ["tree", "--to", "vtape:vtl", "--name", "t", "--streams", "1"];
        let done = lab.backed_up(args);
        assert_eq!(done["faults"][0]["operation"], "sync", "{plan}: {done}");
        let listed = lab.run(["sessions", "--kind", "all", "--json"]).ok().rows();
        let failed = listed.iter().filter(|session| session["status"] == "failed").count();
        assert_eq!(failed, 1, "{plan}: {listed:?}");
        for (label, _) in media(&lab) {
            let shown = lab.run(["media", "show", &label, "--json"]);
            let shown: Value = serde_json::from_str(&shown.ok().stdout).unwrap();
            assert_eq!(shown["errors"], 0, "{plan}: {shown}");
        }
        comes_back(&lab, "t", &lab.path("tree"));
        lab.run(["idb", "check"]).ok();
    }
}

/// The session whose drive fails stays on record as failed: it and the one that came after it name each other.
#[test]
fn sessions_whose_tape_took_no_more_name_those_that_came_after() {
    for (drives, plan, before, after) in [
        (1, "write:5=error", "was begun instead of this one", "it was begun instead of session"),
        // What the first tape has is committed when it is full; the second one goes into the second drive.
        (2, "write:20=error", "goes on with this one", "it goes on with session"),
    ] {
        let lab = Lab::new();
        let dir = library(&lab, drives, 8);
        tree(&lab, 40);
        Library::open(&dir).unwrap().plan_faults(Some(drives), plan).unwrap();
        let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--streams", "1"]);
        let listed = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
        let sessions: Vec<Value> =
            listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let of = |status: &str| {
            let found = sessions.iter().find(|s| s["status"] == status);
            found.unwrap_or_else(|| panic!("{status}: {listed}"))["id"].as_str().unwrap()
        };
        let (failed, completed) = (of("failed"), of("completed"));
        assert_eq!(done["session"], completed, "{plan}");
        for (of, says, other) in [(failed, before, completed), (completed, after, failed)] {
            let shown = lab.run(["sessions", "--show", of]).ok().stdout.clone();
            assert!(shown.contains(says) && shown.contains(other), "{plan}: {shown}");
        }
        let said = done["notes"].to_string();
        assert!(said.contains(after) && said.contains(failed), "{plan}: {said}");
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

#[test]
fn of_a_session_that_committed_nothing_nothing_is_restored() {
    let lab = Lab::new();
    let dir = library(&lab, 1, 2);
    tree(&lab, 10);
    Library::open(&dir).unwrap().plan_faults(Some(1), "write:5=error").unwrap();
    let failed = lab.backup(["tree", "--to", "vtape:vtl?tape=V00001L9", "--name", "t"]);
    assert_eq!((&failed["status"], &failed["files"]), (&"failed".into(), &0.into()), "{failed}");
    assert!(failed["notes"].to_string().contains("nothing was committed"), "{failed}");
    let version = format!("t@{}", failed["session"].as_str().unwrap());
    for args in [vec!["restore", &version, "--into", "out"], vec!["ls", &version]] {
        lab.run(args).refused(&["committed nothing"]);
    }
}

/// A spool has taken more than there is room for behind the warning: what came to the tape before is not lost.
#[test]
fn a_spool_that_is_full_at_the_end_of_a_tape_costs_no_tape() {
    let lab = Lab::new();
    let design = Design { capacity: Some(60_000_000), ..library_of(1, 9) };
    Library::create(&lab.path("vtl"), &design, 9).unwrap();
    lab.mkdir("spool");
    lab.file("tree/large", noise(1, 110_000_000));
    let to = format!("vtape:vtl?spool={}&spool-size=20M", lab.path("spool").display());
    let done = lab.backed_up(["tree", "--to", &to, "--name", "t", "--segment-size", "16M"]);
    assert_eq!(done["media"].as_array().unwrap().len(), 3, "{done:#}");
    assert!(done["base_session"].is_null() && done["error_count"] == 0, "{done:#}");
    assert!(done["bytes_written"].as_u64().unwrap() < 140_000_000, "{done:#}");
    comes_back(&lab, "t", &lab.path("tree"));
    let dir = lab.path("disk").display().to_string();
    lab.run(["copy", "t", "--to", &dir]).ok();
    Library::create(&lab.path("second"), &design, 9).unwrap();
    lab.run(["copy", "t", "--to", &to.replace("vtl", "second")]).ok();
    std::fs::remove_dir_all(&dir).unwrap();
    std::fs::rename(lab.path("vtl"), lab.path("away")).unwrap();
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn a_kill_costs_nothing_that_was_committed() {
    let lab = Lab::new();
    let dir = library(&lab, 1, 14);
    tree(&lab, 20);
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    lab.sh("cp -a tree first");
    lab.file("tree/more", noise(77, 60_000_000));
    let args = ["backup", "tree", "--to", "vtape:vtl", "--name", "t", "--full"];
    let mut child = lab.command().args(args).spawn().unwrap();
    let size = || {
        let tapes = std::fs::read_dir(dir.join("tapes")).unwrap();
        // Files that labels are written to are there for a moment only.
        tapes.filter_map(|t| t.ok()?.metadata().ok()).map(|m| m.len()).sum::<u64>()
    };
    let before = size();
    wait_for("some of it is on tape", || size() > before + 30_000_000);
    child.kill().unwrap();
    child.wait().unwrap();
    comes_back(&lab, "t", &lab.path("first"));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--resume"]);
    comes_back(&lab, "t", &lab.path("tree"));
    lab.run(["idb", "check"]).ok();
}

/// A drive that fails: nothing counts as erased, and what is on the tape is known as before.
#[test]
fn an_erase_that_fails_is_done_again() {
    let lab = Lab::new();
    let dir = library(&lab, 1, 3);
    lab.file("tree/file", noise(1, 300_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--protect", "none"]);
    Library::open(&dir).unwrap().plan_faults(Some(1), "write:1=error").unwrap();
    let failed = lab.run(["media", "erase", "V00001L9", "--give-up"]);
    assert_eq!(failed.code, 1, "{}{}", failed.stdout, failed.stderr);
    comes_back(&lab, "t", &lab.path("tree"));
    // One that was interrupted when the tape was blank already.
    lab.sh("truncate -s 16 vtl/tapes/V00001L9.tape");
    let done = lab.run(["media", "erase", "V00001L9", "--secure", "--give-up", "--json"]);
    let done: Value = serde_json::from_str(&done.ok().stdout).unwrap();
    assert_eq!((&done["versions"], &done["secure"]), (&1.into(), &true.into()));
    assert!(media(&lab).is_empty());
    lab.run(["idb", "check"]).ok();
}

/// A small generator, so that a seed gives the same faults again.
pub struct Seeded(pub u64);

impl Seeded {
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }

    pub fn plan(&mut self) -> String {
        let faults = ["error", "offline", "power"];
        let fault = faults[self.below(3) as usize];
        match self.below(4) {
            0 => format!("mark:{}={fault}", 1 + self.below(12)),
            1 => format!("read:{}={fault}", 1 + self.below(60)),
            _ => format!("write:{}={fault}", 1 + self.below(90)),
        }
    }
}

/// Whatever was reported as completed restores, whatever fails: backups, copies, consolidations and restores under faults of
/// drives and robot.
#[test]
fn what_was_reported_completed_restores_whatever_fails() {
    let seeds = match std::env::var("CAPSTAN_SEED").ok().and_then(|seed| seed.parse().ok()) {
        // To look at one again.
        Some(seed) => seed..seed + 1,
        None if soak() => 0..200,
        None => 0..3,
    };
    let (rounds, mut restored) = (4 * seeds.clone().count(), 0);
    for seed in seeds {
        let lab = Lab::new();
        let dir = library(&lab, 2, 10);
        let mut random = Seeded(seed);
        crate::mirror::tree(&lab);
        let mut completed: Vec<(String, PathBuf)> = Vec::new();
        for round in 0..4 {
            lab.file(&format!("tree/round-{round}"), noise(seed * 10 + round, 9_000_000));
            lab.sh(&format!("cd tree; echo {round} >text; touch -d @{} d1/f1", 1_000_000 + round));
            let robot = Library::open(&dir).unwrap();
            match random.below(6) {
                0 => robot.plan_faults(None, &format!("move:{}=jam", 1 + random.below(3))).unwrap(),
                _ => robot.plan_faults(Some(1 + random.below(2) as u32), &random.plan()).unwrap(),
            }
            let level = if random.below(3) == 0 { "--full" } else { "--incr" };
            let args = ["backup", "--json", "tree", "--to", "vtape:vtl", "--name", "t", level];
            let run = lab.run(args);
            let said: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
            println!("seed {seed}: {} {}", said["status"], run.stderr.lines().last().unwrap_or(""));
            if said["status"] == "completed" {
                let state = lab.path(format!("state-{round}"));
                lab.sh(&format!("cp -a tree {}", state.display()));
                completed.push((said["session"].as_str().unwrap().to_owned(), state));
            }
            if random.below(3) == 0 {
                robot.plan_faults(Some(1), &random.plan()).unwrap();
                // It may fail; it may not spoil anything.
                lab.run(["copy", "t", "--to", "vtape:vtl"]);
            }
            if random.below(4) == 0 {
                robot.plan_faults(Some(1), &random.plan()).unwrap();
                let run = lab.run(["consolidate", "t", "--to", "vtape:vtl", "--json"]);
                let said: Value = serde_json::from_str(&run.stdout).unwrap_or_default();
                // Of which one it is is not said where another session went on with it.
                let of = completed.iter().find(|(session, _)| said["base_session"] == **session);
                if let Some((_, state)) = of.filter(|_| said["status"] == "completed").cloned() {
                    completed.push((said["session"].as_str().unwrap().to_owned(), state));
                }
            }
        }
        // What was planned and did not come to pass stays no longer.
        for planned in ["robot.faults", "drive-1.faults", "drive-2.faults"] {
            let _ = std::fs::remove_file(dir.join(planned));
        }
        for (session, state) in &completed {
            println!("seed {seed}: {session}");
            comes_back(&lab, &format!("t@{session}"), state);
        }
        restored += completed.len();
        lab.run(["idb", "check"]).ok();
    }
    assert!(restored * 4 >= rounds, "only {restored} of {rounds} backups were completed");
}

#[test]
fn files_whose_tapes_are_away_stay_as_they_are() {
    let lab = Lab::new();
    let dir = library(&lab, 1, 8);
    // Most lie in two segments, some on two tapes.
    for n in 0..60 {
        lab.file(&format!("tree/{n:02}"), noise(n, 1_000_000));
    }
    let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--segment-size", "2M"]);
    let tapes = done["media"].as_array().unwrap().len();
    lab.sh("for f in tree/*; do printf edited | dd of=$f conv=notrunc status=none; done; cp -a tree live");
    let rename = |from: &str, to: &str| std::fs::rename(dir.join(from), dir.join(to)).unwrap();
    rename("tapes", "away");
    std::fs::create_dir(dir.join("tapes")).unwrap();
    let in_place = || lab.run(["restore", "t", "--in-place", "--overwrite", "always"]);
    assert_ne!(in_place().code, 0);
    same_by_rsync(&lab.path("live"), &lab.path("tree"));
    // With one of them there, what it does not have anything of stays.
    let last = done["media"][tapes - 1].as_str().unwrap();
    rename(&format!("away/{last}.tape"), &format!("tapes/{last}.tape"));
    assert_ne!(in_place().code, 0);
    let zeros = "for f in tree/*; do [ -n \"$(tr -d '\\0' <$f | head -c1)\" ] || echo $f; done";
    assert_eq!(lab.sh(zeros), "");
}
