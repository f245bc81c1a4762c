//! What a backup would do, path by path: a dry run's list and counts against the backup that follows.

use serde_json::Value;

use crate::support::{Lab, Run};

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

fn lab() -> Lab {
    let lab = Lab::new();
    for name in [
        "keep",
        "change",
        "touch",
        "gone",
        "large",
        "a.o",
        "dir/b.o",
        "cache/x/y",
        "out/z/zz",
        "busy",
    ] {
        lab.file(&format!("tree/{name}"), name);
    }
    lab.file("tree/large", vec![b'x'; 100_000]);
    lab.file("tree/cache/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n");
    lab.file("tree/tagged/.nobackup", "");
    lab.file("tree/tagged/deep/t", "t");
    lab.sh("cd tree; ln keep second; ln -s keep link; mkfifo fifo; truncate -s 1000000 holes; echo end >>holes; touch -d '1 hour ago' *");
    lab
}

/// The states of paths below the tree, by a dry run.
fn states(lab: &Lab, options: &str) -> (Vec<(String, String, String)>, Value) {
    let done = run(lab, &format!("backup tree --to m --name t --dry-run --list --json {options}"));
    let json: Value = serde_json::from_str(&done.ok().stdout).unwrap();
    let tree = lab.path("tree").display().to_string();
    let below = |path: &str| path.strip_prefix(&tree).map(|p| p.trim_start_matches('/').to_owned());
    let rows = json["files"].as_array().unwrap().iter().filter_map(|row| {
        let rule = row["rule"].as_str().unwrap_or_default().to_owned();
        Some((below(row["path"].as_str()?)?, row["state"].as_str()?.to_owned(), rule))
    });
    (rows.collect(), json["report"].clone())
}

/// A dry run says of all that is counted what the backup that follows counts.
#[track_caller]
fn same_counts(lab: &Lab, options: &str) -> Vec<(String, String, String)> {
    let (rows, foreseen) = states(lab, options);
    let plain = run(lab, &format!("backup tree --to m --name t --dry-run --json {options}"));
    let plain: Value = serde_json::from_str(&plain.ok().stdout).unwrap();
    let args = format!("tree --to m --name t {options}");
    let real = lab.backed_up(args.split_whitespace());
    for field in ["files", "dirs", "skipped", "kept", "bytes_read", "in_use", "status"] {
        assert_eq!(foreseen[field], real[field], "{field} with {options}");
        assert_eq!(plain[field], real[field], "{field} with {options}, without a list");
    }
    assert_eq!(foreseen["base_session"], real["base_session"], "{options}");
    let stored = rows.iter().filter(|r| !matches!(r.1.as_str(), "left out" | "removed" | "failed"));
    let tops = lab.path("tree").components().count() - 2;
    let all = (real["files"].as_u64().unwrap() + real["dirs"].as_u64().unwrap()) as usize;
    assert_eq!(stored.count() + tops, all, "{options}: {rows:?}");
    rows
}

#[track_caller]
fn is(rows: &[(String, String, String)], path: &str, state: &str) {
    let found: Vec<_> = rows.iter().filter(|r| r.0 == path).map(|r| r.1.as_str()).collect();
    assert!(found.contains(&state), "{path}: {found:?}, not {state}");
}

#[test]
fn a_list_has_what_becomes_of_each_path() {
    let lab = lab();
    let rows = same_counts(&lab, "");
    assert!(rows.iter().all(|r| r.1 == "new"), "{rows:?}");
    let rows = same_counts(&lab, "");
    assert!(rows.iter().all(|r| r.1 == "unchanged"), "{rows:?}");
    lab.sh("cd tree; echo more >>change; chmod 600 touch; rm gone; echo n >dir/fresh; mkdir added");
    let rows = same_counts(&lab, "");
    for (path, state) in [
        ("keep", "unchanged"),
        ("change", "changed"),
        ("touch", "metadata"),
        ("gone", "removed"),
        ("dir/fresh", "new"),
        ("added", "new"),
        ("dir/b.o", "unchanged"),
        ("second", "unchanged"),
    ] {
        is(&rows, path, state);
    }
    let rows = same_counts(&lab, "--full");
    assert!(rows.iter().all(|r| r.1 == "new"), "{rows:?}");
}

