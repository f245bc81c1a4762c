//! Tapes that are worn or at fault: what must stay on them is copied and read back, then they are retired.

use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::support::{Lab, Run, finish, noise, report, wait_for};
use crate::tape::{comes_back, library, library_of, media};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

fn small(lab: &Lab) {
    for n in 0..6 {
        lab.file(&format!("tree/{n}"), noise(n + 1, 1_000_000));
    }
    lab.file("tree/dir/text", "some text");
}

fn state(lab: &Lab, label: &str) -> String {
    let all = media(lab);
    all.into_iter().find(|m| m.0 == label).unwrap_or_else(|| panic!("no {label}")).1
}

/// Tapes count as worn by the errors that were counted of them.
fn wear_out(lab: &Lab) {
    lab.edit_tables("UPDATE media_management SET errors = 3");
}

fn retire(lab: &Lab, args: &[&str]) -> Value {
    report(finish(lab.command().args(["media", "retire", "--json"]).args(args)))
}

/// The sessions that retired tapes, newest first: their states.
fn retired_by(lab: &Lab) -> Vec<String> {
    let sessions = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
    let sessions = sessions.lines().map(|l| serde_json::from_str::<Value>(l).unwrap());
    let retired = sessions.filter(|s| s["kind"] == "retire");
    retired.map(|s| s["status"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_tape_that_asks_for_cleaning_in_two_drives_is_copied_and_retired() {
    let lab = Lab::new();
    let dir = library(&lab, 2, 4);
    small(&lab);
    let backup = |drive: u32| {
        let plan = Library::open(&dir).unwrap();
        plan.plan_faults(Some(drive), "write:3=dirty").unwrap();
        let to = format!("vtape:vtl?tape=V00001L9&drive={drive}");
        let done = lab.backed_up(["tree", "--to", &to, "--name", "t"]);
        run(&lab, &format!("library unload vtape:vtl {drive}"));
        done
    };
    backup(1);
    lab.sh("cp -a tree first; echo new > tree/new");
    let found = backup(2);
    assert!(
        found["notes"].to_string().contains("is on 'V00002L9' too, and it is retired"),
        "{found}"
    );
    assert_eq!((&found["media"][0], &found["error_count"]), (&"V00001L9".into(), &0.into()));
    assert_eq!(
        (state(&lab, "V00001L9").as_str(), retired_by(&lab)),
        ("retired", vec!["completed".to_owned()])
    );
    // Restores go to the copies, of all that was on it.
    let restored = lab.restored(["t", "--into", "out"]);
    assert_eq!(restored["media"], serde_json::json!(["V00002L9"]), "{restored}");
    comes_back(&lab, "t", &lab.path("tree"));
    let first = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
    let first: Value = serde_json::from_str(first.lines().last().unwrap()).unwrap();
    let first = format!("t@{}", first["id"].as_str().unwrap());
    comes_back(&lab, &first, &lab.path("first"));
    // Nobody writes it again, and nothing is overwritten.
    let to_it = ["backup", "tree", "--name", "t", "--to", "vtape:vtl?tape=V00001L9"];
    lab.run(to_it).refused(&["is retired since", "--undo"]);
    run(&lab, "protect t --none").ok();
    for line in ["media recycle V00001L9", "media erase V00001L9", "media retire V00001L9"] {
        run(&lab, line).refused(&["is retired since"]);
    }
    let next = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    assert_eq!((&next["media"][0], retired_by(&lab).len()), (&"V00002L9".into(), 1), "{next}");
    run(&lab, "idb check").ok();
    // Where only the retired tape is left, it is read.
    run(&lab, "media retire V00001L9 --undo").ok();
    assert_eq!(state(&lab, "V00001L9"), "appendable", "it was the drives' fault");
    run(&lab, "media retire V00001L9 --undo").refused(&["is not retired"]);
    run(&lab, "media retire V00001L9 --no-copy").ok();
    assert_eq!(state(&lab, "V00001L9"), "retired");
    lab.sh("rm vtl/tapes/V00002L9.tape");
    comes_back(&lab, &first, &lab.path("first"));
}

#[test]
fn where_something_lacks_it_stays_poor_and_is_tried_again() {
    let lab = Lab::new();
    let dir = library(&lab, 2, 1);
    small(&lab);
    run(&lab, "pool create p").ok();
    run(&lab, "media init vtape:vtl?tape=V00001L9 --pool p").ok();
    let first = lab.backed_up(["tree", "--to", "pool:p", "--name", "t"]);
    assert!(
        first["notes"]
            .as_array()
            .is_none_or(|notes| !notes.iter().any(|n| n.to_string().contains("retire")))
    );
    wear_out(&lab);
    let status = run(&lab, "status");
    assert_eq!(status.code, 5, "{}", status.stdout);
    for words in
        ["which has some of its last version, is poor (3 errors", "`capstan media retire V00001L9`"]
    {
        assert!(status.stdout.contains(words), "{}", status.stdout);
    }
    lab.run(["backup", "tree", "--name", "t", "--to", "pool:p"]).refused(&["in poor condition"]);
    run(&lab, "media retire V00001L9").refused(&["pool 'p' has no usable medium"]);
    // A session that writes to other tapes says what lacks, and is no worse for that.
    run(&lab, "vtl add-tape vtl").ok();
    let barcode = places(&lab).into_iter().find(|tape| tape != "V00001L9").unwrap();
    let other = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "u"]);
    assert!(
        other["errors"].to_string().contains("was not retired: pool 'p' has no usable medium"),
        "{other}"
    );
    assert_eq!(
        (&other["media"][0], state(&lab, "V00001L9")),
        (&barcode.as_str().into(), "poor".to_owned())
    );
    // A copy that cannot be read back retires nothing; another tape is taken then.
    run(&lab, "vtl add-tape vtl --barcode GOOD1").ok();
    run(&lab, "vtl add-tape vtl --barcode GOOD2").ok();
    run(&lab, "media init vtape:vtl?tape=GOOD1 --pool p").ok();
    for drive in [1, 2] {
        run(&lab, &format!("library unload vtape:vtl {drive}"));
    }
    run(&lab, "library load vtape:vtl GOOD1 1").ok();
    // The other drive reads the original before.
    for (drive, from) in [(1, 6), (2, 20)] {
        let plan: Vec<_> = (from..90).map(|n| format!("read:{n}=error")).collect();
        Library::open(&dir).unwrap().plan_faults(Some(drive), &plan.join(",")).unwrap();
    }
    let failed = retire(&lab, &["V00001L9"]);
    for drive in [1, 2] {
        Library::open(&dir).unwrap().plan_faults(Some(drive), "").unwrap();
    }
    assert_eq!(failed["status"], "completed_with_errors", "{failed}");
    assert!(failed["errors"].to_string().contains("does not verify"), "{failed}");
    assert_eq!(
        (state(&lab, "V00001L9"), state(&lab, "GOOD1")),
        ("poor".to_owned(), "damaged".to_owned())
    );
    // Sessions leave it alone for a day then, people do not.
    let later = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "u"]);
    assert!(later["errors"].to_string().contains("less than a day ago"), "{later}");
    run(&lab, "media init vtape:vtl?tape=GOOD2 --pool p").ok();
    let done = retire(&lab, &["V00001L9"]);
    assert_eq!(
        (&done["status"], &done["media"][0]),
        (&"completed".into(), &"GOOD2".into()),
        "{done}"
    );
    assert_eq!(state(&lab, "V00001L9"), "retired");
    // The backup that was refused for it is still on record.
    assert!(!run(&lab, "status").stdout.contains("is poor"));
    let restored = lab.restored(["t", "--into", "out"]);
    assert_ne!(restored["media"], serde_json::json!(["V00001L9"]), "{restored}");
    comes_back(&lab, "t", &lab.path("tree"));
    run(&lab, "idb check").ok();
}

