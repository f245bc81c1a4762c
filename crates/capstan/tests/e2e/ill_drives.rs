//! Drives that fail, or write badly, beside drives that are well: sessions go on in those, tapes do not pay for it, and somebody is told.

use std::path::Path;

use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::gone_media::status;
use crate::support::{Lab, noise, report};
use crate::tape::{comes_back, library, library_of, media};

/// Has a drive do that at each write from the `from`th on, and at each read if that is asked for.
fn plan(dir: &Path, drive: u32, from: u32, fault: &str, reads: bool) {
    let mut plan: Vec<_> = (from..200).map(|n| format!("write:{n}={fault}")).collect();
    if reads {
        for what in ["read", "locate", "space"] {
            plan.extend((1..200).map(|n| format!("{what}:{n}={fault}")));
        }
    }
    Library::open(dir).unwrap().plan_faults(Some(drive), &plan.join(",")).unwrap();
}

fn is_well(dir: &Path, drive: u32) {
    Library::open(dir).unwrap().plan_faults(Some(drive), "").unwrap();
}

/// What a report says by that code.
fn said(report: &Value, code: &str) -> String {
    let all = report["errors"].as_array().unwrap().iter();
    all.filter(|e| e["code"] == code).map(ToString::to_string).collect()
}

/// The drives that are not well, as number and how.
fn ill(lab: &Lab) -> Vec<(u64, String)> {
    let (code, status) = status(lab);
    let one = |of: &Value| (of["drive"].as_u64().unwrap(), of["is"].as_str().unwrap().to_owned());
    let ill: Vec<_> = status["ill_drives"].as_array().unwrap().iter().map(one).collect();
    assert_eq!(code, if ill.is_empty() { 0 } else { 5 }, "{status:#}");
    ill
}

/// The numbers of the drives that a session used.
fn drive_of(report: &Value) -> String {
    let number = |of: &Value| of["name"].as_str().unwrap()["drive ".len()..][..2].to_owned();
    report["drives"].as_array().unwrap().iter().map(number).collect()
}

/// The condition of each medium.
fn conditions(lab: &Lab) -> Vec<String> {
    let list = lab.run(["media", "list", "--json"]);
    list.ok().rows().iter().map(|of| of["condition"].to_string()).collect()
}

/// A backup of all files to a pool or a library.
fn night(lab: &Lab, n: u64, to: &str) -> Value {
    lab.file("tree/new", noise(n, 400_000));
    lab.backup(["tree", "--to", to, "--name", "t", "--full"])
}

