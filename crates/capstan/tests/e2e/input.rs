//! Standard input and commands as sources.

use std::fs;
use std::process::Stdio;

use crate::support::{Lab, finish, noise};

fn restored_file(lab: &Lab, object: &str, file: &str) -> Vec<u8> {
    let into = lab.path(format!("out-{object}"));
    lab.restored([object.as_ref(), "--into".as_ref(), into.as_os_str()]);
    fs::read(into.join(file)).unwrap()
}

#[test]
fn standard_input_is_a_file() {
    let lab = Lab::new();
    let content = noise(5, 30_000_003);
    let source = lab.file("content", &content);
    let input = Stdio::from(fs::File::open(source).unwrap());
    let report = lab.backup_of(
        input,
        ["--stdin", "--stdin-name", "dump.sql", "--name", "dump", "--to", "medium"],
    );
    assert_eq!(
        (&report["status"], &report["bytes_read"]),
        (&"completed".into(), &30_000_003.into())
    );
    assert!(restored_file(&lab, "dump", "dump.sql") == content);
    // Empty input is an empty file.
    lab.backup_of(
        Stdio::null(),
        ["--stdin", "--stdin-name", "none", "--name", "none", "--to", "medium"],
    );
    assert!(restored_file(&lab, "none", "none").is_empty());
}

#[test]
fn a_commands_output_is_a_file() {
    let lab = Lab::new();
    let args =
        ["--from-command", "seq 1 500000 | tee seen", "--stdin-name", "db/numbers", "--name", "db"];
    let report = lab.backup(args.iter().chain(&["--to", "medium"]));
    assert_eq!(report["status"], "completed", "{report:#}");
    assert!(restored_file(&lab, "db", "db/numbers") == fs::read(lab.path("seen")).unwrap());
}

#[test]
fn a_command_that_fails_fails_its_object() {
    let lab = Lab::new();
    for command in ["echo partial; exit 7", "/no/such/program", "echo partial; kill -9 $$"] {
        let report = lab.backup([
            "--from-command",
            command,
            "--stdin-name",
            "f",
            "--name",
            "db",
            "--to",
            "medium",
        ]);
        assert_eq!(report["status"], "failed", "{command}: {report:#}");
        assert!(report["errors"].to_string().contains("input-failed"), "{report:#}");
    }
    // A failed dump is never what a restore takes by itself.
    let run = lab.run(["restore", "db", "--into", "out"]);
    assert_ne!(run.code, 0, "a failed dump was restored: {}", run.stdout);
    // The next good one is.
    lab.backed_up([
        "--from-command",
        "echo whole",
        "--stdin-name",
        "f",
        "--name",
        "db",
        "--to",
        "medium",
    ]);
    assert_eq!(restored_file(&lab, "db", "f"), b"whole\n");
}

#[test]
fn a_name_that_no_restore_would_take_is_refused() {
    let lab = Lab::new();
    for bad in ["", "/", "..", "../../x", "a/./b", "a//b", "a/"] {
        let args = ["backup", "--stdin", "--stdin-name", bad, "--name", "n", "--to", "medium"];
        lab.run(args).refused(&["--stdin-name"]);
        let args = [
            "backup",
            "--from-command",
            "true",
            "--stdin-name",
            bad,
            "--to",
            "medium",
            "--dry-run",
        ];
        lab.run(args).refused(&["--stdin-name"]);
    }
    assert!(!lab.path("medium").exists());
    // A leading slash is taken off, as with paths.
    lab.backup_of(
        Stdio::null(),
        ["--stdin", "--stdin-name", "/db/dump", "--name", "n", "--to", "medium"],
    );
    assert!(restored_file(&lab, "n", "db/dump").is_empty());
}

#[test]
fn an_object_has_a_name_that_can_be_typed() {
    let lab = Lab::new();
    for bad in ["", "a\nb", "\x1b[1m"] {
        let args = ["backup", "--stdin", "--name", bad, "--to", "medium"];
        lab.run(args).refused(&["--name"]);
    }
    assert!(!lab.path("medium").exists());
}

#[test]
fn a_file_below_directories_is_found_as_any_other() {
    let lab = Lab::new();
    let args =
        ["--from-command", "echo hi", "--stdin-name", "db/shop/dump.sql", "--name", "si", "--to"];
    lab.backed_up(args.iter().chain(&["medium"]));
    let path = "/db/shop/dump.sql";
    let finds = |home: &str| {
        let lists = |args: &[&str]| {
            let run = finish(lab.command().args(args).env("CAPSTAN_HOME", home));
            run.ok().stdout.trim().to_owned()
        };
        for args in [
            &["ls", "si"][..],
            &["ls", "si", "/db"],
            &["ls", "si", "/db/shop"],
            &["ls", "si", path],
            &["ls", "si", "--depth", "1"],
            &["ls", "si", "/db", "--depth", "1"],
            &["ls", "si", path, "--depth", "0"],
        ] {
            assert_eq!(lists(args), path, "{args:?}");
        }
        for args in [
            &["find", "dump.sql"][..],
            &["find", "--name", "dump.sql", "--all-versions"],
            &["find", "*.sql"],
            &["find", path],
            &["versions", "si:/db/shop/dump.sql"],
            &["versions", path],
        ] {
            let args = [args, &["--json"]].concat();
            let rows = lists(&args).matches("dump.sql").count();
            assert!(rows > 0, "{args:?}");
        }
    };
    finds("home");
    lab.run(["restore", "si", "/db/shop", "--into", "out"]).ok();
    assert_eq!(fs::read(lab.path("out/db/shop/dump.sql")).unwrap(), b"hi\n");
    // Another home that imports the medium has it as well.
    finish(lab.command().args(["import", "medium"]).env("CAPSTAN_HOME", "other")).ok();
    finds("other");
    lab.run(["verify", "si"]).ok();
    lab.run(["drill", "si", "--sample", "100%"]).ok();
}

