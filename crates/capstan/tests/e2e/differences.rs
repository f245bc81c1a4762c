//! `diff` between versions and `compare` with the file system.

use serde_json::Value;

use crate::support::{Lab, Mount, Run, is_root, loop_devices, noise, skip};

/// The JSON of a run: changes by path below the tree, and the total.
fn changes(run: &Run) -> (Vec<(String, String, Vec<String>)>, Value) {
    let lines = run.rows();
    let object: Value = serde_json::from_str(&run.stdout).unwrap();
    let total = object["total"].clone();
    assert!(total.is_object(), "{}", run.stdout);
    let of = |l: &Value| {
        let path = l["path"].as_str().unwrap();
        let path = path.split_once("/tree").unwrap_or(("", path)).1.to_owned();
        let what = l["what"].as_array().unwrap().iter().map(|w| w.as_str().unwrap().to_owned());
        (path, l["change"].as_str().unwrap().to_owned(), what.collect())
    };
    (lines.iter().map(of).collect(), total)
}

fn has(changes: &[(String, String, Vec<String>)], path: &str, kind: &str, what: &[&str]) {
    let found = changes.iter().find(|c| c.0 == path);
    let found = found.unwrap_or_else(|| panic!("{path} is not in {changes:#?}"));
    assert_eq!(
        (found.1.as_str(), found.2.iter().map(String::as_str).collect()),
        (kind, what.to_vec()),
        "{path}"
    );
}

fn tree() -> Lab {
    let lab = Lab::new();
    for i in 0..300 {
        lab.file(&format!("tree/d{}/f{i}", i % 5), noise(i, 100));
    }
    lab.file("tree/a/b/c", "c");
    lab.sh("cd tree; ln d1/f1 linked; ln -s d1/f1 symlink; echo 1 >becomes; mkdir -p gone/deep; echo x >gone/deep/x; \
            truncate -s 20M sparse; echo end >>sparse");
    lab
}

const CHANGE: &str = "cd tree; printf 12345 >d1/f6; chmod 600 d2/f2; touch -d 2001-01-01 d3/f3; rm -r gone; \
    ln -sfn d2/f2 symlink; rm becomes; mkdir becomes; setfattr -n user.a -v b d4/f4; chown 12345 d0/f5; \
    mkdir new; echo hello >new/file; rm linked; cp d1/f1 linked";

fn expected(changes: &[(String, String, Vec<String>)]) {
    has(changes, "/d1/f6", "contents", &["size", "mtime"]);
    has(changes, "/d2/f2", "metadata", &["mode"]);
    has(changes, "/d3/f3", "contents", &["mtime"]);
    for gone in ["/gone", "/gone/deep", "/gone/deep/x"] {
        has(changes, gone, "removed", &[]);
    }
    has(changes, "/symlink", "contents", &["mtime", "target"]);
    has(changes, "/becomes", "type", &["type"]);
    has(changes, "/d4/f4", "metadata", &["xattrs"]);
    has(changes, "/d0/f5", "metadata", &["owner"]);
    has(changes, "/new", "added", &[]);
    has(changes, "/new/file", "added", &[]);
    let others = ["/d2/f7", "/d1/f11", "/sparse", "/a", "/a/b/c", "/d3"];
    assert!(changes.iter().all(|c| !others.contains(&c.0.as_str())), "{changes:#?}");
}

