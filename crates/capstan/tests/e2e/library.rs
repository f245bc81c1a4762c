//! Commands for tape libraries: on a virtual one, and on one that is not ours (tgt).

use std::process::Stdio;

use capstan_tape::vtl::library::Library as Virtual;
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Run, below, noise, report, wait_for};
use crate::tape_software::istgt::Istgt;
use crate::tape_software::tgt::{CHANGER, Library as Tgt};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

/// The rows of a list, or the one object that there is.
fn json(lab: &Lab, line: &str) -> Vec<Value> {
    let line = format!("{line} --json");
    let run = run(lab, &line);
    let object: Value = serde_json::from_str(&run.ok().stdout).unwrap();
    let values = object.as_object().unwrap();
    match values.values().next() {
        Some(Value::Array(rows)) if values.len() == 1 => rows.clone(),
        _ => vec![object],
    }
}

/// Where tapes are: `V00001L9 in slot:1`.
fn places(lab: &Lab, library: &str) -> Vec<String> {
    let tapes = json(lab, &format!("library inventory {library}"));
    let text = |tape: &Value, name: &str| tape[name].as_str().unwrap().to_owned();
    tapes.iter().map(|t| format!("{} in {}", text(t, "barcode"), text(t, "place"))).collect()
}

/// A library in the lab, a hundred thousand times as fast as the world.
fn vtl(lab: &Lab, options: &str) {
    run(lab, &format!("vtl create vtl --capacity 40M --scale 1e5 {options}")).ok();
}

#[test]
fn a_virtual_library_is_made_and_shown() {
    let lab = Lab::new();
    let made = &json(&lab, "vtl create vtl --model lto-7 --drives 3 --slots 5 --tapes 2")[0];
    assert_eq!((&made["tapes"], &made["mail_slots"]), (&2.into(), &2.into()));
    let device = made["device"].as_str().unwrap();
    assert_eq!(device, format!("vtape:{}", lab.path("vtl").display()));
    run(&lab, "vtl create vtl").refused(&["vtl", "exists"]);
    run(&lab, "vtl create other --model floppy").refused(&["no drive model 'floppy'", "lto-9"]);
    run(&lab, "vtl create other --slots 2 --tapes 3").refused(&["fewer slots than tapes"]);
    let status = &json(&lab, "library status vtape:vtl")[0];
    assert_eq!(status["drives"].as_array().unwrap().len(), 3);
    assert_eq!(status["drives"][0]["model"], "virtual lto-7");
    let text = run(&lab, "library status vtape:vtl").ok().stdout.clone();
    assert!(text.contains("5, 2 with tapes") && text.contains("drive:3"), "{text}");
    let models = json(&lab, "vtl models");
    let lto9 = models.iter().find(|m| m["name"] == "lto-9").unwrap();
    assert_eq!((&lto9["native"], &lto9["capacity"]), (&408e6.into(), &18e12.into()));
    assert!(run(&lab, "vtl models").ok().stdout.contains("408 MB/s"));
    run(&lab, "library status vtape:nowhere").refused(&[
        "nowhere",
        "no virtual library",
        "vtl create",
    ]);
    run(&lab, "library status nowhere").refused(&["not a tape library", "vtape:"]);
    let secret = run(&lab, "library status iscsi://me%hush@h/iqn.x:y/1");
    secret.refused(&["secret", "CAPSTAN_CHAP_SECRET"]);
    assert!(!secret.stderr.contains("hush"), "{}", secret.stderr);
}

