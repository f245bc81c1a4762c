//! The verdict is right where the bottleneck is known.

use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::support::{Lab, noise};

#[track_caller]
fn limits(report: &Value, stage: &str, share: f64) {
    let bottleneck = &report["bottleneck"];
    assert_eq!(bottleneck["stage"], stage, "{report:#}");
    assert!(bottleneck["share"].as_f64().unwrap() >= share, "{report:#}");
    assert!(bottleneck["advice"].as_str().is_some_and(|a| a.len() > 20), "{report:#}");
    let stages = report["stages"].as_array().unwrap();
    let busy =
        |name: &str| stages.iter().find(|s| s["name"] == name).unwrap()["busy_s"].as_f64().unwrap();
    assert!(stages.len() >= 5 && busy(stage) > 0.0, "{report:#}");
}

#[test]
#[ignore = "needs the machine for itself"]
fn the_device() {
    let lab = Lab::new();
    for i in 0..4 {
        lab.file(&format!("tree/{i}"), noise(i, 40_000_000));
    }
    let report = lab.backed_up(["tree", "--to", "null:rate=50", "--name", "t"]);
    limits(&report, "device", 0.7);
    let rate = report["rate_mb_s"].as_f64().unwrap();
    assert!((35.0..60.0).contains(&rate), "{report:#}");
}

#[test]
#[ignore = "needs the machine for itself"]
fn the_processors() {
    let lab = Lab::new();
    // Text, which zstd 19 works hard at.
    lab.sh("mkdir tree; for n in 1 2 3 4; do seq $((n * 1000000)) $((n * 1000000 + 1200000)) >tree/$n; done");
    let report = lab.backed_up(["tree", "--to", "null:", "--name", "t", "--compress", "zstd:19"]);
    limits(&report, "cpu", 0.7);
}

#[test]
#[ignore = "needs the machine for itself"]
fn the_source() {
    let lab = Lab::new();
    lab.file("piece", noise(1, 500_000));
    // 5 MB/s, as a slow disk or network share gives them.
    let mut producer = lab.program("bash");
    producer.args(["-c", "for i in {1..30}; do cat piece; sleep 0.1; done"]).stdout(Stdio::piped());
    let mut producer = producer.spawn().unwrap();
    let input = Stdio::from(producer.stdout.take().unwrap());
    let report = lab.backup_of(input, ["--stdin", "--name", "t", "--to", "medium"]);
    producer.wait().unwrap();
    assert_eq!(
        (&report["status"], &report["bytes_read"]),
        (&"completed".into(), &15_000_000.into())
    );
    limits(&report, "source", 0.7);
    assert!(fs::read_dir(lab.path("medium")).unwrap().count() >= 2);
}