#[test]
fn two_versions_differ_where_the_tree_changed() {
    if !is_root() {
        return skip("only root gives files away");
    }
    let lab = tree();
    let first = lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let first = format!("t@{}", first["session"].as_str().unwrap());
    lab.sh(CHANGE);
    // An incremental and a full version say the same.
    for option in ["--incr", "--full"] {
        lab.backed_up(["tree", "--to", "medium", "--name", "t", option]);
        let run = lab.run(["diff", &first, "t", "--json"]);
        let (found, total) = changes(run.ok());
        expected(&found);
        assert_eq!((&total["removed"], &total["type"]), (&3.into(), &1.into()), "{total}");
        assert_eq!(total["added_bytes"], 6, "{total}");
        let (found, total) = changes(lab.run(["diff", "t", "t", "--json"]).ok());
        assert!(found.is_empty() && total["unchanged"].as_u64() > Some(300), "{found:?} {total}");
    }
    // The other way round what was added is removed.
    let (found, _) = changes(lab.run(["diff", "t", &first, "--json"]).ok());
    has(&found, "/new/file", "removed", &[]);
    has(&found, "/gone/deep/x", "added", &[]);
}

#[test]
fn paths_and_text_of_a_diff() {
    if !is_root() {
        return skip("only root gives files away");
    }
    let lab = tree();
    let first = lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let first = format!("t@{}", first["session"].as_str().unwrap());
    lab.sh(CHANGE);
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--incr"]);
    let below = lab.path("tree/d2");
    let run = lab.run(["diff", &first, "t", below.to_str().unwrap()]);
    let line = format!("U  {}/f2  (mode 0644 -> 0600)\n", below.display());
    assert_eq!(
        run.ok().stdout,
        line + "Added 0 (0 B), removed 0 (0 B), other kind 0, contents changed 0, metadata changed 1, the same 60\n"
    );
    lab.run(["diff", &first, "t", "/no/such"]).refused(&["/no/such", "neither"]);
    lab.run(["diff", &first, "other"]).refused(&["other"]);
}

#[test]
fn other_objects_compare_by_their_paths() {
    let lab = tree();
    lab.backed_up(["tree", "--to", "medium", "--name", "one"]);
    lab.backed_up(["tree/d1", "tree/d2", "--to", "medium", "--name", "two"]);
    let (found, total) = changes(lab.run(["diff", "two", "one", "--json"]).ok());
    has(&found, "/d3/f3", "added", &[]);
    assert_eq!((&total["removed"], &total["contents"]), (&0.into(), &0.into()), "{found:?}");
}

fn compare(lab: &Lab, code: i32, args: &[&str]) -> (Vec<(String, String, Vec<String>)>, Value) {
    let run = lab.run([&["compare", "t", "--json"], args].concat());
    assert_eq!(run.code, code, "{}{}", run.stdout, run.stderr);
    changes(&run)
}

#[test]
fn a_version_compares_with_the_live_tree() {
    if !is_root() {
        return skip("only root gives files away");
    }
    let lab = tree();
    lab.file("tree/left.out", "x");
    lab.backed_up(["tree", "--to", "medium", "--name", "t", "--exclude", "*.out"]);
    let (found, total) = compare(&lab, 0, &[]);
    assert!(found.is_empty() && total["unchanged"].as_u64() > Some(300), "{found:?} {total}");
    compare(&lab, 0, &["--contents"]);
    lab.sh(CHANGE);
    lab.file("tree/another.out", "x");
    let (found, total) = compare(&lab, 4, &[]);
    expected(&found);
    has(&found, "/d1/f1", "metadata", &["hard link"]);
    assert!(!found.iter().any(|c| c.0.contains(".out")), "{found:?}");
    assert_eq!(total["removed"], 3, "{total}");
    // Of a path alone; and after a restore in place all is as it was, apart from what is new.
    let path = |p: &str| lab.path(format!("tree/{p}")).to_str().unwrap().to_owned();
    assert_eq!(compare(&lab, 4, &[&path("new")]).0.len(), 2);
    compare(&lab, 0, &[&path("d1/f11"), &path("a")]);
    lab.run(["compare", "t", "/no/such"]).refused(&["/no/such"]);
    lab.sh("cd tree; rm -r becomes new linked symlink");
    lab.restored(["t", "--in-place", "--overwrite", "always"]);
    compare(&lab, 0, &["--contents"]);
}

