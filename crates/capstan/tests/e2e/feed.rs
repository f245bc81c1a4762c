//! What feeds a tape drive: as few streams as keep it streaming.

use capstan_tape::vtl::library::{Design, Library};

use crate::support::{Lab, noise};
use crate::tape::library_of;

/// Drives of 29 MB/s, which any source outruns.
fn slow_drives(lab: &Lab, drives: u32) {
    let design = Design { model: "dlt-4000".into(), scale: 20.0, ..library_of(drives, drives) };
    Library::create(&lab.path("vtl"), &design, drives).unwrap();
}

#[test]
fn a_slow_drive_is_fed_by_one_stream() {
    let lab = Lab::new();
    slow_drives(&lab, 1);
    for n in 0..6 {
        lab.file(&format!("tree/{n}"), noise(n, 1_000_000));
    }
    let to = ["tree", "--to", "vtape:vtl", "--name", "t", "--compress", "off", "--verbose"];
    let backup: Vec<_> = ["backup", "--full"].into_iter().chain(to).collect();
    let run = lab.run(&backup);
    let said = run.ok().stderr.clone();
    assert!(
        said.contains("streams feed the drive") && said.contains("writes 29 MB/s at most"),
        "{said}"
    );
    assert!(said.contains(": 1 of "), "{said}");
    // The same where the session itself compresses or encrypts.
    let compressed: Vec<_> =
        backup.iter().map(|arg| if *arg == "off" { "zstd" } else { *arg }).collect();
    let run = lab.run(&compressed);
    let said = run.ok().stderr.clone();
    assert!(said.contains("1 of ") && said.contains("one reads and works on"), "{said}");
    // Who says how many gets them, and an incremental is not probed.
    let streams = lab.run(backup.iter().chain(&["--streams", "2"]));
    assert!(!streams.ok().stderr.contains("streams feed"), "{}", streams.stderr);
    let incr = lab.run(["backup", "--incr"].into_iter().chain(to));
    assert!(!incr.ok().stderr.contains("streams feed"), "{}", incr.stderr);
    for (given, why) in [("0", "neither auto"), ("many", "neither auto")] {
        lab.run(backup.iter().chain(&["--concurrency", given])).refused(&[why]);
    }
}

#[test]
fn an_array_takes_what_its_members_for_data_take() {
    let lab = Lab::new();
    slow_drives(&lab, 3);
    for n in 0..6 {
        lab.file(&format!("tree/{n}"), noise(n, 1_000_000));
    }
    let array = "rait5:vtape:vtl,vtape:vtl,vtape:vtl";
    let run = lab.run(["backup", "tree", "--to", array, "--compress", "off", "--verbose"]);
    let said = run.ok().stderr.clone();
    assert!(said.contains(": 1 of ") && said.contains("writes 58 MB/s at most"), "{said}");
}
