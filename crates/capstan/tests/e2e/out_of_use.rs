//! Media that were retired or exported: what lies there counts as long as it is to be had.

use serde_json::Value;

use crate::gone_media::{full, restores, status, why};
use crate::known_damage::damage;
use crate::support::{Lab, noise, report};

const CRITICAL: i32 = 6;

fn lab() -> Lab {
    let lab = Lab::new();
    lab.file("tree/a", noise(1, 200_000));
    lab
}

fn run(lab: &Lab, line: &str) -> crate::support::Run {
    lab.run(line.split_whitespace())
}

/// What a prune says: its code, and of each version, newest first, what becomes of it and why.
fn prune(lab: &Lab, keep: &str) -> (i32, Vec<(String, String)>) {
    let run = lab.run(["prune", "t", "--keep-last", keep, "--json"]);
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    let of = |v: &Value| (v["action"].as_str().unwrap().to_owned(), v["why"].to_string());
    (run.code, json["versions"].as_array().unwrap().iter().map(of).collect())
}

fn actions(of: &[(String, String)]) -> Vec<&str> {
    of.iter().map(|(action, _)| action.as_str()).collect()
}

#[test]
fn what_lies_on_a_retired_medium_that_is_gone_pushes_no_whole_version_out() {
    for (before, after, says) in [
        ("mv b away", "", "retired and not at hand"),
        ("rm -r b; mkdir b", "", "retired and not at hand"),
        ("", "mv b away", "retired and not at hand"),
        ("", "mkdir away; mv b/*.segment away", "retired and lacks some of it"),
        ("", "truncate -s -4096 b/*.segment", "retired and lacks some of it"),
    ] {
        let lab = lab();
        let first = full(&lab, "a", "t");
        let last = full(&lab, "b", "t");
        lab.sh(before);
        let retired = report(run(&lab, "media retire b --no-copy --json"));
        // Who retires what is destroyed is told what goes with it.
        let said = retired["errors"].to_string();
        assert_eq!(said.contains(&last), !before.is_empty(), "{retired:#}");
        assert_eq!(said.contains("lost-data"), !before.is_empty(), "{retired:#}");
        assert!(!said.contains(&first), "{retired:#}");
        if before.is_empty() {
            // It is there, and can be read.
            assert_eq!(status(&lab).0, 0);
            restores(&lab, "t");
        }
        lab.sh(after);
        for _ in 0..2 {
            let (code, json) = status(&lab);
            assert_eq!(code, CRITICAL, "{before}{after}: {json:#}");
            let why = why(&json);
            assert!(why.contains(&last) && why.contains("'b'") && why.contains(says), "{why}");
            let (code, versions) = prune(&lab, "1");
            assert_eq!((code, actions(&versions)), (0, vec!["keep", "keep"]), "{versions:?}");
            assert!(versions[0].1.contains(says), "{versions:?}");
        }
        restores(&lab, &first);
        // A later one that is to be had lets the rules go on.
        let done = lab.backed_up(["tree", "--to", "a", "--name", "t", "--incr"]);
        assert_eq!(done["method"], "full", "{done:#}");
        assert_eq!(status(&lab).0, 0);
        // What nobody may rely on goes no sooner than if it were there.
        let (_, versions) = prune(&lab, "2");
        assert_eq!(actions(&versions), ["keep", "keep", "keep"], "{versions:?}");
        let (_, versions) = prune(&lab, "1");
        assert_eq!(actions(&versions), ["keep", "remove", "remove"], "{versions:?}");
        restores(&lab, "t");
    }
}

#[test]
fn a_retired_medium_that_is_back_counts_again() {
    let lab = lab();
    full(&lab, "a", "t");
    full(&lab, "b", "t");
    run(&lab, "media retire b --no-copy").ok();
    lab.sh("mv b away");
    assert_eq!(status(&lab).0, CRITICAL);
    lab.sh("mv away b");
    assert_eq!(status(&lab).0, 0);
    assert_eq!(actions(&prune(&lab, "1").1), ["keep", "remove"]);
    restores(&lab, "t");
}

