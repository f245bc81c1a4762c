//! Consolidations on tapes: they span, go on where a tape fails, and leave alone the tapes that they read.

use std::fs;

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::independent_reader::Reader;
use crate::support::{Lab, below, completed, noise, report};
use crate::tape::{comes_back, library, media};

fn consolidate(lab: &Lab, args: &[&str]) -> Value {
    report(lab.run(["consolidate", "t", "--json"].iter().chain(args)))
}

/// A full and an incremental. Of most frames half and more is needed; of those with the small files little.
fn chain(lab: &Lab, to: &str) {
    chain_of(lab, to, 2000);
}

fn chain_of(lab: &Lab, to: &str, small: u64) {
    (0..3).for_each(|n| drop(lab.file(&format!("tree/big-{n}"), noise(n, 9_000_000))));
    (0..small).for_each(|n| drop(lab.file(&format!("tree/small/{n:04}"), noise(100 + n, 15_000))));
    let args = ["tree", "--to", to, "--name", "t", "--streams", "1"];
    lab.backed_up(args);
    lab.sh("cd tree/small; rm *[0-5]; echo new >0006");
    lab.backed_up(args.iter().chain(&["--incr"]));
}

fn media_of(report: &Value) -> Vec<String> {
    let labels = report["media"].as_array().unwrap().iter();
    labels.map(|label| label.as_str().unwrap().to_owned()).collect()
}

#[test]
fn it_spans_tapes_and_comes_back_from_them_alone() {
    let lab = Lab::new();
    library(&lab, 1, 4);
    chain(&lab, "disk");
    let done = completed(consolidate(&lab, &["--to", "vtape:vtl"]));
    assert_eq!(media_of(&done), ["V00001L9", "V00002L9"], "{done:#}");
    fs::remove_dir_all(lab.path("disk")).unwrap();
    comes_back(&lab, "t", &lab.path("tree"));
    lab.run(["verify", "t"]).ok();
    fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
    lab.run(["import", "vtape:vtl"]).ok();
    comes_back(&lab, "t", &lab.path("tree"));
    // What comes later builds on it.
    lab.file("tree/later", "more");
    let incr = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--incr"]);
    assert_eq!(incr["base_session"], done["session"], "{incr:#}");
    comes_back(&lab, "t", &lab.path("tree"));
}

/// Whether frames are passed on, or rows written, when it happens; on the first tape, or on the second, when a part of the rows is
/// on the first already.
#[test]
fn where_a_tape_fails_the_next_one_goes_on() {
    for (drive, plan) in [
        (1, "write:3=error"),
        (1, "mark:5=offline"),
        (1, "write:60=power"),
        // The second tape goes into the second drive.
        (2, "write:3=error"),
        (2, "write:12=power"),
        (2, "write:25=error"),
    ] {
        let lab = Lab::new();
        let dir = library(&lab, 2, 5);
        chain_of(&lab, "disk", 3500);
        Library::open(&dir).unwrap().plan_faults(Some(drive), plan).unwrap();
        let done = completed(consolidate(&lab, &["--to", "vtape:vtl"]));
        let goes_on = done["notes"][0].as_str().unwrap().starts_with("it goes on with session");
        assert_eq!(goes_on, drive == 2 || plan.starts_with("write:60"), "{plan}: {done:#}");
        assert_eq!(
            done["media"],
            serde_json::json!(["V00001L9", "V00002L9", "V00003L9"]),
            "{plan}"
        );
        fs::remove_dir_all(lab.path("disk")).unwrap();
        comes_back(&lab, "t", &lab.path("tree"));
        fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
        lab.lose_tables();
        lab.run(["import", "vtape:vtl"]).ok();
        comes_back(&lab, "t", &lab.path("tree"));
        if let Some(reader) = Reader::find().filter(|_| plan == "write:12=power") {
            lab.run(["copy", "t", "--to", "copied"]).ok();
            reader.run(&lab, None, &["check", "copied"]).ok();
            let session = done["session"].as_str().unwrap();
            let extract = ["extract", "copied", "--session", session, "--into", "read"];
            reader.run(&lab, None, &extract).ok();
            same_by_rsync(&lab.path("tree"), &below(&lab.path("read"), &lab.path("tree")));
        }
        lab.run(["idb", "check"]).ok();
    }
}

