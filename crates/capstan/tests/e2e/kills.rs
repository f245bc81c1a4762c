//! SIGKILL at any moment: what was committed stays, the medium is sound, `--resume` goes on, and all comes back.

use std::fs;
use std::process::Stdio;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, below, noise, soak, wait_for};

const BACKUP: [&str; 11] = [
    "backup",
    "tree",
    "--to",
    "medium",
    "--name",
    "t",
    "--segment-size",
    "4M",
    "--streams",
    "3",
    "--json",
];

/// Small files, hard links, and two files that are read in pieces by all streams.
fn tree(lab: &Lab) {
    for i in 0..2_000 {
        lab.file(&format!("tree/small/{}/{i}", i % 17), noise(i, 3_000 + i as usize));
    }
    for i in 0..20 {
        lab.file(&format!("tree/medium-sized/{i}"), noise(i, 700_000));
    }
    lab.file("tree/huge-1", noise(1, 50_000_001));
    lab.file("tree/small/huge-2", noise(2, 40_000_000));
    lab.sh("for i in {1..100}; do ln tree/small/3/$((17 * i + 3)) tree/linked-$i; done; mkdir tree/empty");
}

/// Starts a backup and kills it after a while; whether it was killed before its end.
fn kill_after(lab: &Lab, method: &str, delay: Duration) -> bool {
    let mut command = lab.command();
    command.args(BACKUP).arg(method).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    std::thread::sleep(delay);
    let ended = child.try_wait().unwrap().is_some();
    let _ = child.kill();
    child.wait().unwrap();
    !ended
}

fn comes_back(lab: &Lab) {
    let into = lab.path("out");
    lab.restored(["t".as_ref(), "--into".as_ref(), into.as_os_str()]);
    let tree = lab.path("tree");
    same_by_rsync(&tree, &below(&into, &tree));
    fs::remove_dir_all(into).unwrap();
}

#[test]
fn a_killed_backup_is_sound_and_goes_on() {
    let lab = Lab::new();
    tree(&lab);
    let begun = Instant::now();
    lab.run(BACKUP).ok();
    let mut whole = begun.elapsed();
    comes_back(&lab);
    let rounds = if soak() { 200 } else { 20 };
    let (mut killed, mut resumed, mut seed) = (0, 0, 7_u64);
    while killed < rounds {
        let mut incomplete = false;
        // One kill, or a second in the backup that goes on from the first.
        for method in ["--full", "--resume"].iter().take(1 + killed % 2) {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let share = f64::from((seed >> 40) as u32) / f64::from(1 << 24);
            if kill_after(&lab, method, whole.mul_f64(share)) {
                killed += 1;
                incomplete = true;
            } else {
                // The first one may have been slow, on a machine that was busy then.
                whole = whole * 9 / 10;
            }
        }
        lab.run(["verify", "--medium", "medium"]).ok();
        let report = crate::support::completed(crate::support::report(
            lab.run(BACKUP.iter().chain(&["--resume"])),
        ));
        // With nothing to resume it builds on the last version that was complete.
        if report["method"] == "full" && report["kept"].as_u64() > Some(0) {
            assert!(incomplete && report["base_session"].is_string(), "{report:#}");
            resumed += 1;
        }
        comes_back(&lab);
        // What the killed writers left is gone, and nothing else is there.
        let names = fs::read_dir(lab.path("medium")).unwrap().map(|e| e.unwrap().file_name());
        for name in names.map(|n| n.into_string().unwrap()) {
            assert!(name == "medium.capstan" || name.ends_with(".segment"), "{name} is left");
        }
        // The database is no more than a copy: the medium says the same.
        if killed % 5 == 0 {
            fs::remove_dir_all(lab.path("home")).unwrap();
            lab.run(["import", "medium"]).ok();
            // The new home is another cell.
            lab.run(["media", "adopt", "medium"]).ok();
            comes_back(&lab);
        }
        // Space is not what this is about.
        if lab.sh("du -sm medium | cut -f1").trim().parse::<u64>().unwrap() > 2_000 {
            lab.sh("rm -r medium home");
            // A kill may come before there is a medium.
            lab.run(BACKUP).ok();
        }
    }
    eprintln!("{killed} kills, {resumed} backups that went on");
    assert!(resumed > rounds / 8, "hardly any backup was killed between its commits: {resumed}");
}

#[test]
fn an_interrupt_ends_in_order() {
    let lab = Lab::new();
    let mut command = lab.command();
    command.args([
        "backup",
        "--json",
        "--name",
        "t",
        "--to",
        "medium",
        "--segment-size",
        "1M",
        "tree",
    ]);
    for i in 0..3_000 {
        lab.file(&format!("tree/{i}"), noise(i, 60_000));
    }
    let child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    wait_for("the first commit", || lab.path("medium/00000002.segment").exists());
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    if report["status"] == "completed" {
        return crate::support::skip("the backup was quicker than the interrupt");
    }
    assert_eq!((report["status"].as_str(), output.status.code()), (Some("incomplete"), Some(1)));
    // What was not read is neither counted nor restored.
    let files = report["files"].as_u64().unwrap();
    assert!(
        files < 3_000 && report["bytes_read"].as_u64() < Some((files + 16) * 60_000),
        "{report:#}"
    );
    assert!(report["errors"].to_string().contains("stopped"), "{report:#}");
    let whole = crate::incomplete::gives_back_what_it_has(&lab) as u64;
    assert_eq!(whole, files, "{report:#}");
    // All that was read is committed: but for the files at hand nothing of it is read again.
    let rest = lab.backed_up(["tree", "--to", "medium", "--name", "t", "--resume"]);
    assert_eq!(rest["files"], 3_000, "{rest:#}");
    let [first, then] = [&report, &rest].map(|r| r["bytes_read"].as_u64().unwrap());
    let all = 3_000 * 60_000;
    assert!(first < all && rest["kept"].as_u64() > Some(0), "{report:#} {rest:#}");
    assert!(
        (all..all + 16 * 60_000).contains(&(first + then)),
        "{first} and {then} of {all} bytes"
    );
    comes_back(&lab);
}

