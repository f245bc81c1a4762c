//! What is taken and what is left out.

use std::collections::BTreeSet;
use std::fs;

use serde_json::Value;

use crate::support::{Lab, Mount, can_mount, finish, is_root, report, skip};

fn lab() -> Lab {
    let lab = Lab::new();
    for name in [
        "a.c",
        "a.o",
        "keep.o",
        "src/b.c",
        "src/b.o",
        "src/deep/c.o",
        "cache/x",
        "work/cache/y",
        "tmp",
        "big",
    ] {
        lab.file(&format!("tree/{name}"), name);
    }
    lab.file("tree/big", vec![b'x'; 100_000]);
    lab
}

/// Paths below `tree` that the newest version of `t` has, directories left out.
fn listed(lab: &Lab) -> BTreeSet<String> {
    let run = lab.run(["ls", "t", "--json"]);
    let tree = format!("{}/", lab.path("tree").display());
    let files = run.ok().rows().into_iter();
    let files = files.filter(|f| f["type"] != "dir");
    files.filter_map(|f| f["path"].as_str()?.strip_prefix(&tree).map(str::to_owned)).collect()
}

#[track_caller]
fn takes(lab: &Lab, options: &[&str], expected: &[&str]) -> Value {
    let report = lab.backed_up(["tree", "--to", "medium", "--name", "t"].iter().chain(options));
    assert_eq!(listed(lab), expected.iter().map(|s| (*s).to_owned()).collect(), "{options:?}");
    report
}

#[test]
fn patterns() {
    let lab = lab();
    let report = takes(
        &lab,
        &["--exclude", "*.o", "--exclude", "cache/"],
        &["a.c", "src/b.c", "tmp", "big"],
    );
    assert!(report["skipped"].as_u64().unwrap() >= 6, "{report:#}");
    takes(
        &lab,
        &["--exclude", "*.o", "--include", "keep.o", "--exclude", "/cache"],
        &["a.c", "keep.o", "src/b.c", "cache/x", "work/cache/y", "tmp", "big"],
    );
    // Anchored at the root directory, as the documentation says.
    let cache = format!("{}/cache", lab.path("tree").display());
    takes(
        &lab,
        &["--exclude", &cache, "--exclude", "src"],
        &["a.c", "a.o", "keep.o", "work/cache/y", "tmp", "big"],
    );
    lab.file("list", "# a comment\n*.o\n\n!keep.o\n**/cache/*\n");
    takes(&lab, &["--exclude-from", "list"], &["a.c", "keep.o", "src/b.c", "tmp", "big"]);
    // What was left out is not restored, what was taken is.
    let into = lab.path("out");
    lab.restored(["t".as_ref(), "--into".as_ref(), into.as_os_str()]);
    let there = crate::support::below(&into, &lab.path("tree"));
    assert!(there.join("keep.o").exists() && !there.join("a.o").exists());
}

#[test]
fn tags_and_sizes() {
    let lab = lab();
    lab.file("tree/cache/CACHEDIR.TAG", "Signature: 8a477f597d28d172789f06886806bc55\n# more\n");
    lab.file("tree/work/CACHEDIR.TAG", "not the signature");
    lab.file("tree/src/.nobackup", "");
    let report = lab.backed_up(["tree", "--to", "medium", "--name", "t", "--exclude-caches"]);
    let has = listed(&lab);
    assert!(!has.contains("cache/x") && has.contains("work/cache/y"), "{has:?} {report:#}");
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--exclude-if-present", ".nobackup"]);
    let has = listed(&lab);
    assert!(
        !has.contains("src/b.c") && !has.contains("src/deep/c.o") && has.contains("cache/x"),
        "{has:?}"
    );
    takes(&lab, &["--files-of-size", "50K..1M"], &["big"]);
    takes(&lab, &["--files-of-size", "..3", "--exclude", ".nobackup"], &["a.c", "a.o", "tmp"]);
}

