//! Disks of a pool to which writing fails: what is no fault of theirs does not count, what counted is taken back by proof, and who is told
//! of it is told why, and what helps.

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Mount, Run, below, is_root, loop_devices, noise, skip};

/// Three errors of which the last was after all that was written so far.
const WORN_OUT: &str = "UPDATE media_management SET errors = 3, \
                        error_us = (SELECT MAX(committed_us) FROM segments)";

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split(' '))
}

fn shown(lab: &Lab, medium: &str) -> Value {
    serde_json::from_str(&run(lab, &format!("media show {medium} --json")).ok().stdout).unwrap()
}

/// A disk with a file system of its own, which is a medium of the pool.
fn disk(lab: &Lab, name: &str) -> Mount {
    let image = lab.path(format!("{name}.image")).display().to_string();
    lab.sh(&format!("truncate -s 40M {image}; mkfs.ext4 -q -m0 {image}"));
    let mount = Mount::new(&["-o", "loop", &image], &lab.path(name));
    run(lab, &format!("media init {name}/m --label {name} --pool p")).ok();
    mount
}

fn next(lab: &Lab, n: u64) {
    lab.file("tree/file", noise(n, 30_000));
}

/// A backup to the pool, of which only errors are said.
fn quietly(lab: &Lab) -> Run {
    run(lab, "backup tree --name t --to pool:p -q")
}

fn comes_back(lab: &Lab) {
    lab.restored(["t", "--into", "out"]);
    let tree = lab.path("tree");
    same_by_rsync(&tree, &below(&lab.path("out"), &tree));
}

/// A pool with a directory that is poor, and has a backup.
fn with_a_poor_medium() -> Lab {
    let lab = Lab::new();
    run(&lab, "pool create p").ok();
    run(&lab, "media init m --pool p").ok();
    next(&lab, 1);
    quietly(&lab).ok();
    lab.edit_tables("UPDATE media_management SET errors = 3");
    assert_eq!(shown(&lab, "m")["state"], "poor");
    lab
}

#[test]
fn disks_that_take_nothing_as_they_are_mounted_are_no_worse_for_it() {
    if !loop_devices() {
        return skip("no loop device can be mounted here");
    }
    let lab = Lab::new();
    run(&lab, "pool create p").ok();
    let (first, second) = (disk(&lab, "d1"), disk(&lab, "d2"));
    next(&lab, 1);
    quietly(&lab).ok();
    // One is mounted read-only, and the other lets nobody write.
    lab.sh("mount -o remount,ro d1; chattr +i d2/m");
    for n in 2..6 {
        next(&lab, n);
        let failed = quietly(&lab);
        assert_eq!(failed.code, 1, "{}", failed.stderr);
        for words in [
            "d1 failed in this session (cannot create ",
            "Read-only file system (os error 30), mount it read-write)",
            "d2 failed in this session (cannot create ",
            "Operation not permitted (os error 1), check its owner",
        ] {
            assert!(failed.stderr.contains(words), "{words}: {}", failed.stderr);
        }
    }
    for disk in ["d1", "d2"] {
        let shown = shown(&lab, disk);
        assert_eq!((&shown["condition"], &shown["errors"]), (&"good".into(), &0.into()), "{shown}");
    }
    lab.sh("mount -o remount,rw d1; chattr -i d2/m");
    quietly(&lab).ok();
    comes_back(&lab);
    drop((first, second));
}

#[test]
fn media_that_fail_one_after_the_other_are_each_named_with_a_reason() {
    if !is_root() {
        return skip("no file can be made immutable here");
    }
    let lab = Lab::new();
    run(&lab, "pool create p").ok();
    next(&lab, 1);
    for name in ["a", "b", "c"] {
        run(&lab, &format!("media init {name} --pool p")).ok();
    }
    if !lab.succeeds("chattr +i a b c") {
        return skip("no file can be made immutable here");
    }
    let failed = quietly(&lab);
    lab.sh("chattr -i a b c");
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    for words in ["3 media failed one after the other", "a failed in", "b failed in", "c failed in"]
    {
        assert!(failed.stderr.contains(words), "{words}: {}", failed.stderr);
    }
    assert_eq!(failed.stderr.matches("Operation not permitted").count(), 3, "{}", failed.stderr);
    quietly(&lab).ok();
}

