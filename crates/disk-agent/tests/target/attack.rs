//! Media that want to write elsewhere, and targets prepared for that: nothing outside changes.

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};

use capstan_disk_agent::target::TargetError;
use capstan_format::entry::Kind;

use crate::{entry, file, open, restore};

fn assert_conflict<T: std::fmt::Debug>(result: Result<T, TargetError>, path: &[u8]) {
    match result {
        Err(TargetError::Conflict { path: found, .. }) => assert_eq!(found.0, path),
        other => panic!("no conflict but {other:?}"),
    }
}

#[test]
fn symbolic_links_lead_nowhere() {
    let tmp = tempfile::tempdir().unwrap();
    let (outside, root) = (tmp.path().join("outside"), tmp.path().join("target"));
    fs::create_dir_all(outside.join("sub")).unwrap();
    fs::write(outside.join("victim"), "untouched").unwrap();
    fs::create_dir_all(root.join("real")).unwrap();
    symlink(&outside, root.join("dir")).unwrap();
    symlink("../../outside", root.join("real/relative")).unwrap();
    symlink("real", root.join("inside")).unwrap();
    let before = fs::metadata(&outside).unwrap();
    let target = open(&root);
    let mut worker = target.worker();
    let evil = file(0o6777);
    for (dir, at) in [
        (&b"dir"[..], &b"dir"[..]),
        (b"dir/sub", b"dir"),
        (b"dir/new/deeper", b"dir"),
        (b"real/relative", b"real/relative"),
        (b"real/relative/sub", b"real/relative"),
        (b"inside", b"inside"),
    ] {
        assert_conflict(restore(&mut worker, &evil, dir, b"victim", b"evil"), at);
        assert_conflict(worker.make_dir(dir), at);
        assert_conflict(worker.finish_dir(&entry(Kind::Dir, 0o777), dir), at);
        assert_conflict(worker.open_part(dir, b"victim"), at);
        assert_conflict(worker.finish_file(&evil, dir, b"victim"), at);
        assert_conflict(worker.make_node(&entry(Kind::Fifo, 0o666), dir, b"fifo"), at);
        assert_conflict(worker.make_link(dir, b"link", b"", b"real"), at);
        assert_conflict(worker.make_link(b"", b"stolen", dir, b"victim"), at);
    }
    // Symbolic links in the place of files are neither written to nor given metadata.
    symlink(outside.join("victim"), root.join("real/victim")).unwrap();
    assert_conflict(worker.open_part(b"real", b"victim"), b"real/victim");
    assert_conflict(worker.finish_file(&evil, b"real", b"victim"), b"real/victim");
    worker
        .finish_flags(
            &capstan_format::entry::Entry { inode_flags: 0x10, ..file(0) },
            b"real",
            b"victim",
        )
        .unwrap();
    assert_eq!(target.tally().totals().flags_not_restored, 1);
    restore(&mut worker, &evil, b"real", b"victim", b"mine").unwrap();
    assert!(fs::symlink_metadata(root.join("real/victim")).unwrap().is_file());

    let after = fs::metadata(&outside).unwrap();
    assert_eq!((before.ctime(), before.ctime_nsec()), (after.ctime(), after.ctime_nsec()));
    assert_eq!(fs::read(outside.join("victim")).unwrap(), b"untouched");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
    assert_eq!(fs::read_dir(outside.join("sub")).unwrap().count(), 0);
}

/// A directory that the same medium has as a symbolic link first.
#[test]
fn links_from_the_medium_are_not_followed_either() {
    let tmp = tempfile::tempdir().unwrap();
    let outside = tempfile::tempdir().unwrap();
    let target = open(tmp.path());
    let mut worker = target.worker();
    let mut link = entry(Kind::Symlink, 0o777);
    link.target = outside.path().as_os_str().as_encoded_bytes().to_vec();
    worker.make_node(&link, b"", b"etc").unwrap();
    assert_conflict(restore(&mut worker, &file(0o644), b"etc", b"passwd", b"evil"), b"etc");
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
}

#[test]
fn bad_names_are_refused() {
    let tmp = tempfile::tempdir().unwrap();
    let root = tmp.path().join("a/target");
    let target = open(&root);
    let mut worker = target.worker();
    let link = capstan_format::entry::Entry { target: b"x".to_vec(), ..entry(Kind::Symlink, 0) };
    let bad = |result: Result<(), TargetError>| {
        assert!(matches!(result, Err(TargetError::BadName { .. })), "{result:?}");
    };
    for name in [&b""[..], b".", b"..", b"../x", b"a/b", b"/etc", b"a\0b"] {
        bad(restore(&mut worker, &file(0o644), b"", name, b"x"));
        bad(worker.make_node(&link, b"", name).map(|_| ()));
        bad(worker.open_part(b"", name).map(|_| ()));
        bad(worker.finish_file(&file(0), b"", name));
        bad(worker.make_link(b"", name, b"", b"x").map(|_| ()));
        bad(worker.make_link(b"", b"x", b"", name).map(|_| ()));
    }
    for dir in [&b".."[..], b"a/../../..", b"/tmp", b"a//b", b"a/", b"./a", b"a\0"] {
        bad(restore(&mut worker, &file(0o644), dir, b"x", b"x"));
        bad(worker.make_dir(dir));
        bad(worker.finish_dir(&entry(Kind::Dir, 0o755), dir));
        bad(worker.make_node(&link, dir, b"x").map(|_| ()));
        bad(worker.make_link(b"", b"x", dir, b"x").map(|_| ()));
    }
    for text in [&b""[..], b"a\0b"] {
        let link = capstan_format::entry::Entry { target: text.to_vec(), ..link.clone() };
        bad(worker.make_node(&link, b"", b"l").map(|_| ()));
    }
    assert_eq!(fs::read_dir(&root).unwrap().count(), 0);
    assert_eq!(fs::read_dir(tmp.path().join("a")).unwrap().count(), 1);
    // A row of a kind that is no node is an error, not a panic.
    assert!(worker.make_node(&entry(Kind::Part, 0), b"", b"x").is_err());
}

#[test]
fn files_and_directories_do_not_replace_each_other() {
    let tmp = tempfile::tempdir().unwrap();
    fs::create_dir_all(tmp.path().join("dir/full")).unwrap();
    fs::write(tmp.path().join("file"), "kept").unwrap();
    let target = open(tmp.path());
    let mut worker = target.worker();
    assert_conflict(restore(&mut worker, &file(0o644), b"", b"dir", b"x"), b"dir");
    assert_conflict(worker.make_node(&entry(Kind::Fifo, 0o644), b"", b"dir"), b"dir");
    assert_conflict(worker.make_link(b"", b"dir", b"", b"file"), b"dir");
    assert_conflict(worker.open_part(b"", b"dir"), b"dir");
    assert_conflict(worker.make_dir(b"file"), b"file");
    assert_conflict(restore(&mut worker, &file(0o644), b"file/sub", b"x", b"x"), b"file");
    let message = worker.make_dir(b"file").unwrap_err().to_string();
    assert!(message.starts_with("file is a file where a directory belongs"), "{message}");
    assert_eq!(fs::read(tmp.path().join("file")).unwrap(), b"kept");
    assert!(tmp.path().join("dir/full").is_dir());
}
