//! Damage and what becomes of it: headers written anew, segments that nobody needs, counters that are good again, and repairs of
//! every kind of medium, also such as are cut short.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;

use crate::mirror::{comes_back_as, damage};
use crate::repair::{backed_up, repair, segments, tree};
use crate::support::{Lab, Mount, can_mount, completed, finish, free_bytes, noise, report, skip};
use crate::support::{end, wait_for};
use crate::tape::library;

fn show(lab: &Lab, medium: &str) -> Value {
    serde_json::from_str(&lab.run(["media", "show", medium, "--json"]).ok().stdout).unwrap()
}

/// State, condition and errors of a medium.
fn state(lab: &Lab, medium: &str) -> (String, String, u64) {
    let shown = show(lab, medium);
    let text = |of: &str| shown[of].as_str().unwrap().to_owned();
    (text("state"), text("condition"), shown["errors"].as_u64().unwrap())
}

fn good() -> (String, String, u64) {
    ("appendable".to_owned(), "good".to_owned(), 0)
}

pub fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

#[test]
fn a_damaged_segment_that_no_version_needs_goes() {
    let lab = Lab::new();
    tree(&lab);
    backed_up(&lab, &["--to", "a", "--full"]);
    let old = segments(&lab, "a");
    backed_up(&lab, &["--to", "a", "--full"]);
    // It expired, and the prune that was to remove it was cut short.
    lab.edit_tables(
        "UPDATE versions SET expired_us = 1 WHERE id = (SELECT id FROM versions ORDER BY created_us LIMIT 1)",
    );
    flip(&old[0], 100_000);
    // What was left by somebody, and is no segment at all.
    lab.file("a/00000099.segment", noise(1, 300_000));
    assert_eq!(lab.run(["verify", "--medium", "a"]).code, 3);
    let foreseen = repair(&lab, &["a", "--dry-run"]);
    assert!(foreseen["notes"].to_string().contains("would be removed"), "{foreseen:#}");
    let run = lab.run(["media", "repair", "a", "--verbose"]);
    let said = format!("{}{}", run.stdout, run.stderr);
    assert!(said.contains("segment 1 was not needed") && said.contains("removed"), "{said}");
    assert!(said.contains("segment 99 was not needed"), "{said}");
    // What is not recorded may be another home's.
    assert!(!old[0].exists() && old[1].exists() && lab.path("a/00000099.segment").exists());
    assert_eq!(run.code, 3, "{said}");
    let verified = lab.run(["verify", "--medium", "a", "--verbose"]);
    let text = format!("{}{}", verified.stdout, verified.stderr);
    assert!(verified.code == 3 && text.contains("--remove-unreadable"), "{text}");
    let foreseen = repair(&lab, &["a", "--dry-run", "--remove-unreadable"]);
    assert!(foreseen["notes"].to_string().contains("99 would be removed"), "{foreseen:#}");
    let run = lab.run(["media", "repair", "a", "--remove-unreadable", "--verbose"]);
    let said = format!("{}{}", run.ok().stdout, run.stderr);
    assert!(said.contains("segment 99 was not needed") && said.contains("removed"), "{said}");
    assert!(!lab.path("a/00000099.segment").exists());
    lab.run(["verify", "--medium", "a"]).ok();
    assert_eq!(state(&lab, "a").0, "appendable");
    comes_back_as(&lab, "t", "tree");
    lab.run(["prune", "--keep-last", "1"]).ok();
    lab.run(["idb", "check"]).ok();
}

/// What each command says where the header file of a medium is damaged or missing.
fn name_the_way_out(lab: &Lab, missing: bool) {
    let said = |args: &[&str]| {
        let run = lab.run(args);
        format!("{}{}", run.stdout, run.stderr)
    };
    let mut commands: Vec<&[&str]> =
        vec![&["verify", "--medium", "a"], &["idb", "check"], &["media", "show", "a"]];
    commands.push(&["backup", "tree", "--name", "t", "--to", "a"]);
    commands.push(&["lock", "t", "--until", "1d"]);
    if !missing {
        commands.push(&["import", "a"]);
    }
    for args in commands {
        let said = said(args);
        assert!(said.contains("capstan media repair"), "{args:?}: {said}");
    }
}