#[test]
fn what_is_left_out_has_its_rule() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    lab.file("list", "# objects\n*.o\n");
    let rows = same_counts(
        &lab,
        "--exclude-from list --exclude out --exclude-caches --exclude-if-present .nobackup --files-of-size ..50000",
    );
    let rule =
        |path: &str| rows.iter().find(|r| r.0 == path && r.1 == "left out").map_or("", |r| &r.2);
    assert_eq!(rule("a.o"), "--exclude-from '*.o' (list:2)");
    assert_eq!(rule("out"), "--exclude 'out'");
    assert_eq!(rule("cache"), "--exclude-caches");
    assert_eq!(rule("tagged"), "--exclude-if-present .nobackup");
    assert_eq!(rule("large"), "--files-of-size");
    // A directory that is left out is there once, with nothing of what is below it, though the last version has that.
    for (dir, lines) in [("out", 1), ("cache", 3), ("tagged", 3)] {
        let within = rows.iter().filter(|r| r.0 == dir || r.0.starts_with(&format!("{dir}/")));
        let within: Vec<_> = within.collect();
        assert_eq!(within.len(), lines, "{within:?}");
    }
    let text = run(&lab, "backup tree --to m --name t --dry-run --list --exclude out");
    assert!(
        text.ok()
            .stdout
            .lines()
            .any(|l| l.starts_with("left out ") && l.ends_with("/tree/out  (--exclude 'out')")),
        "{}",
        text.stdout
    );
    run(&lab, "backup tree --to m --list").refused(&["--dry-run"]);
    // Capstan's own medium, though it lies in the tree.
    run(&lab, "backup tree --to tree/medium --name u").ok();
    let own = run(&lab, "backup tree --to tree/medium --name u --dry-run --list");
    assert!(
        own.ok()
            .stdout
            .contains("/tree/medium  (what is in it: it is capstan's own medium or home)"),
        "{}",
        own.stdout
    );
}

#[test]
fn another_medium_is_foreseen_as_it_comes() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "m", "--name", "t"]);
    for options in [&[][..], &["--incr"], &["--full"], &["--level", "3"]] {
        let args = [&["tree", "--to", "other", "--name", "t"], options].concat();
        let foreseen = lab.backup([&args[..], &["--dry-run"]].concat());
        let real = lab.backed_up(&args);
        let words = match real["method"].as_str().unwrap() {
            "incr" => "it would be incremental".to_owned(),
            method => format!("it would be {method}"),
        };
        assert!(foreseen["notes"].to_string().contains(&words), "{options:?}: {foreseen:#}");
        assert_eq!(foreseen["kept"], real["kept"], "{options:?}: {foreseen:#}");
    }
}

#[test]
fn a_path_that_is_named_and_not_backed_up_has_a_line_and_an_error() {
    let lab = lab();
    let last = |line: &str, code: u8| {
        let done = run(&lab, line);
        assert_eq!(i64::from(done.code), i64::from(code), "{line}: {}{}", done.stdout, done.stderr);
        assert!(done.stderr.contains("path-missing"), "{line}: {}", done.stderr);
        done.stdout.clone()
    };
    for named in ["tree nowhere", "tree nowhere/below", "tree m", "tree home"] {
        lab.sh("mkdir -p m home");
        let to = format!("--to {}", if named == "tree home" { "m2" } else { "m" });
        let home = if named == "tree home" { "--home home" } else { "" };
        let line = format!("{home} backup {named} {to} --name t");
        let path = lab.path(named.strip_prefix("tree ").unwrap());
        let said = last(&format!("{line} --dry-run --list"), 3);
        let is_it = |l: &str| l.starts_with("failed ") && l.ends_with(&path.display().to_string());
        assert_eq!(said.lines().filter(|l| is_it(l)).count(), 1, "{named}: {said}");
        last(&line, 3);
    }
    // Where nothing else is named nothing is done, whether the medium is there or is to be made.
    lab.sh("mkdir empty");
    for medium in ["m", "empty"] {
        let line = format!("backup {medium} --to {medium} --name own");
        run(&lab, &line).refused(&["nothing of it is backed up"]);
        run(&lab, &format!("{line} --dry-run")).refused(&["nothing of it is backed up"]);
    }
    assert_eq!(lab.sh("ls empty"), "", "it became a medium");
    // A medium that is not written to is backed up like anything else.
    run(&lab, "backup m --to m3 --name other").ok();
}
