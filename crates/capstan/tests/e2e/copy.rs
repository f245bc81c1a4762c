//! Copies: the same frames on another medium, used by themselves where the original is missing or damaged.

use std::fs;
use std::process::Stdio;

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::independent_reader::Reader;
use crate::mirror::{comes_back_as, damage, tree};
use crate::support::{Lab, below, completed, finish, noise, report, wait_for};
use crate::tape::library_of;

/// A full and two incrementals on `medium`; their sessions, the states in `state-0` and so on.
pub fn chain(lab: &Lab) -> Vec<String> {
    tree(lab);
    let changes = [
        "true",
        "echo more >>text; rm d2/f2; touch -d 2001-01-01 d3/f3; mkdir new; printf X | \
         dd of=huge bs=1 seek=20000000 conv=notrunc status=none",
        "mv d4 moved; echo again >d1/f1; rm symlink; echo x >symlink; rm new -r",
    ];
    let mut sessions = Vec::new();
    for (n, change) in changes.iter().enumerate() {
        lab.sh(&format!("cd tree; {change}"));
        let args = ["tree", "--to", "medium", "--name", "t", "--incr", "--segment-size", "8M"];
        let tune = if n == 0 { &["--block-size", "64K"][..] } else { &[] };
        let done = lab.backed_up([&args[..], tune].concat());
        sessions.push(done["session"].as_str().unwrap().to_owned());
        lab.sh(&format!("cp -a tree state-{n}"));
    }
    sessions
}

pub fn all_come_back(lab: &Lab, sessions: &[String]) {
    for (n, session) in sessions.iter().enumerate() {
        comes_back_as(lab, &format!("t@{session}"), &format!("state-{n}"));
    }
}

fn copy(lab: &Lab, args: &[&str]) -> Value {
    report(finish(lab.command().args(["copy", "--json"]).args(args)))
}

fn lose_home(lab: &Lab) {
    fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
}

#[test]
fn a_copy_stands_in_for_what_is_missing_or_damaged() {
    stands_in(None);
}

#[test]
fn of_encrypted_backups_too() {
    stands_in(Some("secret"));
}

fn stands_in(passphrase: Option<&'static str>) {
    let lab = Lab::with_passphrase(passphrase);
    let sessions = chain(&lab);
    // Other blocks than the original's. No key is needed.
    let mut command = lab.command();
    command.env_remove("CAPSTAN_PASSPHRASE");
    command.args(["copy", "t", "--to", "copied", "--block-size", "256K", "--json"]);
    let done = completed(report(finish(&mut command)));
    assert!(done["bytes_written"].as_u64() > Some(40_000_000), "{done:#}");
    assert_eq!((&done["method"], &done["media"][0]), (&"copy".into(), &"copied".into()));
    let again = completed(copy(&lab, &["t", "--to", "copied"]));
    assert_eq!(again["bytes_written"], 0, "{again:#}");
    lab.run(["verify", "--medium", "copied"]).ok();
    damage(&lab.path("medium"), 0, 7);
    all_come_back(&lab, &sessions);
    lab.run(["restore", "t", "--to-tar", "out.tar"]).ok();
    lab.sh("mkdir out; tar -C out -xf out.tar; rm out.tar");
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    fs::remove_dir_all(lab.path("out")).unwrap();
    lab.sh("mv medium elsewhere");
    comes_back_as(&lab, "t", "tree");
    let restored = lab.restored(["t", "--into", "named"]);
    assert_eq!(restored["media"], serde_json::json!(["copied"]), "what was read is named");
    fs::remove_dir_all(lab.path("named")).unwrap();
    // A copy of the copy, and that alone.
    completed(copy(&lab, &["--medium", "copied", "--to", "third"]));
    lab.sh("mv copied away");
    comes_back_as(&lab, "t", "tree");
    lose_home(&lab);
    lab.run(["import", "third"]).ok();
    all_come_back(&lab, &sessions);
    let listed = lab.run(["sessions", "--kind", "all", "--json"]);
    assert_eq!(
        listed.ok().stdout.matches("\"status\":\"completed\"").count(),
        7,
        "{}",
        listed.stdout
    );
    if let Some(reader) = Reader::find() {
        reader.run(&lab, passphrase, &["check", "third"]).ok();
        for (n, session) in sessions.iter().enumerate() {
            let args = ["extract", "third", "--session", session, "--into", "read"];
            reader.run(&lab, passphrase, &args).ok();
            let there = below(&lab.path("read"), &lab.path("tree"));
            same_by_rsync(&lab.path(format!("state-{n}")), &there);
            fs::remove_dir_all(lab.path("read")).unwrap();
        }
    }
    // The originals come back to their copies, whatever is imported first.
    lab.sh("mv elsewhere medium; mv away copied; rm -r third");
    lab.run(["import", "medium"]);
    lab.run(["import", "copied"]).ok();
    comes_back_as(&lab, "t", "tree");
}

