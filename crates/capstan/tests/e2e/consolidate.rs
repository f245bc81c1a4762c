//! Consolidation: a synthetic full restores to what its chain does, and later incrementals build on it.

use std::fs;
use std::process::Stdio;

use capstan_tape::vtl::library::Library;
use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::copy::{all_come_back, chain};
use crate::independent_reader::Reader;
use crate::mirror::{comes_back_as, damage};
use crate::support::{Lab, below, completed, finish, noise, report, wait_for};
use crate::tape::library_of;

fn consolidate(lab: &Lab, args: &[&str]) -> Value {
    report(finish(lab.command().args(["consolidate", "--json"]).args(args)))
}

fn session_of(report: &Value) -> String {
    report["session"].as_str().unwrap().to_owned()
}

#[test]
fn it_restores_to_the_same_and_is_built_on() {
    round(None);
}

#[test]
fn of_encrypted_backups_too() {
    round(Some("secret"));
}

fn round(passphrase: Option<&'static str>) {
    let lab = Lab::with_passphrase(passphrase);
    let mut sessions = chain(&lab);
    let done = completed(consolidate(&lab, &["t", "--to", "made", "--block-size", "128K"]));
    assert_eq!(
        (&done["method"], &done["base_session"]),
        (&"synthetic full".into(), &sessions[2].as_str().into())
    );
    assert!(done["bytes_written"].as_u64() > Some(40_000_000), "{done:#}");
    let files = lab.run(["ls", &format!("t@{}", sessions[2])]).ok().stdout.lines().count() as u64;
    assert_eq!(done["files"].as_u64().unwrap() + done["dirs"].as_u64().unwrap(), files, "{done:#}");
    let made = session_of(&done);
    // What it was made of goes.
    lab.sh("mv medium elsewhere");
    comes_back_as(&lab, &format!("t@{made}"), "state-2");
    comes_back_as(&lab, "t", "state-2");
    lab.run(["verify", "t"]).ok();
    lab.run(["verify", "--medium", "made"]).ok();
    let list = |version: &str| lab.run(["ls", "--json", version]).ok().json_lines();
    assert_eq!(list(&format!("t@{made}")), list(&format!("t@{}", sessions[2])));
    lab.run(["restore", "t", "--to-tar", "out.tar"]).ok();
    lab.sh("mkdir out; tar -C out -xf out.tar; rm out.tar");
    same_by_rsync(&lab.path("tree"), &below(&lab.path("out"), &lab.path("tree")));
    fs::remove_dir_all(lab.path("out")).unwrap();
    // Nothing has changed since; then something has.
    let incr = ["tree", "--to", "made", "--name", "t", "--incr"];
    let report = lab.backed_up(incr);
    assert_eq!(
        (&report["method"], &report["base_session"]),
        (&"incr".into(), &made.as_str().into())
    );
    assert_eq!(report["bytes_read"], 0, "{report:#}");
    lab.sh("cd tree; echo later >>text; rm d5/f5; printf Z | dd of=huge bs=1 seek=9000000 conv=notrunc status=none; \
            cp -a ../tree ../state-3");
    sessions.push(session_of(&lab.backed_up(incr)));
    comes_back_as(&lab, "t", "state-3");
    // Once more, onto the same medium, from a synthetic full and what came later; and a copy of it.
    let again = completed(consolidate(&lab, &["t"]));
    assert_eq!(again["media"][0], "made");
    comes_back_as(&lab, &format!("t@{}", session_of(&again)), "state-3");
    lab.run(["copy", "t", "--to", "copied"]).ok();
    lab.sh("mv made away");
    comes_back_as(&lab, "t", "state-3");
    // From the medium alone.
    fs::remove_dir_all(lab.path("home/catalogs")).unwrap();
    lab.lose_tables();
    lab.sh("mv away made; rm -r copied");
    lab.run(["import", "made"]).ok();
    comes_back_as(&lab, "t", "state-3");
    comes_back_as(&lab, &format!("t@{made}"), "state-2");
    lab.run(["verify", "t"]).ok();
    if let Some(reader) = Reader::find() {
        reader.run(&lab, passphrase, &["check", "made"]).ok();
        for (session, state) in [(&made, "state-2"), (&session_of(&again), "state-3")] {
            let args = ["extract", "made", "--session", session, "--into", "read"];
            reader.run(&lab, passphrase, &args).ok();
            same_by_rsync(&lab.path(state), &below(&lab.path("read"), &lab.path("tree")));
            fs::remove_dir_all(lab.path("read")).unwrap();
        }
    }
    lab.sh("mv elsewhere medium");
    lab.run(["import", "medium"]).ok();
    all_come_back(&lab, &sessions[..3]);
}

