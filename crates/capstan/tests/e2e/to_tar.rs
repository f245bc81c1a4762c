//! Archives on standard output.

use std::process::Stdio;

use crate::support::{Lab, finish, noise, wait_for};

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

/// Of a file of several names whose first one is not wanted, the first that is wanted is the file, and the others are links to it.
#[test]
fn further_names_come_whole_where_the_first_does_not() {
    for to in ["medium", "vtape:v"] {
        let lab = Lab::new();
        // On tape they lie on several: each is written in its turn.
        lab.run("vtl create v --drives 1 --tapes 6 --capacity 30M --scale 1000".split(' ')).ok();
        for n in 0..3 {
            lab.file(&format!("tree/d/{n}"), noise(n, 12_000_000));
        }
        lab.file("tree/top", noise(8, 1_000));
        lab.file("tree/h/own", noise(9, 1_000));
        lab.sh(
            "cd tree; truncate -s 1M d/holes; mkfifo d/fifo; chmod 640 d/1; for f in 0 1 2 holes fifo; do ln d/$f h/a-$f; ln d/$f h/b-$f; done; \
             ln top h/top",
        );
        lab.backed_up(["tree", "--to", to, "--name", "t"]);
        // The first name lies in what a later one builds on.
        lab.file("tree/later", noise(10, 10_000));
        lab.backed_up(["tree", "--to", to, "--name", "t"]);
        lab.sh("ln tree/later tree/h/z-later");
        lab.backed_up(["tree", "--to", to, "--name", "t"]);
        let h = lab.path("tree/h").display().to_string();
        let depth = (lab.path("tree/h").components().count() - 1).to_string();
        let cases: [&[&str]; 4] =
            [&[&h], &["--exclude", "/**/d/"], &["--include", "a-*"], &["--strip", &depth]];
        for options in cases {
            lab.sh("rm -rf out unpacked t.tar; mkdir -p out unpacked");
            let tar = ["t", "--to-tar", "t.tar"];
            let list = lab.run(["restore"].iter().chain(&tar).chain(&["--list"]).chain(options));
            let dry = lab.restored(tar.iter().chain(&["--dry-run"]).chain(options));
            let report = lab.restored(tar.iter().chain(options));
            lab.restored(["t", "--into", "out"].iter().chain(options));
            // Of several tapes directories come once more at the end.
            let listed = lab.sh("tar tf t.tar | sort -u").lines().count();
            assert_eq!(list.ok().stdout.lines().count(), listed + 1, "{options:?} {}", list.stdout);
            for count in ["files", "dirs"] {
                assert_eq!(dry[count], report[count], "{options:?} {count}");
            }
            assert_eq!(
                listed as u64,
                report["files"].as_u64().unwrap() + report["dirs"].as_u64().unwrap()
            );
            lab.sh("tar -C unpacked --xattrs -xf t.tar");
            // Directories that only lead to what is chosen are not in an archive.
            let same = lab.sh("rsync -aHAXn --checksum --itemize-changes --delete out/ unpacked/ | grep -v '^.d' || true");
            assert_eq!(same, "", "{options:?}");
        }
    }
}

#[test]
fn an_archive_to_a_closed_standard_output_is_refused() {
    let lab = Lab::new();
    lab.file("tree/f", "text");
    lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    let restore = |to: &str| {
        let mut shell = lab.program("sh");
        let capstan = env!("CARGO_BIN_EXE_capstan");
        let home = lab.path("home");
        let line = format!("'{capstan}' --home '{}' restore t --to-tar - {to}", home.display());
        finish(shell.args(["-c", &line]))
    };
    let closed = restore(">&-");
    assert_eq!(closed.code, 2, "{}", closed.stderr);
    assert!(closed.stderr.contains("standard output is closed"), "{}", closed.stderr);
    restore(">/dev/null").ok();
    restore("| tar -t >/dev/null").ok();
}
