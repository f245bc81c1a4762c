//! What a restore and the commands that look at backups refuse: before anything is written or recorded.

use std::fs;

use crate::support::{Lab, Mount, Run, below, can_mount, is_root, noise, skip};

fn lab() -> Lab {
    let lab = Lab::new();
    for i in 0..20 {
        lab.file(&format!("tree/f{i}"), noise(i, 200_000));
    }
    lab.backed_up(["tree", "--to", "medium", "--name", "t"]);
    lab
}

fn restore(lab: &Lab, args: &[&str]) -> Run {
    lab.run(["restore", "t"].iter().chain(args))
}

/// No session but backups is on record.
fn nothing_recorded(lab: &Lab) {
    let sessions = lab.run(["sessions", "--kind", "all", "--json"]).ok().json_lines();
    assert!(!sessions.contains(r#""kind":"restore""#), "{sessions}");
}

#[test]
fn a_target_that_cannot_be_written() {
    let lab = lab();
    lab.mkdir("dir");
    restore(&lab, &["--into", "/dev/null/x"]).refused(&["/dev/null/x", "hint"]);
    restore(&lab, &["--into", ""]).refused(&["--into"]);
    restore(&lab, &["--to-tar", ""]).refused(&["--to-tar"]);
    restore(&lab, &["--to-tar", "/nope/x.tar"]).refused(&["/nope/x.tar", "no such", "hint"]);
    restore(&lab, &["--to-tar", "dir"]).refused(&["dir", "directory", "hint"]);
    restore(&lab, &["--into", "out", "--strip", "99"]).refused(&["--strip 99", "hint"]);
    assert!(!lab.path("out").exists());
    nothing_recorded(&lab);
}

#[test]
fn a_plain_users_target() {
    if !is_root() {
        return skip("only root can become another user");
    }
    let lab = Lab::of_user();
    lab.file("tree/file", "content");
    lab.sh("mkdir locked");
    lab.run(["backup", "tree", "--to", "medium", "--name", "t"]).ok();
    lab.sh("chmod 555 locked");
    restore(&lab, &["--into", "locked"]).refused(&["locked", "permission denied", "hint"]);
    nothing_recorded(&lab);
    // Where all goes into directories that are there and his, he may.
    let top = lab.path("tree").components().nth(1).unwrap().as_os_str().to_owned();
    let top = lab.path("locked").join(top);
    lab.sh(&format!("chmod 755 locked; mkdir '{}'; chmod 555 locked", top.display()));
    restore(&lab, &["--into", "locked"]).ok();
    assert!(below(&lab.path("locked"), &lab.path("tree/file")).exists());
    lab.sh("chmod 755 locked");
}

#[test]
fn a_medium_that_is_not_there() {
    let lab = lab();
    fs::rename(lab.path("medium"), lab.path("elsewhere")).unwrap();
    for to in [["--into", "out"], ["--to-tar", "out"]] {
        restore(&lab, &to).refused(&["medium 'medium'", "no such", "mount it there", "import"]);
        assert!(!lab.path("out").exists());
    }
    lab.run(["verify", "t"]).refused(&["medium 'medium'", "hint"]);
    nothing_recorded(&lab);
    lab.run(["import", "elsewhere"]).ok();
    restore(&lab, &["--into", "out"]).ok();
}

#[test]
fn a_target_that_fills_ends_the_restore_with_one_error() {
    if !can_mount() {
        return skip("file systems cannot be mounted here");
    }
    let lab = lab();
    let _mount = Mount::new(&["-t", "tmpfs", "-o", "size=1M", "tmpfs"], &lab.path("small"));
    let report = lab.restore(["t", "--into", "small/out"]);
    assert_eq!(
        (&report["status"], &report["error_count"]),
        (&"failed".into(), &1.into()),
        "{report:#}"
    );
    let error = report["errors"][0]["error"].as_str().unwrap();
    assert!(error.contains("No space left") && error.contains("free space"), "{error}");
}

#[test]
fn what_is_not_there_is_said() {
    let lab = lab();
    let tree = lab.path("tree");
    let one = tree.join("f1");
    let run = lab.run(["ls".as_ref(), "t".as_ref(), "/nope".as_ref(), one.as_os_str()]);
    run.refused(&["/nope", "not in this version", "hint"]);
    assert_eq!(run.stdout.trim(), one.display().to_string(), "what is there is listed");
    lab.run(["ls".as_ref(), "t".as_ref(), tree.as_os_str()]).ok();
    for args in [["versions", "/nope"], ["find", "nope"]] {
        let run = lab.run(args);
        assert_eq!((run.code, run.stdout.as_str()), (0, ""));
        assert!(run.stderr.contains("nothing found"), "{}", run.stderr);
    }
    assert_eq!(lab.run(["find", "nope", "--quiet"]).ok().stderr, "");
}

#[test]
fn a_name_may_look_like_one_with_a_session() {
    let lab = Lab::new();
    lab.file("tree/x", "x");
    lab.backed_up(["tree", "--to", "medium", "--name", "a@b"]);
    lab.run(["ls", "a@b"]).ok();
    lab.restored(["a@b", "--into", "out"]);
    lab.run(["ls", "a@c"]).refused(&["no object is called"]);
}

/// A pool is a place like any other.
#[test]
fn a_backup_to_a_pool_that_is_refused_is_on_record() {
    let lab = Lab::new();
    lab.file("tree/f", "one");
    lab.run(["pool", "create", "disks"]).ok();
    lab.run(["media", "init", "medium", "--pool", "disks"]).ok();
    let args = ["tree", "--to", "pool:disks", "--name", "t"];
    lab.backed_up(args);
    lab.sh("mv tree away");
    assert_eq!(lab.run(["backup"].iter().chain(&args)).code, 2);
    let status = lab.run(["status"]);
    assert!(
        status.stdout.contains("WARNING") && status.stdout.contains("refused"),
        "{}",
        status.stdout
    );
    lab.sh("mv away tree");
    lab.backed_up(args);
    lab.run(["status"]).ok();
}