#[test]
fn a_header_file_is_written_anew() {
    let lab = Lab::new();
    tree(&lab);
    backed_up(&lab, &["--to", "a", "--full"]);
    backed_up(&lab, &["--to", "a", "--full"]);
    lab.run(["media", "label", "a", "shelf"]).ok();
    let whole = fs::read(lab.path("a/medium.capstan")).unwrap();
    lab.sh("cp -a a kept");
    for missing in [false, true] {
        match missing {
            true => fs::remove_file(lab.path("a/medium.capstan")).unwrap(),
            false => fs::write(lab.path("a/medium.capstan"), noise(1, 4096)).unwrap(),
        }
        name_the_way_out(&lab, missing);
        let foreseen = completed(repair(&lab, &["a", "--dry-run"]));
        assert!(foreseen["notes"].to_string().contains("would be written anew"), "{foreseen:#}");
        completed(repair(&lab, &["a"]));
        assert_eq!(fs::read(lab.path("a/medium.capstan")).unwrap(), whole, "missing: {missing}");
        backed_up(&lab, &["--to", "a", "--full"]);
        lab.run(["verify", "--medium", "a"]).ok();
        assert_eq!(state(&lab, "a"), good());
        comes_back_as(&lab, "t", "tree");
    }
    // By its label too, and with segments of which some cannot say it.
    lab.sh("rm a/medium.capstan; printf x | dd of=a/00000001.segment conv=notrunc bs=1 seek=8 2>/dev/null");
    completed(repair(&lab, &["shelf"]));
    lab.run(["verify", "--medium", "a"]).ok();
    // With the home lost the segments are enough.
    lab.sh("rm kept/medium.capstan");
    let elsewhere = |args: &[&str]| {
        let mut command = lab.command();
        command.env("CAPSTAN_HOME", lab.path("home2")).args(args);
        finish(&mut command)
    };
    let done = completed(report(elsewhere(&["media", "repair", "kept", "--json"])));
    assert!(done["notes"].to_string().contains("capstan media adopt"), "{done:#}");
    elsewhere(&["import", "kept"]).ok();
    elsewhere(&["restore", "t", "--into", "out"]).ok();
    elsewhere(&["media", "repair", "kept"]).refused(&["another cell", "media adopt"]);
}

#[test]
fn a_medium_that_another_cell_adopted_stays_with_it() {
    let lab = Lab::new();
    tree(&lab);
    backed_up(&lab, &["--to", "a"]);
    let other = |args: &[&str]| {
        let mut command = lab.command();
        command.env("CAPSTAN_HOME", lab.path("home2")).args(args);
        finish(&mut command)
    };
    other(&["import", "a"]).ok();
    other(&["media", "adopt", "a"]).ok();
    other(&["backup", "tree", "--name", "t", "--to", "a", "--full"]).ok();
    let whole = fs::read(lab.path("a/medium.capstan")).unwrap();
    lab.sh("printf XXXX | dd of=a/medium.capstan bs=1 seek=8 conv=notrunc 2>/dev/null");
    lab.run(["media", "repair", "a"]);
    let now = fs::read(lab.path("a/medium.capstan")).unwrap();
    assert!(now == whole || now[8..12] == *b"XXXX", "it is still the other cell's");
    lab.run(["backup", "tree", "--name", "t", "--to", "a", "--full"]).refused(&["another cell"]);
}

#[test]
fn what_is_not_recorded_is_not_removed() {
    let lab = Lab::new();
    tree(&lab);
    backed_up(&lab, &["--to", "a"]);
    lab.sh("cp -a home before");
    let tables = lab.keep_tables();
    backed_up(&lab, &["--to", "a", "--full"]);
    lab.sh("rm -r home; mv before home");
    lab.put_tables_back(&tables);
    // No block of it can be read: it may be a newer program's.
    let last = segments(&lab, "a").pop().unwrap();
    let length = fs::metadata(&last).unwrap().len() as usize;
    fs::write(&last, noise(9, length)).unwrap();
    let done = repair(&lab, &["a"]);
    assert!(last.exists(), "{done:#}");
    assert!(done.to_string().contains("--remove-unreadable"), "{done:#}");
}

