//! Each tape is loaded once, and in the order of the pick list, whichever version refers to what lies on it.

use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, below, noise, report};
use crate::tape::library_of;

/// A library whose tapes hold a quarter of what the tests back up.
fn library(lab: &Lab, dir: &str, drives: u32) {
    let design = Design { capacity: Some(25_000_000), ..library_of(drives, 10) };
    Library::create(&lab.path(dir), &design, 10).unwrap();
}

/// Sixty files of a megabyte in seven directories.
fn tree(lab: &Lab, name: &str, seed: u64) {
    for n in 0..60 {
        lab.file(&format!("{name}/d{}/f{n:02}", n % 7), noise(seed + n, 1_000_000));
    }
    lab.sh(&format!("cd {name} && ln d0/f07 d1/linked && echo small >d2/small && : >d2/empty"));
}

/// The tapes that were loaded, in that order. None are where a drill took the empty file alone.
fn loaded(report: &Value) -> Vec<&str> {
    let drives = report["drives"].as_array().into_iter().flatten();
    drives.map(|drive| drive["tape"].as_str().unwrap()).collect()
}

fn picked(lab: &Lab, line: &[&str]) -> Vec<String> {
    let dry = lab.restore(line.iter().copied().chain(["--dry-run"]));
    let pick = dry["pick"].as_array().unwrap();
    pick.iter().map(|of| of["barcode"].as_str().unwrap().to_owned()).collect()
}

fn same(lab: &Lab, into: &str, name: &str) {
    same_by_rsync(&lab.path(name), &below(&lab.path(into), &lab.path(name)));
}

/// Restores an object and compares it; the tapes that were loaded.
fn comes_back(lab: &Lab, name: &str) -> Vec<String> {
    let picked = picked(lab, &[name, "--into", "restored"]);
    let done = lab.restored([name, "--into", "restored"]);
    same(lab, "restored", name);
    std::fs::remove_dir_all(lab.path("restored")).unwrap();
    let loaded: Vec<String> = loaded(&done).into_iter().map(str::to_owned).collect();
    assert_eq!(loaded, picked, "{done:#}");
    loaded
}

fn is_each_once(tapes: &[String]) -> bool {
    let mut sorted = tapes.to_vec();
    sorted.sort();
    sorted.dedup();
    sorted.len() == tapes.len() && tapes.len() >= 3
}

#[test]
fn a_restore_after_renames_loads_each_tape_once() {
    for drives in [1, 2] {
        let lab = Lab::new();
        library(&lab, "vtl", drives);
        tree(&lab, "tree", 1);
        // It lies on two tapes at least when it moves.
        lab.file("tree/d6/large", noise(999, 30_000_000));
        let backup = || lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "tree"]);
        backup();
        for night in [
            "mv tree/d4 tree/moved",
            // What moved changes its metadata, a part of its contents, or moves again.
            "mv tree/d3 tree/d5/deep; chmod 600 tree/moved/f04; echo more >>tree/moved/f11",
            "mv tree/moved tree/d0/again; mv tree/d0/f07 tree/d0/f07x; rm tree/d1/f01",
            "mv tree/d6 tree/e6; cp -a tree/d2/f02 tree/new",
        ] {
            lab.sh(night);
            let done = backup();
            let written = done["bytes_written"].as_u64().unwrap();
            assert!(written < 8_000_000, "{night}: what moved is not stored again: {done:#}");
        }
        let tapes = comes_back(&lab, "tree");
        assert!(is_each_once(&tapes), "{drives} drives: {tapes:?}");
        // Some of what moved.
        for path in ["tree/d0/again", "tree/d5/deep", "tree/e6"] {
            let path = lab.path(path);
            let line = ["tree", path.to_str().unwrap(), "--into", "some"];
            let picked = picked(&lab, &line);
            let done = lab.restored(line);
            same_by_rsync(&path, &below(&lab.path("some"), &path));
            assert_eq!(loaded(&done), picked, "{done:#}");
            std::fs::remove_dir_all(lab.path("some")).unwrap();
        }
        let one = lab.path("tree/d5/deep/f10");
        let done = lab.restored(["tree", one.to_str().unwrap(), "--into", "some"]);
        let is_same = std::fs::read(below(&lab.path("some"), &one)).unwrap();
        assert!(is_same == std::fs::read(&one).unwrap() && loaded(&done).len() <= 2, "{done:#}");
        let drill = report(lab.run(["drill", "tree", "--sample", "100%", "--json"]));
        assert_eq!(drill["status"], "completed", "{drill:#}");
        assert_eq!(loaded(&drill), tapes, "{drill:#}");
    }
}

#[test]
fn a_drill_of_a_few_files_loads_their_tapes_only() {
    let lab = Lab::new();
    library(&lab, "vtl", 1);
    tree(&lab, "tree", 1);
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "tree"]);
    let drill = report(lab.run(["drill", "tree", "--sample", "0.1%", "--json"]));
    assert_eq!(drill["status"], "completed", "{drill:#}");
    assert!(loaded(&drill).len() <= 2, "{drill:#}");
}