/// Of a frame with little that is still needed only that is taken over.
#[test]
fn what_is_not_needed_is_left_behind() {
    let lab = Lab::new();
    for i in 0..1000 {
        lab.file(&format!("tree/{i:04}"), noise(i, 10_000));
    }
    let backup = ["tree", "--to", "medium", "--name", "t", "--incr"];
    lab.backed_up(backup);
    // Nearly all of the first half goes, a little of the second.
    lab.sh("cd tree; for i in $(seq 0 999); do [ $i -lt 500 ] && [ $((i % 10)) != 0 ] && rm $(printf %04d $i); \
            [ $i -ge 500 ] && [ $((i % 10)) = 0 ] && rm $(printf %04d $i); done; true");
    lab.backed_up(backup);
    let done = completed(consolidate(&lab, &["t", "--to", "made"]));
    let written = done["bytes_written"].as_u64().unwrap();
    // 500 files are needed; those of the second half drag 50 dead ones with them.
    assert!((5_000_000..5_900_000).contains(&written), "{written}");
    lab.sh("rm -r medium");
    comes_back_as(&lab, "t", "tree");
    lab.run(["verify", "--medium", "made"]).ok();
}

/// What was passed on keeps the checksums of its contents: of a file of which only metadata change nothing is saved again.
#[test]
fn metadata_alone_change_after_it_too() {
    let lab = Lab::new();
    let backup = ["tree", "--to", "medium", "--name", "t", "--incr"];
    for i in 0..20 {
        lab.file(&format!("tree/{i}"), noise(i, 200_000));
    }
    lab.file("tree/later", noise(30, 500_000));
    lab.sh("dd if=tree/1 of=tree/sparse bs=1k seek=900 count=100 status=none");
    lab.backed_up(backup);
    lab.file("tree/later", noise(31, 500_000));
    lab.backed_up(backup);
    completed(consolidate(&lab, &["t"]));
    lab.sh("chmod 600 tree/[1-9] tree/later tree/sparse; touch -d 2001-01-01 tree/3; printf Z >>tree/5");
    let report = lab.backed_up(backup);
    assert_eq!(report["method"], "incr");
    let written = report["bytes_written"].as_u64().unwrap();
    assert!((200_000..900_000).contains(&written), "that of one file, not 2.4 MB: {written}");
    comes_back_as(&lab, "t", "tree");
    completed(consolidate(&lab, &["t", "--to", "made"]));
    lab.sh("mv medium away");
    comes_back_as(&lab, "t", "tree");
    if let Some(reader) = Reader::find() {
        reader.run(&lab, None, &["check", "made"]).ok();
    }
}

fn prune(lab: &Lab, args: &[&str]) -> Value {
    let run = finish(lab.command().args(["prune", "--json"]).args(args));
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}

/// Ten days of changes, of which the last three are kept: prune makes a full of what those build on.
#[test]
fn prune_consolidates_a_base_that_is_mostly_dead() {
    let lab = Lab::new();
    lab.file("tree/stays", noise(1, 100_000));
    lab.file("tree/moved", noise(2, 100_000));
    let backup = ["tree", "--to", "medium", "--name", "t", "--incr"];
    let mut sessions = Vec::new();
    for day in 0..10 {
        lab.file("tree/changes", noise(10 + day, 1_000_000));
        if day == 8 {
            // Its contents stay where they are, in what becomes the new full.
            lab.sh("chmod 600 tree/moved");
        }
        sessions.push(session_of(&lab.backed_up(backup)));
        lab.sh(&format!("cp -a tree state-{day}"));
    }
    let keep = ["t", "--keep-last", "3"];
    let foreseen = prune(&lab, &[&keep[..], &["--dry-run"]].concat());
    assert_eq!(foreseen["consolidated"][0]["base_session"], *sessions[6], "{foreseen:#}");
    assert_eq!(foreseen["consolidated"][0]["session"], Value::Null);
    assert!(foreseen["consolidated"][0]["dead_percent"].as_u64() > Some(80), "{foreseen:#}");
    let size = || lab.sh("du -sB1 medium").split('\t').next().unwrap().parse::<u64>().unwrap();
    let before = size();

    let done = prune(&lab, &keep);
    assert!(done["consolidated"][0]["session"].is_string(), "{done:#}");
    assert_eq!(done["removed_versions"], 7, "{done:#}");
    assert!(size() < before / 2, "{} of {before} bytes are left", size());
    let back = |day: usize, session: &str| {
        comes_back_as(&lab, &format!("t@{session}"), &format!("state-{day}"));
    };
    (7..10).for_each(|day| back(day, &sessions[day]));
    for session in &sessions[..7] {
        assert_ne!(lab.run(["ls", &format!("t@{session}")]).code, 0, "{session} is gone");
    }
    lab.run(["idb", "check"]).ok();
    assert_eq!(prune(&lab, &keep)["removed_versions"], 0, "there is nothing more to do");
    // Days go on; the chain has no more than it needs.
    for day in 10..13 {
        lab.file("tree/changes", noise(10 + day, 1_000_000));
        sessions.push(session_of(&lab.backed_up(backup)));
        lab.sh(&format!("cp -a tree state-{day}"));
        prune(&lab, &keep);
    }
    (10..13).for_each(|day| back(day, &sessions[day]));
    assert!(size() < before * 2 / 3, "{} of {before} bytes are left", size());
    // From the medium alone: the new full is found to stand for the base that is gone.
    lab.sh("rm -r home");
    lab.run(["import", "medium"]).ok();
    (10..13).for_each(|day| back(day, &sessions[day]));
    lab.run(["verify", "t"]).ok();
    if let Some(reader) = Reader::find() {
        reader.run(&lab, None, &["check", "medium"]).ok();
        let args = ["extract", "medium", "--session", &sessions[12], "--into", "read"];
        reader.run(&lab, None, &args).ok();
        same_by_rsync(&lab.path("state-12"), &below(&lab.path("read"), &lab.path("tree")));
    }
}