#[test]
fn a_header_is_not_guessed() {
    let lab = Lab::new();
    tree(&lab);
    backed_up(&lab, &["--to", "a"]);
    lab.backed_up(["tree", "--name", "u", "--to", "b"]);
    // A copy that became a medium of its own, with nothing written to it since: its segments name the other.
    lab.sh("cp -a a c");
    lab.run(["media", "adopt", "c", "--as-new"]).ok();
    let whole = fs::read(lab.path("c/medium.capstan")).unwrap();
    lab.sh("rm c/medium.capstan");
    completed(repair(&lab, &["./c"]));
    assert_eq!(fs::read(lab.path("c/medium.capstan")).unwrap(), whole);
    // Segments of two media, of which the database knows neither there.
    lab.sh(
        "mkdir mixed; cp a/00000001.segment mixed; cp b/00000001.segment mixed/00000002.segment",
    );
    lab.run(["media", "repair", "mixed"]).refused(&["not certain which medium"]);
    // The segments of another medium in the place of a known one.
    lab.sh("rm -r b; mkdir b; cp a/00000001.segment b");
    lab.run(["media", "repair", "./b"]).refused(&["not certain which medium"]);
    assert!(!lab.path("b/medium.capstan").exists());
    // Nothing is left that says it.
    lab.sh("rm b/*");
    lab.file("b/00000001.segment", noise(1, 100_000));
    lab.run(["media", "repair", "./b"]).refused(&["say which medium it is"]);
}

#[test]
fn damage_counts_once_and_a_repair_takes_it_back() {
    let lab = Lab::new();
    tree(&lab);
    backed_up(&lab, &["--to", "a", "--mirror", "b"]);
    flip(&segments(&lab, "a")[0], 100_000);
    for _ in 0..4 {
        assert_eq!(lab.run(["verify", "--medium", "a"]).code, 3);
    }
    let damaged = ("damaged".to_owned(), "fair".to_owned(), 1);
    assert_eq!(state(&lab, "a"), damaged);
    completed(repair(&lab, &["a"]));
    assert_eq!(state(&lab, "a"), good());
    lab.run(["verify", "--medium", "a"]).ok();
    assert_eq!(state(&lab, "a"), good());
    lab.run(["status", "--max-age", "1h"]).ok();
    // Taken as it is, it has what it has, and that is whole.
    fs::remove_file(segments(&lab, "b").pop().unwrap()).unwrap();
    assert_eq!(lab.run(["verify", "--medium", "b"]).code, 3);
    // A segment that is gone is more than damage.
    assert_eq!(state(&lab, "b"), ("changed".to_owned(), "fair".to_owned(), 1));
    lab.run(["backup", "tree", "--name", "t", "--to", "b"]).refused(&["not as it was"]);
    lab.run(["import", "b"]);
    // An import reads no contents: that nothing else is damaged says who reads them.
    assert_eq!(state(&lab, "b"), damaged);
    completed(repair(&lab, &["b"]));
    assert_eq!(state(&lab, "b").0, "appendable");
    let last = segments(&lab, "b").pop().unwrap();
    OpenOptions::new().write(true).open(&last).unwrap().set_len(5000).unwrap();
    assert_eq!(lab.run(["verify", "--medium", "b"]).code, 3);
    lab.run(["backup", "tree", "--name", "t", "--to", "b"]).refused(&["not as it was"]);
    lab.run(["import", "b"]);
    completed(repair(&lab, &["b"]));
    lab.run(["verify", "--medium", "b"]).ok();
    assert_eq!(state(&lab, "b").0, "appendable");
    comes_back_as(&lab, "t", "tree");
}

