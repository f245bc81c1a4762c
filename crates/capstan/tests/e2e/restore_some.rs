//! Restoring some of a backup: patterns as a backup has them, lists of paths, what would come; relative paths in all commands.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::compare::same_by_rsync;
use crate::support::{Lab, Run, below, finish, noise};

fn lab() -> Lab {
    let lab = Lab::new();
    for name in [
        "a.odt",
        "a.iso",
        "docs/b.odt",
        "docs/b.iso",
        "docs/keep.iso",
        "cache/c.odt",
        "work/cache/d.odt",
        "work/x",
        "docs/deep/er/e.odt",
    ] {
        lab.file(&format!("tree/{name}"), name);
    }
    lab.mkdir("tree/empty");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab
}

fn run(lab: &Lab, line: &str) -> Run {
    lab.run(line.split_whitespace())
}

/// What is below a directory, directories too, by find(1).
fn names(lab: &Lab, dir: &str) -> BTreeSet<String> {
    let found = lab.sh(&format!("cd {dir} && find . -mindepth 1 -printf '%P\\n'"));
    found.lines().map(str::to_owned).collect()
}

#[test]
fn patterns_mean_what_they_mean_in_a_backup() {
    let lab = lab();
    let docs = lab.path("tree/docs").display().to_string();
    let all_of_docs = format!("{docs}/*");
    lab.file("list", "# what is large\n*.iso\n!keep.iso\n");
    let cases: [&[&str]; 6] = [
        &["--exclude", "*.iso"],
        &["--exclude", "cache/", "--exclude", "*.iso", "--include", "keep.iso"],
        &["--exclude", "cache", "--include", "c.odt"],
        &["--exclude", &all_of_docs, "--include", "b.odt"],
        &["--exclude-from", "list", "--exclude", "/cache"],
        &["--exclude", "*", "--include", "*.odt", "--include", "docs"],
    ];
    for options in cases {
        // The tree itself is named here, so that it is taken whatever a pattern says.
        let tree = lab.path("tree").display().to_string();
        lab.backed_up(["tree", "--to", "medium", "--name", "u", "--full"].iter().chain(options));
        lab.restored(["u", &tree, "--into", "whole"]);
        lab.restored(["t", &tree, "--into", "some"].iter().chain(options));
        let of = |out: &str| below(&lab.path(out), &lab.path("tree"));
        same_by_rsync(&of("whole"), &of("some"));
        assert!(names(&lab, "some") == names(&lab, "whole"), "{options:?}");
        lab.sh("rm -r whole some");
    }
}