#[test]
fn paths_from_a_file() {
    let lab = lab();
    let at = |name: &str| lab.path("tree").join(name).display().to_string();
    let list = lab.file("list", format!("{}\n{}\n", at("a.c"), at("src")));
    lab.backed_up(["--files-from", list.to_str().unwrap(), "--to", "medium", "--name", "t"]);
    let expected = ["a.c", "src/b.c", "src/b.o", "src/deep/c.o"].map(str::to_owned);
    assert_eq!(listed(&lab), expected.into());
    // From standard input, ended by zero bytes.
    let list = lab.file("list", format!("{}\0{}\0", at("tmp"), at("keep.o")));
    let input = std::fs::File::open(list).unwrap();
    let args = ["backup", "--json", "--files-from", "-", "--to", "medium", "--name", "t"];
    crate::support::completed(report(finish(lab.command().args(args).stdin(input))));
    assert_eq!(listed(&lab), ["keep.o", "tmp"].map(str::to_owned).into());
}

#[test]
fn one_file_system() {
    if !can_mount() {
        return skip("file systems cannot be mounted here");
    }
    let lab = lab();
    let _mount = Mount::new(&["-t", "tmpfs", "-o", "size=1M", "tmpfs"], &lab.path("tree/other"));
    lab.file("tree/other/there", "x");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    assert!(listed(&lab).contains("other/there"));
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--one-file-system"]);
    let has = listed(&lab);
    assert!(!has.contains("other/there") && has.contains("a.c"), "{has:?}");
    // The mount point itself is there, as with tar and rsync.
    let into = lab.path("out");
    lab.restored(["t".as_ref(), "--into".as_ref(), into.as_os_str()]);
    assert!(crate::support::below(&into, &lab.path("tree/other")).is_dir());
}

#[test]
fn a_dry_run_writes_nothing() {
    let lab = lab();
    let report =
        lab.backed_up(["tree", "--to", "medium", "--name", "t", "--dry-run", "--exclude", "*.o"]);
    assert_eq!(report["files"], 6, "{report:#}");
    assert!(!lab.path("medium").exists());
    assert!(lab.run(["sessions", "--kind", "all", "--json"]).ok().rows().is_empty());
}

#[test]
fn the_root_directory_leaves_out_what_is_no_file() {
    if !is_root() {
        return skip("only root can list all of /");
    }
    let lab = lab();
    // Everything of this machine but its big trees; nothing is read.
    let run = lab.run([
        "backup",
        "/",
        "--to",
        "medium",
        "--dry-run",
        "--verbose",
        "--one-file-system",
        "--exclude",
        "/usr",
        "--exclude",
        "/var",
        "--exclude",
        "/home",
        "--exclude",
        "/root",
        "--exclude",
        "/work",
        "--exclude",
        "/tmp",
    ]);
    let said = format!("{}{}", run.stdout, run.stderr);
    for dir in ["/proc", "/sys", "/dev", "/run"] {
        assert!(said.contains(dir), "{dir} is not mentioned: {said}");
    }
    assert!(matches!(run.code, 0 | 3), "{said}");
}

#[test]
fn a_null_version_is_not_offered_for_restore() {
    let lab = lab();
    lab.backed_up(["tree", "--to", "null:", "--name", "t"]);
    let run = lab.run(["restore", "t", "--into", "out"]);
    assert_eq!(run.code, 2, "{}{}", run.stdout, run.stderr);
    assert!(!lab.path("out").exists());
}

/// What is open for writing is saved, left out, or an error, as asked for.
#[test]
fn files_in_use() {
    let lab = Lab::new();
    let path = lab.file("tree/open", "being written");
    lab.file("tree/closed", "not");
    let writer = fs::OpenOptions::new().append(true).open(path).unwrap();
    let of = |locked: &str| {
        let report = lab.backup(["tree", "--to", "medium", "--name", "t", "--locked", locked]);
        assert_eq!(report["in_use"], 1, "{report:#}");
        (report["status"].to_string(), report["files"].as_u64(), report["skipped"].as_u64())
    };
    assert_eq!(of("warn"), ("\"completed\"".to_owned(), Some(2), Some(0)));
    assert_eq!(of("skip"), ("\"completed\"".to_owned(), Some(1), Some(1)));
    assert_eq!(of("error"), ("\"completed_with_errors\"".to_owned(), Some(2), Some(0)));
    drop(writer);
}

