//! A drive that cannot read tapes, beside one that can: no tape counts as damaged for it, and the drive is named.

use std::io::{BufRead as _, BufReader};
use std::path::Path;

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::gone_media::status;
use crate::support::{Lab, below, noise, report};
use crate::tape::{comes_back, library, media};

/// Has a drive read nothing from its `from`th block on.
fn blind(dir: &Path, drive: u32, from: u32) {
    let plan: Vec<_> = (from..400).map(|n| format!("read:{n}=error")).collect();
    Library::open(dir).unwrap().plan_faults(Some(drive), &plan.join(",")).unwrap();
}

fn suspects(report: &Value) -> Vec<&Value> {
    let all = report["errors"].as_array().unwrap();
    all.iter().filter(|e| e["code"] == "drive-suspect").collect()
}

#[test]
fn what_one_drive_cannot_read_another_one_reads() {
    for from in [1, 4] {
        for read in
            ["restore t --into r --json", "verify t --json", "verify --medium V00001L9 --json"]
        {
            let lab = Lab::new();
            let dir = library(&lab, 2, 3);
            (0..6).for_each(|n| drop(lab.file(&format!("tree/{n}"), noise(n + 1, 2_000_000))));
            lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
            // It stands in the first one.
            blind(&dir, 1, from);
            let run = lab.run(read.split(' '));
            assert_eq!(run.code, 0, "{from} {read}: {}{}", run.stdout, run.stderr);
            let done = report(run);
            let said = suspects(&done);
            let text = said.first().map(|said| said.to_string()).unwrap_or_default();
            assert!(said.len() == 1 && text.contains("V00001L9"), "{from} {read}: {done:#}");
            assert!(text.contains("drive 1") && text.contains("drive 2"), "{from} {read}: {text}");
            assert_eq!(media(&lab)[0].1, "appendable", "{from} {read}");
            assert_eq!(status(&lab).0, 0, "{from} {read}");
            comes_back(&lab, "t", &lab.path("tree"));
        }
    }
}