/// Quiet nights build on what became a synthetic full; each is no more than the end of its session.
#[test]
fn quiet_nights_after_a_synthetic_full_come_back_from_the_medium_alone() {
    let lab = Lab::new();
    let backup = ["tree", "--to", "medium", "--name", "t", "--incr"];
    for day in 0..5 {
        lab.file("tree/changes", noise(10 + day, 1_000_000));
        lab.backed_up(backup);
    }
    std::thread::sleep(std::time::Duration::from_secs(3));
    lab.backed_up(backup);
    let quiet: Vec<Value> = (0..2).map(|_| lab.backed_up(backup)).collect();
    assert_eq!(quiet[0]["bytes_read"], 0, "{:#}", quiet[0]);
    let done = prune(&lab, &["t", "--keep-last", "2"]);
    assert!(done["consolidated"][0]["session"].is_string(), "{done:#}");
    lab.sh("rm -r home");
    lab.run(["import", "medium"]).ok();
    for version in &quiet {
        comes_back_as(&lab, &format!("t@{}", session_of(version)), "tree");
    }
}

/// What is locked, or on tape as well, stays as it is; a copy of some of it on a disk goes with it.
#[test]
fn prune_consolidates_nothing_that_it_must_not() {
    let days = |lab: &Lab| -> Vec<String> {
        let backup = ["tree", "--to", "medium", "--name", "t", "--incr"];
        let day = |day| {
            lab.file("tree/changes", noise(day, 300_000));
            format!("t@{}", session_of(&lab.backed_up(backup)))
        };
        (0..5).map(day).collect()
    };
    let consolidates = |lab: &Lab, fulls: usize, what: &str| {
        let done = prune(lab, &["t", "--keep-last", "1", "--dry-run"]);
        assert_eq!(done["consolidated"].as_array().map(Vec::len), Some(fulls), "{what}: {done:#}");
    };
    let lab = Lab::new();
    let versions = days(&lab);
    lab.run(["copy", &versions[1], "--to", "copied"]).ok();
    consolidates(&lab, 1, "a copy of some of it is on another disk");
    lab.run(["lock", &versions[2], "--until", "2099-01-01"]).ok();
    consolidates(&lab, 0, "some of it is locked");
    let lab = Lab::new();
    Library::create(&lab.path("vtl"), &library_of(1, 2), 2).unwrap();
    let versions = days(&lab);
    consolidates(&lab, 1, "it is on a disk");
    lab.run(["copy", &versions[1], "--to", "vtape:vtl"]).ok();
    consolidates(&lab, 0, "a copy of some of it is on tape");
}