fn places(lab: &Lab) -> Vec<String> {
    let tapes = run(lab, "library inventory vtape:vtl --json").ok().rows();
    tapes.iter().map(|tape| tape["barcode"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn with_one_drive_it_goes_elsewhere() {
    let lab = Lab::new();
    library(&lab, 1, 2);
    small(&lab);
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    run(&lab, "media retire V00001L9").refused(&["has no drive for it beside"]);
    assert_eq!(state(&lab, "V00001L9"), "appendable");
    let labelled = lab.run(["media", "list"]).ok().stdout.contains("V00002L9");
    assert!(!labelled, "no tape got a header for nothing");
    let done = retire(&lab, &["V00001L9", "--to", "disk"]);
    assert_eq!(
        (&done["status"], &done["media"][0]),
        (&"completed".into(), &"disk".into()),
        "{done}"
    );
    assert_eq!(state(&lab, "V00001L9"), "retired");
    lab.sh("mv vtl gone");
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn where_there_is_no_robot_somebody_has_to_do_it() {
    let lab = Lab::new();
    let library = crate::by_hand::drive(&lab, 2, 400);
    small(&lab);
    library.insert(&crate::by_hand::barcode(1)).unwrap();
    let backup = ["tree", "--to", "vtape:drive", "--name", "t"];
    lab.backed_up(backup);
    run(&lab, "pool create p").ok();
    run(&lab, "media move tape-0001 --pool p").ok();
    run(&lab, "media move tape-0001 --no-pool").ok();
    wear_out(&lab);
    lab.run(["backup"].iter().chain(&backup)).refused(&["'tape-0001'", "in poor condition"]);
    library.insert(&crate::by_hand::barcode(2)).unwrap();
    let done = lab.backed_up(backup);
    assert!(done["errors"].to_string().contains("its drive has no robot"), "{done}");
    assert_eq!(state(&lab, "tape-0001"), "poor");
}

#[test]
fn what_is_locked_is_locked_on_its_copy() {
    let lab = Lab::new();
    library(&lab, 2, 3);
    small(&lab);
    let keep = ["--protect", "none"];
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"].iter().chain(&keep));
    run(&lab, "lock t --until 30d").ok();
    let done = retire(&lab, &["V00001L9"]);
    assert_eq!(
        (&done["status"], &done["media"][0]),
        (&"completed".into(), &"V00002L9".into()),
        "{done}"
    );
    std::fs::remove_dir_all(lab.path("home")).unwrap();
    run(&lab, "import vtape:vtl?tape=V00002L9").ok();
    let shown = run(&lab, "sessions --kind all --json").ok().stdout.clone();
    assert!(shown.contains("\"locked_until\":\"2"), "{shown}");
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn of_a_tape_that_its_drive_encrypts_the_key_is_needed() {
    let lab = Lab::with_passphrase(Some("secret"));
    library(&lab, 2, 3);
    small(&lab);
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--encrypt", "drive"]);
    let mut command = lab.command();
    command.args(["media", "retire", "V00001L9"]).env_remove("CAPSTAN_PASSPHRASE");
    let run = finish(&mut command);
    assert!(
        run.code != 0 && run.stderr.contains("CAPSTAN_PASSPHRASE"),
        "{}{}",
        run.code,
        run.stderr
    );
    assert_eq!(state(&lab, "V00001L9"), "appendable");
    let done = retire(&lab, &["V00001L9"]);
    assert_eq!(
        (&done["status"], &done["encryption"]),
        (&"completed".into(), &"drive".into()),
        "{done}"
    );
    lab.sh("rm vtl/tapes/V00001L9.tape");
    comes_back(&lab, "t", &lab.path("tree"));
}

#[test]
fn a_kill_retires_nothing_and_the_next_time_goes_on() {
    let lab = Lab::new();
    // Tapes on which all of it has room.
    let design = Design { capacity: Some(400_000_000), ..library_of(2, 4) };
    Library::create(&lab.path("vtl"), &design, 4).unwrap();
    for n in 0..10 {
        lab.file(&format!("tree/{n}"), noise(n + 1, 1_000_000));
    }
    let to = ["tree", "--to", "vtape:vtl", "--name", "t", "--segment-size", "1M"];
    assert_eq!(lab.backed_up(to)["media"], serde_json::json!(["V00001L9"]));
    let mut child = lab.command().args(["media", "retire", "V00001L9"]).spawn().unwrap();
    let copy = lab.path("vtl/tapes/V00002L9.tape");
    wait_for("some of it is copied", || copy.metadata().is_ok_and(|m| m.len() > 2_000_000));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_ne!(state(&lab, "V00001L9"), "retired");
    let done = retire(&lab, &["V00001L9"]);
    assert_eq!(done["status"], "completed", "{done}");
    assert_eq!(
        (state(&lab, "V00001L9"), retired_by(&lab)[1].as_str()),
        ("retired".to_owned(), "incomplete")
    );
    lab.sh("rm vtl/tapes/V00001L9.tape");
    comes_back(&lab, "t", &lab.path("tree"));
    lab.run(["idb", "check"]).ok();
}
