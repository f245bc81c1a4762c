//! `drill`: a rotating sample of files is restored and proved, and what is not as recorded is found.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use serde_json::Value;

use crate::support::{Lab, Run, finish, noise, report, skip};

fn tree() -> Lab {
    let lab = Lab::new();
    for i in 0..200 {
        lab.file(&format!("tree/d{}/f{i}", i % 5), noise(i, 500 + i as usize));
    }
    lab.file("tree/huge", noise(9, 40_000_000));
    lab.sh("cd tree; ln d1/f1 linked; ln -s d1/f1 symlink; : >empty; truncate -s 1M sparse; echo end >>sparse; \
            mkdir closed; echo x >closed/x; chmod 500 closed; mkdir ../scratch; chattr +i d2/f2 || true");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.sh("chattr -i tree/d2/f2 || true");
    lab
}

fn run(lab: &Lab, args: &[&str]) -> Run {
    let run = lab.run([&["drill", "t", "--json", "--scratch", "scratch"], args].concat());
    assert_eq!(fs::read_dir(lab.path("scratch")).unwrap().count(), 0, "something stayed behind");
    run
}

fn drill(lab: &Lab, args: &[&str]) -> Value {
    report(run(lab, args))
}

fn n(report: &Value, what: &str) -> u64 {
    report["drill"][what].as_u64().unwrap_or_else(|| panic!("no {what}: {report:#}"))
}

#[test]
fn samples_go_round_and_prove_each_file_once() {
    let lab = tree();
    let mut taken = 0;
    for i in 1..=4 {
        let report = drill(&lab, &["--sample", "25%"]);
        assert_eq!(
            (&report["status"], &report["method"]),
            (&"completed".into(), &"drill".into()),
            "{report:#}"
        );
        let proved = n(&report, "by_live_file") + n(&report, "by_checksum");
        assert_eq!((proved, n(&report, "failed")), (n(&report, "files"), 0), "{report:#}");
        assert!((20..90).contains(&proved), "{report:#}");
        assert_eq!(report["drill"]["round_complete"], i == 4, "{report:#}");
        taken += proved;
    }
    // 200 in directories, huge, linked, empty, sparse, closed/x.
    assert_eq!(taken, 205);
    let listed = lab.run(["sessions", "--kind", "all", "--json"]);
    let drills = listed
        .stdout
        .lines()
        .filter(|l| l.contains("\"kind\":\"drill\"") && l.contains("\"name\":\"t\""));
    assert_eq!(drills.count(), 4, "{}", listed.stdout);
    let text = lab.run(["drill", "t", "--scratch", "scratch", "--sample", "100%"]);
    assert!(text.ok().stdout.contains("by the live files, "), "{}", text.stdout);
    // At least one, however small the share.
    let report = drill(&lab, &["--sample", "0.0001%"]);
    assert_eq!(n(&report, "files"), 1);
    // The next backup says how long a restore takes by them.
    let report = lab.backed_up(["tree", "--to", "medium", "--name", "t", "--incr"]);
    assert_eq!(report["expected_restore"]["rests_on"], "drill", "{report:#}");
}

#[test]
fn live_files_prove_what_is_untouched_and_checksums_the_rest() {
    let lab = tree();
    lab.sh("cd tree; echo changed >d1/f6; touch d2/f7; rm d3/f8 empty");
    let report = drill(&lab, &["--sample", "100%"]);
    // f2's inode time changed with its flag, where flags are.
    let by_checksum = n(&report, "by_checksum");
    assert!((4..=5).contains(&by_checksum), "{report:#}");
    assert_eq!(n(&report, "by_live_file") + by_checksum, 205, "{report:#}");
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--no-crc", "--full"]);
    lab.sh("rm tree/d1/f11 tree/huge");
    let report = drill(&lab, &["--sample", "100%"]);
    assert_eq!(
        (n(&report, "by_length"), n(&report, "by_checksum")),
        (2, 0),
        "no checksum proves them: {report:#}"
    );
}

#[test]
fn what_does_not_come_back_as_recorded_is_named() {
    let lab = tree();
    let segment = lab.sh("ls -S medium/*.segment | head -1");
    lab.sh(&format!(
        "printf XXXX | dd of={} bs=1 seek=20000000 conv=notrunc status=none",
        segment.trim()
    ));
    let run = run(&lab, &["--sample", "100%"]);
    assert_eq!(run.code, 3, "{}{}", run.stdout, run.stderr);
    let report = report(run);
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    assert!(n(&report, "failed") >= 1, "{report:#}");
    let errors = report["errors"].as_array().unwrap();
    let codes: Vec<_> = errors.iter().map(|e| e["code"].as_str().unwrap()).collect();
    assert!(codes.contains(&"damaged") && codes.contains(&"not-proved"), "{report:#}");
}