/// A file system gives the numbers of inodes that were removed to those that a restore makes.
#[test]
fn a_restored_tree_whose_inodes_have_the_numbers_of_before_is_the_same() {
    if !loop_devices() {
        return skip("loop devices cannot be mounted here");
    }
    let lab = Lab::new();
    lab.sh("truncate -s 64M image; mkfs.ext4 -q image");
    let image = lab.path("image").display().to_string();
    let _mount = Mount::new(&["-o", "loop", &image], &lab.path("at"));
    lab.sh("mkdir at/tree; echo 1 >at/tree/1; sleep 0.05");
    lab.backed_up(["at/tree", "--to", "medium", "--name", "t"]);
    let before = lab.sh("stat -c %i at/tree/1");
    lab.sh("rm -r at/tree");
    lab.restored(["t", "--in-place"]);
    assert_eq!(lab.sh("stat -c %i at/tree/1"), before);
    let (found, total) = compare(&lab, 0, &[]);
    assert!(found.is_empty() && total["unchanged"] == 2, "{found:?} {total}");
    // What is the inode of before says that it changed.
    lab.backed_up(["at/tree", "--to", "medium", "--name", "t"]);
    lab.sh("sleep 0.05; cd at/tree; touch -r 1 ../stamp; echo X >1; touch -r ../stamp 1");
    has(&compare(&lab, 4, &[]).0, "/1", "metadata", &["ctime"]);
}

#[test]
fn contents_are_compared_byte_by_byte() {
    let lab = tree();
    let huge = noise(5, 70_000_000);
    lab.file("tree/huge", &huge);
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    // A byte in a huge file, one in a hole, one in a small file: each with its time put back; and a time alone.
    lab.sh("cd tree; for f in huge:60000000 sparse:9000000 d1/f6:50; do name=${f%:*}; touch -r $name ../stamp; \
            printf '\\377' | dd of=$name bs=1 seek=${f#*:} conv=notrunc status=none; touch -r ../stamp $name; done; touch d2/f7");
    let (found, _) = compare(&lab, 4, &[]);
    has(&found, "/huge", "metadata", &["ctime"]);
    has(&found, "/d2/f7", "contents", &["mtime"]);
    let (found, _) = compare(&lab, 4, &["--contents"]);
    for path in ["/huge", "/sparse", "/d1/f6"] {
        has(&found, path, "contents", &["ctime", "contents"]);
    }
    has(&found, "/d2/f7", "metadata", &["mtime"]);
    assert_eq!(found.len(), 4, "{found:?}");
}

#[test]
fn a_version_without_record_of_its_paths_compares_too() {
    let lab = tree();
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    std::fs::remove_dir_all(lab.path("home")).unwrap();
    lab.run(["import", "medium"]).ok();
    compare(&lab, 0, &[]);
    lab.file("tree/more", "x");
    let (found, _) = compare(&lab, 4, &[]);
    has(&found, "/more", "added", &[]);
}

#[test]
fn what_is_no_tree_is_not_compared() {
    let lab = Lab::new();
    lab.backed_up(["--from-command", "echo x", "--name", "t", "--to", "medium"]);
    lab.run(["compare", "t"]).refused(&["standard input or a command"]);
}

/// A hard link beyond what one system call takes is the link that it was.
#[test]
fn a_hard_link_of_a_long_path_is_unchanged() {
    let lab = Lab::new();
    lab.mkdir("tree");
    crate::oddities::make_deep(&lab.path("tree/deep"));
    lab.sh("cd tree; echo a >a; ln a a2");
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    let (found, _) = compare(&lab, 0, &[]);
    assert!(found.is_empty(), "{found:?}");
    // One whose first name is another file now.
    lab.sh("cd tree; cp -p a b; mv b a");
    let (found, _) = compare(&lab, 4, &[]);
    assert!(found.iter().any(|c| c.0.ends_with("/a2") && c.2 == ["hard link"]), "{found:?}");
}
