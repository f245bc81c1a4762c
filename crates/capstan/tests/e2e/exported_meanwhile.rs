//! Tapes that are exported, moved or retired while a backup waits that wants them: what was decided before is decided anew, and a tape
//! that lies in a mail slot for somebody to take out stays there.

use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use capstan_medium::tape::{Place, TapeLibrary};
use capstan_tape::vtl::library::Library;
use serde_json::json;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Run, below, noise, report};

/// A library with one drive, and a pool that takes blank tapes, with a backup on the tape in slot 1.
fn in_slot() -> Lab {
    let lab = Lab::new();
    crate::tape::library(&lab, 1, 6);
    run(&lab, "pool create p --scratch --library vtape:vtl").ok();
    lab.file("b/file", noise(1, 2_000_000));
    lab.backed_up("b --to pool:p --name b".split(' '));
    run(&lab, "library unload vtape:vtl drive:1").ok();
    assert_eq!(place(&lab), Place::Slot(1));
    lab
}

/// Has its robot take three seconds for each tape.
fn slow(lab: &Lab) {
    lab.sh("sed -i 's/^scale = .*/scale = 4.0/' vtl/library.toml");
}

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split(' '))
}

/// Begins a command that waits for what others have.
fn begun(lab: &Lab, line: &str) -> Child {
    let mut command = lab.command();
    command.env("CAPSTAN_WAIT", "5min").args(line.split(' '));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn ended(child: Child) -> Run {
    let output = child.wait_with_output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let code = output.status.code().unwrap();
    Run { code, stdout: text(&output.stdout), stderr: text(&output.stderr) }
}

/// Where the tape with the backup is.
fn place(lab: &Lab) -> Place {
    let held = Library::open(&lab.path("vtl")).unwrap().inventory().unwrap();
    held.into_iter().find(|tape| tape.barcode == "V00001L9").unwrap().place
}

/// The backup took another tape, and can be restored.
fn took_another(backup: Run) {
    let said = backup.stderr.clone();
    let done = report(backup);
    let (status, media) = (json!("completed"), json!(["V00002L9"]));
    assert_eq!((&done["status"], &done["media"]), (&status, &media), "{said} {done:#}");
}

const BACKUP: &str = "backup b --to pool:p --name b --full --json";

#[test]
fn a_backup_takes_another_tape_where_the_one_in_mind_is_being_exported() {
    for to in ["pool:p", "vtape:vtl"] {
        let lab = in_slot();
        if to != "pool:p" {
            run(&lab, "media move V00001L9 --no-pool").ok();
        }
        slow(&lab);
        let export = begun(&lab, "library export vtape:vtl V00001L9 --location bank");
        // It is on record before the robot moves.
        let is_recorded = || {
            let shown = run(&lab, "media show V00001L9 --json");
            shown.ok().stdout.contains("\"state\":\"exported\"")
        };
        for _ in 0..100 {
            if is_recorded() {
                break;
            }
            sleep(Duration::from_millis(50));
        }
        took_another(ended(begun(&lab, &BACKUP.replace("pool:p", to))));
        ended(export).ok();
        assert_eq!(place(&lab), Place::Mail(1), "{to}");
    }
}

#[test]
fn a_backup_takes_another_tape_where_the_one_in_mind_is_given_up_while_it_waits() {
    for line in ["media retire V00001L9 --no-copy", "media move V00001L9 --pool q"] {
        let lab = in_slot();
        run(&lab, "pool create q").ok();
        slow(&lab);
        let robot = begun(&lab, "library move vtape:vtl slot:5 slot:8");
        sleep(Duration::from_millis(700));
        let backup = begun(&lab, BACKUP);
        sleep(Duration::from_millis(1000));
        run(&lab, line).ok();
        ended(robot).ok();
        took_another(ended(backup));
    }
}

#[test]
fn a_backup_leaves_an_exported_tape_in_its_mail_slot_and_a_restore_takes_it() {
    let lab = in_slot();
    run(&lab, "library export vtape:vtl V00001L9 --location bank").ok();
    let named = run(&lab, "backup b --to vtape:vtl?tape=V00001L9 --name b");
    named.refused(&[
        "V00001L9 was exported on",
        "to bank",
        "`capstan library import` takes it back",
    ]);
    assert_eq!(place(&lab), Place::Mail(1));
    lab.restored(["b", "--into", "back"]);
    same_by_rsync(&lab.path("b"), &below(&lab.path("back"), &lab.path("b")));
}

#[test]
fn an_export_looks_for_its_tape_again_when_it_has_waited_for_the_robot() {
    let lab = in_slot();
    slow(&lab);
    let robot = begun(&lab, "library move vtape:vtl slot:1 slot:8");
    sleep(Duration::from_millis(700));
    let export = run(&lab, "library export vtape:vtl V00001L9 --location bank");
    assert!(export.ok().stdout.contains("from slot 8 to mail slot 1"), "{}", export.stdout);
    ended(robot).ok();
    run(&lab, "library import vtape:vtl").ok();
    // One that was brought to a drive meanwhile is in use there, and is not recorded as exported.
    let restore = begun(&lab, "restore b --into out");
    sleep(Duration::from_millis(1000));
    let export = run(&lab, "library export vtape:vtl V00001L9 --location bank");
    export.refused(&["tape V00001L9 is in drive 1, which is in use"]);
    ended(restore).ok();
    let shown = run(&lab, "media show V00001L9 --json").ok().stdout.clone();
    assert!(shown.contains("\"state\":\"appendable\""), "{shown}");
}
