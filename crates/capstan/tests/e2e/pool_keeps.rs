//! What a pool gives up by itself where it needs a medium: nothing that a prune without rules would keep.

use std::fs;

use crate::support::{Lab, Run, below, noise};

/// A pool with one medium, `m1`, on which there is the only version of `t`, which nobody protects.
fn lab(pool: &str) -> (Lab, String) {
    let lab = Lab::new();
    run(&lab, &format!("pool create p {pool}")).ok();
    run(&lab, "media init m1 --pool p").ok();
    let (first, medium) = backup(&lab, 1);
    assert_eq!(medium, "m1");
    (lab, first)
}

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

const TO_POOL: [&str; 8] = ["tree", "--to", "pool:p", "--name", "t", "--full", "--protect", "none"];

/// Backs up what is called so, and the medium that took it.
fn backup(lab: &Lab, n: u64) -> (String, String) {
    lab.file("tree/a", noise(n, 100_000));
    let report = lab.backed_up(TO_POOL);
    let session = &report["session"].as_str().unwrap()[..8];
    (format!("t@{session}"), report["media"][0].as_str().unwrap().to_owned())
}

/// A version comes back as it was.
fn comes_back(lab: &Lab, version: &str, n: u64) {
    lab.restored([version, "--into", "out"]);
    let out = below(&lab.path("out"), &lab.path("tree"));
    assert_eq!(fs::read(out.join("a")).unwrap(), noise(n, 100_000));
    fs::remove_dir_all(lab.path("out")).unwrap();
}

#[test]
fn a_medium_with_the_last_version_is_appended_to_rather_than_recycled() {
    let (lab, first) = lab("");
    let (second, medium) = backup(&lab, 2);
    assert_eq!(medium, "m1");
    comes_back(&lab, &first, 1);
    comes_back(&lab, &second, 2);
}

#[test]
fn a_pool_takes_another_medium_or_says_which_one_to_give_up() {
    let (lab, first) = lab("--not-appendable");
    lab.file("tree/a", noise(2, 100_000));
    let refused = lab.run([&["backup"], &TO_POOL[..]].concat());
    refused.refused(&["m1 holds t@", "last complete version", "capstan media recycle m1"]);
    comes_back(&lab, &first, 1);
    run(&lab, "media init m2 --pool p").ok();
    let (second, medium) = backup(&lab, 2);
    assert_eq!(medium, "m2");
    // What is the last one no more is given up, and the last one stays.
    let (third, medium) = backup(&lab, 3);
    assert_eq!(medium, "m1");
    comes_back(&lab, &second, 2);
    comes_back(&lab, &third, 3);
    // Who says so means it.
    run(&lab, "media recycle m1").refused(&["t@", "last complete version", "--give-up"]);
    run(&lab, "media recycle m1 --give-up").ok();
}

#[test]
fn what_no_prune_would_remove_is_given_up_by_no_hand_that_does_not_say_so() {
    let (lab, first) = lab("");
    let (second, _) = backup(&lab, 2);
    // The first one may go, the second one is the last.
    for line in ["media recycle m1", "media erase m1", "media erase m1 --secure"] {
        let refused = run(&lab, line);
        refused.refused(&[&second, "last complete version", "back up", "--give-up"]);
        assert!(!refused.stderr.contains(&first), "{}", refused.stderr);
    }
    let listed = run(&lab, "media list").ok().stdout.clone();
    assert!(!listed.contains("expired"), "{listed}");
    let shown = run(&lab, "media show m1").ok().stdout.clone();
    assert!(shown.contains(&second) && shown.contains("last complete version"), "{shown}");
    comes_back(&lab, &second, 2);
    // What is whole elsewhere is not lost with it.
    run(&lab, "copy t --to n").ok();
    assert!(run(&lab, "media list").ok().stdout.contains("expired"));
    run(&lab, "media recycle m1").ok();
    comes_back(&lab, "t", 2);
    run(&lab, "media recycle n").refused(&["last complete version"]);
    run(&lab, "media erase n --give-up").ok();
    assert!(!run(&lab, "versions t").stdout.contains("t@"));
}

#[test]
fn a_pool_recycles_a_medium_of_which_a_copy_is_elsewhere() {
    let (lab, first) = lab("--not-appendable");
    run(&lab, "copy t --to n").ok();
    let (second, medium) = backup(&lab, 2);
    assert_eq!(medium, "m1");
    comes_back(&lab, &first, 1);
    comes_back(&lab, &second, 2);
}

#[test]
fn the_last_version_on_a_medium_that_is_retired_goes_with_it_elsewhere() {
    let (lab, first) = lab("");
    run(&lab, "media retire m1 --to n").ok();
    fs::rename(lab.path("m1"), lab.path("gone")).unwrap();
    comes_back(&lab, &first, 1);
}

#[test]
fn a_backup_of_nothing_gives_nothing_up() {
    let (lab, _) = lab("--not-appendable");
    run(&lab, "media init m2 --pool p").ok();
    backup(&lab, 2);
    // What is on m1 is not the last one any more: a pool that needs a medium may take it.
    let before = fs::read_dir(lab.path("m1")).unwrap().count();
    run(&lab, "backup nosuch --to pool:p --name u").refused(&["nosuch"]);
    assert_eq!(fs::read_dir(lab.path("m1")).unwrap().count(), before);
    let listed = run(&lab, "media list").ok().stdout.clone();
    assert!(listed.lines().any(|l| l.starts_with("m1") && l.contains("expired")), "{listed}");
}
