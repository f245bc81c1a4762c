//! Mirrors: every medium of a session has all of it, and what is damaged or missing on one comes from another.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use capstan_tape::vtl::library::Library;

use crate::compare::same_by_rsync;
use crate::independent_reader::Reader;
use crate::support::{Lab, Mount, below, can_mount, noise, skip};
use crate::tape::library_of;

pub fn tree(lab: &Lab) {
    for i in 0..300 {
        lab.file(&format!("tree/d{}/f{i}", i % 7), noise(i, 20_000 + i as usize));
    }
    lab.file("tree/huge", noise(7, 40_000_000));
    lab.sh("cd tree; seq 1 200000 >text; ln d1/f1 linked; ln -s d1/f1 symlink; mkfifo pipe; mkdir empty; \
            truncate -s 20M sparse; echo end >>sparse");
}

pub fn comes_back(lab: &Lab) {
    comes_back_as(lab, "t", "tree");
}

/// Restores a version and compares it with what is in a directory.
pub fn comes_back_as(lab: &Lab, version: &str, state: &str) {
    lab.restored([version, "--into", "out"]);
    same_by_rsync(&lab.path(state), &below(&lab.path("out"), &lab.path("tree")));
    fs::remove_dir_all(lab.path("out")).unwrap();
}

/// Changes a byte in every n-th block of each of a medium's segments, beginning with one of its first.
pub fn damage(medium: &Path, first: u64, every: u64) {
    for entry in fs::read_dir(medium).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|e| e != "segment") {
            continue;
        }
        let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
        let len = file.metadata().unwrap().len();
        let mut at = 4096 + first * 65536 + 40_000;
        while at < len {
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
            at += every * 65536;
        }
    }
}

#[test]
fn each_medium_has_all_and_stands_in_for_the_other() {
    mirrored(None);
}

#[test]
fn of_encrypted_backups_too() {
    mirrored(Some("secret"));
}

fn mirrored(passphrase: Option<&'static str>) {
    let lab = Lab::with_passphrase(passphrase);
    tree(&lab);
    let first = ["tree", "--name", "t", "--to", "a", "--mirror", "b", "--mirror", "c"];
    let tune = ["--block-size", "64K", "--segment-size", "8M"];
    let report = lab.backed_up([&first[..], &tune].concat());
    assert_eq!(report["media"], serde_json::json!(["a", "b", "c"]), "{report:#}");
    lab.sh("cp -a tree state-0; echo more >>tree/text; rm tree/d2/f2");
    lab.backed_up([&first[..], &["--incr"], &tune[2..]].concat());
    let both = |lab: &Lab| {
        comes_back(lab);
        let sessions = lab.run(["sessions", "--kind", "all", "--json"]);
        let mut ids = sessions.ok().stdout.lines().filter(|l| l.contains("\"backup\""));
        let id =
            ids.next_back().and_then(|l| l.split("\"id\":\"").nth(1)).unwrap()[..32].to_owned();
        comes_back_as(lab, &format!("t@{id}"), "state-0");
    };
    both(&lab);
    // Different blocks of each.
    damage(&lab.path("a"), 0, 3);
    damage(&lab.path("b"), 1, 3);
    damage(&lab.path("c"), 2, 3);
    both(&lab);
    lab.run(["restore", "t", "--to-tar", "out.tar"]).ok();
    lab.sh("mkdir out; tar -C out -xf out.tar; rm out.tar");
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    fs::remove_dir_all(lab.path("out")).unwrap();
    // One not at hand, and half of another gone.
    lab.sh("mv a elsewhere; rm b/00000001.segment b/00000003.segment");
    let run = lab.run(["restore", "t", "--into", "out"]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    damage(&lab.path("c"), 2, 3); // flipped back
    fs::remove_dir_all(lab.path("out")).unwrap();
    both(&lab);
    lab.run(["verify", "--medium", "c"]).ok();
    // From that one alone.
    fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
    lab.sh("rm -r b");
    lab.run(["import", "c"]).ok();
    both(&lab);
    if let Some(reader) = Reader::find() {
        reader.run(&lab, passphrase, &["check", "c"]).ok();
        reader.run(&lab, passphrase, &["extract", "c", "--into", "read"]).ok();
        same_by_rsync(&lab.path("tree"), &below(&lab.path("read"), &lab.path("tree")));
    }
}

#[test]
fn one_that_fails_does_not_end_the_others() {
    if !can_mount() {
        return skip("only root can mount a small file system");
    }
    let lab = Lab::new();
    tree(&lab);
    for (n, (to, mirror)) in [("large-0", "small/x"), ("small/y", "large-1")].iter().enumerate() {
        let small = Mount::new(&["-t", "tmpfs", "-o", "size=20M", "tmpfs"], &lab.path("small"));
        let name = format!("t{n}");
        let args = ["tree", "--name", &name, "--to", to, "--mirror", mirror];
        let report = lab.backup([&args[..], &["--segment-size", "4M"]].concat());
        assert_eq!(report["status"], "completed_with_errors", "{report:#}");
        assert!(report["errors"].to_string().contains("mirror-failed"), "{report:#}");
        comes_back_as(&lab, &name, "tree");
        drop(small);
        comes_back_as(&lab, &name, "tree");
        lab.run(["verify", &name]).ok();
    }
}

#[test]
fn status_says_which_mirror_is_left_out_and_since_when() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 1000));
    let backup =
        || lab.run(["backup", "tree", "--to", "m1", "--mirror", "m2", "--name", "t", "--json"]);
    backup().ok();
    lab.sh("mv m2 unplugged");
    let first = crate::support::report(backup());
    assert_eq!(first["status"], "completed_with_errors", "{first:#}");
    assert_eq!(backup().code, 3);
    let since = first["start"].as_str().unwrap();
    let status = lab.run(["status"]);
    assert_eq!(status.code, 5, "{}", status.stdout);
    for words in ["its mirror ", "m2", since, "by 2 backups"] {
        assert!(status.stdout.contains(words), "{words}: {}", status.stdout);
    }
    lab.sh("mv unplugged m2");
    lab.run(["backup", "tree", "--to", "m1", "--mirror", "m2", "--name", "t", "--full"]).ok();
    let status = lab.run(["status"]);
    assert!(!status.ok().stdout.contains("its mirror"), "{}", status.stdout);
}