#[test]
fn what_no_drive_reads_is_the_tapes_fault() {
    let lab = Lab::new();
    let dir = library(&lab, 2, 3);
    lab.file("tree/a", noise(1, 6_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    [1, 2].into_iter().for_each(|drive| blind(&dir, drive, 1));
    let run = lab.run(["verify", "t", "--json"]);
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
    let done = report(run);
    assert!(suspects(&done).is_empty(), "{done:#}");
    assert_eq!((media(&lab)[0].1.as_str(), status(&lab).0), ("damaged", 6));
}

/// How many tapes were loaded.
fn loads(dir: &Path, count: u32) -> u64 {
    let of = |n: u32| {
        let text = std::fs::read_to_string(dir.join(format!("tapes/V{n:05}L9.json"))).unwrap();
        let label: Value = serde_json::from_str(&text).unwrap();
        label["loads"].as_u64().unwrap()
    };
    (1..=count).map(of).sum()
}

/// What an inventory remembers of tapes.
fn seen(lab: &Lab) -> String {
    let listed = lab.run(["library", "inventory", "vtape:vtl", "--json"]);
    let listed: Value = serde_json::from_str(&listed.ok().stdout).unwrap();
    let tapes = listed["tapes"].as_array().unwrap().iter();
    tapes.map(|tape| format!("{} {}\n", tape["barcode"], tape["seen"]["is"])).collect()
}

/// A search for a tape to write looks at it in another drive, and does not go on in one that reads nothing.
#[test]
fn a_tape_to_write_is_looked_at_in_another_drive() {
    for from in ["pool", "library"] {
        let lab = Lab::new();
        let dir = library(&lab, 2, 6);
        lab.run(["pool", "create", "p", "--scratch", "--library", "vtape:vtl"]).ok();
        let to = if from == "pool" { "pool:p" } else { "vtape:vtl" };
        (0..9).for_each(|n| drop(lab.file(&format!("tree/{n}"), noise(n + 1, 10_000_000))));
        blind(&dir, 1, 1);
        let done = lab.backup(["tree", "--to", to, "--name", "t"]);
        assert_eq!(done["status"], "completed", "{from}: {done:#}");
        let used = done["media"].as_array().unwrap().len();
        assert!(used >= 3, "{from}: {done:#}");
        assert!(!seen(&lab).contains("unreadable"), "{from}: {}", seen(&lab));
        assert_eq!(suspects(&done).len(), 1, "{from}: {done:#}");
        // The first one went into both drives, the others into the one that reads.
        assert_eq!(loads(&dir, 6), used as u64 + 1, "{from}: {done:#}");
        blind(&dir, 1, 1);
        comes_back(&lab, "t", &lab.path("tree"));
        // The next night: what is appended to cannot be read in it, either.
        lab.file("tree/new", noise(77, 1_000_000));
        lab.run(["library", "unload", "vtape:vtl", "1"]);
        lab.run(["library", "unload", "vtape:vtl", "2"]);
        blind(&dir, 1, 1);
        let done = lab.backup(["tree", "--to", to, "--name", "t"]);
        assert_eq!(done["status"], "completed", "{from}: {done:#}");
        assert!(!done["errors"].to_string().contains("medium-failed"), "{from}: {done:#}");
        // So does a copy, with one more tape.
        blind(&dir, 1, 1);
        let copied = report(lab.run(["copy", "t", "--to", "vtape:vtl", "--json"]));
        assert!(!copied["errors"].to_string().contains("medium-failed"), "{from}: {copied:#}");
        assert!(media(&lab).iter().all(|(_, state)| state != "damaged"), "{:?}", media(&lab));
        assert!(!seen(&lab).contains("unreadable"), "{from}: {}", seen(&lab));
        blind(&dir, 1, 400);
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

/// What is remembered of tapes may be what a drive is at fault for: the refusal says how they are looked at anew.
#[test]
fn a_refusal_by_what_was_seen_before_says_how_to_look_anew() {
    let lab = Lab::new();
    let dir = library(&lab, 1, 2);
    lab.file("tree/a", noise(1, 100_000));
    lab.run(["pool", "create", "p", "--scratch", "--library", "vtape:vtl"]).ok();
    blind(&dir, 1, 1);
    lab.run(["backup", "tree", "--to", "vtape:vtl", "--name", "t"]).refused(&["cannot be read"]);
    blind(&dir, 1, 400);
    for to in ["vtape:vtl", "pool:p"] {
        let refused = lab.run(["backup", "tree", "--to", to, "--name", "t"]);
        refused.refused(&["cannot be read", "seen", "`capstan library inventory ", "--rescan`"]);
        let hint = refused.stderr.lines().find(|line| line.contains("hint: ")).unwrap();
        assert!(hint.contains("--rescan`"), "{to}: {}", refused.stderr);
    }
    lab.run(["library", "inventory", "vtape:vtl", "--rescan"]).ok();
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
}

/// Another session has the good drive: what the other one cannot read is away, or waited for, and no damage.
#[test]
fn what_a_drive_cannot_read_is_no_damage_while_others_have_the_other_one() {
    let lab = Lab::new();
    let dir = library(&lab, 2, 3);
    (0..6).for_each(|n| drop(lab.file(&format!("tree/{n}"), noise(n + 1, 2_000_000))));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    let sound = |what: &str| {
        assert_eq!(media(&lab)[0].1, "appendable", "{what}");
        assert_eq!(status(&lab).0, 0, "{what}");
    };
    let held = || {
        let drive = std::fs::File::create(lab.path("vtl/drive-2")).unwrap();
        drive.lock().unwrap();
        drive
    };
    for read in ["restore t --into r --json", "restore t --to-tar r.tar --json", "verify t --json"]
    {
        let drive = held();
        blind(&dir, 1, 5);
        let run = lab.run(format!("{read} --wait 0").split(' '));
        drop(drive);
        assert_eq!(run.code, 3, "{read}: {}{}", run.stdout, run.stderr);
        let done = report(run);
        assert!(suspects(&done).is_empty(), "{read}: {done:#}");
        assert_eq!(done["corrupt"].as_u64().unwrap_or(0), 0, "{read}: {done:#}");
        let errors = done["errors"].to_string();
        assert!(errors.contains("no other drive can be tried now"), "{read}: {done:#}");
        sound(read);
        lab.sh("rm -rf r r.tar");
    }
    // It is waited for.
    let drive = held();
    blind(&dir, 1, 5);
    let mut command = lab.command();
    command.env("CAPSTAN_WAIT", "5min").args(["restore", "t", "--into", "r", "--json"]);
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    let mut restore = command.spawn().unwrap();
    let mut said = BufReader::new(restore.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(said.any(|line| line.contains("waiting: ")), "it does not wait");
    drop(drive);
    let output = restore.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert_eq!(suspects(&serde_json::from_str(&text).unwrap()).len(), 1, "{text}");
    crate::compare::same_by_rsync(&lab.path("tree"), &below(&lab.path("r"), &lab.path("tree")));
    sound("waited for");
}

/// An archive has two tapes open where a file lies on both: the one that is in the good drive makes room.
#[test]
fn an_archive_with_two_tapes_open_reads_both_in_the_good_drive() {
    let lab = Lab::new();
    let dir = library(&lab, 2, 6);
    (0..60).for_each(|n| drop(lab.file(&format!("tree/{n}"), noise(n + 1, 1_500_000))));
    let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    assert!(done["media"].as_array().unwrap().len() >= 3, "{done:#}");
    blind(&dir, 1, 1);
    let run = lab.run(["restore", "t", "--to-tar", "t.tar", "--json"]);
    assert_eq!(run.code, 0, "{}{}", run.stdout, run.stderr);
    assert!(media(&lab).iter().all(|(_, state)| state != "damaged"), "{:?}", media(&lab));
    assert_eq!(status(&lab).0, 5, "the drive is suspect");
    lab.sh("mkdir r; tar -C r -xf t.tar");
    crate::compare::same_by_rsync(&lab.path("tree"), &below(&lab.path("r"), &lab.path("tree")));
}

/// Where the other drive reads no more than the header, nothing says whose fault it is.
#[test]
fn a_drive_is_not_suspect_where_the_other_one_fails_as_well() {
    let lab = Lab::new();
    let dir = library(&lab, 2, 3);
    lab.file("tree/a", noise(1, 6_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    blind(&dir, 1, 1);
    blind(&dir, 2, 4);
    let run = lab.run(["verify", "--medium", "V00001L9", "--json"]);
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
    let done = report(run);
    assert!(suspects(&done).is_empty(), "{done:#}");
    assert_eq!(media(&lab)[0].1, "damaged");
}

/// The last thing on a tape is a backup of the database. Where no drive reads that, nothing is added to the tape, and the next one is
/// taken.
#[test]
fn a_tape_of_which_the_last_database_backup_cannot_be_read_is_passed_over() {
    for (to, bad) in [("vtape:vtl", &[1][..]), ("vtape:vtl", &[1, 2]), ("pool:p", &[1, 2])] {
        let what = format!("{to} {bad:?}");
        let lab = Lab::new();
        let dir = library(&lab, 2, 6);
        lab.run(["idb", "recovery-key"]).ok();
        lab.run(["pool", "create", "p", "--scratch", "--library", "vtape:vtl"]).ok();
        lab.file("tree/a", noise(1, 3_000_000));
        let first = lab.backed_up(["tree", "--to", to, "--name", "t"]);
        let tape = first["media"][0].as_str().unwrap().to_owned();
        // Its header can be read, its end cannot; other tapes can.
        let plan = |drive, from: u32, to: u32| {
            let plan: Vec<_> = (from..=to).map(|n| format!("read:{n}=error")).collect();
            Library::open(&dir).unwrap().plan_faults(Some(drive), &plan.join(",")).unwrap();
        };
        plan(1, 2, if bad.len() == 2 { 5 } else { 400 });
        if bad.len() == 2 {
            plan(2, 1, 12);
        }
        lab.file("tree/first", noise(5, 1_000));
        let done = lab.backup(["tree", "--to", to, "--name", "t"]);
        assert_eq!(done["status"], "completed", "{what}: {done:#}");
        let is_passed = done["errors"].to_string().contains("medium-failed");
        assert_eq!(is_passed, bad.len() == 2, "{what}: {done:#}");
        let same = done["media"][0] == tape.as_str();
        assert_eq!(same, bad.len() == 1, "{what}: {done:#}");
        let state = media(&lab).into_iter().find(|(label, _)| *label == tape).unwrap().1;
        assert_eq!(state == "damaged", bad.len() == 2, "{what}: {state}");
        if bad.len() == 2 {
            // The next night does not load it again.
            [1, 2].iter().for_each(|drive| blind(&dir, *drive, 400));
            let next = lab.backed_up(["tree", "--to", to, "--name", "t"]);
            assert_ne!(next["media"][0], tape.as_str(), "{what}: {next:#}");
            // What is read again counts again.
            lab.run(["verify", "--medium", &tape]).ok();
            let state = media(&lab).into_iter().find(|(label, _)| *label == tape).unwrap().1;
            assert_eq!(state, "appendable", "{what}");
        }
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

/// A robot that jams says nothing of the tape, either.
#[test]
fn what_a_robot_does_not_bring_is_away() {
    let lab = Lab::new();
    let dir = library(&lab, 2, 3);
    lab.file("tree/a", noise(1, 3_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    lab.run(["library", "unload", "vtape:vtl", "1"]).ok();
    let plan: Vec<_> = (1..50).map(|n| format!("move:{n}=jam")).collect();
    Library::open(&dir).unwrap().plan_faults(None, &plan.join(",")).unwrap();
    let run = lab.run(["restore", "t", "--into", "r", "--json"]);
    Library::open(&dir).unwrap().plan_faults(None, "").unwrap();
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
    let done = report(run);
    assert_eq!((&done["corrupt"], &done["away"]), (&0.into(), &1.into()), "{done:#}");
    assert!(done["errors"].to_string().contains("jammed"), "{done:#}");
    comes_back(&lab, "t", &lab.path("tree"));
}