#[test]
fn what_is_selected_is_copied() {
    let lab = Lab::new();
    let sessions = chain(&lab);
    completed(copy(&lab, &[&format!("t@{}", sessions[1]), "--only", "--to", "one"]));
    lab.sh("mv medium elsewhere");
    let run = lab.run(["restore", &format!("t@{}", sessions[1]), "--into", "out"]);
    assert_eq!(run.code, 3, "its base is not there: {}", run.stderr);
    lab.sh("rm -r out; mv elsewhere medium");
    // The base follows.
    let done = completed(copy(&lab, &["--session", &sessions[1][..8], "--to", "one"]));
    assert!(done["bytes_written"].as_u64() > Some(40_000_000), "{done:#}");
    lab.sh("mv medium elsewhere");
    all_come_back(&lab, &sessions[..2]);
    lab.run(["copy", "t", "--to", "null:"]).refused(&["null device keeps no copy"]);
    lab.run(["copy", "--session", "ffff", "--to", "x"]).refused(&["no session's id begins with"]);
    lab.run(["copy", "--medium", "nowhere", "--to", "x"])
        .refused(&["no medium is called 'nowhere'"]);
    lab.run(["copy", "t", "--to", "x"]).refused(&["cannot read medium 'medium'"]);
}

/// How much of a copy's catalogs is kept is a copy's own; by default it is as of the original.
#[test]
fn a_copy_has_a_logging_level() {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 10_000));
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--log-level", "files"]);
    let kept = || lab.sh("cd home/catalogs; ls | grep -o '[a-z]*$' | sort | tr '\\n' ' '");
    assert_eq!(kept(), "listing ");
    completed(copy(&lab, &["t", "--to", "as-it-is"]));
    assert_eq!(kept(), "listing listing ");
    completed(copy(&lab, &["t", "--to", "nothing", "--log-level", "none"]));
    assert_eq!(kept(), "listing listing ");
    lab.run(["idb", "check"]).ok();
    let done = finish(lab.command().args([
        "media",
        "copy",
        "medium",
        "--to",
        "all",
        "--log-level",
        "all",
        "--json",
    ]));
    completed(report(done));
    assert_eq!(kept(), "catalog listing listing ");
    lab.run(["idb", "check"]).ok();
    // Whatever is kept, each of them restores.
    for medium in ["medium", "as-it-is", "all"] {
        lab.sh(&format!("mv {medium} away-{medium}"));
        comes_back_as(&lab, "t", "tree");
    }
}

