//! What feeds a tape drive: as few streams as keep it streaming.

use capstan_tape::library::{Design, Library};

use crate::support::{Lab, noise};
use crate::tape::library_of;

/// A drive of 29 MB/s, which any source outruns.
fn slow_drive(lab: &Lab) {
    let design = Design { model: "dlt-4000".into(), scale: 20.0, ..library_of(1, 1) };
    Library::create(&lab.path("vtl"), &design, 1).unwrap();
}

#[test]
fn a_slow_drive_is_fed_by_one_stream() {
    let lab = Lab::new();
    slow_drive(&lab);
    for n in 0..6 {
        lab.file(&format!("tree/{n}"), noise(n, 1_000_000));
    }
    let to = ["tree", "--to", "vtape:vtl", "--name", "t", "--compress", "off", "--verbose"];
    let backup: Vec<_> = ["backup", "--full"].into_iter().chain(to).collect();
    let run = lab.run(&backup);
    let said = run.ok().stderr.clone();
    assert!(said.contains("streams feed the drive") && said.contains("writes 29 MB/s"), "{said}");
    assert!(said.contains(": 1 of "), "{said}");
    // The same where the session itself compresses or encrypts.
    let squeezed: Vec<_> =
        backup.iter().map(|arg| if *arg == "off" { "zstd" } else { *arg }).collect();
    let run = lab.run(&squeezed);
    let said = run.ok().stderr.clone();
    assert!(said.contains("1 of ") && said.contains("one reads and works on"), "{said}");
    // Who says how many gets them, and an incremental is not tasted.
    let streams = lab.run(backup.iter().chain(&["--streams", "2"]));
    assert!(!streams.ok().stderr.contains("streams feed"), "{}", streams.stderr);
    let incr = lab.run(["backup", "--incr"].into_iter().chain(to));
    assert!(!incr.ok().stderr.contains("streams feed"), "{}", incr.stderr);
    for (given, why) in [("0", "neither auto"), ("many", "neither auto")] {
        lab.run(backup.iter().chain(&["--concurrency", given])).refused(&[why]);
    }
}
