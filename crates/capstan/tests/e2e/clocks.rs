//! Clocks that are wrong: what is newer is what was committed later, whatever they say.

use std::ffi::OsStr;
use std::fs;

use serde_json::Value;

use crate::support::{Lab, Run, below, completed, finish, report};

/// The variable that sets the clock of the program under test.
const CLOCK: &str = "CAPSTAN_TEST_CLOCK_AHEAD_S";
const YEARS: i64 = 10;

fn run_at<S: AsRef<OsStr>>(lab: &Lab, years: i64, args: impl IntoIterator<Item = S>) -> Run {
    let ahead = (years * 365 * 86_400).to_string();
    finish(lab.command().env(CLOCK, ahead).args(args))
}

/// Backs up a tree that says `content`, by a clock that is wrong by so many years.
fn backup_at(lab: &Lab, years: i64, content: &str, further: &[&str]) -> Value {
    lab.file("tree/state", content);
    let args = ["backup", "--json", "tree", "--to", "medium", "--name", "t"];
    report(run_at(lab, years, args.iter().chain(further)))
}

fn id(report: &Value) -> String {
    report["session"].as_str().unwrap().to_owned()
}

fn has_clock_error(report: &Value) -> bool {
    let errors = report["errors"].as_array().unwrap();
    errors.iter().any(|e| e["code"] == "clock-wrong")
}

/// What the newest version holds.
fn newest(lab: &Lab, args: &[&str]) -> String {
    let into = lab.path("back");
    let _ = fs::remove_dir_all(&into);
    let run = lab.run(["restore", "t", "--into", "back"].iter().chain(args));
    assert!(matches!(run.code, 0 | 3), "{}{}", run.stdout, run.stderr);
    fs::read_to_string(below(&into, &lab.path("tree/state"))).unwrap()
}

/// Prunes; the sessions that stay, newest first.
fn prune(lab: &Lab, rules: &[&str]) -> (i32, Vec<String>) {
    let run = lab.run(["prune", "--json"].iter().chain(rules));
    let json: Value = serde_json::from_str(&run.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}{}", run.stdout, run.stderr));
    let versions = json["versions"].as_array().unwrap().iter();
    let kept = versions.filter(|v| v["action"] == "keep").map(id);
    (run.code, kept.collect())
}

#[test]
fn a_backup_with_the_clock_ahead_makes_nothing_later_go() {
    let lab = Lab::new();
    completed(backup_at(&lab, 0, "1", &["--full"]));
    let ahead = id(&completed(backup_at(&lab, YEARS, "2", &["--full"])));
    let third = backup_at(&lab, 0, "3", &["--full"]);
    assert_eq!(third["status"], "completed_with_errors", "{third:#}");
    assert!(has_clock_error(&third), "{third:#}");
    // What it builds on is the last one, not the one with the latest date.
    let fourth = backup_at(&lab, 0, "4", &["--incr"]);
    assert_eq!(fourth["base_session"], third["session"], "{fourth:#}");
    assert!(has_clock_error(&fourth), "{fourth:#}");

    let status = lab.run(["status"]);
    assert_ne!(status.code, 0, "{}", status.stdout);
    assert!(status.stdout.contains("clock-wrong"), "{}", status.stdout);
    assert_eq!(newest(&lab, &[]), "4");
    let restored = lab.restore(["t", "--into", "again"]);
    assert!(has_clock_error(&restored), "{restored:#}");
    assert_eq!(newest(&lab, &["--as-of", "2099-01-01"]), "4");

    let (code, kept) = prune(&lab, &["--keep-last", "2", "--dry-run"]);
    assert_eq!((code, &kept), (3, &vec![id(&fourth), id(&third)]));
    // What is dated after now is neither counted nor removed by days.
    let (_, kept) = prune(&lab, &["--keep-daily", "1", "--dry-run"]);
    assert_eq!(kept, [id(&fourth), ahead.clone()]);
    let (_, kept) = prune(&lab, &["--keep-within", "1d", "--dry-run"]);
    assert_eq!(kept.len(), 4);
    let (code, kept) = prune(&lab, &["--keep-last", "2"]);
    assert_eq!((code, kept.len()), (3, 2));
    assert_eq!(newest(&lab, &[]), "4");
    // With it all is well again.
    let (code, _) = prune(&lab, &["--keep-last", "2"]);
    assert_eq!(code, 0);
    completed(backup_at(&lab, 0, "5", &["--full"]));
    lab.run(["status"]).ok();
}

#[test]
fn a_version_of_a_clock_set_back_is_the_newest_all_the_same() {
    let lab = Lab::new();
    completed(backup_at(&lab, 0, "1", &["--full"]));
    completed(backup_at(&lab, 0, "2", &["--full"]));
    let back = backup_at(&lab, -YEARS, "3", &["--full"]);
    assert!(has_clock_error(&back), "{back:#}");
    assert_eq!(newest(&lab, &[]), "3");
    assert!(lab.run(["status"]).stdout.contains("clock-wrong"));
    let sessions =
        lab.run(["sessions", "--kind", "all", "--json", "--limit", "9"]).ok().json_lines();
    let at = |id: &str| sessions.find(id).unwrap_or(usize::MAX);
    let (_, kept) = prune(&lab, &["--keep-last", "1", "--dry-run"]);
    assert_eq!(kept, [id(&back)]);
    let (_, kept) = prune(&lab, &["--keep-daily", "1", "--dry-run"]);
    assert_eq!(kept, [id(&back)]);
    let next = completed(backup_at(&lab, 0, "4", &["--incr"]));
    assert_eq!(next["base_session"], back["session"]);
    assert!(at(&id(&back)) < usize::MAX, "{sessions}");
    lab.run(["status"]).ok();
    // By time, the version whose clock was wrong is none of then.
    assert_eq!(newest(&lab, &["--as-of", "2099-01-01"]), "4");
}

#[test]
fn the_order_of_commits_comes_back_from_the_media() {
    let lab = Lab::new();
    completed(backup_at(&lab, 0, "1", &["--full"]));
    backup_at(&lab, YEARS, "2", &["--full"]);
    backup_at(&lab, -YEARS, "3", &["--full"]);
    let fourth = backup_at(&lab, 0, "4", &["--full"]);
    let fifth = backup_at(&lab, -YEARS, "5", &["--incr"]);
    assert_eq!(fifth["base_session"], fourth["session"], "{fifth:#}");
    lab.lose_tables();
    lab.sh("rm -r home/catalogs");
    lab.run(["import", "medium"]).ok();
    assert_eq!(newest(&lab, &[]), "5");
    // The medium is of the cell whose database was lost.
    lab.run(["media", "adopt", "medium"]).ok();
    let (_, kept) = prune(&lab, &["--keep-last", "2", "--dry-run"]);
    assert_eq!(kept, [id(&fifth), id(&fourth)]);
}