#[test]
fn braces_are_no_alternatives() {
    let lab = Lab::new();
    for name in ["{keep,a}.o", "keep.o", "a.o", "x{y"] {
        lab.file(&format!("tree/{name}"), name);
    }
    takes(&lab, &["--exclude", "{keep,a}.o", "--exclude", "x{y"], &["keep.o", "a.o"]);
    takes(
        &lab,
        &["--exclude", "*", "--include", "x{y", "--include", "tree/", "--include", "*/"],
        &["x{y"],
    );
    let found = lab.run(["find", "{a,x{y}", "--json"]);
    assert!(found.ok().rows().is_empty());
    assert_eq!(lab.run(["find", "x{y", "--json"]).ok().rows().len(), 1);
}

#[test]
fn no_medium_of_ours_is_backed_up_unless_it_is_named() {
    let lab = Lab::new();
    lab.file("tree/file", "x");
    lab.backed_up(["tree", "--to", "tree/a", "--name", "t"]);
    lab.backed_up(["tree", "--to", "tree/b", "--name", "t"]);
    assert_eq!(listed(&lab), ["file".to_owned()].into());
    let dry = lab.backed_up(["tree", "--to", "tree/c", "--name", "t", "--dry-run"]);
    assert_eq!(dry["files"], 1, "{dry:#}");
    // Something else is there now: that is backed up.
    lab.sh("rm -r tree/a; mkdir tree/a; echo photo >tree/a/photo");
    takes(&lab, &[], &["file", "a/photo"]);
    // A path that is named is not opened to see whether it is a medium: a FIFO would wait for its other end.
    lab.sh("mkfifo pipe");
    lab.backed_up(["pipe", "--to", "copy", "--name", "p"]);
    // A medium that is named is wanted, except by itself.
    lab.backed_up(["tree/b", "--to", "copy", "--name", "m"]);
    let run = lab.run(["ls", "m"]);
    assert!(run.ok().stdout.contains("00000001.segment"), "{}", run.stdout);
}

/// As restic takes it, from the working directory; here it begins at the root directory.
#[test]
fn a_relative_pattern_that_matches_nothing_is_named() {
    let lab = lab();
    let backup = |pattern: &str| {
        let args = ["backup", "tree", "--to", "medium", "--name", "t", "--exclude", pattern];
        lab.run(args).ok().stderr.clone()
    };
    let said = backup("tree/cache");
    let whole = lab.path("tree/cache").display().to_string();
    for words in [
        "no-match",
        "'tree/cache' matches nothing: it means /tree/cache",
        &format!("write '{whole}'"),
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    // Nothing left that was there before.
    let said = backup("./tree/cache/");
    assert!(said.contains("no-match") && !said.contains("less is taken"), "{said}");
    assert!(listed(&lab).contains("cache/x"));
    let said = backup(&whole);
    assert!(!said.contains("no-match") && said.contains("less is taken"), "{said}");
    assert!(!listed(&lab).contains("cache/x"));
    // Lists that others share may have paths of others; what is relative there is named too.
    lab.file("list", "# all hosts\n/home/*/.cache\n*.iso\n");
    let from = |lab: &Lab| {
        let args = ["backup", "tree", "--to", "medium", "--name", "t", "--exclude-from", "list"];
        lab.run(args).ok().stderr.clone()
    };
    assert!(!from(&lab).contains("no-match"));
    lab.file("list", "tree/cache\n");
    let said = from(&lab);
    assert!(said.contains("'tree/cache' (") && said.contains(":1) matches nothing"), "{said}");
}
