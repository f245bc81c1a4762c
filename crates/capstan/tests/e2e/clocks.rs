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
    let way = format!("`capstan protect t@{} --none` and `capstan prune t` remove", &ahead[..8]);
    assert!(status.stdout.contains(&way), "{}", status.stdout);
    assert!(fourth["errors"].to_string().contains(&way), "{fourth:#}");
    assert_eq!(newest(&lab, &[]), "4");
    // No date decides what is restored, unless one is given.
    completed(lab.restore(["t", "--into", "again"]));
    let run = lab.run(["restore", "t", "--into", "again2"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(run.stderr.matches("clock-doubtful").count(), 1, "{}", run.stderr);
    let restored =
        report(lab.run(["restore", "t", "--as-of", "2099-01-01", "--into", "again3", "--json"]));
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
    let right = completed(backup_at(&lab, 0, "2", &["--full"]));
    let back = backup_at(&lab, -YEARS, "3", &["--full"]);
    assert!(has_clock_error(&back), "{back:#}");
    assert_eq!(newest(&lab, &[]), "3");
    assert!(lab.run(["status"]).stdout.contains("clock-wrong"));
    let sessions =
        lab.run(["sessions", "--kind", "all", "--json", "--limit", "9"]).ok().json_lines();
    let at = |id: &str| sessions.find(id).unwrap_or(usize::MAX);
    let (_, kept) = prune(&lab, &["--keep-last", "1", "--dry-run"]);
    assert_eq!(kept, [id(&back)]);
    // By days it counts for none: the last one whose clock was right stays, too.
    let (_, kept) = prune(&lab, &["--keep-daily", "1", "--dry-run"]);
    assert_eq!(kept, [id(&back), id(&right)]);
    let next = completed(backup_at(&lab, 0, "4", &["--incr"]));
    assert_eq!(next["base_session"], back["session"]);
    assert!(at(&id(&back)) < usize::MAX, "{sessions}");
    lab.run(["status"]).ok();
    // By time, the version whose clock was wrong is none of then.
    assert_eq!(newest(&lab, &["--as-of", "2099-01-01"]), "4");
}

/// A machine whose clock leaps ahead, and nobody sees it: its night comes, with a backup and keep rules by time.
#[test]
fn a_clock_that_leaps_ahead_lets_nothing_expire() {
    let lab = Lab::new();
    let mut all = Vec::new();
    // The first is of a week ago, and so on.
    for day in [7, 5, 3, 1] {
        let at = (-day * 86_400).to_string();
        lab.file("tree/state", at.as_str());
        let backup = ["backup", "--json", "tree", "--to", "medium", "--name", "t", "--full"];
        let further: &[&str] = if day == 5 { &["--protect", "30d"] } else { &[] };
        let run = finish(lab.command().env(CLOCK, at).args(backup).args(further));
        all.insert(0, id(&completed(report(run))));
    }
    let locked = format!("t@{}", &all[0][..8]);
    lab.run(["lock", &locked, "--until", "10d"]).ok();
    let ahead = |args: &[&str], days: i64| {
        let at = (days * 86_400).to_string();
        finish(lab.command().env(CLOCK, at).args(args))
    };
    let kept = |run: &Run| {
        let json: Value = serde_json::from_str(&run.stdout).expect(&run.stderr);
        let versions = json["versions"].as_array().unwrap().iter();
        versions.filter(|v| v["action"] == "keep").map(id).collect::<Vec<_>>()
    };
    // By the right clock: the last two, and the one that is protected.
    let within = ["prune", "--json", "--keep-within", "3d", "--dry-run"];
    assert_eq!(kept(&lab.run(within)), all[..3]);
    // 400 days on: the same, and it is said.
    let run = ahead(&within, 400);
    assert_eq!((kept(&run), run.code), (all[..3].to_vec(), 3), "{}", run.stderr);
    for word in ["warning", "clock-leapt", "prune --clock-is-right"] {
        assert!(run.stderr.contains(word), "'{word}' is not in: {}", run.stderr);
    }
    // Nor after a backup by that clock, which is neither counted nor goes.
    let backup = ["backup", "--json", "tree", "--to", "medium", "--name", "t", "--full"];
    let leapt = id(&completed(report(ahead(&backup, 400))));
    let expected: Vec<String> = [&leapt].into_iter().chain(&all[..3]).cloned().collect();
    let run = ahead(&within, 400);
    assert_eq!((kept(&run), run.code), (expected.clone(), 3), "{}", run.stderr);
    let status = ahead(&["status"], 400);
    assert!(status.stdout.contains("clock-leapt"), "{}", status.stdout);
    // What rules by number do is no matter of time; what a date holds stays.
    let last = ["prune", "--json", "--keep-last", "1", "--dry-run"];
    let by_number = [&leapt, &all[0], &all[2]].map(String::clone);
    assert_eq!(kept(&ahead(&last, 400)), by_number);
    // Who set the clock right has the version dated after now.
    let run = lab.run(within);
    assert_eq!((kept(&run), run.code), (expected, 3), "{}", run.stderr);
    assert!(!run.stderr.contains("clock-leapt"), "{}", run.stderr);
    // Who was away for a year says so, or backs up for a week: then it is right.
    ahead(&["prune", "--clock-is-right"], 400).ok();
    let run = ahead(&within, 400);
    assert_eq!((kept(&run), run.code), (vec![leapt.clone()], 0), "{}", run.stderr);
    ahead(&["status"], 400).ok();
}

/// A clock leaps, is set right, and leaps again: the first leap does not prove the second, nor the second the first.
#[test]
fn a_second_leap_of_the_clock_lets_nothing_go() {
    // Set right in between or not; the second leap may be short.
    for (right, second) in [(6, 463), (6, 120), (0, 463), (0, 385)] {
        let lab = Lab::new();
        let at = |days: i64, args: &[&str]| {
            let ahead = (days * 86_400).to_string();
            finish(lab.command().env(CLOCK, ahead).args(args))
        };
        let within = ["prune", "--json", "--keep-within", "30d"];
        let daily = ["prune", "--json", "--keep-daily", "9"];
        let removed = |run: &Run| {
            let json: Value = serde_json::from_str(&run.stdout).expect(&run.stderr);
            json["removed_versions"].as_u64().unwrap_or_else(|| panic!("{json:#}"))
        };
        let nights = [1, 2, 365].into_iter().chain(3..3 + right).chain([second]);
        for (n, day) in nights.clone().enumerate() {
            lab.file("tree/state", n.to_string());
            at(day, &["backup", "--json", "tree", "--to", "medium", "--name", "t", "--full"]);
            let run = at(day, &within);
            assert_eq!(removed(&run), 0, "{right}, {second}, {day}: {}", run.stdout);
        }
        let run = at(second, &within);
        assert!(run.stderr.contains("clock-leapt"), "{right}, {second}: {}", run.stderr);
        assert_eq!(removed(&at(second, &daily)), 0, "{right}, {second}");
        // What is dated ahead takes no place once the clock is right, and goes by the clock that is confirmed.
        assert_eq!(removed(&at(3 + right, &daily)), 0, "{right}, {second}");
        at(second, &["prune", "--clock-is-right"]).ok();
        let run = at(second, &within);
        assert!(removed(&run) > 0, "{right}, {second}: {}", run.stdout);
        assert!(!run.stderr.contains("clock-leapt"), "{right}, {second}: {}", run.stderr);
    }
}

/// What a date holds is held on media, too, until a clock that leapt proved right.
#[test]
fn a_clock_that_leaps_ahead_ends_no_lock_on_a_medium() {
    let lab = Lab::new();
    let at = |days: i64, args: &[&str]| {
        finish(lab.command().env(CLOCK, (days * 86_400).to_string()).args(args))
    };
    let mut last = String::new();
    for day in [-3, -2, -1] {
        lab.file("tree/state", day.to_string());
        let backup = ["backup", "--json", "tree", "--to", "medium", "--name", "t", "--full"];
        last = id(&completed(report(at(day, &backup))));
        lab.run(["protect", &format!("t@{}", &last[..8]), "--none"]).ok();
    }
    lab.run(["lock", &format!("t@{}", &last[..8]), "--until", "10d"]).ok();
    let erase = ["media", "erase", "medium", "--give-up"];
    at(0, &erase).refused(&["what must stay"]);
    at(400, &erase).refused(&["what must stay"]);
    at(400, &["prune", "--clock-is-right"]).ok();
    at(400, &erase).ok();
}

#[test]
fn a_leap_that_a_week_of_backups_followed_was_none() {
    let lab = Lab::new();
    let run_at = |days: i64, args: &[&str]| {
        let at = (days * 86_400).to_string();
        lab.file("tree/state", at.as_str());
        finish(lab.command().env(CLOCK, at).args(args))
    };
    let backup = ["backup", "--json", "tree", "--to", "medium", "--name", "t", "--full"];
    let prune = ["prune", "--keep-within", "3d", "--keep-tag", "first"];
    completed(report(run_at(-400, &[&backup[..], &["--tag", "first"]].concat())));
    completed(report(run_at(-399, &backup)));
    for day in [-7, -6, -5] {
        completed(report(run_at(day, &backup)));
        let run = run_at(day, &prune);
        assert_eq!(run.code, 3, "{}", run.stdout);
        assert!(run.stdout.contains("0 versions removed"), "{}", run.stdout);
    }
    completed(report(run_at(0, &backup)));
    let run = run_at(0, &prune);
    assert!(run.ok().stdout.contains("4 versions removed"), "{}", run.stdout);
    // What was removed was there: between what rules keep of a long time nothing is doubted.
    run_at(0, &prune).ok();
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

/// Many versions of a clock that was ahead, of several objects.
#[test]
fn a_wrong_clock_takes_one_line_for_each_object_of_a_run() {
    let lab = Lab::new();
    let [tree, medium] = ["tree", "medium"].map(|name| lab.path(name).display().to_string());
    let object = |name: &str| format!("[[object]]\nname = \"{name}\"\npaths = [\"{tree}\"]\n");
    lab.file(
        "spec.toml",
        format!("device = \"{medium}\"\n{}{}[keep]\ndaily = 3\n", object("a"), object("b")),
    );
    for day in 1..6 {
        lab.file("tree/state", format!("{day}"));
        let ahead = (day * 86_400).to_string();
        finish(lab.command().env(CLOCK, ahead).args(["run", "spec.toml"]));
    }
    let said = |run: &Run| run.stderr.matches("clock-wrong:").count();
    let run = lab.run(["run", "spec.toml", "--quiet"]);
    assert_eq!((run.code, said(&run)), (3, 2), "{}", run.stderr);
    assert!(run.stderr.contains("versions were begun after now"), "{}", run.stderr);
    let run = lab.run(["prune", "--keep-daily", "3", "--quiet"]);
    assert_eq!((run.code, said(&run)), (3, 2), "{}", run.stderr);
    let run = lab.run(["prune", "a", "--keep-daily", "3", "--json"]);
    let pruned: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(pruned["wrong_clocks"].as_array().map(Vec::len), Some(1), "{pruned:#}");
    let status = lab.run(["status"]).stdout;
    assert_eq!(status.matches("clock-wrong").count(), 2, "{status}");
    lab.run(["restore", "a", "--into", "out"]).ok();
}
