//! What a backup says against the object's earlier ones: anomalies, and how long a restore will take.

use capstan_tape::vtl::library::{Design, Library};
use serde_json::Value;

use crate::support::{Lab, noise};
use crate::tape::library_of;

fn words(seed: u64, len: usize) -> Vec<u8> {
    let text = noise(seed, len / 8)
        .iter()
        .flat_map(|b| format!("line {:03}\n", b % 100).into_bytes())
        .collect::<Vec<_>>();
    text.into_iter().cycle().take(len).collect()
}

fn whats(report: &Value) -> Vec<&str> {
    let found = report["anomalies"].as_array().map(Vec::as_slice).unwrap_or_default();
    found.iter().map(|a| a["what"].as_str().unwrap()).collect()
}

#[test]
fn encryption_by_malware_shows() {
    let lab = Lab::new();
    for i in 0..60 {
        lab.file(&format!("tree/f{i}"), words(i, 30_000));
    }
    let backup = |options: &[&str]| {
        lab.backed_up(
            [&["tree", "--to", "medium", "--name", "t", "--compress", "zstd"], options].concat(),
        )
    };
    backup(&[]);
    for i in 0..3 {
        lab.file("tree/large", words(100 + i, 1_500_000));
        let report = backup(&["--incr"]);
        assert_eq!(whats(&report), [""; 0], "{report:#}");
    }
    for i in 0..60 {
        lab.file(&format!("tree/f{i}"), noise(i, 30_000));
    }
    let report = backup(&["--incr"]);
    assert_eq!(whats(&report), ["changed_files", "stored_size"], "{report:#}");
    let a = &report["anomalies"][0];
    assert!(a["value"].as_f64() > Some(0.98) && a["median"].as_f64() < Some(0.1), "{report:#}");
    let a = &report["anomalies"][1];
    assert!(a["value"].as_f64() > Some(0.95) && a["median"].as_f64() < Some(0.5), "{report:#}");
    // It is a warning of its own, and the session is complete all the same.
    let said: Vec<_> =
        report["errors"].as_array().unwrap().iter().filter(|e| e["code"] == "anomaly").collect();
    assert_eq!(
        (said.len(), &report["status"], &report["error_count"]),
        (2, &"completed".into(), &0.into())
    );
    assert!(said[0]["error"].as_str().unwrap().contains("median"), "{report:#}");
    let shown = lab.run(["sessions", "--show", report["session"].as_str().unwrap()]);
    assert!(
        shown.ok().stdout.contains("Anomaly     98.4 % of the files changed, usually 1.6 %"),
        "{}",
        shown.stdout
    );
    // A full one knows of no change, and has no earlier fulls to be held against.
    assert_eq!(whats(&backup(&["--full"])), [""; 0]);
}

/// Contents that are as they were are encrypted by nobody.
#[test]
fn a_tree_that_is_moved_or_touched_is_no_sign_of_malware() {
    let lab = Lab::new();
    lab.sh("mkdir -p tree/docs; for i in $(seq 60); do seq $i $((i + 500)) >tree/docs/$i; ln -s $i tree/docs/link$i; done; touch tree/docs/empty{1..60}");
    let backup = || lab.backed_up(["tree", "--to", "medium", "--name", "t", "--incr"]);
    for i in 0..4 {
        lab.file("tree/note", i.to_string());
        assert_eq!(whats(&backup()), [""; 0]);
    }
    for change in ["mv tree/docs tree/papers", "touch tree/papers/*", "chmod -R o-r tree"] {
        lab.sh(change);
        let report = backup();
        assert_eq!(whats(&report), [""; 0], "{change}: {report:#}");
        lab.run(["status", "t"]).ok();
    }
    lab.sh("for i in $(seq 60); do seq $((i + 5)) $((i + 500)) >tree/papers/$i; done");
    assert_eq!(whats(&backup()), ["changed_files"]);
}

