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

/// Each directory stands in it once, and has its times when it was unpacked, by GNU tar and by bsdtar.
#[test]
fn directories_stand_in_an_archive_once_and_keep_their_times() {
    let lab = Lab::new();
    for path in ["a/x/1", "a/x/deep/2", "a/y/3", "a/z", "a/x!/4", "b/5", "c/d/e/f/6"] {
        lab.file(&format!("tree/{path}"), path);
    }
    lab.mkdir("tree/empty");
    lab.sh("cd tree; n=0; find . -depth -type d | while read d; do n=$((n+1)); touch -d 2020-01-0$((n%9+1)) $d; done");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.sh("echo more >tree/a/y/more; touch -d 2021-02-03 tree/a/y tree/a");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.restored(["t", "--to-tar", "t.tar"]);
    assert_eq!(lab.sh("tar tf t.tar | sort | uniq -d"), "");
    let times = "find . -printf '%p %y %m %T@\\n' | sort";
    let here = lab.sh(&format!("cd tree && {times}"));
    for unpack in ["tar -C out -xf t.tar", "bsdtar -C out -xpf t.tar"] {
        if unpack.starts_with("bsdtar") && !lab.succeeds("command -v bsdtar") {
            continue;
        }
        lab.sh(&format!("mkdir out && {unpack}"));
        assert_eq!(lab.sh(&format!("cd out\"$PWD\"/tree && {times}")), here, "{unpack}");
        lab.sh("rm -r out");
    }
}