#[test]
fn what_is_damaged_is_not_made_up_for_by_a_retired_medium_that_is_gone() {
    let lab = lab();
    let first = full(&lab, "c", "t");
    let last = full(&lab, "a", "t");
    run(&lab, "copy t --to b").ok();
    damage(&lab.path("a"));
    assert_eq!(run(&lab, "verify --medium a").code, 3);
    run(&lab, "media retire b --no-copy").ok();
    assert_eq!(status(&lab).0, 5, "the copy can be read");
    restores(&lab, "t");
    lab.sh("rm b/*.segment");
    let (code, json) = status(&lab);
    assert!(code == CRITICAL && why(&json).contains(&last), "{json:#}");
    let (code, versions) = prune(&lab, "1");
    assert_eq!((code, actions(&versions)), (3, vec!["keep", "keep"]), "{versions:?}");
    restores(&lab, &first);
    // The medium that has the last whole one does not go without it, either.
    run(&lab, "media retire c --to d").ok();
    lab.sh("rm -r c");
    restores(&lab, &first);
}

#[test]
fn status_is_critical_where_the_only_other_place_is_known_to_be_damaged() {
    for (change, undo) in [("mv a away", "mv away a"), ("mkdir away; mv a/*.segment away", "")] {
        let lab = lab();
        full(&lab, "a", "t");
        run(&lab, "copy t --to b").ok();
        lab.sh(change);
        assert_eq!(status(&lab).0, 5, "the copy is whole");
        damage(&lab.path("b"));
        assert_eq!(run(&lab, "verify --medium b").code, 3);
        let (code, json) = status(&lab);
        assert_eq!(code, CRITICAL, "{change}: {json:#}");
        assert!(why(&json).contains("its last version needs it"), "{json:#}");
        if undo.is_empty() {
            continue;
        }
        lab.sh(undo);
        assert_eq!(status(&lab).0, 5);
        restores(&lab, "t");
        // The same where the only other place is on a retired medium that is gone.
        run(&lab, "media retire b --no-copy").ok();
        lab.sh("rm -r b; mv a away");
        assert_eq!(status(&lab).0, CRITICAL);
    }
}

#[test]
fn an_exported_medium_that_is_mounted_again_stays_as_it_is_until_it_is_imported() {
    let lab = lab();
    let first: Vec<String> = (0..3).map(|_| full(&lab, "a", "t")).collect();
    run(&lab, "media export a --to bank").ok();
    lab.sh("mv a away");
    for _ in 0..2 {
        full(&lab, "b", "t");
    }
    let (_, versions) = prune(&lab, "1");
    assert_eq!(actions(&versions), ["keep", "remove", "remove", "remove", "remove"]);
    lab.sh("mv away a");
    let there = lab.sh("ls a");
    for line in ["prune --keep-last 1 --dry-run", "prune --keep-last 1", "prune"] {
        let said = run(&lab, line).ok().stdout.clone();
        assert!(said.contains("capstan media import"), "{line}: {said}");
        assert_eq!(lab.sh("ls a"), there, "{line}");
    }
    // The import is the first that decides: what was given up is there again.
    run(&lab, "media import a").ok();
    for version in &first {
        restores(&lab, version);
    }
    let (code, versions) = prune(&lab, "1");
    assert_eq!((code, versions.len()), (0, 4), "{versions:?}");
    assert!(lab.sh("ls a") != there);
}

#[test]
fn an_exported_medium_that_is_there_and_lacks_something_takes_no_place() {
    let lab = lab();
    let first = full(&lab, "a", "t");
    full(&lab, "b", "t");
    run(&lab, "media export b").ok();
    assert_eq!(status(&lab).0, 0);
    lab.sh("mv b away");
    assert_eq!(status(&lab).0, 0, "it is away on purpose");
    lab.sh("mv away b; rm b/*.segment");
    assert_eq!(status(&lab).0, CRITICAL);
    assert_eq!(actions(&prune(&lab, "1").1), ["keep", "keep"]);
    restores(&lab, &first);
}

#[test]
fn a_pool_gives_nothing_up_for_a_copy_that_is_not_to_be_had() {
    for (lose, back) in [("rm -r n", false), ("mv n away", true)] {
        let lab = lab();
        run(&lab, "pool create p --not-appendable").ok();
        run(&lab, "media init m1 --pool p").ok();
        let to_pool =
            ["backup", "tree", "--to", "pool:p", "--name", "t", "--full", "--protect", "none"];
        lab.run(to_pool).ok();
        run(&lab, "copy t --to n").ok();
        if !back {
            run(&lab, "media retire n --no-copy").ok();
        }
        lab.sh(lose);
        lab.run(to_pool).refused(&["m1 holds t@", "capstan media recycle m1"]);
        restores(&lab, "t");
        if back {
            lab.sh("mv away n");
            lab.run(to_pool).ok();
        }
    }
}