#[test]
fn a_tape_is_mended_from_another_and_from_a_disk() {
    for from in ["tape", "disk"] {
        let lab = Lab::new();
        let dir = library(&lab, 2, 4);
        for i in 0..40 {
            lab.file(&format!("tree/{i}"), noise(i, 150_000));
        }
        lab.backed_up([
            "tree",
            "--name",
            "t",
            "--to",
            "vtape:vtl?tape=V00001L9",
            "--block-size",
            "64K",
        ]);
        let copy = if from == "tape" { "vtape:vtl?tape=V00002L9" } else { "disk" };
        lab.run(["copy", "t", "--to", copy]).ok();
        flip(&dir.join("tapes/V00001L9.tape"), 3_000_000);
        let verify = ["verify", "--medium", "V00001L9"];
        assert_eq!(lab.run(verify).code, 3, "{from}");
        let done = completed(repair(&lab, &["V00001L9"]));
        assert!(done["notes"].to_string().contains("1 are whole again"), "{from}: {done:#}");
        // What is damaged stays on the tape, and nobody needs it.
        let again = lab.run([&verify[..], &["--verbose"]].concat());
        assert!(again.ok().stderr.contains("costs nothing"), "{from}: {}", again.stderr);
        assert_eq!(state(&lab, "V00001L9"), good(), "{from}");
        completed(repair(&lab, &["V00001L9"]));
        // From that tape alone.
        match from {
            "tape" => lab.sh("mv vtl/tapes/V00002L9.tape away"),
            _ => lab.sh("mv disk away"),
        };
        lab.restored(["t", "--into", "out"]);
        lab.run(["verify", "t"]).ok();
    }
}