/// What the report of a session says that was killed.
#[test]
fn a_killed_session_is_on_record_as_incomplete() {
    let lab = Lab::new();
    let mut command = lab.command();
    command.args(["backup", "--stdin", "--stdin-name", "f", "--name", "t", "--to", "medium"]);
    command.args(["--segment-size", "1M"]).stdin(Stdio::piped());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    use std::io::Write;
    child.stdin.as_mut().unwrap().write_all(&noise(1, 6_000_000)).unwrap();
    wait_for("a commit", || lab.path("medium/00000002.segment").exists());
    child.kill().unwrap();
    // Also while nobody has asked after it.
    let stat = format!("/proc/{}/stat", child.id());
    wait_for("its end", || fs::read_to_string(&stat).is_ok_and(|s| s.contains(") Z ")));
    let session = crate::incomplete::newest(&lab);
    assert_eq!(session["status"], "incomplete", "{session:#}");
    child.wait().unwrap();
    // What it committed is shown, to tell whether there is something to go on with.
    assert!(session["committed_bytes"].as_u64() >= Some(1_000_000), "{session:#}");
    assert!(session["files"].is_null() && session["bytes_read"].is_null(), "{session:#}");
    let listed = lab.run(["sessions", "t"]).ok().stdout.clone();
    assert!(listed.contains("medium      -     -  ") && !listed.contains('~'), "{listed}");
    let shown = lab.run(["sessions", "--show", session["id"].as_str().unwrap()]);
    assert!(!shown.ok().stdout.contains("Files"), "{}", shown.stdout);
    // It is never taken by itself.
    lab.run(["restore", "t", "--into", "out"]).refused(&["t"]);
}

/// Ten to a hundred days of backups, prunes (which consolidate) and consolidations, each of them killed at a random moment and
/// run again: the last three days always restore, and the database has no quarrel with the medium.
#[test]
fn killed_upkeep_keeps_what_is_kept() {
    let lab = Lab::new();
    let days = if soak() { 150 } else { 12 };
    for i in 0..200 {
        lab.file(&format!("tree/stays/{i}"), noise(i, 5_000));
    }
    let backup = ["backup", "tree", "--to", "medium", "--name", "t", "--incr", "--json"];
    let (mut kept, mut killed, mut seed) = (Vec::<String>::new(), 0, 3_u64);
    for day in 0..days {
        for i in 0..10 {
            lab.file(&format!("tree/changes/{i}"), noise(1000 + day * 10 + i, 60_000));
        }
        lab.sh(&format!("chmod {} tree/stays/{}; touch tree/day-{day}", 600 + day % 8, day % 200));
        for command in [&backup[..], &["prune", "t", "--keep-last", "9"], &["consolidate", "t"]] {
            if command[0] == "consolidate" && day % 4 != 1 {
                continue;
            }
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            // They take some 50 to 200 ms in a build for tests.
            let delay = Duration::from_millis((seed >> 40) % 80);
            let mut program = lab.command();
            program.args(command).stdout(Stdio::null()).stderr(Stdio::null());
            let mut child = program.spawn().unwrap();
            std::thread::sleep(delay);
            killed += u32::from(child.try_wait().unwrap().is_none());
            let _ = child.kill();
            child.wait().unwrap();
            // What was killed is done again; a backup may have come to its end and then finds nothing new.
            if command[0] == "backup" {
                let report = crate::support::completed(crate::support::report(lab.run(command)));
                kept.push(report["session"].as_str().unwrap().to_owned());
                lab.sh(&format!("cp -a tree state-{day}"));
            } else if command[0] == "prune" {
                lab.run(command).ok();
            }
            let last = kept.iter().enumerate().rev().take(if day % 3 == 2 { 3 } else { 1 });
            for (day, session) in last {
                crate::mirror::comes_back_as(
                    &lab,
                    &format!("t@{session}"),
                    &format!("state-{day}"),
                );
            }
        }
        // A segment whose row a kill prevented is found and can be had; nothing else is wrong.
        let check = lab.run(["idb", "check"]);
        if (check.stdout + &check.stderr).contains("segments that are not recorded") {
            lab.run(["import", "medium"]).ok();
        }
        lab.run(["idb", "check"]).ok();
        if day >= 4 {
            lab.sh(&format!("rm -r state-{}", day - 4));
        }
    }
    eprintln!("{killed} commands were killed");
    assert!(killed > days as u32 / 2, "hardly anything was killed: {killed}");
    // What is only needed by others does not pile up: a day has 600 kB, and the rest 1 MB.
    let bytes: u64 = lab.sh("du -sB1 medium | cut -f1").trim().parse().unwrap();
    assert!(bytes < 25_000_000, "{bytes} bytes for nine versions");
}