#[test]
fn who_is_told_that_a_disk_is_poor_is_told_what_proves_it_sound() {
    let lab = with_a_poor_medium();
    let (prove, retire) = ("`capstan verify --medium m`", "`capstan media retire m`");
    let refused = quietly(&lab);
    refused.refused(&["m is in poor condition (3 errors, poor from 3 on)", prove, "media init"]);
    let said = [run(&lab, "status").stdout.clone(), run(&lab, "media show m").stdout.clone()];
    for said in said.iter().chain([&shown(&lab, "m")["hint"].to_string()]) {
        assert!(said.contains(prove) && said.contains(retire), "{said}");
    }
    run(&lab, "verify --medium m").ok();
    let sound = shown(&lab, "m");
    assert_eq!(
        (&sound["state"], &sound["condition"], &sound["errors"], &sound["hint"]),
        (&"appendable".into(), &"good".into(), &0.into(), &Value::Null),
        "{sound}"
    );
    next(&lab, 2);
    quietly(&lab).ok();
    comes_back(&lab);
    run(&lab, "status").ok();
}

#[test]
fn a_verification_that_finds_damage_proves_nothing_and_a_repair_does() {
    let lab = with_a_poor_medium();
    run(&lab, "copy t --to copied").ok();
    lab.sh("printf X | dd of=m/00000001.segment bs=1 seek=600 conv=notrunc 2>/dev/null");
    assert_eq!(run(&lab, "verify --medium m").code, 3);
    let damaged = shown(&lab, "m");
    assert_eq!((&damaged["state"], &damaged["errors"]), (&"damaged".into(), &4.into()));
    run(&lab, "media repair m").ok();
    let mended = shown(&lab, "m");
    assert_eq!(
        (&mended["state"], &mended["errors"]),
        (&"appendable".into(), &0.into()),
        "{mended}"
    );
    quietly(&lab).ok();
}

#[test]
fn three_sessions_that_wrote_take_errors_back_and_another_error_begins_anew() {
    let lab = with_a_poor_medium();
    lab.edit_tables(WORN_OUT);
    let direct = |n: u64| {
        next(&lab, n);
        run(&lab, "backup tree --name t --to m -q").ok();
        shown(&lab, "m")["errors"].as_u64().unwrap()
    };
    assert_eq!((direct(2), direct(3)), (3, 3));
    lab.edit_tables(&WORN_OUT.replace("errors = 3", "errors = 4"));
    assert_eq!((direct(4), direct(5), direct(6)), (4, 4, 0));
    next(&lab, 7);
    quietly(&lab).ok();
}

#[test]
fn a_tape_whose_errors_were_the_drives_is_taken_back_with_undo() {
    let lab = Lab::new();
    crate::tape::library(&lab, 2, 3);
    next(&lab, 1);
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    lab.edit_tables("UPDATE media_management SET errors = 3");
    let tape = "V00001L9";
    let ways = shown(&lab, tape)["hint"].to_string();
    assert!(ways.contains("`capstan media retire V00001L9`") && !ways.contains("verify"), "{ways}");
    // To be read whole proves of a tape that it can be read.
    run(&lab, "verify --medium V00001L9").ok();
    assert_eq!(shown(&lab, tape)["state"], "poor");
    run(&lab, "media retire V00001L9 --no-copy").ok();
    run(&lab, "media retire V00001L9 --undo").ok();
    let back = shown(&lab, tape);
    assert_eq!((&back["state"], &back["errors"]), (&"appendable".into(), &0.into()), "{back}");
}

/// What a user may not read or write says nothing of the disk.
#[test]
fn a_medium_that_is_closed_to_the_user_is_neither_damaged_nor_worse() {
    if !is_root() {
        return skip("only root can be somebody else");
    }
    let lab = Lab::of_user();
    run(&lab, "pool create p").ok();
    run(&lab, "media init m --pool p").ok();
    lab.file("tree/file", noise(1, 30_000));
    quietly(&lab).ok();
    lab.sh("chmod 0 m/00000001.segment");
    let read = run(&lab, "verify --medium m");
    let said = format!("{}{}", read.stdout, read.stderr);
    assert_ne!(read.code, 0, "{said}");
    assert!(said.contains("could not be read now") && said.contains("ermission denied"), "{said}");
    let closed = shown(&lab, "m");
    assert_eq!((&closed["state"], &closed["errors"]), (&"appendable".into(), &0.into()));
    lab.sh("chmod 600 m/00000001.segment; chmod 555 m");
    lab.file("tree/file", noise(2, 30_000));
    let failed = quietly(&lab);
    assert!(failed.code != 0 && failed.stderr.contains("ermission denied"), "{}", failed.stderr);
    lab.sh("chmod 755 m");
    assert_eq!(shown(&lab, "m")["errors"], 0);
    quietly(&lab).ok();
    run(&lab, "verify --medium m").ok();
}
