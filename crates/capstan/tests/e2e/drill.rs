//! `drill`: a rotating sample of files is restored and proved, and what is not as recorded is found.

use std::fs;

use serde_json::Value;

use crate::support::{Lab, Run, noise, report};

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
