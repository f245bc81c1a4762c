//! `find`: every condition against the real find(1), alone and combined, in one version and in all.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{Lab, noise};

fn lab() -> Lab {
    let lab = Lab::new();
    for (i, size) in [10, 1000, 5000, 20_000, 100_000].into_iter().enumerate() {
        lab.file(&format!("tree/mail/box{i}.pst"), noise(i as u64, size));
        lab.file(&format!("tree/other/doc{i}.odt"), noise(i as u64, size));
    }
    lab.sh("cd tree; mkdir old.pst; touch -d '20 days ago' mail/box3.pst other/doc1.odt old.pst; ln -s mail/box4.pst link.pst");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab
}

fn lines(lab: &Lab, args: &[&str]) -> Vec<Value> {
    let run = lab.run([&["find", "--json"], args].concat());
    run.ok().rows()
}

/// Paths below the tree that Capstan finds, and those that find(1) does.
fn same_as_find(lab: &Lab, args: &[&str], find: &str) -> BTreeSet<String> {
    let tree = format!("{}/", lab.path("tree").display());
    let short = |path: &str| path.strip_prefix(&tree).map(str::to_owned);
    let ours: BTreeSet<String> =
        lines(lab, args).iter().filter_map(|l| short(l["path"].as_str().unwrap())).collect();
    let theirs: BTreeSet<String> = lab
        .sh(&format!("find \"$PWD/tree/\" -mindepth 1 {find}"))
        .lines()
        .filter_map(short)
        .collect();
    assert_eq!(ours, theirs, "{args:?} and {find}");
    ours
}

#[test]
fn conditions_are_those_of_find() {
    let lab = lab();
    assert_eq!(same_as_find(&lab, &["--name", "*.pst"], "-name '*.pst'").len(), 7);
    assert_eq!(
        same_as_find(&lab, &["--name", "*.pst", "--type", "f"], "-name '*.pst' -type f").len(),
        5
    );
    same_as_find(
        &lab,
        &["--name", "*.pst", "--type", "d", "--type", "l"],
        "-name '*.pst' ! -type f",
    );
    assert_eq!(same_as_find(&lab, &["--larger", "5000"], "-type f -size +5000c").len(), 4);
    assert_eq!(same_as_find(&lab, &["--smaller", "5000"], "-type f -size -5000c").len(), 4);
    assert_eq!(
        same_as_find(&lab, &["--type", "f", "--changed-before", "7d"], "-type f -mtime +7").len(),
        2
    );
    same_as_find(&lab, &["--type", "f", "--changed-since", "7d"], "-type f -mtime -7");
    same_as_find(&lab, &["**/mail/box*", "--larger", "1K"], "-path '*/mail/box*' -size +1024c");
    let all = ["--name", "*.pst", "--larger", "15K", "--changed-since", "7d", "--type", "f"];
    let found = same_as_find(&lab, &all, "-name '*.pst' -size +15360c -mtime -7 -type f");
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["mail/box4.pst"]);
}

#[test]
fn all_versions_come_with_session_and_time() {
    let lab = lab();
    let first = lab.sh("sleep 1.1; date +%s");
    lab.sh("sleep 1.1; cd tree; truncate -s 200000 mail/box4.pst");
    let second = lab.backed_up(["tree", "--to", "medium", "--name", "t", "--incr"]);
    let args =
        ["--name", "box4.pst", "--larger", "90000", "--changed-since", "7d", "--all-versions"];
    let found = lines(&lab, &args);
    let sizes: Vec<_> = found.iter().map(|l| l["size"].as_u64().unwrap()).collect();
    assert_eq!(sizes, [200_000, 100_000]);
    assert_eq!(second["session"], found[0]["session"]);
    assert_ne!(found[0]["started"], found[1]["started"]);
    // As text, and as it was.
    let text = lab.run([&["find"], &args[..]].concat());
    let years =
        text.ok().stdout.lines().filter(|l| l.starts_with("t@") && l.contains("  20")).count();
    assert_eq!(years, 2, "{}", text.stdout);
    let then = format!("@{}", first.trim());
    let then = lab.sh(&format!("date -u -d {then} +%Y-%m-%dT%H:%M:%SZ"));
    let args = ["--name", "box4.pst", "--as-of", then.trim()];
    assert_eq!(lines(&lab, &args).len(), 1);
    assert_eq!(lines(&lab, &args)[0]["size"], 100_000);
}

#[test]
fn what_is_no_condition_is_refused() {
    let lab = Lab::new();
    lab.run(["find"]).refused(&["required"]);
    lab.run(["find", "--changed-since", "7m"]).refused(&["--changed-since", "7m", "7min or 7mo"]);
    lab.run(["find", "--larger", "big"]).refused(&["--larger", "big"]);
    lab.run(["find", "--type", "x"]).refused(&["--type"]);
    lab.run(["find", "--name", "a/b"]).refused(&["a/b", "PATTERN"]);
}