/// What was left out until now and is taken looks as a wave of changes does: it is said what it is, and nobody is alarmed.
#[test]
fn what_a_further_tape_takes_again_is_no_sign_of_malware() {
    let lab = Lab::new();
    let design = Design { capacity: Some(24_000_000), ..library_of(1, 3) };
    Library::create(&lab.path("vtl"), &design, 3).unwrap();
    for night in 0..8 {
        lab.file("tree/new", noise(night, 2_400_000));
        let report = lab.backed_up(["tree", "--to", "vtape:vtl", "--name", "t", "--full"]);
        assert_eq!(whats(&report), [""; 0], "{report:#}");
        if report["media"].as_array().unwrap().len() == 2 {
            assert!(night >= 3, "too few to judge by: {report:#}");
            assert!(report["bytes_written"].as_u64() > Some(6_000_000), "{report:#}");
            return;
        }
    }
    panic!("no night took two tapes");
}

#[test]
fn growth_by_another_selection_is_no_sign_of_malware() {
    let lab = Lab::new();
    for i in 0..60 {
        lab.file(&format!("tree/f{i}"), words(i, 30_000));
        lab.file(&format!("tree/{i}.iso"), noise(i, 30_000));
    }
    let backup = |options: &[&str]| {
        lab.backed_up(
            [&["tree", "--to", "medium", "--name", "t", "--compress", "zstd"], options].concat(),
        )
    };
    let without = ["--exclude", "*.iso"];
    backup(&without);
    for i in 0..3 {
        lab.file("tree/large", words(100 + i, 1_500_000));
        assert_eq!(whats(&backup(&without)), [""; 0]);
    }
    let report = backup(&[]);
    assert_eq!(whats(&report), [""; 0], "{report:#}");
    let notes = report["notes"].to_string();
    for words in ["of the files changed", "explains it", "no longer left out by patterns: '*.iso'"]
    {
        assert!(notes.contains(words), "{words}: {notes}");
    }
    assert!(!notes.contains("malware"), "{notes}");
    lab.run(["status"]).ok();
    // The same wave without another selection is one.
    for i in 0..60 {
        lab.file(&format!("tree/f{i}"), noise(100 + i, 30_000));
        lab.file(&format!("tree/{i}.iso"), noise(200 + i, 30_000));
    }
    assert_eq!(whats(&backup(&[]))[0], "changed_files");
    assert!(lab.run(["status"]).stdout.contains("out of line"));
}

#[test]
fn a_report_says_how_long_a_restore_takes_and_by_what() {
    let lab = Lab::new();
    for i in 0..50 {
        lab.file(&format!("tree/f{i}"), noise(i, 100_000));
    }
    let args = ["tree", "--to", "medium", "--name", "t"];
    let first = lab.backed_up(args);
    let expected = &first["expected_restore"];
    assert_eq!(
        (&expected["rests_on"], &expected["session"]),
        (&"backup".into(), &first["session"])
    );
    assert_eq!((&expected["files"], &expected["bytes"]), (&50.into(), &5_000_000.into()));
    assert!(expected["seconds"].as_f64() > Some(0.0), "{first:#}");
    // An incremental speaks of all that would be restored, by the pace of the full one or of a restore.
    lab.file("tree/f0", "changed");
    let second = lab.backed_up([&args[..], &["--incr"]].concat());
    let expected = &second["expected_restore"];
    assert_eq!(
        (&expected["rests_on"], &expected["session"]),
        (&"backup".into(), &first["session"]),
        "{second:#}"
    );
    assert_eq!(
        (&expected["files"], &expected["bytes"]),
        (&50.into(), &4_900_007.into()),
        "{second:#}"
    );
    let restore = lab.restored(["t", "--into", "out"]);
    let third = lab.backed_up([&args[..], &["--incr"]].concat());
    let expected = &third["expected_restore"];
    assert_eq!(
        (&expected["rests_on"], &expected["session"]),
        (&"restore".into(), &restore["session"])
    );
    // One small file says nothing of all.
    lab.restored(["t", &lab.path("tree/f0").display().to_string(), "--into", "one"]);
    let fourth = lab.backed_up([&args[..], &["--incr"]].concat());
    let expected = &fourth["expected_restore"];
    assert_eq!(
        (&expected["session"], &expected["sessions"], &expected["medium"]),
        (&restore["session"], &1.into(), &"disk".into()),
        "{fourth:#}"
    );
    let text = lab.run([&["backup"], &args[..], &["--incr"]].concat());
    assert!(text.ok().stdout.contains("To restore  about "), "{}", text.stdout);
}