#[test]
fn damage_is_named_and_not_copied() {
    let lab = Lab::new();
    let sessions = chain(&lab);
    damage(&lab.path("medium"), 5, 40);
    let done = copy(&lab, &["t", "--to", "copied"]);
    assert_eq!(done["status"], "completed_with_errors", "{done:#}");
    let errors = done["errors"].to_string();
    assert!(errors.contains("/tree/") && errors.contains("the copy lacks some"), "{errors}");
    // It is known of the copy as of the original.
    lab.sh("rm -r medium");
    lab.run(["media", "forget", "medium"]).ok();
    let run = lab.run(["restore", "t", "--into", "out"]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    assert!(run.stderr.contains("/tree/"), "{}", run.stderr);
    let _ = sessions;
}

#[test]
fn a_killed_copy_goes_on() {
    let lab = Lab::new();
    let sessions = chain(&lab);
    let mut command = lab.command();
    command.args(["copy", "t", "--to", "copied"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    wait_for("a commit", || lab.path("copied/00000002.segment").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let whole = lab.sh("du -sb medium | cut -f1").trim().parse::<u64>().unwrap();
    let done = completed(copy(&lab, &["t", "--to", "copied"]));
    assert!(done["bytes_written"].as_u64() < Some(whole - 8_000_000), "{done:#}");
    lab.sh("rm -r medium");
    all_come_back(&lab, &sessions);
    lab.run(["verify", "t"]).ok();
}

/// What is read and what is written each take a drive: that is said before a blank tape is used up.
#[test]
fn a_library_of_one_drive_is_not_copied_within() {
    let lab = Lab::new();
    crate::tape::library(&lab, 1, 4);
    lab.file("tree/a", noise(1, 10_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    for to in ["vtape:vtl", "vtape:vtl?tape=V00002L9"] {
        lab.run(["copy", "t", "--to", to]).refused(&["'V00001L9'", "no drive for it"]);
        assert_eq!(crate::tape::media(&lab).len(), 1);
    }
    // To a directory and back to another tape it goes.
    lab.run(["copy", "t", "--to", "disk"]).ok();
    lab.run(["copy", "t", "--to", "vtape:vtl"]).ok();
    assert_eq!(crate::tape::media(&lab).len(), 3, "two tapes, and the directory");
    // All of it is there now, and nothing has to be read.
    std::fs::remove_dir_all(lab.path("disk")).unwrap();
    lab.run(["copy", "t", "--to", "vtape:vtl"]).ok();
    crate::tape::comes_back(&lab, "t", &lab.path("tree"));
}

/// The tapes of two libraries have the same barcodes: those of the one are not taken for those of the other.
#[test]
fn tapes_of_another_library_with_the_same_barcodes_are_others() {
    let lab = Lab::new();
    crate::tape::library(&lab, 2, 4);
    Library::create(&lab.path("other"), &library_of(2, 4), 4).unwrap();
    lab.file("tree/a", noise(1, 45_000_000));
    lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t"]);
    let by_name = ["media", "show", "vtape:other?tape=V00001L9", "--json"];
    lab.run(by_name).refused(&["no medium is called"]);
    let first = copy(&lab, &["t", "--to", "vtape:other"]);
    assert_eq!(first["media"].as_array().unwrap().len(), 2, "{first:#}");
    let shown = lab.run(by_name);
    assert!(shown.ok().stdout.contains("other?tape=V00001L9"), "{}", shown.stdout);
    lab.sh("mv vtl gone");
    crate::tape::comes_back(&lab, "t", &lab.path("tree"));
    lab.sh("mv gone vtl");
    // The tapes that are left in the one have the barcodes of those that are read in the other.
    lab.sh("echo b >tree/b");
    lab.backed_up(["tree", "--to", "vtape:other?tape=V00003L9", "--name", "t", "--incr"]);
    lab.run(["consolidate", "t", "--to", "vtape:vtl"]).ok();
    crate::tape::comes_back(&lab, "t", &lab.path("tree"));
}

/// Of an incremental in which nothing changed there is no more than its end; what builds on it needs that.
#[test]
fn an_incremental_without_changes_goes_along() {
    for how in
        ["copy t --to vtape:vtl", "stage disk --to vtape:vtl", "media copy first --to vtape:vtl"]
    {
        let lab = Lab::new();
        crate::tape::library(&lab, 1, 3);
        lab.file("tree/a", noise(1, 300_000));
        let first = if how.starts_with("media") { "first" } else { "disk" };
        lab.backed_up(["tree", "--to", first, "--name", "t"]);
        let incr = ["tree", "--to", first, "--name", "t", "--incr"];
        assert_eq!(lab.backed_up(incr)["bytes_read"], 0);
        lab.file("tree/b", "more");
        lab.backed_up(incr);
        lab.sh("cp -a tree state");
        lab.run(how.split(' ')).ok();
        std::fs::remove_dir_all(lab.path(first)).unwrap();
        std::fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
        lab.lose_tables();
        lab.run(["import", "vtape:vtl"]).ok();
        let list = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
        let backups = list.lines().filter(|line| line.contains("\"backup\""));
        let completed = backups.filter(|line| line.contains("\"completed\"")).count();
        assert_eq!(completed, 3, "{how}: {list}");
        crate::tape::comes_back(&lab, "t", &lab.path("tree"));
        // A tape that has nothing else of one is given up all the same when that is elsewhere.
        lab.run(["media", "retire", "V00001L9", "--to", "again"]).ok();
        lab.run(["idb", "check"]).ok();
    }
}

/// What lies in two libraries is copied into one of them from the other: its own drive writes.
#[test]
fn a_copy_reads_no_tape_of_the_library_that_it_writes() {
    let lab = Lab::new();
    crate::tape::library(&lab, 1, 4);
    let other = "vtl create other --drives 1 --tapes 0 --mail-slots 4 --scale 1000";
    lab.run(other.split(' ')).ok();
    for n in 1..=4 {
        lab.run(["vtl", "add-tape", "other", "--barcode", &format!("W0000{n}L9")]).ok();
    }
    lab.run(["library", "import", "vtape:other"]).ok();
    lab.file("tree/a", noise(1, 3_000_000));
    let line = "tree --to vtape:vtl --mirror vtape:other --name t";
    lab.backed_up(line.split(' '));
    let done = completed(copy(&lab, &["t", "--to", "vtape:other"]));
    assert!(done["replicas"].as_array().is_none_or(Vec::is_empty), "{done:#}");
    assert!(done["bytes_written"].as_u64() > Some(3_000_000), "{done:#}");
}

/// Of two copies between two libraries of one drive each, one the other way round, neither has the drive that the other waits for.
#[test]
fn two_copies_between_two_libraries_wait_for_each_other_once() {
    let lab = Lab::new();
    let of = |prefix: &str, library: &str| {
        let of = ["--drives", "1", "--tapes", "0", "--slots", "12", "--mail-slots", "8"];
        let slow = ["--capacity", "40M", "--scale", "300"];
        lab.run(["vtl", "create", library].iter().chain(&of).chain(&slow)).ok();
        for n in 1..=8 {
            let barcode = format!("{prefix}0000{n}L9");
            lab.run(["vtl", "add-tape", library, "--barcode", &barcode]).ok();
        }
        lab.run(["library", "import", &format!("vtape:{library}")]).ok();
    };
    of("V", "v");
    of("W", "w");
    let pairs = [("t0", "vtape:v", "vtape:w"), ("t1", "vtape:w", "vtape:v")];
    for (n, (name, first, second)) in pairs.into_iter().enumerate() {
        for f in 0..8 {
            lab.file(&format!("{name}/f{f}"), noise(10 * n as u64 + f, 2_000_000));
        }
        lab.backed_up([name, "--to", first, "--name", name]);
        completed(copy(&lab, &[name, "--to", second]));
        lab.file(&format!("{name}/new"), noise(90 + n as u64, 2_000_000));
        lab.backed_up([name, "--to", first, "--mirror", second, "--name", name]);
    }
    std::thread::scope(|scope| {
        let copies = pairs.map(|(name, _, second)| {
            let line = ["copy", name, "--to", second, "--wait", "25s", "--json"];
            let lab = &lab;
            scope.spawn(move || lab.run(line))
        });
        for copy in copies {
            completed(report(copy.join().unwrap()));
        }
    });
}

/// One run brings several versions, whose ends each say what was stored of that version alone.
#[test]
fn an_import_of_copies_knows_what_each_version_takes() {
    let lab = Lab::new();
    lab.mkdir("tree");
    for n in 0..4 {
        lab.file("tree/x", noise(n, 300_000 + 100_000 * n as usize));
        lab.backed_up(["tree", "--to", "medium", "--name", "t", "--segment-size", "1M"]);
    }
    // This one has several segments.
    lab.file("tree/large", noise(9, 5_000_000));
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--segment-size", "1M"]);
    copy(&lab, &["t", "--to", "other"]);
    let stored = || -> Vec<u64> {
        let rows = lab.run(["versions", "t", "--json"]).rows();
        rows.iter().map(|row| row["bytes_stored"].as_u64().unwrap()).collect()
    };
    let before = stored();
    lose_home(&lab);
    lab.run(["import", "other"]).ok();
    let after = stored();
    assert_eq!(before.len(), 5);
    // Blocks are cut anew, so a copy may have another length.
    let is_near = |(a, b): (&u64, &u64)| a.abs_diff(*b) < 100_000;
    assert!(before.iter().zip(&after).all(is_near), "{before:?} {after:?}");
}