#[test]
fn what_cannot_be_written_to_is_said_before() {
    let lab = Lab::new();
    lab.file("tree/x", "x");
    let run = lab
        .command()
        .args(["backup", "tree", "--to", "a", "--mirror", "no/such", "--json"])
        .output();
    let run = run.unwrap();
    let json: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(
        (run.status.code(), json["status"].as_str()),
        (Some(3), Some("completed_with_errors"))
    );
    assert!(json["errors"].to_string().contains("mirror-failed"), "{json:#}");
    let backup = |mirror| lab.run(["backup", "tree", "--to", "a", "--mirror", mirror]);
    backup("null:").refused(&["null device", "no mirror"]);
    lab.sh("mkdir other; echo x >other/x");
    backup("other").refused(&["not empty"]);
    lab.run(["backup", "tree", "--to", "no/such", "--mirror", "no/where"])
        .refused(&["check the path"]);
    lab.run(["backup", "tree", "--to", "b", "--block-size", "64K"]).ok();
    backup("b").refused(&["blocks of 65536 bytes"]);
    lab.sh("cp -r a clone");
    backup("clone").refused(&["in two places", "--as-new"]);
}

/// As a directory that is away. One that was never there is a mistake.
#[test]
fn a_mirror_in_a_library_that_is_away_is_left_out() {
    let lab = Lab::new();
    crate::tape::library(&lab, 2, 3);
    Library::create(&lab.path("other"), &library_of(2, 3), 3).unwrap();
    lab.file("tree/a", noise(1, 3_000_000));
    let both = ["tree", "--name", "t", "--to", "vtape:vtl", "--mirror", "vtape:other"];
    lab.backed_up(both);
    for (n, (away, other)) in [("other", "vtl"), ("vtl", "other")].into_iter().enumerate() {
        lab.file(&format!("tree/new-{n}"), noise(n as u64, 100_000));
        lab.sh(&format!("mv {away} gone"));
        let done = lab.backup(both);
        assert_eq!(done["status"], "completed_with_errors", "{done:#}");
        let errors = done["errors"].as_array().unwrap();
        let [error] = &errors[..] else { panic!("{done:#}") };
        assert_eq!(error["code"], "mirror-away", "{done:#}");
        assert!(error["path"].as_str().unwrap().ends_with(away), "{done:#}");
        assert_eq!(done["media"].as_array().unwrap().len(), 1, "{done:#}");
        crate::tape::comes_back(&lab, "t", &lab.path("tree"));
        // It lacks that night until a copy brings it.
        lab.sh(&format!("mv gone {away}"));
        lab.run(["copy", "t", "--to", &format!("vtape:{away}")]).ok();
        lab.sh(&format!("mv {other} gone"));
        crate::tape::comes_back(&lab, "t", &lab.path("tree"));
        lab.sh(&format!("mv gone {other}"));
    }
    let with = |mirror| ["backup", "tree", "--name", "t", "--to", "vtape:vtl", "--mirror", mirror];
    lab.run(with("vtape:never")).refused(&["never: there is no virtual library"]);
    lab.sh("mv vtl gone; mv other away");
    lab.run(with("vtape:other")).refused(&["there is no virtual library"]);
}

/// As one that fails while it is written: the others are.
#[test]
fn a_mirror_whose_library_has_no_tape_to_write_is_left_out() {
    let lab = Lab::new();
    crate::tape::library(&lab, 2, 3);
    lab.run(["vtl", "create", "empty", "--tapes", "0"]).ok();
    lab.file("tree/a", noise(1, 3_000_000));
    for (n, [to, mirror]) in [["vtl", "empty"], ["empty", "vtl"]].into_iter().enumerate() {
        let (to, mirror) = (format!("vtape:{to}"), format!("vtape:{mirror}"));
        let name = format!("t{n}");
        let done = lab.backup(["tree", "--name", &name, "--to", &to, "--mirror", &mirror]);
        assert_eq!(done["status"], "completed_with_errors", "{done:#}");
        let errors = done["errors"].as_array().unwrap();
        let [error] = &errors[..] else { panic!("{done:#}") };
        assert_eq!(error["code"], "mirror-failed", "{done:#}");
        assert!(error["path"].as_str().unwrap().ends_with("empty"), "{done:#}");
        let why = error["error"].as_str().unwrap();
        assert!(why.contains("left out") && why.contains("put a blank tape"), "{done:#}");
        crate::tape::comes_back(&lab, &name, &lab.path("tree"));
    }
    // Where none can be written, nothing is.
    lab.run(["vtl", "create", "other", "--tapes", "0"]).ok();
    let none = ["backup", "tree", "--to", "vtape:empty", "--mirror", "vtape:other"];
    lab.run(none).refused(&["no tape of"]);
}