#[test]
fn includes_alone_say_what_is_wanted() {
    let lab = lab();
    let of = |options: &[&str]| {
        lab.restored(["t", "--into", "out"].iter().chain(options));
        let tree = below(&lab.path("out"), &lab.path("tree"));
        let found = lab.sh(&format!(
            "cd {} && find . -type f -printf '%P\\n'; rm -r {}",
            tree.display(),
            lab.path("out").display()
        ));
        found.lines().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let set = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<BTreeSet<_>>();
    let odt = ["a.odt", "docs/b.odt", "cache/c.odt", "work/cache/d.odt", "docs/deep/er/e.odt"];
    assert_eq!(of(&["--include", "*.odt"]), set(&odt));
    assert_eq!(
        of(&["--include", "cache", "--include", "*.iso", "--include", "!keep.iso"]),
        set(&["cache/c.odt", "work/cache/d.odt", "a.iso", "docs/b.iso"])
    );
    let docs = lab.path("tree/docs").display().to_string();
    assert_eq!(of(&[&docs, "--include", "*.odt"]), set(&["docs/b.odt", "docs/deep/er/e.odt"]));
    // A path that is named comes whatever is included; what is below it comes as the pattern says.
    let list = lab.path("tree/a.iso").display().to_string();
    assert_eq!(
        of(&[&docs, &list, "--include", "*.odt"]),
        set(&["a.iso", "docs/b.odt", "docs/deep/er/e.odt"])
    );
    lab.restored(["t", &docs, "--include", "*.none", "--into", "out"]);
    assert!(below(&lab.path("out"), &lab.path("tree/docs")).is_dir());
    assert_eq!(lab.sh("find out -type f; rm -r out"), "");
    // Directories on the way come with what was recorded of them, others do not come.
    lab.restored(["t", "--include", "e.odt", "--into", "out"]);
    let way = below(&lab.path("out"), &lab.path("tree"));
    let modes = "stat -c '%n %a %U %Y' . docs docs/deep docs/deep/er";
    let here = lab.sh(&format!("cd tree && {modes}"));
    assert_eq!(lab.sh(&format!("cd {} && {modes}", way.display())), here);
    assert!(!way.join("empty").exists() && !way.join("work").exists());
}

#[test]
fn the_list_is_what_comes() {
    let lab = lab();
    lab.sh("ln tree/a.odt tree/docs/second.odt; ln -s x tree/link; truncate -s 100000 tree/holes; mkfifo tree/fifo");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let docs = lab.path("tree/docs").display().to_string();
    let depth = lab.path("tree").components().count().to_string();
    let cases: [&[&str]; 7] = [
        &[],
        &["--exclude", "*.iso", "--exclude", "cache/"],
        &["--include", "*.odt"],
        // Its first name is not wanted: it comes with its contents.
        &["--include", "second.odt"],
        &[&docs],
        &[&docs, "--include", "second.odt"],
        &["--exclude", "work", "--strip", &depth],
    ];
    for options in cases {
        let list = lab.run(["restore", "t", "--into", "out", "--list"].iter().chain(options));
        let mut lines: Vec<&str> = list.ok().stdout.lines().collect();
        let total = lines.pop().unwrap();
        assert!(!lab.path("out").exists(), "a list restores nothing");
        let dry: Value = lab.restored(["t", "--into", "out", "--dry-run"].iter().chain(options));
        let report = lab.restored(["t", "--into", "out"].iter().chain(options));
        let (files, dirs) = (report["files"].as_u64().unwrap(), report["dirs"].as_u64().unwrap());
        assert_eq!(lines.len() as u64, files + dirs, "{options:?}: {}", list.stdout);
        for field in ["files", "dirs"] {
            assert_eq!(dry[field], report[field], "{options:?} {field}");
        }
        assert!(total.contains(&format!("in {files} file")), "{total}");
        let strip = options.contains(&"--strip");
        let listed: BTreeSet<String> =
            lines.iter().map(|l| l.rsplit('/').next().unwrap().to_owned()).collect();
        let there = names(&lab, "out");
        let there: BTreeSet<String> =
            there.iter().map(|p| p.rsplit('/').next().unwrap().to_owned()).collect();
        assert!(strip || listed == there, "{options:?}: {listed:?} {there:?}");
        assert_eq!(lines.len(), names(&lab, "out").len(), "{options:?}");
        let json =
            lab.run(["restore", "t", "--into", "out", "--list", "--json"].iter().chain(options));
        let json: Value = serde_json::from_str(&json.ok().stdout).unwrap();
        let rows = json["files"].as_array().unwrap();
        assert_eq!(rows.len(), lines.len());
        let bytes: u64 = rows.iter().map(|row| row["bytes"].as_u64().unwrap()).sum();
        assert_eq!(
            json["total"],
            serde_json::json!({"files": files, "dirs": dirs, "bytes": bytes})
        );
        // What lies in holes is listed, and not brought.
        assert_eq!(dry["bytes_written"], report["bytes_written"], "{options:?}");
        lab.sh("rm -r out");
    }
    // An archive has no directories on the way, and what it has is listed.
    for options in [&["--include", "*.iso"][..], &[&docs], &["--exclude", "*.odt"]] {
        let list = lab.run(["restore", "t", "--to-tar", "t.tar", "--list"].iter().chain(options));
        let listed = list.ok().stdout.lines().count() - 1;
        lab.restored(["t", "--to-tar", "t.tar"].iter().chain(options));
        let archived = lab.sh("tar tf t.tar | sort -u | wc -l");
        assert_eq!(archived.trim(), listed.to_string(), "{options:?}: {}", list.stdout);
    }
    // Without a target it is what --into would bring.
    assert_eq!(
        run(&lab, "restore t --list").ok().stdout,
        run(&lab, "restore t --list --into x").stdout
    );
    run(&lab, "restore t").refused(&["--into", "--list"]);
}

#[test]
fn what_matches_nothing_is_said() {
    let lab = lab();
    let said = run(&lab, "restore t --into out --exclude *.iso --exclude *.none --include /etc");
    let words = ["--exclude '*.none' leaves nothing out", "--include '/etc' takes nothing back"];
    for word in words {
        assert!(said.ok().stderr.contains(word), "{}", said.stderr);
    }
    assert!(!said.stderr.contains("*.iso"), "{}", said.stderr);
    lab.file("list", "*.odt\n\n# *.gone\n*.gone\n");
    let said = run(&lab, "restore t --list --exclude-from list");
    assert!(said.ok().stderr.contains("'*.gone' (list:4) leaves nothing out"), "{}", said.stderr);
    for target in ["--list", "--into out", "--to-tar t.tar", "--into out --dry-run"] {
        run(&lab, &format!("restore t {target} --include *.none"))
            .refused(&["leave nothing to restore", "'*.none' matches nothing"]);
    }
    assert!(!lab.path("t.tar").exists());
    let all = lab.path("tree").display().to_string();
    run(&lab, &format!("restore t {all}/*.odt --into out"))
        .refused(&["is not in this version", "--include"]);
    run(&lab, "restore t --list --exclude a[").refused(&["bad pattern 'a['"]);
}

#[test]
fn paths_come_from_files_and_from_here() {
    let lab = lab();
    let here =
        |dir: &str, args: &[&str]| finish(lab.command().current_dir(lab.path(dir)).args(args));
    lab.file("wanted", "a.odt\ndocs/deep\n");
    let out = lab.path("out").display().to_string();
    let wanted = lab.path("wanted").display().to_string();
    here("tree", &["restore", "t", "--files-from", &wanted, "--into", &out]).ok();
    let files = lab.sh("cd out && find . -type f -printf '%f\\n' | sort");
    assert_eq!(files.split_whitespace().collect::<Vec<_>>(), ["a.odt", "e.odt"]);
    here("tree", &["restore", "t", "--files-from", "/dev/null", "--into", &out])
        .refused(&["names no path"]);
    // A relative path begins at the working directory, in every command.
    for args in [
        &["ls", "t", "docs"][..],
        &["restore", "t", "docs", "--list"],
        &["diff", "t", "t", "docs"],
        &["compare", "t", "docs"],
        &["versions", "docs"],
        &["ls", "t", "./docs"],
        &["ls", "t", "docs/../docs/"],
    ] {
        here("tree", args).ok();
        let elsewhere = args
            .iter()
            .map(|arg| if *arg == "docs" { "tree/docs" } else { arg })
            .collect::<Vec<_>>();
        if elsewhere.contains(&"tree/docs") {
            assert_eq!(here(".", &elsewhere).ok().stdout, here("tree", args).stdout, "{args:?}");
        }
    }
    // What used to be read from the root is not taken for something else: the error has the other reading.
    let from_root = lab.path("tree/docs").display().to_string();
    let bare = from_root.trim_start_matches('/');
    for command in
        [&["ls", "t"][..], &["restore", "t", "--list"], &["diff", "t", "t"], &["compare", "t"]]
    {
        let args = [command, &[bare]].concat();
        here("tree", &args)
            .refused(&["as the working directory has it", &format!("the version has {from_root}")]);
        here("tree", &[command, &[&from_root]].concat()).ok();
    }
    here("tree", &["ls", "t", "no/such"]).refused(&["is not in this version"]);
}

#[test]
fn a_path_that_may_be_two_is_refused() {
    let lab = lab();
    // The same path below the root and below the working directory.
    let root = lab.path("tree").display().to_string();
    let twin = format!("tree/nested{root}");
    lab.sh(&format!("mkdir -p {twin}; touch {twin}/a.odt"));
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let path = format!("{}/a.odt", root.trim_start_matches('/'));
    let here = |path: &str| {
        finish(lab.command().current_dir(lab.path("tree/nested")).args(["ls", "t", path]))
    };
    here(&path).refused(&["both are there", &format!("./{path}"), &format!("/{path}")]);
    assert!(here(&format!("./{path}")).ok().stdout.contains("/nested/"));
    assert!(!here(&format!("/{path}")).ok().stdout.contains("/nested/"));
}

#[test]
fn several_objects_and_only_what_is_needed() {
    let lab = Lab::new();
    for tree in ["one", "two"] {
        lab.file(&format!("{tree}/small.odt"), tree);
        lab.file(&format!("{tree}/large.iso"), noise(7, 6_000_000));
        lab.file(&format!("{tree}/other.iso"), noise(8, 6_000_000));
        lab.backed_up([tree, "--to", "medium", "--name", tree]);
    }
    let both = run(&lab, "restore one --and two --include small.odt --into out --json");
    let reports: Vec<Value> =
        both.ok().stdout.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    assert!(!reports.is_empty(), "{}", both.stdout);
    assert_eq!(lab.sh("find out -type f | wc -l").trim(), "2");
    let read = |options: &[&str]| {
        let report = lab.restored(["one", "--into", "some"].iter().chain(options));
        lab.sh("rm -r some");
        report["bytes_read"].as_u64().unwrap()
    };
    assert!(read(&["--exclude", "*.iso"]) < 3_000_000);
    let one_of_two = read(&["--include", "large.iso"]);
    assert!((6_000_000..9_000_000).contains(&one_of_two), "{one_of_two}");
}

#[test]
fn one_name_of_a_file_whose_first_name_is_gone() {
    let lab = Lab::new();
    lab.file("tree/b", noise(9, 300_000));
    lab.sh("ln tree/b tree/c; ln tree/b tree/d");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab.sh("rm tree/b");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    for name in ["c", "d"] {
        run(&lab, &format!("restore t tree/{name} --into out")).ok();
        lab.sh(&format!(
            "find out -name {name} -exec cmp {{}} tree/{name} \\; | wc -l | grep -x 0; rm -r out"
        ));
    }
}

#[test]
fn a_dry_run_does_not_count_what_is_in_holes() {
    let lab = Lab::new();
    lab.sh("mkdir tree; truncate -s 500M tree/sparse; head -c 300000 /dev/urandom >>tree/sparse");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let dry = lab.restored(["t", "--into", "out", "--dry-run"]);
    let done = lab.restored(["t", "--into", "out"]);
    assert_eq!(dry["bytes_written"], done["bytes_written"], "{dry:#}");
}

/// Directories that are made on the way to what is asked for are as they were; those that are there stay as they are.
#[test]
fn directories_made_on_the_way_in_place_get_their_metadata() {
    let lab = Lab::new();
    lab.sh("mkdir -p t/ann/docs/x; echo 1 >t/ann/docs/x/thesis; echo 2 >t/ann/docs/x/other; chmod 755 t/ann t/ann/docs; chmod 2775 t/ann/docs/x");
    lab.sh("chown -R 1000:1000 t/ann 2>/dev/null; setfacl -m u:33:rwx t/ann/docs/x; touch -d 2020-01-01 t/ann/docs/x; true");
    lab.backed_up(["t", "--to", "m", "--name", "t"]);
    let thesis = lab.path("t/ann/docs/x/thesis");
    let ways: [&[&str]; 2] = [&[thesis.to_str().unwrap()], &["--include", "thesis"]];
    for way in ways {
        // What exists is not given the metadata of the version.
        lab.sh("chmod 750 t/ann; cp -a t kept; rm -r t/ann/docs");
        lab.restored([&["t", "--in-place"], way].concat());
        assert_eq!(lab.sh("rm -r kept/ann/docs/x/other; touch -d 2020-01-01 kept/ann/docs/x; cat t/ann/docs/x/thesis"), "1\n");
        let differs = lab.sh("rsync -aAXn --checksum --itemize-changes --delete kept/ t/ | grep -v '^[.]d..t.* ann/$\\|^[.]d..t.* ./$' || true");
        assert_eq!(differs, "", "{way:?}");
        lab.sh("rm -r kept t/ann/docs");
        lab.restored(["t", "--in-place"]);
    }
}
