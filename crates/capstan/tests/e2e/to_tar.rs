//! Archives on standard output.

use std::process::Stdio;

use crate::support::{Lab, noise, wait_for};

#[test]
fn a_reader_that_does_not_read_does_not_keep_it_from_ending() {
    let lab = Lab::new();
    // More than any pipe holds.
    lab.file("tree/file", noise(1, 8_000_000));
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let mut command = lab.command();
    command.args(["restore", "t", "--to-tar", "-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let sessions = || lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
    wait_for("the restore", || sessions().contains("\"running\""));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    wait_for("its end", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(!sessions().contains("\"running\""), "{}", sessions());
    // To who reads, all of it comes.
    lab.sh(&format!(
        "mkdir out; '{}' --home home restore t --to-tar - | tar -C out -xf -; cmp out\"$PWD\"/tree/file tree/file",
        env!("CARGO_BIN_EXE_capstan")
    ));
}

/// An archive is a restore: what was read is counted, and what limits it is said.
#[test]
fn an_archive_counts_what_it_reads_and_has_a_verdict() {
    let lab = Lab::new();
    lab.file("tree/noise", noise(1, 6_000_000));
    lab.file("tree/text", "the same again and again\n".repeat(200_000));
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let plain = lab.restored(["t", "--into", "out"]);
    let archived = lab.restored(["t", "--to-tar", "t.tar"]);
    assert_eq!(archived["bytes_read"], plain["bytes_read"], "{archived:#}");
    assert!(archived["bytes_read"].as_u64().unwrap() < archived["bytes_written"].as_u64().unwrap());
    assert!(archived["bottleneck"]["advice"].is_string(), "{archived:#}");
    let stages = archived["stages"].as_array().unwrap();
    let of = |name: &str| stages.iter().find(|stage| stage["name"] == name).unwrap();
    assert_eq!(of("device")["bytes"], archived["bytes_read"], "{archived:#}");
    let size = std::fs::metadata(lab.path("t.tar")).unwrap().len();
    assert_eq!(of("source")["bytes"], size, "{archived:#}");
    let text = lab.run(["restore", "t", "--to-tar", "u.tar"]);
    assert!(text.ok().stdout.contains("\nLimit       "), "{}{}", text.stdout, text.stderr);
}