#[test]
fn damage_costs_what_it_touches_and_a_copy_mends_it() {
    let lab = Lab::new();
    chain(&lab);
    completed(consolidate(&lab, &["t", "--to", "made", "--block-size", "64K"]));
    lab.run(["copy", "t", "--to", "copied"]).ok();
    lab.sh("mv medium elsewhere");
    damage(&lab.path("made"), 3, 30);
    comes_back_as(&lab, "t", "tree");
    // What a medium has that is away is not lost.
    lab.sh("mv copied away");
    let away = lab.run(["restore", "t", "--into", "out"]);
    assert!(away.code == 3 && away.stderr.contains("away: copied"), "{}", away.stderr);
    assert!(!away.stderr.contains("damaged: /"), "{}", away.stderr);
    lab.sh("rm -r out");
    lab.run(["media", "forget", "copied"]).ok();
    let run = lab.run(["restore", "t", "--into", "out"]);
    assert_eq!(run.code, 3, "{}", run.stderr);
    let named = |text: &str| {
        let mut names: Vec<_> = text
            .lines()
            .filter(|l| l.contains("damaged: /"))
            .map(|l| l.split("damaged: ").nth(1).unwrap().split(": ").next().unwrap().to_owned())
            .collect();
        names.sort();
        names.dedup();
        names
    };
    let lost = named(&run.stderr);
    assert!(!lost.is_empty(), "{}", run.stderr);
    // Verification names the same, from the version and from the medium.
    for args in [["verify", "t"].as_slice(), &["verify", "--medium", "made"]] {
        let run = lab.run(args);
        assert_eq!((run.code, named(&run.stderr)), (3, lost.clone()), "{}", run.stderr);
    }
}

#[test]
fn what_cannot_be_done_is_said_before() {
    let lab = Lab::new();
    lab.file("tree/x", "x");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.run(["consolidate", "t"]).refused(&["is a full one already", "capstan copy"]);
    lab.run(["consolidate", "u"]).refused(&["no object is called"]);
    lab.sh("echo y >tree/y");
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--incr"]);
    lab.run(["consolidate", "t", "--to", "null:"]).refused(&["null device"]);
    lab.sh("mv medium elsewhere");
    lab.run(["consolidate", "t", "--to", "made"]).refused(&["cannot read medium"]);
    assert!(!lab.path("made").exists());
}

/// Files that were read again stand out of order in the backup; the last try counts.
#[test]
fn files_that_were_read_again() {
    let lab = Lab::new();
    for i in 0..40 {
        // Those that change take a while, so that they do so while they are read, on a busy machine too.
        let size = if (10..30).contains(&i) { 4_000_000 } else { 400_000 };
        lab.file(&format!("tree/{i:02}"), noise(i, size));
    }
    let mut busy = lab.program("bash");
    let touch = "while :; do for i in $(seq 10 29); do echo x >>tree/$i; done; done";
    let mut busy = busy.args(["-c", touch]).spawn().unwrap();
    let backup = ["tree", "--to", "medium", "--name", "t", "--incr"];
    let report = lab.backup([&backup[..], &["--retries", "2", "--retry-wait", "0"]].concat());
    busy.kill().unwrap();
    busy.wait().unwrap();
    assert!(
        report["errors"].to_string().contains("\"changed\""),
        "the files held still: {report:#}"
    );
    lab.sh("rm tree/0*; touch tree/10");
    lab.backed_up(backup);
    lab.sh("rm tree/35");
    let chain = session_of(&lab.backed_up(backup));
    let done = completed(consolidate(&lab, &["t", "--to", "made"]));
    for (version, into) in [(&chain, "of-chain"), (&session_of(&done), "of-full")] {
        let run = lab.run(["restore", &format!("t@{version}"), "--into", into]);
        assert!(matches!(run.code, 0 | 3), "{}", run.stderr);
    }
    let restored = |into: &str| below(&lab.path(into), &lab.path("tree"));
    same_by_rsync(&restored("of-chain"), &restored("of-full"));
    let list = |version: &str| lab.run(["ls", &format!("t@{version}")]).ok().stdout.lines().count();
    assert_eq!(list(&chain), list(&session_of(&done)));
}

#[test]
fn one_that_is_killed_leaves_the_chain_and_is_begun_anew() {
    let lab = Lab::new();
    let sessions = chain(&lab);
    let mut command = lab.command();
    command.args(["consolidate", "t", "--to", "made"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    wait_for("a segment", || lab.path("made/00000001.segment.part").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    comes_back_as(&lab, &format!("t@{}", sessions[2]), "state-2");
    // A backup does not go on with it.
    let report = lab.backed_up(["tree", "--to", "medium", "--name", "t", "--incr", "--resume"]);
    assert_eq!(
        (&report["method"], &report["base_session"]),
        (&"incr".into(), &sessions[2].as_str().into())
    );
    completed(consolidate(&lab, &["t", "--to", "made"]));
    lab.sh("mv medium elsewhere");
    comes_back_as(&lab, "t", "tree");
}