#[test]
fn a_drive_that_drops_off_as_it_writes_is_left_for_another() {
    for (to, fault, before) in [
        ("pool:p", "offline", false),
        ("pool:p", "power", true),
        ("vtape:vtl", "offline", true),
        ("vtape:vtl", "power", false),
        ("pool:rot", "offline", false),
    ] {
        let what = format!("{to} {fault} {before}");
        let lab = Lab::new();
        let dir = library(&lab, 2, 6);
        lab.run(["pool", "create", "p", "--scratch", "--library", "vtape:vtl"]).ok();
        let rot = ["pool", "create", "rot", "--rotation", "daily=3", "--scratch"];
        lab.run([&rot[..], &["--library", "vtape:vtl"]].concat()).ok();
        lab.file("tree/a", noise(1, 3_000_000));
        if before {
            lab.backed_up(["tree", "--to", to, "--name", "t"]);
        }
        plan(&dir, 1, 3, fault, false);
        let done = night(&lab, 2, to);
        assert_eq!(done["status"], "completed", "{what}: {done:#}");
        let failed = said(&done, "drive-failed");
        assert!(failed.contains("drive 1 of") && failed.contains("V00001L9"), "{what}: {done:#}");
        assert_eq!(ill(&lab), [(1, "failed".to_owned())], "{what}");
        // It says nothing of the tape.
        assert!(conditions(&lab).iter().all(|of| of == "\"good\""), "{what}");
        // The next night does not begin with it.
        plan(&dir, 1, 3, fault, false);
        let next = night(&lab, 3, to);
        assert_eq!(next["status"], "completed", "{what}: {next:#}");
        assert!(said(&next, "drive-failed").is_empty(), "{what}: {next:#}");
        assert_eq!(drive_of(&next), "2 ", "{what}: {next:#}");
        let shown = lab.run(["library", "status", "vtape:vtl", "--json"]);
        assert!(shown.stdout.contains("it failed: drive 1"), "{what}: {}", shown.stdout);
        // A session that writes in it says that it is well, and so does who mended it.
        is_well(&dir, 1);
        match to {
            "vtape:vtl" => {
                lab.backed_up(["tree", "--to", "vtape:vtl?drive=1", "--name", "t", "--full"]);
            }
            _ => drop(lab.run(["library", "enable", "vtape:vtl", "drive:1"]).ok()),
        }
        assert_eq!(ill(&lab), [], "{what}");
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

#[test]
fn a_dead_drive_is_named_until_it_works_again() {
    for (to, before) in [("pool:p", false), ("pool:p", true), ("vtape:vtl", true)] {
        let what = format!("{to} {before}");
        let lab = Lab::new();
        let dir = library(&lab, 2, 6);
        lab.run(["pool", "create", "p", "--scratch", "--library", "vtape:vtl"]).ok();
        lab.file("tree/a", noise(1, 3_000_000));
        if before {
            lab.backed_up(["tree", "--to", to, "--name", "t"]);
        }
        plan(&dir, 1, 1, "offline", true);
        let done = night(&lab, 2, to);
        assert_eq!(done["status"], "completed", "{what}: {done:#}");
        assert!(said(&done, "drive-failed").contains("drive 1 of"), "{what}: {done:#}");
        assert_eq!(ill(&lab), [(1, "failed".to_owned())], "{what}");
        is_well(&dir, 1);
        lab.backed_up(["tree", "--to", "vtape:vtl?drive=1", "--name", "u"]);
        assert_eq!(ill(&lab), [], "{what}");
    }
}

#[test]
fn what_is_on_record_of_a_library_that_is_gone_can_be_forgotten() {
    let lab = Lab::new();
    let dir = library(&lab, 2, 6);
    lab.file("tree/a", noise(1, 3_000_000));
    plan(&dir, 1, 1, "offline", true);
    assert_eq!(night(&lab, 2, "vtape:vtl")["status"], "completed");
    assert_eq!(ill(&lab), [(1, "failed".to_owned())]);
    lab.sh("mv vtl gone");
    lab.run(["library", "enable", "vtape:vtl", "drive:1"]).ok();
    assert_eq!(status(&lab).1["ill_drives"], serde_json::json!([]));
    // Nothing else is known of it.
    lab.run(["library", "enable", "vtape:vtl", "drive:1"]).refused(&["vtl"]);
}

/// With one drive there is no other: it is as before, and the session's own end tells of it.
#[test]
fn of_the_only_drive_nothing_is_on_record() {
    let lab = Lab::new();
    let dir = library(&lab, 1, 4);
    lab.file("tree/a", noise(1, 3_000_000));
    plan(&dir, 1, 3, "offline", false);
    let done = night(&lab, 2, "vtape:vtl");
    assert_eq!(done["status"], "failed", "{done:#}");
    let errors = done["errors"].to_string();
    assert!(errors.contains("writing failed 3 times") && !errors.contains("3 media"), "{done:#}");
    assert!(said(&done, "drive-failed").is_empty(), "{done:#}");
    assert_eq!(status(&lab).1["ill_drives"], Value::Array(Vec::new()));
    lab.run(["library", "disable", "vtape:vtl", "drive:1"]).refused(&["the only one"]);
    is_well(&dir, 1);
    assert_eq!(night(&lab, 3, "vtape:vtl")["status"], "completed");
}

#[test]
fn a_drive_that_writes_badly_costs_no_tapes() {
    for to in ["pool:p", "vtape:vtl"] {
        let lab = Lab::new();
        let dir = lab.path("vtl");
        Library::create(&dir, &Design { slots: 12, ..library_of(2, 7) }, 7).unwrap();
        let pool = ["pool", "create", "p", "--not-appendable", "--scratch"];
        lab.run([&pool[..], &["--library", "vtape:vtl"]].concat()).ok();
        lab.file("tree/a", noise(1, 2_000_000));
        let mut suspect = 0;
        for n in 0..8 {
            let what = format!("{to} night {n}");
            // Where its tape takes more, the library begins with that, in whichever drive it is.
            lab.run(["library", "unload", "vtape:vtl", "drive:1"]);
            lab.run(["library", "unload", "vtape:vtl", "drive:2"]);
            plan(&dir, 1, 3, "error", false);
            let done = night(&lab, n + 2, to);
            assert_eq!(done["status"], "completed", "{what}: {done:#}");
            suspect += usize::from(said(&done, "drive-suspect").contains("drive 1 of"));
            if suspect > 0 && said(&done, "drive-suspect").is_empty() {
                assert!(!drive_of(&done).contains('1'), "{what}: {done:#}");
            }
            assert!(!conditions(&lab).iter().any(|of| of == "\"poor\""), "{what}");
            lab.run(["prune", "--keep-last", "3"]).ok();
        }
        if to == "pool:p" {
            assert_eq!(suspect, 1, "{to}: it is said once");
            assert_eq!(ill(&lab), [(1, "suspect".to_owned())], "{to}");
            // Its errors are not the tapes'.
            assert!(conditions(&lab).iter().all(|of| of == "\"good\""), "{:?}", conditions(&lab));
            let text = lab.run(["status"]).stdout;
            assert!(text.contains("clean it") && text.contains("library enable"), "{text}");
        }
        assert!(media(&lab).iter().all(|(_, state)| state != "retired"), "{:?}", media(&lab));
        is_well(&dir, 1);
        lab.backed_up(["tree", "--to", "vtape:vtl?drive=1", "--name", "u"]);
        assert_eq!(ill(&lab), [], "{to}");
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

/// There is one tape: what one drive cannot write on it, another one may.
#[test]
fn the_last_tape_is_tried_in_another_drive() {
    for to in ["pool:p", "vtape:vtl"] {
        let lab = Lab::new();
        let dir = library(&lab, 2, 1);
        lab.run(["pool", "create", "p", "--scratch", "--library", "vtape:vtl"]).ok();
        lab.file("tree/a", noise(1, 3_000_000));
        plan(&dir, 1, 3, "error", false);
        let done = night(&lab, 2, to);
        assert_eq!(done["status"], "completed", "{to}: {done:#}");
        assert_eq!(done["media"], serde_json::json!(["V00001L9"]), "{to}: {done:#}");
        // The next night begins in the other drive, wherever the tape lies.
        lab.run(["library", "unload", "vtape:vtl", "drive:2"]).ok();
        plan(&dir, 1, 3, "error", false);
        let next = night(&lab, 3, to);
        assert_eq!(drive_of(&next), "2 ", "{to}: {next:#}");
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

#[test]
fn what_two_drives_cannot_write_is_the_tapes_fault() {
    let lab = Lab::new();
    let dir = library(&lab, 2, 1);
    lab.file("tree/a", noise(1, 3_000_000));
    [1, 2].into_iter().for_each(|drive| plan(&dir, drive, 3, "error", false));
    let done = night(&lab, 2, "vtape:vtl");
    assert_eq!(done["status"], "failed", "{done:#}");
    let errors = done["errors"].to_string();
    assert!(errors.contains("failed in this session"), "{done:#}");
    assert_eq!(conditions(&lab), ["\"fair\""]);
    let shown = lab.run(["media", "show", "V00001L9"]);
    assert!(shown.stdout.contains("2 errors"), "{}", shown.stdout);
    assert_eq!(status(&lab).1["ill_drives"], Value::Array(Vec::new()));
}

/// Also the header of a blank tape is written in another drive.
#[test]
fn a_blank_tape_is_begun_in_another_drive() {
    for (to, fault) in [("pool:p", "error"), ("vtape:vtl", "error"), ("vtape:vtl", "offline")] {
        let what = format!("{to} {fault}");
        let lab = Lab::new();
        let dir = library(&lab, 2, 4);
        lab.run(["pool", "create", "p", "--scratch", "--library", "vtape:vtl"]).ok();
        lab.file("tree/a", noise(1, 3_000_000));
        plan(&dir, 1, 1, fault, false);
        let done = night(&lab, 2, to);
        assert_eq!(done["status"], "completed", "{what}: {done:#}");
        assert_eq!(done["media"], serde_json::json!(["V00001L9"]), "{what}: {done:#}");
        let code = if fault == "error" { "drive-suspect" } else { "drive-failed" };
        assert!(said(&done, code).contains("drive 1 of"), "{what}: {done:#}");
        comes_back(&lab, "t", &lab.path("tree"));
    }
}

/// A session that cannot read its source again goes on in another drive, and names the one that it left.
#[test]
fn copies_and_streams_name_the_drive_that_they_leave() {
    let lab = Lab::new();
    let dir = library(&lab, 2, 6);
    lab.file("tree/a", noise(1, 3_000_000));
    lab.backed_up(["tree", "--to", "disk", "--name", "t"]);
    plan(&dir, 1, 3, "offline", false);
    let done = report(lab.run(["copy", "t", "--to", "vtape:vtl", "--json"]));
    assert_eq!(done["status"], "completed", "{done:#}");
    assert!(said(&done, "medium-failed").contains("in drive 1 of"), "{done:#}");
    assert!(said(&done, "drive-failed").contains("drive 1 of"), "{done:#}");
    assert_eq!(ill(&lab), [(1, "failed".to_owned())]);
}

#[test]
fn a_drive_is_taken_out_of_service_and_back() {
    let lab = Lab::new();
    library(&lab, 2, 6);
    lab.run(["pool", "create", "p", "--scratch", "--library", "vtape:vtl"]).ok();
    lab.file("tree/a", noise(1, 1_000_000));
    lab.run(["library", "disable", "vtape:vtl", "drive:3"]).refused(&["2 drives"]);
    assert_eq!(drive_of(&night(&lab, 2, "pool:p")), "1 ");
    lab.run(["library", "disable", "vtape:vtl", "drive:1"]).ok();
    let shown = lab.run(["library", "status", "vtape:vtl"]);
    assert!(shown.stdout.contains("out of service"), "{}", shown.stdout);
    assert_eq!(ill(&lab), [], "it is on purpose");
    lab.run(["library", "disable", "vtape:vtl", "drive:2"]).refused(&["the only one"]);
    // Its tape is brought to the other one, to write and to read.
    assert_eq!(drive_of(&night(&lab, 3, "pool:p")), "2 ");
    lab.run(["library", "unload", "vtape:vtl", "drive:2"]).ok();
    comes_back(&lab, "t", &lab.path("tree"));
    let shown = lab.run(["library", "status", "vtape:vtl", "--json"]);
    let shown: Value = serde_json::from_str(&shown.ok().stdout).unwrap();
    assert_eq!(shown["drives"][0]["in_service"], false, "{shown:#}");
    assert!(shown["drives"][0]["tape"].is_null(), "{shown:#}");
    // Who names it has it.
    let done = lab.backed_up(["tree", "--to", "vtape:vtl?drive=1", "--name", "u"]);
    assert_eq!(drive_of(&done), "1 ");
    lab.run(["library", "unload", "vtape:vtl", "drive:2"]);
    lab.run(["library", "enable", "vtape:vtl", "drive:1"]).ok();
    lab.run(["library", "unload", "vtape:vtl", "drive:1"]);
    assert_eq!(drive_of(&night(&lab, 4, "pool:p")), "1 ");
}
