//! What was given up is shown as that and alarms nobody; a database with damaged pages does.

use std::fs;

use serde_json::Value;

use crate::support::{Lab, noise, skip};

fn backup(lab: &Lab, n: u8, medium: &str, level: &str) -> String {
    lab.file("tree/state", [n; 100]);
    lab.file(&format!("tree/file-{n}"), noise(u64::from(n), 200_000));
    let report = lab.backed_up(["tree", "--to", medium, "--name", "t", level]);
    report["session"].as_str().unwrap().to_owned()
}

fn sessions(lab: &Lab) -> Vec<Value> {
    let listed = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
    match serde_json::from_str::<Value>(&listed) {
        Ok(Value::Array(all)) => all,
        _ => listed.lines().map(|line| serde_json::from_str(line).unwrap()).collect(),
    }
}

#[test]
fn a_synthetic_full_that_is_gone_is_listed_as_removed() {
    let lab = Lab::new();
    backup(&lab, 0, "medium", "--full");
    backup(&lab, 1, "medium", "--incr");
    lab.run(["consolidate", "t", "--to", "medium"]).ok();
    let of = |sessions: &[Value]| sessions.iter().find(|s| s["kind"] == "consolidate").cloned();
    let there = of(&sessions(&lab)).unwrap();
    assert_eq!(there["removed"], false, "{there:#}");
    backup(&lab, 2, "medium", "--full");
    lab.run(["prune", "--keep-last", "1"]).ok();
    let gone = of(&sessions(&lab)).unwrap();
    assert_eq!(gone["removed"], true, "{gone:#}");
    let listed = lab.run(["sessions"]).ok().stdout.clone();
    let line = listed.lines().find(|line| line.contains("consolidate")).unwrap();
    assert!(line.contains("removed"), "{line}");
    lab.run(["idb", "check"]).ok();
}

#[test]
fn an_expired_version_whose_base_went_is_no_finding() {
    let lab = Lab::new();
    backup(&lab, 0, "first", "--full");
    let incremental = backup(&lab, 1, "second", "--incr");
    lab.run(["media", "export", "second", "--to", "away"]).ok();
    fs::rename(lab.path("second"), lab.path("away")).unwrap();
    backup(&lab, 2, "first", "--full");
    lab.run(["prune", "--keep-last", "1"]).ok();
    let left = sessions(&lab).into_iter().find(|s| s["id"] == incremental.as_str()).unwrap();
    assert_eq!(left["removed"], false, "its medium is away: {left:#}");
    lab.run(["idb", "check"]).ok();
}

#[test]
fn damaged_pages_are_said_by_the_next_backup_and_prune() {
    if crate::server::is_wanted() {
        return skip("pages are those of the file");
    }
    let lab = Lab::new();
    lab.run(["idb", "recovery-key"]).ok();
    backup(&lab, 0, "medium", "--full");
    let saved = || lab.sh("cd medium; find . -name '*idb*' -type f | sort | xargs sha256sum");
    let before = saved();
    assert!(!before.is_empty());
    // A page that neither a backup nor a prune reads.
    lab.sh(
        "python3 -c 'import sqlite3; c = sqlite3.connect(\"home/capstan.db\"); \
         c.execute(\"PRAGMA wal_checkpoint(TRUNCATE)\"); \
         page = c.execute(\"SELECT rootpage FROM sqlite_master WHERE name = \\\"robot_leases\\\"\").fetchone()[0]; \
         size = c.execute(\"PRAGMA page_size\").fetchone()[0]; c.close(); \
         f = open(\"home/capstan.db\", \"r+b\"); f.seek((page - 1) * size); f.write(b\"\\x55\" * 64)'",
    );
    lab.file("tree/state", "new");
    let report = lab.backup(["tree", "--to", "medium", "--name", "t", "--full"]);
    assert_eq!(report["status"], "completed_with_errors", "{report:#}");
    let damaged = |e: &Value| e["code"] == "idb-damaged";
    assert!(report["errors"].as_array().unwrap().iter().any(damaged), "{report:#}");
    assert_eq!(saved(), before, "a damaged copy took the place of a whole one");
    for refused in [
        vec!["prune", "--keep-last", "1"],
        vec!["stage", "medium", "--to", "other"],
        vec!["media", "retire", "medium", "--to", "other"],
    ] {
        lab.run(&refused).refused(&["is damaged", "idb recover"]);
    }
    let dry = lab.run(["prune", "--keep-last", "1", "--dry-run"]);
    assert!(dry.stderr.contains("idb-damaged"), "{}", dry.stderr);
    let status = lab.run(["status"]);
    assert!(status.code == 6 && status.stdout.contains("is damaged"), "{}", status.stdout);
}

/// A page of an index that is as it was before the last backup hides a segment, so that a restore seems whole.
#[test]
fn an_index_that_is_older_than_its_table_is_found() {
    if crate::server::is_wanted() {
        return skip("pages are those of the file");
    }
    let lab = Lab::new();
    lab.file("tree/a", "one");
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--full"]);
    let pages = "python3 -c 'import sqlite3, sys; c = sqlite3.connect(\"home/capstan.db\"); \
         c.execute(\"PRAGMA wal_checkpoint(TRUNCATE)\"); size = c.execute(\"PRAGMA page_size\").fetchone()[0]; \
         page = c.execute(\"SELECT rootpage FROM sqlite_master WHERE name = \\\"stream_parts_by_version\\\"\").fetchone()[0]; \
         c.close(); f = open(\"home/capstan.db\", \"r+b\"); f.seek((page - 1) * size)\n";
    lab.sh(&format!("{pages}open(\"page\", \"wb\").write(f.read(size))'"));
    lab.file("tree/b", "two");
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--incr"]);
    lab.sh(&format!("{pages}f.write(open(\"page\", \"rb\").read())'"));
    for said in [
        vec!["restore", "t", "--into", "out"],
        vec!["verify", "t"],
        vec!["copy", "t", "--to", "other"],
    ] {
        let run = lab.run(&said);
        assert_eq!(run.code, 3, "{said:?}: {}{}", run.stdout, run.stderr);
        assert!(run.stderr.contains("idb-damaged"), "{said:?}: {}", run.stderr);
    }
    lab.run(["consolidate", "t", "--to", "third"]).refused(&["is damaged"]);
    lab.run(["prune", "--keep-last", "1"]).refused(&["is damaged"]);
    assert_eq!(lab.run(["status"]).code, 6);
}