#[test]
fn several_objects_go_over_their_tapes_in_one_order() {
    let lab = Lab::new();
    library(&lab, "vtl", 1);
    tree(&lab, "one", 100);
    lab.backed_up(["one", "--to", "vtape:vtl", "--name", "one"]);
    tree(&lab, "two", 200);
    lab.backed_up(["two", "--to", "vtape:vtl", "--name", "two"]);
    // The newer versions begin where the others end, and have the rest before that.
    for name in ["two", "one"] {
        lab.sh(&format!("mv {name}/d1 {name}/x; mv {name}/d5 {name}/d2/y"));
        lab.backed_up([name, "--to", "vtape:vtl", "--name", name]);
    }
    let ran = lab.run(["restore", "two", "--and", "one", "--into", "restored", "--json"]);
    let ended: Value = serde_json::from_str(&ran.ok().stdout).unwrap();
    let sessions = ended["sessions"].as_array().unwrap();
    for name in ["one", "two"] {
        same(&lab, "restored", name);
    }
    let tapes: Vec<String> = loaded(&sessions[0]).into_iter().map(str::to_owned).collect();
    assert!(is_each_once(&tapes) && tapes.len() >= 6, "{tapes:?}");
}

#[test]
fn a_verification_loads_each_tape_once() {
    let lab = Lab::new();
    library(&lab, "vtl", 1);
    tree(&lab, "tree", 1);
    let verified = || {
        let done = report(lab.run(["verify", "tree", "--json"]));
        assert_eq!((&done["status"], &done["corrupt"]), (&"completed".into(), &0.into()));
        let tapes: Vec<String> = loaded(&done).into_iter().map(str::to_owned).collect();
        assert!(is_each_once(&tapes), "{tapes:?}");
        assert_eq!(done["media"].as_array().unwrap().len(), tapes.len(), "{done:#}");
        done["files"].as_u64().unwrap()
    };
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "tree"]);
    assert_eq!(verified(), 63);
    lab.sh("mv tree/d4 tree/moved; cp tree/d1/f01 tree/new");
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "tree"]);
    assert_eq!(verified(), 64);
}

#[test]
fn an_archive_is_written_tape_by_tape() {
    let lab = Lab::new();
    library(&lab, "vtl", 1);
    tree(&lab, "tree", 1);
    let backup = || {
        let line = ["tree", "--to", "vtape:vtl", "--name", "tree", "--streams", "1"];
        lab.backed_up(line)
    };
    backup();
    lab.sh("mv tree/d4 tree/moved; mv tree/d3 tree/d5/deep; chmod 600 tree/moved/f04");
    backup();
    let done = lab.restored(["tree", "--to-tar", "tree.tar"]);
    lab.sh("mkdir out && tar -xpf tree.tar -C out");
    same(&lab, "out", "tree");
    let tapes = loaded(&done);
    let picked = picked(&lab, &["tree", "--into", "restored"]);
    assert!(picked.len() >= 3, "{picked:?}");
    assert_eq!(tapes, picked);
}

#[test]
fn an_archive_of_many_files_that_go_on_on_the_next_tape_loads_each_tape_once() {
    let lab = Lab::new();
    let design = Design { capacity: Some(40_000_000), ..library_of(1, 10) };
    Library::create(&lab.path("vtl"), &design, 10).unwrap();
    // Each stream has a file that the tape's end cuts; of the sparse one there are parts on each tape.
    for n in 0..24 {
        lab.file(&format!("tree/d{}/f{n:02}", n % 7), noise(n, 4_000_000));
    }
    lab.sh("cd tree && ln d0/f07 d1/linked && truncate -s 50M d2/sparse && tail -c 3M d1/f01 >>d2/sparse");
    lab.file("tree/d3/large", noise(99, 40_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "tree", "--streams", "4"]);
    let picked = picked(&lab, &["tree", "--into", "restored"]);
    assert!(picked.len() >= 3, "{picked:?}");
    for options in [&[][..], &["--spool", "."]] {
        let line = ["tree", "--to-tar", "tree.tar"].iter().chain(options);
        let done = lab.restored(line);
        lab.sh("mkdir out && tar -xSpf tree.tar -C out");
        same(&lab, "out", "tree");
        assert_eq!(loaded(&done), picked, "{options:?}");
        lab.sh("rm -r out");
    }
}

/// Each tape says what of a session it has, and the session's end what there was before it.
#[test]
fn what_a_session_stored_on_several_tapes_is_known_after_an_import() {
    let lab = Lab::new();
    library(&lab, "vtl", 1);
    tree(&lab, "tree", 1);
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "tree"]);
    let stored = || {
        let listed = lab.run(["sessions", "tree", "--json"]).ok().rows();
        listed[0]["bytes_written"].as_u64().unwrap()
    };
    let before = stored();
    std::fs::remove_dir_all(lab.path("home")).unwrap();
    lab.run(["import", "vtape:vtl"]).ok();
    let after = stored();
    assert!(before > 60_000_000 && after.abs_diff(before) < before / 20, "{before} {after}");
}