#[test]
fn tapes_are_moved_loaded_and_unloaded() {
    let lab = Lab::new();
    vtl(&lab, "--drives 2 --slots 4 --tapes 3 --mail-slots 1");
    let to = |moved: Vec<Value>| moved[0]["to"].as_str().unwrap().to_owned();
    assert_eq!(to(json(&lab, "library load vtape:vtl V00002L9")), "drive:1");
    assert_eq!(to(json(&lab, "library load vtape:vtl slot:3 2")), "drive:2");
    run(&lab, "library load vtape:vtl V00002L9").refused(&["V00002L9 is in drive 1 already"]);
    run(&lab, "library load vtape:vtl V00001L9").refused(&["all drives", "unload one"]);
    run(&lab, "library load vtape:vtl V00001L9 drive:2").refused(&["drive 2 holds tape V00003L9"]);
    run(&lab, "library load vtape:vtl X").refused(&["no tape X", "library inventory"]);
    let status = &json(&lab, "library status vtape:vtl")[0];
    assert_eq!(status["drives"][1]["tape"], "V00003L9");
    assert_eq!(status["drives"][1]["tape_from"], "slot:3");
    // What is in use says by whom, and stays.
    let held = Virtual::open(&lab.path("vtl")).unwrap().drive(2).unwrap();
    let own = format!("process {} (", std::process::id());
    run(&lab, "library unload vtape:vtl drive:2").refused(&["drive 2", "in use by", &own]);
    run(&lab, "library move vtape:vtl drive:2 slot:4").refused(&["in use by", &own]);
    let status = &json(&lab, "library status vtape:vtl")[0];
    assert!(status["drives"][1]["in_use_by"].as_str().unwrap().starts_with(&own), "{status}");
    drop(held);
    // What another test of this process starts may have it for a moment longer.
    let is_free = || json(&lab, "library status vtape:vtl")[0]["drives"][1]["in_use_by"].is_null();
    for _ in 0..100 {
        if is_free() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    assert_eq!(to(json(&lab, "library unload vtape:vtl 2")), "slot:3");
    run(&lab, "library unload vtape:vtl 2").refused(&["drive 2", "holds no tape"]);
    // Its own slot is taken meanwhile.
    run(&lab, "library move vtape:vtl slot:1 slot:2").ok();
    assert_eq!(to(json(&lab, "library unload vtape:vtl 1")), "slot:1");
    assert_eq!(to(json(&lab, "library move vtape:vtl slot:1 mail:1")), "mail:1");
    let found = places(&lab, "vtape:vtl");
    assert_eq!(found, ["V00001L9 in slot:2", "V00003L9 in slot:3", "V00002L9 in mail:1"]);
    run(&lab, "library move vtape:vtl slot:1 slot:4").refused(&["slot 1 holds no tape"]);
    run(&lab, "library move vtape:vtl slot:9 slot:4").refused(&["no slot 9"]);
    run(&lab, "library move vtape:vtl shelf:1 slot:4").refused(&["'shelf:1' is no place"]);
    // A robot that jams is no bad input.
    run(&lab, "vtl fault vtape:vtl move:1=jam").ok();
    let jammed = run(&lab, "library move vtape:vtl slot:3 slot:4");
    assert_eq!((jammed.code, jammed.stderr.contains("jammed")), (1, true), "{}", jammed.stderr);
    run(&lab, "vtl fault vtl write:1=jam").refused(&["no fault"]);
    run(&lab, "vtl fault vtl --drive 7 write:1=error").refused(&["no drive 7"]);
    run(&lab, "vtl fault vtl write:1=error").refused(&["the robot moves tapes"]);
    run(&lab, "vtl fault vtl --drive 1 move:1=jam").refused(&["the robot moves tapes"]);
}

/// A drive that asks and could not be cleaned is an alarm until it was; how far cleaning tapes are used up is shown.
#[test]
fn a_drive_that_nobody_could_clean_is_an_alarm() {
    let lab = Lab::new();
    vtl(&lab, "--drives 1 --slots 4 --tapes 2");
    lab.file("t/file", noise(1, 100_000));
    let backup = || lab.backed_up(["t", "--to", "vtape:vtl", "--name", "t", "--full"]);
    let status = || {
        let run = run(&lab, "status --json");
        let json: Value = serde_json::from_str(&run.stdout).unwrap();
        (run.code, json["dirty_drives"].clone())
    };
    let cleaning = || {
        let tapes = json(&lab, "library inventory vtape:vtl");
        tapes.iter().find(|tape| tape["cleaning"] == true).unwrap().clone()
    };
    run(&lab, "vtl add-tape vtl --cleaning 1").ok();
    assert_eq!((&cleaning()["uses"], &cleaning()["uses_left"]), (&0.into(), &1.into()));
    run(&lab, "vtl fault vtl --drive 1 write:2=dirty").ok();
    assert!(backup()["notes"].to_string().contains("was cleaned"));
    assert_eq!((&cleaning()["uses"], &cleaning()["uses_left"]), (&1.into(), &0.into()));
    let listed = run(&lab, "library inventory vtape:vtl");
    assert!(listed.ok().stdout.contains("cleans, used up"), "{}", listed.stdout);
    assert_eq!(status(), (0, serde_json::json!([])));
    // The tape is used up.
    run(&lab, "vtl fault vtl --drive 1 write:2=dirty").ok();
    assert!(backup()["errors"].to_string().contains("and was not"));
    let (code, dirty) = status();
    assert_eq!((code, &dirty[0]["drive"]), (5, &1.into()), "{dirty}");
    assert!(dirty[0]["why"].as_str().unwrap().contains("used up"), "{dirty}");
    let text = run(&lab, "status");
    assert!(text.stdout.contains("1 drive asks to be cleaned"), "{}", text.stdout);
    let library = format!("vtape:{}", lab.path("vtl").display());
    let advice = format!("`capstan library clean {library} 1`");
    assert!(text.stdout.contains(&advice), "{}", text.stdout);
    // What it says to do ends the alarm.
    run(&lab, "vtl add-tape vtl --cleaning 5").ok();
    run(&lab, &format!("library clean {library} 1")).ok();
    assert_eq!(status(), (0, serde_json::json!([])));
    let listed = run(&lab, "library inventory vtape:vtl");
    assert!(listed.ok().stdout.contains("cleans, 4 uses left"), "{}", listed.stdout);
}

#[test]
fn a_drive_that_a_library_does_not_have_is_refused_before_anything_is_done() {
    let lab = Lab::new();
    vtl(&lab, "--drives 2 --slots 3");
    lab.file("t/file", noise(1, 100_000));
    lab.backed_up(["t", "--to", "medium", "--name", "d"]);
    lab.backed_up(["t", "--to", "vtape:vtl", "--name", "t"]);
    let says = &["no drive 9", "it has 2 drives"];
    for command in [
        "backup t --name t --to vtape:vtl?drive=9",
        "backup t --name t --to vtape:vtl?drive=9 --dry-run",
        // Its tape is in a drive already.
        "backup t --name t --to vtape:vtl?drive=9&tape=V00001L9",
        "verify --medium vtape:vtl?drive=9&tape=V00001L9",
        "import vtape:vtl?drive=9",
        "copy d --to vtape:vtl?drive=9",
        "stage medium --to vtape:vtl?drive=9 --dry-run",
        "library load vtape:vtl V00002L9 9",
        "library unload vtape:vtl 9",
        "library clean vtape:vtl 9",
    ] {
        run(&lab, command).refused(says);
    }
    assert_eq!(places(&lab, "vtape:vtl").len(), 3);
}

/// A slot that stands empty as its tape is in a drive is given to another tape when nothing else is left.
#[test]
fn a_tape_that_makes_room_does_not_take_the_slot_of_one_in_another_drive() {
    let lab = Lab::new();
    vtl(&lab, "--drives 2 --slots 3 --tapes 3 --mail-slots 1");
    lab.file("t/file", noise(1, 100_000));
    lab.backed_up(["t", "--to", "vtape:vtl?tape=V00003L9", "--name", "t"]);
    if places(&lab, "vtape:vtl").contains(&"V00003L9 in drive:1".to_owned()) {
        run(&lab, "library unload vtape:vtl 1").ok();
    }
    run(&lab, "library load vtape:vtl V00001L9 drive:1").ok();
    run(&lab, "library load vtape:vtl V00002L9 drive:2").ok();
    run(&lab, "library move vtape:vtl slot:3 slot:1").ok();
    run(&lab, "vtl add-tape vtl").ok();
    run(&lab, "library move vtape:vtl mail:1 slot:3").ok();
    let into = lab.path("restored");
    lab.restored(["t", "--into", into.to_str().unwrap()]);
    same_by_rsync(&lab.path("t"), &below(&into, &lab.path("t")));
    let found = places(&lab, "vtape:vtl");
    assert!(found.contains(&"V00001L9 in mail:1".to_owned()), "{found:?}");
    let moved = &json(&lab, "library unload vtape:vtl 2")[0];
    assert_eq!(moved["to"], "slot:2");
}

#[test]
fn what_is_exported_is_recorded_and_comes_back() {
    let lab = Lab::new();
    vtl(&lab, "--drives 1 --slots 4 --tapes 3 --mail-slots 1");
    lab.file("tree/a", noise(1, 100_000));
    let report = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    let label = report["media"][0].as_str().unwrap();
    run(&lab, "library unload vtape:vtl 1").ok();
    let known = |lab: &Lab| {
        let tapes = json(lab, "library inventory vtape:vtl");
        let ours: Vec<_> = tapes.into_iter().filter(|t| !t["known"].is_null()).collect();
        assert_eq!(ours.len(), 1, "{ours:?}");
        ours[0].clone()
    };
    let tape = known(&lab);
    let barcode = tape["barcode"].as_str().unwrap();
    assert_eq!(tape["known"]["label"], label);
    assert_eq!(tape["known"]["state"], "appendable");
    let text = run(&lab, "library inventory vtape:vtl").ok().stdout.clone();
    assert_eq!((text.matches("unknown").count(), text.matches(label).count() > 0), (2, true));

    let other = if barcode == "V00001L9" { "V00002L9" } else { "V00001L9" };
    let export = format!("library export vtape:vtl {barcode} {other} --location");
    let both: Vec<&str> = export.split(' ').chain(["the bank"]).collect();
    lab.run(both).refused(&["1 free mail slots for 2 tapes"]);
    run(&lab, &format!("library export vtape:vtl {barcode} X")).refused(&["no tape X"]);
    let mut export = vec!["library", "export", "vtape:vtl", barcode, "--location", "bank, box 7"];
    let said = lab.run(export.clone()).ok().stdout.clone();
    assert!(said.contains("to mail slot 1") && said.contains(label), "{said}");
    assert_eq!(known(&lab)["place"], "mail:1");
    let medium = &json(&lab, &format!("media show {label}"))[0];
    assert_eq!(
        (&medium["state"], &medium["exported_to"]),
        (&"exported".into(), &"bank, box 7".into())
    );
    // Again, to correct the place.
    export[5] = "bank, box 8";
    lab.run(export).ok();
    assert_eq!(json(&lab, &format!("media show {label}"))[0]["exported_to"], "bank, box 8");

    // One that a restore loaded from there comes back as well.
    lab.restored(["t", "--into", "out"]);
    assert_eq!(known(&lab)["place"], "drive:1");
    let back = &json(&lab, "library import vtape:vtl")[0];
    assert_eq!((&back["from"], &back["label"]), (&"mail:1".into(), &label.into()));
    assert_eq!(json(&lab, &format!("media show {label}"))[0]["state"], "appendable");
    assert!(run(&lab, "library import vtape:vtl").ok().stdout.contains("no tapes"));
}

/// The drive asks in the middle of a session, and is cleaned when that is done; a tape that asks in two drives is at fault.
#[test]
fn a_drive_that_asks_is_cleaned_after_the_session() {
    let lab = Lab::new();
    vtl(&lab, "--drives 2 --slots 4 --tapes 2");
    lab.file("tree/file", noise(1, 3_000_000));
    let dirty = |drive: u32, device: &str| {
        let fault = format!("vtl fault vtl --drive {drive} write:5=dirty");
        run(&lab, &fault).ok();
        lab.backed_up(["tree", "--to", device, "--name", "t", "--full"])
    };
    let first = "vtape:vtl?tape=V00001L9&drive=1";
    let nobody = dirty(1, first);
    assert!(nobody["errors"].to_string().contains("no cleaning tape"), "{nobody}");
    assert_eq!(nobody["error_count"], 0, "{nobody}");
    run(&lab, "vtl add-tape vtl --cleaning 2").ok();
    let cleaned = lab.backed_up(["tree", "--to", first, "--name", "t", "--full"]);
    assert!(cleaned["notes"].to_string().contains("was cleaned, tape CLN"), "{cleaned}");
    assert!(places(&lab, "vtape:vtl").iter().any(|tape| tape.starts_with("V00001L9 in slot")));
    let quiet = lab.backed_up(["tree", "--to", first, "--name", "t", "--full"]);
    assert_eq!(quiet["notes"].as_array().map_or(0, Vec::len), 0, "{quiet}");
    assert!(!run(&lab, "media list").ok().stdout.contains("poor"));
    run(&lab, "library unload vtape:vtl 1").ok();
    let second = dirty(2, "vtape:vtl?tape=V00001L9&drive=2");
    assert!(second["errors"].to_string().contains("in 2 drives"), "{second}");
    let list = run(&lab, "media list").ok().stdout.clone();
    assert!(list.contains("poor"), "{list}");
    let elsewhere = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    assert_eq!(elsewhere["media"][0], "V00002L9", "{elsewhere}");
}

/// What a drive has to say counts most where it failed.
/// The same of a drive that asks while a tape is read; where it cannot be cleaned that is said.
#[test]
fn a_drive_that_asks_while_a_tape_is_read_is_cleaned_too() {
    let lab = Lab::new();
    crate::tape::library(&lab, 1, 4);
    lab.file("tree/file", noise(1, 20_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    let reads = ["restore t --into r --json", "verify t --json", "restore t --to-tar r.tar --json"];
    for line in reads {
        run(&lab, "vtl fault vtl --drive 1 read:9=dirty").ok();
        let done = report(run(&lab, line));
        assert!(done["errors"].to_string().contains("no cleaning tape"), "{line}: {done}");
        assert_eq!(done["status"], "completed", "{line}: {done}");
        let _ = std::fs::remove_dir_all(lab.path("r"));
    }
    run(&lab, "vtl add-tape vtl --cleaning 9").ok();
    for line in reads {
        run(&lab, "vtl fault vtl --drive 1 read:9=dirty").ok();
        let done = report(run(&lab, line));
        assert!(done["notes"].to_string().contains("was cleaned, tape CLN"), "{line}: {done}");
        assert_eq!(done["status"], "completed", "{line}: {done}");
        let _ = std::fs::remove_dir_all(lab.path("r"));
    }
}

#[test]
fn a_drive_that_asks_and_fails_is_cleaned_too() {
    let lab = Lab::new();
    vtl(&lab, "--drives 1");
    run(&lab, "vtl add-tape vtl --cleaning 5").ok();
    lab.file("tree/big", noise(1, 9_000_000));
    run(&lab, "vtl fault vtl --drive 1 write:5=dirty,write:9=error").ok();
    let done = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    assert_eq!(done["media"].as_array().unwrap().len(), 2, "{done}");
    assert!(done["notes"].to_string().contains("was cleaned, tape CLN001L9 has 4"), "{done}");
}

#[test]
fn drives_are_cleaned_until_the_tape_is_used_up() {
    let lab = Lab::new();
    vtl(&lab, "--drives 2 --slots 3 --tapes 1 --mail-slots 1");
    run(&lab, "library clean vtape:vtl 1").refused(&["no cleaning tape", "CLN"]);
    run(&lab, "vtl add-tape vtl --cleaning 0 --barcode CLNOLDL9").ok();
    run(&lab, "vtl add-tape vtl --cleaning 1").ok();
    run(&lab, "vtl add-tape vtl --barcode CLNL9").refused(&["cleaning tapes", "begin with CLN"]);
    let new = &json(&lab, "vtl add-tape vtl --barcode NEW --write-protected")[0];
    assert_eq!((&new["barcode"], &new["place"]), (&"NEW".into(), &"slot:3".into()));
    run(&lab, "vtl add-tape vtl").refused(&["taken", "export a tape"]);
    run(&lab, "library load vtape:vtl CLN001L9").refused(&["cleans drives", "library clean"]);
    // The one that is used up does not keep the other from being used.
    let cleaned = &json(&lab, "library clean vtape:vtl drive:1")[0];
    assert_eq!((&cleaned["barcode"], &cleaned["uses_left"]), (&"CLN001L9".into(), &0.into()));
    run(&lab, "library clean vtape:vtl 1").refused(&["CLN", "used up", "put a new one in"]);
    run(&lab, "library load vtape:vtl V00001L9 1").ok();
    run(&lab, "library clean vtape:vtl 1").refused(&["holds tape V00001L9", "unload it first"]);
}

#[test]
fn a_library_that_is_not_ours_does_the_same() {
    let lab = Lab::new();
    let Some(tgt) = Tgt::start(8, None) else { return };
    let host = format!("127.0.0.1:{}", tgt.port());
    let seen = json(&lab, &format!("library scan --iscsi {host}"));
    let devices: Vec<_> = seen.iter().map(|s| (&s["device"], &s["kind"])).collect();
    let library = tgt.url(CHANGER);
    assert_eq!(devices[2], (&library.as_str().into(), &"library".into()));
    assert_eq!(devices[0], (&tgt.url("1").into(), &"drive".into()));
    assert_eq!(seen[0]["serial"], tgt.serial("1"));
    let text = run(&lab, &format!("library scan --iscsi {host}")).ok().stdout.clone();
    assert!(text.contains("STK L700") && text.contains("HP Ultrium 6-SCSI"), "{text}");

    let moved = &json(&lab, &format!("library load {library} TAPE03L6"))[0];
    assert_eq!((&moved["from"], &moved["to"]), (&"slot:3".into(), &"drive:1".into()));
    let status = &json(&lab, &format!("library status {library}"))[0];
    assert_eq!(status["drives"][0]["tape"], "TAPE03L6");
    assert_eq!(status["drives"][1]["serial"], tgt.serial("2"));
    assert_eq!((&status["slots"], &status["mail_slots"]), (&8.into(), &1.into()));
    run(&lab, &format!("library load {library} TAPE01L6 drive:1")).refused(&["drive 1 holds tape"]);
    let moved = &json(&lab, &format!("library unload {library} drive:1"))[0];
    assert_eq!(moved["to"], "slot:3");
    run(&lab, &format!("library export {library} TAPE03L6 --location vault")).ok();
    assert_eq!(places(&lab, &library).last().unwrap(), "TAPE03L6 in mail:1");
    let back = &json(&lab, &format!("library import {library}"))[0];
    assert_eq!(back["to"], "slot:3");
    let rescanned = run(&lab, &format!("library inventory {library} --rescan"));
    assert_eq!(rescanned.ok().stdout.matches("unknown").count(), 6, "{}", rescanned.stdout);
    // A drive by itself is a library of one drive.
    let alone = &json(&lab, &format!("library status {}", tgt.url("2")))[0];
    assert_eq!((&alone["slots"], &alone["drives"][0]["tape"]), (&0.into(), &Value::Null));
    run(&lab, &format!("library move {} drive:1 slot:1", tgt.url("2"))).refused(&["by hand"]);
    drop(tgt);
    let gone = run(&lab, &format!("library status {library}"));
    assert_eq!(gone.code, 1, "{}", gone.stderr);
    assert!(
        gone.stderr.contains("cannot connect") && gone.stderr.contains("hint"),
        "{}",
        gone.stderr
    );
}

#[test]
fn a_backup_spans_real_tapes_and_comes_back() {
    let lab = Lab::new();
    let Some(tgt) = Tgt::start(24, None) else { return };
    crate::mirror::tree(&lab);
    for n in 0..5 {
        lab.file(&format!("tree/big-{n}"), noise(n, 10_000_000));
    }
    let library = tgt.url(CHANGER);
    let full = lab.backed_up(["tree", "--to", &library, "--name", "t"]);
    assert!(full["media"].as_array().unwrap().len() >= 3, "{full}");
    lab.sh("cd tree; rm big-1; echo new >new; touch big-2");
    lab.backed_up(["tree", "--to", &library, "--name", "t", "--incr"]);
    let into = lab.path("restored");
    lab.restored(["t", "--into", into.to_str().unwrap()]);
    same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
}

/// The power of the library goes while it is written: what is on its tapes stays, and the session is gone on with.
#[test]
fn a_library_that_loses_its_power_in_a_session_costs_nothing_that_was_committed() {
    let lab = Lab::new();
    let Some(mut tgt) = Tgt::start(400, None) else { return };
    crate::mirror::tree(&lab);
    for n in 0..12 {
        lab.file(&format!("tree/big-{n:02}"), noise(n, 10_000_000));
    }
    let library = tgt.url(CHANGER);
    let backup = ["backup", "tree", "--to", &library, "--name", "t", "--json"];
    let mut command = lab.command();
    let child = command.args(backup).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = child.spawn().unwrap();
    let first = tgt.tape("TAPE01L6");
    wait_for("a part of it is on the tape", || {
        std::fs::metadata(&first).is_ok_and(|meta| meta.len() > 60_000_000)
    });
    tgt.kill();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("lost") || said.contains("cannot connect"), "{said}");
    // Without its library nothing begins, and that is said.
    let without = lab.run(["backup", "tree", "--to", &library, "--name", "t"]);
    assert_eq!(
        (without.code, without.stderr.contains("cannot connect")),
        (1, true),
        "{}",
        without.stderr
    );
    tgt.restart();
    lab.backed_up(["tree", "--to", &library, "--name", "t", "--resume"]);
    let into = lab.path("restored");
    lab.restored(["t", "--into", into.to_str().unwrap()]);
    same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
}

#[test]
fn a_drive_that_stands_alone_is_backed_up_to() {
    let lab = Lab::new();
    let Some(istgt) = Istgt::start("200MB") else { return };
    crate::mirror::tree(&lab);
    lab.file("tree/big", noise(1, 20_000_000));
    let drive = istgt.url();
    lab.backed_up(["tree", "--to", &drive, "--name", "t"]);
    let into = lab.path("restored");
    lab.restored(["t", "--into", into.to_str().unwrap()]);
    same_by_rsync(&lab.path("tree"), &below(&into, &lab.path("tree")));
    run(&lab, &format!("library unload {drive}")).ok();
    run(&lab, &format!("backup tree --to {drive} --name t")).refused(&["no tape is loaded"]);
}

/// A version that is on one tape of a library, written with the options.
fn on_tape(lab: &Lab, name: &str) -> String {
    let report = lab.backed_up([name, "--to", "vtape:vtl", "--name", name]);
    report["media"][0].as_str().unwrap().to_owned()
}

#[test]
fn a_copy_goes_to_another_tape_than_its_original() {
    let lab = Lab::new();
    crate::tape::library(&lab, 2, 4);
    lab.file("t/file", noise(1, 3_000_000));
    let first = on_tape(&lab, "t");
    let copy = |to: &str, more: &str| {
        let line = format!("copy t --to {to} --json {more}");
        let done = run(&lab, &line);
        serde_json::from_str::<Value>(&done.ok().stdout).unwrap()
    };
    let copied = copy("vtape:vtl", "");
    let second = copied["media"][0].as_str().unwrap().to_owned();
    assert!(second != first && copied["bytes_written"].as_u64() > Some(3_000_000), "{copied}");
    // There it is, and stays.
    let again = copy("vtape:vtl", "--eject-to bank");
    assert_eq!((&again["media"][0], &again["bytes_written"]), (&second.as_str().into(), &0.into()));
    let named = copy(&format!("vtape:vtl?tape={first}"), "--eject-to bank");
    assert_eq!(named["bytes_written"], 0, "{named}");
    let list = run(&lab, "media list --json");
    assert!(!list.ok().stdout.contains("exported_to\":\"bank"), "{}", list.stdout);
    let into = lab.path("restored");
    lab.restored(["t", "--into", into.to_str().unwrap()]);
    same_by_rsync(&lab.path("t"), &below(&into, &lab.path("t")));
}

#[test]
fn tapes_of_a_lost_database_are_adopted_and_appended_to() {
    let lab = Lab::new();
    crate::tape::library(&lab, 1, 3);
    lab.file("t/file", noise(1, 300_000));
    let tape = on_tape(&lab, "t");
    lab.lose_tables();
    run(&lab, "import vtape:vtl").ok();
    let device = format!("vtape:vtl?tape={tape}");
    let refused = run(&lab, &format!("backup t --to {device} --name t"));
    assert!(refused.stderr.contains("media adopt"), "{}", refused.stderr);
    run(&lab, &format!("media adopt {device}")).ok();
    lab.file("t/new", "more");
    assert_eq!(on_tape(&lab, "t"), tape);
    let into = lab.path("restored");
    lab.restored(["t", "--into", into.to_str().unwrap()]);
    same_by_rsync(&lab.path("t"), &below(&into, &lab.path("t")));
    run(&lab, &format!("media adopt {device}")).refused(&["of this cell already"]);
}

#[test]
fn all_tapes_of_a_library_are_adopted_at_once_or_one_by_its_label() {
    let lab = Lab::new();
    crate::tape::library(&lab, 1, 4);
    for (n, name) in ["a", "b", "c"].iter().enumerate() {
        lab.file(&format!("{name}/file"), noise(n as u64, 30_000));
        let tape = format!("vtape:vtl?tape=V{:05}L9", n + 1);
        lab.backed_up([*name, "--to", &tape, "--name", name]);
    }
    lab.lose_tables();
    run(&lab, "media adopt vtape:vtl").refused(&["no tape", "capstan import vtape:vtl"]);
    let import = run(&lab, "import vtape:vtl").ok().stdout.clone();
    assert_eq!(import.matches("media adopt vtape:vtl").count(), 1, "{import}");
    let states = |lab: &Lab| -> Vec<String> {
        let tapes = json(lab, "library inventory vtape:vtl");
        tapes.iter().filter_map(|t| Some(t["known"]["state"].as_str()?.to_owned())).collect()
    };
    assert_eq!(states(&lab), ["foreign"; 3]);
    let listed = run(&lab, "media list").ok().stdout.clone();
    assert!(listed.matches("foreign").count() == 3 && !listed.contains("appendable"), "{listed}");
    // It is known without a look at them: what cannot be written is not loaded to see that.
    let elsewhere = run(&lab, "backup a --to vtape:vtl?tape=V00001L9 --name a");
    elsewhere.refused(&["another cell"]);
    assert_eq!(on_tape(&lab, "a"), "V00004L9");
    let label = json(&lab, "media list")[0]["label"].as_str().unwrap().to_owned();
    run(&lab, &format!("media adopt {label}")).ok();
    run(&lab, &format!("media adopt {label}")).refused(&["of this cell already"]);
    let rest = run(&lab, "media adopt vtape:vtl").ok().stdout.clone();
    assert!(rest.starts_with("2 media are of this cell now"), "{rest}");
    assert_eq!(states(&lab), ["appendable"; 4]);
    run(&lab, "media adopt vtape:vtl").refused(&["no tape"]);
    for (n, name) in ["a", "b", "c"].iter().enumerate() {
        let tape = format!("vtape:vtl?tape=V{:05}L9", n + 1);
        lab.backed_up([*name, "--to", &tape, "--name", name]);
    }
}

#[test]
fn a_tape_that_cannot_be_read_does_not_keep_the_others_from_being_imported() {
    let lab = Lab::new();
    crate::tape::library(&lab, 1, 3);
    for name in ["a", "b"] {
        lab.file(&format!("{name}/file"), noise(1, 30_000));
    }
    for (n, name) in ["a", "b"].iter().enumerate() {
        let tape = format!("vtape:vtl?tape=V{:05}L9", n + 1);
        lab.backed_up([*name, "--to", &tape, "--name", name]);
    }
    lab.lose_tables();
    let whole = crate::unopened::break_file(&lab.path("vtl"), "V00001L9");
    let import = run(&lab, "import vtape:vtl");
    assert_eq!(import.code, 3, "{}{}", import.stdout, import.stderr);
    assert!(import.stderr.contains("was not imported"), "{}", import.stderr);
    let known = run(&lab, "sessions --kind all --json");
    assert_eq!(known.ok().stdout.matches("\"kind\":\"backup\"").count(), 1, "{}", known.stdout);
    std::fs::write(lab.path("vtl/tapes/V00001L9.tape"), whole).unwrap();
    run(&lab, "import vtape:vtl").ok();
}

#[test]
fn the_home_of_a_tape_that_is_in_a_drive_is_not_given_away() {
    let lab = Lab::new();
    let design = capstan_tape::vtl::library::Design { slots: 3, ..crate::tape::library_of(1, 3) };
    Virtual::create(&lab.path("vtl"), &design, 3).unwrap();
    lab.file("t/file", "text");
    on_tape(&lab, "t");
    run(&lab, "vtl add-tape vtl").ok();
    run(&lab, "library import vtape:vtl").refused(&["no free slot"]);
    lab.backed_up(["t", "--to", "vtape:vtl?tape=V00002L9", "--name", "other"]);
}

#[test]
fn two_sessions_change_tapes_in_one_library() {
    let lab = Lab::new();
    crate::tape::library(&lab, 2, 40);
    for (n, name) in ["a", "b"].iter().enumerate() {
        lab.file(&format!("{name}/file"), noise(n as u64, 90_000_000));
    }
    for _ in 0..2 {
        let start = |name: &str| {
            let mut command = lab.command();
            command.args(["backup", name, "--to", "vtape:vtl", "--name", name, "--full"]);
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let both = ["a", "b"].map(start);
        for child in both {
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(0), "{said}");
        }
    }
}

#[test]
fn a_tape_that_cleans_is_not_taken_for_data() {
    let lab = Lab::new();
    vtl(&lab, "--drives 1 --slots 4 --tapes 1");
    run(&lab, "vtl add-tape vtl --cleaning 3").ok();
    run(&lab, "library import vtape:vtl").ok();
    lab.file("tree/a", noise(1, 1000));
    let tape = "vtape:vtl?tape=CLN001L9";
    for line in [
        "backup tree --name t --to",
        "media init",
        "media erase --foreign",
        "import",
        "verify --medium",
    ] {
        let refused = run(&lab, &format!("{line} {tape}"));
        assert_ne!(refused.code, 0, "{line}");
        let why = format!("{}{}", refused.stdout, refused.stderr);
        assert!(
            why.contains("CLN001L9 cleans drives") || line.starts_with("verify"),
            "{line}: {why}"
        );
        let places = places(&lab, "vtape:vtl");
        assert!(places.iter().any(|p| p.starts_with("CLN001L9 in slot")), "{line}: {places:?}");
    }
    run(&lab, "library clean vtape:vtl drive:1").ok();
}

/// Tapes that come back are not always put into mail slots.
#[test]
fn exported_tapes_that_are_put_into_slots_are_back() {
    let lab = Lab::new();
    vtl(&lab, "--drives 1 --slots 3 --tapes 1 --mail-slots 0");
    lab.file("tree/file", noise(1, 100_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    run(&lab, "library unload vtape:vtl 1").ok();
    run(&lab, "media export V00001L9").ok();
    run(&lab, "vtl take vtl V00001L9").ok();
    run(&lab, "library inventory vtape:vtl --rescan").ok();
    assert!(run(&lab, "media list").ok().stdout.contains("exported"));
    run(&lab, "vtl insert vtl V00001L9").ok();
    // One that was only just exported lies in its slot, too, until somebody takes it.
    run(&lab, "library inventory vtape:vtl").ok();
    assert!(run(&lab, "media list").ok().stdout.contains("exported"));
    run(&lab, "library inventory vtape:vtl --rescan").ok();
    assert!(run(&lab, "media list").ok().stdout.contains("appendable"));
}

#[test]
fn a_tape_in_a_drive_that_nobody_uses_is_exported() {
    let lab = Lab::new();
    crate::tape::library(&lab, 1, 3);
    lab.file("tree/a", noise(1, 100_000));
    lab.backed_up(["tree", "--to", "vtape:vtl?tape=V00001L9", "--name", "t"]);
    run(&lab, "library load vtape:vtl V00001L9");
    let export = "library export vtape:vtl V00001L9 --location bank";
    let drive = std::fs::File::create(lab.path("vtl/drive-1")).unwrap();
    drive.lock().unwrap();
    run(&lab, export).refused(&["V00001L9 is in drive 1", "in use", "process"]);
    drop(drive);
    let said = run(&lab, export).ok().stdout.clone();
    assert!(said.contains("to mail slot 1"), "{said}");
    assert_eq!(json(&lab, "media show V00001L9")[0]["exported_to"], "bank");
}
