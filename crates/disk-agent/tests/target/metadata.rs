//! Owners, extended attributes, ACLs, capabilities, directories, inode flags.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use capstan_format::entry::{Entry, Kind, Xattr};

use crate::{TIME, created, entry, file, is_root, open, restore, run, xattr};

fn user_xattr(value: &[u8]) -> Xattr {
    (b"user.capstan".to_vec(), value.to_vec())
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

#[test]
fn setuid_and_capabilities_survive_the_change_of_owner() {
    if !is_root("owners") {
        return;
    }
    let tmp = tempfile::tempdir().unwrap();
    let source = tmp.path().join("source");
    fs::write(&source, "x").unwrap();
    run("setcap", &["cap_net_raw,cap_net_bind_service+ep".as_ref(), source.as_ref()]);
    let capability = xattr(&source, "security.capability").expect("setcap sets it");
    let target = open(&tmp.path().join("target"));
    let mut worker = target.worker();
    for n in 0..3 {
        let entry = Entry {
            uid: 1000 + n,
            gid: 2000 + n,
            xattrs: vec![(b"security.capability".to_vec(), capability.clone())],
            ..file(0o6755)
        };
        let name = format!("f{n}");
        restore(&mut worker, &entry, b"", name.as_bytes(), b"contents").unwrap();
        let path = tmp.path().join("target").join(name);
        let meta = fs::metadata(&path).unwrap();
        assert_eq!((meta.uid(), meta.gid(), meta.mode() & 0o7777), (1000 + n, 2000 + n, 0o6755));
        assert_eq!((meta.mtime(), meta.mtime_nsec()), (TIME.sec, i64::from(TIME.nsec)));
        assert_eq!(xattr(&path, "security.capability").as_ref(), Some(&capability));
        let shown = run("getcap", &[path.as_ref()]);
        assert!(shown.contains("cap_net_bind_service,cap_net_raw=ep"), "{shown}");
    }
    assert_eq!(target.tally().totals(), Default::default());
}

#[test]
fn acls_of_files_and_directories() {
    let tmp = tempfile::tempdir().unwrap();
    let source = tmp.path().join("source");
    fs::create_dir(&source).unwrap();
    let spec = "u:daemon:rwx,g:sys:r-x,m::rx,o::---,d:u:daemon:rw,d:g::r";
    run("setfacl", &["-m".as_ref(), spec.as_ref(), source.as_ref()]);
    let acl = |name: &str| (name.as_bytes().to_vec(), xattr(&source, name).unwrap());
    let dir_entry = Entry {
        xattrs: vec![acl("system.posix_acl_access"), acl("system.posix_acl_default")],
        ..entry(Kind::Dir, (mode(&source)) as u16)
    };
    let file_entry = Entry {
        xattrs: vec![acl("system.posix_acl_access"), user_xattr(b"v")],
        ..file(mode(&source) as u16)
    };
    let root = tmp.path().join("target");
    let target = open(&root);
    let mut worker = target.worker();
    restore(&mut worker, &file_entry, b"source", b"file", b"x").unwrap();
    worker.finish_dir(&dir_entry, b"source").unwrap();
    let shown = |path: &Path| {
        let numeric = "--numeric --omit-header --absolute-names";
        let mut args: Vec<_> = numeric.split(' ').map(AsRef::as_ref).collect();
        args.push(path.as_ref());
        run("getfacl", &args)
    };
    assert_eq!(shown(&root.join("source")), shown(&source));
    let access: String = shown(&source)
        .lines()
        .filter(|l| !l.starts_with("default:"))
        .collect::<Vec<_>>()
        .join("\n");
    assert_eq!(shown(&root.join("source/file")).trim_end(), access.trim_end());
    assert_eq!(xattr(&root.join("source/file"), "user.capstan").unwrap(), b"v");
    let meta = fs::metadata(root.join("source")).unwrap();
    assert_eq!((meta.mtime(), meta.mtime_nsec()), (TIME.sec, i64::from(TIME.nsec)));
    assert_eq!(target.tally().totals(), Default::default());
}

#[test]
fn what_an_existing_directory_hands_down_is_not_taken() {
    let tmp = tempfile::tempdir().unwrap();
    run("setfacl", &["-m".as_ref(), "d:u:daemon:rwx,d:u::r".as_ref(), tmp.path().as_ref()]);
    if is_root("a group of others") {
        chown(tmp.path(), None, Some(4242)).unwrap();
        fs::set_permissions(tmp.path(), fs::Permissions::from_mode(0o2777)).unwrap();
    }
    let target = open(tmp.path());
    let mut worker = target.worker();
    for n in 0..3u8 {
        restore(&mut worker, &file(0o664), b"", &[b'a' + n], b"x").unwrap();
        restore(&mut worker, &file(0o664), b"dir", &[b'a' + n], b"x").unwrap();
    }
    worker.make_node(&entry(Kind::Fifo, 0o622), b"", b"fifo").unwrap();
    worker.finish_dir(&entry(Kind::Dir, 0o775), b"dir").unwrap();
    for (name, expected) in [
        ("a", 0o664),
        ("b", 0o664),
        ("c", 0o664),
        ("dir/a", 0o664),
        ("dir/c", 0o664),
        ("dir", 0o775),
        ("fifo", 0o622),
    ] {
        let path = tmp.path().join(name);
        let meta = fs::metadata(&path).unwrap();
        assert_eq!((meta.mode() & 0o7777, meta.gid()), (expected, file(0).gid), "{name}");
        assert_eq!(xattr(&path, "system.posix_acl_access"), None, "{name}");
        assert_eq!(xattr(&path, "system.posix_acl_default"), None, "{name}");
    }
    assert_eq!(target.tally().totals(), Default::default());
}

#[test]
fn directories_lose_acls_the_backup_has_not() {
    let tmp = tempfile::tempdir().unwrap();
    let dir = tmp.path().join("dir");
    fs::create_dir(&dir).unwrap();
    run("setfacl", &["-m".as_ref(), "u:daemon:rwx,d:u:daemon:rwx".as_ref(), dir.as_ref()]);
    open(tmp.path()).worker().finish_dir(&entry(Kind::Dir, 0o750), b"dir").unwrap();
    assert_eq!(mode(&dir), 0o750);
    assert_eq!(xattr(&dir, "system.posix_acl_access"), None);
    assert_eq!(xattr(&dir, "system.posix_acl_default"), None);
}

#[test]
fn privileged_attributes_of_every_kind() {
    if !is_root("attributes trusted.*") {
        return;
    }
    let tmp = tempfile::tempdir().unwrap();
    let target = open(tmp.path());
    let mut worker = target.worker();
    let trusted = || vec![(b"trusted.capstan".to_vec(), b"\0\x01\xff".to_vec())];
    for (name, kind) in [("s", Kind::Symlink), ("f", Kind::Fifo), ("c", Kind::CharDevice)] {
        let mut node = entry(kind, 0o600);
        (node.xattrs, node.target) = (trusted(), b"nowhere".to_vec());
        worker.make_node(&node, b"", name.as_bytes()).unwrap();
        let value = xattr(&tmp.path().join(name), "trusted.capstan");
        assert_eq!(value.as_deref(), Some(&b"\0\x01\xff"[..]), "{name}");
    }
    // What the file system does not take is counted, and the rest is done.
    let mut odd = file(0o640);
    odd.xattrs = vec![
        (b"nonsense".to_vec(), b"1".to_vec()),
        (b"user.a\0b".to_vec(), b"2".to_vec()),
        user_xattr(b"3"),
    ];
    restore(&mut worker, &odd, b"", b"odd", b"x").unwrap();
    assert_eq!(xattr(&tmp.path().join("odd"), "user.capstan").unwrap(), b"3");
    assert_eq!(mode(&tmp.path().join("odd")), 0o640);
    assert_eq!(target.tally().totals().xattrs_not_restored, 2);
    // One that is too large is an error of that file; mode and times are right all the same.
    odd.xattrs = vec![(b"user.big".to_vec(), vec![1; 1 << 20])];
    let e = restore(&mut worker, &odd, b"", b"big", b"x").unwrap_err();
    assert_eq!(e.path(), b"big");
    let meta = fs::metadata(tmp.path().join("big")).unwrap();
    assert_eq!((meta.mode() & 0o7777, meta.mtime()), (0o640, TIME.sec));
}

#[test]
fn owner_of_all_ones_is_counted() {
    let tmp = tempfile::tempdir().unwrap();
    let target = open(tmp.path());
    let entry = Entry { uid: u32::MAX, ..file(0o4711) };
    restore(&mut target.worker(), &entry, b"", b"f", b"x").unwrap();
    assert_eq!(mode(&tmp.path().join("f")), 0o711, "nobody's setuid is not given to us");
    assert_eq!(target.tally().totals().owners_not_restored, 1);
}

#[test]
fn inode_flags_come_last() {
    const IMMUTABLE: u32 = 0x10;
    const NODUMP: u32 = 0x40;
    const EXTENTS: u32 = 0x8_0000;
    if !is_root("the immutable flag") {
        return;
    }
    let tmp = tempfile::tempdir().unwrap();
    let target = open(tmp.path());
    let mut worker = target.worker();
    let flags = IMMUTABLE | NODUMP | EXTENTS;
    let file_entry = Entry { inode_flags: flags, ..file(0o444) };
    let dir_entry = Entry { inode_flags: flags, ..entry(Kind::Dir, 0o555) };
    created(worker.create_file(&file_entry, b"d", b"f").unwrap())
        .finish(&target, &file_entry)
        .unwrap();
    worker.finish_dir(&dir_entry, b"d").unwrap();
    worker.finish_flags(&file_entry, b"d", b"f").unwrap();
    worker.finish_flags(&dir_entry, b"", b"d").unwrap();
    let (dir, file) = (tmp.path().join("d"), tmp.path().join("d/f"));
    let shown = run("lsattr", &["-d".as_ref(), dir.as_ref(), file.as_ref()]);
    let write = fs::write(&file, "more");
    let replaced = restore(&mut worker, &file_entry, b"d", b"f", b"");
    let into = restore(&mut worker, &file_entry, b"d", b"new", b"");
    run("chattr", &["-i".as_ref(), dir.as_ref(), file.as_ref()]);
    for line in shown.lines() {
        let set = line.split(' ').next().unwrap();
        assert!(set.contains('i') && set.contains('d'), "{shown}");
    }
    assert!(write.is_err() && into.is_err());
    let message = replaced.unwrap_err().to_string();
    assert!(message.contains("cannot replace d/f") && message.contains("lsattr"), "{message}");
    assert_eq!(fs::metadata(&dir).unwrap().mtime_nsec(), i64::from(TIME.nsec));
    assert_eq!(target.tally().totals(), Default::default());
    // A flag that ext4 does not have (copy on write) keeps no other from being set.
    let odd = Entry { inode_flags: 0x0080_0000 | NODUMP, ..file_entry };
    restore(&mut worker, &odd, b"d", b"odd", b"x").unwrap();
    worker.finish_flags(&odd, b"d", b"odd").unwrap();
    let shown = run("lsattr", &[tmp.path().join("d/odd").as_ref()]);
    assert!(shown.split(' ').next().unwrap().contains('d'), "{shown}");
    assert_eq!(target.tally().totals().flags_not_restored, 1);
}