#[test]
fn it_goes_to_other_tapes_than_those_it_reads() {
    let lab = Lab::new();
    library(&lab, 2, 6);
    chain(&lab, "vtape:vtl");
    let sources = media(&lab).into_iter().filter(|(_, state)| state != "free").map(|m| m.0);
    let sources: Vec<String> = sources.collect();
    let on_source = format!("vtape:vtl?tape={}", sources.last().unwrap());
    lab.run(["consolidate", "t", "--to", &on_source])
        .refused(&["has what is to be consolidated", "--to"]);
    let done = completed(consolidate(&lab, &[]));
    assert!(media_of(&done).iter().all(|label| !sources.contains(label)), "{sources:?} {done:#}");
    assert_eq!(done["errors"], serde_json::json!([]));
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn of_a_pool_other_media_are_taken() {
    let lab = Lab::new();
    library(&lab, 2, 7);
    lab.run(["pool", "create", "week"]).ok();
    for n in 1..=6 {
        let tape = format!("vtape:vtl?tape=V0000{n}L9");
        lab.run(["media", "init", &tape, "--pool", "week"]).ok();
    }
    chain(&lab, "pool:week");
    let done = completed(consolidate(&lab, &[]));
    assert!(media_of(&done).iter().all(|label| label != "V00007L9"), "{done:#}");
    comes_back(&lab, "t", &lab.path("tree"));
    lab.file("tree/later", "more");
    lab.backed_up(["tree", "--to", "disk", "--name", "t", "--incr"]);
    let done = completed(consolidate(&lab, &["--to", "pool:week"]));
    assert!(media_of(&done).iter().all(|label| label != "V00007L9"), "{done:#}");
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn with_one_drive_a_tape_is_not_read_and_written() {
    let lab = Lab::new();
    library(&lab, 1, 4);
    chain(&lab, "vtape:vtl");
    let before = media(&lab);
    lab.run(["consolidate", "t"]).refused(&["cannot be read while", "no drive for it"]);
    assert_eq!(media(&lab), before);
    completed(consolidate(&lab, &["--to", "disk"]));
    comes_back(&lab, "t", &lab.path("tree"));
}

/// A full that lacks something would take the place of what can be read another time.
#[test]
fn what_cannot_be_read_now_is_not_consolidated() {
    let lab = Lab::new();
    let dir = library(&lab, 2, 6);
    chain(&lab, "vtape:vtl");
    // The newest session that made a complete version.
    let newest = || {
        let list = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
        let all = list.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let makes = |s: &Value| s["kind"] == "backup" || s["kind"] == "consolidate";
        let whole = |s: &Value| s["status"].as_str().is_some_and(|s| s.starts_with("completed"));
        all.filter(|s| makes(s) && whole(s)).map(|s| s["id"].clone()).next().unwrap()
    };
    let at_first = newest();
    lab.sh("mv vtl/tapes/V00001L9.tape away");
    let failed = lab.run(["consolidate", "t"]);
    assert!(failed.code != 0 && failed.stderr.contains("V00001L9"), "{}", failed.stderr);
    assert_eq!(newest(), at_first);
    lab.sh("mv away vtl/tapes/V00001L9.tape");
    // It is there, and every block of it fails, in either drive.
    for drive in 1..=2 {
        let plan: Vec<_> = (1..200).map(|n| format!("read:{n}=error")).collect();
        Library::open(&dir).unwrap().plan_faults(Some(drive), &plan.join(",")).unwrap();
    }
    let failed = lab.run(["consolidate", "t", "--to", "disk"]);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    for drive in 1..=2 {
        let _ = fs::remove_file(dir.join(format!("drive-{drive}.faults")));
    }
    assert_eq!(newest(), at_first);
    comes_back(&lab, "t", &lab.path("tree"));
    // What was unreadable counts again when it was read.
    lab.run(["verify", "--medium", "V00001L9"]);
    lab.run(["verify", "--medium", "V00002L9"]);
    lab.run(["prune", "t", "--keep-last", "1"]).ok();
    comes_back(&lab, "t", &lab.path("tree"));
    completed(consolidate(&lab, &["--to", "disk"]));
    comes_back(&lab, "t", &lab.path("tree"));
}

/// An error of a tape tells on its condition, whatever wrote it.
#[test]
fn errors_of_tapes_count_whatever_writes_them() {
    for command in [
        vec!["copy", "t", "--to", "vtape:vtl"],
        vec!["stage", "disk", "--to", "vtape:vtl"],
        vec!["consolidate", "t", "--to", "vtape:vtl"],
        vec!["backup", "tree", "--to", "vtape:vtl", "--name", "u"],
    ] {
        let lab = Lab::new();
        let dir = library(&lab, 1, 1);
        chain(&lab, "disk");
        for _ in 0..3 {
            Library::open(&dir).unwrap().plan_faults(Some(1), "write:6=error").unwrap();
            let failed = lab.run(&command);
            assert_eq!(failed.code, 1, "{command:?}: {}", failed.stderr);
            assert!(failed.stderr.contains("medium error"), "{command:?}: {}", failed.stderr);
        }
        let shown = lab.run(["media", "show", "V00001L9", "--json"]).ok().stdout.clone();
        let shown: Value = serde_json::from_str(&shown).unwrap();
        assert_eq!((&shown["condition"], &shown["errors"]), (&"poor".into(), &3.into()), "{shown}");
        lab.run(&command).refused(&["V00001L9", "retired"]);
    }
}