#[test]
fn what_was_no_file_is_not_restored_in_its_place() {
    let lab = Lab::new();
    lab.backed_up([
        "--from-command",
        "echo hi",
        "--stdin-name",
        "capstan-test-input",
        "--name",
        "si",
        "--to",
        "medium",
    ]);
    for more in [&[][..], &["--dry-run"]] {
        let args = [&["restore", "si", "--in-place"], more].concat();
        lab.run(args).refused(&["'si' came from standard input or a command", "--into"]);
    }
    assert!(!std::path::Path::new("/capstan-test-input").exists());
    lab.run(["restore", "si", "--into", "r"]).ok();
}

fn shop(lab: &Lab, command: &str) -> (i32, serde_json::Value) {
    let args = ["--stdin-name", "shop.sql.gz", "--name", "shop", "--to", "medium", "--json"];
    let run = lab.run([&["backup", "--from-command", command], &args[..]].concat());
    (run.code, crate::support::report(run))
}

fn said(report: &serde_json::Value, code: &str) -> usize {
    report["errors"].as_array().unwrap().iter().filter(|e| e["code"] == code).count()
}

/// What the end of a pipe was given it does not know.
#[test]
fn a_pipe_fails_where_any_of_its_commands_does() {
    let lab = Lab::new();
    let whole = shop(&lab, "seq 100000 | gzip").1["session"].as_str().unwrap().to_owned();
    for _ in 0..2 {
        let (code, report) = shop(&lab, "sh -c 'echo refused >&2; exit 1' | gzip");
        assert_eq!((code, &report["status"]), (1, &"failed".into()), "{report:#}");
        assert_eq!(said(&report, "input-failed"), 1, "{report:#}");
    }
    lab.run(["prune", "shop", "--keep-last", "1"]).ok();
    assert!(lab.run(["versions", "shop"]).ok().stdout.contains(&whole[..8]));
    lab.restored(["shop", "--into", "out"]);
    assert!(lab.succeeds("seq 100000 | cmp - <(zcat out/shop.sql.gz)"));
    // Whoever means it says so.
    assert_eq!(shop(&lab, "set +o pipefail; false | seq 100000 | gzip").0, 0);
}

#[test]
fn an_input_that_is_empty_or_small_now_is_said() {
    let lab = Lab::new();
    // That there was never anything is nothing new.
    assert_eq!(shop(&lab, "true").0, 0);
    let whole = shop(&lab, "seq 100000").1["session"].as_str().unwrap().to_owned();
    // Not once only, and the last version that has something stays.
    for _ in 0..3 {
        let (code, report) = shop(&lab, "true");
        assert_eq!((code, &report["status"]), (3, &"completed_with_errors".into()), "{report:#}");
        assert_eq!(said(&report, "input-empty"), 1, "{report:#}");
        lab.run(["prune", "shop", "--keep-last", "1"]).ok();
    }
    assert!(lab.run(["versions", "shop"]).ok().stdout.contains(&whole[..8]));
    let status = lab.run(["status", "shop"]);
    assert!(status.code == 5 && status.stdout.contains(&whole[..8]), "{}", status.stdout);
    lab.restored([&format!("shop@{whole}"), "--into", "out"]);
    assert!(lab.succeeds("seq 100000 | cmp - out/shop.sql.gz"));
    // Little is a warning.
    let (code, report) = shop(&lab, "seq 1000");
    assert_eq!((code, &report["anomalies"][0]["what"]), (0, &"input_size".into()), "{report:#}");
    assert_eq!(said(&report, "anomaly"), 1, "{report:#}");
    let status = lab.run(["status", "shop"]);
    assert!(status.code == 5 && status.stdout.contains("far less"), "{}", status.stdout);
    assert!(!status.stdout.contains("malware"), "{}", status.stdout);
    // What is as before is well, and then the last version is enough.
    let (code, report) = shop(&lab, "seq 90000");
    assert_eq!((code, said(&report, "anomaly")), (0, 0), "{report:#}");
    lab.run(["status", "shop"]).ok();
    lab.run(["prune", "shop", "--keep-last", "1"]).ok();
    assert!(!lab.run(["versions", "shop"]).ok().stdout.contains(&whole[..8]));
}