#[test]
fn what_no_checksum_shows_the_live_file_does() {
    let lab = Lab::new();
    lab.mkdir("scratch");
    lab.file("tree/huge", noise(9, 40_000_000));
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--no-crc"]);
    assert_eq!(n(&drill(&lab, &["--sample", "100%"]), "by_live_file"), 1);
    let segment = lab.sh("ls -S medium/*.segment | head -1");
    lab.sh(&format!(
        "printf XXXX | dd of={} bs=1 seek=20000000 conv=notrunc status=none",
        segment.trim()
    ));
    let report = drill(&lab, &["--sample", "100%"]);
    assert_eq!(
        (n(&report, "failed"), report["errors"][0]["code"].as_str()),
        (1, Some("not-proved")),
        "{report:#}"
    );
    assert!(report["errors"][0]["error"].as_str().unwrap().contains("live file"), "{report:#}");
}

#[test]
fn what_cannot_be_drilled_is_refused() {
    let lab = tree();
    for bad in ["0%", "101%", "5"] {
        lab.run(["drill", "t", "--sample", bad]).refused(&["--sample"]);
    }
    lab.run(["drill", "t", "--scratch", "nowhere"]).refused(&["nowhere", "--scratch"]);
    lab.run(["drill", "other"]).refused(&["other"]);
    lab.mkdir("dirs/only");
    lab.backed_up(["dirs", "--to", "medium", "--name", "dirs"]);
    lab.run(["drill", "dirs"]).refused(&["no files"]);
}

/// The kernel says of such a file that it has 4096 bytes, and it ends after some.
#[test]
fn a_file_that_was_cut_is_held_against_where_it_ended() {
    if !Path::new("/sys/module/kernel/parameters").is_dir() {
        return skip("there is no sysfs");
    }
    let lab = Lab::new();
    lab.mkdir("scratch");
    let backup = lab.run(["backup", "/sys/module/kernel/parameters", "--to", "m", "--name", "t"]);
    assert!(backup.ok().stderr.contains("103 short"), "{}", backup.stderr);
    let run = run(&lab, &["--sample", "100%"]);
    assert!(run.ok().stderr.contains("103 short"), "{}", run.stderr);
    assert_eq!(n(&report(run), "failed"), 0);
}

/// Further names of files that were written to while they were read have what was read of the first.
#[test]
fn a_file_that_changed_is_no_damage_to_its_other_names() {
    other_names_of_what_changed("0");
    other_names_of_what_changed("2");
}

fn other_names_of_what_changed(retries: &str) {
    for _ in 0..20 {
        let lab = Lab::new();
        lab.mkdir("scratch");
        for n in 0..30 {
            lab.file(&format!("tree/a/n{n}"), noise(n, 500_000));
        }
        lab.sh("mkdir tree/z && cp -l tree/a/* tree/z");
        let stop = AtomicBool::new(false);
        let backup = std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in (0..30).cycle().take_while(|_| !stop.load(Relaxed)) {
                    let path = lab.path(format!("tree/a/n{n}"));
                    let mut file = File::options().append(true).open(path).unwrap();
                    file.write_all(b"more").unwrap();
                }
            });
            let line = ["backup", "tree", "--to", "m", "--name", "t", "--retries", retries];
            let run = lab.run(line);
            stop.store(true, Relaxed);
            run
        });
        if !backup.ok().stderr.contains("102 changed") {
            continue;
        }
        let restore = lab.run(["restore", "t", "--into", "r"]);
        restore.ok();
        let verify = lab.run(["verify", "t"]);
        assert!(verify.ok().stderr.contains("102 changed: /"), "{}", verify.stderr);
        assert!(!verify.stderr.contains("201 damaged"), "{}", verify.stderr);
        let found = ": its contents are those of /";
        assert!(verify.stderr.contains(found), "{}", verify.stderr);
        let drill = run(&lab, &["--sample", "100%"]);
        drill.ok();
        assert_eq!(n(&report(drill), "failed"), 0);
        let status = lab.run(["status"]);
        assert!(!status.stdout.contains("prove"), "{}", status.stdout);
        return;
    }
    panic!("no file was written to while it was read");
}

#[test]
fn without_a_secret_it_is_refused_as_a_restore_is() {
    let lab = Lab::with_passphrase(Some("a secret of some words"));
    lab.file("tree/f", "one");
    lab.mkdir("scratch");
    lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    let without = |args: &[&str]| {
        let mut command = lab.command();
        command.args(args).env_remove("CAPSTAN_PASSPHRASE");
        finish(&mut command)
    };
    let restore = without(&["restore", "t", "--into", "r"]);
    let drill = without(&["drill", "t", "--scratch", "scratch"]);
    drill.refused(&["hint"]);
    assert_eq!(drill.stderr, restore.stderr);
    assert_eq!(fs::read_dir(lab.path("scratch")).unwrap().count(), 0);
    // It is on record, and no longer runs.
    let shown = lab.run(["sessions", "t", "--kind", "drill", "--json"]).stdout;
    assert!(shown.contains("\"failed\""), "{shown}");
    lab.run(["drill", "t", "--scratch", "scratch"]).ok();
}
