//! Drives that fail while a tape is read. That says nothing of the tape: another drive reads it, and where there is none it is read another
//! time.

use std::path::Path;

use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::gone_media::status;
use crate::support::{Lab, below, noise, report};
use crate::tape::{comes_back, library_of};

/// Reads behind the header and the first blocks of the tape.
const FROM: u32 = 9;

/// Has the first drive fail at reads from that one on.
fn fail(dir: &Path, from: u32, faults: &[&str]) {
    let plan = faults.iter().zip(from..).map(|(fault, n)| format!("read:{n}={fault}"));
    let plan: Vec<String> = plan.collect();
    Library::open(dir).unwrap().plan_faults(Some(1), &plan.join(",")).unwrap();
}

/// A backup of twenty files on a tape of a library with so many drives.
fn with_a_backup(lab: &Lab, drives: u32) -> std::path::PathBuf {
    let dir = lab.path("vtl");
    Library::create(&dir, &Design { ..library_of(drives, 4) }, 2).unwrap();
    for n in 0..20 {
        lab.file(&format!("tree/file-{n}"), noise(n + 1, 1_000_000));
    }
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    dir
}

fn shown(lab: &Lab) -> Value {
    let shown = lab.run(["media", "show", "V00001L9", "--json"]);
    serde_json::from_str(&shown.ok().stdout).unwrap()
}

/// Nothing is said against the tape, and nothing against what is on it. So many drives are named.
fn nothing_is_noted(lab: &Lab, after: &str, drives: usize) {
    let shown = shown(lab);
    assert_eq!(shown["condition"], "good", "{after}: {shown}");
    assert!(shown["state"] != "damaged", "{after}: {shown}");
    are_ill(lab, after, drives);
}

/// So many drives are named, and nothing else is.
fn are_ill(lab: &Lab, after: &str, drives: usize) {
    let (code, status) = status(lab);
    assert_eq!(code, if drives > 0 { 5 } else { 0 }, "{after}: {status:#}");
    assert_eq!(status["ill_drives"].as_array().unwrap().len(), drives, "{after}: {status:#}");
}

#[test]
fn a_tape_is_read_in_another_drive_where_one_fails_again_and_again() {
    for faults in [["offline"; 6], ["power"; 6]] {
        let lab = Lab::new();
        let dir = with_a_backup(&lab, 2);
        fail(&dir, FROM, &faults);
        let into = lab.path("r");
        let done = lab.restored(["t", "--into", into.to_str().unwrap()]);
        same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
        let drives: Vec<&Value> = done["drives"].as_array().unwrap().iter().collect();
        assert!(
            drives.iter().any(|d| d["drive"] == 2 || d["name"].to_string().contains('2')),
            "{done}"
        );
        nothing_is_noted(&lab, "restore", 1);
        fail(&dir, FROM, &faults);
        lab.run(["verify", "t"]).ok();
        nothing_is_noted(&lab, "verify", 1);
    }
}

#[test]
fn a_drive_that_fails_says_nothing_of_the_tape_in_it() {
    let lab = Lab::new();
    let dir = with_a_backup(&lab, 1);
    lab.file("tree/more", noise(99, 1_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--incr"]);
    for command in [
        "restore t --into r",
        "restore t --to-tar r.tar",
        "verify t",
        "verify --medium V00001L9",
        "drill t --sample 100%",
        "copy t --to copies",
        "media repair V00001L9",
        "consolidate t --to fulls",
    ] {
        // It does not come back.
        fail(&dir, FROM, &["offline"; 500]);
        let run = lab.run(command.split(' '));
        assert_ne!(run.code, 0, "{command}: {}{}", run.stdout, run.stderr);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(said.contains("is offline"), "{command}: {said}");
        assert!(!said.contains("is damaged") && !said.contains("are damaged"), "{command}: {said}");
        fail(&dir, FROM, &[]);
        // How the last drill went is told of it, until another one goes well.
        if command.starts_with("drill") {
            lab.run(command.split(' ')).ok();
        }
        nothing_is_noted(&lab, command, 0);
    }
    // Nor is there a copy that lacks what the drive did not give.
    let copied = lab.run(["copy", "t", "--to", "copies", "--json"]);
    assert_eq!(report(copied)["status"], "completed");
    comes_back(&lab, "t", &lab.path("tree"));
    std::fs::rename(&dir, lab.path("vtl.away")).unwrap();
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn files_that_a_failed_drive_did_not_give_are_away_and_not_lost() {
    let lab = Lab::new();
    let dir = with_a_backup(&lab, 1);
    fail(&dir, FROM, &["offline"; 500]);
    let into = lab.path("r");
    let done = lab.restore(["t", "--into", into.to_str().unwrap()]);
    assert_eq!(done["status"], "completed_with_errors", "{done}");
    assert_eq!(done["corrupt"], 0, "{done}");
    assert!(done["away"].as_u64().unwrap() > 0, "{done}");
    let place = done["away_media"][0]["place"].as_str().unwrap();
    assert!(place.contains("could not be read now") && place.contains("is offline"), "{place}");
    fail(&dir, FROM, &[]);
    // What is not whole does not stand in for what is: it comes with the next restore.
    lab.restored(["t", "--into", into.to_str().unwrap()]);
    same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
}

/// An array can do without one of its tapes; of two the drives of which fail nothing is told either.
#[test]
fn failing_drives_say_nothing_of_the_tapes_of_an_array() {
    let lab = Lab::new();
    let dir = lab.path("vtl");
    Library::create(&dir, &library_of(3, 5), 3).unwrap();
    for n in 0..20 {
        lab.file(&format!("tree/file-{n}"), noise(n + 1, 1_000_000));
    }
    lab.backed_up(["tree", "--to", "rait5:vtape:vtl,vtape:vtl,vtape:vtl", "--name", "t"]);
    let plan: Vec<String> = (FROM..FROM + 500).map(|n| format!("read:{n}=offline")).collect();
    for drive in [1, 2] {
        Library::open(&dir).unwrap().plan_faults(Some(drive), &plan.join(",")).unwrap();
    }
    let done = lab.restore(["t", "--into", lab.path("r").to_str().unwrap()]);
    assert_eq!((&done["status"], &done["corrupt"]), (&"completed_with_errors".into(), &0.into()));
    for drive in [1, 2] {
        Library::open(&dir).unwrap().plan_faults(Some(drive), "").unwrap();
    }
    are_ill(&lab, "restore", 2);
    comes_back(&lab, "t", &lab.path("tree"));
}