#[test]
fn a_member_of_an_array_is_written_anew_and_what_parity_lacks_comes_from_copies() {
    let lab = Lab::new();
    lab.file("tree/huge", noise(7, 9_000_000));
    lab.backed_up(["tree", "--name", "t", "--to", "rait5:a,b,c", "--block-size", "64K"]);
    let first = |member: &str| lab.path(format!("{member}/00000001.segment"));
    flip(&first("b"), 200_000);
    assert_eq!(lab.run(["verify", "--medium", "a"]).code, 3);
    let run = lab.run(["media", "repair", "a"]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(run.stderr.contains("rait rebuild a --member"), "{}", run.stderr);
    lab.run(["rait", "rebuild", "a", "--member", "2", "--onto", "new"]).ok();
    lab.run(["verify", "--medium", "a"]).ok();
    let none = completed(repair(&lab, &["a"]));
    assert!(none["notes"].to_string().contains("nothing on 'a'"), "{none:#}");
    // More of one stripe than parity has.
    lab.run(["copy", "t", "--to", "copy"]).ok();
    for member in ["a", "new", "c"] {
        flip(&first(member), 200_000);
    }
    let run = lab.run(["rait", "rebuild", "a", "--member", "3", "--onto", "other"]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(run.stderr.contains("capstan media repair"), "{}", run.stderr);
    let done = repair(&lab, &["a"]);
    assert!(done["notes"].to_string().contains("are whole again"), "{done:#}");
    lab.sh("mv copy away");
    comes_back_as(&lab, "t", "tree");
}

#[test]
fn an_encrypted_medium_is_mended_without_its_key() {
    let lab = Lab::with_passphrase(Some("secret"));
    tree(&lab);
    backed_up(&lab, &["--to", "a", "--streams", "1"]);
    lab.run(["copy", "t", "--to", "b"]).ok();
    let keyless = |args: &[&str]| {
        let mut command = lab.command();
        command.env_remove("CAPSTAN_PASSPHRASE").args(["media", "repair", "--json"]).args(args);
        report(finish(&mut command))
    };
    flip(&segments(&lab, "a")[0], 300_000);
    completed(keyless(&["a"]));
    lab.run(["verify", "--medium", "a"]).ok();
    assert_eq!(state(&lab, "a"), good());
    // What is whole nowhere is named only with the key.
    damage(&lab.path("a"), 0, 1000);
    damage(&lab.path("b"), 0, 1000);
    fs::remove_dir_all(lab.path("home/names-key")).ok();
    let with = repair(&lab, &["a"]);
    assert!(with["corrupt"].as_u64().unwrap() > 0, "{with:#}");
    assert_eq!(keyless(&["a"])["status"], "completed_with_errors");
}

#[test]
fn a_repair_that_was_killed_or_had_no_room_is_done_again() {
    if !can_mount() {
        return skip("only root can mount a small file system");
    }
    let lab = Lab::new();
    lab.file("tree/huge", noise(7, 24_000_000));
    let small = Mount::new(&["-t", "tmpfs", "-o", "size=80M", "tmpfs"], &lab.path("small"));
    backed_up(&lab, &["--to", "small/a", "--mirror", "b"]);
    damage(&lab.path("small/a"), 0, 1000);
    let fill = free_bytes(&lab.path("small")) - 9_000_000;
    lab.sh(&format!("fallocate -l {fill} small/filler"));
    let full = repair(&lab, &["a"]);
    assert_eq!(full["status"], "failed", "{full:#}");
    comes_back_as(&lab, "t", "tree");
    lab.sh("rm small/filler");
    // Killed as soon as something of it is on the medium.
    let before = segments(&lab, "small/a").len();
    let mut command = lab.command();
    command.args(["media", "repair", "a"]).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let parts = || fs::read_dir(lab.path("small/a")).unwrap().count();
    let (had, begun) = (parts(), std::time::Instant::now());
    wait_for("the repair", || parts() != had || begun.elapsed().as_secs() > 20);
    end(child);
    completed(repair(&lab, &["a"]));
    lab.run(["verify", "--medium", "a"]).ok();
    lab.run(["idb", "check"]).ok();
    assert!(segments(&lab, "small/a").len() <= before, "damaged segments went");
    assert_eq!(state(&lab, "a"), good());
    lab.sh("mv b away");
    comes_back_as(&lab, "t", "tree");
    drop(small);
}

#[test]
fn a_mirror_that_was_exported_is_away_on_purpose() {
    let lab = Lab::new();
    tree(&lab);
    backed_up(&lab, &["--to", "a", "--mirror", "b"]);
    for gone in ["a", "b"] {
        lab.run(["media", "export", gone, "--to", "the vault"]).ok();
        for there in [true, false] {
            if !there {
                fs::rename(lab.path(gone), lab.path("vault")).unwrap();
            }
            let restored = lab.restored(["t", "--into", "out"]);
            assert_eq!(restored["replicas"], Value::Null, "{restored:#}");
            fs::remove_dir_all(lab.path("out")).unwrap();
            let done = lab.backed_up(["tree", "--name", "t", "--to", "a", "--mirror", "b"]);
            let other = if gone == "a" { "b" } else { "a" };
            assert_eq!(done["media"], serde_json::json!([other]), "{done:#}");
            let said = done["errors"].to_string();
            assert!(said.contains("mirror-away") && said.contains("the vault"), "{done:#}");
            assert!(!lab.path(gone).exists() || there, "no medium was made in its place");
        }
        fs::rename(lab.path("vault"), lab.path(gone)).unwrap();
        lab.run(["import", gone]).ok();
        lab.run(["copy", "t", "--all", "--to", gone]);
    }
    lab.run(["media", "export", "b"]).ok();
    fs::rename(lab.path("b"), lab.path("vault")).unwrap();
    let pair = ["tree", "--name", "t", "--to", "a", "--mirror", "b", "--new-medium"];
    let done = lab.backed_up(pair);
    assert_eq!(done["media"].as_array().unwrap().len(), 2, "{done:#}");
}

#[test]
fn a_lost_file_counts_once_however_many_names_it_has() {
    let lab = Lab::new();
    lab.file("tree/big", noise(1, 600_000));
    lab.sh("cd tree; ln big second; ln big third");
    lab.backed_up(["tree", "--name", "t", "--to", "a", "--compress", "off"]);
    flip(&segments(&lab, "a")[0], 200_000);
    let restored = lab.restore(["t", "--into", "out"]);
    let verified = report(lab.run(["verify", "t", "--json"]));
    let by_medium = report(lab.run(["verify", "--medium", "a", "--json"]));
    let mended = repair(&lab, &["a"]);
    for json in [&restored, &verified, &by_medium, &mended] {
        assert_eq!(json["corrupt"], 1, "{json:#}");
        for name in ["tree/big", "tree/second", "tree/third"] {
            assert!(json["errors"].to_string().contains(name), "{json:#}");
        }
    }
}

#[test]
fn idb_check_names_the_repair() {
    let lab = Lab::new();
    tree(&lab);
    backed_up(&lab, &["--to", "a", "--mirror", "b"]);
    let all = segments(&lab, "a");
    fs::remove_file(&all[0]).unwrap();
    OpenOptions::new().write(true).open(&all[1]).unwrap().set_len(100_000).unwrap();
    let run = lab.run(["idb", "check"]);
    let said = format!("{}{}", run.stdout, run.stderr);
    assert_eq!(said.matches("capstan media repair a").count(), 2, "{said}");
    completed(repair(&lab, &["a"]));
    lab.run(["idb", "check"]).ok();
}
